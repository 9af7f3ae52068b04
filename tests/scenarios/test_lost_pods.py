"""Gangs that have had their minimum, and have lost pods since."""

from typing import Any

import pytest

from tests import running
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.model.jobs import Phase
from vscheduler.testing import pictures

PICTURE = """
    node  n1 cpu=8
    queue q
    job   q/g min=4 phase=Running n1 -
    """
"""Two of four pods are gone, and one has been created again."""


def cycle(picture: str = PICTURE, *, volcano: bool = False, **status: Any) -> CycleResult:
    """One cycle; `status` is more that the PodGroup says of itself."""
    documents = pictures.documents(picture)
    for document in documents:
        if document["kind"] == "PodGroup":
            document.setdefault("status", {}).update(status)
    tree = dict[str, Any](running.TREE)
    if volcano:
        tree["compatibility"] = "volcano"
    return running.run(documents, tree)


def bound(result: CycleResult) -> list[str]:
    """Who starts."""
    return [bind.task.name for bind in result.binds]


REFILLED = {
    "a replacement of a pod that is gone": (PICTURE, ["g-1"]),
    "of which pods lack, as the phase says": (PICTURE.replace("Running", "Unknown"), ["g-1"]),
    "beside a failed one": (PICTURE.replace("n1 -", "n1*2 -"), ["g-2"]),
    "several at once": (PICTURE.replace("n1 -", "n1 - -"), ["g-1", "g-2"]),
    "of several roles": (
        PICTURE.replace("min=4", "min=4 roles=m:1,w:3").replace("n1 -", "m:n1 w:-"),
        ["g-1"],
    ),
    "though another one is behind a gate": (PICTURE.replace("n1 -", "n1*2 ! -"), ["g-3"]),
}


@pytest.mark.parametrize(("picture", "started"), REFILLED.values(), ids=REFILLED)
def test_a_gang_that_ran_is_refilled(picture: str, started: list[str]) -> None:
    """The pods that exist needn't wait for others, which may never be created."""
    assert bound(cycle(picture)) == started


WHOLE = {
    "it never ran": PICTURE.replace("phase=Running", "phase=Inqueue"),
    "another one of its name ran": PICTURE.replace("phase=Running", ""),
    "nothing of it runs any more": PICTURE.replace("n1 -", "-"),
    "what ran is being deleted": PICTURE.replace("n1 -", "~n1*3 -"),
    "the replacements have no room together": PICTURE.replace("n1 -", "n1 -@4 -@4"),
    "it has sub-groups": PICTURE.replace("min=4", "min=4 subgroups=2x2"),
}


@pytest.mark.parametrize("picture", WHOLE.values(), ids=WHOLE)
def test_otherwise_a_gang_starts_whole_or_not_at_all(picture: str) -> None:
    """A group that is used for another gang begins anew."""
    assert bound(cycle(picture)) == []


def test_in_volcano_s_way_it_waits_for_its_other_pods() -> None:
    """As for all pods of a gang."""
    (group,) = cycle(volcano=True, succeeded=2).groups
    assert group.reason is not None
    assert (group.reason.code, group.reason.tasks) == (ReasonCode.TOO_FEW_PODS, 2)
    assert group.succeeded == 0


def test_what_has_room_no_more_is_told_why() -> None:
    """The reason isn't that pods have to be created."""
    (group,) = cycle(PICTURE.replace("n1 -", "n1 -@9")).groups
    assert group.reason is not None
    assert group.reason.code not in (ReasonCode.TOO_FEW_PODS, None)
    assert group.phase is Phase.UNKNOWN


def test_pods_that_succeeded_count_when_they_are_deleted() -> None:
    """The last pod of a gang starts again, though nothing of the gang runs."""
    picture = PICTURE.replace("n1 -", "-")
    result = cycle(picture, succeeded=3)
    assert bound(result) == ["g-0"]
    (group,) = result.groups
    assert (group.succeeded, group.ready) == (3, True)
    assert bound(cycle(picture, succeeded=2)) == []


def test_a_gang_that_needs_less_is_told_so_beside_one_of_the_same_pods() -> None:
    """Three more pods of one have succeeded and are deleted."""
    picture = "node n1 cpu=9 queue q job q/busy min=1 cpu=9 n1"
    gang = "min=4 cpu=2 phase=Running -*4"
    documents = pictures.documents(f"{picture} job q/a age=9 {gang} job q/b {gang}")
    for document in documents:
        if (document["kind"], document["metadata"]["name"]) == ("PodGroup", "b"):
            document["status"]["succeeded"] = 3
    groups = running.run(documents, dict[str, Any](running.TREE)).groups
    assert [each.reason.placed for each in groups if each.reason is not None] == [0, 3]


@pytest.mark.parametrize(("succeeded", "started"), [(3, ["g-0"]), (2, [])])
def test_deleted_pods_may_have_had_any_role(succeeded: int, started: list[str]) -> None:
    """A master and two workers succeeded, the third worker starts again; roles of waiting pods are
    known.
    """
    picture = PICTURE.replace("min=4", "min=4 roles=m:1,w:3")
    assert bound(cycle(picture.replace("n1 -", "w:-"), succeeded=succeeded)) == started
    (group,) = cycle(picture.replace("n1 -", "m:-*4"), succeeded=2).groups
    assert group.reason is not None
    found = group.reason.code, group.reason.role, group.reason.tasks, group.reason.minimum
    assert found == (ReasonCode.TOO_FEW_OF_ROLE, "w", 2, 3)


@pytest.mark.parametrize(
    ("pods", "succeeded", "started"),
    [("b:- b:-", 2, ["g-0", "g-1"]), ("b:- b:-", 1, []), ("a:n1 b:n1 b:-", 1, ["g-2"])],
)
def test_deleted_pods_may_have_been_in_a_sub_group(
    pods: str, succeeded: int, started: list[str]
) -> None:
    """All of one of two has succeeded, or part of it, and the other one starts again."""
    picture = PICTURE.replace("min=4", "min=3 subgroups=2x2").replace("n1 -", pods)
    assert bound(cycle(picture, succeeded=succeeded)) == started


def test_such_a_gang_is_complete() -> None:
    """Nothing has to be created."""
    (group,) = cycle(PICTURE.replace("n1 -", "n1 n1"), succeeded=2).groups
    assert (group.phase, group.ready, group.reason) == (Phase.RUNNING, True, None)


def test_a_completed_group_whose_pods_are_gone_takes_a_whole_gang() -> None:
    """Whatever its status says of the last one."""
    picture = PICTURE.replace("phase=Running n1 -", "phase=Completed -")
    assert bound(cycle(picture, succeeded=4)) == []


def test_a_gang_that_never_had_its_minimum_is_not_unknown() -> None:
    """So its phase tells it from gangs that may be refilled."""
    picture = PICTURE.replace("Running n1 -", "Inqueue n1 n1 n1 -@9")
    (group,) = cycle(picture).groups
    assert group.phase is Phase.INQUEUE
    (group,) = cycle(picture, volcano=True).groups
    assert group.phase is Phase.UNKNOWN


def test_less_important_pods_go_for_one_more_beside_those_that_succeeded() -> None:
    """Those whose pods are deleted are no places that the other pods have."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/low min=1 priority=1 phase=Running n1 n1 n1
        job   q/high min=1 priority=9 phase=Running n1 -
        """
    documents = pictures.documents(picture)
    for document in documents:
        if document["kind"] == "PodGroup" and document["metadata"]["name"] == "high":
            document["status"]["succeeded"] = 2
    result = running.run(documents, {**running.TREE, "actions": "allocate, preempt"})
    assert [evict.task.job for evict in result.evicts] == ["default/low"]
    high = next(group for group in result.groups if group.job == "default/high")
    assert (high.ready, high.succeeded) == (True, 2)
