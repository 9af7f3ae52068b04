"""Known tables: the devices of a cluster, made anew for pools that have changed since a cycle."""

from collections.abc import Mapping

import msgspec
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


class _Flagged(msgspec.Struct):
    """The devices of a table that claims had in the last cycle."""

    claimed: Mapping[devices.DeviceId, object]
    flags: tables.Flags


def allocated(known: devices.Devices, table: tables.DeviceTable) -> tables.Flags:
    """Return the devices (D,) that claims have. Of the last cycle's, only those change that claims
    have got or lost since.
    """
    last = known.memo.get(
        "allocated", (table,), lambda: _Flagged({}, np.zeros(table.size, dtype=np.bool_))
    )
    if last.claimed is not known.allocated:
        found = last.flags.copy()
        for device in last.claimed.keys() ^ known.allocated.keys():
            at = table.position(device)
            if at is not None:
                found[at] = device in known.allocated
        last.claimed, last.flags = known.allocated, found
    return last.flags
