"""Provisioners of volumes: slow, failing, and refusing nodes; and the disks of the nodes."""

import random
from dataclasses import dataclass
from typing import Any, Literal

from tests.simulation.actors import base, objects
from tests.simulation.actors.base import Actor, Clock, Object
from tests.simulation.actors.informers import Store, path, path_of
from tests.simulation.actors.storage import (
    CLAIMS,
    CLASSES,
    PROVISIONED,
    PROVISIONER,
    VOLUMES,
    StorageController,
)
from tests.simulation.api_server.client import Client
from tests.simulation.judges import objects as reading
from tests.simulation.judges import volumes

GIB = 1024**3
RETRY_SECONDS = (2.0, 20.0)
CALM_SECONDS = 5.0
"""How long provisioning takes at most, once the world is calm."""
RECYCLE_SECONDS = (2.0, 30.0)
LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A storage class, and who provisions it."""

    name: str
    waits: bool
    """Whether it waits for the first consumer."""
    reach: Literal["zone", "node", "cluster"]
    """From where a volume is reached."""
    zones: tuple[str, ...] = ()
    """Where volumes can be provisioned; nowhere in particular if empty."""
    node_gibibytes: int = 0
    """How much each node has, told by CSIStorageCapacities; 0 is unlimited."""

    @property
    def driver(self) -> str:
        """The CSI driver."""
        return f"{self.name}.csi.sim"


KINDS = (
    Kind(name="zonal", waits=True, reach="zone"),
    Kind(name="picky", waits=True, reach="zone", zones=("a", "b")),
    Kind(name="nodal", waits=True, reach="node", node_gibibytes=12),
    Kind(name="network", waits=False, reach="cluster"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How much of the work uses volumes, and how badly provisioners work."""

    part: float = 0.0
    """The part of the workloads that use claims; 0 is a world without storage."""
    seconds: float = 1.0
    """How long provisioning takes, on average."""
    failing: float = 0.0
    """The part of the attempts that fail, and are repeated."""
    refusing: float = 0.0
    """The part of the attempts after which a node is handed back."""
    stuck: float = 0.0
    """The part of the claims about which nothing happens for a long time."""
    limit: int | None = None
    """How many volumes of a driver a node can have."""
    local: int = 2
    """Local volumes on each node."""
    delete_seconds: float = 300.0
    """How often somebody deletes a claim, or takes a volume away."""


STUCK_SECONDS = (650.0, 900.0)


class Trouble(Actor):
    """What goes wrong with provisioning, until the world calms down."""

    restless = True

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, storage: Storage
    ) -> None:
        super().__init__(client, clock, chance)
        self._storage = storage

    def strikes(self, part: float) -> bool:
        """Whether something goes wrong now that does so in a part of all cases."""
        return self.active and self.chance.random() < part

    def seconds(self, average: float) -> float:
        """How long an attempt takes."""
        drawn = self.chance.expovariate(1 / average)
        return drawn if self.active else min(drawn, CALM_SECONDS)

    def stuck_seconds(self) -> float:
        """How long nothing happens about a claim; mostly 0."""
        return self.chance.uniform(*STUCK_SECONDS) if self.strikes(self._storage.stuck) else 0.0


class Provisioner(StorageController):
    """Makes volumes for the claims of one class, as external-provisioner does."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        store: Store,
        offer: Kind,
        storage: Storage,
        trouble: Trouble | None,
    ) -> None:
        super().__init__(client, clock, chance, store=store)
        self._kind = offer
        self._storage = storage
        self._trouble = trouble
        self._resting: dict[str, float] = {}
        """Until when nothing happens about a claim, by UID."""
        store.on(CLAIMS, self._claim)
        store.on(VOLUMES, self._volume)
        if offer.node_gibibytes:
            store.on("nodes", self._node)

    def reconcile(self, plural: str, found: Object) -> None:
        """Provision a claim, delete a volume, or tell what a node has left."""
        if plural == CLAIMS:
            self._provision(found)
        elif plural == VOLUMES:
            self._delete(found)
        else:
            self._tell_capacity(found["metadata"]["name"])

    def _claim(self, before: Object | None, after: Object | None) -> None:
        del before
        if after is not None and self._is_mine(after):
            uid = after["metadata"]["uid"]
            if uid not in self._resting:
                rest = self._trouble.stuck_seconds() if self._trouble else 0.0
                self._resting[uid] = self.clock.now() + rest
            pause = self._trouble.seconds(self._storage.seconds) if self._trouble else None
            self.mark(CLAIMS, reading.key_of(after), pause)

    def _volume(self, before: Object | None, after: Object | None) -> None:
        found = after or before
        assert found is not None
        if reading.annotations(found).get(PROVISIONED) != self._kind.driver:
            return
        if after is not None and reading.phase(after) == "Released":
            self.mark(VOLUMES, reading.key_of(after))
        if self._kind.node_gibibytes and (before is None or after is None):
            for node in self.store.all("nodes"):
                if volumes.reaches(found, node):
                    self.mark("nodes", reading.key_of(node), self.chance.uniform(0.1, 3.0))

    def _node(self, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None:
            self.mark("nodes", reading.key_of(after))

    def _is_mine(self, claim: Object) -> bool:
        """Whether it is this provisioner's turn."""
        if claim["spec"].get("volumeName") or reading.leaving(claim):
            return False
        known = reading.annotations(claim)
        if known.get(PROVISIONER) != self._kind.driver:
            return False
        return bool(not self._kind.waits or volumes.selected(claim))

    def _provision(self, claim: Object) -> None:
        key, uid = reading.key_of(claim), claim["metadata"]["uid"]
        if not self._is_mine(claim):
            return
        if self._strikes(1.0) and self._resting.get(uid, 0.0) > self.clock.now():
            self.mark(CLAIMS, key, self.chance.uniform(5, 30))
            return
        if self._strikes(self._storage.failing):
            self.mark(CLAIMS, key, self.chance.uniform(*RETRY_SECONDS))
            return
        name = volumes.selected(claim)
        node = self.store.get("nodes", ("", name)) if self._kind.waits else None
        if self._kind.waits and (node is None or self._refuses(claim, node)):
            self._hand_back(claim)
            return
        self.attempt(lambda: self.client.create(path(VOLUMES), self._made(claim, node)))
        if self.refused in base.TRANSIENT:
            self.mark(CLAIMS, key, base.RETRY_SECONDS)

    def _strikes(self, part: float) -> bool:
        return self._trouble is not None and self._trouble.strikes(part)

    def _refuses(self, claim: Object, node: Object) -> bool:
        if self._strikes(self._storage.refusing):
            return True
        if self._kind.zones and reading.labels(node).get("zone") not in self._kind.zones:
            return True
        whole = self._kind.node_gibibytes * GIB
        return bool(whole) and volumes.size(claim) > whole - self._used(node)

    def _hand_back(self, claim: Object) -> None:
        """The node that was selected won't do: the scheduler is to find another."""
        annotations = {"annotations": {volumes.SELECTED: None}}
        self.change(CLAIMS, claim, {"metadata": annotations})

    def _used(self, node: Object) -> int:
        return sum(
            volumes.size(each)
            for each in self.store.all(VOLUMES)
            if reading.annotations(each).get(PROVISIONED) == self._kind.driver
            and volumes.reaches(each, node)
        )

    def _made(self, claim: Object, node: Object | None) -> Object:
        namespace, name = reading.key_of(claim)
        uid = claim["metadata"]["uid"]
        spec: Object = {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": dict(claim["spec"]["resources"]["requests"]),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
            "csi": {"driver": self._kind.driver, "volumeHandle": uid},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": self._kind.name,
            "volumeMode": claim["spec"]["volumeMode"],
        }
        if node is not None:
            label = objects.HOST if self._kind.reach == "node" else "zone"
            spec["nodeAffinity"] = affinity(label, reading.labels(node).get(label, ""))
        metadata = {"name": f"pvc-{uid}", "annotations": {PROVISIONED: self._kind.driver}}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": metadata,
            "spec": spec,
        }

    def _delete(self, volume: Object) -> None:
        if reading.phase(volume) == "Released" and not reading.leaving(volume):
            where, uid = path_of(VOLUMES, volume), volume["metadata"]["uid"]
            self.insist(lambda: self.client.delete(where, preconditions={"uid": uid}))

    def _tell_capacity(self, name: str) -> None:
        node = self.store.get("nodes", ("", name))
        where = path("csistoragecapacities", objects.STORAGE_NAMESPACE)
        own = f"{self._kind.name}-{name}"
        if node is None:
            return
        left = max(0, self._kind.node_gibibytes * GIB - self._used(node))
        known = self.store.get("csistoragecapacities", (objects.STORAGE_NAMESPACE, own))
        if known is None:
            body = {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIStorageCapacity",
                "metadata": {"name": own},
                "storageClassName": self._kind.name,
                "nodeTopology": {"matchLabels": {objects.HOST: name}},
                "capacity": str(left),
            }
            self.attempt(lambda: self.client.create(where, body))
        elif known.get("capacity") != str(left):
            self.attempt(lambda: self.client.patch(f"{where}/{own}", {"capacity": str(left)}))


def affinity(label: str, value: str) -> Object:
    """The nodes that have a label."""
    term = {"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


class Disks(StorageController):
    """The local volumes of the nodes, which are emptied and offered again after each use; and what
    drivers can do there (CSINode).
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        store: Store,
        storage: Storage,
    ) -> None:
        super().__init__(client, clock, chance, store=store)
        self._storage = storage
        store.on("nodes", self._node)
        store.on(VOLUMES, self._volume)

    def reconcile(self, plural: str, found: Object) -> None:
        """Look at a node, or at a volume that was used."""
        if plural == VOLUMES:
            where, uid = path_of(VOLUMES, found), found["metadata"]["uid"]
            if reading.phase(found) == "Released" and not reading.leaving(found):
                self.insist(lambda: self.client.delete(where, preconditions={"uid": uid}))
            return
        name = found["metadata"]["name"]
        if self.store.get("csinodes", ("", name)) is None:
            self._create("csinodes", self._drivers(name))
        for number in range(self._storage.local):
            own = f"{LOCAL}-{name}-{number}"
            if self.store.get(VOLUMES, ("", own)) is None:
                self._create(VOLUMES, local_volume(own, name, f"{2 + 2 * (number % 2)}Gi"))

    def _create(self, plural: str, body: Object) -> None:
        self.insist(lambda: self.client.create(path(plural), body))

    def _drivers(self, name: str) -> Object:
        limit = self._storage.limit
        allocatable: Any = {"allocatable": {"count": limit}} if limit is not None else {}
        drivers = [
            {"name": each.driver, "nodeID": name, "topologyKeys": [objects.HOST], **allocatable}
            for each in KINDS
        ]
        body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}}
        return {**body, "spec": {"drivers": drivers}}

    def _node(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:
            where = path("csinodes", name=before["metadata"]["name"])
            self.later(0.5, lambda: self.insist(lambda: self.client.delete(where)))
        elif before is None and after is not None:
            self.mark("nodes", reading.key_of(after))

    def _volume(self, before: Object | None, after: Object | None) -> None:
        found = after or before
        assert found is not None
        if volumes.class_of(found) != LOCAL:
            return
        if after is None:
            name = found["metadata"]["name"].removeprefix(f"{LOCAL}-").rpartition("-")[0]
            self.mark("nodes", ("", name), self.chance.uniform(*RECYCLE_SECONDS))
        elif reading.phase(after) == "Released":
            self.mark(VOLUMES, reading.key_of(after), self.chance.uniform(*RECYCLE_SECONDS))


def local_volume(name: str, node: str, size: str) -> Object:
    """A disk of a node."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "local": {"path": f"/mnt/{name}"},
            "nodeAffinity": affinity(objects.HOST, node),
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": LOCAL,
        },
    }


def storage_classes() -> list[tuple[str, Object]]:
    """Classes and drivers, with their plurals."""
    version = {"apiVersion": "storage.k8s.io/v1"}
    made = [(CLASSES, _storage_class(LOCAL, volumes.NO_PROVISIONER, waits=True))]
    for kind in KINDS:
        body = _storage_class(kind.name, kind.driver, waits=kind.waits)
        if kind.zones:
            expression = {"key": "zone", "values": list(kind.zones)}
            body["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
        spec = {"storageCapacity": bool(kind.node_gibibytes)}
        driver = {"kind": "CSIDriver", "metadata": {"name": kind.driver}, "spec": spec}
        made += [(CLASSES, body), ("csidrivers", {**version, **driver})]
    return made


def _storage_class(name: str, provisioner: str, *, waits: bool) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": volumes.WAITS if waits else "Immediate",
    }
