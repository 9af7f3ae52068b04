"""Leases, as leader election uses them."""

from typing import Any

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path


def lease(name: str, holder: str, **metadata: str) -> dict[str, Any]:
    """A Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "acquireTime": None,
        },
    }


def create(case: Case) -> tuple[Path, dict[str, Any]]:
    """A Lease and its path."""
    made = case.api.create(paths.LEASES.within(case.namespace), lease("l", "one"))
    return paths.LEASES.at("l", case.namespace), made


def test_a_lease_is_stored_without_nulls(case: Case) -> None:
    """Times stay as they were written."""
    _, made = create(case)
    assert made["spec"] == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 0,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    assert "generation" not in made["metadata"]


def test_one_of_two_creates_wins(case: Case) -> None:
    """The other gets 409 AlreadyExists."""
    create(case)
    answer = case.ask("POST", paths.LEASES.within(case.namespace), lease("l", "two"))
    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")


def test_one_of_two_updates_wins(case: Case) -> None:
    """The other has an old version: 409 Conflict."""
    path, made = create(case)
    for holder, status in (("two", 200), ("three", 409)):
        body = {**made, "spec": {**made["spec"], "holderIdentity": holder}}
        assert case.ask("PUT", path, body).status == status
    assert case.api.get(path)["spec"]["holderIdentity"] == "two"


def test_an_update_needs_a_version(case: Case) -> None:
    """422 without it."""
    path, _ = create(case)
    assert case.ask("PUT", path, lease("l", "two")).status == 422


def test_an_update_of_another_lease_is_refused(case: Case) -> None:
    """409 for another UID."""
    path, made = create(case)
    body = {**made, "metadata": {**made["metadata"], "uid": "x"}}
    answer = case.ask("PUT", path, body)
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


def test_an_update_of_a_lease_that_is_gone_is_refused(case: Case) -> None:
    """409 because of the UID, also if there is a new one."""
    path, made = create(case)
    case.api.delete(path)
    assert case.ask("PUT", path, made).status == 409
    create(case)
    assert case.ask("PUT", path, made).status == 409


def test_an_update_without_a_uid_creates(case: Case) -> None:
    """Whatever version it speaks of."""
    path = paths.LEASES.at("l", case.namespace)
    answer = case.ask("PUT", path, lease("l", "two", resourceVersion="7"))
    assert answer.status == 201
    assert case.api.get(path)["spec"]["holderIdentity"] == "two"


def test_a_lease_is_checked(case: Case) -> None:
    """422 with each field."""
    body = lease("l", "one")
    body["spec"] |= {"leaseDurationSeconds": 0, "leaseTransitions": -1}
    answer = case.ask("POST", paths.LEASES.within(case.namespace), body)
    fields = {each["field"] for each in answer.body["details"]["causes"]}
    assert answer.status == 422
    assert fields == {"spec.leaseDurationSeconds", "spec.leaseTransitions"}


def test_a_time_must_be_one(case: Case) -> None:
    """400."""
    body = lease("l", "one")
    body["spec"]["renewTime"] = "yesterday"
    assert case.ask("POST", paths.LEASES.within(case.namespace), body).status == 400
