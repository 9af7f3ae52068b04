"""Groups: pods that have to be in one domain of the network, and where they are.

A group is anchored by its first pod: from then on, its other pods may only use the largest allowed
domain around it. So whoever places them, no action spreads them farther than allowed.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from vscheduler.core.topology.tree import Flags, Floats, Tree
from vscheduler.model.jobs import Task

Key: TypeAlias = tuple[int, tuple[str, ...]]
"""A sub-group: the index of the policy, and the values of its labels."""

SCATTERED = -1
"""The anchor of pods that aren't in one allowed domain."""


class Bounds(NamedTuple):
    """How far from each other pods may be."""

    tier: int
    """The highest that a domain for all of the pods may have."""
    preferred: int | None = None
    """The tier that they still wait for, rather than spread farther."""


class Group:
    """Pods of a job, or of a sub-group, that have to be in one domain."""

    __slots__ = ("_lowest", "bounds", "chosen", "order", "tier", "to_fill", "tree")

    def __init__(self, tree: Tree, bounds: Bounds) -> None:
        self.tree, self.bounds = tree, bounds
        self.tier = bounds.tier if bounds.preferred is None else bounds.preferred
        """The highest that a domain for all of the pods may have now."""
        self.chosen: int | None = None
        """The domain that is tried at this moment."""
        self.to_fill: tuple[int, ...] = ()
        """The smallest domains in it that are filled one after the other."""
        self.order: Floats | None = None
        """How early nodes (N,) are to be filled for that, from 0 to 1; None: all alike."""
        self._lowest: Counter[int] = Counter()
        """The smallest domains of placed pods."""

    def count(self, row: int, step: int) -> None:
        """Count a pod on this node (step 1), or no longer (step -1)."""
        domain = int(self.tree.lowest[row])
        self._lowest[domain] += step
        if not self._lowest[domain]:
            del self._lowest[domain]

    @property
    def anchor(self) -> int | None:
        """The largest allowed domain around all placed pods; None without any, SCATTERED if there
        is none.
        """
        within = self.tree.within(self.tier)
        found = {int(within[domain]) for domain in self._lowest}
        if not found:
            return None
        return found.pop() if len(found) == 1 else SCATTERED

    @property
    def place(self) -> int | None:
        """The smallest domain around all placed pods; None without any."""
        return self.tree.common(self._lowest)

    @property
    def pods(self) -> Mapping[int, int]:
        """The number of placed pods by their smallest domain."""
        return self._lowest

    @property
    def class_key(self) -> Hashable:
        """What decides on the nodes of its next pod, beside the tree."""
        return self.tier, self.anchor, self.chosen, self.to_fill

    @property
    def is_bounded(self) -> bool:
        """Whether some nodes are too far from each other."""
        return self.tier < int(self.tree.tiers[self.tree.root])

    def mask(self) -> Flags | None:
        """Return the nodes (N,) that the next pod may use; None: all."""
        anchor = self.anchor
        if anchor == SCATTERED:
            return self.tree.lowest < 0
        if self.chosen is not None:
            mask = self.tree.mask(self.chosen)
            return mask if anchor is None else mask & self.tree.mask(anchor)
        if anchor is not None:
            return None if anchor == self.tree.root else self.tree.mask(anchor)
        if not self.is_bounded:
            return None
        allowed: Flags = self.tree.within(self.tier)[self.tree.lowest] >= 0
        return allowed


class JobTopology:
    """The groups of one job: all of its pods, and its sub-groups."""

    def __init__(self, tree: Tree, bounds: Bounds, of_policies: Mapping[int, Bounds]) -> None:
        """`of_policies` are the bounds of sub-groups, by the index of the policy."""
        self.tree = tree
        self.whole = Group(tree, bounds)
        self.parts: dict[Key, Group] = {}
        """The sub-groups with bounds of their own."""
        self._of_policies = of_policies
        self._of: dict[str, Group] = {}

    def assign(self, tasks: Iterable[tuple[Task, Key | None]]) -> None:
        """Say of which sub-group each task is."""
        for task, key in tasks:
            bounds = None if key is None else self._of_policies.get(key[0])
            if key is not None and bounds is not None:
                part = self.parts.get(key)
                if part is None:
                    part = self.parts[key] = Group(self.tree, bounds)
                self._of[task.uid] = part

    def settle(self) -> None:
        """Wait for nothing that the pods placed so far rule out."""
        for group in (self.whole, *self.parts.values()):
            if group.anchor == SCATTERED:
                group.tier = group.bounds.tier

    def of(self, task: Task) -> Iterator[Group]:
        """Iterate over the groups of a task, the job's first."""
        yield self.whole
        part = self._of.get(task.uid)
        if part is not None:
            yield part

    def count(self, task: Task, row: int, step: int) -> None:
        """Count a task on this node (step 1), or no longer (step -1)."""
        for group in self.of(task):
            group.count(row, step)

    def preference(self, task: Task) -> Floats | None:
        """Return how early the nodes (N,) are to be filled, from 0 to 1; None: all alike."""
        part = self._of.get(task.uid)
        if part is not None and part.order is not None:
            return part.order
        return self.whole.order

    def mask(self, task: Task) -> Flags | None:
        """Return the nodes (N,) that the task may use; None: all."""
        found: Flags | None = None
        for group in self.of(task):
            mask = group.mask()
            if mask is not None:
                found = mask if found is None else found & mask
        return found
