"""Node pools: the nodes usable for pods of each queue, and the resources to share on these nodes.

A *domain* is the set of nodes usable for pods of some class and queue, whichever pods run there
now. Nodes in the same domains make up a *kind* of nodes. The supply of a node is its allocatable
resources less what pods of other schedulers hold there. A pod of ours is *pinned* if its node takes
no more pods of the class: the node was cordoned or tainted, isn't ready, or has left. Resources of
pinned pods belong to the pod's queue in any case.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import demands, device_supply, node_domains, usable_nodes
from vscheduler.core.model import jobs, nodes, resources


class ClusterView(usable_nodes.ClusterView, Protocol):
    """The cluster in this cycle, as far as node pools read a Session."""

    jobs_without_queue: list[jobs.Job]

    @property
    def demands(self) -> demands.QueueDemands:
        """Demand of queues as the cycle begins."""

    @property
    def known_domains(self) -> node_domains.KnownDomains:
        """Return domains of queues and pod classes, as already known for nodes as they are."""


def pool_nodes(cluster: ClusterView) -> usable_nodes.PoolNodes:
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
    return usable_nodes.PoolNodes(
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
        pool: usable_nodes.PoolNodes,
        found: node_domains.NumberedDomains,
        free: tuple[nodes.Mask, nodes.Mask],
        supply: resources.Vector,
        pinned: Mapping[str, resources.Vector],
    ) -> None:
        """`found` are the domains of pods in demand, without pinned pods; `free` the two domains
        (N,) that belong to no queue. `supply` (N, R) is without pinned amounts.
        """
        self.nodes = pool
        self._found = found
        self.masks = [*found.masks, *free]
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
        first, self.kinds = _kinds(self.masks, pool.layout.size)
        """The kind of each node, (N,)."""
        self.reach = np.array([mask[first] for mask in self.masks], dtype=np.bool_)
        """Which kinds of nodes are in each domain, (C, K)."""
        self.supply = np.zeros((first.size, supply.shape[1]), dtype=np.int64)
        """What nodes of each kind have to share, (K, R)."""
        np.add.at(self.supply, self.kinds, supply)
        used: nodes.Mask = np.any(self.reach[: self.open or 1], axis=0)
        self.left_out = np.flatnonzero(~used[self.kinds])
        """Rows of nodes that are usable for no pod; without any pods, for no pod without
        constraints."""
        self.total: resources.Vector = self.supply[used].sum(axis=0)
        """What all other nodes supply, and what is pinned, (R,)."""
        for held in pinned.values():
            self.total = self.total + held

    def find_domain(self, queue: str, pod_class: jobs.PodClass) -> int | None:
        """Return the domain of pods of this class and queue; None if none is in demand."""
        return self._found.of((queue, pod_class))

    def domain(self, queue: str, pod_class: jobs.PodClass) -> int:
        """Return the domain of pods of this class and queue; all nodes if none is in demand."""
        found = self._found.of((queue, pod_class))
        return self.anywhere if found is None else found

    def nowhere(self, queue: str, pod_class: jobs.PodClass) -> bool:
        """Whether no node is usable for pending pods of this class and queue."""
        return not self.reach[self.domain(queue, pod_class)].any()

    @property
    def uniform(self) -> bool:
        """Whether all pods can use the same nodes, empty nodes without supply aside."""
        reach = self.reach[: self.open, (self.supply > 0).any(axis=1)]
        used: nodes.Mask = np.any(reach, axis=0)
        return bool(reach[:, used].all())


def _kinds(masks: Sequence[nodes.Mask], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group nodes by domains: return the first node of each kind, and the kind of each node."""
    if size and all(mask.all() for mask in masks):  # sorting costs much more
        return np.zeros(1, dtype=np.int64), np.zeros(size, dtype=np.int64)
    codes = np.packbits(np.array(masks, dtype=np.bool_).reshape(len(masks), size), axis=0)
    words = np.ascontiguousarray(codes.T).view(np.dtype((np.void, codes.shape[0])))
    _, first, places = np.unique(words.ravel(), return_index=True, return_inverse=True)
    return first.astype(np.int64), places.astype(np.int64)


class NodePoolsBuilder:
    """Builds node pools of a cluster in one cycle."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._closed = frozenset(name for name, queue in cluster.queues.items() if not queue.open)
        """Queues that aren't open. Their pending pods don't count: since such pods won't be placed,
        other queues may use the resources."""

    def pending(self, queue: str, pod_class: jobs.PodClass) -> int:
        """Return how many pods of this class were pending in this queue when the cycle began."""
        if queue in self._closed:
            return 0
        return self._cluster.demands.pending_of((queue, pod_class))

    def build(self, pool: usable_nodes.PoolNodes) -> NodePools:
        """Return the node pools of these nodes."""
        usable = usable_nodes.UsableNodes(self._cluster, pool)
        number, pinned, taken = self._pin(pool, usable)
        # At least what our pods hold, even on a node that has shrunk below its usage.
        given = pool.allocatable - pool.others
        if pool.devices is not None:
            given = given + pool.devices
        given = np.maximum(given, pool.ours)
        supply = np.maximum(given - taken, 0)
        supply[~pool.layout.ready] = 0
        known = self._cluster.known_domains if usable.as_it_is else node_domains.NOTHING_KNOWN
        unparked, parked = self._demands(node_domains.DomainFinder(usable, known), number)
        anywhere = pool.layout.ready & pool.layout.schedulable
        pools = NodePools(
            pool,
            node_domains.NumberedDomains((unparked, parked.found)),
            (usable.of_class(usable_nodes.ANY_POD), anywhere),
            supply,
            pinned,
        )
        pools.known = node_domains.kept(unparked, parked)
        return pools

    def _demands(
        self, finder: node_domains.DomainFinder, pinned: Mapping[demands.Pair, int]
    ) -> tuple[node_domains.DomainDemands, node_domains.ParkedDemands]:
        """Return what pods that aren't parked request in each domain, and what parked pods request.

        `pinned` are the numbers of pinned pods. Pairs without any other pods aren't in demand.
        """
        asked, found = self._cluster.demands, node_domains.DomainDemands()
        parked_pods, closed = asked.parked.pods, self._closed
        for pair, each in asked.unparked.items():
            is_open, place = pair[0] not in closed, each.place
            count = in_all = each.held + each.pending * is_open - pinned.get(pair, 0)
            if pair in parked_pods:
                parked = parked_pods[pair]
                place = min(place, parked[:2])
                in_all += parked.pending * is_open
            if in_all:
                found.add(pair, finder.of(pair), place, count)
        return found, finder.parked(asked.parked, self._closed)

    def _pin(
        self, pool: usable_nodes.PoolNodes, usable: usable_nodes.UsableNodes
    ) -> tuple[Mapping[demands.Pair, int], dict[str, resources.Vector], resources.Vector]:
        """Return the numbers of pinned pods, and the pinned resources by queue, (R,), and by node,
        (N, R).
        """
        space, asked = self._cluster.space, self._cluster.demands
        number: Counter[demands.Pair] = Counter()
        by_queue: dict[str, resources.Vector] = {}
        taken = np.zeros_like(pool.ours)
        for pod_class, placed in self._cluster.snapshot.pods_by_class.items():
            rows = placed.rows(pool.layout)
            stays = usable.holds(pod_class, placed.queues, rows)
            if stays.all():
                continue
            request = space.vector(pod_class.counted)
            for place in np.flatnonzero(~stays).tolist():
                queue, count = placed.queues[place], int(placed.counts[place])
                pair = (queue, pod_class)
                if pair not in asked.unparked:  # its queue doesn't exist
                    continue
                number[pair] += count
                by_queue[queue] = by_queue.get(queue, space.zeros()) + count * request
                if rows[place] >= 0:
                    taken[rows[place]] += count * request
        return number, by_queue, taken
