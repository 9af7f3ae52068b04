"""A small provisioner of volumes: it writes API objects as external-provisioner does, and nothing
else. The binder of claims and volumes beside it is kube-controller-manager's own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sandbox.client import Client, Object
from sandbox.control_plane import ControlPlane
from sandbox.errors import ApiError
from tests.integration import daemons
from tests.integration.background import Background
from vscheduler.mirror import paths

DRIVER = "csi.tests"
SLOW = "tests-waits"
"""A class whose claims wait for the first consumer."""
AT_ONCE = "tests-at-once"
LOCAL = "tests-local"
"""A class without a provisioner."""
NAMESPACE = "default"
SELECTED = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
HOST = "kubernetes.io/hostname"
POLL_SECONDS = 0.05
SIZE = "1Gi"


@dataclass(slots=True, kw_only=True)
class Behaviour:
    """How the provisioner behaves; may be changed while it runs."""

    holds: set[str] = field(default_factory=set)
    """Names of claims about which nothing happens."""
    dead: set[str] = field(default_factory=set)
    """Nodes for which nothing happens."""
    refused: set[str] = field(default_factory=set)
    """Nodes that are handed back."""
    handed_back: list[str] = field(default_factory=list)
    """Claims and nodes that were handed back: `claim node`."""


class Provisioner(Background):
    """Makes a volume for each claim whose node is selected."""

    def __init__(self, api: Client, behaviour: Behaviour) -> None:
        super().__init__(self._look_at_all, pause=POLL_SECONDS)
        self._api = api
        self._behaviour = behaviour

    def _look_at_all(self) -> None:
        for claim in self._api.list(paths.CLAIMS.within(NAMESPACE)):
            self._look(claim)

    def _look(self, claim: Object) -> None:
        metadata, known = claim["metadata"], claim["metadata"].get("annotations", {})
        node = known.get(SELECTED, "")
        waits = claim["spec"].get("storageClassName") == SLOW
        if (
            known.get(PROVISIONER) != DRIVER
            or claim["spec"].get("volumeName")
            or "deletionTimestamp" in metadata
            or metadata["name"] in self._behaviour.holds
            or node in self._behaviour.dead
            or (waits and not node)
        ):
            return
        try:
            if node in self._behaviour.refused:
                self._hand_back(claim, node)
            else:
                self._api.create(paths.VOLUMES.everywhere, provisioned(claim, node))
        except ApiError as error:
            if error.status not in (404, 409):  # somebody changed the claim meanwhile
                raise

    def _hand_back(self, claim: Object, node: str) -> None:
        name, version = claim["metadata"]["name"], claim["metadata"]["resourceVersion"]
        metadata = {"annotations": {SELECTED: None}, "resourceVersion": version}
        self._api.patch(paths.CLAIMS.at(name, NAMESPACE), {"metadata": metadata})
        self._behaviour.handed_back.append(f"{name} {node}")


def provisioned(claim: Object, node: str) -> dict[str, Any]:
    """The volume that is made for a claim, reached from one node unless that is empty."""
    metadata = claim["metadata"]
    reference = {key: metadata[key] for key in ("namespace", "name", "uid")}
    spec = {
        "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference},
        "csi": {"driver": DRIVER, "volumeHandle": metadata["uid"]},
        "persistentVolumeReclaimPolicy": "Retain",
        **({"nodeAffinity": on(node)} if node else {}),
    }
    return volume(f"pvc-{metadata['uid']}", claim["spec"]["storageClassName"], **spec)


def volume(name: str, storage_class: str, **spec: Any) -> dict[str, Any]:
    """A volume of the size that all claims ask for."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": SIZE},
            "storageClassName": storage_class,
            **spec,
        },
    }


def on(node: str) -> dict[str, Any]:
    """The node affinity of a volume that one node has."""
    expression = {"key": HOST, "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def create_classes(api: Client) -> None:
    """The three classes, and their driver."""
    for name, driver, mode in (
        (SLOW, DRIVER, "WaitForFirstConsumer"),
        (AT_ONCE, DRIVER, "Immediate"),
        (LOCAL, "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    ):
        body = {"apiVersion": paths.STORAGE, "kind": "StorageClass", "metadata": {"name": name}}
        more = {"provisioner": driver, "volumeBindingMode": mode}
        api.create(paths.STORAGE_CLASSES.everywhere, {**body, **more})


def create_disks(api: Client, nodes: Sequence[str], each: int) -> None:
    """So many local volumes on each node."""
    for node in nodes:
        for number in range(each):
            spec = {"local": {"path": f"/mnt/{number}"}, "nodeAffinity": on(node)}
            body = volume(f"disk-{node}-{number}", LOCAL, **spec)
            api.create(paths.VOLUMES.everywhere, body)


@contextmanager
def provisioning(api: Client) -> Iterator[Behaviour]:
    """Classes, and a provisioner for the time of the block."""
    create_classes(api)
    behaviour = Behaviour()
    running = Provisioner(api, behaviour)
    running.start()
    try:
        yield behaviour
    finally:
        running.stop()


def a_claim(name: str, storage_class: str) -> dict[str, Any]:
    """A claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": SIZE}},
            "storageClassName": storage_class,
        },
    }


def a_gang(cluster: ControlPlane, name: str, classes: Sequence[str], cpu: str = "1") -> None:
    """A gang that needs all its pods, one for each class named, each with a claim of that class;
    no claim where the name is empty.
    """
    group = {"apiVersion": paths.VOLCANO, "kind": "PodGroup", "metadata": {"name": name}}
    cluster.api.create(daemons.GROUPS, {**group, "spec": {"minMember": len(classes)}})
    for number, storage_class in enumerate(classes):
        own = f"{name}-{number}"
        if storage_class:
            claims = paths.CLAIMS.within(NAMESPACE)
            cluster.api.create(claims, a_claim(own, storage_class))
        cluster.api.create(daemons.PODS, a_pod(own, name, own if storage_class else "", cpu))


def a_pod(name: str, group: str, claim: str, cpu: str = "1") -> dict[str, Any]:
    """A pod of a gang, with a claim or without one."""
    used = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {
            "name": name,
            "annotations": {daemons.GROUP_NAME: group},
            "labels": {"app": group},
        },
        "spec": {
            "schedulerName": "vscheduler",
            "containers": [container],
            **({"volumes": [used]} if claim else {}),
        },
    }


def claims(api: Client) -> dict[str, Object]:
    """All claims by name."""
    return {each["metadata"]["name"]: each for each in api.list(paths.CLAIMS.within(NAMESPACE))}


def bound(api: Client) -> set[str]:
    """Names of the claims that are bound."""
    return {name for name, each in claims(api).items() if each["status"]["phase"] == "Bound"}


def misplaced(api: Client) -> list[str]:
    """Pods on nodes that have a claim which isn't bound, or a volume on another node."""
    held = claims(api)
    volumes = {each["metadata"]["name"]: each for each in api.list(paths.VOLUMES.everywhere)}
    found = []
    for pod in api.list(daemons.PODS):
        node = pod["spec"].get("nodeName")
        for each in pod["spec"].get("volumes") or () if node else ():
            if "persistentVolumeClaim" not in each:
                continue
            name = each["persistentVolumeClaim"]["claimName"]
            claim = held.get(name)
            if claim is None or claim["status"]["phase"] != "Bound":
                found.append(f"{pod['metadata']['name']} is on {node}, and {name} isn't bound")
                continue
            spec = volumes[claim["spec"]["volumeName"]]["spec"]
            if "nodeAffinity" in spec and spec["nodeAffinity"] != on(node):
                found.append(f"{pod['metadata']['name']} is on {node}, and its volume isn't")
    return found


def leftovers(api: Client) -> list[str]:
    """Volumes that are reserved, and claims with a node, for which no pod waits."""
    waiting = {
        each["persistentVolumeClaim"]["claimName"]
        for pod in api.list(daemons.PODS)
        if not pod["spec"].get("nodeName")
        for each in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in each
    }
    held = claims(api)
    idle = {name for name, each in held.items() if each["status"]["phase"] != "Bound"} - waiting
    found = [
        f"claim {name} has a node"
        for name in sorted(idle)
        if SELECTED in held[name]["metadata"].get("annotations", {})
    ]
    for each in api.list(paths.VOLUMES.everywhere):
        reference = each["spec"].get("claimRef")
        if reference and each["status"]["phase"] == "Available" and reference["name"] in idle:
            found.append(f"volume {each['metadata']['name']} is reserved")
    return found
