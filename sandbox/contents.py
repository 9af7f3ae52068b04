"""Contents of a sandbox: namespaces, nodes in bulk, and cleanup after tests.

Cleanup deletes all objects created by tests; namespaces and CRDs stay.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from sandbox import client, definitions
from sandbox.client import Client, Object
from sandbox.errors import ApiError, TimedOut
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection, Path

POLL_SECONDS = 0.1

CLEAN_TIMEOUT_SECONDS = 180.0

CLEAN_POLL_SECONDS = 0.05

METADATA_ONLY = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}

# Deleted before pods, so that no controller creates new pods.
WORKLOADS = (
    paths.CRON_JOBS,
    paths.JOBS,
    paths.DEPLOYMENTS,
    paths.STATEFUL_SETS,
    paths.DAEMON_SETS,
    paths.REPLICA_SETS,
)

NAMESPACED = (
    paths.PODS,
    paths.BUDGETS,
    paths.QUOTAS,
    paths.LIMIT_RANGES,
    paths.CLAIMS,
    paths.CAPACITIES,
    paths.RESOURCE_CLAIMS,
    paths.RESOURCE_CLAIM_TEMPLATES,
    paths.LEASES,
    paths.CORE_EVENTS,
)

CLUSTER_WIDE = (
    paths.NODES,
    paths.VOLUMES,
    paths.STORAGE_CLASSES,
    paths.CSI_NODES,
    paths.CSI_DRIVERS,
    paths.ATTACHMENTS,
    paths.RESOURCE_SLICES,
    paths.DEVICE_CLASSES,
    paths.PRIORITY_CLASSES,
)


NATIVE_VERSION = "scheduling.k8s.io/v1beta1"

NATIVE_POD_GROUPS = Collection(api_version=NATIVE_VERSION, kind="PodGroup", plural="podgroups")

NATIVE_WORKLOADS = Collection(api_version=NATIVE_VERSION, kind="Workload", plural="workloads")

NATIVE_COMPOSITES = Collection(
    api_version="scheduling.k8s.io/v1alpha3", kind="CompositePodGroup", plural="compositepodgroups"
)

# Kubernetes' own gang API, which a sandbox only serves on request.
NATIVE = (NATIVE_POD_GROUPS, NATIVE_COMPOSITES, NATIVE_WORKLOADS)


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


class NodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """The common properties of a batch of nodes, named `<prefix>-<number>`."""

    prefix: str = "node"
    cpu: str = "32"
    memory: str = "128Gi"
    pods: int = 110
    extended: Mapping[str, str | int] = msgspec.field(default_factory=dict)
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    unschedulable: bool = False

    def node(self, number: int) -> Object:
        """Return a node of this shape, Ready from the start to save work for kwok."""
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
    client: Client,
    *,
    count: int,
    shape: NodeShape,
    first: int = 0,
) -> list[str]:
    """Create nodes and wait until all accept pods; return their names in order."""
    nodes = [shape.node(number) for number in range(first, first + count)]
    client.create_all(paths.NODES.everywhere, nodes)
    names = [node["metadata"]["name"] for node in nodes]
    _wait_until_usable(client, set(names), timeout_seconds=30 + count * 0.02)
    return names


def create_namespace(client: Client, name: str) -> None:
    """Create a namespace if missing, and wait until the namespace accepts pods."""
    try:
        client.create(paths.NAMESPACES.everywhere, {"metadata": {"name": name}})
    except ApiError as error:
        if error.status != 409:
            raise
    # Admission refuses pods until the controller has made the default service account.
    client.wait_for(paths.SERVICE_ACCOUNTS.at("default", name), lambda _: True)


def is_usable(node: Object) -> bool:
    """Whether a node is Ready and free of the taint of new nodes."""
    taints = node["spec"].get("taints") or []
    ready = (
        each["status"] == "True"
        for each in node["status"].get("conditions", [])
        if each["type"] == "Ready"
    )
    return any(ready) and all(taint["key"] != "node.kubernetes.io/not-ready" for taint in taints)


def _wait_until_usable(client: Client, names: set[str], *, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while True:
        usable = {
            node["metadata"]["name"]
            for node in client.list(paths.NODES.everywhere)
            if is_usable(node)
        }
        if names <= usable:
            return
        if time.monotonic() > deadline:
            missing = sorted(names - usable)
            raise TimedOut(f"{len(missing)} nodes did not become ready: {missing[:5]}")
        # Listing thousands of nodes takes longer than waiting for a few.
        time.sleep(POLL_SECONDS + len(names) / 5000)


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """An object to delete."""

    collection: Collection
    namespace: str
    name: str
    finalizers: bool

    @property
    def collection_path(self) -> Path:
        """The path of the collection in the object's namespace, for a bulk delete."""
        where = self.collection
        return where.within(self.namespace) if self.namespace else where.everywhere

    @property
    def path(self) -> Path:
        """The path of the object."""
        return self.collection.at(self.name, self.namespace)


def clean(client: Client, *, timeout_seconds: float = CLEAN_TIMEOUT_SECONDS) -> None:
    """Delete everything, in rounds until nothing is left, for controllers may still create
    objects.
    """
    deadline = time.monotonic() + timeout_seconds
    custom = definitions.collections(client)
    later = (*NAMESPACED, *NATIVE, *CLUSTER_WIDE, *custom)
    while True:
        workloads = list(find_leftovers(client, WORKLOADS))
        _delete(client, workloads)
        others = list(find_leftovers(client, later))
        _delete(client, others)
        if not workloads and not others:
            return
        if time.monotonic() > deadline:
            names = [leftover.path for leftover in (*workloads, *others)][:10]
            raise TimedOut(f"not clean after {timeout_seconds:.0f} s: {names}")
        time.sleep(CLEAN_POLL_SECONDS)


def find_leftovers(api: Client, collections: Iterable[Collection]) -> Iterator[Leftover]:
    """Iterate over objects that tests left in these collections, in all namespaces."""
    found: dict[Collection, list[Object]] = {}

    def look(collection: Collection) -> None:
        try:
            answer = api.request("GET", collection.everywhere, headers=METADATA_ONLY)
        except ApiError as error:
            if error.status != 404:  # not served: the gang API, or a CRD in deletion
                raise
        else:
            found[collection] = answer.body["items"]

    client.in_parallel(look, collections)
    for collection, items in found.items():
        for item in items or ():
            metadata = item["metadata"]
            leftover = Leftover(
                collection=collection,
                namespace=metadata.get("namespace", ""),
                name=metadata["name"],
                finalizers=bool(metadata.get("finalizers")),
            )
            if not _belongs_to_the_system(leftover):
                yield leftover


def _belongs_to_the_system(leftover: Leftover) -> bool:
    if leftover.collection == paths.PRIORITY_CLASSES:
        return leftover.name.startswith("system-")
    # Leases of API servers and of nodes.
    return leftover.collection == paths.LEASES and leftover.namespace.startswith("kube-")


def _delete(api: Client, leftovers: list[Leftover]) -> None:
    """Delete whole collections where possible, otherwise single objects; remove finalizers."""
    single = [leftover for leftover in leftovers if leftover.collection == paths.PRIORITY_CLASSES]
    whole = {leftover.collection_path for leftover in leftovers if leftover not in single}
    options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    client.in_parallel(lambda path: api.delete(path, **options), sorted(whole))
    client.in_parallel(lambda each: api.delete(each.path, **options), single)
    held = (leftover for leftover in leftovers if leftover.finalizers)
    client.in_parallel(lambda each: _strip_finalizers(api, each), held)


def _strip_finalizers(client: Client, leftover: Leftover) -> None:
    try:
        client.patch(leftover.path, {"metadata": {"finalizers": None}})
    except ApiError as error:
        if error.status not in {404, 409, 422}:  # gone or changed meanwhile: next round
            raise
