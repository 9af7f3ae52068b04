"""A cluster over several cycles, in which a test plays Kubernetes and the provisioners."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from tests import running
from vscheduler.core import cycle
from vscheduler.mirror import volume_requests
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.claim_decisions import VolumeChange
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

TIERS = "priority gang | predicates"
TREE = {"actions": "allocate, backfill", "tiers": running.tiers(TIERS)}

SELECTED = "volume.kubernetes.io/selected-node"
NOTE = f"{pictures.SCHEDULER}/volume-binding"

Document = dict[str, Any]


def storage_class(name: str = "slow", provisioner: str = "csi.example.com") -> Document:
    """A class whose claims wait for a pod."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str, of_class: str = "slow", size: str = "1Gi", mode: str = "ReadWriteOnce") -> Any:
    """A claim that waits."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": pictures.NAMESPACE, "uid": f"uid-{name}"},
        "spec": {
            "accessModes": [mode],
            "storageClassName": of_class,
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": "Pending"},
    }


def volume(name: str, *nodes: str, of_class: str = "local", size: str = "1Gi") -> Any:
    """A volume that can be used on these nodes; everywhere without any."""
    spec: Document = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of_class,
        "capacity": {"storage": size},
    }
    if nodes:
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes]
        terms = [{"matchFields": [field]} for field in fields]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": spec,
        "status": {"phase": "Available"},
    }


class Lab:
    """The stored objects, and what a scheduler makes of them cycle by cycle.

    The pods of a job get the claims that `uses` names, by the pod's name.
    """

    def __init__(
        self,
        picture: str,
        *storage: Document,
        uses: Mapping[str, Sequence[str]],
        tree: Mapping[str, Any] = TREE,
    ) -> None:
        self.now = pictures.NOW.timestamp()
        self.policy = running.policy_of(tree)
        self.stored: dict[tuple[str, str], Document] = {}
        self.versions = 100
        for document in (*pictures.documents(picture), *copy.deepcopy(storage)):
            self._use(document, uses)
            self.put(document)
        self.restart()

    @staticmethod
    def _use(document: Document, uses: Mapping[str, Sequence[str]]) -> None:
        if document["kind"] == "Pod" and (names := uses.get(document["metadata"]["name"])):
            document["spec"]["volumes"] = [
                {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names
            ]

    def put(self, document: Document) -> None:
        """Store an object, in a new version."""
        self.versions += 1
        document["metadata"]["resourceVersion"] = str(self.versions)
        self.stored[document["kind"], document["metadata"]["name"]] = document

    def get(self, kind: str, name: str) -> Document:
        """The stored object, to be changed and put back."""
        return copy.deepcopy(self.stored[kind, name])

    def restart(self) -> None:
        """Forget all but what is stored."""
        self.carried = FRESH

    def delete(self, kind: str, *names: str) -> None:
        """Delete objects."""
        for name in names:
            del self.stored[kind, name]

    def cycle(self, seconds: float = 1.0, *, write: bool = True) -> CycleResult:
        """One cycle after some seconds. With `write`, its requests and binds are stored."""
        self.now += seconds
        mirror = self.mirror()
        result = cycle.run_cycle(mirror.snapshot(self.now, self.carried), self.policy)
        assert result.faults == ()
        self.carried = result.carried
        if write:
            self.write(mirror, result)
        for bind in result.binds:
            pod = self.get("Pod", bind.task.name)
            pod["spec"]["nodeName"] = bind.node
            pod["status"]["phase"] = "Running"
            self.put(pod)
        return result

    def mirror(self) -> Mirror:
        """What a scheduler sees of the stored objects."""
        mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
        for document in self.stored.values():
            kind = events.kind_of(document)
            assert kind is not None, document["kind"]
            mirror.apply(events.convert(kind, document))
        assert not mirror.rejections
        return mirror

    def write(self, mirror: Mirror, result: CycleResult, most: int = 99) -> None:
        """Store the first requests and withdrawals of a cycle."""
        changes = [each for each in result.claim_changes() if isinstance(each, VolumeChange)]
        for change in changes[:most]:
            target = mirror.claims.target(change)
            assert target is not None, change
            assert isinstance(target.value, volume_requests.Wanted)
            patch = volume_requests.patch(
                target.value,
                change,
                version=target.version,
                schedulers=(pictures.SCHEDULER,),
                since=self.now,
            )
            name = target.key.rpartition("/")[2]
            stored = self.get(target.kind, name)
            assert stored["metadata"]["resourceVersion"] == patch["metadata"].pop("resourceVersion")
            self.put(merged(stored, patch))

    def bind(self, *names: str, to: str = "", node: str = "") -> None:
        """Bind claims: to a new volume on the selected node, or wherever the volume is."""
        for name in names:
            found = self.get("PersistentVolumeClaim", name)
            made = self._volume_for(found, to, node)
            made["spec"]["claimRef"] = {
                "namespace": pictures.NAMESPACE,
                "name": name,
                "uid": found["metadata"]["uid"],
            }
            made["status"] = {"phase": "Bound"}
            self.put(made)
            found["spec"]["volumeName"] = made["metadata"]["name"]
            notes = found["metadata"].setdefault("annotations", {})
            notes["pv.kubernetes.io/bind-completed"] = "yes"
            found["status"] = {"phase": "Bound"}
            self.put(found)

    def _volume_for(self, found: Document, to: str, node: str) -> Any:
        uid = found["metadata"]["uid"]
        for (kind, name), each in self.stored.items():
            of = each.get("spec", {}).get("claimRef", {})
            if kind == "PersistentVolume" and (name == to or of.get("uid") == uid):
                return self.get(kind, name)
        node = node or found["metadata"]["annotations"][SELECTED]
        return volume(f"pv-{uid}", node, of_class=found["spec"]["storageClassName"])

    def refuse(self, name: str) -> None:
        """Give the node back, as a provisioner does that can't make a volume there."""
        found = self.get("PersistentVolumeClaim", name)
        del found["metadata"]["annotations"][SELECTED]
        self.put(found)

    def selected(self) -> dict[str, str]:
        """The selected nodes of claims that aren't bound."""
        found = {}
        for (kind, name), each in self.stored.items():
            node = each["metadata"].get("annotations", {}).get(SELECTED)
            if kind == "PersistentVolumeClaim" and node and not each["spec"].get("volumeName"):
                found[name] = node
        return found

    def given(self) -> dict[str, str]:
        """The claims that volumes are bound to or reserved for, by volume."""
        return {
            name: each["spec"]["claimRef"]["name"]
            for (kind, name), each in self.stored.items()
            if kind == "PersistentVolume" and each["spec"].get("claimRef")
        }


def merged(stored: Document, patch: Document) -> Document:
    """An object after a merge patch."""
    for key, value in patch.items():
        if value is None:
            stored.pop(key, None)
        elif isinstance(value, dict):
            stored[key] = merged(stored.get(key) or {}, value)
        else:
            stored[key] = value
    return stored


def binds(result: CycleResult) -> dict[str, str]:
    """The binds of a cycle, by pod."""
    return {bind.task.name: bind.node for bind in result.binds}


def waits(result: CycleResult) -> dict[str, str]:
    """The pods that wait on nodes, by name."""
    return {each.task.name: each.node for each in result.pipelined}
