"""Waste: what a node would have left that no other pod of the gang can use.

It decides in which order nodes are tried. On thousands of nodes it takes longer to work out than
all else, so it is kept as long as it holds: until pods come to a node, or go, or so few pods of
another kind are left that they don't fill a node any more.
"""

import msgspec
import numpy as np

from vscheduler.core.placement.gang_search.solver import problem, state
from vscheduler.core.placement.gang_search.solver.problem import Ints
from vscheduler.core.placement.gang_search.solver.state import State

Amounts = state.Amounts
CELLS_EXACT = 10_000
"""With more kinds times nodes, numbers of pods that are left are rounded up to powers of two."""


class Known(msgspec.Struct):
    """What is known of one kind."""

    others: Ints
    """How many pods of each kind were left for the rest, as far as a node can take them, (K,)."""
    waste: Amounts
    """(N,), as parts of the largest node; NaN where it isn't known."""
    changes: int
    """How many changes of nodes are taken into account."""


class Waste:
    """The waste of a pod of each kind on each node, in the present state of a search."""

    def __init__(self, now: State) -> None:
        self._state = now
        asked = np.flatnonzero(now.requests.any(axis=0))
        self._asked = asked
        self._requests = now.requests[:, asked]
        self._asks = self._requests > 0
        self._divisor = np.maximum(self._requests, 1)
        self.scale: Amounts = 1.0 / np.maximum(now.free.max(axis=0, initial=0), 1)
        """(R,), what an amount is of the largest node."""
        self.sizes: Amounts = (now.requests * self.scale).sum(axis=1)
        """(K,), what a pod asks for, as parts of the largest node."""
        whole = [
            self._fits(now.free[rows][:, asked], np.array([kind])).max(initial=0)
            for kind, rows in enumerate(now.places > 0)
        ]
        self._most: Ints = np.array(whole, dtype=np.int64)
        """(K,), how many pods of a kind the largest node takes."""
        self._is_large = now.places.size > CELLS_EXACT
        self._known: dict[int, Known] = {}

    def of(self, kind: int, rows: Ints) -> Amounts:
        """Return the waste on these nodes (n,), after one more pod of this kind has come."""
        now = self._state
        left = now.left.copy()
        left[kind] -= 1
        # On many nodes, more work is saved than exact numbers are worth.
        others = np.minimum(_rounded_up(left) if self._is_large else left, self._most)
        known = self._known.get(kind)
        if known is None or not np.array_equal(known.others, others):
            waste = np.full(now.free.shape[0], np.nan)
            known = self._known[kind] = Known(others, waste, len(now.changes))
        else:
            for changed in now.changes[known.changes :]:
                known.waste[changed] = np.nan
            known.changes = len(now.changes)
        missing = rows[np.isnan(known.waste[rows])]
        if missing.size:
            known.waste[missing] = self._waste(kind, missing, others)
        return known.waste[rows]

    def _waste(self, kind: int, rows: Ints, others: Ints) -> Amounts:
        rest = self._state.free[rows[:, np.newaxis], self._asked] - self._requests[kind]
        kinds = others.nonzero()[0]
        fits = self._fits(rest, kinds)
        fits[self._state.places[kinds, rows[:, np.newaxis]] == 0] = 0
        used = np.minimum(fits, others[kinds]) @ self._requests[kinds]
        # Of what no pod asks for, all is left.
        wasted = np.maximum(rest - used, 0) * self.scale[self._asked]
        waste: Amounts = wasted.sum(axis=1).round(state.DIGITS)
        return waste

    def _fits(self, free: Ints, kinds: Ints) -> Ints:
        """Return how many pods of these kinds fit into these amounts (n, k), by amounts alone."""
        fits = np.full((free.shape[0], kinds.size), problem.PLENTY)
        for column in range(self._asked.size):
            asking = self._asks[kinds, column].nonzero()[0]
            each = free[:, column, np.newaxis] // self._divisor[kinds[asking], column]
            fits[:, asking] = np.minimum(fits[:, asking], each)
        return fits


def _rounded_up(numbers: Ints) -> Ints:
    """Return the next power of two of each number; 0 of 0."""
    powers = np.ceil(np.log2(np.maximum(numbers, 1))).astype(np.int64)
    rounded: Ints = np.left_shift(1, powers) * (numbers > 0)
    return rounded
