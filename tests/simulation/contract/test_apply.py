"""Server-side apply, as the status of Queues is written."""

from typing import Any

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths


def condition(kind: str, status: str = "True", **rest: str) -> dict[str, str]:
    """A condition."""
    return {"type": kind, "status": status, **rest}


def test_apply_creates(case: Case) -> None:
    """201, with defaults."""
    path = paths.QUEUES.at(case.name("q"))
    answer = case.apply_queue(path, "one", spec={"weight": 3})
    assert answer.status == 201
    assert answer.body["spec"]["weight"] == 3
    assert answer.body["spec"]["reclaimable"] is True


def test_apply_needs_a_manager(case: Case) -> None:
    """422."""
    path, _ = case.create_queue("q")
    body = {"apiVersion": paths.VOLCANO, "kind": "Queue", "spec": {}}
    answer = case.patch(path, body, "apply")
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def test_apply_needs_a_kind(case: Case) -> None:
    """400."""
    path, _ = case.create_queue("q")
    assert case.patch(path, {"spec": {}}, "apply", fieldManager="one").status == 400


def test_the_status_is_applied_on_its_own(case: Case) -> None:
    """The spec in the same configuration doesn't count."""
    path, _ = case.create_queue("q")
    answer = case.apply_queue(f"{path}/status", "one", spec={"weight": 9}, status={"state": "Open"})
    assert answer.status == 200
    assert (answer.body["spec"]["weight"], answer.body["status"]) == (1, {"state": "Open"})


def test_the_status_of_a_missing_object_is_not_applied(case: Case) -> None:
    """404."""
    path = f"{paths.QUEUES.at(case.name('none'))}/status"
    assert case.apply_queue(path, "one", status={"state": "Open"}).status == 404


def test_managers_have_their_own_conditions(case: Case) -> None:
    """Told apart by type."""
    path, _ = case.create_queue("q")
    for manager in ("one", "two"):
        case.apply_queue(f"{path}/status", manager, status={"conditions": [condition(manager)]})
    found = case.api.get(path)["status"]["conditions"]
    assert sorted(each["type"] for each in found) == ["one", "two"]


def test_what_is_no_longer_applied_goes(case: Case) -> None:
    """A field and a condition, but only the manager's own."""
    path, _ = case.create_queue("q")
    status = f"{path}/status"
    case.apply_queue(status, "one", status={"pending": 1, "conditions": [condition("one")]})
    case.apply_queue(status, "two", status={"running": 2, "conditions": [condition("two")]})
    answer = case.apply_queue(status, "one", status={"inqueue": 3})
    found = answer.body["status"]
    assert "pending" not in found
    assert (found["running"], found["inqueue"]) == (2, 3)
    assert [each["type"] for each in found["conditions"]] == ["two"]


def test_a_shared_field_stays_until_nobody_applies_it(case: Case) -> None:
    """Equal values are no conflict."""
    path, _ = case.create_queue("q")
    status = f"{path}/status"
    for manager in ("one", "two"):
        answer = case.apply_queue(status, manager, status={"state": "Open", "pending": 1})
        assert answer.status == 200
    assert case.apply_queue(status, "one", status={"pending": 1}).body["status"]["state"] == "Open"
    assert "state" not in case.apply_queue(status, "two", status={"pending": 1}).body["status"]


def test_a_field_of_another_manager_is_a_conflict(case: Case) -> None:
    """409, with the manager and the field."""
    path, _ = case.create_queue("q")
    status = f"{path}/status"
    case.apply_queue(status, "one", status={"state": "Open"})
    answer = case.apply_queue(status, "two", status={"state": "Closed"})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    (cause,) = answer.body["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".status.state")
    assert 'conflict with "one"' in cause["message"]


def test_force_takes_a_field_over(case: Case) -> None:
    """The other manager no longer owns it."""
    path, _ = case.create_queue("q")
    status = f"{path}/status"
    case.apply_queue(status, "one", status={"state": "Open", "pending": 1})
    answer = case.apply_queue(status, "two", force=True, status={"state": "Closed"})
    assert answer.body["status"] == {"state": "Closed", "pending": 1}
    answer = case.apply_queue(status, "one", status={"pending": 1})
    assert answer.body["status"] == {"state": "Closed", "pending": 1}


def test_an_update_takes_a_field_over(case: Case) -> None:
    """Without being asked; the next apply conflicts."""
    path, _ = case.create_queue("q")
    status = f"{path}/status"
    case.apply_queue(status, "one", status={"state": "Open"})
    case.api.patch(status, {"status": {"state": "Closed"}})
    answer = case.apply_queue(status, "one", status={"state": "Open"})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


def test_what_was_created_belongs_to_its_creator(case: Case) -> None:
    """An apply of another value conflicts."""
    path, _ = case.create_queue("q", weight=2)
    answer = case.apply_queue(path, "one", spec={"weight": 3})
    assert answer.status == 409
    assert answer.body["details"]["causes"][0]["field"] == ".spec.weight"


def test_maps_are_applied_key_by_key(case: Case) -> None:
    """The keys of other managers stay."""
    path, _ = case.create_queue("q")
    status = f"{path}/status"
    case.apply_queue(status, "one", status={"allocated": {"cpu": "1"}})
    answer = case.apply_queue(status, "two", status={"allocated": {"memory": "1Gi"}})
    assert answer.body["status"]["allocated"] == {"cpu": "1", "memory": "1Gi"}


def test_atomic_maps_are_applied_as_a_whole(case: Case) -> None:
    """What the new value lacks goes."""
    path, _ = case.create_queue("q")
    status = f"{path}/status"
    case.apply_queue(status, "one", status={"deserved": {"cpu": "1", "memory": "1Gi"}})
    answer = case.apply_queue(status, "one", status={"deserved": {"cpu": "2"}})
    assert answer.body["status"]["deserved"] == {"cpu": "2"}
    answer = case.apply_queue(status, "two", status={"deserved": {"pods": "2"}})
    assert answer.status == 409


def test_the_same_configuration_again_changes_nothing(case: Case) -> None:
    """Not even the version."""
    path, _ = case.create_queue("q")
    status = f"{path}/status"
    fields: dict[str, Any] = {"state": "Open", "conditions": [condition("one", reason="Fine")]}
    first = case.apply_queue(status, "one", status=fields).body
    second = case.apply_queue(status, "one", status=fields).body
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_condition_changes_in_place(case: Case) -> None:
    """Its fields are the manager's."""
    path, _ = case.create_queue("q")
    status = f"{path}/status"
    first = condition("one", reason="Fine", message="text")
    case.apply_queue(status, "one", status={"conditions": [first]})
    changed = condition("one", "False", reason="Ill")
    answer = case.apply_queue(status, "one", status={"conditions": [changed]})
    assert answer.body["status"]["conditions"] == [changed]


def test_a_field_that_the_definition_lacks_is_refused(case: Case) -> None:
    """500, as the API server answers it."""
    path, _ = case.create_queue("q")
    answer = case.apply_queue(f"{path}/status", "one", status={"colour": "red"})
    assert answer.status == 500
    assert answer.message.endswith(".status.colour: field not declared in schema")


def test_apply_checks_the_uid_and_the_version(case: Case) -> None:
    """422 and 409; for a missing object 409."""
    path, _ = case.create_queue("q")
    answer = case.apply_queue(path, "one", metadata={"uid": "x"})
    assert answer.status == 422
    answer = case.apply_queue(
        path, "one", force=True, metadata={"resourceVersion": "1"}, spec={"weight": 4}
    )
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    none = paths.QUEUES.at(case.name("none"))
    assert case.apply_queue(none, "one", metadata={"uid": "x"}).status == 409


def test_applied_status_ignores_the_uid(case: Case) -> None:
    """As all patches of the status of a custom kind."""
    path, _ = case.create_queue("q")
    answer = case.apply_queue(
        f"{path}/status", "one", metadata={"uid": "x"}, status={"state": "Open"}
    )
    assert (answer.status, answer.body["status"]) == (200, {"state": "Open"})


def test_labels_are_applied_one_by_one(case: Case) -> None:
    """To built-in kinds, too."""
    case.create_pod("a")
    for manager in ("one", "two"):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "labels": {manager: "x"}},
        }
        assert case.patch(case.at("a"), body, "apply", fieldManager=manager).status == 200
    assert case.api.get(case.at("a"))["metadata"]["labels"] == {"one": "x", "two": "x"}
