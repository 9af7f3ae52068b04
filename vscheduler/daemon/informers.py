"""What is watched, leader or not: the Mirror of a standby is as current as a leader's.

Whoever takes over sees at least what its predecessor did before it decides anything (`catch_up`).
The predecessor's last binds and evictions may be done and not be shown by a watch yet: what they
changed is read from a list, which the API server answers from its newest state.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
import structlog

from vscheduler import containment
from vscheduler.cluster import reflector
from vscheduler.cluster.http import connection, objects
from vscheduler.daemon import health
from vscheduler.mirror import paths, state, statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import entries

log = structlog.get_logger(__name__)

PATHS: Mapping[events.Kind, paths.Path] = {
    events.Kind.NODE: paths.NODES.everywhere,
    events.Kind.POD: paths.PODS.everywhere,
    events.Kind.POD_GROUP: paths.POD_GROUPS.everywhere,
    events.Kind.QUEUE: paths.QUEUES.everywhere,
    events.Kind.PRIORITY_CLASS: paths.PRIORITY_CLASSES.everywhere,
    events.Kind.BUDGET: paths.BUDGETS.everywhere,
    events.Kind.QUOTA: paths.QUOTAS.everywhere,
    events.Kind.NAMESPACE: paths.NAMESPACES.everywhere,
}
"""Where each kind is listed and watched."""

NODE_PACE = reflector.Pace(gather_seconds=0.2)
"""Thousands of nodes have a dozen heartbeats every second, which change nothing."""

LOOK_SECONDS = 0.5
"""How often it is looked whether a list that isn't in will never be."""

Sink = Callable[[Sequence[entries.Event]], None]


Read: TypeAlias = tuple[str, entries.Entry]
"""An object of a list, with its key."""

Translate: TypeAlias = Callable[[events.Upsert | events.DecodeFailed], Read]
"""What an object comes to: state.Mirror.read."""

TOLD_KINDS = (events.Kind.POD, events.Kind.POD_GROUP, events.Kind.QUEUE)
"""Kinds that events are written about."""

LIVE = "status.phase!=Succeeded,status.phase!=Failed"

BEHIND_LOOK_SECONDS = 0.01

BEHIND_PATIENCE_SECONDS = 1.0
"""How long watches may take to show what was listed, before it is listed again."""

LIST_RETRY_SECONDS = 0.5


class Codec:
    """For a watch of one kind.

    Lists are read piece by piece, and the first one is taken in so, too, while the API server makes
    the next page.
    """

    def __init__(self, kind: events.Kind, read: Translate) -> None:
        self._kind = kind
        self._read = read

    def read(self, items: Sequence[bytes | msgspec.Raw]) -> list[Read]:
        """Some objects of a list."""
        return [self._read(events.decode(self._kind, item)) for item in items]

    def begin(self, found: Sequence[Read]) -> list[entries.Event]:
        """A part of the first list; the whole one comes at its end."""
        return [entries.Part(kind=self._kind, found=dict(found))]

    def replace(self, found: Sequence[Read]) -> list[entries.Event]:
        """The whole list."""
        return [entries.Replace(kind=self._kind, found=dict(found))]

    def change(self, change: str, item: bytes | msgspec.Raw) -> list[entries.Event]:
        """One object that was ADDED, MODIFIED or DELETED."""
        event = events.decode(self._kind, item)
        return [events.removal(event) if change == "DELETED" else event]


def tell_of_object(
    failures: containment.Failures, refused: events.DecodeFailed, error: Exception
) -> None:
    """An object that reading fails at is told so, where events can be about its kind."""
    subject = None
    if refused.kind in TOLD_KINDS:
        subject = statuses.ObjectReference(
            kind=refused.kind, namespace=refused.namespace, name=refused.name, uid=refused.uid
        )
    key = f"{refused.kind} {refused.namespace}/{refused.name}"
    failures.failed("object", key, error, subject)


def tell_of_callback(
    failures: containment.Failures, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """What a callback of the event loop raises, or a task that nobody waits for."""
    error = context.get("exception")
    if isinstance(error, Exception):
        failures.failed("event loop", context.get("message", ""), error)
    else:
        loop.default_exception_handler(context)


class Informers:
    """A watch for each of some kinds."""

    def __init__(
        self,
        link: connection.Connection,
        kinds: Collection[events.Kind],
        read: Translate,
        sink: Sink,
        failures: containment.Failures | None = None,
    ) -> None:
        """`read` and `sink` are how objects are shown to a Mirror: what they come to is worked out
        by the first, and taken in by the second.
        """
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        self._watches = {
            kind: reflector.Reflector(
                link,
                PATHS[kind],
                Codec(kind, read),
                sink,
                pace=NODE_PACE if kind is events.Kind.NODE else reflector.Pace(),
                chance=chance,
                failures=failures,
            )
            for kind in PATHS
            if kind in kinds
        }
        self._tasks: dict[events.Kind, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._stopped = False

    @property
    def ready(self) -> bool:
        """Whether all lists have been in; what is listed anew was seen before."""
        return all(each.listed or each.absent for each in self.states())

    @property
    def watches(self) -> Collection["reflector.Reflector[entries.Event]"]:
        """All of them."""
        return self._watches.values()

    def states(self) -> list[health.Followed]:
        """How it stands with each kind."""
        return [self._state(kind) for kind in self._watches]

    async def wait_for_lists(self) -> None:
        """Until all lists are in, but for those of kinds that we go on without."""
        for kind, watch in self._watches.items():
            while not watch.listed.is_set() and not self._state(kind).absent:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await watch.listed.wait()

    def _state(self, kind: events.Kind) -> health.Followed:
        watch = self._watches[kind]
        return health.Followed(
            kind=kind,
            listed=watch.ever_listed,
            problem=watch.problem,
            seconds=time.monotonic() - watch.problem_since if watch.problem else 0.0,
        )

    def start(self, group: asyncio.TaskGroup) -> None:
        """Follow every kind for ever, or until `stop`."""
        self._group = group
        for kind, watch in self._watches.items():
            self._tasks[kind] = group.create_task(watch.run(), name=f"watch {kind}")

    async def list_anew(self, kinds: Collection[events.Kind]) -> None:
        """Let these kinds be read anew from a list, and wait until they are.

        Cancelled, it leaves all kinds followed, and none of these counts as listed that isn't.
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

    def overtake(self, kind: events.Kind) -> None:
        """Something newer of this kind is known than its watch has shown: where that has been
        silent for a moment, it goes on over another connection, and so do all that are as silent.
        """
        if self._watches[kind].overtake():
            for watch in self._watches.values():
                watch.overtake()

    def stop(self) -> None:
        """Follow nothing any more, and begin nothing."""
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()


async def _run_after(
    before: "asyncio.Task[None]", watch: reflector.Reflector[entries.Event]
) -> None:
    """Run a watch once its task before, which was cancelled, has ended."""
    await asyncio.wait({before})
    await watch.run()


async def catch_up(
    link: connection.Connection,
    mirror: state.Mirror,
    scheduler_names: Iterable[str],
    overtake: Callable[[], None],
) -> None:
    """Until the Mirror has every live pod of these schedulers as it is now, or as it was later.

    Costs one list of these pods' metadata. Waits out errors of the API server. `overtake` is called
    where a list shows what the watch of pods hasn't shown for a while.
    """
    for name in scheduler_names:
        while not await _has_caught_up(link, mirror, name, overtake):
            log.info("pods.behind", scheduler=name)


async def _has_caught_up(
    link: connection.Connection, mirror: state.Mirror, name: str, overtake: Callable[[], None]
) -> bool:
    selector = f"spec.schedulerName={name},{LIVE}"
    try:
        listed = await objects.list_all(
            link, paths.PODS.everywhere, {"fieldSelector": selector}, metadata_only=True
        )
    except connection.ApiError as error:
        log.warning("pods.not_listed", scheduler=name, message=str(error))
        await asyncio.sleep(LIST_RETRY_SECONDS)
        return False
    named = [each["metadata"] for each in listed]
    wanted = [
        entries.Reference(uid=each["uid"], resource_version=each["resourceVersion"])
        for each in named
    ]
    deadline = asyncio.get_running_loop().time() + BEHIND_PATIENCE_SECONDS
    while wanted := _behind(mirror, wanted):
        if asyncio.get_running_loop().time() > deadline:  # or it is gone, and no watch shows it
            overtake()
            return False
        await asyncio.sleep(BEHIND_LOOK_SECONDS)
    return True


def _behind(mirror: state.Mirror, wanted: Iterable[entries.Reference]) -> list[entries.Reference]:
    """Pods that the Mirror hasn't seen yet in this version, or a later one."""
    return [each for each in wanted if not _has(mirror, each)]


def _has(mirror: state.Mirror, wanted: entries.Reference) -> bool:
    seen = mirror.reference(events.Kind.POD, wanted.uid)
    if seen is None:
        return False
    if not seen.resource_version:  # a pod that doesn't decode; nobody places it
        return True
    return seen == wanted or wanted.is_before(seen)
