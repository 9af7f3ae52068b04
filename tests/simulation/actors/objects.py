"""The objects that actors create, as people would write them."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.actors.base import Object

BATCH = "scheduling.volcano.sh/v1beta1"
GROUP = "scheduling.k8s.io/group-name"
MINIMUM = "scheduling.volcano.sh/group-min-member"
QUEUE = "scheduling.volcano.sh/queue-name"
PREEMPTABLE = "volcano.sh/preemptable"
LEAVING = "vscheduler.io/leaving"
"""The annotation of PodGroups that the daemon is about to delete."""
WANTED_STATE = "vscheduler.io/wanted-state"
SECONDS = "simulation/seconds"
"""Annotation of pods that end by themselves: after about how long."""
FAILS = "simulation/fails"
"""Annotation of pods that may fail: how many of a hundred."""
HOST = "kubernetes.io/hostname"
CHOICES = {"zone": ("a", "b", "c"), "disk": ("ssd", "hdd")}
"""The labels of nodes that pods select by."""
GPU = "nvidia.com/gpu"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
CORDONED = "node.kubernetes.io/unschedulable"
TOLERATED_SECONDS = 60
"""How long pods stay on a node that isn't ready; the API server's default is five minutes."""
GRACE_SECONDS = 10
STORAGE_NAMESPACE = "storage"
"""Of the CSIStorageCapacities."""


def written(instant: float) -> str:
    """RFC 3339, to the second."""
    return dt.datetime.fromtimestamp(instant, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What pods are made from."""

    scheduler: str
    requests: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    restarts: bool = True
    """Whether the pod runs for ever: not a pod of a Job."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """All else of the pod's spec."""

    def written(self) -> Object:
        """A pod template."""
        tolerations = [
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECONDS,
            }
            for key in (NOT_READY, UNREACHABLE)
        ]
        more = dict(self.spec)
        more["tolerations"] = [*more.get("tolerations", ()), *tolerations]
        resources = {"requests": dict(self.requests)}
        if GPU in self.requests:
            resources["limits"] = {GPU: self.requests[GPU]}
        container = {"name": "main", "image": "none", "resources": resources}
        return {
            "metadata": {"labels": dict(self.labels), "annotations": dict(self.annotations)},
            "spec": {
                "schedulerName": self.scheduler,
                "restartPolicy": "Always" if self.restarts else "Never",
                "terminationGracePeriodSeconds": GRACE_SECONDS,
                "containers": [container],
                **more,
            },
        }


def pod(name: str, template: Mapping[str, Any], owner: Object | None = None) -> Object:
    """A pod from a template; of an owner, which controls it."""
    metadata = {
        "name": name,
        "labels": dict(template["metadata"].get("labels") or {}),
        "annotations": dict(template["metadata"].get("annotations") or {}),
    }
    if owner is not None:
        metadata["ownerReferences"] = [reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def reference(owner: Object) -> Object:
    """An owner reference."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def node(
    name: str,
    amounts: Mapping[str, str],
    labels: Mapping[str, str],
    taints: Sequence[Object] = (),
) -> Object:
    """A node that is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **labels}},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {
            "allocatable": dict(amounts),
            "capacity": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def queue(name: str, **spec: Any) -> Object:
    """A Queue."""
    return {"apiVersion": BATCH, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def pod_group(name: str, queue_name: str, minimum: int, **spec: Any) -> Object:
    """A PodGroup."""
    spec = {"minMember": minimum, "queue": queue_name, **spec}
    return {"apiVersion": BATCH, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def job(name: str, template: Template, parallelism: int, **more: Any) -> Object:
    """A Job."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism,
            "backoffLimit": 6,
            "template": template.written(),
            **more,
        },
    }


def workload(kind: str, name: str, template: Template, replicas: int, **more: Any) -> Object:
    """A Deployment, ReplicaSet or StatefulSet."""
    labels = {"app": name}
    made = template.written()
    made["metadata"]["labels"] |= labels
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": made,
            **more,
        },
    }


def budget(name: str, labels: Mapping[str, str], **spec: Any) -> Object:
    """A PodDisruptionBudget; spec has minAvailable or maxUnavailable."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": dict(labels)}, **spec},
    }


def priority_class(name: str, value: int) -> Object:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
