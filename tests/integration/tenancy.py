"""What tests of the Queue controller look at, and what they make."""

from typing import Any

from sandbox.client import Object
from sandbox.control_plane import ControlPlane
from tests.integration import daemons

STATE = "vscheduler.io/wanted-state"
MARK = "volcano.sh/closed-by-parent"
IN_USE = "vscheduler.io/in-use"
COUNTERS = ("pending", "inqueue", "running", "unknown", "completed")


def queue_of(cluster: ControlPlane, name: str) -> Object:
    """A Queue as it is stored; empty where there is none."""
    return cluster.api.find(f"{daemons.QUEUES}/{name}") or {}


def state_of(cluster: ControlPlane, name: str) -> str:
    """The state of a Queue."""
    return str(queue_of(cluster, name).get("status", {}).get("state", ""))


def told(cluster: ControlPlane, name: str) -> dict[str, tuple[str, str]]:
    """Reason and message of the controller's conditions on a Queue, by type."""
    conditions = queue_of(cluster, name).get("status", {}).get("conditions", [])
    return {
        condition["type"].removeprefix("vscheduler.io/"): (
            condition["reason"],
            condition["message"],
        )
        for condition in conditions
        if condition["type"].startswith("vscheduler.io/")
    }


def marks_of(cluster: ControlPlane, name: str) -> str | None:
    """What says that a Queue is closed by one above it."""
    annotations = queue_of(cluster, name)["metadata"].get("annotations", {})
    return str(annotations[MARK]) if MARK in annotations else None


def a_child(cluster: ControlPlane, name: str, parent: str, **spec: Any) -> None:
    """A Queue below another."""
    daemons.a_queue(cluster, name)
    cluster.api.patch(f"{daemons.QUEUES}/{name}", {"spec": {"parent": parent, **spec}})


def wish(cluster: ControlPlane, name: str, state: str | None) -> None:
    """Annotate a Queue with the state that its owner wants."""
    body = {"metadata": {"annotations": {STATE: state}}}
    cluster.api.patch(f"{daemons.QUEUES}/{name}", body)


def counts_of(cluster: ControlPlane, name: str) -> tuple[int, ...]:
    """How many PodGroups the status says that the Queue holds, by phase."""
    status = queue_of(cluster, name).get("status", {})
    return tuple(status.get(each, -1) for each in COUNTERS)


def versions(cluster: ControlPlane) -> dict[str, str]:
    """The version of each Queue."""
    return {
        each["metadata"]["name"]: each["metadata"]["resourceVersion"]
        for each in cluster.api.list(daemons.QUEUES)
    }


def a_group(cluster: ControlPlane, name: str, queue: str, phase: str = "") -> None:
    """A PodGroup without pods, of another scheduler, in this phase."""
    cluster.api.create(
        daemons.GROUPS,
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": name,
                "annotations": {"scheduling.volcano.sh/scheduler-name": "another"},
            },
            "spec": {"minMember": 1, "queue": queue},
            **({"status": {"phase": phase}} if phase else {}),
        },
    )
