"""Usable nodes: which nodes pods of a class and a queue could use, whichever pods run there now."""

from collections.abc import Mapping
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.shares.device_supply import DeviceSupply
from vscheduler.model import computed, resources
from vscheduler.model.jobs import PodClass
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.queues import Queue
from vscheduler.model.resources import ResourceSpace, Vector
from vscheduler.model.snapshot import Snapshot

ANY_POD = PodClass(request={resources.PODS: 1})
"""A pod without constraints. It stands for pods that don't exist yet."""


class ClusterView(Protocol):
    """The cluster in this cycle, as far as this is read of a Session."""

    snapshot: Snapshot
    space: ResourceSpace

    @property
    def devices(self) -> DeviceSupply:
        """The devices of the cluster."""

    @property
    def queues(self) -> Mapping[str, Queue]:
        """All queues by name."""

    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask:
        """Return the nodes (N,) usable for pods of this class."""

    def queue_nodes(self, queue: Queue, layout: NodeLayout) -> Mask | None:
        """Return the nodes (N,) usable for pods of this queue; None: all."""


class PoolNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with their resources and usage; all arrays are (N, R)."""

    layout: NodeLayout
    allocatable: Vector
    others: Vector
    """Resources held by other schedulers' pods, without terminating pods."""
    ours: Vector
    devices: Vector | None = None
    """Devices of claims on the nodes, by class, without those of other schedulers' pods. None where
    no resource stands for devices."""


class QueueNodes(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The nodes of the queues that may not use all of them."""

    masks: Mapping[bytes, Mask]
    """Each mask (N,), by its bytes."""
    by_queue: Mapping[str, bytes]

    @classmethod
    def of(cls, cluster: ClusterView, layout: NodeLayout) -> "QueueNodes":
        """Return the nodes of all queues."""
        masks: dict[bytes, Mask] = {}
        by_queue: dict[str, bytes] = {}
        for name, queue in cluster.queues.items():
            mask = cluster.queue_nodes(queue, layout)
            if mask is not None:
                by_queue[name] = mask.tobytes()
                masks[by_queue[name]] = mask
        return cls(masks=masks, by_queue=by_queue)


class UsableNodes:
    """Masks of nodes usable for pods, by class and queue."""

    def __init__(self, cluster: ClusterView, pool: PoolNodes) -> None:
        self._cluster = cluster
        self._nodes = pool
        self._classes: dict[PodClass, Mask] = {}
        self.of_queues = QueueNodes.of(cluster, pool.layout)
        self._queues = self.of_queues.by_queue

    @computed.once
    def _allocatable(self) -> Vector:
        return resources.by_column(self._nodes.allocatable)

    @computed.once
    def _least(self) -> Vector:
        """What every node has at least, (R,)."""
        least: Vector = self._allocatable.min(axis=0, initial=resources.ALLOCATABLE_MAX)
        return least

    def of_class(self, pod_class: PodClass) -> Mask:
        """Return the nodes (N,) usable for pods of this class, if large enough."""
        if pod_class.constraints.resource_claims:
            pod_class = self.first_like(pod_class)
        mask = self._classes.get(pod_class)
        if mask is None:
            mask = self._cluster.class_nodes(pod_class, self._nodes.layout)
            mask = mask & self._nodes.layout.ready & self._large_enough(pod_class)
            self._classes[pod_class] = mask
        return mask

    def first_like(self, pod_class: PodClass) -> PodClass:
        """Return a class of pods, with claims as these, that can use the same nodes."""
        return self._cluster.devices.first_like(pod_class)

    def _large_enough(self, pod_class: PodClass) -> Mask:
        """Return the nodes (N,) whose allocatable resources cover the request of a pod."""

        def compute() -> Mask:
            request = self._cluster.space.vector(pod_class.request)
            if (request <= self._least).all():
                return np.ones(self._nodes.layout.size, dtype=np.bool_)
            return resources.fits(request, self._allocatable)

        table = self._cluster.snapshot.nodes
        if self._nodes.allocatable is not table.allocatable:
            return compute()
        return table.large_enough(tuple(pod_class.request.items()), compute)

    def of(self, queue: str, pod_class: PodClass) -> Mask:
        """Return the nodes (N,) usable for pods of this class in this queue."""
        mask = self.of_class(pod_class)
        limited = self._queues.get(queue)
        return mask if limited is None else mask & self.of_queues.masks[limited]

    def class_key(self, queue: str) -> bytes:
        """Return a value equal for queues that may use the same nodes."""
        return self._queues.get(queue, b"")

    def holds(self, pod_class: PodClass, names: tuple[str, ...], rows: NDArray[np.int64]) -> Mask:
        """Return which pods of a class could be placed anew on their present nodes, (S,).

        `names` are the pods' queues and `rows` their nodes; row -1 is a node that has left.
        """
        if not self._nodes.layout.size:
            return np.zeros(rows.size, dtype=np.bool_)
        could = (rows >= 0) & self.of_class(pod_class)[rows]
        places: dict[str, list[int]] = {}
        for place, name in enumerate(names if self._queues else ()):
            places.setdefault(name, []).append(place)
        for name, theirs in places.items():
            could[theirs] &= self.of(name, pod_class)[rows[theirs]]
        return could
