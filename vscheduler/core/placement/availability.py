"""Availability: what each node has free over time, as running pods end and reserved jobs run.

The profile of backfilling (Mu'alem and Feitelson 2001) with a column for each node: a table of
instants and nodes. Between two instants of the table, what ends hasn't ended yet, and what is
reserved for any part of that time is taken. A start that is found in it holds, then.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.placement.expected_ends import ExpectedEnds, Rows, Times
from vscheduler.core.session.session import Session
from vscheduler.model.nodes import Mask
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Reservation

Counts = NDArray[np.int16]
"""How many equal pods fit: more than COPIES_MAX on one node never matter, and four times as many of
these go through the processor at once as of larger integers.
"""

Number = TypeVar("Number", np.int64, np.float64)

COPIES_MAX = np.iinfo(np.int16).max

CELLS_MAX = 2**17
"""So many instants times nodes, if that leaves enough instants."""

INSTANTS_MIN, INSTANTS_MAX = 32, 512
"""Beside the starts of what is reserved."""

CELLS_PER_MICROSECOND = 100


class Held(msgspec.Struct, frozen=True, eq=False):
    """A reservation, and what it takes of its nodes."""

    reservation: Reservation
    queue: str
    rows: Rows
    """The rows of the nodes, (n,)."""
    amounts: Vector
    """What its pods request there, (n, R)."""


class Availability:
    """The table of a cycle, with what is reserved.

    Each start of what is reserved is one of its instants, and so is each that is found in it.
    """

    def __init__(self, session: Session, ends: ExpectedEnds, reserved: Iterable[Held]) -> None:
        self._session, self._ends = session, ends
        every, nodes = list(reserved), session.layout.size
        self._most = min(max(CELLS_MAX // max(1, nodes), INSTANTS_MIN), INSTANTS_MAX)
        now, columns = session.snapshot.now, ends.columns()
        starts = np.array([held.reservation.start for held in every], dtype=float)
        untils = np.array([held.reservation.until for held in every], dtype=float)
        self.instants = _chosen(now, starts, np.concatenate([untils, columns.times]), self._most)
        """When anything is released, or taken, in ascending order from now on, (T,)."""
        self.releases = np.isin(self.instants, np.concatenate([[now], untils, columns.times]))
        """At which of them anything is released; those, and now, are starts, (T,)."""
        self._base, self._touched = session.free, len(session.cluster.touched)
        self._binds, self._evicts = ends.decided
        self._free = self._released(columns.times, columns.rows, columns.amounts, nodes)
        """By resource, node and instant, (R, N, T)."""
        self._free += self._base.T[:, :, None]
        session.spend("reservations", self._free.size // CELLS_PER_MICROSECOND)
        self._changes: list[tuple[Rows, slice]] = []
        """Which parts have changed since the table was made: nodes, and instants."""
        self._copies: dict[tuple[bytes, bytes], Copies] = {}
        for held in every:
            self.take(held)

    def follow(self) -> bool:
        """Take in pods that have been bound since; return False if the table has to be made anew,
        since pods have been evicted.
        """
        (binds, evicts), touched = self._ends.decided, self._session.cluster.touched
        if evicts != self._evicts:
            return False
        if binds == self._binds and len(touched) == self._touched:
            return True
        free, rows = self._session.free, np.unique(touched[self._touched :]).astype(np.int64)
        self._touched = len(touched)
        rows = rows[(free[rows] != self._base[rows]).any(axis=1)]
        if binds == self._binds and not len(rows):
            return True
        self._free[:, rows] += (free - self._base)[rows].T[:, :, None]
        bound = self._ends.bound_since(self._binds)
        rows, places = np.unique(np.concatenate([rows, bound.rows]), return_inverse=True)
        ending = places[len(places) - len(bound.rows) :]
        self._free[:, rows] += self._released(bound.times, ending, bound.amounts, len(rows))
        self._base, self._binds = free, binds
        self._changes.append((rows, slice(0, len(self.instants))))
        return True

    def take(self, held: Held) -> None:
        """Count what is reserved as used."""
        at = self._include(held.reservation.until)
        self.releases[at : at + 1] = True
        self._move(held, -1)

    def give_back(self, held: Held) -> None:
        """Count it as free again."""
        self._move(held, 1)

    def least(self, begin: float, until: float) -> Vector:
        """Return the least that nodes have free from an instant of the table until another one,
        (N, R).
        """
        first, last = np.searchsorted(self.instants, (begin, until))
        least: Vector = self._free[:, :, first : max(last, first + 1)].min(axis=2).T
        return least

    @property
    def suffices(self) -> bool:
        """Whether no node ever has less than nothing free."""
        return bool(self._free.min(initial=0) >= 0)

    def suffices_for(self, held: Held, slack: float) -> bool:
        """Whether nodes have enough for a reservation that is counted, beside all others, if pods
        end sooner than expected by the slack, in seconds.
        """
        span, nodes = self._span(held), len(held.rows)
        free = self._free[:, held.rows, span]
        lacks = (free < 0) & (held.amounts.T > 0)[:, :, None]
        if not lacks.any():
            return True
        columns = self._ends.columns()
        places = np.full(self._free.shape[1], -1)
        places[held.rows] = np.arange(nodes)
        columns = columns.of(np.flatnonzero(places[columns.rows] >= 0))
        rows, amounts = places[columns.rows], columns.amounts
        sooner = self._released(columns.times - slack, rows, amounts, nodes)
        sooner -= self._released(columns.times, rows, amounts, nodes)
        return not (lacks & (free + sooner[:, :, span] < 0)).any()

    def copies(self, request: Vector, mask: Mask | None = None) -> "Copies":
        """Return how many pods with this request (R,) fit, on nodes of the mask (N,)."""
        if mask is None:
            mask = np.ones(self._free.shape[1], dtype=np.bool_)
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
        """Add an instant to the table, if it has few; return the place of the first one from it.

        What is free doesn't change with it.
        """
        at = int(np.searchsorted(self.instants, instant))
        if instant in self.instants[at : at + 1] or len(self.instants) >= self._most:
            return at
        if np.isfinite(instant) and at:
            self.instants = np.insert(self.instants, at, instant)
            self.releases = np.insert(self.releases, at, False)
            self._free = np.insert(self._free, at, self._free[:, :, at - 1], axis=2)
            self._session.spend("reservations", self._free.size // CELLS_PER_MICROSECOND)
            self._changes.clear()
            self._copies.clear()
        return at

    def _released(self, times: Times, rows: Rows, amounts: Vector, nodes: int) -> Vector:
        """Return what pods that end at these times release of rows (n,) by each instant."""
        at, count = np.searchsorted(self.instants, times), len(self.instants)
        known = at < count
        cells = rows[known] * count + at[known]
        found = np.zeros((amounts.shape[1], nodes, count), dtype=np.int64)
        for column, released in zip(found, amounts[known].T, strict=True):
            np.add.at(column.reshape(-1), cells, released)
        np.cumsum(found, axis=2, out=found)
        return found

    def _move(self, held: Held, sign: int) -> None:
        span = self._span(held)
        self._free[:, held.rows, span] += sign * held.amounts.T[:, :, None]
        self._changes.append((held.rows, span))

    def _span(self, held: Held) -> slice:
        """Return the instants at which the pods of a reservation run."""
        start, until = held.reservation.start, held.reservation.until
        first, last = np.searchsorted(self.instants, (start, until)).tolist()
        assert self.instants[first] == start, "each start is an instant of the table"
        return slice(first, last)


class Copies:
    """How many equal pods fit on each node at each instant."""

    def __init__(self, instants: Times, free: Vector, request: Vector, mask: Mask) -> None:
        self._instants, self._free, self._mask = instants, free, mask
        self._asked = np.flatnonzero(request)
        self._request = request
        self._copies = self._fitting(np.arange(len(mask)), slice(None))
        """(N, T)."""
        self._sums = self._copies.sum(axis=0)
        self.seen = 0

    @property
    def now(self) -> int:
        """How many pods fit at the first instant, however short they run."""
        return int(self._sums[0])

    def follow(self, changes: Iterable[tuple[Rows, slice]]) -> None:
        """Take in these changes of the table."""
        for rows, span in changes:
            found = self._fitting(rows, span)
            self._sums[span] += found.sum(axis=0) - self._copies[rows, span].sum(axis=0)
            self._copies[rows, span] = found

    def candidates(self, needed: int, limit: float, end: int | None = None) -> Rows:
        """Return the numbers of the instants at which so many pods may fit that run as long: as far
        as sums over all nodes tell. `end`: only look at that many instants.
        """
        sums, instants = self._sums[:end], self._instants[:end]
        (lacking,) = np.nonzero(sums < needed)
        last = np.searchsorted(instants, instants + limit)
        every = np.arange(len(instants))
        following = np.append(lacking, len(every))[np.searchsorted(lacking, every)]
        found: Rows = np.flatnonzero((following > every) & (following >= last))
        return found

    def first(
        self, numbers: Rows, needed: int, limit: float, end: int | None = None
    ) -> tuple[int, Vector] | None:
        """Return the first of these candidates at which so many pods fit on the same nodes as long
        as they run, and how many on each, (N,); None if there is none.
        """
        at = 0
        while at < len(numbers):
            start = int(numbers[at])
            window = self._window(start, limit, end)
            least = window.min(axis=1)
            if least.sum() >= needed:
                return start, least.astype(np.int64)
            # Pods that start later, in this window, need what nodes have from then until its end.
            rest = np.minimum.accumulate(window[:, ::-1], axis=1)[:, ::-1].sum(axis=0)
            (enough,) = np.nonzero(rest >= needed)
            following = start + (int(enough[0]) if len(enough) else window.shape[1])
            at = int(np.searchsorted(numbers, following))
        return None

    def fitting(self, limit: float) -> int:
        """Return how many pods fit from the first instant on that run as long."""
        return int(self._window(0, limit).min(axis=1).sum())

    def busy_until(self, number: int) -> Rows:
        """Return the last instant before this one at which no pod fits on each node, (N,), by its
        number; -1 for those that are free until then.
        """
        busy = self._copies[:, :number] == 0
        last = number - 1 - busy[:, ::-1].argmax(axis=1)
        return np.where(busy.any(axis=1), last, -1)

    def _window(self, start: int, limit: float, end: int | None = None) -> Counts:
        """Return how many fit on each node at all instants while pods run that start at one."""
        last = int(np.searchsorted(self._instants, self._instants[start] + limit))
        last = max(last, start + 1)
        return self._copies[:, start : last if end is None else min(last, end)]

    def _fitting(self, rows: Rows, span: slice) -> Counts:
        """Return how many fit on these rows at these instants."""
        found = None
        for column in self._asked.tolist():
            fitting = self._free[column, rows, span] // self._request[column]
            found = fitting if found is None else np.minimum(found, fitting, out=found)
        assert found is not None, "pods without requests get no reservations"
        fits: Counts = np.clip(found, 0, COPIES_MAX, out=found).astype(np.int16)
        fits[~self._mask[rows]] = 0
        return fits


def _chosen(now: float, starts: Times, others: Times, most: int) -> Times:
    """Return now, the starts of what is reserved, and the instants at which anything ends: the next
    ones, and some of the others with the last, if all would be more than so many.
    """
    starts = np.unique(np.maximum(starts, now))
    others = np.setdiff1d(others[(others > now) & np.isfinite(others)], starts)
    left = max(most - len(starts) - 1, most // 2)
    if len(others) > left:
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
