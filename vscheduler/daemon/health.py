"""/livez, /readyz and /metrics over plain HTTP."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

from vscheduler.daemon import leadership, settings

log = structlog.get_logger(__name__)

CLOSE_SECONDS = 1.0
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ListenError(Exception):
    """A server's address can't be listened on."""


def pages(
    *,
    ready: Callable[[], bool],
    exposition: Callable[[], bytes] | None,
    standings: Callable[[], Sequence[leadership.Standing]],
) -> web.Application:
    """What a server answers: liveness, readiness, and the metrics where they are wanted.

    /healthz is Volcano's name for liveness. A standby is as ready as a leader: an update waits for
    readiness, and the new instance can't lead before the old one has gone.
    """

    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readiness(_: web.Request) -> web.Response:
        leases = "".join(f"{told(standing)}\n" for standing in standings())
        if ready():
            return web.Response(text=f"ok\n{leases}")
        return web.Response(status=503, text=f"the first lists aren't in yet\n{leases}")

    async def metrics(_: web.Request) -> web.Response:
        assert exposition is not None
        return web.Response(body=exposition(), headers={"Content-Type": METRICS_TYPE})

    application = web.Application()
    application.router.add_get("/livez", live)
    application.router.add_get("/healthz", live)
    application.router.add_get("/readyz", readiness)
    if exposition is not None:
        application.router.add_get("/metrics", metrics)
    return application


def told(standing: leadership.Standing) -> str:
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
