"""Discovery, reviews, and paths that lead nowhere."""

import pytest

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths


def test_a_version_is_told(case: Case) -> None:
    """With major and minor."""
    found = case.api.get("/version")
    assert (found["major"], found["gitVersion"].startswith("v1.")) == ("1", True)


@pytest.mark.parametrize("api_version", ["v1", "apps/v1", paths.VOLCANO, "policy/v1"])
def test_resources_are_listed(case: Case, api_version: str) -> None:
    """With kind, scope and verbs."""
    found = case.api.get(paths.version(api_version))
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", api_version)
    for each in found["resources"]:
        assert {"name", "kind", "namespaced", "verbs"} <= each.keys()


def test_subresources_are_listed(case: Case) -> None:
    """As resources of their own."""
    found = case.api.get(paths.version(paths.VOLCANO))
    scopes = {each["name"]: each["namespaced"] for each in found["resources"]}
    assert scopes == {"podgroups": True, "queues": False, "queues/status": False}
    names = {each["name"] for each in case.api.get(paths.version("v1"))["resources"]}
    assert {"pods", "pods/binding", "pods/eviction", "pods/status"} <= names


def test_groups_are_listed(case: Case) -> None:
    """All, and one by one."""
    listed = case.api.get("/apis")
    groups = {each["name"]: each for each in listed["groups"]}
    group = groups["scheduling.volcano.sh"]
    assert group["preferredVersion"]["groupVersion"] == paths.VOLCANO
    assert case.api.get("/apis/scheduling.volcano.sh")["versions"] == group["versions"]
    assert case.api.get("/api")["versions"] == ["v1"]


def test_a_resource_that_isnt_served(case: Case) -> None:
    """404 without a name."""
    answer = case.ask("GET", f"/api/v1/namespaces/{case.namespace}/cats")
    assert (answer.status, answer.body["reason"]) == (404, "NotFound")
    assert answer.message == "the server could not find the requested resource"


def test_a_group_that_isnt_served(case: Case) -> None:
    """404, and no Status."""
    answer = case.ask("GET", "/apis/cats.example/v1")
    assert (answer.status, answer.text) == (404, "404 page not found\n")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_collection_isnt_written(case: Case, method: str) -> None:
    """405."""
    headers = {"content-type": "application/merge-patch+json"}
    assert case.ask(method, case.pods, {}, headers=headers).status == 405


def test_an_object_is_created_in_its_collection(case: Case) -> None:
    """405 for its own path, and for all namespaces."""
    for path in (case.at("a"), paths.PODS.everywhere):
        assert case.ask("POST", path, case.pod("a")).status == 405


def test_a_review_of_ones_own_rights(case: Case) -> None:
    """An administrator may do everything."""
    spec = {"resourceAttributes": {"resource": "pods", "verb": "watch"}}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": spec,
    }
    answer = case.ask("POST", paths.REVIEWS.everywhere, body)
    assert (answer.status, answer.body["status"]["allowed"]) == (201, True)


@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b"\xff"])
def test_what_is_no_object_is_refused(case: Case, body: bytes) -> None:
    """400."""
    assert case.ask("POST", case.pods, body).status == 400


def test_another_kind_is_refused(case: Case) -> None:
    """400."""
    assert case.ask("POST", case.pods, {**case.pod("a"), "kind": "Node"}).status == 400


def test_another_namespace_is_refused(case: Case) -> None:
    """400."""
    body = case.pod("a")
    body["metadata"]["namespace"] = "default"
    assert case.ask("POST", case.pods, body).status == 400


def test_another_name_is_refused(case: Case) -> None:
    """400 for an update."""
    made = case.create_pod("a")
    made["metadata"]["name"] = "b"
    assert case.ask("PUT", case.at("a"), made).status == 400


def test_what_is_too_large_is_refused(case: Case) -> None:
    """500 for more than the store takes, 413 for more than the server reads."""
    body = case.pod("a")
    body["spec"]["containers"][0]["args"] = ["x" * 1_700_000]
    assert case.ask("POST", case.pods, body).status == 500
    body["spec"]["containers"][0]["args"] = ["x" * 3_200_000]
    assert case.ask("POST", case.pods, body).status == 413
