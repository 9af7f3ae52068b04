"""Ordering of queues, jobs and tasks. Every order is total, so that decisions are deterministic."""

import heapq
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from vscheduler.core.model import jobs, queues
from vscheduler.core.session import dispatch, job_state

Item = TypeVar("Item")

SortKey = tuple[object, ...]


class Line(Generic[Item]):
    """A priority queue: the item with the smallest key comes first.

    Keys are computed when an item joins. An item whose key may have changed leaves and joins again,
    as in Volcano's loops.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[SortKey, Item]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def join(self, key: SortKey, item: Item) -> None:
        """Add an item. The last part of the key must be unique."""
        heapq.heappush(self._heap, (key, item))

    def leave(self) -> Item:
        """Remove and return the first item."""
        return heapq.heappop(self._heap)[1]

    def leave_as_things_stand(self, key: Callable[[Item], SortKey]) -> Item:
        """Remove and return the first item, after updating keys that have grown.

        In a tree of queues a key also grows when a sibling receives resources.
        """
        while True:
            known, item = heapq.heappop(self._heap)
            current = key(item)
            if current <= known or not self._heap or current <= self._heap[0][0]:
                return item
            self.join(current, item)

    def leave_smallest(self, key: Callable[[Item], SortKey]) -> Item:
        """Remove and return the item with the smallest current key, after recomputing all keys.

        Needed where a key may shrink: in a tree of queues, the share of an inner queue falls when a
        child without any resources receives some.
        """
        self._heap = [(key(item), item) for _, item in self._heap]
        heapq.heapify(self._heap)
        return self.leave()

    def part(self, leaves: Callable[[Item], bool], into: "Line[Item]") -> None:
        """Move all items for which `leaves` is true to another line."""
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
        """The first item, which stays in the line."""
        return self._heap[0][1]

    def rest(self) -> Iterable[Item]:
        """Iterate over the remaining items, in no particular order."""
        return (item for _, item in self._heap)


class Descending:
    """A sort key in reverse order."""

    __slots__ = ("key",)

    def __init__(self, key: SortKey) -> None:
        self.key = key

    def __lt__(self, other: "Descending") -> bool:
        return other.key < self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and self.key == other.key

    __hash__ = None  # type: ignore[assignment]  # a sort key is never a dictionary's


def queue_key(dispatch: dispatch.Dispatch, queue: queues.Queue) -> SortKey:
    """Order queues by plugins, then by age, then by name (Volcano: QueueOrderFn)."""
    return (*dispatch.key("queue_key", queue), queue.created, queue.name)


def job_key(dispatch: dispatch.Dispatch, state: job_state.JobState) -> SortKey:
    """Order jobs by plugins, then by age, then by `namespace/name` (Volcano: JobOrderFn)."""
    return (*dispatch.key("job_key", state), state.job.created, state.job.id)


def victim_key(
    dispatch: dispatch.Dispatch,
    claimant: queues.Queue,
    owner: tuple[queues.Queue, job_state.JobState],
    task: jobs.Task,
) -> SortKey:
    """Order candidates for eviction on behalf of the claimant; the first is evicted first.

    owner is the candidate's queue and job. Jobs of one queue are compared by plugins only, not by
    age (Volcano: BuildVictimsPriorityQueue).
    """
    queue, state = owner
    return (
        *dispatch.key("victim_queue_key", claimant, queue),
        Descending(queue_key(dispatch, queue)),
        Descending(dispatch.key("job_key", state)),
        Descending(task_key(dispatch, task)),
    )


def tasks(
    dispatch: dispatch.Dispatch, state: job_state.JobState, waiting: Iterable[jobs.Task]
) -> list[jobs.Task]:
    """Return a job's tasks in placement order, members of a sub-group next to each other."""
    ordered = sorted(waiting, key=lambda task: task_key(dispatch, task))
    return ordered if state.sub_groups is None else state.sub_groups.gathered(ordered)


def task_key(dispatch: dispatch.Dispatch, task: jobs.Task) -> SortKey:
    """Order tasks by plugins, then by index, age and UID (Volcano: TaskOrderFn)."""
    return (*dispatch.key("task_key", task), task.index, task.created, task.uid)
