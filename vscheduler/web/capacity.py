"""How much of each node is used, promised and free after a cycle. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from vscheduler.model import resources
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import Task, TaskId
from vscheduler.model.nodes import NodeSpec
from vscheduler.model.resources import ResourceSpace, Vector
from vscheduler.model.snapshot import Snapshot
from vscheduler.web import node_devices
from vscheduler.web.node_devices import NodeDevices

ACCELERATORS = re.compile(
    r"gpu|tpu|npu|hpu|mig-|gaudi|neuron|ascend|i915|/xe|mlu|dcu|fpga|accelerator", re.IGNORECASE
)
"""Resources of which a cluster has few and jobs want many."""


class Capacity(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Amounts by node and resource, (N, R), which add up to `total`.

    Compared by identity: `made` returns the old one if nothing has changed.
    """

    specs: tuple[NodeSpec, ...]
    space: ResourceSpace
    problems: tuple[str, ...]
    """By node, why pods can't use it; empty for most."""
    domains: tuple[str, ...]
    """By node, its part of the network, `spine-1/rack-3`; empty if unknown."""
    total: Vector
    ours: Vector
    """Held by pods of this scheduler, those bound by the last cycle included."""
    others: Vector
    """Held by pods of other schedulers."""
    ending: Vector
    """Held by pods that are being deleted."""
    reserved: Vector
    """Free, but promised to pods that start when the rest of their room is free."""
    reserved_for: Mapping[str, Mapping[str, float]] = msgspec.field(default_factory=dict)
    """The sums of `reserved` by the queues of these pods."""
    closed: Vector
    """Free, but on nodes that pods can't use."""
    free: Vector
    devices: NodeDevices = NodeDevices()
    """Those of drivers, which are no resources of nodes."""

    def same(self, other: "Capacity | None") -> bool:
        """Whether another one says the same."""
        return other is not None and all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in (
                (getattr(self, name), getattr(other, name)) for name in self.__struct_fields__
            )
        )


def of(
    snapshot: Snapshot,
    result: CycleResult,
    domains: Sequence[str] = (),
    before: Capacity | None = None,
) -> Capacity:
    """Return the capacity after a cycle; `domains` are the parts of the network by node."""
    nodes, space = snapshot.nodes, snapshot.space
    rows = nodes.layout.rows
    bound, promised = np.zeros_like(nodes.used), np.zeros_like(nodes.used)
    for bind in result.binds:
        if bind.node in rows:
            bound[rows[bind.node]] += space.present(bind.task.pod_class.request)
    promises = [(task, rows[node]) for task, node in _promises(snapshot, result) if node in rows]
    for task, row in promises:
        promised[row] += space.present(task.pod_class.request)
    idle = np.maximum(nodes.allocatable - nodes.used - bound, 0)
    ending = np.minimum(nodes.releasing, nodes.used)
    ours = np.minimum(nodes.ours + bound, nodes.allocatable)
    others = np.maximum(nodes.used - ending - nodes.ours, 0)
    problems = _problems(snapshot, result)
    usable = np.array([not each for each in problems], dtype=np.bool_).reshape(-1, 1)
    open_idle = np.where(usable, idle, 0)
    reserved = np.clip(promised - ending, 0, open_idle)
    made = Capacity(
        specs=nodes.layout.specs,
        space=space,
        problems=problems,
        domains=tuple(domains) or ("",) * nodes.layout.size,
        total=nodes.allocatable,
        ours=ours,
        others=others,
        ending=ending,
        reserved=reserved,
        reserved_for=_by_queue(snapshot, promises, reserved),
        closed=idle - open_idle,
        free=open_idle - reserved,
        devices=node_devices.of(snapshot, problems),
    )
    return before if before is not None and made.same(before) else made


def _promises(snapshot: Snapshot, result: CycleResult) -> Iterator[tuple[Task, str]]:
    """Iterate over pods that have a node and wait for room or claims there, each once."""
    seen: set[TaskId] = {bind.task.uid for bind in result.binds}
    for pipelined in result.pipelined:
        if pipelined.task.uid not in seen:
            seen.add(pipelined.task.uid)
            yield pipelined.task, pipelined.node
    nominated = {uid: node for uid, node in result.carried.nominations.items() if uid not in seen}
    if nominated:
        for job in snapshot.jobs:
            for task in job.tasks if any(job.pending.values()) else ():
                if task.uid in nominated:
                    yield task, nominated[task.uid]
    for reservation in result.carried.replacement_reservations:
        yield reservation.task, reservation.node


def _by_queue(
    snapshot: Snapshot, promises: Sequence[tuple[Task, int]], reserved: Vector
) -> Mapping[str, Mapping[str, float]]:
    """Return the sums of what is reserved by queue. Of what a node has, the first pods get most."""
    if not promises:
        return {}
    queues = {job.id: job.queue for job in snapshot.jobs}
    left = reserved.copy()
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for task, row in promises:
        part = np.minimum(snapshot.space.present(task.pod_class.request), left[row])
        left[row] -= part
        amounts = zip(snapshot.space.names, part.tolist(), strict=True)
        found[queues.get(task.job, "")].update({name: each for name, each in amounts if each})
    return found


def _problems(snapshot: Snapshot, result: CycleResult) -> tuple[str, ...]:
    """Return by node why pods can't use it."""
    excluded = {node for each in result.excluded for node in each.nodes}
    found = []
    for spec in snapshot.nodes.layout.specs:
        refused = snapshot.refused.get(spec.name)
        if not spec.ready:
            found.append("not ready")
        elif spec.unschedulable:
            found.append("cordoned")
        elif refused is not None:
            found.append(f"its kubelet refused a pod: {refused.reason}")
        elif spec.name in excluded:
            found.append("no pod may use it")
        else:
            found.append("")
    return tuple(found)


def by_concern(totals: Mapping[str, float], wanted: Mapping[str, float]) -> list[str]:
    """Return the names of resources that any node has, the one that people look for first: the
    scarcest accelerator, then cpu and memory, then the rest. `wanted` is what all pods ask for;
    accelerators that nobody asks for come first only where nothing is asked for.
    """
    named = [name for name, amount in totals.items() if amount and name != resources.PODS]
    idle = not any(wanted.values())

    def key(name: str) -> tuple[int, float, str]:
        accelerator = bool(ACCELERATORS.search(name)) and (idle or wanted.get(name, 0.0) > 0)
        rank = (
            0 if accelerator else 1 + resources.FIRST.index(name) if name in resources.FIRST else 9
        )
        return (rank, -wanted.get(name, 0.0) / totals[name] if accelerator else 0.0, name)

    return sorted(named, key=key)
