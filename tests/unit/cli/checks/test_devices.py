from collections.abc import Sequence
from typing import Any

import pytest

from tests import device_labs, running
from tests.oracle import manifests
from vscheduler.cli.checks import devices
from vscheduler.testing import pictures

Document = dict[str, Any]

GPU = device_labs.device_class()
BROKEN = {"cel": {"expression": "device.["}}


def said(objects: Sequence[Document], **entry: str) -> list[tuple[str, str, str]]:
    """What is found about a pod with this claim, and about the objects."""
    pod = manifests.pod("p", "default")
    pod["metadata"] |= {"uid": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    claims = [{"name": "gpu", **entry}]
    pod["spec"] |= {"schedulerName": pictures.SCHEDULER, "resourceClaims": claims}
    group = manifests.group("default", "g")
    taken = running.snapshot_of([manifests.QUEUE, *objects, group, pod])
    known = taken.devices
    found = [
        *devices.of_slices(known),
        *devices.of_classes(known),
        *devices.of_claims(known),
        *devices.of_pods(taken),
    ]
    return [(each.name, each.field, each.message) for each in found]


def claim(**fields: Any) -> Document:
    """A claim with these fields in its request."""
    found = device_labs.claim("c")
    found["spec"]["devices"]["requests"][0]["exactly"] |= fields
    return found


def broken_class() -> Document:
    """A class with a selector that nobody can read."""
    found = device_labs.device_class()
    found["spec"]["selectors"] = [BROKEN]
    return found


def partitioned() -> Document:
    """A slice with a device that stands alone, and two parts of another."""
    found = device_labs.resource_slice("n1", 3)
    for device in found["spec"]["devices"][1:]:
        device["consumesCounters"] = [{"counterSet": "s", "counters": {"m": {"value": "1"}}}]
    return found


def deleted() -> Document:
    """A claim that is being deleted."""
    found = device_labs.claim("c")
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


REQUEST = "spec.devices.requests[0]"
UNREADABLE = "'device.[' can't be evaluated: 1:8: Syntax error: no viable alternative at input '.['"
CASES = {
    "nothing is wrong": ([GPU, claim()], {"resourceClaimName": "c"}, []),
    "no claims and classes at all": ([], {"resourceClaimName": "c"}, []),
    "a missing claim": (
        [GPU, claim()],
        {"resourceClaimName": "d"},
        [
            (
                "default/p",
                "spec.resourceClaims",
                "ResourceClaim d isn't among those given; the pod waits for it",
            )
        ],
    ),
    "a missing template": (
        [GPU, claim()],
        {"resourceClaimTemplateName": "t"},
        [
            (
                "default/p",
                "spec.resourceClaims",
                "the template of entry gpu isn't among those given; the pod waits for its claim",
            )
        ],
    ),
    "a claim that goes": (
        [GPU, deleted()],
        {"resourceClaimName": "c"},
        [
            (
                "default/p",
                "spec.resourceClaims",
                "ResourceClaim c is being deleted; the pod never starts",
            )
        ],
    ),
    "a missing class": (
        [device_labs.device_class("other"), claim()],
        {"resourceClaimName": "c"},
        [
            (
                "default/c",
                REQUEST,
                "DeviceClass gpu isn't among those given; the claim is never allocated",
            )
        ],
    ),
    "selectors that can't be read": (
        [broken_class(), claim(selectors=[BROKEN])],
        {"resourceClaimName": "c"},
        [
            ("gpu", "spec.selectors[0]", UNREADABLE),
            ("default/c", f"{REQUEST}.selectors[0]", UNREADABLE),
        ],
    ),
    "devices that aren't supported": (
        [GPU, partitioned(), claim()],
        {"resourceClaimName": "c"},
        [
            (
                "slice-n1",
                "spec.devices[1].consumesCounters",
                "2 devices share counters with others, which isn't supported: no claim gets them",
            )
        ],
    ),
    "what isn't supported": (
        [GPU, claim(capacity={"requests": {"memory": "1Gi"}})],
        {"resourceClaimName": "c"},
        [("default/c", f"{REQUEST}.exactly.capacity", "is not supported")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name: str) -> None:
    """A finding for each mistake, and none where something just isn't given."""
    objects, entry, expected = CASES[name]
    assert said(objects, **entry) == expected
