"""Short manifests for examples that are worked out by hand."""

from collections.abc import Mapping
from typing import Any

from tests.properties.filters_by_hand import judging, worlds

Document = dict[str, Any]
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GONE = "2026-01-01T00:00:00Z"


def node(name: str, zone: str = "", *, spec: Document | None = None, **status: Any) -> Document:
    """4 cpu, 8Gi and 10 pods, unless the status says otherwise."""
    labels = {HOST: name} | ({"zone": zone} if zone else {})
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec or {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, **status},
    }


def pod(
    name: str, on: str = "", *, labels: Mapping[str, str] | None = None, **spec: Any
) -> Document:
    """One container that asks for nothing, unless the spec says otherwise."""
    home, _, short = name.rpartition("/")
    metadata: Document = {"name": short, "namespace": home or "default", "labels": labels or {}}
    found = {"containers": [{"name": "main"}]} | spec | ({"nodeName": on} if on else {})
    return {"kind": "Pod", "metadata": metadata, "spec": found, "status": {}}


def gone(of: Document) -> Document:
    """The same pod while it is being deleted."""
    return {**of, "metadata": {**of["metadata"], "deletionTimestamp": GONE}}


def asking(**requests: str) -> list[Document]:
    """One container with these requests."""
    named = {name.replace("_", "/"): amount for name, amount in requests.items()}
    return [{"name": "main", "resources": {"requests": named}}]


def term(app: str = "a", key: str = "zone", **more: Any) -> Document:
    """About pods of this app."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key} | more


def near(*terms: Document) -> Document:
    """Required affinity."""
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Document) -> Document:
    """Required anti-affinity."""
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def spread(skew: int = 1, app: str = "a", **more: Any) -> list[Document]:
    """Over zones, hard."""
    return [
        {
            "maxSkew": skew,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
        | more
    ]


def on_affinity(*terms: Document) -> Document:
    """Required node affinity."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def asks(key: str, operator: str, *values: str) -> Document:
    """A term of one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def takers(*documents: Document) -> list[str]:
    """Which nodes take the last of these, a pod, at once."""
    return judging.startable(documents, worlds.key_of(documents[-1]))


TWO = (node("n0", "x"), node("n1", "y"))
A = {"app": "a"}
B = {"app": "b"}
