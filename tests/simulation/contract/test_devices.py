"""Resource claims: what may be written to their status, and what may not change."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path

FINALIZER = "resource.kubernetes.io/delete-protection"
SELECTOR = {
    "nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    ]
}


def claim(**status: Any) -> dict[str, Any]:
    """A claim of one device."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    body = {"apiVersion": paths.DEVICES, "kind": "ResourceClaim", "metadata": {"name": "a"}}
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    return {**body, "spec": spec, **({"status": status} if status else {})}


def allocation(device: str = "gpu-0") -> dict[str, Any]:
    """A device of node n1."""
    result = {"request": "gpus", "driver": "gpu.tests", "pool": "n1", "device": device}
    return {"devices": {"results": [result]}, "nodeSelector": SELECTOR}


def users(*uids: str) -> list[dict[str, str]]:
    """Consumers of a kind that the controllers of the real side leave alone."""
    kind = {"apiGroup": "tests", "resource": "users"}
    return [{**kind, "name": f"user-{uid}", "uid": uid} for uid in uids]


def where(case: Case) -> Path:
    """The path of the claim."""
    return paths.RESOURCE_CLAIMS.at("a", case.namespace)


def test_a_claim_gets_its_finalizer_and_then_its_devices(case: Case) -> None:
    """Each patch of the version before; the status of a new claim is dropped."""
    collection = paths.RESOURCE_CLAIMS.within(case.namespace)
    made = case.api.create(collection, claim(allocation=allocation()))
    assert not made.get("status")
    old = made["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": old, "finalizers": [FINALIZER]}}
    protected = case.api.patch(where(case), body)
    assert protected["metadata"]["finalizers"] == [FINALIZER]
    status = {"allocation": allocation(), "reservedFor": users("u0")}
    answer = case.patch(f"{where(case)}/status", {**body, "status": status})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    body = {"metadata": {"resourceVersion": protected["metadata"]["resourceVersion"]}}
    answer = case.patch(f"{where(case)}/status", {**body, "status": status})
    assert answer.status == 200
    assert answer.body["status"] == status
    assert answer.body["metadata"]["finalizers"] == [FINALIZER]


WRONG: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "reserved without devices": ({}, {"reservedFor": users("u0")}),
    "other devices": (
        {"allocation": allocation()},
        {"allocation": allocation("gpu-1")},
    ),
    "devices taken from under a user": (
        {"allocation": allocation(), "reservedFor": users("u0")},
        {"allocation": None},
    ),
    "too many users": (
        {"allocation": allocation()},
        {"reservedFor": users(*(f"u{number}" for number in range(257)))},
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_status_must_make_sense(case: Case, what: str) -> None:
    """422 otherwise."""
    before, after = WRONG[what]
    case.api.create(paths.RESOURCE_CLAIMS.within(case.namespace), claim())
    if before:
        assert case.patch(f"{where(case)}/status", {"status": before}).status == 200
    answer = case.patch(f"{where(case)}/status", {"status": after})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def test_a_claim_gives_everything_back_at_once(case: Case) -> None:
    """Devices and users, in one patch."""
    case.api.create(paths.RESOURCE_CLAIMS.within(case.namespace), claim())
    status = {"allocation": allocation(), "reservedFor": users("u0", "u1")}
    assert case.patch(f"{where(case)}/status", {"status": status}).status == 200
    fewer = case.patch(f"{where(case)}/status", {"status": {"reservedFor": users("u1")}})
    assert fewer.body["status"]["reservedFor"] == users("u1")
    nothing = {"allocation": None, "reservedFor": None}
    answer = case.patch(f"{where(case)}/status", {"status": nothing})
    assert answer.status == 200
    assert not answer.body.get("status")


def test_a_claim_asks_for_the_same_for_ever(case: Case) -> None:
    """Its spec can't be changed."""
    case.api.create(paths.RESOURCE_CLAIMS.within(case.namespace), claim())
    answer = case.patch(where(case), {"spec": {"devices": {"requests": []}}})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def test_nobody_joins_a_claim_that_is_being_deleted(case: Case) -> None:
    """Those that have it may leave."""
    case.api.create(paths.RESOURCE_CLAIMS.within(case.namespace), claim())
    case.api.patch(where(case), {"metadata": {"finalizers": ["tests/keep"]}})
    status = {"allocation": allocation(), "reservedFor": users("u0")}
    assert case.patch(f"{where(case)}/status", {"status": status}).status == 200
    case.api.delete(where(case))
    more = case.patch(f"{where(case)}/status", {"status": {"reservedFor": users("u0", "u1")}})
    assert (more.status, more.body["reason"]) == (422, "Invalid")
    left = case.patch(f"{where(case)}/status", {"status": {"reservedFor": None}})
    assert left.status == 200
    case.api.patch(where(case), {"metadata": {"finalizers": None}})
