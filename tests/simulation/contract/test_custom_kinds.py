"""Queues and PodGroups: defaults, unknown fields, validation."""

from typing import Any

import pytest

from tests import crd_cases
from tests.simulation.contract.sides import Case, Memory
from vscheduler.mirror import paths


def ask(case: Case, spec: dict[str, Any], **more: Any) -> Any:
    """Create a Queue, refused or not."""
    body = {
        "apiVersion": paths.VOLCANO,
        "kind": "Queue",
        "metadata": {"name": case.name("q")},
        "spec": spec,
        **more,
    }
    return case.ask("POST", paths.QUEUES.everywhere, body)


def test_defaults(case: Case) -> None:
    """Even of a spec that isn't there."""
    _, queue = case.create_queue("q")
    assert queue["spec"] == {"weight": 1, "reclaimable": True, "dequeueStrategy": "traverse"}
    _, group = case.create_group("g")
    assert group["spec"] == {"queue": "default"}


def test_a_default_comes_back(case: Case) -> None:
    """When the field is removed."""
    path, _ = case.create_group("g", queue="other")
    assert case.api.patch(path, {"spec": {"queue": None}})["spec"]["queue"] == "default"


def test_unknown_fields_are_dropped(case: Case) -> None:
    """At any depth."""
    _, queue = case.create_queue("q", colour="red", affinity={"colour": "red"})
    assert "colour" not in queue["spec"]
    assert queue["spec"]["affinity"] == {}


def test_a_new_queue_has_no_status(case: Case) -> None:
    """The status has a path of its own; a PodGroup's hasn't."""
    assert "status" not in ask(case, {}, status={"state": "Open"}).body
    group = {
        "apiVersion": paths.VOLCANO,
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {},
        "status": {"phase": "Pending"},
    }
    made = case.api.create(paths.POD_GROUPS.within(case.namespace), group)
    assert made["status"] == {"phase": "Pending"}


def test_a_wrong_value_is_refused(case: Case) -> None:
    """422 with the field, the group and the kind."""
    answer = ask(case, {"weight": 0})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    details = answer.body["details"]
    assert (details["group"], details["kind"]) == ("scheduling.volcano.sh", "Queue")
    assert details["causes"][0]["field"] == "spec.weight"


@pytest.mark.parametrize(
    "spec", [{"weight": "x"}, {"weight": 1.5}, {"reclaimable": "no"}, {"capability": []}]
)
def test_a_wrong_type_is_refused(case: Case, spec: dict[str, Any]) -> None:
    """422."""
    assert ask(case, spec).status == 422


def test_a_wrong_phase_is_refused(case: Case) -> None:
    """422, and the PodGroup stays as it was."""
    path, made = case.create_group("g")
    answer = case.patch(path, {"status": {"phase": "Nonsense"}})
    assert answer.status == 422
    assert "status.phase: Unsupported value" in answer.message
    assert case.api.get(path) == made


def test_a_kind_must_be_named(case: Case) -> None:
    """400, unlike for built-in kinds."""
    answer = case.ask("POST", paths.QUEUES.everywhere, {"metadata": {"name": case.name("q")}})
    assert answer.status == 400


def test_an_update_needs_a_version(case: Case) -> None:
    """422 without it."""
    path, made = case.create_queue("q")
    del made["metadata"]["resourceVersion"]
    answer = case.ask("PUT", path, made)
    assert answer.status == 422
    assert "metadata.resourceVersion" in answer.message


def test_a_missing_object_names_the_group(case: Case) -> None:
    """In message and details."""
    answer = case.ask("GET", paths.QUEUES.at("none-such"))
    assert answer.message == 'queues.scheduling.volcano.sh "none-such" not found'
    assert answer.body["details"]["group"] == "scheduling.volcano.sh"


@pytest.mark.parametrize(("plural", "spec"), crd_cases.TAKEN)
def test_what_the_definitions_take(memory: Memory, plural: str, spec: Any) -> None:
    """As the real API server does in tests/integration/test_crds.py."""
    assert _asked(memory, plural, spec).status == 201


@pytest.mark.parametrize(("plural", "spec", "says"), crd_cases.REFUSED)
def test_what_the_definitions_refuse(
    memory: Memory, plural: str, spec: Any, says: dict[str, str]
) -> None:
    """As the real API server does in tests/integration/test_crds.py."""
    answer = _asked(memory, plural, spec)
    assert answer.status == 422
    causes = {each["field"]: each["message"] for each in answer.body["details"]["causes"]}
    for field in says:
        assert any(field in cause for cause in causes), (field, causes)


def _asked(memory: Memory, plural: str, spec: Any) -> Any:
    """Try to create an object that is called `me`."""
    collection = crd_cases.COLLECTIONS[plural]
    place = collection.within("default") if collection.namespaced else collection.everywhere
    body = crd_cases.named(plural, "me", spec=spec)
    return memory.api.ask("POST", place, body, query={"dryRun": "All"})
