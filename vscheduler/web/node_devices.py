"""Which devices of drivers each node has, and which jobs have them, for the map of nodes. Pure.

Devices of dynamic resource allocation are no resources of nodes: drivers publish them in
ResourceSlices, and claims have them. Those that several nodes can use are on no map.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from vscheduler.model.devices import Device, DeviceId, DeviceInventory, Pool, TaintEffect
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import Snapshot

PARTS = ("total", "ours", "others", "reserved", "closed", "free")
Amounts = tuple[tuple[int, ...], ...]
"""By node and driver."""


class NodeDevices(msgspec.Struct, frozen=True, kw_only=True):
    """Devices by node and driver; the parts add up to the total."""

    drivers: tuple[str, ...] = ()
    """Sorted."""
    parts: Mapping[str, Amounts] = msgspec.field(default_factory=dict)
    """`ours`: had by pods of this scheduler; `others`: by those of others; `reserved`: allocated,
    but nobody uses them yet; `closed`: free, but tainted or otherwise not usable; `free`."""
    held: Mapping[str, Mapping[JobId, tuple[int, ...]]] = msgspec.field(default_factory=dict)
    """By node and job, how many devices of each driver the job's pods have."""


def of(snapshot: Snapshot, problems: Sequence[str]) -> NodeDevices:
    """Return the devices of all nodes; `problems` are those of nodes that pods can't use."""
    inventory, rows = snapshot.devices, snapshot.nodes.layout.rows
    found = [each for each in _of_nodes(inventory) if each[0] in rows]
    if not found:
        return NodeDevices()
    drivers = tuple(sorted({device.driver for _, _, device, _ in found}))
    column = {driver: at for at, driver in enumerate(drivers)}
    jobs = _jobs_of_users(snapshot) if inventory.allocated else {}
    counts: Counter[tuple[str, int, int]] = Counter()
    held: Counter[tuple[str, JobId, int]] = Counter()
    for node, pool, device, known in found:
        at = column[device.driver]
        part, job = _use(inventory, jobs, device)
        if not part:
            part = "closed" if problems[rows[node]] or not _usable(pool, known) else "free"
        counts[part, rows[node], at] += 1
        counts["total", rows[node], at] += 1
        if job:
            held[node, job, at] += 1
    size = range(len(drivers))
    by_node: defaultdict[str, dict[JobId, tuple[int, ...]]] = defaultdict(dict)
    for node, job, _ in held:
        by_node[node][job] = tuple(held[node, job, at] for at in size)
    return NodeDevices(
        drivers=drivers,
        parts={
            part: tuple(tuple(counts[part, row, at] for at in size) for row in range(len(rows)))
            for part in PARTS
        },
        held=by_node,
    )


def _of_nodes(inventory: DeviceInventory) -> Iterator[tuple[str, Pool, DeviceId, Device]]:
    """Iterate over the devices that one node can use, each with this node."""
    for pool in inventory.pools.values():
        for part in pool.slices:
            for device in part.devices:
                access = part.access or device.access
                if access is not None and access.node:
                    yield access.node, pool, DeviceId(pool.driver, pool.name, device.name), device


def _usable(pool: Pool, device: Device) -> bool:
    keeps_away = {TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE}
    tainted = any(taint.effect in keeps_away for taint in device.taints)
    return pool.complete and not pool.duplicate and not device.unsupported and not tainted


def _jobs_of_users(snapshot: Snapshot) -> Mapping[str, JobId]:
    """Return the job of each pod, and of each PodGroup that claims may be reserved for."""
    found: dict[str, JobId] = {str(job.id): job.id for job in snapshot.jobs}
    for job in snapshot.jobs:
        found |= dict.fromkeys((str(task.uid) for task in job.tasks), job.id)
    return found


def _use(
    inventory: DeviceInventory, jobs: Mapping[str, JobId], device: DeviceId
) -> tuple[str, JobId | None]:
    """Return which part a device belongs to, and the job that has it; empty if nobody has it."""
    claims = [inventory.claims.get(key) for key in inventory.allocated.get(device, ())]
    if not claims:
        return "", None
    users = [user for claim in claims if claim is not None for user in claim.users]
    job = next((jobs[user] for user in users if user in jobs), None)
    if job is not None:
        return "ours", job
    return ("others" if users else "reserved"), None
