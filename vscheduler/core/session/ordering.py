"""Queue, then job, then task: always a total order, so that nothing is left to chance."""

import heapq
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from vscheduler.core.model import jobs, queues
from vscheduler.core.session import dispatch, job_state

Item = TypeVar("Item")

SortKey = tuple[object, ...]


class Line(Generic[Item]):
    """Waiting things, the smallest key first; keys are computed when an item joins.

    An item whose key may have changed leaves and joins again, which is what Volcano's loops do.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[SortKey, Item]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def join(self, key: SortKey, item: Item) -> None:
        """Stand in line; the key's last part must be unique."""
        heapq.heappush(self._heap, (key, item))

    def leave(self) -> Item:
        """The first in line goes."""
        return heapq.heappop(self._heap)[1]

    def leave_as_things_stand(self, key: Callable[[Item], SortKey]) -> Item:
        """The first in line goes, but one whose key has grown since it joined stands back: where
        queues are branches of a tree, it grows with what others are given.
        """
        while True:
            known, item = heapq.heappop(self._heap)
            current = key(item)
            if current <= known or not self._heap or current <= self._heap[0][0]:
                return item
            self.join(current, item)

    def leave_smallest(self, key: Callable[[Item], SortKey]) -> Item:
        """The same where a key may have shrunk as well: all are looked at. A branch of a tree
        counts for less when a part of it that had nothing has a little.
        """
        self._heap = [(key(item), item) for _, item in self._heap]
        heapq.heapify(self._heap)
        return self.leave()

    def part(self, leaves: Callable[[Item], bool], into: "Line[Item]") -> None:
        """All for whom this holds leave, and stand in another line."""
        staying = []
        for known, item in self._heap:
            if leaves(item):
                into.join(known, item)
            else:
                staying.append((known, item))
        heapq.heapify(staying)
        self._heap = staying

    @property
    def first(self) -> Item:
        """Who is first in line."""
        return self._heap[0][1]

    def rest(self) -> Iterable[Item]:
        """All who still stand in line, in no order."""
        return (item for _, item in self._heap)


class Descending:
    """A key the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: SortKey) -> None:
        self.key = key

    def __lt__(self, other: "Descending") -> bool:
        return other.key < self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and self.key == other.key

    __hash__ = None  # type: ignore[assignment]  # a sort key is never a dictionary's


def queue_key(dispatch: dispatch.Dispatch, queue: queues.Queue) -> SortKey:
    """Plugins, then the older queue, then the name (Volcano: QueueOrderFn)."""
    return (*dispatch.key("queue_key", queue), queue.created, queue.name)


def job_key(dispatch: dispatch.Dispatch, gang: job_state.JobState) -> SortKey:
    """Plugins, then the older job, then `namespace/name` (Volcano: JobOrderFn)."""
    return (*dispatch.key("job_key", gang), gang.job.created, gang.job.id)


def victim_key(
    dispatch: dispatch.Dispatch,
    claimant: queues.Queue,
    owner: tuple[queues.Queue, job_state.JobState],
    task: jobs.Task,
) -> SortKey:
    """In which order pods lose their room to this queue: the last in line first.

    owner is the pod's queue and job. Jobs of one queue are told apart by plugins only, not by
    age (Volcano: BuildVictimsPriorityQueue).
    """
    queue, gang = owner
    return (
        *dispatch.key("victim_queue_key", claimant, queue),
        Descending(queue_key(dispatch, queue)),
        Descending(dispatch.key("job_key", gang)),
        Descending(task_key(dispatch, task)),
    )


def tasks(
    dispatch: dispatch.Dispatch, gang: job_state.JobState, waiting: Iterable[jobs.Task]
) -> list[jobs.Task]:
    """A job's tasks in the order in which they are placed, sub-groups side by side."""
    ordered = sorted(waiting, key=lambda task: task_key(dispatch, task))
    return ordered if gang.sub_groups is None else gang.sub_groups.gathered(ordered)


def task_key(dispatch: dispatch.Dispatch, task: jobs.Task) -> SortKey:
    """Plugins, then the index, then the older pod, then the UID (Volcano: TaskOrderFn)."""
    return (*dispatch.key("task_key", task), task.index, task.created, task.uid)
