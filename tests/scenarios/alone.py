"""Clusters with pods that are jobs by themselves."""

from typing import Any

from tests import running
from vscheduler.core.cycle import run_cycle
from vscheduler.mirror import statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.index.entries import Replace
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures

QUEUE = "scheduling.volcano.sh/queue-name"
NONE = "the API server doesn't serve those of scheduling.volcano.sh/v1beta1"
NOW = pictures.NOW.timestamp()
POLICY = running.policy_of(
    {"actions": "enqueue, allocate, backfill, reclaim", "tiers": running.tiers(running.STANDARD)}
)


def a_node(name: str, cpu: int = 4) -> dict[str, Any]:
    """A node."""
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": 110}
    head = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return {**head, "status": {"allocatable": allocatable}}


def a_queue(name: str, **spec: Any) -> dict[str, Any]:
    """A Queue."""
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return {**head, "metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}


def a_group(name: str, count: int, queue: str) -> dict[str, Any]:
    """One of Kubernetes' PodGroups."""
    metadata = {"name": name, "namespace": "default", "annotations": {QUEUE: queue}}
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
    version = "scheduling.k8s.io/v1beta1"
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def a_pod(name: str, group: str = "", on: str = "", **annotations: str) -> dict[str, Any]:
    """A pod with two cpus; those of a group are waiting ones."""
    requests = [{"name": "c", "resources": {"requests": {"cpu": 2}}}]
    spec: dict[str, Any] = {"schedulerName": "vscheduler", "containers": requests}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if on:
        spec["nodeName"] = on
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
    status = {"phase": "Running" if on else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def a_mirror(*documents: dict[str, Any]) -> Mirror:
    """What a daemon knows of these objects."""
    mirror = Mirror(Options(scheduler_names=("vscheduler",)))
    show(mirror, *documents)
    return mirror


def show(mirror: Mirror, *documents: dict[str, Any]) -> None:
    """Objects that came or changed."""
    for document in documents:
        kind = events.kind_of(document)
        assert kind is not None
        mirror.apply(events.convert(kind, document))


def unserve(mirror: Mirror) -> None:
    """None of Volcano's kinds is served any more."""
    mirror.serve_queues(served=False)
    mirror.serve_pod_groups(served=False)


def decide(mirror: Mirror) -> CycleResult:
    """The result of a cycle."""
    return run_cycle(mirror.snapshot(NOW), POLICY)


def binds(mirror: Mirror) -> list[str]:
    """The pods that a cycle binds."""
    return sorted(bind.task.name for bind in decide(mirror).binds)


def jobs_of(mirror: Mirror) -> list[tuple[str, str, str]]:
    """Jobs with their queues and phases."""
    found = mirror.snapshot(NOW).jobs
    return [(job.id, job.queue, str(job.state.phase)) for job in found]


def words(mirror: Mirror) -> dict[str, str]:
    """What waiting pods are told."""
    return {
        pod.name: said.message
        for status in decide(mirror).groups
        for pod, said in statuses.pod_words(status)
    }


def used(mirror: Mirror) -> dict[str, int]:
    """Milli-cpus of our running pods by queue."""
    found: dict[str, int] = {}
    for pod_class, counts in mirror.snapshot(NOW).pods_by_class.items():
        for queue, count in zip(counts.queues, counts.counts, strict=True):
            found[queue] = found.get(queue, 0) + int(count) * pod_class.request["cpu"]
    return found


def listed(mirror: Mirror, *found: events.Upsert) -> Replace:
    """The list of these objects, all of one kind."""
    return Replace(kind=found[0].kind, found=dict(map(mirror.read, found)))


def an_automatic_group(key: str) -> dict[str, Any]:
    """An automatic PodGroup."""
    namespace, _, name = key.partition("/")
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    spec = {"minMember": 1, "queue": "default"}
    return {**head, "metadata": {"name": name, "namespace": namespace, "uid": key}, "spec": spec}
