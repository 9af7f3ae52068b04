"""Hierarchical DRF: dominant shares of a tree of queues, with jobs as leaves.

The allocation of a node is the sum of its children's allocations, scaled so that children with
different dominant resources count alike: children still wanting something are scaled down to the
smallest share among them. A child is saturated with enough of any resource in its request, or once
a requested resource is used up. Saturated children count in full, and come after all others.

Volcano: plugins/drf, enableHierarchy. In Volcano the jobs of a queue are children of the last node
of the queue's path. Here each queue has a node of its own below the last node. Queues with the same
path, or with a path that continues another queue's path, therefore take turns. With `flat`, queues
with the same path share a node, as in Volcano, and the older queue comes first.
"""

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

ResourceArray: TypeAlias = NDArray[np.int64]
"""One amount per column: (R,), or (N, R) for N children."""

Mask: TypeAlias = NDArray[np.bool_]
Shares: TypeAlias = NDArray[np.float64]

DIGITS = 9
"""Shares that agree to this many digits are equal: they are sums of floats in varying order."""

SEPARATOR = "/"
LEAST_WEIGHT = 1.0
ALWAYS = 2
"""The first columns, cpu and memory, count for every job whether or not it holds any."""

NEVER = np.iinfo(np.int64).max
"""More than any job holds."""

MEMO_MAX = 10_000
"""The number of states and results that the node of a queue remembers."""

Step: TypeAlias = tuple[str, bytes]
"""A job, and how much more the job holds."""

Result: TypeAlias = tuple[list[float], float, bool]
"""The scaled allocation, the dominant share, and whether all parts are saturated."""

SharePair: TypeAlias = tuple[float, float]
"""The shares of a node and of a sibling."""


class QueuePath(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a queue: the nodes below the root with their weights, outermost first."""

    path: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()


class JobUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One job with resources held and resources requested, held ones included."""

    job: str
    allocated: ResourceArray
    request: ResourceArray


def place(path: str, weights: str) -> QueuePath:
    """Return the position described by two annotations, such as `root/sci/dev` and `1/2/8`.

    The first part of each belongs to the root. A weight is 1 if missing, unreadable or below 1
    (Volcano: buildHierarchy).
    """
    names = tuple(path.split(SEPARATOR)[1:])
    written = weights.split(SEPARATOR)[1:]
    given = (*map(_weight, written[: len(names)]), *[LEAST_WEIGHT] * (len(names) - len(written)))
    return QueuePath(path=names, weights=given)


def _weight(text: str) -> float:
    """Return the number in this text, or 1 if the text is no valid weight."""
    try:
        weight = float(text)
    except ValueError:
        return LEAST_WEIGHT
    return weight if LEAST_WEIGHT <= weight < np.inf else LEAST_WEIGHT


class Total:
    """The capacity of the cluster, by which dominant shares are measured."""

    __slots__ = ("_absent", "_divisors", "_each", "amounts")

    def __init__(self, amounts: ResourceArray) -> None:
        self.amounts = amounts
        self._each: list[float] = amounts.astype(np.float64).tolist()
        self._absent = np.flatnonzero(amounts <= 0)
        self._divisors = np.maximum(amounts, 1).astype(np.float64)

    def dominant(self, held: Sequence[float]) -> float:
        """Return the largest fraction of any resource; 1 where the total is 0."""
        pairs = zip(held, self._each, strict=True)
        return max(has / whole if whole > 0 else float(has > 0) for has, whole in pairs)

    def dominant_by_row(self, held: ResourceArray) -> Shares:
        """Return the same for each row of held, (N, R): (N,)."""
        parts = held / self._divisors
        if self._absent.size:
            parts[:, self._absent] = held[:, self._absent] > 0
        shares: Shares = parts.max(axis=1)
        return shares


class TreeNode:
    """A node of the tree, with inner nodes of paths or nodes of queues as children."""

    __slots__ = ("_place", "held", "parent", "parts", "result", "stale", "weight")

    def __init__(self, parent: "TreeNode | None", weight: float, size: int) -> None:
        self.parent = parent
        self.weight = weight
        self.held = np.zeros(size, dtype=np.int64)
        """The sum of what all jobs below hold, not scaled, (R,)."""
        self.parts: list[TreeNode] = []
        if parent is not None:
            parent.parts.append(self)
        self.result: Result = ([], 0.0, True)
        self._place: tuple[Result, tuple[float, ...], tuple[float, ...]] | None = None
        """The place, with the result and the place above from which it was computed."""
        self.stale = True
        """Whether something below has changed since the result was computed. The nodes above are
        stale then, too.
        """

    @property
    def saturated(self) -> bool:
        """Whether all parts are saturated."""
        return self.result[2]

    @property
    def weighted(self) -> float:
        """The dominant share divided by the weight."""
        return round(self.result[1] / self.weight, DIGITS)

    @property
    def place(self) -> tuple[float, ...]:
        """Whether saturated, and the weighted share, of each node from below the root to this one.

        Computed again only after this node or one above it has another result.
        """
        if self.parent is None:
            return ()
        above = self.parent.place
        known = self._place
        if known is None or known[0] is not self.result or known[1] is not above:
            place = (*above, float(self.saturated), self.weighted)
            known = self._place = self.result, above, place
        return known[2]

    def hold(self, amounts: ResourceArray) -> None:
        """Add amounts to what this node and all nodes above hold."""
        node: TreeNode | None = self
        while node is not None:
            node.held += amounts
            node = node.parent

    def recompute(self, total: Total, wanted: Mask) -> None:
        """Compute the results of stale nodes; `wanted` (R,) says of which resources some is left.

        Nodes have few children, and for few elements lists are several times as fast as arrays.
        """
        self.recompute_parts(total, wanted)
        results = [part.result for part in self.parts]
        scaled = [share for _, share, saturated in results if share > 0 and not saturated]
        least = min(1.0, *scaled) if scaled else 1.0
        allocated = [0.0] * wanted.size
        for held, share, saturated in results:
            factor = 1.0 if saturated or share <= 0 else least / share
            pairs = zip(allocated, held, strict=True)
            allocated = [before + more * factor for before, more in pairs]
        saturated = all(saturated for _, _, saturated in results)
        self.result = allocated, total.dominant(allocated), saturated
        self.stale = False

    def recompute_parts(self, total: Total, wanted: Mask) -> None:
        """Compute the results of stale nodes below this one."""
        for part in self.parts:
            if part.stale:
                part.recompute(total, wanted)


class QueueNode(TreeNode):
    """The node of a queue, with jobs as children, one row each.

    The search for victims takes the same pods away and gives them back again and again. Each state
    of the rows therefore has a number, found by the steps that led there, and the result of each
    state is remembered. Steps are undone in reverse order, as a Statement does; a step undone out
    of order leads to a new number for a known state, which costs time only.
    """

    __slots__ = ("_held", "_numbers", "_part", "_results", "_rows", "_states", "_undo", "_whole")

    def __init__(self, parent: TreeNode, held: Sequence[JobUsage], size: int) -> None:
        super().__init__(parent, LEAST_WEIGHT, size)
        self._rows = {holding.job: row for row, holding in enumerate(held)}
        self._held = _rows((each.allocated for each in held), size)
        request = _rows((each.request for each in held), size)
        part = np.ones(size, dtype=np.int64)
        part[:ALWAYS] = 0
        self._whole = np.where(request > 0, request, NEVER)
        self._part = np.where(request > 0, part, NEVER)
        """With how much of a resource a job is saturated: while some is left, and once it is used
        up.
        """
        self._numbers = itertools.count(1)
        self._undo: list[tuple[Step, int]] = [(("", b""), 0)]
        """The step that leads back, and the number of the state, for each step since the start."""
        self._states: dict[tuple[int, Step], int] = {}
        """The number of the state to which a step leads from another state."""
        self._results: dict[tuple[int, bytes], Result] = {}
        """Results by the number of the state and by the resources that are left."""

    def shift(self, job: str, amounts: ResourceArray) -> None:
        """Add amounts to what a job holds."""
        self._held[self._rows[job]] += amounts
        step = job, amounts.tobytes()
        back, state = self._undo[-1]
        if step == back:
            self._undo.pop()
            return
        if len(self._states) + len(self._results) > MEMO_MAX:
            self._states.clear()
            self._results.clear()
        number = self._states.get((state, step))
        if number is None:
            number = self._states[state, step] = next(self._numbers)
        self._undo.append(((job, (-amounts).tobytes()), number))

    def recompute(self, total: Total, wanted: Mask) -> None:
        """Take the result of this state from memory, or compute it."""
        key = self._undo[-1][1], wanted.tobytes()
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = self._compute(total, wanted)
        self.result = result
        self.stale = False

    def _compute(self, total: Total, wanted: Mask) -> Result:
        """Compute the result from the jobs' rows (Volcano: resourceSaturated,
        updateHierarchicalShare).
        """
        saturated: Mask = np.any(self._held >= np.where(wanted, self._whole, self._part), axis=1)
        allocated = _sum(self._held, total.dominant_by_row(self._held), saturated).tolist()
        return allocated, total.dominant(allocated), bool(saturated.all())


class Tree:
    """All queues with their jobs, following the allocations of a cycle."""

    def __init__(
        self,
        total: ResourceArray,
        places: Mapping[str, QueuePath],
        holdings: Mapping[str, Sequence[JobUsage]],
        *,
        flat: bool = False,
    ) -> None:
        """Every queue has a place. If two places disagree about a weight, the first counts."""
        self._total = Total(total)
        self._used = np.zeros(total.size, dtype=np.int64)
        self._root = TreeNode(None, LEAST_WEIGHT, total.size)
        """Its result isn't computed, as nothing is compared with it."""
        self._queue_nodes: dict[str, QueueNode] = {}
        known: dict[tuple[str, ...], TreeNode] = {(): self._root}
        for queue, stands in places.items():
            node = self._root
            for depth, weight in enumerate(stands.weights, start=1):
                path = stands.path[:depth]
                if path not in known:
                    known[path] = TreeNode(node, weight, total.size)
                node = known[path]
            same = [other for other in places if flat and places[other].path == stands.path]
            held = [each for name in same or (queue,) for each in holdings.get(name, ())]
            shared = self._queue_nodes.get(same[0]) if same else None
            self._queue_nodes[queue] = shared or QueueNode(node, held, total.size)
            for each in holdings.get(queue, ()):
                self._used += each.allocated
                self._queue_nodes[queue].hold(each.allocated)
        self._flat = flat
        self._depth = max((len(stands.path) for stands in places.values()), default=0) + (not flat)
        self._wanted: Mask = self._used < total
        self._state = 0
        """A number for the resources that are left."""
        self._before: list[tuple[TreeNode, Result]] | None = None
        """In a trial, the results of nodes that became stale."""

    def shift(self, queue: str, job: str, amounts: ResourceArray) -> None:
        """Add amounts to what a job of this queue holds; negative amounts reduce the job's
        usage.
        """
        node = self._queue_nodes[queue]
        node.shift(job, amounts)
        node.hold(amounts)
        self._change(node)
        self._used += amounts
        wanted = self._used < self._total.amounts
        if wanted.tobytes() != self._wanted.tobytes():  # several times as fast as array_equal
            self._wanted = wanted
            self._state += 1
            for each in self._queue_nodes.values():
                self._change(each)

    def _change(self, node: TreeNode | None) -> None:
        """Mark this node and all nodes above as stale."""
        while node is not None and not node.stale:
            node.stale = True
            if self._before is not None:
                self._before.append((node, node.result))
            node = node.parent

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Restore the computed results at the end of a `with` block.

        The caller shifts back whatever was shifted inside the block, last first.
        """
        self._recompute()
        before = self._before = []
        wanted = self._wanted
        yield
        assert np.array_equal(wanted, self._wanted)
        self._before = None
        # A node that was computed inside the block is there several times; the first result counts.
        for each, result in reversed(before):
            each.result, each.stale = result, False

    def key(self, queue: str) -> tuple[float, ...]:
        """Return the sort key of a queue, smallest first (Volcano: compareQueues).

        The key holds two values for each node from the root down: whether the node is saturated,
        and the weighted share. A shorter path is filled up with zeros.
        """
        self._recompute()
        node: TreeNode | None = self._queue_nodes[queue]
        if self._flat and node is not None:
            node = node.parent
        place = () if node is None else node.place
        missing = 2 * self._depth - len(place)
        return (*place, *[0.0] * missing) if missing else place

    def path(self, queue: str) -> tuple[Hashable, ...]:
        """Return a number that changes when all keys may, and the nodes of the queue's key."""
        path = self._path(queue)
        return (self._state, *(path[:-1] if self._flat else path))

    def shares(self, queue: str, other: str) -> tuple[SharePair, SharePair]:
        """Return the weighted shares of the two nodes at which the paths of both queues part.

        The first pair is scaled, as in the order of queues. The second pair is by what jobs hold.
        """
        pairs = zip(self._path(queue), self._path(other), strict=False)
        mine, theirs = next(pair for pair in pairs if pair[0] is not pair[1])
        held = self._held_share(mine), self._held_share(theirs)
        return (mine.weighted, theirs.weighted), held

    def _held_share(self, node: TreeNode) -> float:
        """Return the weighted share without scaling; it never shrinks as more of a node starts."""
        return round(self._total.dominant(node.held.tolist()) / node.weight, DIGITS)

    def _path(self, queue: str) -> list[TreeNode]:
        """Return the nodes from below the root to the queue's own, with attributes up to date."""
        self._recompute()
        path: list[TreeNode] = []
        node: TreeNode = self._queue_nodes[queue]
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def _recompute(self) -> None:
        """Bring all attributes up to date."""
        if self._root.stale:
            self._root.recompute_parts(self._total, self._wanted)
            self._root.stale = False


def _rows(several: Iterable[ResourceArray], size: int) -> ResourceArray:
    """Return an array (N, R) of these rows, also if there are none."""
    return np.array([*several], dtype=np.int64).reshape(-1, size)


def _sum(held: ResourceArray, shares: Shares, saturated: Mask) -> Shares:
    """Return the scaled sum of what jobs hold, (R,)."""
    scaled = ~saturated & (shares > 0)
    least = shares[scaled].min(initial=1.0)
    factors = np.divide(least, shares, out=np.ones(shares.size), where=scaled)
    total: Shares = (held * factors[:, np.newaxis]).sum(axis=0)
    return total
