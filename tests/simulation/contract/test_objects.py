"""Objects: creation, reading, updates and their preconditions."""

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths


def test_a_new_object_gets_an_identity_and_a_version(case: Case) -> None:
    """UID, resourceVersion, generation 1 and a time in whole seconds."""
    found = case.create_pod("a")["metadata"]
    assert len(found["uid"]) == 36
    assert int(found["resourceVersion"]) > 0
    assert found["generation"] == 1
    assert len(found["creationTimestamp"]) == len("2030-01-01T00:00:00Z")


def test_a_name_is_taken_once(case: Case) -> None:
    """409 AlreadyExists."""
    case.create_pod("a")
    answer = case.ask("POST", case.pods, case.pod("a"))
    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.body["details"] == {"name": "a", "kind": "pods"}


def test_a_missing_object_is_named(case: Case) -> None:
    """404 with the resource and the name."""
    answer = case.ask("GET", paths.PODS.at("none", case.namespace))
    assert (answer.status, answer.body["reason"]) == (404, "NotFound")
    assert answer.message == 'pods "none" not found'


def test_a_namespace_must_exist(case: Case) -> None:
    """404 about the namespace."""
    answer = case.ask("POST", paths.PODS.within("nowhere-at-all"), case.pod("a"))
    assert (answer.status, answer.message) == (404, 'namespaces "nowhere-at-all" not found')


def test_an_update_of_an_old_version_is_refused(case: Case) -> None:
    """409 Conflict; what others wrote stays."""
    old = case.create_pod("a")
    path = paths.PODS.at("a", case.namespace)
    case.api.patch(path, {"metadata": {"labels": {"by": "another"}}})
    answer = case.ask("PUT", path, {**old, "metadata": {**old["metadata"], "labels": {}}})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert case.api.get(path)["metadata"]["labels"] == {"by": "another"}


def test_an_update_that_changes_nothing_keeps_the_version(case: Case) -> None:
    """So it is no event for watches either."""
    old = case.create_pod("a")
    new = case.api.replace(paths.PODS.at("a", case.namespace), old)
    assert new["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


def test_versions_are_counted_over_all_objects(case: Case) -> None:
    """A later write has a higher number."""
    first, second = case.create_pod("a"), case.create_pod("b")
    listed = case.api.get(case.pods)
    versions = [int(each["metadata"]["resourceVersion"]) for each in (first, second, listed)]
    assert versions[0] < versions[1] <= versions[2]
