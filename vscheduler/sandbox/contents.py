"""Filling a sandbox: namespaces that pods can go into, and many nodes at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from vscheduler.mirror import paths
from vscheduler.sandbox import client, errors

POLL_SECONDS = 0.1


class NodeFields(TypedDict, total=False):
    """The fields of `NodeShape` as keywords."""

    prefix: str
    cpu: str
    memory: str
    pods: int
    extended: Mapping[str, str | int]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    unschedulable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """What the nodes of one batch have in common; they are called `<prefix>-<number>`."""

    prefix: str = "node"
    cpu: str = "32"
    memory: str = "128Gi"
    pods: int = 110
    extended: Mapping[str, str | int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    unschedulable: bool = False

    def node(self, number: int) -> client.Object:
        """One node of this shape, Ready from the start, so that kwok has less to do."""
        name = f"{self.prefix}-{number}"
        resources = {
            "cpu": self.cpu,
            "memory": self.memory,
            "pods": str(self.pods),
            **{key: str(value) for key, value in self.extended.items()},
        }
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self.labels,
        }
        spec: dict[str, Any] = {"taints": [dict(taint) for taint in self.taints]}
        if self.unschedulable:
            spec["unschedulable"] = True
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": dict(self.annotations)},
            "spec": spec,
            "status": {
                "allocatable": resources,
                "capacity": resources,
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "message": "pretended by the sandbox",
                    }
                ],
                "addresses": [{"type": "Hostname", "address": name}],
            },
        }


def create_nodes(
    api: client.Client,
    *,
    count: int,
    shape: NodeShape,
    first: int = 0,
) -> list[str]:
    """Create nodes and wait until all can take pods; give their names in order."""
    nodes = [shape.node(number) for number in range(first, first + count)]
    api.create_all(paths.NODES.everywhere, nodes)
    names = [node["metadata"]["name"] for node in nodes]
    _wait_until_usable(api, set(names), timeout_seconds=30 + count * 0.02)
    return names


def create_namespace(api: client.Client, name: str) -> None:
    """Make a namespace, unless it is there, and wait until pods may be created in it."""
    try:
        api.create(paths.NAMESPACES.everywhere, {"metadata": {"name": name}})
    except errors.ApiError as error:
        if error.status != 409:
            raise
    # Admission refuses pods until the controller has made the default service account.
    api.wait_for(paths.SERVICE_ACCOUNTS.at("default", name), lambda _: True)


def is_usable(node: client.Object) -> bool:
    """Tell whether a node is Ready and rid of the taint that new nodes get."""
    taints = node["spec"].get("taints") or []
    ready = (
        each["status"] == "True"
        for each in node["status"].get("conditions", [])
        if each["type"] == "Ready"
    )
    return any(ready) and all(taint["key"] != "node.kubernetes.io/not-ready" for taint in taints)


def _wait_until_usable(api: client.Client, names: set[str], *, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while True:
        usable = {
            node["metadata"]["name"] for node in api.list(paths.NODES.everywhere) if is_usable(node)
        }
        if names <= usable:
            return
        if time.monotonic() > deadline:
            missing = sorted(names - usable)
            raise errors.TimedOut(f"{len(missing)} nodes did not become ready: {missing[:5]}")
        # Listing thousands of nodes takes longer than waiting for a few.
        time.sleep(POLL_SECONDS + len(names) / 5000)
