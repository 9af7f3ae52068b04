"""Nodes and pods in short, and what the oracle calls things."""

from collections.abc import Mapping, Sequence
from typing import Any

Document = dict[str, Any]

ORACLE = "oracle"
"""The schedulerName of pods that kube-scheduler is asked about."""

ELDER = "elder"
"""That of kube-scheduler's own pods, some of which wait for a node that is kept for them."""

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
UNMANAGED = {
    "vscheduler.sandbox/unmanaged": "true",
    "vscheduler.sandbox/terminates-after": "86400s",
}
"""Annotations by which nothing happens to a node or pod but what the test does."""

GRACE_SECONDS = 86400
NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "oracle-a": {"team": "red", "env": "prod", "resource.kubernetes.io/admin-access": "true"},
    "oracle-b": {"team": "blue", "env": "prod"},
    "oracle-c": {},
}
HOMES = ("oracle-a", "oracle-a", "oracle-b", "oracle-c")
OVERHEADS: Mapping[str, Mapping[str, str]] = {
    "oracle-light": {"cpu": "100m", "memory": "64Mi"},
    "oracle-heavy": {"cpu": "1", "example.com/gpu": "1"},
}
"""What runtime classes add to a pod, by name."""

ROOM = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "100Gi", "pods": "110"}
LEAVING = "2100-01-01T00:00:00Z"
"""The deletionTimestamp of what is to be deleted before pods are judged."""


def node(name: str, labels: Mapping[str, str] | None = None, **room: str) -> Document:
    """A node that is ready and has room for everything, unless said otherwise."""
    amounts = ROOM | room
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **(labels or {})}},
        "spec": {"taints": []},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, namespace: str = "oracle-a", **labels: str) -> Document:
    """A pod of one container that asks for nothing."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [container("main")],
        },
    }


def container(name: str, **fields: Any) -> Document:
    """A container."""
    return {"name": name, "image": "pretended", **fields}


def unmanaged(document: Document) -> Document:
    """The same, but that kwok leaves it alone, and whether it is leaving is for the test to do."""
    metadata = {
        name: value for name, value in document["metadata"].items() if name != "deletionTimestamp"
    }
    metadata["annotations"] = {**metadata.get("annotations", {}), **UNMANAGED}
    return {**document, "metadata": metadata}


def key(document: Document) -> str:
    """`namespace/name`."""
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


def pods_path(document: Document) -> str:
    """The collection that a pod belongs to."""
    return f"/api/v1/namespaces/{document['metadata']['namespace']}/pods"


def pod_path(document: Document) -> str:
    """The pod itself."""
    return f"{pods_path(document)}/{document['metadata']['name']}"


def group(namespace: str, name: str, minimum: int = 1) -> Document:
    """A PodGroup that is let in."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queue": "q", "minMember": minimum},
        "status": {"phase": "Inqueue"},
    }


QUEUE: Document = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {"weight": 1},
    "status": {"state": "Open"},
}


def named(documents: Sequence[Document], kind: str) -> dict[str, Document]:
    """The documents of a kind by name."""
    return {
        document["metadata"]["name"]: document for document in documents if document["kind"] == kind
    }
