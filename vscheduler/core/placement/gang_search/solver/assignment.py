"""Assignment: which set of pods each node takes, improved node by node.

First each node takes what is worth most to it, the largest nodes first. Then nodes take sets with a
pod that has no node yet, and give up others, which come next: a tabu search. The prices of pods
without a node rise, so that they aren't given up again.
"""

import numpy as np

from vscheduler.core.placement.gang_search.solver import lagrangian
from vscheduler.core.placement.gang_search.solver.lagrangian import Prices
from vscheduler.core.placement.gang_search.solver.problem import Ints

TENURE = 12
"""For so many moves, a node keeps the set that it has taken."""
RISE = 33
"""By which part the price of a kind rises with each move that leaves some of its pods."""
NODES_A_STEP = 12
"""So many nodes that take what is worth most cost a step of a search."""
NOTHING = -(2**62)
"""Less than any set of pods is worth."""


class Assignment:
    """Nodes with sets of pods, and the pods that are left."""

    def __init__(self, known: Prices) -> None:
        self._known, self._prices = known, known.prices.copy()
        self._left = known.counts.copy()
        nothing = np.zeros((1, self._left.size), dtype=np.int64)
        self._patterns: Ints = np.concatenate([known.patterns, nothing])
        self._chosen = np.full(len(known.rows), len(known.patterns))
        """The set of each node; the last one is empty."""
        ends = np.append(known.begins[1:], len(known.taken))
        self._owners = np.repeat(np.arange(len(known.rows)), ends - known.begins)
        """The node of each entry of `taken`."""
        self._with: dict[int, Ints] = {}
        """Entries of `taken` that have a pod of a kind."""
        self.steps = len(known.rows) // NODES_A_STEP
        """What it costs to begin, in steps of a search."""
        worth = self._patterns @ self._prices
        largest = np.maximum(known.free.max(axis=0, initial=0), 1)
        sizes = np.round((known.free[known.rows] / largest).sum(axis=1), lagrangian.DIGITS)
        for place in np.argsort(-sizes, kind="stable").tolist():
            some = known.taken[known.begins[place] : ends[place]]
            some = some[(self._patterns[some] <= self._left).all(axis=1)]
            if some.size:
                self._take(place, int(some[worth[some].argmax()]))

    def improve(self, moves_max: int) -> int:
        """Move pods until none is left, or so often; return the number of moves."""
        barred = np.full(self._chosen.size, -1)
        for move in range(moves_max):
            kinds = np.flatnonzero(self._left)
            if not kinds.size:
                return move
            kind = int(kinds[move % kinds.size])
            entries = self._entries(kind)
            places, sets = self._owners[entries], self._known.taken[entries]
            more = self._patterns[sets] - self._patterns[self._chosen[places]]
            open_now = (more[:, kind] > 0) & (barred[places] < move)
            open_now &= (more <= self._left).all(axis=1)
            if open_now.any():
                worth = np.where(open_now, more @ self._prices, NOTHING)
                best = int(worth.argmax())
                self._take(int(places[best]), int(sets[best]))
                barred[places[best]] = move + TENURE
            self._prices += np.where(self._left > 0, self._prices // RISE, 0)
        return moves_max

    def places(self) -> list[tuple[int, int]]:
        """Return kinds and rows of all pods that have a node."""
        return [
            (kind, row)
            for row, chosen in zip(self._known.rows.tolist(), self._chosen.tolist(), strict=True)
            for kind in np.repeat(np.arange(self._left.size), self._patterns[chosen]).tolist()
        ]

    def _entries(self, kind: int) -> Ints:
        found = self._with.get(kind)
        if found is None:
            has = self._known.patterns[:, kind] > 0
            found = self._with[kind] = np.flatnonzero(has[self._known.taken])
        return found

    def _take(self, place: int, pattern: int) -> None:
        """Let a node take a set instead of the one that it has."""
        self._left += self._patterns[self._chosen[place]] - self._patterns[pattern]
        self._chosen[place] = pattern
