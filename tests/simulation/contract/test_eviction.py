"""Evictions and PodDisruptionBudgets."""

from typing import Any

from sandbox.client import Answer
from tests.simulation.contract.sides import Case, Memory
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path

LABELS = {"app": "guarded"}


def evict(case: Case, name: str, **options: Any) -> Answer:
    """Evict a pod, refused or not."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": options,
    }
    return case.ask("POST", paths.PODS.part(name, case.namespace, "eviction"), body)


def run(case: Case, *names: str) -> None:
    """Create pods that run and are ready."""
    for name in names:
        body = case.pod(name, nodeName="nowhere")
        body["metadata"]["labels"] = LABELS
        case.api.create(case.pods, body)
        ready = {"type": "Ready", "status": "True"}
        status = {"status": {"phase": "Running", "conditions": [ready]}}
        case.api.patch(f"{case.at(name)}/status", status, kind="strategic")


def guard(case: Case, *, allowed: int, name: str = "b", minimum: int = 1) -> Path:
    """Create a budget, and wait until its status is worked out."""
    case.api.create(
        paths.BUDGETS.within(case.namespace),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": minimum, "selector": {"matchLabels": LABELS}},
        },
    )
    path = paths.BUDGETS.at(name, case.namespace)
    if isinstance(case.side, Memory):
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "desiredHealthy": minimum,
            "currentHealthy": minimum + allowed,
            "expectedPods": minimum + allowed,
        }
        case.api.patch(f"{path}/status", {"status": status})
    case.api.wait_for(
        path,
        lambda budget: (
            budget["status"].get("observedGeneration") == 1
            and budget["status"]["disruptionsAllowed"] == allowed
        ),
    )
    return path


def test_an_eviction_deletes_with_the_pods_grace(case: Case) -> None:
    """And says so in a condition."""
    run(case, "a")
    answer = evict(case, "a")
    assert (answer.status, answer.body["status"]) == (201, "Success")
    pod = case.api.get(case.at("a"))
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    conditions = {each["type"]: each for each in pod["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"


def test_a_pod_that_is_pending_goes_at_once(case: Case) -> None:
    """No budget protects it."""
    case.create_pod("a")
    assert evict(case, "a").status == 201
    assert case.api.find(case.at("a")) is None


def test_a_missing_pod_is_not_evicted(case: Case) -> None:
    """404."""
    assert evict(case, "none").status == 404


def test_an_eviction_of_another_pod_is_refused(case: Case) -> None:
    """409 for another UID."""
    run(case, "a")
    answer = evict(case, "a", preconditions={"uid": "x"})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert "deletionTimestamp" not in case.api.get(case.at("a"))["metadata"]


def test_the_name_must_be_that_of_the_path(case: Case) -> None:
    """400."""
    run(case, "a")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}}
    path = paths.PODS.part("a", case.namespace, "eviction")
    assert case.ask("POST", path, body).status == 400


def test_a_dry_run_evicts_nothing(case: Case) -> None:
    """Nor does it cost a budget anything."""
    run(case, "a", "b")
    path = guard(case, allowed=1)
    assert evict(case, "a", dryRun=["All"]).status == 201
    assert "deletionTimestamp" not in case.api.get(case.at("a"))["metadata"]
    assert case.api.get(path)["status"]["disruptionsAllowed"] == 1


def test_a_budget_forbids(case: Case) -> None:
    """429 with a cause of its own, also in a dry run."""
    run(case, "a")
    guard(case, allowed=0)
    for options in ({"dryRun": ["All"]}, {}):
        answer = evict(case, "a", **options)
        assert (answer.status, answer.body["reason"]) == (429, "TooManyRequests")
        assert answer.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "deletionTimestamp" not in case.api.get(case.at("a"))["metadata"]


def test_a_budget_is_used_up(case: Case) -> None:
    """At once, before its controller has worked it out again."""
    run(case, "a", "b")
    path = guard(case, allowed=1)
    assert [evict(case, name).status for name in ("a", "b")] == [201, 429]
    assert case.api.get(path)["status"]["disruptionsAllowed"] == 0


def test_a_new_budget_is_awaited(case: Case) -> None:
    """429 until its controller has seen it."""
    run(case, "a")
    path = guard(case, allowed=0)
    unseen = {"spec": {"minAvailable": 0}}
    assert case.api.patch(path, unseen)["metadata"]["generation"] == 2
    if isinstance(case.side, Memory):
        answer = evict(case, "a")
        assert answer.status == 429
        assert answer.body["details"]["causes"][0]["reason"] == "DisruptionBudget"


def test_two_budgets_are_too_many(case: Case) -> None:
    """500, as the API server answers it."""
    run(case, "a", "b")
    guard(case, allowed=1)
    guard(case, allowed=1, name="c")
    answer = evict(case, "a")
    assert answer.status == 500
    assert "more than one PodDisruptionBudget" in answer.message


def test_a_pod_that_is_being_deleted_may_be_evicted(case: Case) -> None:
    """It costs no budget anything."""
    run(case, "a", "b")
    path = guard(case, allowed=1)
    case.api.delete(case.at("a"), gracePeriodSeconds=20)
    assert evict(case, "a").status == 201
    if isinstance(case.side, Memory):
        assert case.api.get(path)["status"]["disruptionsAllowed"] == 1


def test_an_eviction_may_shorten_the_grace(case: Case) -> None:
    """By its options."""
    run(case, "a")
    assert evict(case, "a", gracePeriodSeconds=5).status == 201
    assert case.api.get(case.at("a"))["metadata"]["deletionGracePeriodSeconds"] == 5
