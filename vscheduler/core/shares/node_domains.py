"""Node domains: what pods of each queue request on which nodes.

A *domain* is the set of nodes usable for pods of some class and queue. Domains only change with
nodes and queues. Unschedulable jobs are mostly the same in the next cycle, so what their pods
request in each domain is kept together with them (KnownDomains).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.shares import demands
from vscheduler.core.shares.demands import CountedPods, Pair, Place
from vscheduler.core.shares.usable_nodes import UsableNodes
from vscheduler.model import computed
from vscheduler.model.jobs import PodClass
from vscheduler.model.nodes import Mask
from vscheduler.model.snapshot import ClassCounts

FEW_ROWS = 8
"""Domains with at most one in so many nodes keep the rows of their nodes."""

DOMAINS_MAX = 512
"""At most this many domains are told apart. All others, with the fewest pods, are merged into the
union of their nodes. Pods that each name a node of their own would otherwise make a domain each."""


class Domain:
    """A domain that is kept from cycle to cycle; equal domains are mostly one object."""

    __slots__ = ("key", "mask")

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        """The nodes (N,)."""
        self.key = np.packbits(mask).tobytes()
        """The same as bits: equal for equal domains, with a hash that is computed once."""


class NodeKinds:
    """Nodes grouped by the domains that they are in, with C domains and K kinds of nodes."""

    def __init__(self, masks: Sequence[Mask], size: int) -> None:
        """The last two masks belong to no queue; there are `size` nodes."""
        self.masks = masks
        """The nodes of each domain, C times (N,)."""
        first, self.kinds = _kinds(masks, size)
        """The kind of each node, (N,)."""
        self.count = first.size
        """K."""
        self.reach: Mask = np.array([mask[first] for mask in masks], dtype=np.bool_)
        """Which kinds of nodes are in each domain, (C, K)."""
        self.is_one = bool(self.reach.all())
        """Whether all domains have all nodes."""
        self.used: Mask = np.any(self.reach[: len(masks) - 2 or 1], axis=0)
        """Which kinds are usable for any pod; without any pods, for pods without constraints."""
        self.left_out = np.flatnonzero(~self.used[self.kinds])
        """Rows of all other nodes."""

        self._rows: dict[int, NDArray[np.int64]] = {}

    def rows(self, domain: int) -> NDArray[np.int64]:
        """Return the rows of the nodes in a domain; found once if they are few."""
        found = self._rows.get(domain)
        if found is None:
            found = np.flatnonzero(self.reach[domain][self.kinds])
            if found.size * FEW_ROWS <= self.kinds.size:
                self._rows[domain] = found
        return found


def _kinds(masks: Sequence[Mask], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group nodes by domains: return the first node of each kind, and the kind of each node."""
    if size and all(mask.all() for mask in masks):  # sorting costs much more
        return np.zeros(1, dtype=np.int64), np.zeros(size, dtype=np.int64)
    codes = np.packbits(np.array(masks, dtype=np.bool_).reshape(len(masks), size), axis=0)
    words = np.ascontiguousarray(codes.T).view(np.dtype((np.void, codes.shape[0])))
    _, first, places = np.unique(words.ravel(), return_index=True, return_inverse=True)
    return first.astype(np.int64), places.astype(np.int64)


class DomainDemand(msgspec.Struct):
    """What pods of one queue request in one domain."""

    pods: int = 0
    amounts: defaultdict[str, int] = msgspec.field(default_factory=lambda: defaultdict(int))
    """By resource."""

    def plus(self, more: "DomainDemand") -> "DomainDemand":
        """Return this demand and that of other pods."""
        found = DomainDemand(self.pods + more.pods, self.amounts.copy())
        for name, amount in more.amounts.items():
            found.amounts[name] += amount
        return found


class DomainDemands:
    """Demand by queue and domain, with the first place of each domain among the pods in demand."""

    def __init__(self) -> None:
        self.by_pair: dict[Pair, Domain] = {}
        """The domain of each pair in demand."""
        self.sums: dict[tuple[str, Domain], DomainDemand] = {}
        self.first: dict[Domain, Place] = {}

    def add(self, pair: Pair, domain: Domain, place: Place, count: int) -> None:
        """Count pods of a pair, which stands at this place."""
        self.by_pair[pair] = domain
        queue, pod_class = pair
        known = self.sums.get((queue, domain))
        if known is None:
            known = self.sums[queue, domain] = DomainDemand()
        known.pods += count
        amounts = known.amounts
        for name, amount in pod_class.counted.items():
            amounts[name] += amount * count
        first = self.first.get(domain)
        if first is None or place < first:
            self.first[domain] = place


class UnschedulableDemands(msgspec.Struct, frozen=True, eq=False):
    """Demand of unschedulable pods, for nodes and queues as they are."""

    counted: CountedPods
    """The pods. While these are the same object, so is their demand."""
    found: DomainDemands


class KnownDomains(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the last cycle knew of domains. It holds while nodes, queues and the configuration are
    the same (core.memo.memos); nothing here is about pods with volumes or claims, whose nodes
    change with these.
    """

    active: Mapping[Pair, Domain] = msgspec.field(default_factory=dict)
    """The domains of pairs."""
    unschedulable: UnschedulableDemands = msgspec.field(
        default_factory=lambda: UnschedulableDemands(demands.NOBODY, DomainDemands())
    )
    staying: Mapping[PodClass, ClassCounts] = msgspec.field(default_factory=dict)
    """Pods of which none was pinned; while these are the same object, none is."""


NOTHING_KNOWN = KnownDomains()


class NumberedDomains:
    """Domains with numbers, in the order of the first pods in demand for each."""

    def __init__(self, parts: Sequence[DomainDemands]) -> None:
        """`parts` are of different pods; equal domains may be several objects."""
        self._parts = parts
        same: dict[bytes, Domain] = {}
        first: dict[Domain, Place] = {}
        self._one: dict[Domain, Domain] = {}
        """For each domain, the one among its equals that has a number."""
        for part in parts:
            for domain, place in part.first.items():
                one = self._one[domain] = same.setdefault(domain.key, domain)
                if one not in first or place < first[one]:
                    first[one] = place
        ordered = sorted(first, key=first.__getitem__)
        self.masks: list[Mask] = [domain.mask for domain in ordered]
        """The nodes of each domain."""
        self._numbers = {domain: number for number, domain in enumerate(ordered)}
        self.merged = len(ordered) > DOMAINS_MAX
        """Whether there were more than DOMAINS_MAX."""
        if self.merged:
            self._merge()
        self.requested: dict[tuple[str, int], DomainDemand] = {}
        """What pods of each queue request in the domain of each number."""
        for part in parts:
            for (queue, domain), demand in part.sums.items():
                where = (queue, self._number(domain))
                if where in self.requested:
                    self.requested[where] = self.requested[where].plus(demand)
                else:
                    self.requested[where] = demand

    def of(self, pair: Pair) -> int | None:
        """Return the number of the domain of a pair; None if no pods of the pair are in demand."""
        for part in self._parts:
            domain = part.by_pair.get(pair)
            if domain is not None:
                return self._number(domain)
        return None

    def _number(self, domain: Domain) -> int:
        """Return the number of a domain with pods in demand."""
        return self._numbers[self._one[domain]]

    def _merge(self) -> None:
        """Merge the domains with the fewest pods into the last of DOMAINS_MAX domains."""
        pods = np.zeros(len(self.masks), dtype=np.int64)
        for part in self._parts:
            for (_, domain), demand in part.sums.items():
                pods[self._number(domain)] += demand.pods
        order = np.argsort(-pods, kind="stable").tolist()
        places = {number: min(place, DOMAINS_MAX - 1) for place, number in enumerate(order)}
        merged = [self.masks[number] for number in order[:DOMAINS_MAX]]
        for number in order[DOMAINS_MAX:]:
            merged[-1] = merged[-1] | self.masks[number]
        self.masks[:] = merged
        self._numbers = {domain: places[number] for domain, number in self._numbers.items()}


class DomainFinder:
    """Finds the domains of pods on the nodes of one pool."""

    def __init__(self, usable: UsableNodes, known: KnownDomains) -> None:
        self._usable = usable
        self._known = known
        self._maps = [each for each in (known.active, known.unschedulable.found.by_pair) if each]
        self._pairs: dict[tuple[bytes, PodClass], Domain] = {}

    def of(self, pair: Pair) -> Domain:
        """Return the domain of a pair."""
        for known in self._maps:
            if pair in known:
                return known[pair]
        queue, pod_class = pair
        if pod_class.constraints.resource_claims:
            pod_class = self._usable.first_like(pod_class)
        alike = (self._usable.class_key(queue), pod_class)
        domain = self._pairs.get(alike)
        if domain is None:
            found = Domain(self._usable.of(queue, pod_class))
            domain = self._pairs[alike] = self._by_key.setdefault(found.key, found)
        return domain

    @computed.once
    def _by_key(self) -> dict[bytes, Domain]:
        """Known domains by their nodes, so that equal domains don't become many objects."""
        known = dict.fromkeys(
            (*self._known.active.values(), *self._known.unschedulable.found.first)
        )
        return {domain.key: domain for domain in known}

    def unschedulable(self, counted: CountedPods, closed: frozenset[str]) -> UnschedulableDemands:
        """Return the demand of unschedulable pods; those of closed queues request nothing."""
        if self._known.unschedulable.counted is counted:
            return self._known.unschedulable
        found = DomainDemands()
        for pair, (first, place, queue, _, _, pending) in counted.pods.items():
            if queue not in closed:
                found.add(pair, self.of(pair), (first, place), pending)
        return UnschedulableDemands(counted, found)


def lasting(active: DomainDemands) -> Mapping[Pair, Domain]:
    """Return the domains that are the same in the next cycle if nodes and queues are."""
    return {
        pair: domain
        for pair, domain in active.by_pair.items()
        if not (pair[1].constraints.volumes or pair[1].constraints.resource_claims)
    }
