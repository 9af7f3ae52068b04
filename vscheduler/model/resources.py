"""Resource amounts: maps by name in objects, int64 columns in arithmetic."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"

FIRST = (CPU, MEMORY, PODS)
"""The first columns of every ResourceSpace."""

ALLOCATABLE_MAX = 2**47
"""Upper bound of a node's amount (128 TiB), so that sums over nodes stay exact in float64. Larger
amounts are clamped."""

REQUEST_MAX = 2**48
"""Upper bound of a pod's amount: more than any node has. Users may write pods with any request, and
the sum over 30,000 pods of this size still fits into int64. Larger amounts are clamped."""

TOTAL_MAX = 2**53
"""Upper bound of an amount in a Queue or PodGroup: more than all nodes have together, and exact in
float64. Larger amounts are clamped."""

SUM_MAX = 2**62
"""Upper bound of a sum in a column, so that the sum fits into int64. Larger sums are clamped."""

OTHERS = "other resources"
"""Name of the column that sums up all resources without a column of their own. No node has such
resources, and the column is used only when pods request very many of them."""

DEVICE_CLASS = "deviceclass.resource.k8s.io/"
"""Prefix of resources that stand for the devices of claims, followed by the name of a DeviceClass.
Queues have them; nodes and pods don't."""

Vector = NDArray[np.int64]
"""An amount per column of a ResourceSpace: shape (R,), or (N, R) for N rows."""

Share = NDArray[np.float64]
"""Amounts that may be fractions, such as deserved amounts and shares of totals: shape (R,)."""

ResourceMap = Mapping[str, int]
"""Amount by resource name: cpu in millicores, all other resources in whole units (bytes,
devices)."""


class _Folded(dict[str, int]):
    """Columns by name. A name without a column maps to the last column."""

    def __missing__(self, name: str) -> int:
        return self[OTHERS]


@dataclass(frozen=True, slots=True)
class ResourceSpace:
    """The assignment of resources to columns.

    cpu, memory and pods come first, then all other resources sorted by name. The columns therefore
    do not depend on the order in which objects arrived.
    """

    names: tuple[str, ...]
    columns: Mapping[str, int] = field(compare=False, repr=False)

    @classmethod
    def of(cls, names: Iterable[str], *, folded: bool = False) -> "ResourceSpace":
        """Return the space of cpu, memory, pods and the given names.

        With `folded`, a last column sums up all resources without a column.
        """
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
        """Return a row of zeros."""
        return np.zeros(self.size, dtype=np.int64)

    def vector(self, amounts: ResourceMap) -> Vector:
        """Return amounts as a row.

        Raises KeyError for a name without a column, unless the space is folded.
        """
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
        """Return amounts as a row, leaving out resources without a column: no node has any."""
        return self.vector({name: each for name, each in amounts.items() if name in self.columns})

    def limits(self, amounts: ResourceMap | None) -> Share:
        """Return amounts as upper bounds. A resource without an amount is unlimited."""
        row = np.full(self.size, np.inf)
        for name, amount in (amounts or {}).items():
            if name in self.columns:
                row[self.columns[name]] = amount
        return row

    def amounts(self, row: Vector | Share) -> dict[str, float]:
        """Return the non-zero amounts of a row by name."""
        values: list[float] = row.tolist()
        return {name: value for name, value in zip(self.names, values, strict=True) if value}


def add(left: ResourceMap, right: ResourceMap) -> dict[str, int]:
    """Return the sum of two maps by name."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def fits(request: Vector, room: Vector, used: Vector | None = None) -> NDArray[np.bool_]:
    """Return which rows of `room` (N, R), minus `used`, hold the request (R,), as a mask (N,).

    Only requested resources are compared. A node with more used than allocatable of a resource
    still accepts pods without a request for this resource.
    """
    enough: NDArray[np.bool_] | None = None
    for column, amount in enumerate(request.tolist()):
        if amount:
            free = room[:, column] if used is None else room[:, column] - used[:, column]
            if enough is None:
                enough = free >= amount
            else:
                enough &= free >= amount
    return np.ones(len(room), dtype=np.bool_) if enough is None else enough


def copies(request: Vector, room: Vector) -> Vector:
    """Return how many times each row of `room` (N, R) holds the request (R,), as (N,).

    Only requested resources are compared, of which there must be one. A row below zero holds none.
    """
    asked = np.flatnonzero(request)
    found: Vector = (np.maximum(room[:, asked], 0) // request[asked]).min(axis=1)
    return found


def by_column(rows: Vector) -> Vector:
    """Return a copy of (N, R) in which each column is contiguous in memory.

    Loops over all nodes, resource by resource, take half the time on such a copy.
    """
    return np.array(rows, order="F")


def dominant_share(allocated: Mapping[str, float], deserved: Mapping[str, float]) -> float:
    """Return the largest allocated ÷ deserved, but of places for pods; 0 if nothing is deserved."""
    parts = (
        allocated.get(name, 0) / amount
        for name, amount in deserved.items()
        if amount and name != PODS
    )
    return max(parts, default=0.0)
