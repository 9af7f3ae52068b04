"""Pods that exist, but have no role or no label: their job is told what to set, not to create."""

import pytest

from tests import running
from vscheduler.mirror import statuses
from vscheduler.mirror.wording import phrases, sentences
from vscheduler.model.decisions import GroupStatus
from vscheduler.model.jobs import GroupState
from vscheduler.testing import pictures

TREE = {"actions": "allocate", "tiers": running.tiers("priority gang | predicates proportion")}
DECODE = "0 of 2 pods of role decode exist (minTaskMember decode: 2)"

CASES = {
    "no role": (
        "min=3 roles=prefill:1,decode:2 prefill:- - -",
        f"2 pods have no role, such as a-1: set volcano.sh/task-spec; {DECODE}",
    ),
    "no role, and too few": (
        "min=3 roles=prefill:1,decode:2 prefill:- -",
        f"1 pod has no role (a-1): set volcano.sh/task-spec; {DECODE}; create 2 more",
    ),
    "no role behind a gate": (
        "min=3 roles=prefill:1,decode:2 prefill:- ! !",
        f"2 pods have no role, such as a-1: set volcano.sh/task-spec; {DECODE}",
    ),
    "a misspelt role": (
        "min=3 roles=prefill:1,decode:2 prefill:- decoder:- decoder:-",
        (
            "2 pods have role decoder, such as a-1, and not decode: "
            f"correct volcano.sh/task-spec; {DECODE}"
        ),
    ),
    "a role that may be meant": (
        "min=3 roles=prefill:1,decode:2 prefill:- router:-",
        (f"{DECODE}; create 2 more; 1 pod has role router (a-1), which minTaskMember doesn't name"),
    ),
    "roles are missing": (
        "min=3 roles=prefill:1,decode:2 prefill:-",
        f"{DECODE}; create 2 more",
    ),
    "pods that run have what they have": (
        "min=3 roles=prefill:1,decode:2 prefill:- n1",
        f"{DECODE}; create 2 more",
    ),
    "no label of sub-groups": (
        "min=4 subgroups=2x2 x:- x:- - -",
        (
            "2 pods have no label volcano.sh/task-spec, such as a-2: set it; "
            "1 of 2 sub-groups of policy role have all their pods (minSubGroups 2)"
        ),
    ),
    "no label, while a sub-group lacks a pod": (
        "min=3 subgroups=0x3 x:- x:- -",
        (
            "1 pod has no label volcano.sh/task-spec (a-2): set it; 2 of 3 pods of the sub-group "
            "with volcano.sh/task-spec=x of policy role exist (subGroupSize 3)"
        ),
    ),
}


@pytest.mark.parametrize(("pods", "said"), CASES.values(), ids=CASES)
def test_what_pods_lack_is_said_before_what_could_be_created(pods: str, said: str) -> None:
    """In the reason, from where the condition of the PodGroup and the column REASON take it."""
    documents = pictures.documents(f"node n1 cpu=9 queue q job q/a {pods}")
    (status,) = running.run(documents, TREE).groups
    assert status.reason is not None
    assert sentences.sentence(status.reason) == said
    assert said.startswith(phrases.short(said).rstrip("…"))
    assert _unschedulable(status) == said


def _unschedulable(status: GroupStatus) -> str:
    state = statuses.group_state(status, GroupState(), now=0.0, transition="1")
    return next(
        condition.message for condition in state.conditions if condition.type == "Unschedulable"
    )
