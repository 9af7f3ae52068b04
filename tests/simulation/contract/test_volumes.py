"""Claims, volumes and storage classes: defaults, finalizers, and what may not change."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
SELECTED = "volume.kubernetes.io/selected-node"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NOWHERE = "nowhere"
"""A class that doesn't exist, so that no controller touches the claim."""
SOMEWHERE = "somewhere"
"""Another one, so that no claim gets the volume of another test."""
TRIES = 100
RETIRED = {"claimRef": {"namespace": "none", "name": "none", "uid": "none"}}
"""Keeps the controllers of the real side away from a volume."""


def claim(name: str, **spec: Any) -> dict[str, Any]:
    """A claim of one GiB."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": NOWHERE,
            **spec,
        },
    }


def volume(name: str, **spec: Any) -> dict[str, Any]:
    """A local volume of one GiB on node n1."""
    terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": ["n1"]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "storageClassName": SOMEWHERE,
            **spec,
        },
    }


def claims(case: Case) -> Path:
    """Where claims are created."""
    return paths.CLAIMS.within(case.namespace)


def volumes() -> Path:
    """Where volumes are created."""
    return paths.VOLUMES.everywhere


def test_a_new_claim_waits_and_is_protected(case: Case) -> None:
    """Phase Pending, a finalizer, and Filesystem."""
    made = case.api.create(claims(case), claim("a"))
    assert made["status"] == {"phase": "Pending"}
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert made["spec"]["volumeMode"] == "Filesystem"


def test_a_new_volume_is_kept_and_protected(case: Case) -> None:
    """Retain, Filesystem, a finalizer."""
    made = case.api.create(volumes(), volume(case.name("pv"), **RETIRED))
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert made["spec"]["volumeMode"] == "Filesystem"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert made["status"]["phase"] == "Pending"


def test_a_class_has_defaults_and_stays(case: Case) -> None:
    """Delete and Immediate; neither can be changed."""
    name = case.name("sc")
    body = {"metadata": {"name": name}, "provisioner": "tests/none"}
    made = case.api.create(CLASSES, {"apiVersion": "storage.k8s.io/v1", **body})
    assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")
    later = {"volumeBindingMode": "WaitForFirstConsumer"}
    answer = case.patch(f"{CLASSES}/{name}", later)
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert case.api.patch(f"{CLASSES}/{name}", {"allowVolumeExpansion": True})


def test_a_driver_has_defaults(case: Case) -> None:
    """It attaches, and doesn't tell its capacity."""
    name = case.name("driver")
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}}
    spec = case.api.create(DRIVERS, {**body, "spec": {}})["spec"]
    assert (spec["attachRequired"], spec["storageCapacity"]) == (True, False)
    assert spec["volumeLifecycleModes"] == ["Persistent"]


WRONG_CLAIMS: Mapping[str, Mapping[str, Any]] = {
    "no mode": {"accessModes": []},
    "an odd mode": {"accessModes": ["Often"]},
    "two modes of which one excludes others": {
        "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]
    },
    "no size": {"resources": {}},
}


@pytest.mark.parametrize("what", WRONG_CLAIMS)
def test_a_claim_must_make_sense(case: Case, what: str) -> None:
    """422 otherwise."""
    answer = case.ask("POST", claims(case), claim("a", **WRONG_CLAIMS[what]))
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


WRONG_VOLUMES: Mapping[str, Mapping[str, Any]] = {
    "no mode": {"accessModes": []},
    "no size": {"capacity": None},
    "no source": {"local": None},
    "a local volume anywhere": {"nodeAffinity": None},
    "an odd policy": {"persistentVolumeReclaimPolicy": "Forget"},
}


@pytest.mark.parametrize("what", WRONG_VOLUMES)
def test_a_volume_must_make_sense(case: Case, what: str) -> None:
    """422 otherwise."""
    body = volume(case.name("pv"), **RETIRED, **WRONG_VOLUMES[what])
    answer = case.ask("POST", volumes(), body)
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def test_the_spec_of_a_claim_is_fixed_but_for_its_volume(case: Case) -> None:
    """Named once, and then no other."""
    case.api.create(claims(case), claim("a"))
    path = paths.CLAIMS.at("a", case.namespace)
    answer = case.patch(path, {"spec": {"storageClassName": "another"}})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    answer = case.patch(path, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    assert answer.status == 422
    assert case.patch(path, {"spec": {"volumeName": "first"}}).status == 200
    assert case.patch(path, {"spec": {"volumeName": "second"}}).status == 422


def test_a_node_is_selected_under_a_precondition(case: Case) -> None:
    """The annotation of a claim with its version: 409 once somebody has changed the claim."""
    made = case.api.create(claims(case), claim("a"))
    path = paths.CLAIMS.at("a", case.namespace)
    version = made["metadata"]["resourceVersion"]
    wanted = {"metadata": {"annotations": {SELECTED: "n1"}, "resourceVersion": version}}
    assert case.patch(path, wanted).body["metadata"]["annotations"][SELECTED] == "n1"
    answer = case.patch(path, wanted)
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    gone = {"metadata": {"annotations": {SELECTED: None}}}
    assert SELECTED not in case.patch(path, gone).body["metadata"].get("annotations", {})


def test_a_claim_of_another_uid_is_not_patched(case: Case) -> None:
    """409, whoever has its name now."""
    case.api.create(claims(case), claim("a"))
    path = paths.CLAIMS.at("a", case.namespace)
    patch = {"metadata": {"annotations": {SELECTED: "n1"}, "uid": "another"}}
    assert case.patch(path, patch).status in (409, 422)


def test_a_volume_is_reserved_and_given_back(case: Case) -> None:
    """By a claimRef, under a precondition."""
    name = case.name("pv")
    case.api.create(volumes(), volume(name, **RETIRED))
    path = paths.VOLUMES.at(name)
    reference = {"kind": "PersistentVolumeClaim", "namespace": case.namespace, "name": "a"}
    wanted = {
        "metadata": {"annotations": {BY_CONTROLLER: "yes"}},
        "spec": {"claimRef": {**reference, "uid": "one"}},
    }
    assert case.patch(path, versioned(wanted, "1")).status == 409
    found = change(case, path, wanted)
    assert found["spec"]["claimRef"]["name"] == "a"
    assert found["metadata"]["annotations"][BY_CONTROLLER] == "yes"
    back = {"metadata": {"annotations": {BY_CONTROLLER: None}}, "spec": {"claimRef": None}}
    found = change(case, path, back)
    assert "claimRef" not in found["spec"]
    assert BY_CONTROLLER not in found["metadata"].get("annotations", {})


def versioned(body: Mapping[str, Any], version: str) -> dict[str, Any]:
    """A patch of an object at a version only."""
    metadata = {**body.get("metadata", {}), "resourceVersion": version}
    return {**body, "metadata": metadata}


def change(case: Case, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Patch an object at the version that it has: a controller of the real side writes, too."""
    answers = (
        case.patch(path, versioned(body, case.api.get(path)["metadata"]["resourceVersion"]))
        for _ in range(TRIES)
    )
    found: dict[str, Any] = next(answer.body for answer in answers if answer.status == 200)
    return found


def test_the_source_and_the_nodes_of_a_volume_are_fixed(case: Case) -> None:
    """422."""
    name = case.name("pv")
    case.api.create(volumes(), volume(name, **RETIRED))
    path = paths.VOLUMES.at(name)
    assert case.patch(path, {"spec": {"local": {"path": "/other"}}}).status == 422
    terms = [{"matchExpressions": [{"key": "host", "operator": "Exists"}]}]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    assert case.patch(path, {"spec": {"nodeAffinity": affinity}}).status == 422
    assert case.patch(path, {"spec": {"volumeMode": "Block"}}).status == 422
    assert case.patch(path, {"spec": {"capacity": {"storage": "2Gi"}}}).status == 200


def test_a_claim_that_is_deleted_waits_for_its_finalizer(case: Case) -> None:
    """Marked as leaving, while a finalizer of anybody is left."""
    body = claim("a")
    body["metadata"]["finalizers"] = ["tests/wait"]
    case.api.create(claims(case), body)
    path = paths.CLAIMS.at("a", case.namespace)
    assert case.ask("DELETE", path).status == 200
    assert case.api.get(path)["metadata"]["deletionTimestamp"]
    case.api.patch(path, {"metadata": {"finalizers": None}})
    assert case.api.find(path) is None


def test_the_drivers_of_a_node_are_told_apart(case: Case) -> None:
    """With limits; a second one of the name is refused."""
    name = case.name("node")
    driver = {"name": "csi.tests", "nodeID": name, "allocatable": {"count": 3}}
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}}
    answer = case.ask("POST", CSI_NODES, {**body, "spec": {"drivers": [driver, driver]}})
    assert answer.status == 422
    made = case.api.create(CSI_NODES, {**body, "spec": {"drivers": [driver]}})
    assert made["spec"]["drivers"][0]["allocatable"] == {"count": 3}


def test_an_attachment_is_fixed(case: Case) -> None:
    """Another node is another attachment."""
    name = case.name("attachment")
    spec = {"attacher": "csi.tests", "nodeName": "n1", "source": {"persistentVolumeName": "none"}}
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment"}
    case.api.create(ATTACHMENTS, {**body, "metadata": {"name": name}, "spec": spec})
    assert case.patch(f"{ATTACHMENTS}/{name}", {"spec": {"nodeName": "n2"}}).status == 422
    odd = {**body, "metadata": {"name": f"{name}-2"}, "spec": {**spec, "source": {}}}
    assert case.ask("POST", ATTACHMENTS, odd).status == 422
    case.api.delete(f"{ATTACHMENTS}/{name}")
