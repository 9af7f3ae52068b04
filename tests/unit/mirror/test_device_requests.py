from typing import Any

import msgspec
import pytest

from vscheduler.mirror import device_requests
from vscheduler.model.claim_decisions import ClaimAllocation, DeallocateClaim, DeviceChange
from vscheduler.model.constraints import Operator, Requirement, Term
from vscheduler.model.devices import (
    AllocatedDevice,
    Allocation,
    Configuration,
    Consumer,
    DeviceId,
    DeviceToleration,
    ResourceClaim,
)

POD = Consumer(name="train-0", uid="p0")
OTHER = Consumer(name="group", uid="g1", resource="podgroups", api_group="scheduling.k8s.io")
ID = DeviceId("gpu.example.com", "n1", "gpu-0")
N1 = Requirement("metadata.name", Operator.IN, ("n1",))
ALLOCATION = Allocation(
    devices=(
        AllocatedDevice(request="gpus", id=ID),
        AllocatedDevice(
            request="gpus/large",
            id=ID._replace(device="gpu-1"),
            admin_access=True,
            tolerations=(
                DeviceToleration(key="a", operator="Exists", effect="NoExecute", seconds=0),
            ),
        ),
    ),
    configurations=(
        Configuration(driver="d", parameters='{"mode": "mig"}', from_class=True),
        Configuration(driver="d", parameters='{"mode": "all"}', requests=("gpus",)),
    ),
    nodes=(Term(fields=(N1,)),),
)
WRITTEN = {
    "devices": {
        "results": [
            {"request": "gpus", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"},
            {
                "request": "gpus/large",
                "driver": "gpu.example.com",
                "pool": "n1",
                "device": "gpu-1",
                "adminAccess": True,
                "tolerations": [
                    {
                        "key": "a",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 0,
                    }
                ],
            },
        ],
        "config": [
            {
                "source": "FromClass",
                "requests": [],
                "opaque": {"driver": "d", "parameters": {"mode": "mig"}},
            },
            {
                "source": "FromClaim",
                "requests": ["gpus"],
                "opaque": {"driver": "d", "parameters": {"mode": "all"}},
            },
        ],
    },
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        ]
    },
}
RESERVED = {"resource": "pods", "name": "train-0", "uid": "p0"}
RESERVED_OTHER = {
    "apiGroup": "scheduling.k8s.io",
    "resource": "podgroups",
    "name": "group",
    "uid": "g1",
}
CLAIM = ResourceClaim(namespace="ns", name="gpus", uid="c1", finalizers=("a.io/b",))
SHARED = msgspec.structs.replace(CLAIM, allocation=ALLOCATION, reserved_for=(OTHER,))
METADATA = {"uid": "c1", "resourceVersion": "7"}


def allocating(allocation: Allocation | None, consumer: Consumer = POD) -> ClaimAllocation:
    """The pod, or somebody else, gets these devices, or those of the claim."""
    return ClaimAllocation(
        namespace="ns",
        name="gpus",
        uid="c1",
        allocation=allocation,
        existing=None if allocation else ALLOCATION,
        reserved_for=(consumer,),
    )


BACK = DeallocateClaim(
    namespace="ns", name="gpus", uid="c1", allocation=ALLOCATION, reserved_for=(OTHER,)
)
MOVED = msgspec.structs.replace(SHARED, allocation=msgspec.structs.replace(ALLOCATION, nodes=None))
PATCHES: dict[str, tuple[DeviceChange, ResourceClaim, dict[str, Any]]] = {
    "devices are allocated": (
        allocating(ALLOCATION),
        CLAIM,
        {"allocation": WRITTEN, "reservedFor": [RESERVED]},
    ),
    "a PodGroup gets devices": (
        allocating(ALLOCATION, OTHER),
        CLAIM,
        {"allocation": WRITTEN, "reservedFor": [RESERVED_OTHER]},
    ),
    "a claim is reserved for one more pod": (
        allocating(None),
        SHARED,
        {"reservedFor": [RESERVED_OTHER, RESERVED]},
    ),
    "devices are given back": (BACK, SHARED, {"allocation": None, "reservedFor": None}),
}


@pytest.mark.parametrize("case", PATCHES)
def test_a_patch_has_the_fields_of_kube_scheduler(case: str) -> None:
    """And names the claim that was decided on, in its version."""
    change, claim, status = PATCHES[case]
    assert device_requests.is_about(change, claim)
    patch = device_requests.status_patch(claim, change, "7")
    assert patch == {"metadata": METADATA, "status": status}
    where = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/gpus"
    assert device_requests.path(claim) == where
    assert device_requests.path(claim, status=True) == f"{where}/status"


def test_devices_of_every_node_have_no_selector() -> None:
    """Such as those of a network."""
    allocation = msgspec.structs.replace(ALLOCATION, nodes=None, configurations=())
    patch = device_requests.status_patch(CLAIM, allocating(allocation), "7")
    written = patch["status"]["allocation"]
    devices_written: Any = WRITTEN["devices"]
    assert written == {"devices": {"results": devices_written["results"]}}


def test_a_claim_with_devices_has_a_finalizer() -> None:
    """It is added to those that there are, once."""
    finalizers = ["a.io/b", device_requests.FINALIZER]
    patch = device_requests.metadata_patch(CLAIM, allocating(ALLOCATION), "7")
    assert patch == {"metadata": {**METADATA, "finalizers": finalizers}}
    protected = msgspec.structs.replace(CLAIM, finalizers=tuple(finalizers))
    assert device_requests.metadata_patch(protected, allocating(ALLOCATION), "7") is None


def test_a_claim_has_a_label_while_its_devices_are_taken_back() -> None:
    """Without it, the API server refuses; the next allocation doesn't need it any more."""
    with_devices = msgspec.structs.replace(SHARED, finalizers=(device_requests.FINALIZER,))
    labels = {"vscheduler.io/deallocating": "true"}
    patch = device_requests.metadata_patch(with_devices, BACK, "7")
    assert patch == {"metadata": {**METADATA, "labels": labels}}
    labelled = msgspec.structs.replace(with_devices, deallocating=True)
    assert device_requests.metadata_patch(labelled, BACK, "7") is None
    patch = device_requests.metadata_patch(labelled, allocating(None), "7")
    assert patch == {"metadata": {**METADATA, "labels": dict.fromkeys(labels)}}


def test_a_claim_is_known_before_it_is_written() -> None:
    """The next cycle sees it like that while the call is under way; no pod is there twice."""
    allocated = msgspec.structs.replace(CLAIM, allocation=ALLOCATION, reserved_for=(POD,))
    assert device_requests.result(CLAIM, allocating(ALLOCATION)) == allocated
    assert device_requests.result(allocated, allocating(None)) == allocated
    assert device_requests.result(allocated, BACK) == CLAIM


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        (allocating(ALLOCATION), msgspec.structs.replace(CLAIM, uid="c2")),
        (allocating(ALLOCATION), msgspec.structs.replace(CLAIM, deleting=True)),
        (allocating(ALLOCATION), msgspec.structs.replace(CLAIM, writing=True)),
        (allocating(ALLOCATION), SHARED),
        (allocating(None), CLAIM),
        (BACK, CLAIM),
        (BACK, msgspec.structs.replace(SHARED, uid="c2")),
        (allocating(None), MOVED),
        (BACK, MOVED),
        (BACK, msgspec.structs.replace(SHARED, reserved_for=(OTHER, POD))),
    ],
)
def test_a_claim_that_is_another_by_now_is_left_alone(
    change: DeviceChange, claim: ResourceClaim
) -> None:
    """A new claim of the same name, one that got or lost devices or users meanwhile."""
    assert not device_requests.is_about(change, claim)
