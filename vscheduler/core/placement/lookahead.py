"""Lookahead: what a row will be worth once more tasks of the same class are on it.

Filters and scores cost about the same for one row as for a hundred. So where tasks of one class
are placed one after the other, the nodes that come next are asked about in one go, as they will be
with one such task more, with two, and so on. An answer is used only where the node has come to be
exactly as it was foreseen: its columns, its host ports, and whatever else plugins say that their
answers about it depend on (`row_outlook`).
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts
from vscheduler.core.model import resources

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]

NODES = 64
"""So many of the best nodes are foreseen at a time, from the one that was touched."""

DEPTH = 4
"""With so many tasks more at most."""

KEPT_MAX = 2**16
"""Answers that are kept in a cycle: about 20 MiB. All are dropped at once."""


class Lookahead:
    """What rows were found to be worth, or foreseen, by what they hold: for all plans of a cycle.

    Rows that went back to what they were before, as evictions were tried and undone, are found
    here, too.
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[float, float]] = {}

    def get(self, plan: int, state: Hashable) -> tuple[float, float] | None:
        """The scores (now, later) of a row in this state, if they are known."""
        return self._found.get((plan, state))

    def put(self, plan: int, states: Iterable[Hashable], idle: Scores, future: Scores) -> None:
        """These are, or will be, the scores of rows in these states."""
        if len(self._found) >= KEPT_MAX:
            self._found.clear()
        for state, now, later in zip(states, idle.tolist(), future.tolist(), strict=True):
            self._found[plan, state] = (now, later)


def state(session: "working.Session", row: int, told: Hashable = None) -> Hashable:
    """All that a row's answers may depend on, as it is; told is what plugins say of it."""
    used, future = session.used[row].tobytes(), session.future_used[row].tobytes()
    if not session.ports and not session.leaving_ports:
        return row, used, future, told
    name = session.layout.names[row]
    taken = session.ports.get(name), session.leaving_ports.get(name)
    return row, used, future, told, taken


def foreseen(
    session: "working.Session", request: resources.Vector, rows: Rows
) -> contracts.NodeView | None:
    """These rows as they will be with more tasks of this request; None where none has room.

    Only states that can come about: a plugin never sees an overfull node.
    """
    steps = np.repeat(np.arange(1, DEPTH + 1), rows.size)[:, np.newaxis] * request
    every = np.tile(rows, DEPTH)
    whole = session.view(every)
    used, future = whole.used + steps, whole.future_used + steps
    wanted = np.flatnonzero(request)
    fits = (used[:, wanted] <= whole.allocatable[:, wanted]).all(axis=1)
    fits &= (future[:, wanted] <= whole.allocatable[:, wanted]).all(axis=1)
    if not fits.any():
        return None
    return contracts.NodeView(
        whole.layout,
        every[fits],
        whole.allocatable[fits],
        used[fits],
        future[fits],
        ports=whole.ports,
        leaving_ports=whole.leaving_ports,
    )


def states(session: "working.Session", view: contracts.NodeView) -> Iterator[Hashable]:
    """The state of each row of what is foreseen, for tasks of which plugins say nothing more."""
    assert view.rows is not None
    ports, leaving = session.ports, session.leaving_ports
    names = session.layout.names
    for row, used, future in zip(view.rows.tolist(), view.used, view.future_used, strict=True):
        if not ports and not leaving:
            yield row, used.tobytes(), future.tobytes(), None
        else:
            taken = ports.get(names[row]), leaving.get(names[row])
            yield row, used.tobytes(), future.tobytes(), None, taken


def best(scores: Scores) -> Rows:
    """The best rows, those with the lowest numbers where they are equal, as argmax has it."""
    count = min(NODES, scores.size)
    least = np.partition(scores, scores.size - count)[scores.size - count]
    better = np.flatnonzero(scores > max(least, -np.inf))
    equal = np.flatnonzero(scores == least)[: count - better.size]
    rows = np.concatenate([better, equal])
    found: Rows = rows[scores[rows] > -np.inf]
    return found
