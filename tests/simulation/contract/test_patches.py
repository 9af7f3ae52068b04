"""Patches of all kinds, and what an update may not change."""

from typing import Any

import pytest

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths


def test_a_merge_patch_sets_and_removes(case: Case) -> None:
    """Null removes; the rest stays."""
    body = case.pod("a")
    body["metadata"]["labels"] = {"one": "1", "two": "2"}
    case.api.create(case.pods, body)
    labels = {"one": None, "three": "3"}
    new = case.api.patch(case.at("a"), {"metadata": {"labels": labels}})
    assert new["metadata"]["labels"] == {"two": "2", "three": "3"}


def test_a_merge_patch_replaces_lists(case: Case) -> None:
    """As a whole."""
    path, _ = case.create_group("g")
    for kinds in (["One", "Two"], ["Three"]):
        conditions = [{"type": kind, "status": "True"} for kind in kinds]
        case.api.patch(path, {"status": {"conditions": conditions}})
    found = case.api.get(path)["status"]["conditions"]
    assert [each["type"] for each in found] == ["Three"]


def test_a_patch_with_an_old_version_is_refused(case: Case) -> None:
    """409, of any kind."""
    made = case.create_pod("a")
    path, group = case.create_group("g")
    for where, old in ((case.at("a"), made), (path, group)):
        case.api.patch(where, {"metadata": {"labels": {"by": "another"}}})
        version = old["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version, "labels": {"by": "me"}}}
        answer = case.patch(where, body)
        assert (answer.status, answer.body["reason"]) == (409, "Conflict")


def test_a_patch_with_the_current_version_is_served(case: Case) -> None:
    """And gets the next version."""
    path, group = case.create_group("g")
    version = group["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "status": {"phase": "Inqueue"}}
    answer = case.patch(path, body)
    assert answer.status == 200
    assert int(answer.body["metadata"]["resourceVersion"]) > int(version)


@pytest.mark.parametrize("kind", ["merge", "strategic"])
def test_a_patch_with_another_uid_is_invalid(case: Case, kind: str) -> None:
    """422, while deletions and updates answer 409."""
    case.create_pod("a")
    answer = case.patch(case.at("a"), {"metadata": {"uid": "x"}}, kind)
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert "metadata.uid: Invalid value" in answer.message


def test_a_status_patch_of_a_pod_checks_the_uid(case: Case) -> None:
    """422, too."""
    case.create_pod("a")
    body = {"metadata": {"uid": "x"}, "status": {"nominatedNodeName": "n"}}
    answer = case.patch(f"{case.at('a')}/status", body, "strategic")
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def test_a_patch_of_a_custom_kind_with_another_uid_is_invalid(case: Case) -> None:
    """422 as well."""
    path, _ = case.create_group("g")
    answer = case.patch(path, {"metadata": {"uid": "x", "labels": {"a": "b"}}})
    assert answer.status == 422
    assert "metadata.uid: Invalid value" in answer.message


def test_a_status_patch_of_a_custom_kind_ignores_the_uid(case: Case) -> None:
    """All metadata but the version."""
    path, made = case.create_queue("q")
    body = {"metadata": {"uid": "x", "labels": {"a": "b"}}, "status": {"state": "Open"}}
    answer = case.patch(f"{path}/status", body)
    assert answer.status == 200
    assert answer.body["metadata"]["uid"] == made["metadata"]["uid"]
    assert "labels" not in answer.body["metadata"]


def test_a_patch_that_changes_nothing_keeps_the_version(case: Case) -> None:
    """So no watch sees it."""
    path, _ = case.create_group("g", minMember=2)
    old = case.api.patch(path, {"status": {"phase": "Inqueue"}})
    new = case.api.patch(path, {"status": {"phase": "Inqueue"}})
    assert new["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


def test_a_strategic_patch_merges_conditions_by_type(case: Case) -> None:
    """Others stay."""
    case.create_pod("a")
    path = f"{case.at('a')}/status"
    for kind, status in (("One", "True"), ("Two", "True"), ("One", "False")):
        body = {"status": {"conditions": [{"type": kind, "status": status}]}}
        case.api.patch(path, body, kind="strategic")
    found = case.api.get(case.at("a"))["status"]["conditions"]
    assert {each["type"]: each["status"] for each in found} == {"One": "False", "Two": "True"}


def test_a_strategic_patch_deletes_items(case: Case) -> None:
    """With $patch."""
    case.create_pod("a")
    path = f"{case.at('a')}/status"
    conditions = [{"type": each, "status": "True"} for each in ("One", "Two")]
    case.api.patch(path, {"status": {"conditions": conditions}}, kind="strategic")
    body = {"status": {"conditions": [{"type": "One", "$patch": "delete"}]}}
    found = case.api.patch(path, body, kind="strategic")["status"]["conditions"]
    assert [each["type"] for each in found] == ["Two"]


def test_a_strategic_patch_replaces_a_list_if_told_to(case: Case) -> None:
    """With $patch, too."""
    case.create_pod("a")
    path = f"{case.at('a')}/status"
    case.api.patch(
        path, {"status": {"conditions": [{"type": "One", "status": "True"}]}}, kind="strategic"
    )
    conditions = [{"type": "Two", "status": "True"}, {"$patch": "replace"}]
    found = case.api.patch(path, {"status": {"conditions": conditions}}, kind="strategic")
    assert [each["type"] for each in found["status"]["conditions"]] == ["Two"]


def test_a_strategic_patch_removes_with_null(case: Case) -> None:
    """As a merge patch does."""
    case.create_pod("a")
    path = f"{case.at('a')}/status"
    case.api.patch(path, {"status": {"nominatedNodeName": "n"}}, kind="strategic")
    new = case.api.patch(path, {"status": {"nominatedNodeName": None}}, kind="strategic")
    assert "nominatedNodeName" not in new["status"]


def test_a_strategic_patch_adds_finalizers(case: Case) -> None:
    """And $deleteFromPrimitiveList takes them away."""
    path = case.at("a")
    case.create_pod("a")
    for each in ("tests/one", "tests/two"):
        new = case.api.patch(path, {"metadata": {"finalizers": [each]}}, kind="strategic")
    assert sorted(new["metadata"]["finalizers"]) == ["tests/one", "tests/two"]
    body = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["tests/one"]}}
    new = case.api.patch(path, body, kind="strategic")
    assert new["metadata"]["finalizers"] == ["tests/two"]
    case.api.patch(path, {"metadata": {"finalizers": None}})


def test_custom_kinds_take_no_strategic_patch(case: Case) -> None:
    """415."""
    path, _ = case.create_group("g")
    answer = case.patch(path, {"spec": {"minMember": 1}}, "strategic")
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


def test_a_patch_needs_a_content_type(case: Case) -> None:
    """415 for plain JSON."""
    case.create_pod("a")
    assert case.ask("PATCH", case.at("a"), {"metadata": {}}).status == 415


def test_json_patches(case: Case) -> None:
    """Test, add, replace, remove."""
    case.create_pod("a")
    steps = [
        {"op": "test", "path": "/metadata/name", "value": "a"},
        {"op": "add", "path": "/metadata/labels", "value": {"x/y": "1", "z": "2"}},
        {"op": "replace", "path": "/metadata/labels/x~1y", "value": "3"},
        {"op": "remove", "path": "/metadata/labels/z"},
    ]
    new = case.api.patch(case.at("a"), steps, kind="json")
    assert new["metadata"]["labels"] == {"x/y": "3"}


@pytest.mark.parametrize(
    "step",
    [
        {"op": "test", "path": "/metadata/name", "value": "other"},
        {"op": "remove", "path": "/metadata/labels/none"},
        {"op": "replace", "path": "/metadata/labels/none", "value": "1"},
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused(case: Case, step: dict[str, Any]) -> None:
    """422, and nothing is changed."""
    made = case.create_pod("a")
    add = {"op": "add", "path": "/metadata/annotations/new", "value": "1"}
    answer = case.patch(case.at("a"), [add, step], "json")
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert case.api.get(case.at("a"))["metadata"] == made["metadata"]


@pytest.mark.parametrize(("kind", "body"), [("json", {}), ("merge", [])])
def test_a_patch_of_the_wrong_form_is_refused(case: Case, kind: str, body: Any) -> None:
    """400."""
    case.create_pod("a")
    assert case.patch(case.at("a"), body, kind).status == 400


def test_an_update_of_a_pod_leaves_its_status_alone(case: Case) -> None:
    """The status has a path of its own."""
    old = case.create_pod("a")
    body = {**old, "status": {"phase": "Failed"}}
    new = case.api.replace(case.at("a"), body)
    assert new["status"] == old["status"]
    assert new["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


def test_a_status_update_leaves_the_rest_alone(case: Case) -> None:
    """Of a pod, and of a Queue."""
    path, queue = case.create_queue("q", weight=2)
    body = {**queue, "spec": {"weight": 9}, "status": {"state": "Closed"}}
    new = case.api.replace(f"{path}/status", body)
    assert (new["spec"]["weight"], new["status"]) == (2, {"state": "Closed"})
    assert new["metadata"]["generation"] == 1


def test_a_status_update_of_a_pod_may_change_labels(case: Case) -> None:
    """Unlike that of a custom kind."""
    pod = case.create_pod("a")
    body = {**pod, "metadata": {**pod["metadata"], "labels": {"x": "y"}}}
    new = case.api.replace(f"{case.at('a')}/status", body)
    assert new["metadata"]["labels"] == {"x": "y"}


def test_podgroups_have_no_status_subresource(case: Case) -> None:
    """404; status changes with the object, and counts for the generation."""
    path, _ = case.create_group("g")
    assert case.patch(f"{path}/status", {"status": {"phase": "Running"}}).status == 404
    new = case.api.patch(path, {"status": {"phase": "Running"}})
    assert (new["status"]["phase"], new["metadata"]["generation"]) == ("Running", 2)


def test_the_generation_counts_changes_of_the_spec(case: Case) -> None:
    """Not of metadata or status."""
    path, _ = case.create_queue("q")
    case.api.patch(path, {"metadata": {"labels": {"x": "y"}}})
    case.api.patch(f"{path}/status", {"status": {"state": "Open"}})
    assert case.api.get(path)["metadata"]["generation"] == 1
    assert case.api.patch(path, {"spec": {"weight": 5}})["metadata"]["generation"] == 2


def test_nobody_changes_what_is_the_servers(case: Case) -> None:
    """Generation and creationTimestamp are kept without an error; a deletion has its own verb."""
    old = case.create_pod("a")["metadata"]
    times = {"creationTimestamp": "2030-01-01T00:00:00Z"}
    new = case.api.patch(case.at("a"), {"metadata": {"generation": 9, **times}})
    assert new["metadata"] == old
    times = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
    assert case.patch(case.at("a"), {"metadata": times}).status == 422


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a b": "c"}}, "metadata.labels"),
        ({"labels": {"a": "c d"}}, "metadata.labels"),
        ({"labels": {"a": "x" * 64}}, "metadata.labels"),
        ({"annotations": {"a b": "c"}}, "metadata.annotations"),
        ({"annotations": {"a": "x" * 300_000}}, "metadata.annotations"),
        ({"finalizers": ["a b"]}, "metadata.finalizers"),
    ],
)
def test_metadata_is_checked(case: Case, metadata: dict[str, Any], field: str) -> None:
    """422 with the field."""
    case.create_pod("a")
    answer = case.patch(case.at("a"), {"metadata": metadata})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert field in {each["field"] for each in answer.body["details"]["causes"]}


def test_labels_are_text(case: Case) -> None:
    """A number is refused."""
    path, _ = case.create_group("g")
    answer = case.patch(path, {"metadata": {"labels": {"a": 1}}})
    assert answer.status in (400, 422)


def test_a_missing_object_is_not_patched(case: Case) -> None:
    """404."""
    path = paths.POD_GROUPS.at("none", case.namespace)
    assert case.patch(path, {"status": {}}).status == 404
