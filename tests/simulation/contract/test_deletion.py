"""Deletion: preconditions, finalizers, grace, collections."""

import pytest

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths


def test_a_deletion_is_answered_with_a_status(case: Case) -> None:
    """Of what was deleted."""
    path, made = case.create_group("g")
    answer = case.ask("DELETE", path)
    assert (answer.status, answer.body["status"]) == (200, "Success")
    assert answer.body["details"] == {
        "name": "g",
        "group": "scheduling.volcano.sh",
        "kind": "podgroups",
        "uid": made["metadata"]["uid"],
    }
    assert case.api.find(path) is None


def test_a_missing_object_is_not_deleted(case: Case) -> None:
    """404."""
    assert case.ask("DELETE", paths.POD_GROUPS.at("none", case.namespace)).status == 404


@pytest.mark.parametrize("precondition", ["uid", "resourceVersion"])
def test_preconditions(case: Case, precondition: str) -> None:
    """409 if another object is meant; otherwise it goes."""
    path, made = case.create_group("g")
    answer = case.ask("DELETE", path, {"preconditions": {precondition: "7"}})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    right = {precondition: made["metadata"][precondition]}
    assert case.ask("DELETE", path, {"preconditions": right}).status == 200


def test_a_version_as_precondition_forbids_changes_since(case: Case) -> None:
    """409 after anybody's write."""
    path, made = case.create_group("g")
    case.api.patch(path, {"metadata": {"labels": {"x": "y"}}})
    old = {"resourceVersion": made["metadata"]["resourceVersion"]}
    assert case.ask("DELETE", path, {"preconditions": old}).status == 409


def test_a_finalizer_keeps_an_object(case: Case) -> None:
    """Marked, and shown in the answer; the generation counts that."""
    path, _ = case.create_group("g")
    case.api.patch(path, {"metadata": {"finalizers": ["tests/wait"]}})
    found = case.ask("DELETE", path).body["metadata"]
    assert found["deletionGracePeriodSeconds"] == 0
    assert found["generation"] == 2
    assert case.api.get(path)["metadata"]["deletionTimestamp"] == found["deletionTimestamp"]
    case.api.patch(path, {"metadata": {"finalizers": None}})
    assert case.api.find(path) is None


def test_a_second_deletion_changes_nothing(case: Case) -> None:
    """Not even the version."""
    path, _ = case.create_group("g")
    case.api.patch(path, {"metadata": {"finalizers": ["tests/wait"]}})
    first, second = (case.ask("DELETE", path).body["metadata"] for _ in range(2))
    assert second == first
    case.api.patch(path, {"metadata": {"finalizers": None}})


def test_no_finalizer_is_added_to_what_is_being_deleted(case: Case) -> None:
    """422."""
    path, _ = case.create_group("g")
    case.api.patch(path, {"metadata": {"finalizers": ["tests/wait"]}})
    case.api.delete(path)
    body = {"metadata": {"finalizers": ["tests/wait", "tests/more"]}}
    answer = case.patch(path, body)
    assert answer.status == 422
    assert "no new finalizers can be added" in answer.message
    case.api.patch(path, {"metadata": {"finalizers": None}})


def test_what_is_being_deleted_can_be_changed(case: Case) -> None:
    """Status and labels, until it is gone."""
    path, _ = case.create_group("g")
    case.api.patch(path, {"metadata": {"finalizers": ["tests/wait"]}})
    case.api.delete(path)
    new = case.api.patch(path, {"status": {"phase": "Inqueue"}})
    assert new["status"]["phase"] == "Inqueue"
    assert "deletionTimestamp" in new["metadata"]
    case.api.patch(path, {"metadata": {"finalizers": None}})


def test_the_last_finalizer_by_an_update(case: Case) -> None:
    """The object is gone, too."""
    path, _ = case.create_group("g")
    case.api.patch(path, {"metadata": {"finalizers": ["tests/wait"]}})
    case.api.delete(path)
    stored = case.api.get(path)
    del stored["metadata"]["finalizers"]
    assert case.ask("PUT", path, stored).status == 200
    assert case.api.find(path) is None


def test_a_pod_without_a_node_goes_at_once(case: Case) -> None:
    """And is answered whole."""
    case.create_pod("a")
    answer = case.ask("DELETE", case.at("a"))
    assert (answer.status, answer.body["kind"]) == (200, "Pod")
    assert case.api.find(case.at("a")) is None


def test_a_pod_on_a_node_has_its_grace(case: Case) -> None:
    """The time is when the grace is over."""
    case.create_pod("a", nodeName="nowhere", terminationGracePeriodSeconds=600)
    found = case.ask("DELETE", case.at("a")).body["metadata"]
    assert found["deletionGracePeriodSeconds"] == 600
    assert found["deletionTimestamp"] > found["creationTimestamp"]
    assert found["generation"] == 2
    assert case.api.find(case.at("a")) is not None


def test_the_grace_can_be_shortened(case: Case) -> None:
    """But not extended."""
    case.create_pod("a", nodeName="nowhere")
    grace = []
    for seconds in (60, 90, 10, None):
        body = {} if seconds is None else {"gracePeriodSeconds": seconds}
        found = case.ask("DELETE", case.at("a"), body).body["metadata"]
        grace.append(found["deletionGracePeriodSeconds"])
    assert grace == [60, 60, 10, 10]


def test_the_kubelet_deletes_without_grace(case: Case) -> None:
    """And then the pod is gone."""
    case.create_pod("a", nodeName="nowhere")
    case.api.delete(case.at("a"))
    case.api.delete(case.at("a"), gracePeriodSeconds=0)
    assert case.api.find(case.at("a")) is None


def test_a_finished_pod_has_no_grace(case: Case) -> None:
    """It goes at once."""
    case.create_pod("a", nodeName="nowhere")
    body = {"status": {"phase": "Succeeded"}}
    case.api.patch(f"{case.at('a')}/status", body, kind="strategic")
    case.api.delete(case.at("a"))
    assert case.api.find(case.at("a")) is None


def test_a_finalizer_keeps_a_pod_after_its_grace(case: Case) -> None:
    """Until it is taken away."""
    case.create_pod("a", nodeName="nowhere")
    case.api.patch(case.at("a"), {"metadata": {"finalizers": ["tests/wait"]}})
    case.api.delete(case.at("a"), gracePeriodSeconds=0)
    found = case.api.get(case.at("a"))["metadata"]
    assert found["deletionGracePeriodSeconds"] == 0
    case.api.patch(case.at("a"), {"metadata": {"finalizers": None}})
    assert case.api.find(case.at("a")) is None


def test_without_its_finalizer_a_pod_waits_for_the_kubelet(case: Case) -> None:
    """As long as it has grace."""
    case.create_pod("a", nodeName="nowhere", terminationGracePeriodSeconds=600)
    case.api.patch(case.at("a"), {"metadata": {"finalizers": ["tests/wait"]}})
    case.api.delete(case.at("a"))
    case.api.patch(case.at("a"), {"metadata": {"finalizers": None}})
    assert case.api.find(case.at("a")) is not None


def test_foreground_deletion_waits_for_the_garbage_collector(case: Case) -> None:
    """By a finalizer of its own."""
    path, _ = case.create_group("g")
    case.api.patch(path, {"metadata": {"finalizers": ["tests/wait"]}})
    found = case.ask("DELETE", path, {"propagationPolicy": "Foreground"}).body["metadata"]
    assert sorted(found["finalizers"]) == ["foregroundDeletion", "tests/wait"]
    case.api.patch(path, {"metadata": {"finalizers": None}})
    assert case.api.find(path) is None


def test_a_collection_is_deleted_by_selector(case: Case) -> None:
    """All that is selected, and nothing else."""
    for name in ("a", "b"):
        path, _ = case.create_group(name)
        case.api.patch(path, {"metadata": {"labels": {"name": name}}})
    answer = case.ask(
        "DELETE",
        paths.POD_GROUPS.within(case.namespace),
        query={"labelSelector": "name=a"},
    )
    assert answer.status == 200
    left = case.api.list(paths.POD_GROUPS.within(case.namespace))
    assert [each["metadata"]["name"] for each in left] == ["b"]


def test_a_dry_run_deletes_nothing(case: Case) -> None:
    """Nor does it mark anything."""
    path, made = case.create_group("g")
    assert case.ask("DELETE", path, {"dryRun": ["All"]}).status == 200
    assert case.api.get(path) == made


def test_a_namespace_that_ends_takes_nothing_new(case: Case) -> None:
    """403, as long as it is there."""
    name = f"{case.namespace}-ending"
    path = paths.NAMESPACES.at(name)
    case.api.create(paths.NAMESPACES.everywhere, {"metadata": {"name": name}})
    found = case.ask("DELETE", path).body
    assert found["status"]["phase"] == "Terminating"
    answer = case.ask("POST", paths.PODS.within(name), case.pod("a"))
    assert answer.status in (403, 404)  # the real one may be gone by now
    if answer.status == 403:
        assert answer.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
