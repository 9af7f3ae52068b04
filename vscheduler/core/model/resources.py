"""Amounts of resources: by name in objects, as int64 columns in arithmetic."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"

FIRST = (CPU, MEMORY, PODS)
"""Every ResourceSpace has these, in its first columns."""

ALLOCATABLE_MAX = 2**47
"""A node's amount is clamped to this, so that sums over nodes stay exact in float64; 128 TiB."""

REQUEST_MAX = 2**48
"""A pod's amount is clamped to this: more than any node has. What 30,000 pods hold that all ask for
so much is still an int64; anybody may write such pods."""

TOTAL_MAX = 2**53
"""An amount that a queue or a group names is clamped to this: more than all nodes have, and exact
in float64."""

SUM_MAX = 2**62
"""A sum that becomes a column is clamped to this: more would be no int64."""

OTHERS = "other resources"
"""Stands in one column for what is asked for and nobody has, where that is very much."""

Vector = NDArray[np.int64]
"""One amount per column of a ResourceSpace: shape (R,), or (N, R) for N rows."""

Share = NDArray[np.float64]
"""Amounts that may be fractions (deserved, shares of totals): shape (R,)."""

ResourceMap = Mapping[str, int]
"""Resource name to amount: cpu in milli, every other resource in whole units (bytes, devices)."""


class _Folded(dict[str, int]):
    """Columns by name; whatever has none is in the last one, for those who don't ask first."""

    def __missing__(self, name: str) -> int:
        return self[OTHERS]


@dataclass(frozen=True, slots=True)
class ResourceSpace:
    """Which resource stands in which column.

    cpu, memory and pods come first, then the rest by name, so that the same cluster gives the
    same columns whatever order its objects arrived in.
    """

    names: tuple[str, ...]
    columns: Mapping[str, int] = field(compare=False, repr=False)

    @classmethod
    def of(cls, names: Iterable[str], *, folded: bool = False) -> "ResourceSpace":
        """The space of cpu, memory, pods and these names; folded: and of all others as one."""
        ordered = (*FIRST, *sorted(set(names).difference(FIRST)))
        if folded:
            ordered = (*ordered, OTHERS)
        columns = {name: column for column, name in enumerate(ordered)}
        return cls(ordered, _Folded(columns) if folded else columns)

    @property
    def size(self) -> int:
        """R, the number of columns."""
        return len(self.names)

    def zeros(self) -> Vector:
        """Nothing of anything."""
        return np.zeros(self.size, dtype=np.int64)

    def vector(self, amounts: ResourceMap) -> Vector:
        """Amounts as a row; a name without a column is a mistake of the caller's."""
        row = self._row(amounts)
        try:
            return np.array(row, dtype=np.int64)
        except OverflowError:
            return np.array([min(amount, SUM_MAX) for amount in row], dtype=np.int64)

    def _row(self, amounts: ResourceMap) -> list[int]:
        row = [0] * len(self.names)
        for name, amount in amounts.items():
            row[self.columns[name]] = amount
        if self.names[-1] == OTHERS:
            row[-1] = sum(each for name, each in amounts.items() if name not in self.columns)
        return row

    def present(self, amounts: ResourceMap) -> Vector:
        """Amounts as a row; what has no column is nowhere to be had, and left out."""
        return self.vector({name: each for name, each in amounts.items() if name in self.columns})

    def limits(self, amounts: ResourceMap | None) -> Share:
        """Amounts as upper bounds: a dimension that isn't named is unlimited."""
        row = np.full(self.size, np.inf)
        for name, amount in (amounts or {}).items():
            if name in self.columns:
                row[self.columns[name]] = amount
        return row

    def amounts(self, row: Vector | Share) -> dict[str, float]:
        """A row by name, without the dimensions that hold nothing."""
        values: list[float] = row.tolist()
        return {name: value for name, value in zip(self.names, values, strict=True) if value}


def add(left: ResourceMap, right: ResourceMap) -> dict[str, int]:
    """The sum by name."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def fits(request: Vector, room: Vector, used: Vector | None = None) -> NDArray[np.bool_]:
    """Which rows of `room` (N, R), less what is used there, hold `request` (R,).

    A dimension that isn't requested doesn't count, so a node that is over its allocatable in one
    resource still takes pods that need none of it.
    """
    enough = np.ones(len(room), dtype=np.bool_)
    for column, amount in enumerate(request.tolist()):
        if amount:
            free = room[:, column] if used is None else room[:, column] - used[:, column]
            enough &= free >= amount
    return enough


def by_column(rows: Vector) -> Vector:
    """A copy of columns (N, R) in which each of them lies in one piece: half the time for whoever
    goes through all nodes, resource by resource.
    """
    return np.array(rows, order="F")
