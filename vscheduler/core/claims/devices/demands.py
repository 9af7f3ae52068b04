"""Demands for devices by the pods of a gang, for a search that places them all."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence

import numpy as np
from msgspec.structs import replace

from vscheduler.core.claims.devices import tables
from vscheduler.core.claims.devices.allocator import Demand
from vscheduler.core.claims.devices.choices import DeviceChoices
from vscheduler.core.claims.devices.needs import PodNeeds
from vscheduler.core.claims.devices.tables import DeviceTable, Flags, Ints
from vscheduler.model.devices import ResourceClaim
from vscheduler.model.jobs import PodClass
from vscheduler.model.nodes import Mask

PLENTY = 2**40
"""More than any pods ask for: where a device plugin has what a demand stands for."""


class DeviceDemands:
    """What numbers of devices pods ask for, and nodes have."""

    def __init__(
        self,
        needs: PodNeeds,
        table: DeviceTable,
        state: DeviceChoices,
        count: Callable[[Flags], Ints],
    ) -> None:
        """`count` returns how many of these devices (D,) each node has, (N,)."""
        self._needs, self._table, self._choices, self._count = needs, table, state, count
        self._same: dict[Hashable, Demand] = {}
        """One of the demands that the same devices satisfy."""

    def class_key(self, pod_class: PodClass) -> Hashable:
        """Return the kind of these pods, as long as their claims have no devices, and none are
        chosen for them; the class itself for all other pods.
        """
        needs = self._needs.of(pod_class)
        if len(needs.open) < len(needs.claims) or any(map(self._choices.is_chosen, needs.open)):
            return pod_class
        return self._needs.kind_of(pod_class) or pod_class

    def counted(self, pod_class: PodClass, shared: Collection[str]) -> list[tuple[Demand, int]]:
        """Return what numbers of devices a pod asks for at least by its own claims, and by these
        shared ones. Demands for the same devices are the same object.

        Alternatives are one demand for any of their devices, of the smallest number; constraints
        between devices are left out.
        """
        if not pod_class.constraints.resource_claims:
            return []
        needs = self._needs.of(pod_class)
        found: Counter[Demand] = Counter()
        for claim, shape in zip(needs.open, needs.shapes, strict=True):
            if self._is_shared(claim) and claim.key not in shared:
                continue
            for alternatives in shape.requests:
                if not any(alternative.admin_access for alternative in alternatives):
                    least = min(alternative.count or 1 for alternative in alternatives)
                    found[self._any_of_these(alternatives)] += least
        return list(found.items())

    def _any_of_these(self, alternatives: tuple[Demand, ...]) -> Demand:
        """Return a demand that any device of the alternatives satisfies."""
        key = tuple(
            (alternative.expressions, alternative.tolerations, alternative.resource)
            for alternative in alternatives
        )
        found = self._same.get(key)
        if found is None:
            first, *others = alternatives
            usable: Flags = np.logical_or.reduce(
                [alternative.usable for alternative in alternatives]
            )
            found = self._same[key] = replace(first, usable=usable) if others else first
        return found

    def counts(self, demands: Sequence[Demand], *, later: bool, in_use: bool) -> Ints:
        """Return how many devices each node has that any of these demands match, (N,).

        Only free ones, unless those that are in use count.
        """
        found = self._count(self._any_of(demands, later=later, in_use=in_use))
        for demand in demands:
            if demand.provided is not None:
                found = np.where(demand.provided, PLENTY, found)
        return found

    def total(
        self,
        demands: Sequence[Demand],
        mask: Mask,
        *,
        later: bool,
        in_use: bool,
    ) -> int:
        """Return the same for all these nodes (N,) together."""
        if any(
            demand.provided is not None and (demand.provided & mask).any() for demand in demands
        ):
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

    def _any_of(self, demands: Sequence[Demand], *, later: bool, in_use: bool) -> Flags:
        chosen: Flags = np.logical_or.reduce([demand.usable for demand in demands])
        return chosen if in_use else chosen & self._choices.free(later=later)

    def sharing_nodes(self) -> list[Mask]:
        """Return groups of nodes (N,) that share devices."""
        return [mask for mask, _ in self._table.shared]

    def shared_claims(self, pod_class: PodClass) -> frozenset[str]:
        """Return the pod's claims that aren't allocated, are for other pods as well, and get their
        devices from one node.
        """
        if not pod_class.constraints.resource_claims:
            return frozenset()
        needs = self._needs.of(pod_class)
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
    def _is_shared(claim: ResourceClaim) -> bool:
        return not claim.owner
