"""Grace time after nodes lose resources: what is missing, and the cluster as if nothing were.

An autoscaler removes a node, a kubelet restarts, a device plugin is gone for a second. Fair shares
follow at once, but no pod is evicted for such a loss before the loss has lasted for a while.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
from msgspec.structs import replace

from vscheduler.core.shares.usable_nodes import PoolNodes
from vscheduler.model.nodes import REPELLING, NodeTable
from vscheduler.model.resources import ResourceMap, ResourceSpace, Vector
from vscheduler.model.snapshot import LastNodes, NodeLoss, Snapshot


class NodeLosses:
    """The losses of all nodes in one cycle, and for how long losses must be remembered."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._losses = _losses(snapshot)
        self._now = snapshot.now
        self._rows = snapshot.nodes.layout.rows
        self._seconds = 0.0

    def recent(self, seconds: float) -> dict[str, NodeLoss]:
        """Return the losses of the last `seconds`, and remember losses for as long."""
        self._seconds = max(seconds, self._seconds)
        if not self._losses:
            return {}
        found = self._losses.items()
        return {name: loss for name, loss in found if loss.since + seconds > self._now}

    def carried(self) -> Mapping[str, NodeLoss]:
        """Return the losses that the next cycle must know.

        A loss is dropped once old enough, when the node has left with all pods of this scheduler.
        """
        if not self._seconds:
            return {}
        oldest = self._now - self._seconds
        return {
            name: loss
            for name, loss in self._losses.items()
            if loss.since > oldest or loss.held or name in self._rows
        }


def _losses(snapshot: Snapshot) -> dict[str, NodeLoss]:
    """Return what nodes have lost, by node name: known losses not made good so far, and new ones.

    The grace time of a loss starts anew when more is lost on the node: the node shrinks further,
    leaves, or loses pods of ours that were still there.
    """
    table, seen = snapshot.nodes, snapshot.carried.seen
    rows = table.layout.rows
    found: dict[str, NodeLoss] = {}
    before = snapshot.carried.node_losses
    held = _held(snapshot, before) if before else {}
    for name, loss in before.items():
        if name in rows and not _is_worse(table, rows[name], loss, snapshot.space):
            continue
        fewer = any(held[name].get(key, 0) < amount for key, amount in loss.held.items())
        since = snapshot.now if fewer else min(loss.since, snapshot.now)
        found[name] = replace(loss, since=since, held=held[name])
    if seen is None:
        return found
    for row in _suspects(seen, table, snapshot.space):
        spec = seen.nodes.layout.specs[row]
        if spec.name in found:
            found[spec.name] = replace(found[spec.name], since=snapshot.now)
        elif spec.ready and not spec.unschedulable:
            loss = _loss(seen, row, snapshot.now)
            now = rows.get(spec.name)
            if now is None or _is_worse(table, now, loss, snapshot.space):
                found[spec.name] = loss
    return found


def _held(snapshot: Snapshot, names: Collection[str]) -> dict[str, ResourceMap]:
    """Return what pods of ours hold on these nodes.

    Pods are looked through only for nodes that have left; nodes still present have sums.
    """
    table = snapshot.nodes
    rows = {name: table.layout.rows[name] for name in names if name in table.layout.rows}
    left: dict[str, Counter[str]] = {name: Counter() for name in names if name not in rows}
    for pod_class, pods in snapshot.pods_by_class.items() if left else ():
        for name, count in zip(pods.nodes, pods.counts.tolist(), strict=True):
            if name in left:
                for resource, amount in pod_class.request.items():
                    left[name][resource] += count * amount
    return left | {name: _amounts(table.ours[row], snapshot.space) for name, row in rows.items()}


def nodes_before(
    pool: PoolNodes,
    lost: Mapping[str, NodeLoss],
    space: ResourceSpace,
) -> PoolNodes:
    """Return the nodes as if nothing had been lost, with the pods that are there now."""
    names = sorted({*pool.layout.names, *lost})
    layout = pool.layout.variant(
        tuple(
            lost[name].spec if name in lost else pool.layout.specs[pool.layout.rows[name]]
            for name in names
        )
    )
    arrays = [np.zeros((layout.size, space.size), dtype=np.int64) for _ in range(3)]
    there = np.array([layout.rows[name] for name in pool.layout.names], dtype=np.int64)
    for array, now in zip(arrays, (pool.allocatable, pool.others, pool.ours), strict=True):
        array[there] = now
    allocatable, others, ours = arrays
    devices = None
    if pool.devices is not None:
        devices = np.zeros_like(ours)
        devices[there] = pool.devices
    for name, loss in lost.items():
        row = layout.rows[name]
        allocatable[row] = np.maximum(allocatable[row], space.present(loss.allocatable))
        if name not in pool.layout.rows:
            others[row] = space.present(loss.others)
    return PoolNodes(
        layout=layout, allocatable=allocatable, others=others, ours=ours, devices=devices
    )


def _suspects(seen: LastNodes, table: NodeTable, space: ResourceSpace) -> list[int]:
    """Return rows of the last cycle's nodes that have left or may give less than before."""
    before = seen.nodes
    if before.layout is table.layout and seen.space == space:
        if before.allocatable is table.allocatable:
            return []
        less = before.allocatable > table.allocatable
        return [int(row) for row in np.flatnonzero(less.any(axis=1))]
    rows = table.layout.rows
    columns = [space.columns.get(name) for name in seen.space.names]
    suspects = []
    for row, spec in enumerate(before.layout.specs):
        now = rows.get(spec.name)
        same = now is not None and table.layout.specs[now] == spec
        if now is None or not same:
            suspects.append(row)
            continue
        for had, column in zip(before.allocatable[row].tolist(), columns, strict=True):
            if column is not None and had > table.allocatable[now, column]:
                suspects.append(row)
                break
    return suspects


def _is_worse(table: NodeTable, row: int, loss: NodeLoss, space: ResourceSpace) -> bool:
    """Whether an existing node gives less than before the loss, or takes fewer pods."""
    spec = table.layout.specs[row]
    if not spec.ready or spec.unschedulable:
        return True
    repelling = {taint for taint in spec.taints if taint.effect in REPELLING}
    if not repelling <= set(loss.spec.taints) or not set(loss.spec.labels) <= set(spec.labels):
        return True
    return bool((space.present(loss.allocatable) > table.allocatable[row]).any())


def _loss(seen: LastNodes, row: int, now: float) -> NodeLoss:
    """Return the loss of a whole node, as last seen, with grace time starting now."""
    table, space = seen.nodes, seen.space
    others = np.maximum(table.used[row] - table.releasing[row] - table.ours[row], 0)
    return NodeLoss(
        spec=table.layout.specs[row],
        held=_amounts(table.ours[row], space),
        allocatable=_amounts(table.allocatable[row], space),
        others=_amounts(others, space),
        since=now,
    )


def _amounts(row: Vector, space: ResourceSpace) -> ResourceMap:
    """Return a row of amounts by resource name, without zeros."""
    values: list[int] = row.tolist()
    return {name: each for name, each in zip(space.names, values, strict=True) if each}
