"""Device supply: how many devices of each class nodes have."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from vscheduler.core.claims.devices import reading
from vscheduler.core.claims.devices.tables import DeviceTable, Flags, Ints
from vscheduler.core.model import resources
from vscheduler.core.model.devices import DeviceId, Devices
from vscheduler.core.model.nodes import NodeLayout
from vscheduler.core.model.resources import ResourceSpace, Vector


class DeviceSupply:
    """Counts the devices that classes select, whatever claims ask for."""

    def __init__(
        self,
        devices: Devices,
        table: DeviceTable,
        layout: NodeLayout,
        spend: Callable[[str, int], None],
    ) -> None:
        self._known, self._table, self._layout, self._spend = devices, table, layout, spend

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
        device_class, selectors = self._known.classes.get(name), self._known.selectors
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
        for key in self._known.foreign:
            allocation = self._known.claims[key].allocation
            if allocation is not None:
                yield from (device.id for device in allocation.devices if not device.admin_access)
