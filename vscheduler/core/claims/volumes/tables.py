"""Tables of volumes: which available volume a claim gets on which node.

Kubernetes: component-helpers storage/volume FindMatchingVolume. Volumes are sorted by size, then
name, so the first volume that fits is the smallest.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.model import nodes
from vscheduler.model.constraints import Operator, Requirement, Term
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.storage import Claim, Volume

Ints: TypeAlias = NDArray[np.int64]
Terms: TypeAlias = tuple[Term, ...]

NONE = -1
"""Instead of a volume's position: no volume."""


class VolumeTable:
    """The available volumes of one storage class.

    Volumes with equal node affinity form a group. A local volume is usable on one node, so there
    may be as many groups as nodes, and (group, row) pairs are kept instead of masks.
    """

    def __init__(self, volumes: Sequence[Volume], layout: NodeLayout) -> None:
        self.volumes = volumes
        self.positions = {volume.name: at for at, volume in enumerate(volumes)}
        self._size = layout.size
        self._capacities = np.array([volume.capacity for volume in volumes], dtype=np.int64)
        groups: dict[Terms | None, int] = {}
        shapes: dict[tuple[str, tuple[str, ...], str], int] = {}
        self._group = np.array(
            [groups.setdefault(volume.affinity, len(groups)) for volume in volumes], dtype=np.int64
        )
        self._shape = np.array(
            [shapes.setdefault(_shape(volume), len(shapes)) for volume in volumes], dtype=np.int64
        )
        self._shapes = list(shapes)
        reach = Reach(layout)
        rows = [reach.of(affinity) for affinity in groups]
        self._starts = np.cumsum([0, *(row.size for row in rows)])
        self._rows = np.concatenate([np.empty(0, dtype=np.int64), *rows])

    def fitting(self, claim: Claim, without: Iterable[str]) -> NDArray[np.bool_]:
        """Return which volumes (P,) the claim could get, except those that are given away."""
        wanted = frozenset(claim.access_modes)
        shapes = [
            mode == claim.mode
            and attributes_class == claim.attributes_class
            and wanted <= frozenset(access_modes)
            for mode, access_modes, attributes_class in self._shapes
        ]
        fits = np.array(shapes, dtype=np.bool_)[self._shape]
        fits &= self._capacities >= claim.request
        if claim.selector is not None:
            for at in np.flatnonzero(fits).tolist():
                fits[at] = claim.selector.matches(self.volumes[at].labels)
        for name in without:
            if name in self.positions:
                fits[self.positions[name]] = False
        return fits

    def on_every_row(self, fits: Sequence[NDArray[np.bool_]]) -> list[Ints]:
        """Return the position of each claim's volume on each node, (N,), or NONE.

        `fits` tells which volumes (P,) each claim could get; claims come in the order in which they
        choose, and no volume is chosen twice on a node.
        """
        chosen: list[Ints] = []
        for fit in fits:
            volumes, starts, ends = self._by_row(self.first(fit, len(chosen) + 1))
            found = np.full(self._size, NONE, dtype=np.int64)
            for rank in range(len(chosen) + 1):
                rows = np.flatnonzero((found == NONE) & (starts + rank < ends))
                candidates = volumes[starts[rows] + rank]
                free = np.ones(rows.size, dtype=np.bool_)
                for other in chosen:
                    free &= other[rows] != candidates
                found[rows[free]] = candidates[free]
            chosen.append(found)
        return chosen

    def on_row(self, fits: Sequence[NDArray[np.bool_]], row: int) -> list[int]:
        """Return the same for one node: the position of each claim's volume, or NONE."""
        pairs = np.flatnonzero(self._rows == row)
        groups = np.searchsorted(self._starts, pairs, side="right") - 1
        reaches = np.isin(self._group, groups)
        chosen: list[int] = []
        for fit in fits:
            candidates = np.flatnonzero(fit & reaches).tolist()
            chosen.append(
                next((candidate for candidate in candidates if candidate not in chosen), NONE)
            )
        return chosen

    def first(self, fits: NDArray[np.bool_], count: int) -> Ints:
        """Return the positions of the first `count` fitting volumes of each group, ascending."""
        fitting = np.flatnonzero(fits)
        order = np.argsort(self._group[fitting], kind="stable")
        groups = self._group[fitting[order]]
        ranks = np.arange(groups.size) - np.searchsorted(groups, groups, side="left")
        found: Ints = np.sort(fitting[order][ranks < count])
        return found

    def reach(self, position: int) -> Ints:
        """Return the rows on which a volume can be used."""
        group = self._group[position]
        return self._rows[self._starts[group] : self._starts[group + 1]]

    def _by_row(self, volumes: Ints) -> tuple[Ints, Ints, Ints]:
        """Return these volumes sorted by row, then position; and where each row starts and ends."""
        groups = self._group[volumes]
        sizes = self._starts[groups + 1] - self._starts[groups]
        before = np.cumsum(sizes) - sizes
        at = np.arange(int(sizes.sum())) + np.repeat(self._starts[groups] - before, sizes)
        rows, pairs = self._rows[at], np.repeat(volumes, sizes)
        order = np.lexsort((pairs, rows))
        rows = rows[order]
        every = np.arange(self._size)
        return pairs[order], rows.searchsorted(every), rows.searchsorted(every, side="right")


class Reach:
    """The rows on which volumes with a node affinity can be used."""

    def __init__(self, layout: NodeLayout) -> None:
        self._layout = layout
        self._by_value: dict[str, tuple[Ints, Ints]] = {}

    def of(self, affinity: Terms | None) -> Ints:
        """Return the rows, ascending."""
        rows: Ints
        if affinity is not None and len(affinity) == 1 and not affinity[0].fields:
            match affinity[0].labels:
                case (Requirement(key, Operator.IN, (value,)),):
                    return self._with_label(key, value)
        rows = np.flatnonzero(usable(affinity, self._layout))
        return rows

    def _with_label(self, key: str, value: str) -> Ints:
        """Return the nodes with this label, without a mask for each of thousands of hostnames."""
        codes, values = self._layout.label(key)
        if key not in self._by_value:
            order = np.argsort(codes, kind="stable")
            self._by_value[key] = order, codes[order]
        order, ordered = self._by_value[key]
        code = values.get(value)
        if code is None:
            return order[:0]
        begin, end = np.searchsorted(ordered, [code, code + 1])
        return order[begin:end]


def usable(affinity: Terms | None, layout: NodeLayout) -> Mask:
    """Return the nodes (N,) that the node affinity of a volume allows."""
    if affinity is None:
        return np.ones(layout.size, dtype=np.bool_)
    return nodes.matches_any(layout, affinity)


def _shape(volume: Volume) -> tuple[str, tuple[str, ...], str]:
    """Return what decides, beside the size, whether a claim could get the volume."""
    return volume.mode, volume.access_modes, volume.attributes_class
