"""NodeBounds: lower bounds of what evictions on each node cost, for many nodes at once.

A bound is computed from columns of all pods, without asking plugins about any pod.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.eviction.victim_columns import Flags, VictimColumns

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class NodeBounds(msgspec.Struct, eq=False):
    """Bounds for equal tasks, if certain pods may be evicted."""

    fits: Flags
    """Whether evicting all these pods would make enough room, (N,)."""
    keys: Floats
    """Where it would: the parts of `victims.cost` after the rank, (N, 4)."""
    seen: int = 0
    """How many entries of `VictimColumns.changed` have been considered."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What bounds are asked for."""

    eligible: Callable[[Ints], tuple[Flags, Flags]]
    """Returns which of the pods of some rows may be evicted together, and which pods are similar to
    these: any of them could be evicted instead."""
    lacking: Ints
    """What the task requests above what is free, (N, r), of the resources that it requests."""
    used: Ints
    """The columns of these resources, (r,)."""
    whole: bool
    """Whether at least one gang is evicted whole."""


def compute(columns: VictimColumns, wanted: Wanted) -> NodeBounds:
    """Compute the bounds of all nodes."""
    count = len(wanted.lacking)
    found = NodeBounds(np.zeros(count, dtype=np.bool_), np.zeros((count, 4)))
    refresh(columns, wanted, found, np.arange(count))
    return found


def refresh(columns: VictimColumns, wanted: Wanted, bounds: NodeBounds, rows: Ints) -> None:
    """Compute the bounds of these rows again."""
    bounds.seen = len(columns.changed)
    bounds.fits[rows] = False
    begin, end = columns.pods.bounds[rows], columns.pods.bounds[rows + 1]
    rows, begin, end = (each[end > begin] for each in (rows, begin, end))
    places = _ranges(begin, end)
    eligible, similar = wanted.eligible(places)
    amounts = columns.amounts(wanted.used)[places] * eligible[:, None]
    every = _Pods(columns, rows, places, eligible, similar, amounts)
    lacking = wanted.lacking[rows]
    fits = (every.sums(every.amounts) >= lacking).all(axis=1)
    fits &= every.sums(eligible[:, None])[:, 0] > 0
    if fits.any():
        bounds.fits[rows[fits]] = True
        bounds.keys[rows[fits]] = _keys(every.on(fits), lacking[fits], whole=wanted.whole)


class _Pods:
    """All pods (p) of some rows (n), row by row."""

    def __init__(
        self,
        columns: VictimColumns,
        rows: Ints,
        places: Ints,
        eligible: Flags,
        similar: Flags,
        amounts: Ints,
    ) -> None:
        """Amounts (p, r) are requests of eligible pods, and 0 for the others."""
        self.columns, self.rows, self.places = columns, rows, places
        self.eligible, self.similar, self.amounts = eligible, similar, amounts
        sizes = columns.pods.bounds[rows + 1] - columns.pods.bounds[rows]
        self.ends = np.cumsum(sizes)
        self.begins = self.ends - sizes
        self.owner = np.repeat(np.arange(len(rows)), sizes)
        """The place of each pod's row in `rows`, (p,)."""

    def on(self, chosen: Flags) -> "_Pods":
        """Return the pods of some of the rows, (n,)."""
        inside = chosen[self.owner]
        return _Pods(
            self.columns,
            self.rows[chosen],
            self.places[inside],
            self.eligible[inside],
            self.similar[inside],
            self.amounts[inside],
        )

    def below(self, levels: Floats) -> "_Pods":
        """Return all pods, of which only those of jobs up to a priority (n,) are eligible."""
        below = self.columns.levels[self.places] <= levels[self.owner]
        eligible, similar = self.eligible & below, self.similar & below
        amounts = self.amounts * eligible[:, None]
        return _Pods(self.columns, self.rows, self.places, eligible, similar, amounts)

    def sums(self, amounts: NDArray[np.generic]) -> Ints:
        """Return the sums of amounts (p, r) by row, (n, r)."""
        total = np.zeros((len(amounts) + 1, amounts.shape[1]), dtype=np.int64)
        np.cumsum(amounts, axis=0, out=total[1:])
        found: Ints = total[self.ends] - total[self.begins]
        return found

    def least(self, values: NDArray[np.generic]) -> Floats:
        """Return the least value (p,) among eligible pods by row, (n,)."""
        found: Floats = np.minimum.reduceat(np.where(self.eligible, values, np.inf), self.begins)
        return found


def _keys(pods: _Pods, lacking: Ints, *, whole: bool) -> Floats:
    """Return the bounds, (n, 4), for rows where evictions make enough room."""
    columns = pods.columns
    keys = np.zeros((len(pods.rows), 4))
    if columns.has_priorities:
        keys[:, 0] = _least_priorities(pods, lacking)
        pods = pods.below(keys[:, 0])
    else:
        keys[:, 0] = columns.levels[0]
    keys[:, 1] = pods.least(columns.pods.priorities[pods.places])
    largest = np.maximum(np.maximum.reduceat(pods.amounts, pods.begins, axis=0), 1)
    number = np.maximum((-(-lacking // largest)).max(axis=1, initial=1), 1)
    if whole:
        number = np.maximum(number, pods.least(columns.gang_sizes[pods.places]).astype(np.int64))
        keys[:, 3] = pods.least(-columns.gang_starts[pods.places])
    else:
        keys[:, 3] = -_latest_start(pods, number)
    keys[:, 2] = number
    return keys


def _least_priorities(pods: _Pods, lacking: Ints) -> Floats:
    """Return the priority (n,) such that jobs up to this priority just make enough room."""
    columns = pods.columns
    order = columns.by_priority[pods.places]  # the same rows at the same places
    amounts = np.zeros((len(columns.queues), lacking.shape[1]), dtype=np.int64)
    amounts[pods.places] = pods.amounts
    total = np.zeros((len(order) + 1, lacking.shape[1]), dtype=np.int64)
    np.cumsum(amounts[order], axis=0, out=total[1:])
    enough = (total[1:] - total[pods.begins][pods.owner] >= lacking[pods.owner]).all(axis=1)
    levels = np.where(enough, columns.levels[order], np.inf)
    # Some pod must go in any case, even where the room is enough.
    lowest = pods.least(columns.levels[pods.places])
    found: Floats = np.maximum(np.minimum.reduceat(levels, pods.begins), lowest)
    return found


def _latest_start(pods: _Pods, number: Ints) -> Floats:
    """Return the latest start (n,) that the oldest of so many (n,) pods can have."""
    columns = pods.columns
    order = columns.by_start[pods.places]  # the same rows at the same places
    similar = np.zeros(len(columns.queues), dtype=np.bool_)
    similar[pods.places] = pods.similar
    chosen = similar[order]
    total = np.zeros(len(order) + 1, dtype=np.int64)
    np.cumsum(chosen, out=total[1:])
    last = chosen & (total[1:] - total[pods.begins][pods.owner] == number[pods.owner])
    found = np.zeros(len(pods.rows))
    found[pods.owner[last]] = columns.pods.starts[order[last]]
    return found


def _ranges(begins: Ints, ends: Ints) -> Ints:
    """Return all numbers of these ranges, one range after the other."""
    sizes = ends - begins
    shift = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    found: Ints = np.arange(len(shift)) + shift
    return found
