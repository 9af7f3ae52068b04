"""Node pools: the nodes usable for pods of each queue, and the resources to share on these nodes.

A *domain* is the set of nodes usable for pods of some class and queue, whichever pods run there
now. Nodes in the same domains make up a *kind* of nodes. The supply of a node is its allocatable
resources less what pods of other schedulers hold there. A pod of ours is *pinned* if its node takes
no more pods of the class: the node was cordoned or tainted, isn't ready, or has left. Resources of
pinned pods belong to the pod's queue in any case.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import demands, device_supply
from vscheduler.core.model import jobs, nodes, resources, snapshot
from vscheduler.core.model.queues import Queue

DOMAINS_MAX = 512
"""At most this many domains are told apart. All others, with the fewest pods, are merged into the
union of their nodes. Pods that each name a node of their own would otherwise make a domain each."""

ANY_POD = jobs.PodClass(request={resources.PODS: 1})
"""A pod without constraints. It stands for pods that don't exist yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """A domain that is kept from cycle to cycle; equal domains are mostly one object."""

    mask: nodes.Mask
    """The nodes (N,)."""


class ClusterView(Protocol):
    """The cluster in this cycle, as far as node pools read a Session."""

    snapshot: snapshot.Snapshot
    space: resources.ResourceSpace
    jobs_without_queue: list[jobs.Job]

    @property
    def devices(self) -> device_supply.DeviceSupply:
        """The devices of the cluster."""

    @property
    def queues(self) -> Mapping[str, Queue]:
        """All queues by name."""

    @property
    def demands(self) -> demands.QueueDemands:
        """Demand of queues as the cycle begins."""

    def class_nodes(self, pod_class: jobs.PodClass, layout: nodes.NodeLayout) -> nodes.Mask:
        """Return the nodes (N,) usable for pods of this class."""

    def queue_nodes(self, queue: Queue, layout: nodes.NodeLayout) -> nodes.Mask | None:
        """Return the nodes (N,) usable for pods of this queue; None: all."""

    @property
    def known_domains(self) -> Mapping[tuple[str, jobs.PodClass], Domain]:
        """Return domains of queues and pod classes, as already known for nodes as they are."""

    @property
    def known_nowhere(self) -> Container[tuple[str, jobs.PodClass]]:
        """Pairs of queue and pod class that, as already known, can use no node as nodes are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNodes:
    """Nodes with their resources and usage; all arrays are (N, R)."""

    layout: nodes.NodeLayout
    allocatable: resources.Vector
    others: resources.Vector
    """Resources held by other schedulers' pods, without terminating pods."""
    ours: resources.Vector
    devices: resources.Vector | None = None
    """Devices of claims, without those of other schedulers' pods; None: nothing stands for any."""


def pool_nodes(cluster: ClusterView) -> PoolNodes:
    """Return the nodes as they are; pods of jobs without a queue count as other schedulers'."""
    table = cluster.snapshot.nodes
    ours = table.ours
    if cluster.jobs_without_queue:
        ours = ours.copy()
        for job in cluster.jobs_without_queue:
            for task in job.tasks:
                row = table.layout.rows.get(task.node or "")
                if row is not None and task.status in jobs.HOLDING:
                    ours[row] -= cluster.space.vector(task.pod_class.request)
    others = np.maximum(table.used - table.releasing - ours, 0)
    devices = cluster.devices.supply(cluster.space)
    if devices is not None:
        ours = ours + device_supply.held(cluster.snapshot, cluster.space)
    return PoolNodes(
        layout=table.layout,
        allocatable=table.allocatable,
        others=others,
        ours=ours,
        devices=devices,
    )


@dataclass(slots=True)
class ClassDemand:
    """Demand of one pod class in one queue, in numbers of pods."""

    held: int = 0
    pending: int = 0
    pinned: int = 0
    """How many of the held pods are pinned."""


def class_demands(cluster: ClusterView) -> dict[demands.Pair, ClassDemand]:
    """Return the demand of each queue and pod class.

    Pending pods of a queue that isn't open don't count: they won't be placed.
    """
    is_open = {name: queue.open for name, queue in cluster.queues.items()}
    return {
        (queue, pod_class): ClassDemand(held=held, pending=pending if is_open[queue] else 0)
        for (queue, pod_class), (held, pending) in cluster.demands.pods.items()
    }


class NodePools:
    """The resources to share out, with C domains, K kinds of nodes and R resources.

    Two domains belong to no queue: the nodes usable for a pod without constraints, and all nodes
    that take pods at all.
    """

    def __init__(
        self,
        pool: PoolNodes,
        masks: Sequence[nodes.Mask],
        demands: Mapping[demands.Pair, tuple[int, int]],
        supply: resources.Vector,
        pinned: Mapping[str, resources.Vector],
    ) -> None:
        """`masks` are the nodes of each domain, C times (N,); the last two belong to no queue.

        `supply` (N, R) is without pinned amounts.
        """
        self.nodes = pool
        self.masks = masks
        self.demands = demands
        """The domain and number of pods of each queue and pod class, without pinned pods."""
        self.merged = False
        """Whether there were too many domains to tell all of them apart."""
        self.pinned = pinned
        """Pinned resources of each queue, (R,); only queues with some."""
        self.open = len(masks) - 2
        self.anywhere = len(masks) - 1
        first, self.kinds = _kinds(masks, pool.layout.size)
        """The kind of each node, (N,)."""
        self.reach = np.array([mask[first] for mask in masks], dtype=np.bool_)
        """Which kinds of nodes are in each domain, (C, K)."""
        self.supply = np.zeros((first.size, supply.shape[1]), dtype=np.int64)
        """What nodes of each kind have to share, (K, R)."""
        np.add.at(self.supply, self.kinds, supply)
        asked = {domain for domain, _ in demands.values()} or {self.open}
        used: nodes.Mask = np.any(self.reach[sorted(asked)], axis=0)
        self.left_out = np.flatnonzero(~used[self.kinds])
        """Rows of nodes that are usable for no pod; without any pods, for no pod without
        constraints."""
        self.total: resources.Vector = self.supply[used].sum(axis=0)
        """What all other nodes supply, and what is pinned, (R,)."""
        for held in pinned.values():
            self.total = self.total + held

    def nowhere(self, queue: str, pod_class: jobs.PodClass) -> bool:
        """Whether no node is usable for pending pods of this class and queue."""
        domain, _ = self.demands.get((queue, pod_class), (self.anywhere, 0))
        return not self.reach[domain].any()

    @property
    def uniform(self) -> bool:
        """Whether all pods can use the same nodes, empty nodes without supply aside."""
        asked = sorted({domain for domain, _ in self.demands.values()})
        reach = self.reach[asked][:, (self.supply > 0).any(axis=1)]
        used: nodes.Mask = np.any(reach, axis=0)
        return bool(reach[:, used].all())

    @cached_property
    def domains(self) -> Mapping[jobs.PodClass, Mapping[str, int]]:
        """The domain of each pod class, by queue."""
        found: dict[jobs.PodClass, dict[str, int]] = {}
        for (queue, pod_class), (domain, _) in self.demands.items():
            found.setdefault(pod_class, {})[queue] = domain
        return found


def _kinds(masks: Sequence[nodes.Mask], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group nodes by domains: return the first node of each kind, and the kind of each node."""
    if size and all(mask.all() for mask in masks):  # sorting costs much more
        return np.zeros(1, dtype=np.int64), np.zeros(size, dtype=np.int64)
    codes = np.packbits(np.array(masks, dtype=np.bool_).reshape(len(masks), size), axis=0)
    words = np.ascontiguousarray(codes.T).view(np.dtype((np.void, codes.shape[0])))
    _, first, places = np.unique(words.ravel(), return_index=True, return_inverse=True)
    return first.astype(np.int64), places.astype(np.int64)


class NodePoolsBuilder:
    """Builds node pools of a cluster in one cycle. Demand is read once for all of them."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._class_demands = class_demands(cluster)

    def pending(self, queue: str, pod_class: jobs.PodClass) -> int:
        """Return how many pods of this class were pending in this queue when the cycle began."""
        return self._class_demands.get((queue, pod_class), ClassDemand()).pending

    def build(self, pool: PoolNodes) -> NodePools:
        """Return the node pools of these nodes."""
        usable = UsableNodes(self._cluster, pool)
        pinned, taken = self._pin(pool, usable)
        # At least what our pods hold, even on a node that has shrunk below its usage.
        given = pool.allocatable - pool.others
        if pool.devices is not None:
            given = given + pool.devices
        given = np.maximum(given, pool.ours)
        supply = np.maximum(given - taken, 0)
        supply[~pool.layout.ready] = 0
        free = {
            pair: want.held + want.pending - want.pinned
            for pair, want in self._class_demands.items()
        }
        domains = DomainsByClass(usable)
        demands = domains.of({pair: count for pair, count in free.items() if count})
        anywhere = pool.layout.ready & pool.layout.schedulable
        masks = [*domains.masks, usable.of_class(ANY_POD), anywhere]
        pools = NodePools(pool, masks, demands, supply, pinned)
        pools.merged = domains.merged
        return pools

    def _pin(
        self, pool: PoolNodes, usable: "UsableNodes"
    ) -> tuple[dict[str, resources.Vector], resources.Vector]:
        """Return the pinned resources by queue, (R,), and by node, (N, R)."""
        space = self._cluster.space
        by_queue: dict[str, resources.Vector] = {}
        taken = np.zeros_like(pool.ours)
        for want in self._class_demands.values():
            want.pinned = 0
        for pod_class, placed in self._cluster.snapshot.pods_by_class.items():
            rows = placed.rows(pool.layout)
            stays = usable.holds(pod_class, placed.queues, rows)
            if stays.all():
                continue
            request = space.vector(pod_class.counted)
            for place in np.flatnonzero(~stays).tolist():
                queue, count = placed.queues[place], int(placed.counts[place])
                if (queue, pod_class) not in self._class_demands:  # its queue doesn't exist
                    continue
                self._class_demands[queue, pod_class].pinned += count
                by_queue[queue] = by_queue.get(queue, space.zeros()) + count * request
                if rows[place] >= 0:
                    taken[rows[place]] += count * request
        return by_queue, taken


class UsableNodes:
    """Masks of nodes usable for pods, by class and queue."""

    def __init__(self, cluster: ClusterView, pool: PoolNodes) -> None:
        self._cluster = cluster
        self._nodes = pool
        self._allocatable = resources.by_column(pool.allocatable)
        self._none = np.zeros(pool.layout.size, dtype=np.bool_)
        self._least = self._allocatable.min(axis=0, initial=resources.ALLOCATABLE_MAX)
        """What every node has at least, (R,)."""
        self._classes: dict[jobs.PodClass, nodes.Mask] = {}
        as_it_is = pool.allocatable is cluster.snapshot.nodes.allocatable
        self._nowhere = cluster.known_nowhere if as_it_is else ()
        self.known = cluster.known_domains if as_it_is else {}
        """Domains that needn't be worked out."""
        self._limited: dict[bytes, nodes.Mask] = {}
        self._queues: dict[str, bytes] = {}
        """The mask, as bytes, of each queue that may not use all nodes."""
        for name, queue in cluster.queues.items():
            mask = cluster.queue_nodes(queue, pool.layout)
            if mask is not None:
                self._queues[name] = mask.tobytes()
                self._limited[self._queues[name]] = mask

    def of_class(self, pod_class: jobs.PodClass) -> nodes.Mask:
        """Return the nodes (N,) usable for pods of this class, if large enough."""
        if pod_class.constraints.resource_claims:
            pod_class = self._cluster.devices.first_like(pod_class)
        mask = self._classes.get(pod_class)
        if mask is None:
            usable = self._cluster.class_nodes(pod_class, self._nodes.layout)
            mask = usable & self._nodes.layout.ready & self._large_enough(pod_class)
            self._classes[pod_class] = mask
        return mask

    def _large_enough(self, pod_class: jobs.PodClass) -> nodes.Mask:
        """Return the nodes (N,) whose allocatable resources cover the request of a pod."""

        def compute() -> nodes.Mask:
            request = self._cluster.space.vector(pod_class.request)
            if (request <= self._least).all():
                return np.ones(self._nodes.layout.size, dtype=np.bool_)
            return resources.fits(request, self._allocatable)

        table = self._cluster.snapshot.nodes
        if self._nodes.allocatable is not table.allocatable:
            return compute()
        return table.large_enough(pod_class, compute)

    def of(self, queue: str, pod_class: jobs.PodClass) -> nodes.Mask:
        """Return the nodes (N,) usable for pods of this class in this queue."""
        if (queue, pod_class) in self._nowhere:
            return self._none
        mask = self.of_class(pod_class)
        limited = self._queues.get(queue)
        return mask if limited is None else mask & self._limited[limited]

    def likeness(self, queue: str) -> bytes:
        """Return a value equal for queues that may use the same nodes."""
        return self._queues.get(queue, b"")

    def holds(
        self, pod_class: jobs.PodClass, names: tuple[str, ...], rows: NDArray[np.int64]
    ) -> nodes.Mask:
        """Return which pods of a class could be placed anew on their present nodes, (S,).

        `names` are the pods' queues and `rows` their nodes; row -1 is a node that has left.
        """
        if not self._nodes.layout.size:
            return np.zeros(rows.size, dtype=np.bool_)
        could = (rows >= 0) & self.of_class(pod_class)[rows]
        for name in dict.fromkeys(names) if self._queues else ():
            theirs = np.array([each == name for each in names], dtype=np.bool_)
            could &= ~theirs | self.of(name, pod_class)[rows]
        return could


class DomainsByClass:
    """Finds the domains of pods, and gives equal domains the same number."""

    def __init__(self, usable: UsableNodes) -> None:
        self._usable = usable
        self.masks: list[nodes.Mask] = []
        self.merged = False
        """Whether there were more than DOMAINS_MAX."""
        self._known: dict[bytes, int] = {}
        self._same: dict[Domain, int] = {}
        """The numbers of known domains."""
        self._pairs: dict[tuple[bytes, jobs.PodClass], int] = {}

    def of(self, demands: Mapping[demands.Pair, int]) -> dict[demands.Pair, tuple[int, int]]:
        """Return the domain and number of pods of each pair."""
        found = {pair: (self._domain(*pair), count) for pair, count in demands.items()}
        self.merged = len(self.masks) > DOMAINS_MAX
        if self.merged:
            self._merge(found)
        return found

    def _domain(self, queue: str, pod_class: jobs.PodClass) -> int:
        """Return the number of the domain, adding the domain if unknown."""
        known = self._usable.known.get((queue, pod_class))
        if known is not None:
            number = self._same.get(known)
            if number is None:
                number = self._same[known] = self._number(known.mask)
            return number
        pair = (self._usable.likeness(queue), pod_class)
        domain = self._pairs.get(pair)
        if domain is None:
            domain = self._pairs[pair] = self._number(self._usable.of(queue, pod_class))
        return domain

    def _number(self, mask: nodes.Mask) -> int:
        """Return the number of the domain with these nodes, adding the domain if unknown."""
        domain = self._known.setdefault(mask.tobytes(), len(self.masks))
        if domain == len(self.masks):
            self.masks.append(mask)
        return domain

    def _merge(self, found: dict[demands.Pair, tuple[int, int]]) -> None:
        """Merge the domains with the fewest pods into the last of DOMAINS_MAX domains."""
        pods = np.zeros(len(self.masks), dtype=np.int64)
        for domain, count in found.values():
            pods[domain] += count
        order = np.argsort(-pods, kind="stable").tolist()
        places = {domain: min(place, DOMAINS_MAX - 1) for place, domain in enumerate(order)}
        merged = [self.masks[domain] for domain in order[:DOMAINS_MAX]]
        for domain in order[DOMAINS_MAX:]:
            merged[-1] = merged[-1] | self.masks[domain]
        self.masks[:] = merged
        for pair, (domain, count) in found.items():
            found[pair] = (places[domain], count)
