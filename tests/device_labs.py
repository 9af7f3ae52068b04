"""A cluster with devices over several cycles, in which a test plays Kubernetes and the drivers."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests import running, volume_labs
from vscheduler.core import cycle
from vscheduler.mirror import device_requests
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.claim_decisions import ClaimAllocation, DeviceChange
from vscheduler.model.decisions import CycleResult
from vscheduler.model.devices import ResourceClaim
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
CLASS = "gpu"
TREE = {"actions": "allocate, backfill", "tiers": running.tiers("priority gang | predicates")}

Document = dict[str, Any]


def device_class(name: str = CLASS, driver: str = DRIVER) -> Document:
    """A class of all devices of a driver."""
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"selectors": [selector]},
    }


def resource_slice(node: str, count: int, memory: str = "80Gi") -> Document:
    """The devices of a node, which are a pool of their own."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{node}", "uid": f"uid-slice-{node}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{number}", "capacity": {"memory": {"value": memory}}}
                for number in range(count)
            ],
        },
    }


def claim(name: str, count: int = 1, of_class: str = CLASS) -> Document:
    """A claim of so many devices."""
    request = {"name": "gpus", "exactly": {"deviceClassName": of_class, "count": count}}
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": pictures.NAMESPACE, "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [request]}},
        "status": {},
    }


def allocations(result: CycleResult) -> list[ClaimAllocation]:
    """What a cycle has decided to write to resource claims, but for what it gives back."""
    return [each for each in result.claim_changes() if isinstance(each, ClaimAllocation)]


class Lab:
    """The stored objects, and what a scheduler makes of them cycle by cycle.

    The pods of a job get the claims that `uses` names, by the pod's name.
    """

    def __init__(
        self,
        picture: str,
        *others: Document,
        uses: Mapping[str, Sequence[str]],
        tree: Mapping[str, Any] = TREE,
    ) -> None:
        self.now = pictures.NOW.timestamp()
        self.policy = running.policy_of(tree)
        self.stored: dict[tuple[str, str], Document] = {}
        self.versions = 100
        for document in (*pictures.documents(picture), *copy.deepcopy(others)):
            use(document, uses)
            self.put(document)
        self.restart()

    def put(self, document: Document) -> None:
        """Store an object, in a new version."""
        self.versions += 1
        document["metadata"]["resourceVersion"] = str(self.versions)
        self.stored[document["kind"], document["metadata"]["name"]] = document

    def get(self, kind: str, name: str) -> Document:
        """The stored object, to be changed and put back."""
        return copy.deepcopy(self.stored[kind, name])

    def delete(self, kind: str, *names: str) -> None:
        """Delete objects; the controller of claims does its part when it is a pod."""
        for name in names:
            gone = self.stored.pop((kind, name))
            if kind == "Pod":
                self._free(gone["metadata"]["uid"])

    def _free(self, uid: str) -> None:
        for kind, name in [key for key in self.stored if key[0] == "ResourceClaim"]:
            found = self.get(kind, name)
            reserved = found["status"].get("reservedFor") or []
            left = [each for each in reserved if each["uid"] != uid]
            if left != reserved:
                found["status"]["reservedFor"] = left
                if not left:
                    del found["status"]["allocation"]
                self.put(found)

    def restart(self) -> None:
        """Forget all but what is stored."""
        self.carried = FRESH

    def cycle(self, seconds: float = 1.0, *, write: int = 99) -> CycleResult:
        """One cycle after some seconds. So many of its writes and all its binds are stored."""
        self.now += seconds
        mirror = self.mirror()
        result = cycle.run_cycle(mirror.snapshot(self.now, self.carried), self.policy)
        assert result.faults == ()
        self.carried = result.carried
        self.write(mirror, result, write)
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

    def write(self, mirror: Mirror, result: CycleResult, most: int) -> None:
        """Store the first changes of claims that a cycle has decided."""
        changes = [each for each in result.claim_changes() if isinstance(each, DeviceChange)]
        for change in changes[:most]:
            target = mirror.claims.target(change)
            assert target is not None, change
            found = self.claim_of(change)
            assert isinstance(target.value, ResourceClaim)
            known = msgspec.structs.replace(target.value, uid=found["metadata"]["uid"])
            for patch in (
                device_requests.metadata_patch(known, change, target.version) or {},
                device_requests.status_patch(known, change, target.version),
            ):
                found = volume_labs.merged(found, patch)
            self.put(found)

    def claim_of(self, change: DeviceChange) -> Document:
        """The claim of a change, which is made first if it is for extended resources."""
        if ("ResourceClaim", change.name) in self.stored:
            return self.get("ResourceClaim", change.name)
        assert isinstance(change, ClaimAllocation)
        made = device_requests.creation(change)
        made["metadata"]["uid"] = f"uid-{change.name}"
        pod = self.get("Pod", change.reserved_for[0].name)
        self.put(volume_labs.merged(pod, device_requests.announcement(change)))
        return {**made, "status": {}}

    def allocated(self) -> dict[str, list[tuple[str, str]]]:
        """The devices of claims, by claim: pool and name."""
        found = {}
        for (kind, name), each in sorted(self.stored.items()):
            if kind == "ResourceClaim" and each["status"].get("allocation"):
                results = each["status"]["allocation"]["devices"]["results"]
                found[name] = [(result["pool"], result["device"]) for result in results]
        return found

    def reserved(self) -> dict[str, list[str]]:
        """The pods that claims are reserved for, by claim."""
        return {
            name: [consumer["name"] for consumer in each["status"]["reservedFor"]]
            for (kind, name), each in sorted(self.stored.items())
            if kind == "ResourceClaim" and each["status"].get("reservedFor")
        }


def use(document: Document, uses: Mapping[str, Sequence[str]]) -> None:
    """Give a pod its claims."""
    if document["kind"] == "Pod" and (names := uses.get(document["metadata"]["name"])):
        document["spec"]["resourceClaims"] = [
            {"name": name, "resourceClaimName": name} for name in names
        ]
