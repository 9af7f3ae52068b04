"""Queues and PodGroups as an API server has them, and a source of them that tests drive."""

import queue
from collections.abc import Iterator
from typing import Any

from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import Change, ClusterError, Kind, Listing, Object

CREATED = "2026-01-01T00:00:00Z"
NOW = 1767225600.0 + 300
"""Five minutes after all of them were created."""

WHY = "25 of 75 usable CPU: weight 1 of 3 that want more; control-plane not usable: taint dedicated"
FIGURES = {
    "state": "Open",
    "allocated": {"cpu": "24", "memory": "96Gi"},
    "deserved": {"cpu": "25", "memory": "100Gi"},
    "request": {"cpu": "32", "memory": "128Gi"},
    "realCapability": {"cpu": "75"},
    "share": 0.96,
    "conditions": [
        {"type": "vscheduler/FairShare", "status": "True", "reason": "Weight", "message": WHY}
    ],
}
"""A status as a scheduler writes it."""


def a_queue(name: str, *, status: dict[str, Any] | None = None, **spec: Any) -> Object:
    """A Queue."""
    made: Object = {
        "apiVersion": cluster_client.API,
        "kind": "Queue",
        "metadata": {"name": name, "creationTimestamp": CREATED, "managedFields": [{}]},
        "spec": {"weight": 1, **spec},
    }
    return made if status is None else {**made, "status": status}


def a_group(
    name: str, queue_name: str, phase: str = "Pending", why: str = "", created: str = CREATED
) -> Object:
    """A PodGroup, which waits if it says why."""
    conditions = [
        {"type": "Scheduled", "status": "True", "message": "not this one"},
        {"type": "Unschedulable", "status": "True" if why else "False", "message": why or "was"},
    ]
    return {
        "apiVersion": cluster_client.API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": created},
        "spec": {"queue": queue_name},
        "status": {"phase": phase, "conditions": conditions},
    }


def a_native_group(name: str, queue_name: str, phase: str = "Pending", why: str = "") -> Object:
    """A PodGroup of Kubernetes' own API, which waits if it says why."""
    conditions = [{"type": "vscheduler.io/Phase", "reason": phase}]
    if why:
        told = {"type": "vscheduler.io/Unschedulable", "status": "True", "message": why}
        conditions.append(told)
    annotations = {"scheduling.volcano.sh/queue-name": queue_name} if queue_name else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team", "annotations": annotations},
        "status": {"conditions": conditions},
    }


class Fake:
    """A cluster of plain objects; what is put into a script happens in a watch."""

    def __init__(self, queues: list[Object], groups: list[Object]) -> None:
        self.items = {Kind.QUEUE: queues, Kind.POD_GROUP: groups, Kind.NATIVE_POD_GROUP: []}
        self.refusals: dict[Kind, list[ClusterError | None]] = {}
        """What lists raise, one after the other; None is a list that goes well."""
        self.script: queue.Queue[Change | ClusterError | None] = queue.Queue()
        """What the watch of queues tells; None ends it, an error is raised."""
        self.asked: list[str] = []

    def list(self, kind: Kind) -> Listing:
        """All of a kind."""
        self.asked.append(kind)
        refusals = self.refusals.get(kind)
        refusal = refusals.pop(0) if refusals else None
        if refusal is not None:
            raise refusal
        return Listing(items=list(self.items[kind]), version="1")

    def queue(self, name: str) -> Object | None:
        """One of them."""
        found = {each["metadata"]["name"]: each for each in self.items[Kind.QUEUE]}
        return found.get(name)

    def watch(self, kind: Kind, version: str) -> Iterator[Change]:
        """What the script says, for queues; nothing ever happens to PodGroups."""
        assert version == "1"
        script = self.script if kind is Kind.QUEUE else queue.Queue()
        while (found := script.get()) is not None:
            if isinstance(found, ClusterError):
                raise found
            yield found
