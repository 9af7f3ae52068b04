"""What the scheduler's account may change of claims, volumes and devices, tried with its token."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from sandbox.client import PATCH_TYPES, Answer, Client
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons, devices, permissions
from tests.integration.installations import Installed
from vscheduler.mirror import volume_requests
from vscheduler.mirror.volume_requests import Wanted
from vscheduler.model.claim_decisions import ClaimBinding, ReleaseVolume, VolumeChange
from vscheduler.model.storage import Claim, ClaimReference, Volume

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
MERGE = PATCH_TYPES["merge"]
USER = "vscheduler"
SELECTED = "volume.kubernetes.io/selected-node"
BOUND_BY = "pv.kubernetes.io/bound-by-controller"
PROTECTION = "resource.kubernetes.io/delete-protection"
LABELLED = {"metadata": {"labels": {"vscheduler.io/deallocating": "true"}}}
BACK = {"status": {"allocation": None, "reservedFor": None}}
"""What the scheduler writes when it takes devices back, after the label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A patch that the account sends, and what it is refused for."""

    path: str
    body: dict[str, Any]
    says: str = ""
    """What the refusal says; empty where it is let through."""

    def made(self, api: Client) -> Answer:
        """The answer, of which nothing is kept."""
        query, headers = {"dryRun": "All"}, {"content-type": MERGE}
        return api.ask("PATCH", self.path, self.body, query=query, headers=headers)


def notes(**annotations: str | None) -> dict[str, Any]:
    """A patch of annotations."""
    return {"metadata": {"annotations": annotations}}


def of_claim(name: str, body: dict[str, Any], says: str = "") -> Attempt:
    """A patch of a claim."""
    return Attempt(path=f"{CLAIMS}/{name}", body=body, says=says)


def of_device(name: str, body: dict[str, Any], says: str = "") -> Attempt:
    """A patch of a claim for devices, or of its status."""
    path = f"{devices.CLAIMS}/{name}{'/status' if 'status' in body else ''}"
    return Attempt(path=path, body=body, says=says)


def of_volume(name: str, body: dict[str, Any], says: str = "") -> Attempt:
    """A patch of a volume."""
    return Attempt(path=f"{VOLUMES}/{name}", body=body, says=says)


def asked(volume: str | None, *, reserved: bool = False) -> dict[str, Any]:
    """What the scheduler writes."""
    binding = ClaimBinding(namespace="default", name="waits", uid="u", volume=volume, node="n1")
    value = Claim(namespace="default", name="waits", uid="u")
    of = ClaimReference(namespace="default", name="waits") if reserved else None
    return sent(binding, Volume(name=volume, claim=of) if volume else value)


def taken_back(*, reserved: bool = False) -> dict[str, Any]:
    """What the scheduler writes when it takes a volume back."""
    release = ReleaseVolume(name="given", uid="u", key="default/waits", reserved=reserved)
    return sent(release, Volume(name="given"))


def sent(change: VolumeChange, value: Wanted) -> dict[str, Any]:
    """The patch of a change, without its preconditions."""
    patch = volume_requests.patch(value, change, version="", schedulers=(USER,), since=1.0)
    for precondition in ("uid", "resourceVersion"):
        del patch["metadata"][precondition]
    return patch


def referring(name: str) -> dict[str, Any]:
    """A patch that gives a volume to a claim of this name."""
    return {"spec": {"claimRef": {"namespace": "default", "name": name, "uid": "u"}}}


def allocated(*consumers: str) -> dict[str, Any]:
    """The status of a claim that has a device, reserved for these; pods would have to exist."""
    result = {"request": "gpus", "driver": devices.DRIVER, "pool": "n1", "device": "gpu-0"}
    thing = {"apiGroup": "a.io", "resource": "things"}
    reserved = [{**thing, "name": name, "uid": name} for name in consumers]
    return {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}


ATTEMPTS = {
    "selects a node": of_claim("waits", asked(None)),
    "takes the node back": of_claim(
        "selected", notes(**{SELECTED: None, "a/volume-binding": None})
    ),
    "label of a claim": of_claim("waits", {"metadata": {"labels": {"a": "b"}}}, "metadata.labels"),
    "another annotation": of_claim("waits", notes(other="x"), "metadata.annotations other"),
    "without an annotation": of_claim("selected", notes(kept=None), "metadata.annotations kept"),
    "finalizer": of_claim("waits", {"metadata": {"finalizers": None}}, "metadata.finalizers"),
    "size": of_claim("waits", {"spec": {"volumeName": "free"}}, "spec"),
    "a claim that has a volume": of_claim("bound", asked(None), "has a volume already"),
    "gives a volume": of_volume("free", asked("free")),
    "takes a volume back": of_volume("given", taken_back()),
    "takes back what somebody else gave": of_volume("others", taken_back(), "is reserved for"),
    "takes the UID from what somebody else gave": of_volume(
        "others", {"spec": {"claimRef": {"uid": None}}}, "by somebody else"
    ),
    "gives to another what somebody gave": of_volume("given", referring("selected"), "reserved"),
    "gives to another of the same name": of_volume("given", referring("waits"), "somebody else"),
    "fills a reservation in": of_volume("reserved", asked("reserved", reserved=True)),
    "takes back what fills a reservation": of_volume("filled", taken_back(reserved=True)),
    "takes a reservation away": of_volume(
        "reserved", taken_back(), "reserved for claim default/wa"
    ),
    "takes a filled reservation away": of_volume("filled", taken_back(), "reserved for claim"),
    "gives what is reserved to another": of_volume(
        "reserved", referring("selected"), "reserved for claim default/waits"
    ),
    "notes that it chose the claim": of_volume(
        "reserved", notes(**{BOUND_BY: "yes"}), "metadata.annotations"
    ),
    "notes so while it fills it in": of_volume(
        "reserved", {**referring("waits"), **notes(**{BOUND_BY: "yes"})}, "metadata.annotations"
    ),
    "notes what somebody gave": of_volume(
        "others", notes(**{f"{USER}/volume-binding": "n1 now"}), "metadata.annotations"
    ),
    "forgets who chose the claim": of_volume(
        "given", notes(**{BOUND_BY: None}), "metadata.annotations"
    ),
    "forgets its own note": of_volume("given", notes(**{f"{USER}/volume-binding": None})),
    "reclaim policy": of_volume(
        "free", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, "spec"
    ),
    "another size": of_volume("free", {"spec": {"capacity": {"storage": "9Gi"}}}, "spec"),
    "label of a volume": of_volume("free", {"metadata": {"labels": {"a": "b"}}}, "metadata.labels"),
    "somebody else's data": of_volume("released", {"spec": {"claimRef": None}}, "is Released"),
    "protects a claim": of_device("unused", {"metadata": {"finalizers": [PROTECTION]}}),
    "allocates": of_device("unused", {"status": allocated("a")}),
    "shares a device": of_device("used", {"status": allocated("a", "b")}),
    "takes a device back from a pod that waits": of_device("waiting", BACK),
    "takes a device back from a pod on a node": of_device("running", BACK, "pod running on node n"),
    "takes it from one of two pods": of_device("shared", BACK, "pod running on node node-0 has"),
    "takes a device back without the label": of_device("unlabelled", BACK, "the label"),
    "takes a device back from no pod": of_device("used", BACK, "from pods and PodGroups only"),
    "adds the label": of_device("unlabelled", LABELLED),
    "removes the label": of_device(
        "waiting", {"metadata": {"labels": {"vscheduler.io/deallocating": None}}}
    ),
    "takes the reservations only": of_device(
        "used", {"status": {"reservedFor": None}}, "reservedFor"
    ),
    "somebody's reservation": of_device("used", {"status": allocated("b")}, "status.reservedFor"),
    "label of a claim for devices": of_device(
        "unused", {"metadata": {"labels": {"a": "b"}}}, "metadata.labels"
    ),
    "empty label of a claim for devices": of_device(
        "unused", {"metadata": {"labels": {"a": ""}}}, "metadata.labels"
    ),
    "without a label": of_device(
        "waiting", {"metadata": {"labels": {"kept": None}}}, "metadata.labels"
    ),
    "annotation of a claim for devices": of_device("unused", notes(a="b"), "metadata.annotations"),
    "another finalizer": of_device(
        "unused", {"metadata": {"finalizers": ["a.io/keep"]}}, "metadata.finalizers"
    ),
    "a claim's data": of_volume("taken", {"spec": {"claimRef": {"uid": "other"}}}, "is Bound"),
}


def claim(name: str, annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A claim of a class that nobody looks after."""
    return {
        "metadata": {"name": name, "annotations": annotations, "finalizers": ["a.io/keep"]},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "nobody",
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def volume(name: str, annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A volume that nobody ever mounts."""
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "nobody",
            "hostPath": {"path": "/nowhere"},
            "persistentVolumeReclaimPolicy": "Retain",
            **spec,
        },
    }


CHOSEN, NOTED = {BOUND_BY: "yes"}, {f"{USER}/volume-binding": "n1 1970-01-01T00:00:01Z"}
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLASS = {
    "metadata": {"name": "nobody"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
GONE = {"namespace": "default", "name": "waits", "uid": "11111111-2222-3333-4444-555555555555"}
LARGE = {"requests": {"storage": "5Gi"}}
"""More than any volume has, so that nobody gives the claim one."""


def given_to(plane: ControlPlane, name: str) -> dict[str, str]:
    """A reference to a claim."""
    uid = plane.api.get(f"{CLAIMS}/{name}")["metadata"]["uid"]
    return {"namespace": "default", "name": name, "uid": uid}


def phases(plane: ControlPlane) -> dict[str, str]:
    """The phase of each volume."""
    items = plane.api.get(VOLUMES)["items"]
    return {each["metadata"]["name"]: each["status"].get("phase", "") for each in items}


WITH_DEVICES = {
    "used": (),
    "waiting": ("waiting",),
    "running": ("running",),
    "shared": ("waiting", "running"),
    "unlabelled": ("waiting",),
}
"""Claims, and the pods that they are reserved for."""


def create_device_claims(plane: ControlPlane) -> None:
    """A claim without devices, and some with one, of a pod that waits and one on a node."""
    plane.create_nodes(count=1, cpu="4")
    containers = [{"name": "main", "image": "none"}]
    spec = {"schedulerName": "nobody", "containers": containers}
    for name, node in (("waiting", {}), ("running", {"nodeName": "node-0"})):
        plane.api.create(daemons.PODS, {"metadata": {"name": name}, "spec": {**spec, **node}})
    devices.a_claim(plane.api, "unused", devices.asked(1))
    for name, users in WITH_DEVICES.items():
        devices.a_claim(plane.api, name, devices.asked(1))
        labels = {} if name == "unlabelled" else LABELLED["metadata"]["labels"]
        metadata = {"finalizers": [PROTECTION], "labels": {"kept": "", **labels}}
        change(plane, f"{devices.CLAIMS}/{name}", {"metadata": metadata})
        status = allocated("a")
        if users:
            status["reservedFor"] = [devices.consumer(plane.api, user) for user in users]
        change(plane, f"{devices.CLAIMS}/{name}/status", {"status": status})


def change(plane: ControlPlane, path: str, body: dict[str, Any]) -> None:
    """Patch an object as the administrator."""
    plane.api.request("PATCH", path, body, headers={"content-type": MERGE})


@pytest.fixture(scope="module")
def plane(installed: Installed) -> Iterator[ControlPlane]:
    """The shipped manifests, in force, some claims and some volumes, as their controller sees them.

    It doesn't say what it thinks of a volume that is given to a claim, and too small.
    """
    plane = installed.plane
    plane.clean()
    plane.api.create(CLASSES, CLASS)
    plane.api.create(CLAIMS, claim("waits", {}))
    plane.api.create(
        CLAIMS,
        claim("selected", {SELECTED: "n1", "a/volume-binding": "x", "kept": ""}, resources=LARGE),
    )
    plane.api.create(CLAIMS, claim("bound", {}, volumeName="taken"))
    waits = given_to(plane, "waits")
    plane.api.create(VOLUMES, volume("free", {}))
    plane.api.create(VOLUMES, volume("released", CHOSEN, claimRef=GONE))
    plane.api.create(VOLUMES, volume("taken", CHOSEN, claimRef=given_to(plane, "bound")))
    for name, noted, of in (
        ("given", CHOSEN | NOTED, waits),
        ("others", CHOSEN, waits),
        ("reserved", {}, {**waits, "uid": ""}),
        ("filled", NOTED, waits),
    ):
        plane.api.create(VOLUMES, volume(name, noted, claimRef=of, capacity={"storage": "1Mi"}))
        change(plane, f"{VOLUMES}/{name}/status", {"status": {"phase": "Available"}})
    expected = {
        **dict.fromkeys(("filled", "free", "given", "others", "reserved"), "Available"),
        "released": "Released",
        "taken": "Bound",
    }
    create_device_claims(plane)
    patience.wait_until(lambda: phases(plane) == expected)
    until_judged(plane)
    yield plane
    for path in (
        *(f"{CLAIMS}/{name}" for name in ("waits", "selected", "bound")),
        *(f"{devices.CLAIMS}/{name}" for name in ("unused", *WITH_DEVICES)),
    ):
        change(plane, path, {"metadata": {"finalizers": None}})
        plane.api.delete(path)
    plane.clean()
    plane.run_kubectl("apply", "-k", str(permissions.MANIFESTS))  # Deployments, for others


def account(plane: ControlPlane) -> Client:
    """Somebody with the account's token."""
    return plane.client_for_service_account(permissions.NAMESPACE, USER)


def until_judged(plane: ControlPlane) -> None:
    """Wait until the policies refuse what they should."""
    api = account(plane)
    for name in (
        "label of a claim",
        "label of a volume",
        "label of a claim for devices",
        "takes a device back from a pod on a node",
    ):
        patience.wait_until(partial(_refuses, api, ATTEMPTS[name]))


def _refuses(api: Client, attempt: Attempt) -> bool:
    return attempt.made(api).status >= 400


@pytest.mark.parametrize("name", ATTEMPTS)
def test_the_scheduler_asks_for_volumes_and_devices_and_changes_nothing_else(
    plane: ControlPlane, name: str
) -> None:
    """Nobody's data can be given away, and no volume be deleted by its policy."""
    attempt = ATTEMPTS[name]
    answer = attempt.made(account(plane))
    if not attempt.says:
        assert answer.status == 200, answer.text
        return
    assert answer.status == 403, answer.text
    assert ".vscheduler.io" in answer.message
    assert attempt.says in answer.message


FOR_POD = {
    "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    ],
}


@pytest.mark.parametrize(
    ("lacks", "refused"), [("", False), ("annotations", True), ("ownerReferences", True)]
)
def test_the_scheduler_makes_claims_for_extended_resources_of_a_pod_only(
    plane: ControlPlane, *, lacks: str, refused: bool
) -> None:
    """Such a claim says so, and belongs to its pod."""
    metadata = {"name": "made", **{key: each for key, each in FOR_POD.items() if key != lacks}}
    body = {"metadata": metadata, "spec": devices.asked(1)}
    answer = account(plane).ask("POST", devices.CLAIMS, body, query={"dryRun": "All"})
    assert (answer.status == 403) is refused
    assert answer.status in (201, 403)
