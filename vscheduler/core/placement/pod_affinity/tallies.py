"""Tallies: numbers of pods by node and by values of labels of nodes, as a cycle changes them."""

from collections import Counter
from collections.abc import Hashable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import nodes, pod_affinity

Counts: TypeAlias = NDArray[np.int64]
Seat = pod_affinity.Seat
Place: TypeAlias = tuple[int, Seat]
"""A row, and how pods are there."""


class Domains:
    """Numbers of pods by the values of a label of nodes, those without the label left out."""

    __slots__ = ("_eligible", "_present", "apart", "codes", "counts")

    def __init__(self, codes: NDArray[np.int64], eligible: nodes.Mask | None = None) -> None:
        values = int(codes.max(initial=-1)) + 1
        self.codes = codes
        """The value that each node has, (N,), -1 where it has none: the last of the counts."""
        self.counts: Counts = np.zeros((len(Seat), values + 1), dtype=np.int64)
        """By Seat and by value; what has no value counts nowhere."""
        self.apart = values == int((codes >= 0).sum())
        """Whether no two nodes have the same value."""
        self._eligible = eligible
        self._present: NDArray[np.int64] | None = None

    def move(self, row: int, seat: Seat, step: int) -> None:
        """So many pods more in this seat of the node, if the node counts."""
        code = self.codes[row]
        if code >= 0 and (self._eligible is None or self._eligible[row]):
            self.counts[seat, code] += step

    @property
    def present(self) -> NDArray[np.int64]:
        """The values that nodes have that count, sorted."""
        if self._present is None:
            counted = self.codes if self._eligible is None else self.codes[self._eligible]
            self._present = np.unique(counted[counted >= 0])
        return self._present

    @property
    def standing(self) -> Counts:
        """Pods that stay or will come, by value."""
        total: Counts = self.counts[Seat.STAYING] + self.counts[Seat.PROMISED]
        return total

    def staying(self, code: int) -> int:
        """The same for one value."""
        return int(self.counts[Seat.STAYING, code] + self.counts[Seat.PROMISED, code])


class Tally:
    """Pods of one kind: a company that somebody looks for, those that carry the same tie, or the
    weighted sum of many of these.
    """

    __slots__ = ("_domains", "_layout", "_seated", "version")

    def __init__(self, layout: nodes.NodeLayout, seated: Counter[Place] | None = None) -> None:
        self._layout = layout
        self._domains: dict[Hashable, Domains] = {}
        self._seated: Counter[Place] = Counter() if seated is None else seated
        self.version = 0
        """Rises whenever a pod moves."""

    def count(self, seats: pod_affinity.Seats, weight: int = 1) -> None:
        """These pods are of its kind, as they were when the cycle began."""
        rows, seated = self._layout.rows, self._seated
        for name, (staying, leaving) in seats.items():
            row = rows.get(name)
            if row is not None:
                if staying:
                    seated[row, Seat.STAYING] += weight * staying
                if leaving:
                    seated[row, Seat.LEAVING] += weight * leaving

    def include(self, other: "Tally", weight: int = 1) -> None:
        """All that another has counted so far is of its kind."""
        for place, count in other._seated.items():  # noqa: SLF001 - one of its own
            self._seated[place] += weight * count

    def move(self, row: int, seat: Seat, step: int) -> None:
        """A pod takes this seat, or leaves it (-1)."""
        self.version += 1
        self._seated[row, seat] += step
        for domains in self._domains.values():
            domains.move(row, seat, step)

    def by_label(self, key: str) -> Domains:
        """How many there are by the values of a label."""
        found = self._domains.get(key)
        return found or self._keep(key, Domains(self._layout.label(key)[0]))

    def among(self, key: str, scope: Hashable, eligible: nodes.Mask) -> Domains:
        """The same as by_label, on nodes that count only; the scope says which these are."""
        found = self._domains.get((key, scope))
        return found or self._keep((key, scope), Domains(self._layout.label(key)[0], eligible))

    def _keep(self, place: Hashable, domains: Domains) -> Domains:
        for (row, seat), count in self._seated.items():
            if count:
                domains.move(row, seat, count)
        self._domains[place] = domains
        return domains
