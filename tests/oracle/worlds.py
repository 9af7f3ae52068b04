"""Clusters to judge pods in: how they are described, and how they come about on an API server."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sandbox import client
from sandbox.client import Client
from sandbox.control_plane import ControlPlane
from sandbox.errors import TimedOut
from tests.benchmarks import processes
from tests.oracle import judging, manifests, storage
from tests.oracle.judging import Judge

Document = manifests.Document

NODES = "/api/v1/nodes"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
LAST = "nz"
"""The node that is made last: who sees it has seen all others."""

MARK = "oracle.test/world"
"""A label of it, another one in each world."""

TRIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A cluster, and pods that aren't on a node: some to be judged, or some of a gang."""

    feature: str
    seed: int
    nodes: Sequence[Document]
    standing: Sequence[Document]
    """Pods on nodes. One with a deletionTimestamp is leaving; a status is what kubelets report."""
    waiting: Sequence[Document]
    groups: Sequence[Document] = field(default=())
    """The PodGroups of those that wait; the API server needn't know them."""
    storage: Sequence[Document] = field(default=())
    """Claims, volumes and what belongs to them, with their status. One with a deletionTimestamp is
    being deleted."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """A control plane with a judge, on which one world after the other is put."""

    api: Client
    judge: Judge
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def put(self, world: World) -> None:
        """The world's nodes and standing pods and nothing else, and the judge knows the nodes."""
        self.clear()
        client.in_parallel(self._create_node, world.nodes)
        self._meet()
        storage.put(self.api, world.storage)
        client.in_parallel(self._create_pod, world.standing)
        storage.settle(self.api, world.storage)

    def clear(self) -> None:
        """Pods and nodes of earlier worlds are gone."""
        paths = [f"/api/v1/namespaces/{name}/pods" for name in manifests.NAMESPACES]
        client.in_parallel(lambda path: self.api.delete(path, gracePeriodSeconds=0), paths)
        for node in self.api.list(NODES):
            if node["metadata"].get("finalizers"):
                path = f"{NODES}/{node['metadata']['name']}"
                self.api.patch(path, {"metadata": {"finalizers": None}})
        self.api.delete(NODES, gracePeriodSeconds=0)
        storage.clear(self.api)

    def documents(self) -> list[Document]:
        """The cluster as the API server has it."""
        found = []
        for kind, path in (("Namespace", "/api/v1/namespaces"), ("Node", NODES)):
            listed = self.api.list(path)
            found += [{"apiVersion": "v1", "kind": kind, **each} for each in listed]
        for name in manifests.NAMESPACES:
            listed = self.api.list(f"/api/v1/namespaces/{name}/pods")
            found += [{"apiVersion": "v1", "kind": "Pod", **each} for each in listed]
        return [*found, *storage.documents(self.api)]

    def _meet(self) -> None:
        """Wait until the judge knows all nodes: it hears of them apart from pods."""
        mark = str(next(self.numbers))
        last = manifests.node(LAST, {MARK: mark})
        del last["metadata"]["labels"][manifests.HOST]
        self._create_node(last)
        for number in range(TRIES):
            probe = manifests.pod(f"meets-{mark}-{number}")
            probe["spec"]["nodeSelector"] = {MARK: mark}
            (verdict,) = self.judge.ask([probe]).values()
            self.api.delete(manifests.pod_path(probe), gracePeriodSeconds=0)
            if verdict:
                return
        raise TimedOut("kube-scheduler doesn't see the nodes")

    def _create_node(self, node: Document) -> None:
        """As wished: the API server taints a new node, and deletes one when it is there."""
        leaves = "deletionTimestamp" in node["metadata"]
        wished = manifests.unmanaged(node)
        if leaves:
            wished["metadata"]["finalizers"] = ["oracle.test/stays"]
        created = self.api.create(NODES, wished)
        path = f"{NODES}/{node['metadata']['name']}"
        created["spec"]["taints"] = node["spec"].get("taints", [])
        self.api.replace(path, created)
        if leaves:
            self.api.delete(path)

    def _create_pod(self, pod: Document) -> None:
        self.api.create(manifests.pods_path(pod), manifests.unmanaged(pod))
        path = manifests.pod_path(pod)
        if "status" in pod:
            self.api.patch(f"{path}/status", {"status": pod["status"]})
        if "deletionTimestamp" in pod["metadata"]:
            self.api.delete(path, gracePeriodSeconds=manifests.GRACE_SECONDS)

    def create(self, pods: Iterable[Document]) -> None:
        """Pods that wait, or stand on a node."""
        client.in_parallel(self._create_pod, pods)

    def bind(self, pod: Document, node: str) -> None:
        """Put a pod that waits on a node."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
        self.api.create(f"{manifests.pod_path(pod)}/binding", binding)


@contextmanager
def stage(plane: ControlPlane) -> Iterator[Stage]:
    """A stage on a control plane that nobody else uses meanwhile.

    Controllers stand still: they would call claims lost that are there before their volumes are.
    """
    client.in_parallel(plane.create_namespace, manifests.NAMESPACES)
    for name, labels in manifests.NAMESPACES.items():
        plane.api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
    for name, amounts in manifests.OVERHEADS.items():
        metadata = {"name": name}
        described = {"metadata": metadata, "handler": "any", "overhead": {"podFixed": amounts}}
        described |= {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
        plane.api.apply(f"{RUNTIME_CLASSES}/{name}", described)
    controllers = plane.process_ids["kube-controller-manager"]
    with judging.start(plane) as judge, processes.paused([controllers]):
        found = Stage(api=plane.api, judge=judge)
        yield found
        found.clear()
    for name in manifests.OVERHEADS:
        plane.api.delete(f"{RUNTIME_CLASSES}/{name}")
