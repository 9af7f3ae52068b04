"""Repair: makes room for a pod of a large gang by moving pods that are placed already.

A pod takes the place of another one, which takes the place of a third one, and so on, until one of
them goes where there is room. That is an augmenting path from kind to kind, as in a matching. If
there is none, the pod takes the place of a smaller one, which then has none: what is left to place
becomes less in any case, so this comes to an end.
"""

import msgspec
import numpy as np

from vscheduler.core.placement.gang_search import state
from vscheduler.core.placement.gang_search.problem import Flags, Ints, Problem
from vscheduler.core.placement.gang_search.state import State
from vscheduler.core.placement.gang_search.waste import Amounts

PATH_STEPS = 4
"""What it costs to look for a path, in steps of a search."""

Move = tuple[int, int, int]
"""A kind comes to a row in place of another kind."""


def is_possible(problem: Problem) -> bool:
    """Whether pods may be moved one by one: no rule but amounts and usable nodes matters."""
    rules = problem.rules or problem.sub_groups
    limited = problem.queue_room is not None or problem.idle is not None
    return not rules and not limited and all(kind.reserved is None for kind in problem.kinds)


class _Swaps(msgspec.Struct, frozen=True, eq=False):
    """The pods (P) that could make place, one of each kind on each node."""

    kinds: Ints
    rows: Ints
    fits: Flags
    """(P, K), whether a pod of another kind could come instead."""
    left: Amounts
    """(P, K), what would be left on the node then."""


class Repair:
    """Places one more pod in the present state of a search."""

    def __init__(self, now: State, scale: Amounts) -> None:
        self._state, self._scale = now, scale
        self._sizes: Amounts = np.round((now.requests * scale).sum(axis=1), state.DIGITS)

    def places(self, kind: int) -> bool:
        """Place a pod of a kind for which there is no room; return success.

        A smaller pod may have lost its place then.
        """
        swaps = self._swaps()
        moves = self._path(kind, swaps)
        if moves:
            return self._carry_out(moves)
        smaller = swaps.fits[:, kind] & (self._sizes[swaps.kinds] < self._sizes[kind])
        if not smaller.any():
            return False
        # The smallest pod that makes place, where the least is left then.
        best = np.lexsort((swaps.rows, swaps.left[:, kind], self._sizes[swaps.kinds], ~smaller))[0]
        return self._carry_out([(kind, int(swaps.rows[best]), int(swaps.kinds[best]))])

    def _swaps(self) -> _Swaps:
        now = self._state
        pairs = sorted({(kind, row) for row, on in now.on.items() for kind in on})
        kinds, rows = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        room = now.free[rows] + now.requests[kinds]
        rest = room[:, np.newaxis] - now.requests
        fits: Flags = np.asarray(((rest >= 0) | (now.requests == 0)).all(axis=2))
        fits &= now.usable[:, rows].T
        fits[np.arange(len(kinds)), kinds] = False
        left = np.round((np.maximum(rest, 0) * self._scale).sum(axis=2), state.DIGITS)
        return _Swaps(kinds, rows, fits, left)

    def _path(self, kind: int, swaps: _Swaps) -> list[Move]:
        """Return the shortest sequence of moves whose last pod finds room; empty if none is."""
        has_room = self._state.places.max(axis=1) > 0
        before: dict[int, Move] = {}
        line = [kind]
        for coming in line:
            order = np.lexsort((swaps.rows, swaps.left[:, coming], ~swaps.fits[:, coming]))
            for each in order[: int(swaps.fits[:, coming].sum())].tolist():
                leaving = int(swaps.kinds[each])
                if leaving == kind or leaving in before:
                    continue
                before[leaving] = (coming, int(swaps.rows[each]), leaving)
                if has_room[leaving]:
                    return _back(before, leaving, kind)
                line.append(leaving)
        return []

    def _carry_out(self, moves: list[Move]) -> bool:
        """Move pods; the last one is placed if there is room for it. Undo all if a move fails."""
        now, done = self._state, list[Move]()
        for coming, row, leaving in moves:
            now.remove(leaving, row)
            if not now.places[coming, row]:
                now.place(leaving, row)
                for back, at, gone in reversed(done):
                    now.remove(back, at)
                    now.place(gone, at)
                return False
            now.place(coming, row)
            done.append((coming, row, leaving))
        return True


def _back(before: dict[int, Move], last: int, first: int) -> list[Move]:
    """Return the moves from the first kind to the last."""
    moves = list[Move]()
    while last != first:
        moves.append(before[last])
        last = before[last][0]
    return moves[::-1]
