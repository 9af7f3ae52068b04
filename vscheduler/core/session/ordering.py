"""Ordering of queues, jobs and tasks. Every order is total, so that decisions are deterministic."""

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.session.dispatch import Dispatch
from vscheduler.core.session.job_state import JobState
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.model.queues import Queue

Item = TypeVar("Item")

SortKey = tuple[object, ...]

Suffix: TypeAlias = tuple[Any, ...]
"""A queue's sort key without the numbers of the nodes above a node."""

NUMBERS = 2
"""How many numbers in the key of a queue belong to each node of the queue's path."""


class Line(Generic[Item]):
    """A priority queue: the item with the smallest key comes first.

    Keys are computed when an item joins. An item whose key may have changed leaves and joins again,
    as in Volcano's loops.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[SortKey, Item]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __bool__(self) -> bool:
        """Whether any item is left; asked in every turn."""
        return bool(self._heap)

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
            if not self._heap:
                return item
            current = key(item)
            if current <= known or current <= self._heap[0][0]:
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


def lending_key(
    dispatch: Dispatch, queue: Queue, state: JobState, tasks: Iterable[Task]
) -> SortKey:
    """Return the place of a queue that would borrow for the first tasks of a job, as many as it
    lacks: the queue that ends with the smallest part of its share comes first, then the oldest job.
    """
    lacking = list(itertools.islice(tasks, state.missing_tasks))
    share = dispatch.first(AllHooks.share_with, 0.0, queue, lacking) or 0.0
    return (-queue.priority, share, state.job.created, state.job.id)


class QueueLine(Protocol):
    """The queues that wait for a turn, first of all the queue with the smallest current key."""

    def __len__(self) -> int:
        """Return how many queues wait."""

    def join(self, key: SortKey, item: Queue) -> None:
        """Add a queue, always after its turn."""

    def next(self) -> Queue:
        """Remove and return the first queue."""


class GrowingKeys(Line[Queue]):
    """Queues whose keys only grow while others wait."""

    def __init__(self, key: Callable[[Queue], SortKey]) -> None:
        super().__init__()
        self._key = key

    def next(self) -> Queue:
        """Remove and return the first queue."""
        return self.leave_as_things_stand(self._key)


class ChangingKeys(GrowingKeys):
    """Queues whose keys may change in any way while others wait."""

    def next(self) -> Queue:
        """Remove and return the first queue."""
        return self.leave_smallest(self._key)


class _Node:
    """The children of a node of the tree below which queues wait, by their smallest suffix."""

    __slots__ = ("_heap", "_known", "numbers")

    def __init__(self) -> None:
        self.numbers: tuple[float, ...] = ()
        """The node's own numbers in the keys of all queues below."""
        self._heap: list[tuple[Suffix, Hashable]] = []
        self._known: dict[Hashable, Suffix] = {}

    def put(self, child: Hashable, suffix: Suffix | None) -> None:
        """Replace the smallest suffix below a child; None if no queue is left there."""
        if suffix is None:
            del self._known[child]
        else:
            self._known[child] = suffix
            heapq.heappush(self._heap, (suffix, child))

    def first(self) -> tuple[Suffix, Hashable] | None:
        """Return the smallest suffix and its child."""
        heap = self._heap
        while heap and self._known.get(heap[0][1]) is not heap[0][0]:
            heapq.heappop(heap)
        return heap[0] if heap else None


class TreeLine:
    """Queues of a tree, in the order of their keys, where a turn changes keys along one path only.

    The numbers of a node precede all keys below, so a turn changes the keys of many queues, but the
    order below other nodes stays. Each node keeps its children in order, and a turn costs about as
    much as the path is long.
    """

    def __init__(
        self,
        key: Callable[[Queue], SortKey],
        path: Callable[[Queue], Sequence[Hashable]],
    ) -> None:
        """`path` is the hook `queue_path` of the only plugin with a `queue_key`."""
        self._key, self._path = key, path
        self._state: Hashable = None
        self._queues: dict[str, Queue] = {}
        self._nodes: dict[tuple[Hashable, ...], _Node] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def join(self, key: SortKey, item: Queue) -> None:
        """Add a queue, always after its turn."""
        self._queues[item.name] = item
        state, *path = self._path(item)
        if state != self._state:  # any key may have changed
            self._state = state
            self._nodes.clear()
            for queue in self._queues.values():
                self._add(self._key(queue), queue.name, self._path(queue)[1:])
        else:
            self._add(key, item.name, path)

    def next(self) -> Queue:
        """Remove and return the first queue."""
        path: tuple[Hashable, ...] = ()
        while True:
            first = self._nodes[path].first()
            assert first is not None, "some queue waits"
            child = first[1]
            if isinstance(child, str):
                break
            path = (*path, child)
        self._nodes[path].put(child, None)
        self._pass_on(path)
        return self._queues.pop(child)

    def _add(self, key: SortKey, name: str, path: Sequence[Hashable]) -> None:
        """Add a queue below the last node of its path."""
        numbers, *rest = key
        assert isinstance(numbers, tuple)
        for depth in range(len(path) + 1):
            node = self._nodes.setdefault(tuple(path[:depth]), _Node())
            node.numbers = numbers[(depth - 1) * NUMBERS : depth * NUMBERS] if depth else ()
        node.put(name, (numbers[len(path) * NUMBERS :], *rest))
        self._pass_on(tuple(path))

    def _pass_on(self, path: tuple[Hashable, ...]) -> None:
        """Tell the nodes of a path, from below, what comes first below them."""
        for depth in range(len(path), 0, -1):
            node = self._nodes[path[:depth]]
            first = node.first()
            suffix = None
            if first is not None:
                numbers, *rest = first[0]
                suffix = ((*node.numbers, *numbers), *rest)
            self._nodes[path[: depth - 1]].put(path[depth - 1], suffix)


def queue_line(dispatch: Dispatch, *, shrinks: bool) -> QueueLine:
    """Return an empty line of queues. `shrinks` says that keys may shrink while queues wait."""

    def key(queue: Queue) -> SortKey:
        return queue_key(dispatch, queue)

    if not shrinks:
        return GrowingKeys(key)
    if dispatch.plugins(AllHooks.queue_key) == dispatch.plugins(AllHooks.queue_path) != []:
        return TreeLine(
            key, lambda queue: dispatch.first(AllHooks.queue_path, None, queue) or (None,)
        )
    return ChangingKeys(key)


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


def queue_key(dispatch: Dispatch, queue: Queue) -> SortKey:
    """Order queues by plugins, then by age, then by name (Volcano: QueueOrderFn)."""
    return (*dispatch.key(AllHooks.queue_key, queue), queue.created, queue.name)


def job_key(dispatch: Dispatch, state: JobState) -> SortKey:
    """Order jobs by plugins, then by age, then by `namespace/name` (Volcano: JobOrderFn)."""
    return (*dispatch.key(AllHooks.job_key, state), state.job.created, state.job.id)


def victim_key(
    dispatch: Dispatch,
    preemptor_queue: Queue,
    owner: tuple[Queue, JobState],
    task: Task,
) -> SortKey:
    """Order candidates for eviction on behalf of the preemptor; the first is evicted first.

    owner is the candidate's queue and job. Jobs of one queue are compared by plugins only, not by
    age (Volcano: BuildVictimsPriorityQueue).
    """
    queue, state = owner
    return (
        *dispatch.key(AllHooks.victim_queue_key, preemptor_queue, queue),
        Descending(queue_key(dispatch, queue)),
        Descending(dispatch.key(AllHooks.job_key, state)),
        Descending(task_key(dispatch, task)),
    )


def pending(dispatch: Dispatch, state: JobState) -> list[Task]:
    """Return the pending tasks with requests, in the order of their turns."""
    waiting = state.tasks(TaskStatus.PENDING)
    return tasks(dispatch, state, [task for task in waiting if not task.best_effort])


def tasks(dispatch: Dispatch, state: JobState, waiting: Iterable[Task]) -> list[Task]:
    """Return a job's tasks in placement order, members of a sub-group next to each other."""
    ordered = sorted(waiting, key=lambda task: task_key(dispatch, task))
    return ordered if state.sub_groups is None else state.sub_groups.gathered(ordered)


def task_key(dispatch: Dispatch, task: Task) -> SortKey:
    """Order tasks by plugins, then by index, age and UID (Volcano: TaskOrderFn)."""
    return (*dispatch.key(AllHooks.task_key, task), task.index, task.created, task.uid)
