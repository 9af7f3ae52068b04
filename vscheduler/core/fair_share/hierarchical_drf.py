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

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePath:
    """The position of a queue: the nodes below the root with their weights, outermost first."""

    path: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
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


class TreeNode:
    """A node of the tree, with inner nodes of paths or nodes of queues as children."""

    __slots__ = ("allocated", "parent", "parts", "saturated", "share", "stale", "weight")

    def __init__(self, parent: "TreeNode | None", weight: float) -> None:
        self.parent = parent
        self.weight = weight
        self.parts: list[TreeNode] = []
        if parent is not None:
            parent.parts.append(self)
        self.allocated: NDArray[np.float64] = np.zeros(0)
        """The scaled allocation, (R,)."""
        self.share = 0.0
        self.saturated = True
        self.stale = True
        """Whether something below has changed since the three attributes above were computed."""

    @property
    def weighted(self) -> float:
        """The dominant share divided by the weight."""
        return round(self.share / self.weight, DIGITS)

    def change(self) -> None:
        """Mark this node and all nodes above as stale."""
        node: TreeNode | None = self
        while node is not None:
            node.stale = True
            node = node.parent

    def settle(self, total: ResourceArray, wanted: Mask) -> None:
        """Compute the attributes of stale nodes.

        `wanted` (R,) says of which resources some is left.
        """
        for part in self.parts:
            if part.stale:
                part.settle(total, wanted)
        self.allocated = np.zeros(total.size)
        if self.parts:
            held = np.array([part.allocated for part in self.parts])
            shares = np.array([part.share for part in self.parts])
            saturated = np.array([part.saturated for part in self.parts], dtype=np.bool_)
            self.allocated = _sum(held, shares, saturated)
        self.share = float(_dominant(self.allocated[np.newaxis], total)[0])
        self.saturated = all(part.saturated for part in self.parts)
        self.stale = False


class QueueNode(TreeNode):
    """The node of a queue, with jobs as children, one row each."""

    __slots__ = ("held", "request", "rows")

    def __init__(self, parent: TreeNode, held: Sequence[JobUsage], size: int) -> None:
        super().__init__(parent, LEAST_WEIGHT)
        self.rows = {holding.job: row for row, holding in enumerate(held)}
        empty = np.zeros((0, size), dtype=np.int64)
        self.held = np.array([each.allocated for each in held]) if held else empty
        self.request = np.array([each.request for each in held]) if held else empty

    def settle(self, total: ResourceArray, wanted: Mask) -> None:
        """Compute the attributes from the rows of jobs.

        Volcano: resourceSaturated, updateHierarchicalShare.
        """
        asked, holds = self.request > 0, self.held > 0
        counts = holds.copy()
        counts[:, :ALWAYS] = True
        done = (asked & holds & (self.held >= self.request)) | (asked & counts & ~wanted)
        saturated: Mask = np.any(done, axis=1)
        shares = _dominant(self.held, total)
        self.allocated = _sum(self.held.astype(np.float64), shares, saturated)
        self.share = float(_dominant(self.allocated[np.newaxis], total)[0])
        self.saturated = bool(saturated.all())
        self.stale = False


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
        self._total = total
        self._used = np.zeros(total.size, dtype=np.int64)
        self._root = TreeNode(None, LEAST_WEIGHT)
        self._nodes = [self._root]
        self._queue_nodes: dict[str, QueueNode] = {}
        known: dict[tuple[str, ...], TreeNode] = {(): self._root}
        for queue, stands in places.items():
            node = self._root
            for depth, weight in enumerate(stands.weights, start=1):
                path = stands.path[:depth]
                if path not in known:
                    known[path] = TreeNode(node, weight)
                    self._nodes.append(known[path])
                node = known[path]
            same = [other for other in places if flat and places[other].path == stands.path]
            held = [each for name in same or (queue,) for each in holdings.get(name, ())]
            shared = self._queue_nodes.get(same[0]) if same else None
            self._queue_nodes[queue] = shared or QueueNode(node, held, total.size)
            for each in holdings.get(queue, ()):
                self._used += each.allocated
        self._nodes += dict.fromkeys(self._queue_nodes.values())
        self._flat = flat
        self._depth = max((len(stands.path) for stands in places.values()), default=0) + (not flat)
        self._wanted: Mask = self._used < total

    def shift(self, queue: str, job: str, amounts: ResourceArray) -> None:
        """Add amounts, positive or negative, to what a job of this queue holds."""
        node = self._queue_nodes[queue]
        node.held[node.rows[job]] += amounts
        node.change()
        self._used += amounts
        wanted = self._used < self._total
        if not np.array_equal(wanted, self._wanted):
            self._wanted = wanted
            for each in self._queue_nodes.values():
                each.change()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Restore the computed attributes at the end of a `with` block.

        The caller shifts back whatever was shifted inside the block.
        """
        self._settle()
        before = [(each, each.allocated, each.share, each.saturated) for each in self._nodes]
        wanted = self._wanted
        yield
        assert np.array_equal(wanted, self._wanted)
        for each, allocated, share, saturated in before:
            each.allocated, each.share, each.saturated = allocated, share, saturated
            each.stale = False

    def key(self, queue: str) -> tuple[float, ...]:
        """Return the sort key of a queue, smallest first (Volcano: compareQueues).

        The key holds two values for each node from the root down: whether the node is saturated,
        and the weighted share. A shorter path is filled up with zeros.
        """
        path = self._path(queue)
        compared = path[:-1] if self._flat else path
        parts = [part for each in compared for part in (float(each.saturated), each.weighted)]
        return (*parts, *[0.0] * (2 * self._depth - len(parts)))

    def shares(self, queue: str, other: str) -> tuple[float, float]:
        """Return the weighted shares of the two nodes at which the paths of both queues part."""
        pairs = zip(self._path(queue), self._path(other), strict=False)
        mine, theirs = next(pair for pair in pairs if pair[0] is not pair[1])
        return mine.weighted, theirs.weighted

    def _path(self, queue: str) -> list[TreeNode]:
        """Return the nodes from below the root to the queue's own, with attributes up to date."""
        self._settle()
        path: list[TreeNode] = []
        node: TreeNode = self._queue_nodes[queue]
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def _settle(self) -> None:
        """Bring all attributes up to date."""
        if self._root.stale:
            self._root.settle(self._total, self._wanted)


def _sum(held: NDArray[np.float64], shares: NDArray[np.float64], saturated: Mask) -> Shares:
    """Return the scaled sum of what children hold, (R,)."""
    scaled = ~saturated & (shares > 0)
    least = min(1.0, float(shares[scaled].min(initial=1.0)))
    factors = np.divide(least, shares, out=np.ones_like(shares), where=scaled)
    total: Shares = (held * factors[:, np.newaxis]).sum(axis=0)
    return total


def _dominant(held: NDArray[np.int64] | NDArray[np.float64], total: ResourceArray) -> Shares:
    """Return the largest fraction of a resource in each row, (N,); 1 for a total of 0."""
    parts = np.divide(held, total, out=(held > 0).astype(np.float64), where=total > 0)
    shares: Shares = parts.max(axis=1, initial=0.0)
    return shares
