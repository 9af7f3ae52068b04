from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import PodDisruptionBudget, ResourceQuota
from vscheduler.mirror.translate import translation
from vscheduler.model.constraints import Operator, Requirement, Selector
from vscheduler.model.jobs import JobId, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.snapshot import Budget


def budget(selector: dict[str, Any] | None, **rest: Any) -> Budget:
    """The budget of a manifest."""
    found = manifests.read(manifests.budget("b", selector, **rest))
    assert isinstance(found, PodDisruptionBudget)
    return translation.budget(found)


def quota(hard: dict[str, Any], used: dict[str, Any] | None = None, **spec: Any) -> Any:
    """The quota of a manifest."""
    found = manifests.read(manifests.quota("q", hard, used, **spec))
    assert isinstance(found, ResourceQuota)
    return translation.quota(found)


def task(namespace: str = "ns", **labels: str) -> Task:
    """A running task with these labels."""
    return Task(
        uid=TaskId("t"),
        namespace=namespace,
        name="t",
        job=JobId("ns/g"),
        pod_class=PodClass(request={"pods": 1}),
        status=TaskStatus.RUNNING,
        created=0.0,
        labels=labels,
    )


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        (None, (False, False, False)),
        ({}, (True, True, False)),
        ({"matchLabels": {"app": "a"}}, (True, False, False)),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, (True, False, False)),
        (
            {
                "matchLabels": {"app": "a"},
                "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}],
            },
            (False, False, False),
        ),
    ],
)
def test_a_budget_covers_what_its_selector_says(
    selector: dict[str, Any] | None, covered: tuple[bool, ...]
) -> None:
    """policy/v1: no selector is nobody, an empty one is everybody in the namespace."""
    found = budget(selector)
    candidates = (task(app="a"), task(), task("other", app="a"))
    assert tuple(found.covers(candidate) for candidate in candidates) == covered


@pytest.mark.parametrize(("allowed", "expected"), [(0, 0), (3, 3), (-1, 0)])
def test_a_budget_allows_what_its_status_says(allowed: int, expected: int) -> None:
    """Never less than nothing."""
    assert budget({}, allowed=allowed).allowed == expected


def test_a_budget_without_status_allows_nothing() -> None:
    """No controller has counted its pods yet."""
    document = manifests.budget("b", {})
    del document["status"]
    found = manifests.read(document)
    assert isinstance(found, PodDisruptionBudget)
    assert translation.budget(found).allowed == 0


@pytest.mark.parametrize(
    ("expression", "field", "message"),
    [
        ({"key": "a", "operator": "Gt", "values": ["1"]}, "operator", "Gt isn't for labels of"),
        ({"key": "a", "operator": "In"}, "values", "In needs at least one value"),
        ({"operator": "Exists"}, "key", "is missing"),
    ],
)
def test_a_bad_selector_names_its_field(
    expression: dict[str, Any], field: str, message: str
) -> None:
    """The second expression is the bad one."""
    fine = {"key": "b", "operator": "Exists"}
    with pytest.raises(FieldError) as caught:
        budget({"matchExpressions": [fine, expression]})
    assert caught.value.field == f"spec.selector.matchExpressions[1].{field}"
    assert caught.value.message.startswith(message)


def test_label_selectors_are_read_in_one_order() -> None:
    """Equal ones are equal, however they were written."""
    found = budget({"matchLabels": {"b": "2", "a": None}}).selector
    one, two = (Requirement(key, Operator.IN, (text,)) for key, text in (("a", ""), ("b", "2")))
    assert found == Selector((one, two))


@pytest.mark.parametrize(
    ("hard", "expected"),
    [
        ({"cpu": "1500m"}, {"cpu": 1500}),
        ({"requests.cpu": "1", "requests.memory": "1Ki"}, {"cpu": 1000, "memory": 1024}),
        ({"cpu": "2", "requests.cpu": "1"}, {"cpu": 1000}),
        ({"requests.nvidia.com/gpu": "4"}, {"nvidia.com/gpu": 4}),
        ({"pods": "3"}, {"pods": 3}),
        ({"count/pods": "5", "pods": "7"}, {"pods": 5}),
        ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": 4194304}),
        ({"requests.ephemeral-storage": "1k"}, {"ephemeral-storage": 1000}),
        ({"cpu": "1", "limits.cpu": "9", "count/jobs.batch": "9", "services": "1"}, {"cpu": 1000}),
        ({"cpu": "1", "requests.storage": "9", "persistentvolumeclaims": "1"}, {"cpu": 1000}),
        ({"cpu": "1", "gold.storageclass.storage.k8s.io/requests.storage": "9"}, {"cpu": 1000}),
        ({"cpu": "1", "requests.count/x": "9"}, {"cpu": 1000}),
    ],
)
def test_a_quota_is_read_by_what_pods_request(
    hard: dict[str, Any], expected: dict[str, int]
) -> None:
    """Of two names for one resource the tighter limit holds."""
    assert quota(hard).hard == expected


def test_only_the_use_of_what_is_limited_counts() -> None:
    """Of two names for one resource the larger use."""
    found = quota({"cpu": "4"}, {"cpu": "1", "requests.cpu": "2", "memory": "1Gi"})
    assert found.used == {"cpu": 2000}
    assert (found.namespace, found.name) == ("ns", "q")


@pytest.mark.parametrize(
    "spec", [{"scopes": ["BestEffort"]}, {"scopeSelector": {"matchExpressions": []}}]
)
def test_a_quota_with_scopes_is_left_out(spec: dict[str, Any]) -> None:
    """It counts some of the namespace's pods only."""
    assert quota({"cpu": "1"}, **spec) is None


def test_a_quota_about_other_things_is_left_out() -> None:
    """It limits nothing that a pod requests."""
    assert quota({"services": "1"}) is None


def test_a_bad_amount_names_its_field() -> None:
    """By the name that stands there."""
    with pytest.raises(FieldError) as caught:
        quota({"requests.cpu": "much"})
    assert caught.value.field == "spec.hard.requests.cpu"
    with pytest.raises(FieldError) as caught:
        quota({"cpu": "1"}, {"cpu": "-1"})
    assert caught.value.field == "status.used.cpu"
