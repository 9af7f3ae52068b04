"""Lists: versions, pages, selectors, views."""

from typing import Any

import pytest

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths

PARTIAL = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}


def names(listed: dict[str, Any]) -> list[str]:
    """The names in a list."""
    return [each["metadata"]["name"] for each in listed["items"]]


def create(case: Case, *labels: dict[str, str]) -> None:
    """Create pods a, b, c ... with these labels."""
    for number, each in enumerate(labels):
        body = case.pod("abcdef"[number])
        body["metadata"]["labels"] = each
        case.api.create(case.pods, body)


def test_a_list_has_the_version_of_the_newest_write(case: Case) -> None:
    """Or a later one."""
    version = int(case.create_pod("a")["metadata"]["resourceVersion"])
    listed = case.api.get(case.pods)
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) >= version


def test_an_empty_list_has_no_items(case: Case) -> None:
    """An empty array, not null."""
    assert case.api.get(case.pods)["items"] == []


def test_items_of_built_in_kinds_dont_name_their_kind(case: Case) -> None:
    """The list does."""
    case.create_pod("a")
    (item,) = case.api.get(case.pods)["items"]
    assert "kind" not in item
    assert "apiVersion" not in item


def test_items_of_custom_kinds_name_their_kind(case: Case) -> None:
    """Unlike those of built-in kinds."""
    case.create_group("g")
    (item,) = case.api.get(paths.POD_GROUPS.within(case.namespace))["items"]
    assert (item["kind"], item["apiVersion"]) == ("PodGroup", paths.VOLCANO)


def test_objects_are_sorted_by_namespace_and_name(case: Case) -> None:
    """In every list."""
    for name in ("b", "c", "a"):
        case.create_pod(name)
    assert names(case.api.get(case.pods)) == ["a", "b", "c"]


def test_a_list_comes_in_pages(case: Case) -> None:
    """With a token for the next page, and how many are left."""
    create(case, {}, {}, {})
    first = case.api.get(f"{case.pods}?limit=2")
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    token = first["metadata"]["continue"]
    last = case.ask("GET", case.pods, query={"limit": "2", "continue": token}).body
    assert names(last) == ["c"]
    assert not last["metadata"].get("continue")


def test_pages_show_one_moment(case: Case) -> None:
    """Whatever is written meanwhile."""
    create(case, {}, {}, {})
    first = case.api.get(f"{case.pods}?limit=1")
    case.create_pod("d")
    case.api.delete(case.at("c"))
    case.api.patch(case.at("b"), {"metadata": {"labels": {"new": "yes"}}})
    token = first["metadata"]["continue"]
    rest = case.ask("GET", case.pods, query={"continue": token}).body
    assert names(rest) == ["b", "c"]
    assert "labels" not in rest["items"][0]["metadata"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_broken_token_is_refused(case: Case) -> None:
    """400."""
    answer = case.ask("GET", case.pods, query={"continue": "nonsense"})
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=x", ["a"]),
        ("app==x", ["a"]),
        ("app!=x", ["b", "c"]),
        ("app in (x,y)", ["a", "b"]),
        ("app notin (x, y)", ["c"]),
        ("app", ["a", "b"]),
        ("!app", ["c"]),
        ("app,tier=1", ["b"]),
    ],
)
def test_label_selectors(case: Case, selector: str, found: list[str]) -> None:
    """Equality, sets and existence; != and notin select objects without the label, too."""
    create(case, {"app": "x"}, {"app": "y", "tier": "1"}, {})
    answer = case.ask("GET", case.pods, query={"labelSelector": selector})
    assert names(answer.body) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=somewhere", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("spec.nodeName!=", ["b"]),
        ("spec.schedulerName=nobody", ["a", "b"]),
        ("metadata.name=a", ["a"]),
        ("metadata.name=a,spec.nodeName=somewhere", []),
        ("status.phase!=Succeeded,status.phase!=Failed", ["a", "b"]),
    ],
)
def test_field_selectors(case: Case, selector: str, found: list[str]) -> None:
    """Those that schedulers and kubelets use."""
    case.create_pod("a")
    case.create_pod("b", nodeName="somewhere")
    answer = case.ask("GET", case.pods, query={"fieldSelector": selector})
    assert names(answer.body) == found


def test_an_unknown_field_selector_is_refused(case: Case) -> None:
    """400."""
    answer = case.ask("GET", case.pods, query={"fieldSelector": "spec.colour=red"})
    assert (answer.status, answer.message) == (400, "field label not supported: spec.colour")


def test_events_are_selected_by_the_object_they_are_about(case: Case) -> None:
    """By involvedObject, in the older version of the API."""
    for number in (1, 2):
        case.api.create(
            paths.EVENTS.within(case.namespace), event(case, f"e{number}", f"p{number}")
        )
    path = paths.CORE_EVENTS.within(case.namespace)
    answer = case.ask("GET", path, query={"fieldSelector": "involvedObject.name=p2"})
    assert names(answer.body) == ["e2"]


def event(case: Case, name: str, pod: str) -> dict[str, Any]:
    """An Event about a pod."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": case.namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "tests",
        "reportingInstance": "tests-1",
        "action": "Testing",
        "reason": "Tested",
        "type": "Normal",
        "note": "a note",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": case.namespace,
            "name": pod,
            "uid": "1",
        },
    }


def test_events_are_the_same_in_both_versions_of_the_api(case: Case) -> None:
    """Under other names of fields."""
    case.api.create(paths.EVENTS.within(case.namespace), event(case, "e", "p"))
    found = case.api.get(paths.CORE_EVENTS.at("e", case.namespace))
    assert (found["apiVersion"], found["message"]) == ("v1", "a note")
    assert found["involvedObject"]["name"] == "p"
    assert found["reportingComponent"] == "tests"


def test_an_event_needs_a_time_and_a_type(case: Case) -> None:
    """422."""
    body = event(case, "e", "p")
    del body["eventTime"]
    answer = case.ask("POST", paths.EVENTS.within(case.namespace), {**body, "type": ""})
    assert answer.status == 422
    assert {each["field"] for each in answer.body["details"]["causes"]} == {"eventTime", "type"}


def test_a_list_of_all_namespaces_names_them(case: Case) -> None:
    """Each object has its namespace."""
    case.create_pod("a")
    found = case.ask("GET", paths.PODS.everywhere, query={"fieldSelector": "metadata.name=a"})
    spaces = [each["metadata"]["namespace"] for each in found.body["items"]]
    assert case.namespace in spaces


def test_metadata_only(case: Case) -> None:
    """As the Accept header asks."""
    case.create_pod("a")
    listed = case.ask("GET", case.pods, headers=PARTIAL).body
    assert listed["kind"] == "PartialObjectMetadataList"
    (item,) = listed["items"]
    assert (item["kind"], item["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    assert "spec" not in item


def test_a_version_that_is_not_reached_is_refused(case: Case) -> None:
    """504, with the time after which to try again."""
    query = {"resourceVersion": "99999999", "timeoutSeconds": "1"}
    answer = case.ask("GET", case.pods, query=query)
    assert (answer.status, answer.body["reason"]) == (504, "Timeout")
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_a_version_that_is_no_number_is_refused(case: Case) -> None:
    """400."""
    assert case.ask("GET", case.pods, query={"resourceVersion": "abc"}).status == 400


def test_a_version_may_be_asked_for_exactly(case: Case) -> None:
    """The objects as they were then."""
    create(case, {})
    then = case.api.get(case.pods)["metadata"]["resourceVersion"]
    case.create_pod("b")
    query = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    assert names(case.ask("GET", case.pods, query=query).body) == ["a"]
