"""What is reserved in a cycle, as arrays: by reservation and node, and all together over time."""

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

import msgspec
import numpy as np

from vscheduler.core.placement.expected_ends import ExpectedEnds, Rows, Times
from vscheduler.model.jobs import JobId
from vscheduler.model.nodes import Mask
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Reservation


class Held(msgspec.Struct, frozen=True, eq=False):
    """A reservation, and what it takes of its nodes."""

    reservation: Reservation
    queue: str
    rows: Rows
    """The rows of the nodes, (n,)."""
    amounts: Vector
    """What its pods request there, (n, R)."""


class _Columns(NamedTuple):
    """What reservations take, one entry (E) for each and each of its nodes."""

    rows: Rows
    amounts: Vector
    starts: Times
    untils: Times
    numbers: Rows
    """The places of the reservations."""


class Reserved:
    """The reservations of a cycle, in the order in which they were made."""

    def __init__(self, ends: ExpectedEnds, resources: int) -> None:
        self._ends, self._resources = ends, resources
        self._held: dict[JobId, Held] = {}
        self._columns: _Columns | None = None
        self._first: Reservation | None = None
        self._whole: tuple[tuple[int, int], Timeline] | None = None
        """The timeline of all, with the binds and evictions that it includes."""

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, job: JobId) -> bool:
        return job in self._held

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def put(self, held: Held) -> None:
        """Add a reservation, or put it in the place of the job's other one."""
        self._held[held.reservation.job] = held
        self._columns = self._first = self._whole = None

    def drop(self, job: JobId) -> None:
        """Forget the reservation of a job."""
        del self._held[job]
        self._columns = self._first = self._whole = None

    def of(self, job: JobId) -> Held | None:
        """Return the reservation of a job."""
        return self._held.get(job)

    def first(self) -> Reservation | None:
        """Return the one with the first start."""
        if self._first is None:
            every = (held.reservation for held in self)
            self._first = min(every, key=lambda each: (each.start, each.job), default=None)
        return self._first

    def timeline(
        self, without: JobId | None = None, *, on: Mask | None = None, slack: float = 0.0
    ) -> "Timeline":
        """Return what other jobs' reservations take over time, on rows of the mask (N,), if pods
        end sooner than expected by the slack, in seconds.
        """
        is_whole = on is None and without not in self._held and not slack
        decided = self._ends.decided
        if is_whole and self._whole is not None and self._whole[0] == decided:
            return self._whole[1]
        rows, amounts, starts, untils, numbers = self._flat()
        if not is_whole:
            chosen = np.ones(len(rows), dtype=np.bool_) if on is None else on[rows]
            if without in self._held:
                chosen &= numbers != list(self._held).index(without)
            rows, amounts = rows[chosen], amounts[chosen]
            starts, untils = starts[chosen], untils[chosen]
        last = float(starts.max(initial=-inf)) + slack
        times, where, released = self._ends.between(-inf, last)
        there = np.zeros(int(max(rows.max(initial=0), where.max(initial=0))) + 1, dtype=np.bool_)
        there[rows] = True
        ending = there[where]
        none = np.zeros_like(amounts)
        found = Timeline(
            np.concatenate([rows, rows, where[ending]]),
            np.concatenate([starts, untils, times[ending] - slack]),
            np.concatenate([amounts, -amounts, np.zeros_like(released[ending])]),
            np.concatenate([none, none, released[ending]]),
        )
        if is_whole:
            self._whole = decided, found
        return found

    def _flat(self) -> _Columns:
        if self._columns is None:
            every = list(self._held.values())
            sizes = [len(held.rows) for held in every]
            none = np.zeros((0, self._resources), dtype=np.int64)
            self._columns = _Columns(
                np.concatenate([none[:, 0], *(held.rows for held in every)]),
                np.concatenate([none, *(held.amounts for held in every)]),
                np.repeat(np.array([held.reservation.start for held in every], float), sizes),
                np.repeat(np.array([held.reservation.until for held in every], float), sizes),
                np.repeat(np.arange(len(every)), sizes),
            )
        return self._columns


class Timeline:
    """What is reserved, and what pods release as they end, by node and in the order of time."""

    def __init__(self, rows: Rows, times: Times, taken: Vector, released: Vector) -> None:
        """Sort the changes (E): what is taken of rows (E,), negative if it is given back, and what
        is released there, (E, R). At each instant, what ends makes room before anything starts.
        """
        order = np.lexsort((taken.max(axis=1, initial=0) > 0, times, rows))
        self._times = times[order]
        self._rows, self._first = np.unique(rows[order], return_index=True)
        first = self._first
        self._released = _sums_by_row(released[order], first)
        self._level = _sums_by_row(taken[order], first) - self._released
        """What is taken at these times less what is released until then, (E, R)."""

    def most_taken(self, begin: float, until: float) -> tuple[Rows, Vector]:
        """Return rows, (n,), and what the reservations leave too little of there, (n, R), to a pod
        that runs from one instant to the other: what they take, less what pods that end first
        release.
        """
        if not len(self._rows):
            return self._rows, self._level
        passed = np.add.reduceat(self._times <= begin, self._first, dtype=np.int64)
        at = self._first + passed - 1
        known = (passed > 0)[:, None]
        level = np.where(known, self._level[at], 0)
        inside = (self._times > begin) & (self._times < until)
        least = np.iinfo(np.int64).min // 4
        later = np.where(inside[:, None], self._level, least)
        most = np.maximum(level, np.maximum.reduceat(later, self._first, axis=0))
        most += np.where(known, self._released[at], 0)
        np.maximum(most, 0, out=most)
        some = most.any(axis=1)
        return self._rows[some], most[some]


def _sums_by_row(changes: Vector, first: Rows) -> Vector:
    """Return running sums of changes (E, R) that begin anew at these places."""
    sums = changes.cumsum(axis=0)
    before = np.where((first > 0)[:, None], sums[first - 1], 0)
    found: Vector = sums - np.repeat(before, np.diff(first, append=len(sums)), axis=0)
    return found
