"""Known tables: the devices of a cluster, made anew for pools that have changed since a cycle."""

from collections.abc import Mapping

import msgspec
import numpy as np

from vscheduler.core.claims.devices import tables
from vscheduler.core.claims.devices.tables import DeviceTable, Flags, Part
from vscheduler.core.model.devices import DeviceId, Devices, PoolId
from vscheduler.core.model.nodes import NodeLayout


def of(devices: Devices, layout: NodeLayout) -> DeviceTable:
    """Return the table of all devices that can be allocated."""
    parts = devices.memo.get("parts", (), dict[PoolId, Part])

    def make() -> DeviceTable:
        current = {
            key: part
            if (part := parts.get(key)) is not None and part.pool is pool
            else tables.part_of(pool)
            for key, pool in devices.pools.items()
        }
        parts.clear()
        parts.update(current)
        return DeviceTable(current.values(), layout)

    return devices.memo.get("table", (devices.pools, layout), make)


class _Flagged(msgspec.Struct):
    """The devices of a table that claims had in the last cycle."""

    claimed: Mapping[DeviceId, object]
    flags: Flags


def allocated(devices: Devices, table: DeviceTable) -> Flags:
    """Return the devices (D,) that claims have. Of the last cycle's, only those change that claims
    have got or lost since.
    """
    last = devices.memo.get(
        "allocated", (table,), lambda: _Flagged({}, np.zeros(table.size, dtype=np.bool_))
    )
    if last.claimed is not devices.allocated:
        found = last.flags.copy()
        for device in last.claimed.keys() ^ devices.allocated.keys():
            at = table.position(device)
            if at is not None:
                found[at] = device in devices.allocated
        last.claimed, last.flags = devices.allocated, found
    return last.flags
