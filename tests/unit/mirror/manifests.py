"""Short ways to write the manifests that the mirror's tests are about, and to compare snapshots."""

from collections.abc import Iterable
from typing import Any

from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Object, Remove, Upsert
from vscheduler.mirror.index.entries import Change, Replace
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.jobs import Job, PodClass
from vscheduler.model.snapshot import Snapshot

OURS = "vscheduler"
Document = dict[str, Any]


def pod(name: str, *, group: str = "", node: str = "", **rest: Any) -> Document:
    """A pod of ours of one cpu; `rest`: uid, version, phase, scheduler, spec, metadata, status."""
    metadata: Document = {
        "name": name,
        "namespace": "ns",
        "uid": rest.get("uid", name),
        "resourceVersion": str(rest.get("version", "")),
        "annotations": {"scheduling.k8s.io/group-name": group} if group else {},
    }
    requests = rest.get("requests", {"cpu": "1"})
    spec: Document = {
        "schedulerName": rest.get("scheduler", OURS),
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }
    if node:
        spec["nodeName"] = node
    status = {"phase": rest.get("phase", "Running" if node else "Pending")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | rest.get("metadata", {}),
        "spec": spec | rest.get("spec", {}),
        "status": status | rest.get("status", {}),
    }


def node(name: str, amounts: Document | None = None, **rest: Any) -> Document:
    """A node of 4 cpu and 10 pods; `rest`: version, labels, uid, spec, status."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": rest.get("uid", name),
            "resourceVersion": str(rest.get("version", "")),
            "labels": rest.get("labels", {}),
        },
        "spec": rest.get("spec", {}),
        "status": {"allocatable": amounts or {"cpu": "4", "pods": "10"}} | rest.get("status", {}),
    }


def group(name: str, spec: Document | None = None, **rest: Any) -> Document:
    """A PodGroup; `rest`: version, annotations, status, uid."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": rest.get("uid", name),
            "resourceVersion": str(rest.get("version", "")),
            "annotations": rest.get("annotations", {}),
        },
        "spec": spec or {},
        "status": rest.get("status", {}),
    }


def queue(name: str, spec: Document | None = None, **status: Any) -> Document:
    """A Queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": name},
        "spec": spec or {},
        "status": status,
    }


def priority_class(name: str, value: int, *, default: bool = False) -> Document:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "uid": name},
        "value": value,
        "globalDefault": default,
    }


def budget(name: str, selector: Document | None = None, *, allowed: int = 1) -> Document:
    """A PodDisruptionBudget."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {} if selector is None else {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }


def quota(name: str, hard: Document, used: Document | None = None, **spec: Any) -> Document:
    """A ResourceQuota."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"hard": hard, **spec},
        "status": {"used": used or {}},
    }


def hyper_node(name: str, *members: Document, tier: int = 1, **spec: Any) -> Document:
    """A HyperNode; without members, one with the node n1."""
    node = {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "uid": name},
        "spec": {"tier": tier, "members": members or (node,), **spec},
    }


def read(document: Document) -> Object:
    """The object of a manifest that decodes."""
    event = event_of(document)
    assert isinstance(event, Upsert), event
    return event.object


def event_of(document: Document) -> Upsert | DecodeFailed:
    """What a manifest is to the Mirror."""
    kind = events.kind_of(document)
    assert kind is not None
    return events.convert(kind, document)


def removal_of(document: Document) -> Remove:
    """The end of an object."""
    return events.removal(event_of(document))


def show_list(seen: Mirror, kind: Kind, *documents: Document) -> Change:
    """Show a Mirror all that there is of a kind; what it changed."""
    found = [seen.read(event_of(document)) for document in documents]
    return seen.apply(Replace(kind=kind, found=dict(found)))


def mirror(*documents: Document, **options: Any) -> Mirror:
    """A Mirror that has seen these."""
    seen = Mirror(Options(**{"scheduler_names": (OURS,)} | options))
    for document in documents:
        seen.apply(event_of(document))
    return seen


def canonical(found: Snapshot) -> Document:
    """All that a snapshot says, as plain values that compare."""
    table = found.nodes
    return {
        "names": found.space.names,
        "nodes": table.layout.specs,
        "allocatable": table.allocatable.tolist(),
        "used": table.used.tolist(),
        "releasing": table.releasing.tolist(),
        "ours": table.ours.tolist(),
        "ports": list(table.ports.items()),
        "leaving ports": list(table.leaving_ports.items()),
        "budgets": found.budgets,
        "quotas": found.quotas,
        "queues": list(found.queues.items()),
        "jobs": [_job(job) for job in found.jobs],
        "seats": [(_kind(pod_class), each) for pod_class, each in seats(found).items()],
        "elsewhere": [
            (queue, list(held.items())) for queue, held in found.used_by_other_schedulers.items()
        ],
        "refused": list(found.refused.items()),
        "nominated": [
            (each.key, each.node, each.priority, _kind(each.pod_class), list(each.labels.items()))
            for each in found.nominated
        ],
        "residents": found.affinity_index,
    }


def seats(found: Snapshot) -> dict[PodClass, list[tuple[str, str, int]]]:
    """By class, in its order: nodes, queues, and how many pods."""
    return {
        pod_class: list(zip(each.nodes, each.queues, each.counts.tolist(), strict=True))
        for pod_class, each in found.pods_by_class.items()
    }


def job_of(seen: Mirror, name: str) -> Job:
    """The job of this name in a snapshot."""
    return {job.name: job for job in seen.snapshot(0.0).jobs}[name]


def used(seen: Mirror, name: str, resource: str = "cpu") -> int:
    """How much of a resource is taken on a node."""
    found = seen.snapshot(0.0)
    row = found.nodes.layout.rows[name]
    return int(found.nodes.used[row, found.space.columns[resource]])


def statuses(job: Job) -> dict[str, str]:
    """Task name to status."""
    return {task.name: str(task.status) for task in job.tasks}


def names(tasks: Iterable[Any]) -> list[str]:
    """Keys of pods, sorted."""
    return sorted(task.key for task in tasks)


def _job(job: Job) -> Document:
    """Classes compare by identity, so they are written out."""
    fields = {name: getattr(job, name) for name in job.__struct_fields__ if name != "tasks"}
    fields["classes"] = [(_kind(pod_class), counts) for pod_class, counts in job.classes.items()]
    tasks = []
    for task in job.tasks:
        values = {
            name: getattr(task, name) for name in task.__struct_fields__ if name != "pod_class"
        }
        tasks.append((values, _kind(task.pod_class)))
    return {**fields, "tasks": tasks}


def _kind(pod_class: PodClass) -> tuple[object, ...]:
    return list(pod_class.request.items()), pod_class.constraints, dict(pod_class.hints)
