from typing import Any

import pytest

from vscheduler.mirror.decode import events
from vscheduler.mirror.index.entries import Entry, Reader
from vscheduler.mirror.translate import bounds
from vscheduler.model.constraints import Operator, Requirement, Term
from vscheduler.model.devices import (
    Access,
    Configuration,
    Device,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    MatchAttribute,
    ResourceClaim,
    ResourceSlice,
    Version,
    Wanted,
)

API = "resource.k8s.io/v1"
IN = Operator.IN

Document = dict[str, Any]


def entry(document: Document) -> Entry:
    """What the Mirror makes of an object."""
    reader = Reader(
        scheduler_names=("vscheduler",),
        default_queue="default",
        node_selector=(),
        most=bounds.DEFAULT,
    )
    kind = events.kind_of(document)
    assert kind is not None
    found = events.convert(kind, document)
    return reader.take(found)[1]


def refusal(document: Document) -> str:
    """Why an object is unusable."""
    rejection = entry(document).rejection
    assert rejection is not None
    return str(rejection)


def resource_slice(*listed: Document, **spec: Any) -> Document:
    """A slice of node n1."""
    pool = {"name": "n1", "generation": 3, "resourceSliceCount": 2}
    described = {"driver": "gpu.io", "nodeName": "n1", "pool": pool, "devices": list(listed)}
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": described | spec,
    }


def claim(*requests: Document, status: Document | None = None, **rest: Any) -> Document:
    """A claim in namespace ns."""
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
        "spec": {"devices": {"requests": list(requests), **rest}},
        "status": status or {},
    }


def exactly(**fields: Any) -> Document:
    """A request for devices of class gpu."""
    return {"name": "r", "exactly": {"deviceClassName": "gpu", **fields}}


def test_slices() -> None:
    """Names get the driver's domain, and quantities stay as they are written."""
    device = {
        "name": "d0",
        "attributes": {
            "model": {"string": "a"},
            "pci.io/root": {"int": 3},
            "fast": {"bool": False},
            "driver": {"version": "1.2.3"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    }
    found = entry(resource_slice(device)).value
    assert found == ResourceSlice(
        name="s",
        driver="gpu.io",
        pool="n1",
        generation=3,
        slices=2,
        access=Access(node="n1"),
        devices=(
            Device(
                name="d0",
                attributes={
                    "gpu.io/driver": Version("1.2.3"),
                    "gpu.io/fast": False,
                    "gpu.io/model": "a",
                    "pci.io/root": 3,
                },
                capacity={"gpu.io/memory": "80Gi"},
                taints=(DeviceTaint(key="k", value="v", effect="NoSchedule"),),
            ),
        ),
    )


def test_access_to_devices() -> None:
    """By slice or by device: one node, all nodes, or those with labels."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    selector = {"nodeSelectorTerms": [term]}
    wanted = Term(labels=(Requirement("zone", IN, ("a",)),))
    found = entry(resource_slice(nodeName=None, nodeSelector=selector)).value
    assert isinstance(found, ResourceSlice)
    assert found.access == Access(selector=wanted)
    listed: list[Document] = [{"name": "a", "allNodes": True}, {"name": "b", "nodeName": "n2"}]
    found = entry(resource_slice(*listed, nodeName=None, perDeviceNodeSelection=True)).value
    assert isinstance(found, ResourceSlice)
    assert found.access is None
    assert [device.access for device in found.devices] == [
        Access(every_node=True),
        Access(node="n2"),
    ]


@pytest.mark.parametrize(
    ("fields", "unsupported"),
    [
        ({"consumesCounters": [{"counterSet": "c"}]}, "consumesCounters"),
        ({"allowMultipleAllocations": True}, "allowMultipleAllocations"),
        ({"bindingConditions": ["ready"]}, "bindingConditions"),
        ({"bindsToNode": True}, "bindsToNode"),
        ({"nodeAllocatableResourceMappings": {"cpu": {}}}, "nodeAllocatableResourceMappings"),
        ({"attributes": {"list": {"strings": ["a"]}}}, "attributes[list]"),
        ({}, ""),
    ],
)
def test_devices_that_cant_be_allocated(fields: Document, unsupported: str) -> None:
    """Only they are left out, and it is known why."""
    found = entry(resource_slice({"name": "d", **fields})).value
    assert isinstance(found, ResourceSlice)
    assert found.devices[0].unsupported == unsupported


def test_claims() -> None:
    """With all that a request can say."""
    tolerations = [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]
    config = [{"requests": ["r"], "opaque": {"driver": "gpu.io", "parameters": {"b": 1, "a": 2}}}]
    found = entry(
        claim(
            exactly(count=2, selectors=[{"cel": {"expression": "true"}}], tolerations=tolerations),
            {
                "name": "any",
                "firstAvailable": [
                    {"name": "big", "deviceClassName": "gpu", "allocationMode": "All"},
                    {"name": "small", "deviceClassName": "mini"},
                ],
            },
            constraints=[{"matchAttribute": "gpu.io/numa", "requests": ["r"]}],
            config=config,
        )
    ).value
    assert found == ResourceClaim(
        namespace="ns",
        name="c",
        uid="u",
        requests=(
            DeviceRequest(
                name="r",
                alternatives=(
                    Wanted(
                        device_class="gpu",
                        selectors=("true",),
                        count=2,
                        tolerations=(
                            DeviceToleration(key="k", operator="Exists", effect="NoExecute"),
                        ),
                    ),
                ),
            ),
            DeviceRequest(
                name="any",
                alternatives=(
                    Wanted(device_class="gpu", name="big", count=None),
                    Wanted(device_class="mini", name="small"),
                ),
            ),
        ),
        constraints=(MatchAttribute(attribute="gpu.io/numa", requests=("r",)),),
        configurations=(
            Configuration(driver="gpu.io", parameters='{"a": 2, "b": 1}', requests=("r",)),
        ),
    )


def test_allocations() -> None:
    """Who has which devices, and where they can be used."""
    status = {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "r", "driver": "gpu.io", "pool": "n1", "device": "d0"},
                    {
                        "request": "a",
                        "driver": "gpu.io",
                        "pool": "n1",
                        "device": "d1",
                        "adminAccess": True,
                    },
                ]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "pu"}],
    }
    found = entry(claim(exactly(), status=status)).value
    assert isinstance(found, ResourceClaim)
    assert found.allocation is not None
    assert [(device.id.device, device.admin_access) for device in found.allocation.devices] == [
        ("d0", False),
        ("d1", True),
    ]
    name = Requirement("metadata.name", IN, ("n1",))
    assert found.allocation.nodes == (Term(fields=(name,)),)
    assert found.is_reserved_for("pu", "")
    assert not found.is_reserved_for("other", "")


@pytest.mark.parametrize(
    ("labels", "deallocating"), [({}, False), ({"vscheduler.io/deallocating": "true"}, True)]
)
def test_a_claim_may_have_the_label_for_taking_back(
    labels: dict[str, str], *, deallocating: bool
) -> None:
    """It is written once, and removed with the next allocation."""
    body = claim(exactly())
    body["metadata"]["labels"] = labels
    found = entry(body).value
    assert isinstance(found, ResourceClaim)
    assert found.deallocating is deallocating


@pytest.mark.parametrize(
    ("constraint", "request_fields", "unsupported"),
    [
        (
            {"distinctAttribute": "gpu.io/numa"},
            {},
            "spec.devices.constraints[0]: only matchAttribute is supported",
        ),
        (
            {"matchAttribute": "gpu.io/numa"},
            {"capacity": {"requests": {"memory": "1Gi"}}},
            "spec.devices.requests[0].exactly.capacity: is not supported",
        ),
        ({"matchAttribute": "gpu.io/numa"}, {}, ""),
    ],
)
def test_claims_that_cant_be_allocated(
    constraint: Document, request_fields: Document, unsupported: str
) -> None:
    """They are named, with their field."""
    found = entry(claim(exactly(**request_fields), constraints=[constraint])).value
    assert isinstance(found, ResourceClaim)
    assert found.unsupported == unsupported


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (
            resource_slice({"name": "d", "capacity": {"memory": {"value": "lots"}}}),
            "ResourceSlice s: spec.devices[0].capacity[memory].value: 'lots' is not a quantity",
        ),
        (
            resource_slice(nodeName=None, nodeSelector={"nodeSelectorTerms": []}),
            "spec.nodeSelector.nodeSelectorTerms: must have exactly one term",
        ),
        (claim({"name": "r"}), "requests[0]: has neither exactly nor firstAvailable"),
        (claim(exactly(allocationMode="Some")), "'Some' is none of ExactCount, All"),
        (claim(exactly(deviceClassName="")), "requests[0].exactly.deviceClassName: is missing"),
        (claim(exactly(count=-1)), "requests[0].exactly.count: must be a positive number"),
        (
            claim(exactly(selectors=[{}])),
            "requests[0].exactly.selectors[0].cel.expression: is missing",
        ),
        (
            claim(exactly(tolerations=[{"operator": "Like"}])),
            "requests[0].exactly.tolerations[0].operator: 'Like' is none of Equal, Exists",
        ),
        (claim(exactly(count="two")), "spec.devices.requests[0].exactly.count"),
    ],
)
def test_unusable_objects(document: Document, error: str) -> None:
    """Each says which field is wrong."""
    assert error in refusal(document)


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (DeviceToleration(key="k", value="v"), True),
        (DeviceToleration(key="k", value="w"), False),
        (DeviceToleration(key="k", operator="Exists"), True),
        (DeviceToleration(operator="Exists"), True),
        (DeviceToleration(key="l", operator="Exists"), False),
        (DeviceToleration(key="k", value="v", effect="NoExecute"), False),
        (DeviceToleration(key="k", value="v", effect="NoSchedule"), True),
    ],
)
def test_tolerations(toleration: DeviceToleration, *, tolerates: bool) -> None:
    """As for taints of nodes."""
    taint = DeviceTaint(key="k", value="v", effect="NoSchedule")
    assert toleration.tolerates(taint) is tolerates
