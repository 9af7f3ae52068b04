"""Availability: what each node has free over time, as running pods end and reserved jobs run.

The profile of backfilling (Mu'alem and Feitelson 2001) with a column for each node: a table of
instants and nodes. Between two instants of the table, what ends hasn't ended yet, and what is
reserved for any part of that time is taken. A start that is found in it holds, then.
"""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.placement.expected_ends import ExpectedEnds, Rows, Times
from vscheduler.core.placement.reserved import Held
from vscheduler.core.session.session import Session
from vscheduler.model.nodes import Mask
from vscheduler.model.resources import Vector

Number = TypeVar("Number", np.int64, np.float64)

CELLS_MAX = 2**18
"""So many instants times nodes, if that leaves enough instants."""

INSTANTS_MIN, INSTANTS_MAX = 32, 512

CELLS_PER_MICROSECOND = 100


class Availability:
    """The table of a cycle, with what is reserved."""

    def __init__(self, session: Session, ends: ExpectedEnds, reserved: Iterable[Held]) -> None:
        self._session, self._ends = session, ends
        every, nodes = list(reserved), session.layout.size
        self._most = most = min(max(CELLS_MAX // max(1, nodes), INSTANTS_MIN), INSTANTS_MAX)
        now, untils = session.snapshot.now, [held.reservation.until for held in every]
        self.instants = _chosen(now, every, ends.instants(), most)
        """When anything is released, or taken, in ascending order from now on, (T,)."""
        self.releases = np.isin(self.instants, np.concatenate([[now], untils, ends.instants()]))
        """At which of them anything is released; those, and now, are starts, (T,)."""
        self._base = session.free
        self._binds, self._evicts = ends.decided
        columns = ends.columns()
        shape = session.space.size, len(self.instants), nodes
        session.spend("reservations", int(np.prod(shape)) // CELLS_PER_MICROSECOND)
        self._free = self._released(columns.times, columns.rows, columns.amounts, nodes)
        """By resource, instant and node, (R, T, N)."""
        self._free += self._base.T[:, None, :]
        self._changes: list[tuple[slice, Rows]] = []
        """Which parts have changed since the table was made: instants, and nodes."""
        self._copies: dict[tuple[bytes, bytes], Copies] = {}
        for held in every:
            self.take(held)

    def follow(self) -> bool:
        """Take in pods that have been bound since; return False if the table has to be made anew,
        since pods have been evicted.
        """
        binds, evicts = self._ends.decided
        if evicts != self._evicts:
            return False
        free = self._session.free
        rows = np.flatnonzero((free != self._base).any(axis=1))
        if binds == self._binds and not len(rows):
            return True
        self._free[:, :, rows] += (free - self._base)[rows].T[:, None, :]
        bound = self._ends.bound_since(self._binds)
        rows, places = np.unique(np.concatenate([rows, bound.rows]), return_inverse=True)
        ending = places[len(places) - len(bound.rows) :]
        self._free[:, :, rows] += self._released(bound.times, ending, bound.amounts, len(rows))
        self._base, self._binds = free, binds
        self._changes.append((slice(0, len(self.instants)), rows))
        return True

    def take(self, held: Held) -> None:
        """Count what is reserved as used."""
        self._include(held.reservation.start)
        at = self._include(held.reservation.until)
        self.releases[at : at + 1] = True
        self._move(held, -1)

    def give_back(self, held: Held) -> None:
        """Count it as free again."""
        self._move(held, 1)

    def copies(self, request: Vector, mask: Mask | None = None) -> "Copies":
        """Return how many pods with this request (R,) fit, on nodes of the mask (N,)."""
        if mask is None:
            mask = np.ones(self._free.shape[-1], dtype=np.bool_)
        key = request.tobytes(), mask.tobytes()
        found = self._copies.get(key)
        if found is None:
            found = self._copies[key] = Copies(self.instants, self._free, request, mask)
            self._session.spend("reservations", self._free[0].size // CELLS_PER_MICROSECOND)
        else:
            found.follow(self._changes[found.seen :])
        found.seen = len(self._changes)
        return found

    def _include(self, instant: float) -> int:
        """Add an instant to the table, if it has few; return the place of the first one from it."""
        at = int(np.searchsorted(self.instants, instant))
        if instant in self.instants[at : at + 1] or len(self.instants) >= self._most:
            return at
        if np.isfinite(instant) and at:
            self.instants = np.insert(self.instants, at, instant)
            self.releases = np.insert(self.releases, at, False)
            self._free = np.insert(self._free, at, self._free[:, at - 1], axis=1)
            self._session.spend("reservations", self._free.size // CELLS_PER_MICROSECOND)
            self._changes.clear()
            self._copies.clear()
        return at

    def _released(self, times: Times, rows: Rows, amounts: Vector, nodes: int) -> Vector:
        """Return what pods that end at these times release of rows (n,) by each instant."""
        at = np.searchsorted(self.instants, times)
        known = at < len(self.instants)
        cells = at[known] * nodes + rows[known]
        found = np.zeros((amounts.shape[1], len(self.instants), nodes), dtype=np.int64)
        for column, released in zip(found, amounts[known].T, strict=True):
            np.add.at(column.reshape(-1), cells, released)
        np.cumsum(found, axis=1, out=found)
        return found

    def _move(self, held: Held, sign: int) -> None:
        first = int(np.searchsorted(self.instants, held.reservation.start, side="right")) - 1
        last = int(np.searchsorted(self.instants, held.reservation.until))
        span = slice(max(0, first), last)
        self._free[:, span, held.rows] += sign * held.amounts.T[:, None, :]
        self._changes.append((span, held.rows))


class Copies:
    """How many equal pods fit on each node at each instant."""

    def __init__(self, instants: Times, free: Vector, request: Vector, mask: Mask) -> None:
        self._instants, self._free, self._mask = instants, free, mask
        self._asked = np.flatnonzero(request)
        self._request = request
        self._copies = self._fitting(slice(None), np.arange(len(mask)))
        """(T, N)."""
        self._sums = self._copies.sum(axis=1)
        self.seen = 0

    def follow(self, changes: Iterable[tuple[slice, Rows]]) -> None:
        """Take in these changes of the table."""
        for span, rows in changes:
            found = self._fitting(span, rows)
            self._sums[span] += (found - self._copies[span, rows]).sum(axis=1)
            self._copies[span, rows] = found

    def candidates(self, needed: int, limit: float) -> Rows:
        """Return the numbers of the instants at which so many pods may fit that run as long: as far
        as sums over all nodes tell.
        """
        (lacking,) = np.nonzero(self._sums < needed)
        last = np.searchsorted(self._instants, self._instants + limit)
        every = np.arange(len(self._instants))
        following = np.append(lacking, len(every))[np.searchsorted(lacking, every)]
        found: Rows = np.flatnonzero((following > every) & (following >= last))
        return found

    def first(self, numbers: Rows, needed: int, limit: float) -> tuple[int, Vector] | None:
        """Return the first of these candidates at which so many pods fit on the same nodes as long
        as they run, and how many on each, (N,); None if there is none.
        """
        at = 0
        while at < len(numbers):
            start = int(numbers[at])
            last = int(np.searchsorted(self._instants, self._instants[start] + limit))
            window = self._copies[start : max(last, start + 1)]
            least = window.min(axis=0)
            if least.sum() >= needed:
                return start, least
            # Pods that start later, in this window, need what nodes have from then until its end.
            rest = np.minimum.accumulate(window[::-1], axis=0)[::-1].sum(axis=1)
            (enough,) = np.nonzero(rest >= needed)
            following = start + (int(enough[0]) if len(enough) else len(window))
            at = int(np.searchsorted(numbers, following))
        return None

    def busy_until(self, number: int) -> Rows:
        """Return the last instant before this one at which no pod fits on each node, (N,), by its
        number; -1 for those that are free until then.
        """
        busy = self._copies[:number] == 0
        last = number - 1 - busy[::-1].argmax(axis=0)
        return np.where(busy.any(axis=0), last, -1)

    def _fitting(self, span: slice, rows: Rows) -> Vector:
        """Return how many fit on these rows at these instants."""
        found = None
        for column in self._asked.tolist():
            free = np.maximum(self._free[column, span][:, rows], 0)
            fitting = free // self._request[column]
            found = fitting if found is None else np.minimum(found, fitting, out=found)
        assert found is not None, "pods without requests get no reservations"
        fits: Vector = np.where(self._mask[rows], found, 0)
        return fits


def _chosen(now: float, reserved: Iterable[Held], ends: Times, most: int) -> Times:
    """Return now and the instants at which anything begins or ends; if there are more than so many,
    the starts of what is reserved, the next ends, and some of the others with the last.
    """
    starts = np.unique([max(now, held.reservation.start) for held in reserved])
    others = np.unique([*(held.reservation.until for held in reserved), *ends.tolist()])
    others = others[(others > now) & np.isfinite(others)]
    if len(starts) + len(others) + 1 > most:
        starts = some(starts, most // 2)
        left = most - len(starts) - 1
        others = np.concatenate([others[: left // 2], some(others[left // 2 :], left - left // 2)])
    return np.unique(np.concatenate([[now], starts, others]))


def some(values: NDArray[Number], most: int) -> NDArray[Number]:
    """Return the first and the last of these, and others between them, if there are more than so
    many; else all.
    """
    if len(values) <= most:
        return values
    chosen: NDArray[Number] = values[np.linspace(0, len(values) - 1, most).round().astype(np.int64)]
    return chosen
