"""NodeTable: columns over all nodes, rows sorted by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import constraints, resources

Mask = NDArray[np.bool_]
"""One answer per node: shape (N,)."""

MEMO_CELLS_MAX = 2**25
"""Masks that a layout remembers, times nodes: 32 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What a node is, but for amounts: it changes rarely, and heartbeats don't change it."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[constraints.Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    features: tuple[str, ...] = ()
    """What its kubelet says that it can do."""


class NodeLayout:
    """The nodes of a table without their amounts; shared by all snapshots until a NodeSpec changes.

    It holds what is worked out once for these nodes (label columns, masks of constraints) in
    `memo`: a pure function of the specs, so sharing it changes no decision.
    """

    def __init__(self, specs: Sequence[NodeSpec]) -> None:
        self.specs = tuple(specs)
        self.names = tuple(spec.name for spec in self.specs)
        self.rows = {name: row for row, name in enumerate(self.names)}
        assert list(self.names) == sorted(self.rows), "nodes are sorted and named once"
        self._memo: dict[object, Mask] = {}
        self._labels: dict[str, tuple[NDArray[np.int64], Mapping[str, int]]] = {}
        self._variant: NodeLayout | None = None

    @property
    def size(self) -> int:
        """N, the number of nodes."""
        return len(self.names)

    def memo(self, key: object, compute: Callable[[], Mask]) -> Mask:
        """The mask under this key, computed at the first call; nobody may write into it.

        The oldest are dropped where pods with ever new selectors come and go.
        """
        mask = self._memo.get(key)
        if mask is None:
            if len(self._memo) >= max(64, MEMO_CELLS_MAX // (self.size + 1)):
                del self._memo[next(iter(self._memo))]
            mask = compute()
            mask.setflags(write=False)
            self._memo[key] = mask
        return mask

    def label(self, key: str) -> tuple[NDArray[np.int64], Mapping[str, int]]:
        """A label as a column of codes (N,), -1 where it is missing, and value to code."""
        known = self._labels.get(key)
        if known is None and key not in self._label_keys:  # whoever may name any keys isn't noted
            return self._unlabelled
        if known is None:
            codes: dict[str, int] = {}
            column = np.full(self.size, -1, dtype=np.int64)
            for row, labels in enumerate(self._label_maps):
                value = labels.get(key)
                if value is not None:
                    column[row] = codes.setdefault(value, len(codes))
            known = self._labels[key] = (column, codes)
        return known

    def variant(self, specs: tuple[NodeSpec, ...]) -> "NodeLayout":
        """A layout of other nodes; the last one again where they are the same as then."""
        if self._variant is None or self._variant.specs != specs:
            self._variant = NodeLayout(specs)
        return self._variant

    @cached_property
    def taint_sets(self) -> Mapping[tuple[constraints.Taint, ...], NDArray[np.int64]]:
        """Each distinct set of taints, with the rows that have it: few sets, many nodes."""
        sets: dict[tuple[constraints.Taint, ...], list[int]] = {}
        for row, spec in enumerate(self.specs):
            sets.setdefault(spec.taints, []).append(row)
        return {taints: np.array(rows, dtype=np.int64) for taints, rows in sets.items()}

    @cached_property
    def schedulable(self) -> Mask:
        """Nodes that aren't cordoned."""
        return np.array([not spec.unschedulable for spec in self.specs], dtype=np.bool_)

    @cached_property
    def ready(self) -> Mask:
        """Nodes whose Ready condition is True."""
        return np.array([spec.ready for spec in self.specs], dtype=np.bool_)

    @cached_property
    def _label_keys(self) -> frozenset[str]:
        return frozenset(key for spec in self.specs for key, _ in spec.labels)

    @cached_property
    def _unlabelled(self) -> tuple[NDArray[np.int64], Mapping[str, int]]:
        return np.full(self.size, -1, dtype=np.int64), {}

    @cached_property
    def _label_maps(self) -> tuple[dict[str, str], ...]:
        return tuple(dict(spec.labels) for spec in self.specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """All nodes that may be used, with what they have and what is taken.

    used counts every pod that holds room there, whoever scheduled it, those that are being
    deleted (releasing) included; ours is the part of it that pods of our queues hold that stay.
    All arrays are (N, R) int64 and read-only.
    """

    layout: NodeLayout
    allocatable: resources.Vector
    used: resources.Vector
    releasing: resources.Vector
    ours: resources.Vector
    ports: Mapping[str, tuple[constraints.HostPort, ...]] = field(default_factory=dict)
    """Host ports of pods that stay, by node name; only nodes that have some."""
    leaving_ports: Mapping[str, tuple[constraints.HostPort, ...]] = field(default_factory=dict)
    """Host ports of pods that are being deleted, the same way."""
    holding: dict[object, Mask] = field(default_factory=dict, compare=False, repr=False)
    """Which nodes are large enough, (N,), by what for: shared by tables with this `allocatable`,
    from which it follows."""

    def large_enough(self, key: object, compute: Callable[[], Mask]) -> Mask:
        """What `holding` has under this key, computed at the first call; nobody may write into it.

        The oldest are dropped where pods of ever new sizes come and go.
        """
        mask = self.holding.get(key)
        if mask is None:
            if len(self.holding) >= max(64, MEMO_CELLS_MAX // (self.layout.size + 1)):
                del self.holding[next(iter(self.holding))]
            mask = self.holding[key] = compute()
            mask.setflags(write=False)
        return mask

    def __post_init__(self) -> None:
        for array in (self.allocatable, self.used, self.releasing, self.ours):
            assert array.shape[0] == self.layout.size
            array.setflags(write=False)
