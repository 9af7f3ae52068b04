"""Branches: dominant shares of a tree of queues, the jobs at its ends (hierarchical DRF).

A branch holds what its parts hold, scaled so that parts of different dominant resources count
alike: each part that still wants something counts as much as the smallest of them. A part is
saturated when it has what it asks for of some resource, or when there is no more of one that it
asks for; it counts in full, and stands back behind those that aren't.

Volcano: plugins/drf, enableHierarchy. There the jobs of a queue hang on the last node of its path;
here each queue has a node of its own below it, so that queues of one path, or of a path that goes
on, take turns; with `flat` queues of one path are one, as there, and the older one comes first.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

ResourceArray: TypeAlias = NDArray[np.int64]
"""One amount per column: (R,), or (N, R) for N parts."""

Mask: TypeAlias = NDArray[np.bool_]
Shares: TypeAlias = NDArray[np.float64]

DIGITS = 9
"""Shares that agree so far are equal: they are sums of floats in some order."""

SEPARATOR = "/"
LEAST_WEIGHT = 1.0
ALWAYS = 2
"""Columns that count for every job, held or not: cpu and memory, which come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePath:
    """Where a queue stands: the nodes below the root, each with its weight, outermost first."""

    path: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """One job: what it holds, and what it asks for in all."""

    job: str
    allocated: ResourceArray
    request: ResourceArray


def place(path: str, weights: str) -> QueuePath:
    """`root/sci/dev` and `1/2/8`: the first part of each is the root's.

    A weight that is missing, unreadable or below 1 is 1 (Volcano: buildHierarchy).
    """
    names = tuple(path.split(SEPARATOR)[1:])
    written = weights.split(SEPARATOR)[1:]
    given = (*map(_weight, written[: len(names)]), *[LEAST_WEIGHT] * (len(names) - len(written)))
    return QueuePath(path=names, weights=given)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return LEAST_WEIGHT
    return weight if LEAST_WEIGHT <= weight < np.inf else LEAST_WEIGHT


class TreeNode:
    """A node whose parts are branches, or queues' own nodes."""

    __slots__ = ("allocated", "parent", "parts", "saturated", "share", "stale", "weight")

    def __init__(self, parent: "TreeNode | None", weight: float) -> None:
        self.parent = parent
        self.weight = weight
        self.parts: list[TreeNode] = []
        if parent is not None:
            parent.parts.append(self)
        self.allocated: NDArray[np.float64] = np.zeros(0)
        """What it counts as, (R,)."""
        self.share = 0.0
        self.saturated = True
        self.stale = True
        """Whether something changed below since the three were worked out."""

    @property
    def weighted(self) -> float:
        """The share by weight."""
        return round(self.share / self.weight, DIGITS)

    def change(self) -> None:
        """What it holds is another now, and what is above it, too."""
        branch: TreeNode | None = self
        while branch is not None:
            branch.stale = True
            branch = branch.parent

    def settle(self, total: ResourceArray, wanted: Mask) -> None:
        """Work out what is stale; wanted is which resources (R,) there is more of."""
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


class InnerNode(TreeNode):
    """A queue's own node: its parts are jobs, one row each."""

    __slots__ = ("held", "request", "rows")

    def __init__(self, parent: TreeNode, held: Sequence[JobUsage], size: int) -> None:
        super().__init__(parent, LEAST_WEIGHT)
        self.rows = {holding.job: row for row, holding in enumerate(held)}
        empty = np.zeros((0, size), dtype=np.int64)
        self.held = np.array([each.allocated for each in held]) if held else empty
        self.request = np.array([each.request for each in held]) if held else empty

    def settle(self, total: ResourceArray, wanted: Mask) -> None:
        """Volcano: resourceSaturated, updateHierarchicalShare."""
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
    """All queues with their jobs, as a cycle changes what these hold."""

    def __init__(
        self,
        total: ResourceArray,
        places: Mapping[str, QueuePath],
        holdings: Mapping[str, Sequence[JobUsage]],
        *,
        flat: bool = False,
    ) -> None:
        """Every queue has a place; where two disagree about a weight, the first one is right."""
        self._total = total
        self._used = np.zeros(total.size, dtype=np.int64)
        self._root = TreeNode(None, LEAST_WEIGHT)
        self._branches = [self._root]
        self._stems: dict[str, InnerNode] = {}
        known: dict[tuple[str, ...], TreeNode] = {(): self._root}
        for queue, stands in places.items():
            branch = self._root
            for depth, weight in enumerate(stands.weights, start=1):
                path = stands.path[:depth]
                if path not in known:
                    known[path] = TreeNode(branch, weight)
                    self._branches.append(known[path])
                branch = known[path]
            same = [other for other in places if flat and places[other].path == stands.path]
            held = [each for name in same or (queue,) for each in holdings.get(name, ())]
            first = self._stems.get(same[0]) if same else None
            self._stems[queue] = first or InnerNode(branch, held, total.size)
            for each in holdings.get(queue, ()):
                self._used += each.allocated
        self._branches += dict.fromkeys(self._stems.values())
        self._flat = flat
        self._depth = max((len(stands.path) for stands in places.values()), default=0) + (not flat)
        self._wanted: Mask = self._used < total

    def shift(self, queue: str, job: str, amounts: ResourceArray) -> None:
        """A job of this queue holds so much more; less, where amounts are negative."""
        stem = self._stems[queue]
        stem.held[stem.rows[job]] += amounts
        stem.change()
        self._used += amounts
        wanted = self._used < self._total
        if not np.array_equal(wanted, self._wanted):
            self._wanted = wanted
            for each in self._stems.values():
                each.change()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Whatever is shifted meanwhile is shifted back before the end: what was worked out before
        holds again then.
        """
        self._settle()
        before = [(each, each.allocated, each.share, each.saturated) for each in self._branches]
        wanted = self._wanted
        yield
        assert np.array_equal(wanted, self._wanted)
        for each, allocated, share, saturated in before:
            each.allocated, each.share, each.saturated = allocated, share, saturated
            each.stale = False

    def key(self, queue: str) -> tuple[float, ...]:
        """What queues are compared by, smaller first: from the root down, whether the branch is
        saturated, and its share by weight (Volcano: compareQueues). Where a way ends there is
        nothing more.
        """
        way = self._way(queue)
        compared = way[:-1] if self._flat else way
        parts = [part for each in compared for part in (float(each.saturated), each.weighted)]
        return (*parts, *[0.0] * (2 * self._depth - len(parts)))

    def shares(self, queue: str, other: str) -> tuple[float, float]:
        """The shares by weight of the two branches in which these queues are, where their ways
        part.
        """
        pairs = zip(self._way(queue), self._way(other), strict=False)
        mine, theirs = next(pair for pair in pairs if pair[0] is not pair[1])
        return mine.weighted, theirs.weighted

    def _way(self, queue: str) -> list[TreeNode]:
        """The branches from below the root to the queue's own, as they are now."""
        self._settle()
        way: list[TreeNode] = []
        branch: TreeNode = self._stems[queue]
        while branch.parent is not None:
            way.append(branch)
            branch = branch.parent
        return way[::-1]

    def _settle(self) -> None:
        if self._root.stale:
            self._root.settle(self._total, self._wanted)


def _sum(held: NDArray[np.float64], shares: NDArray[np.float64], saturated: Mask) -> Shares:
    """What parts count as together, (R,)."""
    scaled = ~saturated & (shares > 0)
    least = min(1.0, float(shares[scaled].min(initial=1.0)))
    factors = np.divide(least, shares, out=np.ones_like(shares), where=scaled)
    total: Shares = (held * factors[:, np.newaxis]).sum(axis=0)
    return total


def _dominant(held: NDArray[np.int64] | NDArray[np.float64], total: ResourceArray) -> Shares:
    """The largest part of any resource that each row holds, (N,); 1 where there is none of it."""
    parts = np.divide(held, total, out=(held > 0).astype(np.float64), where=total > 0)
    shares: Shares = parts.max(axis=1, initial=0.0)
    return shares
