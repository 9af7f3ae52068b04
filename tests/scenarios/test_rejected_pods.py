"""Pods with something in them that can't be used: their groups say so, and the others go on."""

from typing import Any

import pytest

from tests import running
from tests.unit.mirror import manifests
from vscheduler.mirror.wording import sentences
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

CLAIMS = {"resourceClaims": [{"name": "gpu"}]}
FLAW = (
    "pod ns/bad-0: spec.resourceClaims[0]: names neither a claim nor a template; nothing else is "
    "supported"
)
ROLES = {"minMember": 2, "minTaskMember": {"w": 1, "x": 1}}
ELASTIC = {"minMember": 1}
GANG = {"minMember": 2}
SUB_GROUPS = {
    "minMember": 2,
    "subGroupPolicy": [{"name": "p", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": []}],
}
SPARE = {"minMember": 1, "subGroupPolicy": [{"name": "p", "subGroupSize": 2, "matchLabelKeys": []}]}


def decided(spec: dict[str, Any], good: int, bad: int, **tree: Any) -> tuple[int, str | None]:
    """How many pods are bound, and why the group waits: its code and sentence."""
    documents = [
        manifests.node("n1"),
        manifests.queue("default"),
        manifests.group("g", spec),
        *(manifests.pod(f"good-{at}", group="g") for at in range(good)),
        *(manifests.pod(f"bad-{at}", group="g", spec=CLAIMS) for at in range(bad)),
    ]
    policy = running.policy_of({"actions": "enqueue, allocate", "tiers": tree["tiers"]})
    outcome = run.simulate(documents, policy, Options())
    (status,) = outcome.last.groups
    reason = status.reason
    said = None if reason is None else f"{reason.code}: {sentences.sentence(reason)}"
    assert len(status.rejections) == bad
    assert len(outcome.problems) == bad
    return len(outcome.binds), said


CASES = {
    "nobody else": (ELASTIC, 0, 1, 0, f"PodRejected: 1 of 1 pod can't be used: {FLAW}"),
    "a gang that lacks it": (GANG, 1, 1, 0, f"PodRejected: 1 of 2 pods can't be used: {FLAW}"),
    "several": (GANG, 1, 2, 0, f"PodRejected: 2 of 3 pods can't be used, such as {FLAW}"),
    "a gang that doesn't": (ELASTIC, 1, 1, 1, f"PodRejected: 1 of 2 pods can't be used: {FLAW}"),
    "a role": (ROLES, 1, 1, 0, f"PodRejected: 1 of 2 pods can't be used: {FLAW}"),
    "a sub-group": (SUB_GROUPS, 1, 1, 0, f"PodRejected: 1 of 2 pods can't be used: {FLAW}"),
    "a sub-group that the job needs not": (
        SPARE,
        1,
        1,
        0,
        f"PodRejected: 1 of 2 pods can't be used: {FLAW}",
    ),
    "no room for the others": (
        {"minMember": 5},
        5,
        1,
        0,
        "NeverFits: the nodes that it may use have room for at most 4 of 5 pods",
    ),
    "all can be used": (GANG, 1, 0, 0, "NotEnoughTasks: 1 of 2 pods exist (minMember 2)"),
}


@pytest.mark.parametrize(("spec", "good", "bad", "binds", "reason"), CASES.values(), ids=CASES)
def test_a_group_says_that_pods_of_it_cant_be_used(
    spec: dict[str, Any], good: int, bad: int, binds: int, reason: str
) -> None:
    """Where it lacks them, or nothing else is to be said; the others are placed as ever."""
    bound, said = decided(spec, good, bad, tiers=running.tiers("gang | predicates"))
    assert said is not None
    assert (bound, said[: len(reason)]) == (binds, reason)


def test_without_minima_it_is_said_all_the_same() -> None:
    """Nobody but the group knows of the pod."""
    bound, said = decided(GANG, 1, 1, tiers=running.tiers("predicates"))
    assert (bound, said) == (1, f"PodRejected: 1 of 2 pods can't be used: {FLAW}")


def test_a_group_whose_queue_is_missing_says_that_and_its_pods_say_the_other() -> None:
    """The pod's own words don't wait for the group's."""
    documents = [
        manifests.group("g", {"queue": "nowhere"}),
        manifests.pod("bad-0", group="g", spec=CLAIMS),
    ]
    policy = running.policy_of({"actions": "allocate", "tiers": running.tiers("gang")})
    (status,) = run.simulate(documents, policy, Options()).last.groups
    assert status.reason is not None
    assert str(status.reason.code) == "QueueNotFound"
    assert [rejection.name for rejection in status.rejections] == ["bad-0"]
