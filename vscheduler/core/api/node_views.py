"""Node views: what filters and scores are asked about, what a filter answers; volumes, devices."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.model.constraints import HostPort
from vscheduler.model.jobs import PodClass
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.refusals import Refusal
from vscheduler.model.resources import ResourceSpace, Vector

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class NodeView:
    """The nodes that a question is about, as columns: n rows of the N nodes of the cluster.

    All rows or some: with declared answers, only rows touched by placements. Amounts are int64
    arrays of shape (n, R), in the columns of the session's ResourceSpace; arrays are read-only.
    """

    layout: NodeLayout
    rows: NDArray[np.int64] | None
    """The rows of the layout; None means all."""
    allocatable: Vector
    used: Vector
    """Requests of pods on the nodes, including pods being deleted."""
    future_used: Vector
    """The requests after pending releases, with pipelined and reserved pods added."""
    ports: Mapping[str, tuple[HostPort, ...]]
    """By node name, host ports of pods that stay, including pods placed in this cycle."""
    leaving_ports: Mapping[str, tuple[HostPort, ...]]
    """By node name, host ports of pods being deleted, including pods evicted in this cycle."""
    _sizes: dict[int, NDArray[np.float64]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def sizes(self, column: int) -> NDArray[np.float64]:
        """Return allocatable amounts to divide by, (n,): at least 1.0 each; read-only, cached."""
        found = self._sizes.get(column)
        if found is None:
            found = np.maximum(self.allocatable[:, column], 1).astype(np.float64)
            found.setflags(write=False)
            self._sizes[column] = found
        return found

    def of(self, column: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return the part of a full column (N, …) for these rows."""
        return column if self.rows is None else column[self.rows]

    @property
    def size(self) -> int:
        """n, the number of rows."""
        return int(self.allocatable.shape[0])


class FilterResult(msgspec.Struct, frozen=True):
    """The answer of one filter: the rows that pass, and why all other rows refuse the pod."""

    refusal: Refusal | str
    """A code with data, or a plugin's own text, shown unchanged: `node(s) were spot nodes`."""
    passes: Mask
    """The mask of rows that pass, (n,)."""
    later: Mask | None = None
    """The mask after pods being deleted are gone, if different."""
    curable: bool = False
    """Whether evictions could change the answer: host ports, affinity between pods."""
    temporary: bool = False
    """Whether the refusal is temporary, and says nothing about the node itself."""


class Volumes(Protocol):
    """Volumes in the present state of the cycle: the answers of kube-scheduler's filters.

    Only for pod classes with volumes.
    """

    def bind_claims(self, timeout_seconds: float) -> None:
        """Have claims bound with placements; called by a plugin that looks at claims.

        Pods give their nodes up after the time-out; 0 is no time-out.
        """

    def limit_attachments(self) -> None:
        """Have attach limits count in searches for gangs; called by a plugin that looks at them."""

    def usable(
        self, pod_class: PodClass, layout: NodeLayout, *, binding: bool, zones: bool
    ) -> Mask | None:
        """Return the nodes (N,) of a layout that bound claims allow, other pods aside; None: all.

        `binding` and `zones` tell which filters count.
        """

    def binding(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answers of VolumeBinding for these nodes."""

    def zones(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answers of VolumeZone for these nodes."""

    def restrictions(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answers of VolumeRestrictions for these nodes."""

    def limits(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answer of NodeVolumeLimits for these nodes, unless all pass."""

    def fingerprint(self, pod_class: PodClass) -> Hashable:
        """Return what the answers for all nodes depend on."""

    def row_fingerprint(
        self, pod_class: PodClass, rows: NDArray[np.int64]
    ) -> Sequence[Hashable] | None:
        """Return what the answers for each node depend on; None if nothing changes them."""


class Devices(Protocol):
    """Devices in the present state of the cycle: the answers of kube-scheduler's DynamicResources.

    Only for pod classes with resource claims.
    """

    def supply(self, space: ResourceSpace) -> Vector | None:
        """Return how many devices of each class nodes have, without those of other schedulers'
        pods, (N, R); None where no resource stands for devices, or no plugin has any allocated.
        """

    def usable(self, pod_class: PodClass, layout: NodeLayout) -> Mask | None:
        """Return the nodes (N,) that allocated claims allow, and that have enough devices for the
        others, in use or not; None: all.
        """

    def filter(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answers of DynamicResources for these nodes."""

    def fingerprint(self, pod_class: PodClass) -> Hashable:
        """Return what the answers for all nodes depend on."""

    def row_fingerprint(
        self, pod_class: PodClass, rows: NDArray[np.int64]
    ) -> Sequence[Hashable] | None:
        """Return what the answers for each node depend on; None if nothing changes them."""
