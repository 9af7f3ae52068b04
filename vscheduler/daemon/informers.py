"""Informers: the watches that keep the Mirror current, on leaders and standbys alike.

Before deciding anything, a new leader sees at least everything its predecessor did (`catch_up`).
The predecessor's last binds and evictions may be executed, but not shown by a watch yet. Their
effects are read from a list, which the API server answers from its newest state.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
import structlog

from vscheduler.cluster.http import objects
from vscheduler.cluster.http.connection import ApiError, Connection
from vscheduler.cluster.http.lists import EarlyPages
from vscheduler.cluster.reflector import Pace, Reflector
from vscheduler.containment import Failures
from vscheduler.daemon.health import WatchState
from vscheduler.mirror import paths, statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Upsert
from vscheduler.mirror.index.entries import Entry, Event, Part, Reference, Replace
from vscheduler.mirror.state import Mirror

log = structlog.get_logger(__name__)

NODE_PACE = Pace(gather_seconds=0.2)
"""Thousands of nodes send a dozen heartbeats a second, which change nothing, so changes of nodes
are read in batches."""

LOOK_SECONDS = 0.5
"""Interval for checking whether a missing list belongs to a kind that will never be listed."""

Sink = Callable[[Sequence[Event]], None]


Read: TypeAlias = tuple[str, Entry]
"""An object of a list, with its key."""

Translate: TypeAlias = Callable[[Upsert | DecodeFailed], Read]
"""Decodes and translates an object: state.Mirror.read."""

KINDS_WITH_EVENTS = (Kind.POD, *paths.GROUPS, Kind.QUEUE)
"""Kinds of objects that may get events."""

LIVE = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that are not finished."""

BEHIND_LOOK_SECONDS = 0.01

BEHIND_PATIENCE_SECONDS = 1.0
"""How long the watches may take to show a listed state before the list is repeated."""

LIST_RETRY_SECONDS = 0.5

CLOSED = "the handler is closed"
"""uvloop's error for a connection that was closed meanwhile."""


class Codec:
    """The reflector's codec for a kind.

    Lists are decoded piece by piece. The first list is also applied piece by piece, while the API
    server prepares the next page.
    """

    def __init__(self, kind: Kind, read: Translate) -> None:
        self._kind = kind
        self._read = read

    def read(self, items: Sequence[bytes | msgspec.Raw]) -> list[Read]:
        """Decode some objects of a list."""
        return [self._read(events.decode(self._kind, item)) for item in items]

    def begin(self, objects_read: Sequence[Read]) -> list[Event]:
        """Return the event for a part of the first list; the complete list follows at the end."""
        return [Part(kind=self._kind, found=dict(objects_read))]

    def replace(self, objects_read: Sequence[Read]) -> list[Event]:
        """Return the event for a complete list."""
        return [Replace(kind=self._kind, found=dict(objects_read))]

    def change(self, change: str, item: bytes | msgspec.Raw) -> list[Event]:
        """Return the events for one object that was ADDED, MODIFIED or DELETED."""
        event = events.decode(self._kind, item)
        return [events.removal(event) if change == "DELETED" else event]


def report_object_error(failures: Failures, refused: DecodeFailed, error: Exception) -> None:
    """Report an object that cannot be translated, if possible with an event on the object."""
    subject = None
    if refused.kind in KINDS_WITH_EVENTS:
        subject = statuses.reference_to(
            refused.kind, namespace=refused.namespace, name=refused.name, uid=refused.uid
        )
    key = f"{refused.kind} {refused.namespace}/{refused.name}"
    failures.failed("object", key, error, subject)


def report_callback_error(
    failures: Failures, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Report an exception in an event loop callback, or in a task that is never awaited.

    A connection that breaks while it is being closed is no failure of any work: uvloop raises
    RuntimeError where asyncio raises OSError, which it reports to nobody.
    """
    error = context.get("exception")
    if isinstance(error, RuntimeError) and CLOSED in str(error) and "transport" in context:
        log.debug("connection.closed", message=str(error))
    elif isinstance(error, Exception):
        failures.failed("event loop", context.get("message", ""), error)
    else:
        loop.default_exception_handler(context)


class Informers:
    """A reflector for each watched kind."""

    def __init__(
        self,
        connection: Connection,
        kinds: Mapping[Kind, Pace],
        read: Translate,
        sink: Sink,
        failures: Failures | None = None,
        early: EarlyPages | None = None,
    ) -> None:
        """`read` translates objects for the Mirror, and `sink` applies the resulting events."""
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        self._watches = {
            kind: Reflector(
                connection,
                paths.WATCHED[kind],
                Codec(kind, read),
                sink,
                pace=kinds[kind],
                chance=chance,
                failures=failures,
                early=early,
            )
            for kind in paths.WATCHED
            if kind in kinds
        }
        self._tasks: dict[Kind, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._stopped = False

    @property
    def ready(self) -> bool:
        """Whether all kinds were listed at least once."""
        return all(state.listed or state.absent for state in self.states())

    @property
    def watches(self) -> Collection["Reflector[Event]"]:
        """All reflectors."""
        return self._watches.values()

    def states(self) -> list[WatchState]:
        """Return the status of each kind."""
        return [self._state(kind) for kind in self._watches]

    async def wait_for_lists(self) -> None:
        """Wait until all lists have arrived, except lists of absent kinds."""
        for kind, watch in self._watches.items():
            while not watch.listed.is_set() and not self._state(kind).absent:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await watch.listed.wait()

    def _state(self, kind: Kind) -> WatchState:
        watch, native = self._watches[kind], self._watches.get(Kind.NATIVE_POD_GROUP)
        return WatchState(
            kind=kind,
            listed=watch.ever_listed,
            problem=watch.problem,
            seconds=time.monotonic() - watch.problem_since if watch.problem else 0.0,
            unserved=watch.unserved,
            replaced=native is not None and native.ever_listed and not native.unserved,
            silent_seconds=time.monotonic() - watch.current_at,
        )

    def start(self, group: asyncio.TaskGroup) -> None:
        """Watch every kind for ever, or until `stop`."""
        self._group = group
        for kind, watch in self._watches.items():
            self._tasks[kind] = group.create_task(watch.run(), name=f"watch {kind}")

    async def list_anew(self, kinds: Collection[Kind]) -> None:
        """List these kinds again, and wait for the lists.

        On cancellation, all kinds are still watched, and a kind whose list has not arrived does not
        count as listed.
        """
        assert self._group is not None, "only what is followed can be listed anew"
        if self._stopped:
            return
        for kind in self._watches.keys() & set(kinds):
            before, watch = self._tasks[kind], self._watches[kind]
            before.cancel()
            watch.forget()
            anew = _run_after(before, watch)
            self._tasks[kind] = self._group.create_task(anew, name=f"watch {kind}")
        await self.wait_for_lists()

    def overtake(self, kind: Kind) -> None:
        """Restart the watch of a kind that lags behind a newer version known to the caller.

        A watch with recent data is left alone. When a watch is restarted, all equally silent
        watches are restarted, too, over a new connection.
        """
        if self._watches[kind].overtake():
            for watch in self._watches.values():
                watch.overtake()

    def stop(self) -> None:
        """Stop all watches, and start none."""
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()


async def _run_after(before: "asyncio.Task[None]", watch: Reflector[Event]) -> None:
    """Run a reflector after its previous, cancelled task has ended."""
    await asyncio.wait({before})
    await watch.run()


async def catch_up(
    connection: Connection,
    mirror: Mirror,
    scheduler_names: Iterable[str],
    overtake: Callable[[], None],
) -> None:
    """Wait until the Mirror has every live pod of these schedulers in its current version.

    A later version will do, too. Costs a list of the metadata of these pods. Errors of the API
    server are retried. `overtake` is called when a list shows changes that the watch of pods has
    not shown for a while.
    """
    for name in scheduler_names:
        while not await _has_caught_up(connection, mirror, name, overtake):
            log.info("pods.behind", scheduler=name)


async def _has_caught_up(
    connection: Connection, mirror: Mirror, name: str, overtake: Callable[[], None]
) -> bool:
    selector = f"spec.schedulerName={name},{LIVE}"
    try:
        versions = await objects.list_versions(
            connection, paths.PODS.everywhere, {"fieldSelector": selector}
        )
    except ApiError as error:
        log.warning("pods.not_listed", scheduler=name, message=str(error))
        await asyncio.sleep(LIST_RETRY_SECONDS)
        return False
    wanted = [Reference(uid=each.uid, resource_version=each.resource_version) for each in versions]
    deadline = asyncio.get_running_loop().time() + BEHIND_PATIENCE_SECONDS
    while wanted := _behind(mirror, wanted):
        if asyncio.get_running_loop().time() > deadline:  # a watch lags, or a pod was deleted
            overtake()
            return False
        await asyncio.sleep(BEHIND_LOOK_SECONDS)
    return True


def _behind(mirror: Mirror, wanted: Iterable[Reference]) -> list[Reference]:
    """Return the pods that the Mirror has not seen in this version or a later one."""
    return [each for each in wanted if not _has(mirror, each)]


def _has(mirror: Mirror, wanted: Reference) -> bool:
    seen = mirror.reference(Kind.POD, wanted.uid)
    if seen is None:
        return False
    if not seen.resource_version:  # an invalid pod, which is never placed
        return True
    return seen == wanted or wanted.is_before(seen)


VOLUMES = frozenset({Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS})

ACCESS_LOOK_SECONDS = 5.0
"""A role may be extended at any time."""


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """Kinds that are of use only together."""

    off: str
    """The event of the log when one of them is missing, and when all can be read again."""
    on: str
    needed: Collection[Kind]
    serve: Callable[[bool], None]
    """Tells the Mirror whether decisions can consider them."""


class KindAccess:
    """Tells the Mirror whether decisions can consider volumes, devices, owners and Volcano's kinds.

    Without one of the kinds about volumes that are needed, nothing is known about volumes. Then
    they are no obstacle for any pod, as in a cluster without volumes. Without one of those about
    devices, no pod with resource claims can start. Without Queues all jobs are in one queue, and
    without Volcano's PodGroups pods start alone. Without the owners of pods, pods that have one
    need a PodGroup. All of that is logged as warnings.
    """

    def __init__(self, mirror: Mirror, states: Callable[[], Sequence[WatchState]]) -> None:
        """`states` returns the status of all watches."""
        self._states = states
        self._topics = (
            Topic(
                off="volumes.off",
                on="volumes.on",
                needed=VOLUMES,
                serve=lambda served: mirror.storage.serve(served=served),
            ),
            Topic(
                off="devices.off",
                on="devices.on",
                needed=paths.DEVICE_KINDS,
                serve=lambda served: mirror.devices.serve(served=served),
            ),
            Topic(
                off="queues.off",
                on="queues.on",
                needed={Kind.QUEUE},
                serve=lambda served: mirror.serve_queues(served=served),
            ),
            Topic(
                off="owners.off",
                on="owners.on",
                needed=paths.OWNERS,
                serve=lambda served: mirror.serve_owners(served=served),
            ),
            Topic(
                off="podgroups.off",
                on="podgroups.on",
                needed={Kind.POD_GROUP},
                serve=lambda served: mirror.serve_pod_groups(served=served),
            ),
        )
        self._missing: dict[str, list[str]] = {topic.on: [] for topic in self._topics}

    def look(self) -> bool:
        """Tell the Mirror; return whether anything has changed since the last call."""
        states = self._states()
        changed = [self._look(topic, states) for topic in self._topics]
        return any(changed)

    def _look(self, topic: Topic, states: Sequence[WatchState]) -> bool:
        before = self._missing[topic.on]
        absent = [
            state
            for state in states
            if state.kind in topic.needed
            # What was missing still is as long as its watch fails, whatever the error is now.
            and (state.absent or (state.problem is not None and state.kind in before))
        ]
        missing = sorted(each.kind.value for each in absent)
        if missing == before:
            return False
        self._missing[topic.on] = missing
        topic.serve(not missing)
        if missing:
            log.warning(topic.off, kinds=missing, message=str(absent[0].problem))
        else:
            log.info(topic.on)
        return True

    async def follow(self, changed: Callable[[], object]) -> None:
        """Look for ever, and call `changed` after each change."""
        while True:
            await asyncio.sleep(ACCESS_LOOK_SECONDS)
            if self.look():
                changed()
