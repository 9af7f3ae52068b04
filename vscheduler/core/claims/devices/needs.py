"""Needs of pods: what their claims ask for, kept from cycle to cycle as long as nothing changes."""

import operator
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

import numpy as np

from vscheduler.core.api.contracts import FilterResult
from vscheduler.core.claims.devices import claims
from vscheduler.core.claims.devices.claims import Needs, Reader, Shapes
from vscheduler.core.claims.devices.kinds import KnownTraits, PodKinds
from vscheduler.core.claims.devices.reading import Budget, Reading
from vscheduler.core.claims.devices.tables import DeviceTable, Ints
from vscheduler.core.model.devices import Devices
from vscheduler.core.model.jobs import PodClass
from vscheduler.core.model.nodes import Mask, NodeLayout, NodeTable

NEEDS_COST = 20
"""About how many microseconds it takes to look at one claim of a pod class."""

FEW = 16
"""A part of all nodes that is so much smaller is looked at alone."""

NEEDS_MAX = 20_000
"""How many pods' claims are kept from cycle to cycle. When full, all are dropped."""


class PodNeeds:
    """What the pods of a cycle ask for."""

    def __init__(
        self,
        devices: Devices,
        table: DeviceTable,
        shown: NodeTable,
        provided: Mapping[str, Mask],
        budget: Budget,
    ) -> None:
        """`provided` are the nodes (N,) that have extended resources by a device plugin."""
        self._known, self._layout, self._spend = devices, shown.layout, budget.spend
        made_of = (devices.classes, table, shown if provided else None)
        self._shapes = devices.memo.get("shapes", made_of, lambda: Shapes(devices, table, provided))
        self.reading = Reading(budget, self._shapes.unfinished)
        self._reader = Reader(devices, self._shapes, self._layout, self.reading)
        self._kept: dict[Hashable, tuple[tuple[object, ...], Needs]]
        self._kept = devices.memo.get("needs", (self._shapes,), dict)
        """What pods ask for, by their claims, beside these claims themselves; of earlier cycles,
        too."""
        self._needs: dict[PodClass, Needs] = {}

    @cached_property
    def kinds(self) -> PodKinds:
        """Pods that ask for the same."""
        kept = self._known.memo.get("kinds", (self._shapes,), KnownTraits)
        return PodKinds(self.of, kept, self._spend)

    def of(self, pod_class: PodClass) -> Needs:
        """Return what the claims of a pod class ask for."""
        needs = self._needs.get(pod_class)
        if needs is None:
            needs = self._needs[pod_class] = self._known_needs(pod_class)
        return needs

    def _known_needs(self, pod_class: PodClass) -> Needs:
        """Return the needs of an earlier cycle, as long as the claims are the same objects."""
        uses = pod_class.constraints.resource_claims
        found = self._reader.found(uses)
        known = self._kept.get(uses)
        if known is not None and all(map(operator.is_, known[0], found)):
            return known[1]
        self._spend("devices", NEEDS_COST * len(uses))
        if len(self._kept) >= NEEDS_MAX:
            self._kept.clear()
        needs = self._reader.needs_of(uses)
        if not needs.are_unread:
            self._kept[uses] = found, needs
        return needs

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
