"""A survey: what queues' pods could use of the nodes, and where. Shares are computed from it.

A *domain* is a set of nodes that pods of some class and queue could use, whoever is there now; a
*kind* of nodes is those that are in the same domains. What a node gives is what it has, less what
pods hold there that aren't ours. Pods of ours on a node that takes no more of their class (it was
cordoned, isn't ready, has left, or got a taint) are *pinned*: what they hold is their queue's in
any case, and nobody else's.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import demands
from vscheduler.core.model import jobs, nodes, resources, snapshot
from vscheduler.core.model.queues import Queue

DOMAINS_MAX = 512
"""So many domains are told apart. The others, those of the fewest pods, are taken for one, of all
their nodes: pods that each name a node of their own would make one each."""

ANY_POD = jobs.PodClass(request={resources.PODS: 1})
"""A pod without conditions: for what is to be kept or promised while there is no pod yet."""


class ClusterView(Protocol):
    """Whose nodes are surveyed: a Session, as far as it is needed here."""

    snapshot: snapshot.Snapshot
    space: resources.ResourceSpace
    strays: list[jobs.Job]

    @property
    def queues(self) -> Mapping[str, Queue]:
        """By name."""

    @property
    def demands(self) -> demands.QueueDemands:
        """What they have and ask for."""

    def class_nodes(self, kind: jobs.PodClass, layout: nodes.NodeLayout) -> nodes.Mask:
        """Nodes that pods of this class could use."""

    def queue_nodes(self, queue: Queue, layout: nodes.NodeLayout) -> nodes.Mask | None:
        """Nodes that pods of this queue could use; None: all."""

    @property
    def known_nowhere(self) -> Container[tuple[str, jobs.PodClass]]:
        """Queues and classes for which it is known that no node, as they are, will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNodes:
    """Nodes, with what they have and what is taken: all arrays (N, R)."""

    layout: nodes.NodeLayout
    allocatable: resources.Vector
    others: resources.Vector
    """What pods hold that aren't ours, those that are leaving not included."""
    ours: resources.Vector


def ground(cluster: ClusterView) -> PoolNodes:
    """The nodes as they are. Pods of jobs whose queue doesn't exist aren't ours."""
    table = cluster.snapshot.nodes
    ours = table.ours
    if cluster.strays:
        ours = ours.copy()
        for job in cluster.strays:
            for task in job.tasks:
                row = table.layout.rows.get(task.node or "")
                if row is not None and task.status in jobs.HOLDING:
                    ours[row] -= cluster.space.vector(task.pod_class.request)
    others = np.maximum(table.used - table.releasing - ours, 0)
    return PoolNodes(layout=table.layout, allocatable=table.allocatable, others=others, ours=ours)


@dataclass(slots=True)
class ClassDemand:
    """What pods of one class in one queue have and ask for: numbers of pods."""

    held: int = 0
    pending: int = 0
    pinned: int = 0
    """Of those held."""


def wants(cluster: ClusterView) -> dict[demands.Pair, ClassDemand]:
    """What waits in a queue that isn't open isn't going to be placed: others may have it."""
    return {
        (queue, kind): ClassDemand(held=held, pending=pending if cluster.queues[queue].open else 0)
        for (queue, kind), (held, pending) in cluster.demands.pods.items()
    }


class NodePools:
    """What there is to share out. C domains, K kinds of nodes, R resources.

    Beside those that pods of some queue have, there are two domains for what is tied to no pod:
    nodes that a pod without conditions could use, and all nodes that take pods at all.
    """

    def __init__(
        self,
        ground: PoolNodes,
        masks: Sequence[nodes.Mask],
        demands: Mapping[demands.Pair, tuple[int, int]],
        supply: resources.Vector,
        pinned: Mapping[str, resources.Vector],
    ) -> None:
        """Masks are those of the domains, the two that were mentioned last: C times (N,); supply
        is what each node gives, pinned amounts left out: (N, R).
        """
        self.ground = ground
        self.demands = demands
        """Who wants what where: the domain, and how many pods; those that are pinned left out."""
        self.pinned = pinned
        """By queue, what is pinned: (R,); only queues with some."""
        self.open = len(masks) - 2
        self.anywhere = len(masks) - 1
        first, self.kinds = _kinds(masks, ground.layout.size)
        """The kind of each node, (N,)."""
        self.reach = np.array([mask[first] for mask in masks], dtype=np.bool_)
        """Which kinds of nodes are in each domain: (C, K)."""
        self.supply = np.zeros((first.size, supply.shape[1]), dtype=np.int64)
        """What nodes of each kind give, (K, R)."""
        np.add.at(self.supply, self.kinds, supply)
        asked = {domain for domain, _ in demands.values()} or {self.open}
        used: nodes.Mask = np.any(self.reach[sorted(asked)], axis=0)
        self.left_out = np.flatnonzero(~used[self.kinds])
        """Rows of nodes that no pod could use; where there are no pods, no pod without conditions.
        """
        self.total: resources.Vector = self.supply[used].sum(axis=0)
        """What the others give, and what is pinned: (R,)."""
        for held in pinned.values():
            self.total = self.total + held

    def nowhere(self, queue: str, kind: jobs.PodClass) -> bool:
        """Whether there is no node that waiting pods of this class and queue could use."""
        domain, _ = self.demands.get((queue, kind), (self.anywhere, 0))
        return not self.reach[domain].any()

    @property
    def uniform(self) -> bool:
        """Whether all pods could use the same nodes, as far as there is anything on them."""
        asked = sorted({domain for domain, _ in self.demands.values()})
        reach = self.reach[asked][:, (self.supply > 0).any(axis=1)]
        used: nodes.Mask = np.any(reach, axis=0)
        return bool(reach[:, used].all())

    @cached_property
    def domains(self) -> Mapping[jobs.PodClass, Mapping[str, int]]:
        """The domain of pods by their class and queue."""
        found: dict[jobs.PodClass, dict[str, int]] = {}
        for (queue, kind), (domain, _) in self.demands.items():
            found.setdefault(kind, {})[queue] = domain
        return found


def _kinds(masks: Sequence[nodes.Mask], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nodes that are in the same domains: the first of each kind, and the kind of each node."""
    codes = np.packbits(np.array(masks, dtype=np.bool_).reshape(len(masks), size), axis=0)
    words = np.ascontiguousarray(codes.T).view(np.dtype((np.void, codes.shape[0])))
    _, first, places = np.unique(words.ravel(), return_index=True, return_inverse=True)
    return first.astype(np.int64), places.astype(np.int64)


class NodePoolsBuilder:
    """Makes surveys of one cluster in one cycle; answers about classes and queues are shared."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._wants = wants(cluster)

    def pending(self, queue: str, kind: jobs.PodClass) -> int:
        """How many pods of this class waited in this queue when the cycle began."""
        want = self._wants.get((queue, kind))
        return 0 if want is None else want.pending

    def survey(self, ground: PoolNodes) -> NodePools:
        """Of these nodes."""
        reach = UsableNodes(self._cluster, ground)
        pinned, taken = self._pin(ground, reach)
        given = np.maximum(ground.allocatable - ground.others, ground.ours)
        supply = np.maximum(given - taken, 0)
        supply[~ground.layout.ready] = 0
        free = {pair: want.held + want.pending - want.pinned for pair, want in self._wants.items()}
        domains = DomainsByClass(reach)
        demands = domains.of({pair: count for pair, count in free.items() if count})
        anywhere = ground.layout.ready & ground.layout.schedulable
        masks = [*domains.masks, reach.of_class(ANY_POD), anywhere]
        return NodePools(ground, masks, demands, supply, pinned)

    def _pin(
        self, ground: PoolNodes, reach: "UsableNodes"
    ) -> tuple[dict[str, resources.Vector], resources.Vector]:
        """What is pinned, by queue (R,) and by node (N, R)."""
        space = self._cluster.space
        by_queue: dict[str, resources.Vector] = {}
        taken = np.zeros_like(ground.ours)
        for want in self._wants.values():
            want.pinned = 0
        for kind, seats in self._cluster.snapshot.seats.items():
            rows = seats.rows(ground.layout)
            stays = reach.holds(kind, seats.queues, rows)
            if stays.all():
                continue
            request = space.vector(kind.request)
            for place in np.flatnonzero(~stays).tolist():
                queue, count = seats.queues[place], int(seats.counts[place])
                if (queue, kind) not in self._wants:  # its queue doesn't exist
                    continue
                self._wants[queue, kind].pinned += count
                by_queue[queue] = by_queue.get(queue, space.zeros()) + count * request
                if rows[place] >= 0:
                    taken[rows[place]] += count * request
        return by_queue, taken


class UsableNodes:
    """Which nodes pods of a class and a queue could use."""

    def __init__(self, cluster: ClusterView, ground: PoolNodes) -> None:
        self._cluster = cluster
        self._ground = ground
        self._allocatable = resources.by_column(ground.allocatable)
        self._none = np.zeros(ground.layout.size, dtype=np.bool_)
        self._least = self._allocatable.min(axis=0, initial=resources.ALLOCATABLE_MAX)
        """What every node has, (R,)."""
        self._classes: dict[jobs.PodClass, nodes.Mask] = {}
        as_it_is = ground.allocatable is cluster.snapshot.nodes.allocatable
        self._nowhere = cluster.known_nowhere if as_it_is else ()
        self._limited: dict[bytes, nodes.Mask] = {}
        self._queues: dict[str, bytes] = {}
        """Queues that may not use all nodes, by the mask that says so."""
        for name, queue in cluster.queues.items():
            mask = cluster.queue_nodes(queue, ground.layout)
            if mask is not None:
                self._queues[name] = mask.tobytes()
                self._limited[self._queues[name]] = mask

    def of_class(self, kind: jobs.PodClass) -> nodes.Mask:
        """(N,). A node that is smaller than the pod is none."""
        mask = self._classes.get(kind)
        if mask is None:
            mask = self._cluster.class_nodes(kind, self._ground.layout)
            mask = mask & self._ground.layout.ready & self._large_enough(kind)
            self._classes[kind] = mask
        return mask

    def _large_enough(self, kind: jobs.PodClass) -> nodes.Mask:
        """Nodes (N,) that have as much as the pod asks for."""

        def compute() -> nodes.Mask:
            request = self._cluster.space.vector(kind.request)
            if (request <= self._least).all():
                return np.ones(self._ground.layout.size, dtype=np.bool_)
            return resources.fits(request, self._allocatable)

        table = self._cluster.snapshot.nodes
        if self._ground.allocatable is not table.allocatable:
            return compute()
        return table.large_enough(kind, compute)

    def of(self, queue: str, kind: jobs.PodClass) -> nodes.Mask:
        """For pods of this class in this queue: (N,)."""
        if (queue, kind) in self._nowhere:
            return self._none
        mask = self.of_class(kind)
        limited = self._queues.get(queue)
        return mask if limited is None else mask & self._limited[limited]

    def likeness(self, queue: str) -> bytes:
        """The same for queues that may use the same nodes."""
        return self._queues.get(queue, b"")

    def holds(
        self, kind: jobs.PodClass, names: tuple[str, ...], rows: NDArray[np.int64]
    ) -> nodes.Mask:
        """Which of these pods of a class, of these queues on these rows (S,), could be put where
        they are anew; a row of -1 is a node that isn't there.
        """
        if not self._ground.layout.size:
            return np.zeros(rows.size, dtype=np.bool_)
        could = (rows >= 0) & self.of_class(kind)[rows]
        for name in dict.fromkeys(names) if self._queues else ():
            theirs = np.array([each == name for each in names], dtype=np.bool_)
            could &= ~theirs | self.of(name, kind)[rows]
        return could


class DomainsByClass:
    """Domains as they are found; equal ones are one."""

    def __init__(self, reach: UsableNodes) -> None:
        self._reach = reach
        self.masks: list[nodes.Mask] = []
        self._known: dict[bytes, int] = {}
        self._pairs: dict[tuple[bytes, jobs.PodClass], int] = {}

    def of(self, demands: Mapping[demands.Pair, int]) -> dict[demands.Pair, tuple[int, int]]:
        """The domain of each pair, and its number of pods."""
        found = {pair: (self._domain(*pair), count) for pair, count in demands.items()}
        if len(self.masks) > DOMAINS_MAX:
            self._merge(found)
        return found

    def _domain(self, queue: str, kind: jobs.PodClass) -> int:
        pair = (self._reach.likeness(queue), kind)
        domain = self._pairs.get(pair)
        if domain is None:
            mask = self._reach.of(queue, kind)
            domain = self._known.setdefault(mask.tobytes(), len(self.masks))
            if domain == len(self.masks):
                self.masks.append(mask)
            self._pairs[pair] = domain
        return domain

    def _merge(self, found: dict[demands.Pair, tuple[int, int]]) -> None:
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
