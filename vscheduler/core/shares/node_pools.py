"""Node pools: the nodes usable for pods of each queue, and the resources to share on these nodes.

A *domain* is the set of nodes usable for pods of some class and queue, whichever pods run there
now. Nodes in the same domains make up a *kind* of nodes. The supply of a node is its allocatable
resources less what pods of other schedulers hold there. A pod of ours is *pinned* if its node takes
no more pods of the class: the node was cordoned or tainted, isn't ready, or has left. Resources of
pinned pods belong to the pod's queue in any case.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.shares import device_supply, node_domains, usable_nodes
from vscheduler.core.shares.demands import Pair, QueueDemands
from vscheduler.core.shares.node_domains import (
    DomainDemands,
    DomainFinder,
    KnownDomains,
    NodeKinds,
    NumberedDomains,
    UnschedulableDemands,
)
from vscheduler.core.shares.usable_nodes import PoolNodes, UsableNodes
from vscheduler.model.jobs import HOLDING, Job, PodClass
from vscheduler.model.nodes import Mask
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import ClassCounts


class ClusterView(usable_nodes.ClusterView, Protocol):
    """The cluster in this cycle, as far as node pools read a Session."""

    jobs_without_queue: list[Job]

    @property
    def demands(self) -> QueueDemands:
        """Demand of queues as the cycle begins."""

    @property
    def known_domains(self) -> KnownDomains:
        """Return domains of queues and pod classes, as already known for nodes as they are."""


def pool_nodes(cluster: ClusterView) -> PoolNodes:
    """Return the nodes as they are; pods of jobs without a queue count as other schedulers'."""
    table = cluster.snapshot.nodes
    ours = table.ours
    if cluster.jobs_without_queue:
        ours = ours.copy()
        for job in cluster.jobs_without_queue:
            for task in job.tasks:
                row = table.layout.rows.get(task.node or "")
                if row is not None and task.status in HOLDING:
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


class NodePools:
    """The resources to share out, with C domains, K kinds of nodes and R resources.

    Two domains belong to no queue: the nodes usable for a pod without constraints, and all nodes
    that take pods at all.
    """

    def __init__(
        self,
        pool: PoolNodes,
        found: NumberedDomains,
        kinds: NodeKinds,
        supply: Vector,
        pinned: Mapping[str, Vector],
    ) -> None:
        """`found` are the domains of pods in demand, without pinned pods; `kinds` are the nodes by
        these and the two domains that belong to no queue. `supply` (N, R) is without pinned
        amounts.
        """
        self.nodes = pool
        self._found = found
        self._kinds = kinds
        self.masks = kinds.masks
        """The nodes of each domain, C times (N,); the last two belong to no queue."""
        self.requested = found.requested
        """What pods of each queue request in each domain, without pinned pods."""
        self.merged = found.merged
        """Whether there were too many domains to tell all of them apart."""
        self.known = node_domains.NOTHING_KNOWN
        """What the next cycle may know of domains."""
        self.pinned = pinned
        """Pinned resources of each queue, (R,); only queues with some."""
        self.open = len(self.masks) - 2
        self.anywhere = len(self.masks) - 1
        self.kinds, self.reach = kinds.kinds, kinds.reach
        """The kind of each node, (N,), and which kinds are in each domain, (C, K)."""
        self.is_one = kinds.is_one
        """Whether all domains have all nodes."""
        self.supply: Vector
        """What nodes of each kind have to share, (K, R)."""
        if kinds.count == 1:
            self.supply = np.add.reduce(supply, axis=0, keepdims=True)
        else:
            self.supply = np.zeros((kinds.count, supply.shape[1]), dtype=np.int64)
            np.add.at(self.supply, self.kinds, supply)
        self.left_out = kinds.left_out
        """Rows of nodes that are usable for no pod; without any pods, for no pod without
        constraints."""
        self.total: Vector = np.add.reduce(self.supply[kinds.used], axis=0)
        """What all other nodes supply, and what is pinned, (R,)."""
        for held in pinned.values():
            self.total = self.total + held

    def find_domain(self, queue: str, pod_class: PodClass) -> int | None:
        """Return the domain of pods of this class and queue; None if none is in demand."""
        return self._found.of((queue, pod_class))

    def domain(self, queue: str, pod_class: PodClass) -> int:
        """Return the domain of pods of this class and queue; all nodes if none is in demand."""
        found = self._found.of((queue, pod_class))
        return self.anywhere if found is None else found

    def rows(self, domain: int) -> NDArray[np.int64]:
        """Return the rows of the nodes in a domain."""
        return self._kinds.rows(domain)

    def nowhere(self, queue: str, pod_class: PodClass) -> bool:
        """Whether no node is usable for pending pods of this class and queue."""
        return not self.reach[self.domain(queue, pod_class)].any()

    @property
    def uniform(self) -> bool:
        """Whether all pods can use the same nodes, empty nodes without supply aside."""
        if self.is_one:
            return True
        reach = self.reach[: self.open, (self.supply > 0).any(axis=1)]
        used: Mask = np.any(reach, axis=0)
        return bool(reach[:, used].all())


class NodePoolsBuilder:
    """Builds node pools of a cluster in one cycle."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._closed = frozenset(name for name, queue in cluster.queues.items() if not queue.open)
        """Queues that aren't open. Their pending pods don't count: since such pods won't be placed,
        other queues may use the resources."""

    def pending(self, queue: str, pod_class: PodClass) -> int:
        """Return how many pods of this class were pending in this queue when the cycle began."""
        if queue in self._closed:
            return 0
        return self._cluster.demands.pending_of((queue, pod_class))

    def build(self, pool: PoolNodes) -> NodePools:
        """Return the node pools of these nodes."""
        known, layout = node_domains.NOTHING_KNOWN, pool.layout
        if pool.allocatable is self._cluster.snapshot.nodes.allocatable:
            known = self._cluster.known_domains
        usable = UsableNodes(self._cluster, pool)
        pinned = PinnedPods(self._cluster, pool, usable, known)
        # At least what our pods hold, even on a node that has shrunk below its usage.
        given = pool.allocatable - pool.others
        if pool.devices is not None:
            given = given + pool.devices
        given = np.maximum(given, pool.ours)
        supply = np.maximum(given - pinned.by_node, 0)
        supply[~layout.ready] = 0
        finder = DomainFinder(usable, known)
        active, unschedulable = self._demands(finder, pinned.number)
        found = NumberedDomains((active, unschedulable.found))
        free = usable.of_class(usable_nodes.ANY_POD), layout.ready & layout.schedulable
        kinds = NodeKinds([*found.masks, *free], layout.size)
        pools = NodePools(pool, found, kinds, supply, pinned.by_queue)
        pools.known = KnownDomains(
            active=node_domains.lasting(active),
            unschedulable=unschedulable,
            staying=pinned.staying,
        )
        return pools

    def _demands(
        self, finder: DomainFinder, pinned: Mapping[Pair, int]
    ) -> tuple[DomainDemands, UnschedulableDemands]:
        """Return what pods of unschedulable jobs request in each domain, after what others do.

        `pinned` are the numbers of pinned pods. Pairs without any other pods aren't in demand.
        """
        asked, found = self._cluster.demands, DomainDemands()
        unschedulable_pods, closed = asked.unschedulable.pods, self._closed
        for pair, each in asked.active.items():
            is_open, place = pair[0] not in closed, each.place
            count = in_all = each.held + each.pending * is_open - pinned.get(pair, 0)
            if pair in unschedulable_pods:
                unschedulable = unschedulable_pods[pair]
                place = min(place, unschedulable[:2])
                in_all += unschedulable.pending * is_open
            if in_all:
                found.add(pair, finder.of(pair), place, count)
        return found, finder.unschedulable(asked.unschedulable, self._closed)


class PinnedPods:
    """The pods whose nodes take no more of their class, and those of which none is pinned."""

    def __init__(
        self,
        cluster: ClusterView,
        pool: PoolNodes,
        usable: UsableNodes,
        known: KnownDomains,
    ) -> None:
        """Go through the pods on nodes, but for those of which `known` says that none is pinned."""
        self.number: defaultdict[Pair, int] = defaultdict(int)
        """How many pods are pinned."""
        self.by_queue: dict[str, Vector] = {}
        """Pinned resources, (R,)."""
        self.by_node: Vector = np.zeros(pool.ours.shape, dtype=np.int64)
        """Pinned resources, (N, R)."""
        self.staying: dict[PodClass, ClassCounts] = {}
        for pod_class, placed in cluster.snapshot.pods_by_class.items():
            if pod_class in known.staying and known.staying[pod_class] is placed:
                self.staying[pod_class] = placed
                continue
            rows = placed.rows(pool.layout)
            stays = usable.holds(pod_class, placed.queues, rows)
            limits = pod_class.constraints
            if not stays.all():
                self._pin(cluster, pod_class, placed, rows, stays)
            elif not (limits.volumes or limits.resource_claims):
                self.staying[pod_class] = placed

    def _pin(
        self,
        cluster: ClusterView,
        pod_class: PodClass,
        placed: ClassCounts,
        rows: NDArray[np.int64],
        stays: Mask,
    ) -> None:
        """Count the pods of a class that don't stay."""
        request = cluster.space.vector(pod_class.counted)
        for place in np.flatnonzero(~stays).tolist():
            queue, count = placed.queues[place], int(placed.counts[place])
            pair = (queue, pod_class)
            if pair not in cluster.demands.active:  # its queue doesn't exist
                continue
            self.number[pair] += count
            self.by_queue[queue] = self.by_queue.get(queue, cluster.space.zeros()) + count * request
            if rows[place] >= 0:
                self.by_node[rows[place]] += count * request
