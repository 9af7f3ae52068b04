"""Lagrangian relaxation of assigning sets of pods to nodes, and a tabu search from its prices.

Which set of pods each node takes is the pattern formulation of cutting stock (Gilmore & Gomory,
1961); patterns are enumerated rather than generated. That every kind has all its pods is relaxed:
each node takes the pods that are worth most, and prices of kinds of which too few are taken rise
(a subgradient method: Held & Karp, 1971). If at some prices all nodes together can't take what the
gang is worth, no placement exists (weak duality: Geoffrion, "Lagrangean relaxation for integer
programming", 1974): a proof that the nodes are too small, also for several kinds together.

Otherwise the prices are nearly a solution. Each node takes what is worth most to it, the largest
nodes first; then nodes take sets with a pod that has no node yet, give up others, and keep them for
some moves (tabu search: Glover, 1989). The prices of pods without a node rise meanwhile, so that
they aren't given up again.
"""

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.gangs.solver.problem import Flags, Ints, Problem

PATTERNS_MAX = 4000
"""So many sets of pods are looked at, the small ones first."""
CELLS_MAX = 2_000_000
"""Fewer sets are looked at if these, times the nodes, are more than that."""
CELLS_A_STEP = 20_000
"""To look at sets of pods costs a step of a search for so many sets times nodes."""
ROUNDS, ROUNDS_STEPS = 40, 30
"""How often prices are adjusted, and what that costs at least, in steps of a search."""
FIRST_STEP, LATER_STEPS = 0.5, 0.95
"""By which part prices change in the first round, and how much less in each later one."""
KEPT = 0.8
"""How much of the average of earlier rounds is kept when prices are averaged."""
PAIRS_A_STEP = 400
"""To adjust prices costs a step of a search for so many pairs of nodes and patterns."""
DIGITS = 9
"""Of prices that are compared."""
WHOLE = 2**30
"""What all pods together are worth. Prices are whole numbers, so that sums are exact."""
SHORT_MOST = 0.5
"""A kind of which even less is taken isn't treated in another way."""

Amounts = NDArray[np.float64]


class Prices:
    """Prices for the kinds of pods of which all are needed."""

    def __init__(self, problem: Problem) -> None:
        self.requests: Ints = np.array([kind.request for kind in problem.kinds], dtype=np.int64)
        self.counts: Ints = np.array([kind.count for kind in problem.kinds], dtype=np.int64)
        self.free: Ints = np.maximum(problem.free, 0)
        # Nodes that are usable for the same kinds are looked at together.
        usable = np.array([kind.usable for kind in problem.kinds])
        self._usable, alike = np.unique(usable, axis=1, return_inverse=True)
        self._alike = alike.reshape(-1)
        """The column of `_usable` of each node."""
        whole = np.maximum(self.counts @ self.requests, 1)
        self.prices = self._whole((self.requests / whole).sum(axis=1))
        """(K,); all pods together are worth about WHOLE."""
        self.is_complete = True
        """Whether all sets of pods are looked at that any node takes."""
        self.suits_most = True
        """Whether at least half of the nodes take none but sets that are looked at."""
        self.patterns, fits = self._enumerated()
        """(M, K), how many pods of each kind a set has."""
        rows, self.taken = np.nonzero(fits)
        """For all nodes in turn, the sets that the node takes."""
        self.rows, self.begins = np.unique(rows, return_index=True)
        """The nodes that take any set, and where their sets begin in `taken`."""
        cells = len(self.patterns) * len(self.free)
        self.steps = ROUNDS_STEPS + cells // CELLS_A_STEP + len(self.taken) // PAIRS_A_STEP
        """What it costs to adjust the prices, in steps of a search."""

    def are_too_high(self) -> bool:
        """Adjust the prices; return whether the nodes can't take what the gang is worth.

        Then no placement exists, if `is_complete`.
        """
        prices, change = self.prices, FIRST_STEP
        for _ in range(ROUNDS if len(self.rows) else 0):
            worth = (self.patterns @ prices)[self.taken]
            best = np.maximum.reduceat(worth, self.begins)
            if best.sum() < prices @ self.counts:
                return True
            chosen = self.taken[self._first_of(worth, best)]
            short = 1 - self.patterns[chosen].sum(axis=0) / self.counts
            short = np.clip(short, -SHORT_MOST, SHORT_MOST)
            prices = self._whole(prices * (1 + change * short))
            self.prices = self._whole(KEPT * self.prices + (1 - KEPT) * prices)
            change *= LATER_STEPS
        return not len(self.rows)

    def _whole(self, prices: Amounts) -> Ints:
        """Return prices as whole numbers, in such a unit that all pods are worth WHOLE."""
        parts = np.round(prices / prices.max(), DIGITS)
        total = max(int(np.rint(parts * 10**DIGITS).astype(np.int64) @ self.counts), 1)
        found: Ints = np.rint(parts * (10**DIGITS * WHOLE / total)).astype(np.int64)
        return np.maximum(found, 1)

    def _first_of(self, worth: Ints, best: Ints) -> Ints:
        """Return for each row the first place where a pattern is worth most."""
        sizes = np.diff(np.append(self.begins, len(worth)))
        places = np.flatnonzero(worth == np.repeat(best, sizes))
        owners = np.searchsorted(self.begins, places, side="right")
        return places[np.unique(owners, return_index=True)[1]]

    def _enumerated(self) -> tuple[Ints, Flags]:
        """Return all sets of pods that some node takes, the small ones first, and who does, (N, M).

        A set with one more pod than another has it of the kind of the last one, or of a later kind.
        """
        kinds = np.arange(len(self.counts))
        found = [np.zeros((0, kinds.size), dtype=np.int64)]
        taken = [np.zeros((len(self.free), 0), dtype=np.bool_)]
        level, last = np.zeros((1, kinds.size), dtype=np.int64), np.zeros(1, dtype=np.int64)
        most = min(PATTERNS_MAX, CELLS_MAX // max(1, len(self.free)))
        total = 0
        while len(level):
            before, added = np.nonzero(kinds >= last[:, np.newaxis])
            if total + len(before) > most:
                self.is_complete = False
                # Nodes that take the largest of these sets may take larger ones as well.
                self.suits_most = bool(taken[-1].any(axis=1).mean() <= 1 / 2)
                break
            level = level[before]
            level[np.arange(len(level)), added] += 1
            fits = self._fits(level)
            kept = fits.any(axis=0) & (level <= self.counts).all(axis=1)
            level, last = level[kept], added[kept]
            total += len(level)
            found.append(level)
            taken.append(fits[:, kept])
        return np.concatenate(found), np.concatenate(taken, axis=1)

    def _fits(self, patterns: Ints) -> Flags:
        """Return which nodes take which sets of pods, (N, M)."""
        asked = patterns @ self.requests
        fits: Flags = ((patterns @ ~self._usable).T == 0)[self._alike]
        for column in np.flatnonzero(asked.any(axis=0)).tolist():
            fits &= asked[:, column] <= self.free[:, column, np.newaxis]
        return fits


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
        sizes = np.round((known.free[known.rows] / largest).sum(axis=1), DIGITS)
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
