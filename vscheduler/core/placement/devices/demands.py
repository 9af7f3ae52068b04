"""Demands for devices by the pods of a gang, for a search that places them all."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence

import numpy as np
from msgspec.structs import replace

from vscheduler.core.model import devices, jobs, nodes
from vscheduler.core.placement.devices import allocator, assumed, claims, kinds, tables

PLENTY = 2**40
"""More than any pods ask for: where a device plugin has what a demand stands for."""


class DeviceDemands:
    """What numbers of devices pods ask for, and nodes have."""

    def __init__(
        self,
        needs_of: Callable[[jobs.PodClass], claims.Needs],
        kinds: kinds.PodKinds,
        table: tables.DeviceTable,
        state: assumed.AssumedClaims,
        count: Callable[[tables.Flags], tables.Ints],
    ) -> None:
        """`count` returns how many of these devices (D,) each node has, (N,)."""
        self._needs_of, self._table, self._assumed = needs_of, table, state
        self._kinds, self._count = kinds, count
        self._same: dict[Hashable, allocator.Demand] = {}
        """One of the demands that the same devices satisfy."""

    def likeness(self, pod_class: jobs.PodClass) -> Hashable:
        """Return the kind of these pods, as long as their claims have no devices, and none are
        chosen for them; the class itself for all other pods.
        """
        needs = self._needs_of(pod_class)
        if len(needs.open) < len(needs.claims) or any(map(self._assumed.is_assumed, needs.open)):
            return pod_class
        return self._kinds.of(pod_class) or pod_class

    def counted(
        self, pod_class: jobs.PodClass, shared: Collection[str]
    ) -> list[tuple[allocator.Demand, int]]:
        """Return what numbers of devices a pod asks for at least by its own claims, and by these
        shared ones. Demands for the same devices are the same object.

        Alternatives are one demand for any of their devices, of the smallest number; constraints
        between devices are left out.
        """
        if not pod_class.constraints.resource_claims:
            return []
        needs = self._needs_of(pod_class)
        found: Counter[allocator.Demand] = Counter()
        for claim, shape in zip(needs.open, needs.shapes, strict=True):
            if self._is_shared(claim) and claim.key not in shared:
                continue
            for alternatives in shape.requests:
                if not any(each.admin_access for each in alternatives):
                    least = min(each.count or 1 for each in alternatives)
                    found[self._any_of_these(alternatives)] += least
        return list(found.items())

    def _any_of_these(self, alternatives: tuple[allocator.Demand, ...]) -> allocator.Demand:
        """Return a demand that any device of the alternatives satisfies."""
        key = tuple((each.expressions, each.tolerations, each.resource) for each in alternatives)
        found = self._same.get(key)
        if found is None:
            first, *others = alternatives
            usable: tables.Flags = np.logical_or.reduce([each.usable for each in alternatives])
            found = self._same[key] = replace(first, usable=usable) if others else first
        return found

    def counts(
        self, demands: Sequence[allocator.Demand], *, later: bool, in_use: bool
    ) -> tables.Ints:
        """Return how many devices each node has that any of these demands match, (N,).

        Only free ones, unless those that are in use count.
        """
        found = self._count(self._any_of(demands, later=later, in_use=in_use))
        for each in demands:
            if each.provided is not None:
                found = np.where(each.provided, PLENTY, found)
        return found

    def total(
        self,
        demands: Sequence[allocator.Demand],
        mask: nodes.Mask,
        *,
        later: bool,
        in_use: bool,
    ) -> int:
        """Return the same for all these nodes (N,) together."""
        if any(each.provided is not None and (each.provided & mask).any() for each in demands):
            return PLENTY
        chosen = self._any_of(demands, later=later, in_use=in_use)
        rows = self._table.rows[chosen]
        local = int(mask[rows[rows != tables.NOWHERE]].sum())
        shared = sum(
            int(chosen[positions].sum())
            for reach, positions in self._table.shared
            if (reach & mask).any()
        )
        return local + shared

    def _any_of(
        self, demands: Sequence[allocator.Demand], *, later: bool, in_use: bool
    ) -> tables.Flags:
        chosen: tables.Flags = np.logical_or.reduce([demand.usable for demand in demands])
        return chosen if in_use else chosen & self._assumed.free(later=later)

    def sharing_nodes(self) -> list[nodes.Mask]:
        """Return groups of nodes (N,) that share devices."""
        return [mask for mask, _ in self._table.shared]

    def shared_claims(self, pod_class: jobs.PodClass) -> frozenset[str]:
        """Return the pod's claims that aren't allocated, are for other pods as well, and get their
        devices from one node.
        """
        if not pod_class.constraints.resource_claims:
            return frozenset()
        needs = self._needs_of(pod_class)
        return frozenset(
            claim.key
            for claim, shape in zip(needs.open, needs.shapes, strict=True)
            if self._is_shared(claim)
            and not any(
                demand.usable[positions].any()
                for request in shape.requests
                for demand in request
                for _, positions in self._table.shared
            )
        )

    @staticmethod
    def _is_shared(claim: devices.ResourceClaim) -> bool:
        return not claim.owner
