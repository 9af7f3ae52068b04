"""The objects of a world as plain data, as people would write them; nothing of ours is used."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str, str]
"""Kind, namespace, name."""

SCHEDULER = "vscheduler"
NAMESPACE = "default"
GROUP = "scheduling.k8s.io/group-name"
ROLE = "volcano.sh/task-spec"
PREEMPTABLE = "volcano.sh/preemptable"
GPU = "nvidia.com/gpu"
EXTENDED = "example.com/gpu"
"""What devices of class `gpu` are called by pods that know nothing of claims."""
JOB = "example.com/job"
"""Label of a claim that goes with a job."""
HOST = "kubernetes.io/hostname"
BATCH = "scheduling.volcano.sh/v1beta1"

BEGINNING = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC).timestamp()
"""The instant of the first cycle of every world."""


def written(instant: float) -> str:
    """RFC 3339, to the second."""
    return dt.datetime.fromtimestamp(instant, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_of(document: Document) -> Key:
    """Kind, namespace, name."""
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def node(
    name: str, amounts: Mapping[str, str], labels: Mapping[str, str], taints: Sequence[Document]
) -> Document:
    """A node that is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(name, labels={HOST: name, **labels}),
        "spec": {"taints": list(taints)},
        "status": {
            "allocatable": dict(amounts),
            "capacity": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def queue(name: str, spec: Document, annotations: Mapping[str, str]) -> Document:
    """An open queue."""
    return {
        "apiVersion": BATCH,
        "kind": "Queue",
        "metadata": _metadata(name, annotations=dict(annotations)),
        "spec": spec,
        "status": {"state": "Open"},
    }


def priority_class(name: str, value: int) -> Document:
    """A priority class."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _metadata(name),
        "value": value,
    }


def budget(name: str, labels: Mapping[str, str], spec: Document) -> Document:
    """A PodDisruptionBudget; spec has minAvailable or maxUnavailable, in pods."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(name, namespace=NAMESPACE),
        "spec": {"selector": {"matchLabels": dict(labels)}, **spec},
        "status": {"disruptionsAllowed": 0},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What an owner makes a pod from."""

    role: str = ""
    requests: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    """All else of the pod's spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What an owner keeps up: a PodGroup and its pods."""

    name: str
    kind: str
    """Of the owner: Job, Deployment or StatefulSet."""
    queue: str
    minimum: int
    templates: tuple[Template, ...]
    """One per pod."""
    namespace: str = NAMESPACE
    spec: Mapping[str, Any] = field(default_factory=dict)
    """All else of the PodGroup's spec."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The PodGroup's."""
    phase: str = "Pending"
    """The phase that the PodGroup has at first."""
    claims: tuple[Document, ...] = ()
    """That its pods share."""
    disk: Mapping[str, Any] | None = None
    """The spec of a claim that there is for each of its places, whoever has the place."""

    @property
    def group(self) -> str:
        """The key of its PodGroup: `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def resized(self, count: int, minimum: int) -> "Workload":
        """With more pods like the last one, or without the last ones."""
        more = (self.templates[-1],) * (count - len(self.templates))
        return replace(self, templates=(*self.templates, *more)[:count], minimum=minimum)


def pod_group(workload: Workload, now: float) -> Document:
    """The workload's PodGroup, as it is when it is created."""
    return {
        "apiVersion": BATCH,
        "kind": "PodGroup",
        "metadata": _metadata(
            workload.name,
            namespace=workload.namespace,
            creationTimestamp=written(now),
            annotations=dict(workload.annotations),
        ),
        "spec": {"queue": workload.queue, "minMember": workload.minimum, **workload.spec},
        "status": {"phase": workload.phase},
    }


def devices_of(of_class: str) -> str:
    """What the devices of a class are called in queues."""
    return f"deviceclass.resource.k8s.io/{of_class}"


def claim(name: str, namespace: str, spec: Mapping[str, Any], job: str = "") -> Document:
    """A claim of a volume, which isn't bound; job: goes with it."""
    labels = {JOB: job} if job else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": {}},
        "spec": dict(spec),
        "status": {"phase": "Pending"},
    }


def using(document: Document, claim: str) -> Document:
    """The pod with one more volume, of this claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    volumes = [*document["spec"].get("volumes", ()), volume]
    return {**document, "spec": {**document["spec"], "volumes": volumes}}


def pod(workload: Workload, template: Template, name: str, uid: str, now: float) -> Document:
    """A pod that waits."""
    requests = dict(template.requests)
    ports = [{"containerPort": port, "hostPort": port} for port in template.ports]
    owner = {"apiVersion": "apps/v1", "kind": workload.kind, "name": workload.name}
    role = {ROLE: template.role} if template.role else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(
            name,
            uid=uid,
            namespace=workload.namespace,
            creationTimestamp=written(now),
            labels={"app": workload.name, **role, **template.labels},
            annotations={GROUP: workload.name, **role, **template.annotations},
            ownerReferences=[{**owner, "uid": f"owner-{workload.name}", "controller": True}],
        ),
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [
                {"name": "main", "resources": {"requests": requests}, "ports": ports},
            ],
            **template.spec,
        },
        "status": {"phase": "Pending"},
    }


def _metadata(name: str, **rest: Any) -> Document:
    return {"name": name, "uid": name, "creationTimestamp": written(BEGINNING - 3600), **rest}
