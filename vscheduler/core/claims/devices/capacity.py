"""Device capacity: which nodes have enough devices for a request, in use or not."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import numpy as np

from vscheduler.core.claims.devices.allocator import Demand, Shape
from vscheduler.core.claims.devices.tables import DeviceTable, Flags, Ints
from vscheduler.core.model.nodes import Mask, NodeLayout

COUNT_COST = 20
"""About how many microseconds it takes to count the devices that match a request, and
DEVICES_PER_UNIT more."""

DEVICES_PER_UNIT = 1000

Request: TypeAlias = Sequence[Demand]
"""What satisfies a request, best first."""


class DeviceCapacity:
    """Counts devices for requests. Requests for the same devices share the counts of a cycle."""

    def __init__(
        self, table: DeviceTable, layout: NodeLayout, spend: Callable[[str, int], None]
    ) -> None:
        self._table, self._layout, self._spend = table, layout, spend
        self._counts: dict[Hashable, Ints] = {}
        self._short: dict[Sequence[Shape], Sequence[tuple[Mask, Request]]] = {}

    def count(self, chosen: Flags) -> Ints:
        """Return how many of these devices (D,) each node has, (N,)."""
        self._spend("devices", COUNT_COST + chosen.size // DEVICES_PER_UNIT)
        return self._table.counts(chosen)

    def most(self, demand: Demand) -> Ints:
        """Return how many devices each node has that a request could use, (N,)."""
        key = demand.expressions, demand.tolerations
        if key not in self._counts:
            self._counts[key] = self.count(demand.usable)
        return self._counts[key]

    def short(self, shapes: Sequence[Shape]) -> Sequence[tuple[Mask, Request]]:
        """Return the requests for which some nodes have too few devices, each with the nodes (N,)
        that have enough.
        """
        found = self._short.get(shapes)
        if found is None:
            requests = [request for shape in shapes for request in shape.requests]
            every = [(self._enough(request), request) for request in requests]
            found = self._short[shapes] = [each for each in every if not each[0].all()]
        return found

    def _enough(self, request: Request) -> Mask:
        """Return the nodes (N,) with enough devices for a request."""
        enough = np.zeros(self._layout.size, dtype=np.bool_)
        for demand in request:
            enough |= self.most(demand) >= (demand.count or 1)
            if demand.provided is not None:
                enough |= demand.provided
        return enough
