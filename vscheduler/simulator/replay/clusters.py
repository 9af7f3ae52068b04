"""Clusters for a trace: nodes and queues in a Mirror, by number or from manifests."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from vscheduler.core.config.policy import Policy
from vscheduler.mirror import state
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Upsert
from vscheduler.mirror.decode.wire import CompositePodGroup, NativePodGroup, Pod, PodGroup
from vscheduler.mirror.index.entries import Entry, Part, Reference, Value
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate.translation import Node
from vscheduler.model.nodes import NodeSpec
from vscheduler.model.pod_texts import PodReads
from vscheduler.model.queues import DEFAULT, Queue
from vscheduler.model.resources import ALLOCATABLE_MAX, CPU, MEMORY, PODS
from vscheduler.simulator import run
from vscheduler.simulator.manifests import Manifest
from vscheduler.simulator.replay.traces import CORE, GPU, Trace

SCHEDULER = "vscheduler"


class NodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes there are, and what each has."""

    nodes: int
    cores: int
    """CPUs of all nodes together. If they can't be divided, the first nodes have one more."""
    gpus: int = 0
    """GPUs of each node."""
    memory: int = ALLOCATABLE_MAX
    """Bytes of each node."""


def shape(
    trace: Trace, *, nodes: int | None, cpus: int | None, gpus: int, memory: int
) -> NodeShape | None:
    """Return the nodes that are asked for, else those of the trace; None if nothing tells."""
    each = 1 if cpus is None else cpus
    if nodes is None and cpus is not None and trace.cores is not None:
        nodes = -(-trace.cores // each)
    if nodes is not None:
        return NodeShape(nodes=nodes, cores=nodes * each, gpus=gpus, memory=memory)
    if trace.cores is None:
        return None
    nodes = min(trace.nodes or trace.cores, trace.cores)
    return NodeShape(nodes=nodes, cores=trace.cores, gpus=gpus, memory=memory)


def in_one_queue(trace: Trace) -> Trace:
    """Return the trace with all of its jobs in the default queue."""
    jobs = tuple(msgspec.structs.replace(job, queue=DEFAULT) for job in trace.jobs)
    return msgspec.structs.replace(trace, jobs=jobs)


def of_shape(shape: NodeShape, reads: PodReads) -> Mirror:
    """Return a cluster of equal nodes."""
    mirror = Mirror(state.Options(scheduler_names=(SCHEDULER,), reads=reads))
    width, (each, more) = len(str(shape.nodes - 1)), divmod(shape.cores, shape.nodes)
    for at in range(shape.nodes):
        name = f"node-{at:0{width}}"
        spec = NodeSpec(name=name, labels=(("kubernetes.io/hostname", name),))
        amounts = {
            CPU: CORE * (each + (at < more)),
            MEMORY: shape.memory,
            PODS: ALLOCATABLE_MAX,
            **({GPU: shape.gpus} if shape.gpus else {}),
        }
        show(mirror, Kind.NODE, {name: Node(spec=spec, allocatable=amounts)})
    return mirror


def of_manifests(documents: Iterable[Manifest], policy: Policy) -> Mirror:
    """Return a cluster as it is in manifests, but without the pods and PodGroups of its own
    scheduler: those of the trace come instead. Pods of other schedulers stay where they are.
    """
    options = run.Options()
    given = run.read(documents, policy, options)
    for event in given.events:
        if isinstance(event, Upsert) and _is_work(event.object, options.scheduler_names):
            given.mirror.apply(events.removal(event))
    return given.mirror


def _is_work(shown: events.Object, scheduler_names: Collection[str]) -> bool:
    if isinstance(shown, Pod):
        return shown.spec.scheduler_name in scheduler_names
    return isinstance(shown, PodGroup | NativePodGroup | CompositePodGroup)


def add_queues(mirror: Mirror, names: Iterable[str]) -> list[str]:
    """Add queues that don't exist, of weight 1; return their names."""
    known = mirror.snapshot(0.0).queues
    missing = sorted(set(names) - known.keys())
    show(mirror, Kind.QUEUE, {name: Queue(name=name, uid=name, created=0.0) for name in missing})
    return missing


def show(mirror: Mirror, kind: Kind, values: Mapping[str, Value]) -> None:
    """Show objects to the Mirror that are decoded and translated already."""
    found = {
        key: Entry(Reference(uid=key, resource_version=""), value) for key, value in values.items()
    }
    mirror.apply(Part(kind=kind, found=found))


def hide(mirror: Mirror, kind: Kind, keys: Iterable[str]) -> None:
    """Let objects be gone; a pod's key is its UID."""
    for key in keys:
        mirror.apply(events.removal_of(kind, key))
