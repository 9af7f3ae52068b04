"""/livez, /readyz and /metrics over plain HTTP."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

from vscheduler.daemon import readiness, settings
from vscheduler.daemon.leader_election import api

log = structlog.get_logger(__name__)

CLOSE_SECONDS = 1.0
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ListenError(Exception):
    """A server's address can't be listened on."""


def pages(
    *,
    report: Callable[[], readiness.Report],
    exposition: Callable[[], bytes] | None,
    standings: Callable[[], Sequence[api.Standing]],
    stuck: Callable[[], str] = str,
) -> web.Application:
    """What a server answers: liveness, readiness, and the metrics where they are wanted.

    /healthz is Volcano's name for liveness. A standby is as ready as a leader: an update waits for
    readiness, and the new instance can't lead before the old one has gone. `stuck` says why only a
    new process can help, where that is so.
    """

    async def live(_: web.Request) -> web.Response:
        why = stuck()
        return web.Response(status=503, text=f"{why}\n") if why else web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        why, found = stuck(), report()
        waits = (why, *found.waits) if why else found.waits
        lines = (*(waits or ("ok",)), *found.without, *map(told, standings()))
        text = "".join(f"{line}\n" for line in lines)
        return web.Response(status=503 if waits else 200, text=text)

    async def metrics(_: web.Request) -> web.Response:
        assert exposition is not None
        return web.Response(body=exposition(), headers={"Content-Type": METRICS_TYPE})

    application = web.Application()
    application.router.add_get("/livez", live)
    application.router.add_get("/healthz", live)
    application.router.add_get("/readyz", ready)
    if exposition is not None:
        application.router.add_get("/metrics", metrics)
    return application


def told(standing: api.Standing) -> str:
    """How it stands with one Lease, for people: `vscheduler: standby, held by a-7d4f`."""
    if standing.leads:
        words = "leader"
    elif standing.holder:
        words = f"standby, held by {standing.holder}"
    else:
        words = "standby"
    return f"{standing.lease}: {words}{'; ' if standing.problem else ''}{standing.problem}"


@asynccontextmanager
async def serving(application: web.Application, address: settings.Address) -> AsyncIterator[int]:
    """Serve for the time of the block; gives the port. Raises ListenError."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=CLOSE_SECONDS)
    await runner.setup()
    try:
        try:
            site = web.TCPSite(runner, address.host or None, address.port)
            await site.start()
        except OSError as error:
            raise ListenError(f"can't listen on {address.host}:{address.port}: {error}") from error
        port = int(runner.addresses[0][1])
        log.info("server.listening", host=address.host, port=port)
        yield port
    finally:
        await runner.cleanup()
