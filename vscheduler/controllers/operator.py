"""Operator: runs Kopf in the main thread, once Queues or HyperNodes are served.

Kopf ends when a kind that it watches goes, when a watch brings an error that it doesn't know, or
when it is told to. The process ends with it, and is started again by its parent or the kubelet.
Its handlers are of events, login and cleanup only: create, update and delete
handlers, daemons and timers would add finalizers and annotations to every user's object.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Protocol

import aiohttp
import kopf
import msgspec
import structlog
from msgspec.structs import replace

from vscheduler.controllers.followed_objects import Event
from vscheduler.controllers.ports import Api, RefusedError, Trouble
from vscheduler.controllers.queues import queue_index
from vscheduler.controllers.queues.queue_index import VOLCANO, Kinds
from vscheduler.controllers.queues.queue_objects import FollowedKind
from vscheduler.mirror import paths

COLLECTIONS: Mapping[FollowedKind, paths.Collection] = {
    **queue_index.KINDS,
    FollowedKind.COMMAND: paths.COMMANDS,
    FollowedKind.HYPER_NODE: paths.HYPER_NODES,
}

KEPT: Kinds = frozenset({FollowedKind.QUEUE, FollowedKind.HYPER_NODE})
"""The kinds that are kept with Kopf's help. Without any of them Kopf has no work."""

LOGIN_SECONDS = 2.0
"""Minimal time between two logins, so a server that refuses every login isn't flooded."""


class Entry(Protocol):
    """A connection to the API server with the daemon's own credentials."""

    @property
    def host(self) -> str:
        """The API server's address."""

    def session(self) -> aiohttp.ClientSession:
        """Return a session of its own."""


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """What Kopf's handlers call."""

    changed: Callable[[FollowedKind, Event], object]
    """Called with each event."""
    ended: Callable[[], Awaitable[object]]
    """Kopf has ended, by itself or as it was told, and waits for the end of this."""


def registry(
    kinds: Collection[FollowedKind], entry: Entry, outlets: Outlets
) -> kopf.OperatorRegistry:
    """Return a registry with the handlers for these kinds."""
    handlers = kopf.OperatorRegistry()

    async def clean_up(**_: Any) -> None:
        await outlets.ended()

    def notice(kind: FollowedKind) -> Callable[..., Any]:
        async def handle(event: Event, **_: Any) -> None:
            outlets.changed(kind, event)

        return handle

    kopf.on.login(registry=handlers, id="daemon")(_login(entry))
    kopf.on.cleanup(registry=handlers)(clean_up)
    for kind in kinds:
        group, _, version = COLLECTIONS[kind].api_version.partition("/")
        plural = COLLECTIONS[kind].plural
        kopf.on.event(group, version, plural, id=str(kind), registry=handlers)(notice(kind))
    return handlers


def _login(entry: Entry) -> Callable[..., Any]:
    """Return Kopf's login handler, whose session asks the daemon for credentials with each request.

    Kopf logs in at startup, and after every 401 response. The handler must be a function: Kopf
    would run any other callable in a separate thread.
    """
    last = float("-inf")

    async def log_in(**_: Any) -> kopf.AiohttpSession:
        nonlocal last
        await asyncio.sleep(last + LOGIN_SECONDS - time.monotonic())
        last = time.monotonic()
        return kopf.AiohttpSession(server=entry.host, aiohttp_session=entry.session())

    return log_in


log = structlog.get_logger(__name__)

END_SECONDS = 5.0
"""How long Kopf's watches may take to end after cancellation."""

BACKOFFS = (0.5, 1, 2, 4, 8, 15)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals between checks for kinds. Seconds."""

    absent_seconds: float = 2.0
    """While Volcano's kinds are missing, and Kopf doesn't run."""
    look_seconds: float = 30.0
    """While others are missing."""


class EndlessBackoffs:
    """Endless pauses between Kopf's attempts. With Kopf's own finite list Kopf would give up and
    die.
    """

    def __iter__(self) -> Iterator[float]:
        yield from BACKOFFS
        while True:
            yield BACKOFFS[-1]


async def run(
    api: Api,
    entry: Entry,
    outlets: Outlets,
    *,
    stop: asyncio.Event,
    spawned: Callable[[], None],
    pace: Pace | None = None,
) -> None:
    """Run Kopf until `stop` is set, which kinds that come later set, too, or a kind is gone.

    Raises Kopf's error of any other end.
    `entry` is Kopf's connection. `spawned` is called when Kopf has installed its handlers of
    signals. When Kopf has ended, all tasks are cancelled that were created meanwhile.
    """
    pace = pace or Pace()
    kinds = await _kinds_unless(api, stop, pace)
    if kinds is None:
        return
    looking = asyncio.create_task(_wait_for_more(api, kinds, stop, pace), name="look for kinds")
    existing = asyncio.all_tasks()
    tasks: set[asyncio.Task[Any]] = set()

    async def ended() -> None:
        await outlets.ended()
        await _end(asyncio.all_tasks() - existing - tasks)

    log.info("kopf.started", kinds=sorted(kinds))
    tasks.update(
        await kopf.spawn_tasks(
            registry=registry(kinds, entry, replace(outlets, ended=ended)),
            settings=settings(),
            standalone=True,
            clusterwide=True,
            stop_flag=stop,
        )
    )
    spawned()
    try:
        await kopf.run_tasks(tasks, ignored=existing)
    except Exception as error:
        # Kopf exports none of its classes for answers of the API server.
        if getattr(error, "status", None) != HTTPStatus.NOT_FOUND:
            raise
        log.warning("kinds.gone", message=str(error), retry=True)
    finally:
        looking.cancel()


async def _end(tasks: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel these tasks but the current one, and wait for them.

    When a watch fails, Kopf lets the others run until it has closed their sessions. They would wait
    for other credentials then, until Kopf cancels them after 5 s, or fail while they connect.
    """
    left = {*tasks} - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=END_SECONDS)


async def _kinds_unless(api: Api, stop: asyncio.Event, pace: Pace) -> Kinds | None:
    """As `_wait_for_kinds`; None when `stop` is set, after which no call may be answered."""
    waiting = asyncio.create_task(_wait_for_kinds(api, pace), name="wait for kinds")
    stopped = asyncio.create_task(stop.wait(), name="wait for the stop")
    try:
        await asyncio.wait({waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return None if stop.is_set() else waiting.result()
    finally:
        waiting.cancel()
        stopped.cancel()


async def _wait_for_kinds(api: Api, pace: Pace) -> Kinds:
    """Wait until Volcano's kinds may be listed, or at least one of those that are kept, and no more
    have come for a while; return all that may be.
    """
    before: Kinds | None = None
    while True:
        kinds = frozenset([kind for kind in FollowedKind if await _listed(api, kind)])
        if kinds >= VOLCANO or (kinds == before and kinds & KEPT):
            return kinds
        if kinds != before:
            before = kinds
            log.warning("kinds.absent", kinds=sorted(VOLCANO - kinds), retry=True)
        await asyncio.sleep(pace.absent_seconds)


async def _wait_for_more(api: Api, kinds: Kinds, stop: asyncio.Event, pace: Pace) -> None:
    """Stop Kopf when another kind comes: its handlers are registered before it starts."""
    missing = [kind for kind in FollowedKind if kind not in kinds]
    while missing:
        await asyncio.sleep(pace.look_seconds)
        for kind in missing:
            if await _listed(api, kind):
                log.info("kopf.again", kind=str(kind))
                stop.set()
                return


async def _listed(api: Api, kind: FollowedKind) -> bool:
    """Whether a kind is served, and we may list it. Otherwise Kopf would give up."""
    try:
        await api.get(COLLECTIONS[kind].everywhere.with_query({"limit": "1"}))
    except RefusedError as error:
        if error.trouble not in (Trouble.MISSING, Trouble.FORBIDDEN):
            log.info("kinds.unknown", message=str(error))
        return False
    return True


class NoDiffs(kopf.DiffBaseStorage):
    """Disables Kopf's diffs, which only matter for handlers that we don't use. The copies of whole
    objects would take a third of Kopf's time.
    """

    def fetch(self, *, body: kopf.Body) -> None:
        """Return no earlier state."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Return an empty essence."""
        del body, extra_fields
        return kopf.BodyEssence()

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Store nothing."""


def settings() -> kopf.OperatorSettings:
    """Return Kopf's settings. Every setting that matters is explicit, whatever its default."""
    kopf_settings = kopf.OperatorSettings()
    kopf_settings.persistence.diffbase_storage = NoDiffs()
    kopf_settings.posting.enabled = False
    kopf_settings.scanning.disabled = True
    kopf_settings.process.ultimate_exiting_timeout = None
    kopf_settings.networking.error_backoffs = EndlessBackoffs()
    kopf_settings.networking.request_timeout = 30.0
    kopf_settings.networking.connect_timeout = 10.0
    kopf_settings.watching.server_timeout = 20
    kopf_settings.watching.inactivity_timeout = (
        24.0  # longer than any watch lasts: the connection is dead
    )
    kopf_settings.queueing.idle_timeout = 1.0
    return kopf_settings
