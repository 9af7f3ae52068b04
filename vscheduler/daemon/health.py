"""HTTP endpoints /livez, /readyz and /metrics, and the content of /readyz."""

import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import msgspec
import structlog
from aiohttp import web

from vscheduler.cluster.http.connection import ApiError, Forbidden, NotFound
from vscheduler.daemon.leader_election.api import LeaseStatus
from vscheduler.daemon.settings import Address
from vscheduler.mirror import paths
from vscheduler.mirror.decode.events import Kind

log = structlog.get_logger(__name__)

CLOSE_SECONDS = 1.0
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

NEEDED = frozenset({Kind.NODE, Kind.POD, Kind.POD_GROUP, Kind.QUEUE})
"""Kinds without which no decision is possible. All other kinds may be missing, because an older
cluster does not serve them or a smaller role does not permit reading them."""

VOLCANO = frozenset({Kind.POD_GROUP, Kind.QUEUE})
"""Kinds that are needed only where Kubernetes' own PodGroups aren't served."""

CONSEQUENCES = {
    Kind.QUEUE: "without Queue: all jobs are in the default queue, which has no limits",
    Kind.POD_GROUP: "without Volcano's PodGroup: each pod without a PodGroup starts alone",
}
"""What the absence of Volcano's kinds means."""

REFUSED_SECONDS = 10.0
"""How long a kind must be refused before the daemon continues without the kind: a starting server
refuses, too."""

FAILING_SECONDS = 10.0
"""How long a kind's watch may fail, while other watches work, before readiness is affected."""

SILENT_SECONDS = 30.0
"""How long nothing may come from a kind's watches. In a quiet cluster, the API server ends a watch
after 20 s at most, and a silent watch is given up after 24 s. The rest is for opening the next
one."""

MESSAGE_MAX = 300


class WatchState(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a watched kind."""

    kind: Kind
    listed: bool
    """Whether the first list has arrived."""
    problem: ApiError | None = None
    """Why the watch currently fails."""
    seconds: float = 0.0
    """How long the watch has been failing."""
    unserved: bool = False
    """Whether the API server doesn't serve the kind, though the last attempt may have failed
    otherwise."""
    replaced: bool = False
    """Whether Kubernetes' own PodGroups are served, which replace Volcano's kinds."""
    silent_seconds: float = 0.0
    """How long nothing has come from the kind's watches, even if they could be opened."""

    @property
    def refused(self) -> bool:
        """Whether the server knows our credentials, but does not serve or show the kind."""
        match self.problem:
            case NotFound():
                return True
            case Forbidden(status=status):
                return status == 403
        return False

    @property
    def needed(self) -> bool:
        """Whether no decision is possible without the kind."""
        replaced = self.kind in VOLCANO and self.replaced and self.unserved
        return self.kind in NEEDED and not replaced

    @property
    def silent(self) -> bool:
        """Whether watches are open, as it seems, and nothing comes through them."""
        known = self.refused or self.absent
        return self.listed and not known and self.silent_seconds >= SILENT_SECONDS

    @property
    def absent(self) -> bool:
        """Whether the daemon continues without the kind.

        API servers before 1.34 don't serve the kinds about devices, and HyperNodes come with a CRD.
        What was listed before stays known, but of Volcano's kinds nothing is left with their CRD.
        """
        if self.kind in VOLCANO:
            return self.unserved and not self.needed and self.seconds >= REFUSED_SECONDS
        missing = isinstance(self.problem, NotFound) and self.kind in paths.OPTIONAL_KINDS
        lasting = self.refused and (missing or self.seconds >= REFUSED_SECONDS)
        return lasting and not self.needed and not self.listed


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The sentences of /readyz. Without `waits`, the instance is ready."""

    waits: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()
    """One line for each Lease."""

    def __add__(self, other: "Report") -> "Report":
        """Return the sentences of both."""
        return Report(
            waits=self.waits + other.waits,
            without=self.without + other.without,
            leases=self.leases + other.leases,
        )


def report(watches: Sequence[WatchState], lease_statuses: Sequence[LeaseStatus] = ()) -> Report:
    """Return the report for the watched kinds and Leases."""
    waits = []
    unreachable = _unreachable(watches, lease_statuses)
    if unreachable:
        waits.append(f"the API server can't be reached: {_clean(unreachable)}")
    for watch in watches:
        if watch.problem is None or not watch.needed:
            continue
        if watch.refused and watch.kind in VOLCANO and isinstance(watch.problem, NotFound):
            waits.append(f"{watch.kind} is needed, and this cluster has no such kind: {paths.CRDS}")
        elif watch.refused:
            waits.append(f"{watch.kind} is needed, and refused: {_clean(str(watch.problem))}")
        elif not unreachable and watch.seconds >= FAILING_SECONDS:
            waits.append(f"{watch.kind} can't be followed: {_clean(str(watch.problem))}")
    if not waits:
        waits += _silent(watches)
    missing = [watch.kind.value for watch in watches if not (watch.listed or watch.absent)]
    if missing:
        waits.append(f"the first lists aren't in yet: {', '.join(missing)}")
    without = [
        CONSEQUENCES.get(watch.kind) or f"without {watch.kind}: {_clean(str(watch.problem))}"
        for watch in watches
        if (watch.refused or watch.absent) and not watch.needed
    ]
    leases = tuple(map(lease_line, lease_statuses))
    return Report(waits=tuple(waits), without=tuple(without), leases=leases)


def _unreachable(watches: Sequence[WatchState], lease_statuses: Iterable[LeaseStatus]) -> str:
    """Return why the API server cannot be reached, or an empty string.

    The election's thread makes a call every other second and is the first to know.
    """
    for status in lease_statuses:
        if not status.reachable:
            return status.problem
    failing = [watch for watch in watches if watch.problem is not None and not watch.refused]
    return str(failing[0].problem) if failing and len(failing) == len(watches) else ""


def _silent(watches: Iterable[WatchState]) -> list[str]:
    """Return which watches are silent, if they are of a kind that is needed."""
    silent = [watch for watch in watches if watch.silent]
    if not any(each.kind in NEEDED for each in silent):
        return []
    names = ", ".join(each.kind.value for each in silent)
    seconds = max(each.silent_seconds for each in silent)
    return [f"the watches of {names} have been silent for {seconds:.0f} s: no changes are seen"]


def _clean(message: str) -> str:
    """Return the message on a single line, shortened."""
    return "".join(each if each.isprintable() else " " for each in message)[:MESSAGE_MAX]


class ListenError(Exception):
    """A server cannot listen on its address."""


def pages(
    *,
    report: Callable[[], Awaitable[Report]],
    exposition: Callable[[], Awaitable[bytes]] | None,
    stuck: Callable[[], str] = str,
) -> web.Application:
    """Return the HTTP application: liveness, readiness, and metrics if `exposition` is given.

    /healthz is Volcano's name for liveness. A standby is as ready as a leader: a rolling update
    waits for readiness, and a new instance cannot lead before the old instance has ended. `stuck`
    returns why only a restart can help, or an empty string.
    """

    async def live(_: web.Request) -> web.Response:
        why = stuck()
        return web.Response(status=503, text=f"{why}\n") if why else web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        why, current = stuck(), await report()
        waits = (why, *current.waits) if why else current.waits
        lines = (*(waits or ("ok",)), *current.without, *current.leases)
        text = "".join(f"{line}\n" for line in lines)
        return web.Response(status=503 if waits else 200, text=text)

    async def metrics(_: web.Request) -> web.Response:
        assert exposition is not None
        return web.Response(body=await exposition(), headers={"Content-Type": METRICS_TYPE})

    application = web.Application()
    application.router.add_get("/livez", live)
    application.router.add_get("/healthz", live)
    application.router.add_get("/readyz", ready)
    if exposition is not None:
        application.router.add_get("/metrics", metrics)
    return application


def lease_line(status: LeaseStatus) -> str:
    """Return the status of a Lease as text: `vscheduler: standby, held by a-7d4f`."""
    if status.leads:
        words = "leader"
    elif status.holder:
        words = f"standby, held by {status.holder}"
    else:
        words = "standby"
    if status.other_configuration and not status.problem:
        words += f"; the leader's configuration differs ({status.other_configuration})"
    return f"{status.lease}: {words}{'; ' if status.problem else ''}{status.problem}"


def not_listening(flags: str, address: Address, error: OSError) -> str:
    """Return why nothing can listen on an address, and which flags name another one."""
    reason = "another process uses this port" if error.errno == errno.EADDRINUSE else str(error)
    return f"{flags}: can't listen on {address.host}:{address.port}: {reason}"


@asynccontextmanager
async def serving(
    application: web.Application, address: Address, *, flags: str = ""
) -> AsyncIterator[int]:
    """Serve during the block; yield the port. `flags` have the address. Raises ListenError."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=CLOSE_SECONDS)
    await runner.setup()
    try:
        try:
            site = web.TCPSite(runner, address.host or None, address.port)
            await site.start()
        except OSError as error:
            raise ListenError(not_listening(flags, address, error)) from error
        port = int(runner.addresses[0][1])
        log.info("server.listening", host=address.host, port=port)
        yield port
    finally:
        await runner.cleanup()
