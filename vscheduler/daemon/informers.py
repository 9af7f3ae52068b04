"""What is watched, leader or not: the Mirror of a standby is as current as a leader's."""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from vscheduler import containment
from vscheduler.cluster import reflector
from vscheduler.cluster.http import connection
from vscheduler.daemon import codecs, readiness
from vscheduler.mirror import paths
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import entries

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


class Following:
    """A watch for each of some kinds."""

    def __init__(
        self,
        link: connection.Connection,
        kinds: Collection[events.Kind],
        read: codecs.Translate,
        sink: Sink,
        failures: containment.Failures | None = None,
    ) -> None:
        """`read` and `sink` are how objects are shown to a Mirror: what they come to is worked out
        by the first, and taken in by the second.
        """
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        self._watches = {
            kind: reflector.Watch(
                link,
                PATHS[kind],
                codecs.Codec(kind, read),
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
    def watches(self) -> Collection["reflector.Watch[entries.Event]"]:
        """All of them."""
        return self._watches.values()

    def states(self) -> list[readiness.Followed]:
        """How it stands with each kind."""
        return [self._state(kind) for kind in self._watches]

    async def wait_for_lists(self) -> None:
        """Until all lists are in, but for those of kinds that we go on without."""
        for kind, watch in self._watches.items():
            while not watch.listed.is_set() and not self._state(kind).absent:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await watch.listed.wait()

    def _state(self, kind: events.Kind) -> readiness.Followed:
        watch = self._watches[kind]
        return readiness.Followed(
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


async def _run_after(before: "asyncio.Task[None]", watch: reflector.Watch[entries.Event]) -> None:
    """Run a watch once its task before, which was cancelled, has ended."""
    await asyncio.wait({before})
    await watch.run()
