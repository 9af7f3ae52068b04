"""Lookahead: scores of nodes with more tasks of the same class on them, computed in advance.

Filters and scores cost about the same for one node as for a hundred. When tasks of one class are
placed one after another, the best nodes are therefore evaluated in one call: with one more task,
with two, and so on. A result is used only if a node gets into exactly the foreseen state: usage,
host ports, and any further input of answers declared by plugins (`row_fingerprint`).
"""

import itertools
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import NodeView
from vscheduler.core.session.cluster_state import ClusterState
from vscheduler.model.resources import Vector

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]

NODES = 64
"""How many of the best nodes are evaluated ahead, besides the node just chosen."""

DEPTH = 4
"""The largest number of additional tasks."""

KEPT_MAX = 2**16
"""The most results kept in a cycle, about 20 MiB. When full, all are dropped at once."""


class Lookahead:
    """Scores by node state, found or foreseen, for all plans of a cycle.

    A node returning to an earlier state is found here as well, such as after evictions were tried
    and undone.
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[float, float]] = {}

    def get(self, plan: int, state: Hashable) -> tuple[float, float] | None:
        """Return the scores (now, later) of a node in this state, if known."""
        return self._found.get((plan, state))

    def put(self, plan: int, states: Iterable[Hashable], idle: Scores, future: Scores) -> None:
        """Remember the scores of nodes in these states."""
        if len(self._found) >= KEPT_MAX:
            self._found.clear()
        for state, now, later in zip(states, idle.tolist(), future.tolist(), strict=True):
            self._found[plan, state] = (now, later)


def state(cluster: ClusterState, row: int, fingerprint: Hashable = None) -> Hashable:
    """Return the present state of a row: everything scores may depend on.

    `fingerprint` is what plugins declare for the row.
    """
    used, future = cluster.used[row].tobytes(), cluster.future_used[row].tobytes()
    if not cluster.ports and not cluster.leaving_ports:
        return row, used, future, fingerprint
    name = cluster.layout.names[row]
    taken = cluster.ports.get(name), cluster.leaving_ports.get(name)
    return row, used, future, fingerprint, taken


def foreseen(cluster: ClusterState, request: Vector, rows: Rows) -> NodeView | None:
    """Return rows as they will be with more tasks of this request; None if no row has room.

    The view contains possible states only: plugins never see an overfull node.
    """
    steps = np.repeat(np.arange(1, DEPTH + 1), rows.size)[:, np.newaxis] * request
    every = np.tile(rows, DEPTH)
    whole = cluster.view(every)
    used, future = whole.used + steps, whole.future_used + steps
    wanted = np.flatnonzero(request)
    fits = (used[:, wanted] <= whole.allocatable[:, wanted]).all(axis=1)
    fits &= (future[:, wanted] <= whole.allocatable[:, wanted]).all(axis=1)
    if not fits.any():
        return None
    return NodeView(
        whole.layout,
        every[fits],
        whole.allocatable[fits],
        used[fits],
        future[fits],
        ports=whole.ports,
        leaving_ports=whole.leaving_ports,
    )


def states(cluster: ClusterState, view: NodeView) -> Iterable[Hashable]:
    """Iterate over the states of all foreseen rows, for tasks about which plugins add nothing."""
    assert view.rows is not None
    ports, leaving = cluster.ports, cluster.leaving_ports
    rows = view.rows.tolist()
    plain = zip(rows, _bytes(view.used), _bytes(view.future_used), itertools.repeat(None))
    if not ports and not leaving:
        return plain
    names = [cluster.layout.names[row] for row in rows]
    taken = ((ports.get(name), leaving.get(name)) for name in names)
    return ((*each, both) for each, both in zip(plain, taken, strict=True))


def _bytes(amounts: Vector) -> Sequence[bytes]:
    """Return the bytes of each row, (N, R), as `tobytes` of the row does."""
    whole = np.ascontiguousarray(amounts)
    found: list[bytes] = whole.view(np.dtype((np.void, whole[0].nbytes)))[:, 0].tolist()
    return found


def best(scores: Scores) -> Rows:
    """Return the best rows. Among equal scores the lowest rows win, as with argmax."""
    rows: Rows = np.flatnonzero(scores > -np.inf)
    if rows.size <= NODES:
        return rows
    found = scores[rows]
    least = np.partition(found, rows.size - NODES)[rows.size - NODES]
    better = np.flatnonzero(found > least)
    equal = np.flatnonzero(found == least)[: NODES - better.size]
    best_rows: Rows = rows[np.concatenate([better, equal])]
    return best_rows
