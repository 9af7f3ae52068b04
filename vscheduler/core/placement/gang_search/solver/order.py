"""Order: the kinds of pods with one of which any solution can begin.

Amounts, anti-affinity and host ports don't depend on the order in which pods come. Required
affinity and topology spread do: pods may have to come before others, or after them.
"""

from collections.abc import Sequence

import numpy as np

from vscheduler.core.placement.gang_search.solver.problem import Flags, Ints, Problem


class Order:
    """Which kinds matter for each other, by rules about the order of pods."""

    def __init__(self, problem: Problem) -> None:
        self._given = problem
        self._is_free = not (problem.near or problem.spread)
        """Whether any order will do."""
        self._known: dict[tuple[bool, ...], Flags] = {}

    def first_of(self, kinds: Ints, anywhere: Sequence[bool]) -> Ints:
        """Return some of these kinds: any solution has an order that begins with one of them.

        It is the first kind alone, if no other one has to come before it. `kinds` are those with
        pods left, and `anywhere` says of each rule of required affinity whether its pods may still
        go anywhere, since no pod that they ask for is there yet.
        """
        if self._is_free:
            return kinds[:1]
        awaited = self._awaited(tuple(anywhere))
        for kind in kinds[awaited[kinds[0], kinds]].tolist():
            before: Ints = kinds[awaited[kind, kinds]]
            # Those that have to come before it may have to come after it as well.
            if awaited[before, kind].all():
                return before
        raise AssertionError("some kind awaits none but those that await it")

    def _awaited(self, anywhere: tuple[bool, ...]) -> Flags:
        """Return which kinds each kind awaits, itself included, (K, K); transitive.

        Kinds that may help and hinder each other await each other. A kind that others can only help
        awaits these, and isn't awaited: any solution remains one if its pods come later.
        """
        known = self._known.get(anywhere)
        if known is not None:
            return known
        flags: Flags = np.eye(len(self._given.kinds), dtype=np.bool_)
        for near, first in zip(self._given.near, anywhere, strict=True):
            flags[near.kind] |= near.counted
            if first:  # whoever comes first decides where the others may go
                flags[near.counted, near.kind] = True
        for spread in self._given.spread:
            flags[spread.kind] |= spread.counted
            flags[spread.counted, spread.kind] = True
        for kind in range(len(flags)):  # Warshall's transitive closure
            flags |= flags[:, kind, np.newaxis] & flags[kind]
        self._known[anywhere] = flags
        return flags
