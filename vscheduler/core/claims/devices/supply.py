"""Device supply: how many devices nodes have, for requests of claims and for classes."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from vscheduler.core.claims.devices import reading
from vscheduler.core.claims.devices.allocator import Demand, Shape
from vscheduler.core.claims.devices.tables import DeviceTable, Flags, Ints
from vscheduler.model import resources
from vscheduler.model.devices import DeviceId, DeviceInventory
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.resources import ResourceSpace, Vector

COUNT_COST = 20
"""About how many microseconds it takes to count the devices that match a request, and
DEVICES_PER_UNIT more."""

DEVICES_PER_UNIT = 1000

Request: TypeAlias = Sequence[Demand]
"""What satisfies a request, best first."""


class DeviceSupply:
    """Counts the devices of a cycle. Requests for the same devices share a count."""

    def __init__(
        self,
        devices: DeviceInventory,
        table: DeviceTable,
        layout: NodeLayout,
        spend: Callable[[str, int], None],
    ) -> None:
        self._devices, self._table, self._layout, self._spend = devices, table, layout, spend
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
        """Return the requests for which some nodes have too few devices, in use or not, each with
        the nodes (N,) that have enough.
        """
        if shapes not in self._short:
            requests = [request for shape in shapes for request in shape.requests]
            every = [(self._enough(request), request) for request in requests]
            self._short[shapes] = [each for each in every if not each[0].all()]
        return self._short[shapes]

    def _enough(self, request: Request) -> Mask:
        """Return the nodes (N,) with enough devices for a request."""
        enough = np.zeros(self._layout.size, dtype=np.bool_)
        for demand in request:
            enough |= self.most(demand) >= (demand.count or 1)
            if demand.provided is not None:
                enough |= demand.provided
        return enough

    def of_class(self, name: str) -> Ints:
        """Return how many devices of a class each node can use that have no taint, (N,)."""
        chosen = self._of_class(name)
        if chosen is None:
            return np.zeros(self._layout.size, dtype=np.int64)
        return self._table.counts(chosen & self._table.tolerated(()))

    def by_class(self, space: ResourceSpace, named: Sequence[str]) -> Vector:
        """Return how many devices of each class nodes have, without those of other schedulers'
        pods, (N, R). `named` are the resources that stand for classes.
        """
        found = np.zeros((self._layout.size, space.size), dtype=np.int64)
        free = ~self._table.flags(self._of_other_schedulers())
        for name in named:
            chosen = self._of_class(name.removeprefix(resources.DEVICE_CLASS))
            if chosen is not None:
                found[:, space.columns[name]] = self._table.at_one_node(chosen & free)
        return found

    def _of_class(self, name: str) -> Flags | None:
        """Return the devices (D,) that a class selects; None if nobody can say."""
        device_class, selectors = self._devices.classes.get(name), self._devices.selectors
        if device_class is None:
            return None
        if not device_class.selectors:
            return np.ones(self._table.size, dtype=np.bool_)
        if selectors is None:
            return None
        for selector in device_class.selectors:
            problem, cost = selectors.problem(selector)
            self._spend("devices", cost)
            if problem is not None:
                return None
        steps = self._table.matching(device_class.selectors, selectors)
        return reading.finish(steps, self._spend).passes

    def _of_other_schedulers(self) -> Iterator[DeviceId]:
        """Iterate over devices in use by pods of other schedulers. A claim whose pods are gone will
        be free in a moment.
        """
        for key in self._devices.foreign:
            allocation = self._devices.claims[key].allocation
            if allocation is not None:
                yield from (device.id for device in allocation.devices if not device.admin_access)
