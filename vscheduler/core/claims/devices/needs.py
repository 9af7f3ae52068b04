"""Needs of pods: what their claims ask for, and which pods ask for the same.

Each pod of a job has claims of its own, made from a template, and so a pod class of its own.
Whatever plugins and nodes say of one of them before its claims get devices, they say of all of its
kind.
"""

from collections.abc import Hashable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from vscheduler.core.api.contracts import FilterResult
from vscheduler.core.claims.devices import claims
from vscheduler.core.claims.devices.claims import Needs, Reader, Shapes
from vscheduler.core.claims.devices.reading import Budget, Reading
from vscheduler.core.claims.devices.tables import DeviceTable, Ints
from vscheduler.model.devices import DeviceInventory
from vscheduler.model.jobs import PodClass
from vscheduler.model.nodes import Mask, NodeLayout, NodeTable

NEEDS_COST = 20
"""About how many microseconds it takes to look at one claim of a pod class."""

KIND_COST = 10
"""The same for telling what kind the pods of a class are."""

FEW = 16
"""A part of all nodes that is so much smaller is looked at alone."""


class PodKind(msgspec.Struct, frozen=True, eq=False):
    """A kind of pods: they differ only in claims of their own, which ask for the same."""

    first: PodClass
    """The first class of it that was asked about."""


class PodNeeds:
    """What the pods of a cycle ask for."""

    def __init__(
        self,
        devices: DeviceInventory,
        table: DeviceTable,
        nodes: NodeTable,
        provided: Mapping[str, Mask],
        budget: Budget,
    ) -> None:
        """`provided` are the nodes (N,) that have extended resources by a device plugin."""
        self._layout, self._spend = nodes.layout, budget.spend
        # Tenants write selectors that take long to read: a cycle goes on where the last one ended.
        depends_on = (devices.classes, table, nodes if provided else None)
        shapes = devices.memo.get("shapes", depends_on, lambda: Shapes(devices, table, provided))
        self.reading = Reading(budget, shapes.unfinished)
        self._reader = Reader(devices, shapes, self._layout, self.reading)
        self._needs: dict[PodClass, Needs] = {}
        self._kinds: dict[PodClass, PodKind | None] = {}
        self._kinds_by_traits: dict[Hashable, PodKind] = {}

    def of(self, pod_class: PodClass) -> Needs:
        """Return what the claims of a pod class ask for."""
        needs = self._needs.get(pod_class)
        if needs is None:
            uses = pod_class.constraints.resource_claims
            self._spend("devices", NEEDS_COST * len(uses))
            needs = self._needs[pod_class] = self._reader.needs_of(uses)
        return needs

    def kind_of(self, pod_class: PodClass) -> PodKind | None:
        """Return the kind of these pods; None if they share a claim, or a claim can't be allocated.

        Pods of a kind whose claims have devices have them on the same nodes.
        """
        if pod_class not in self._kinds:
            self._spend("devices", KIND_COST)
            traits = _traits(pod_class, self.of(pod_class))
            self._kinds[pod_class] = (
                None
                if traits is None
                else self._kinds_by_traits.setdefault(traits, PodKind(pod_class))
            )
        return self._kinds[pod_class]

    def only_rows(self, pod_class: PodClass) -> Ints | None:
        """Return the rows of the nodes that can use what the claims have got, if these are few."""
        masks = [each.passes for each in self.of(pod_class).elsewhere]
        if not masks:
            return None
        rows = np.flatnonzero(np.logical_and.reduce(masks))
        return rows if rows.size * FEW <= self._layout.size else None

    def elsewhere(self, pod_class: PodClass, layout: NodeLayout) -> Sequence[FilterResult]:
        """Return which nodes (N,) of another layout can use what the claims have got."""
        found = self._reader.found(pod_class.constraints.resource_claims)
        return tuple(claims.elsewhere(filter(None, dict.fromkeys(found)), layout))


def _traits(pod_class: PodClass, needs: Needs) -> Hashable:
    """Return all that decisions about a pod can depend on, but for the names of its claims."""
    limits = pod_class.constraints
    uses = limits.resource_claims
    if needs.problems or not all(use.owner for use in uses):
        return None
    if any(each.reserved_for for each in needs.open):
        return None
    if any(claim.group for claim in needs.claims):
        return None  # all pods of a PodGroup share it
    if any(claim.extended and claim.uid for claim in needs.claims):
        return None  # it fits some nodes only
    places = [claim.allocation and (claim.allocation.nodes,) for claim in needs.claims]
    return (
        tuple(places),
        *(tuple(each.items()) for each in (pod_class.counted, pod_class.hints)),
        tuple(use.resources for use in uses),
        replace(limits, resource_claims=()),
        needs.shapes,
    )
