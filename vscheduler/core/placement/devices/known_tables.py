"""Known tables: the devices of a cluster, made anew for pools that have changed since a cycle."""

from collections.abc import Mapping

import numpy as np

from vscheduler.core.model import devices, nodes
from vscheduler.core.placement.devices import tables


def of(known: devices.Devices, layout: nodes.NodeLayout) -> tables.DeviceTable:
    """Return the table of all devices that can be allocated."""
    parts = known.memo.get("parts", (), dict[devices.PoolId, tables.Part])

    def make() -> tables.DeviceTable:
        current = {
            key: part
            if (part := parts.get(key)) is not None and part.pool is pool
            else tables.part_of(pool)
            for key, pool in known.pools.items()
        }
        parts.clear()
        parts.update(current)
        return tables.DeviceTable(current.values(), layout)

    return known.memo.get("table", (known.pools, layout), make)


def allocated(known: devices.Devices, table: tables.DeviceTable) -> tables.Flags:
    """Return the devices (D,) that claims have. Of the last cycle's, only those change that claims
    have got or lost since.
    """
    last: dict[str, tuple[Mapping[devices.DeviceId, object], tables.Flags]]
    last = known.memo.get("allocated", (table,), dict)
    before, found = last.get("", ({}, np.zeros(table.size, dtype=np.bool_)))
    if before is not known.allocated:
        found = found.copy()
        for device in before.keys() ^ known.allocated.keys():
            at = table.position(device)
            if at is not None:
                found[at] = device in known.allocated
        last[""] = known.allocated, found
    return found
