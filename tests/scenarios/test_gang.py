from typing import Any

import pytest

from tests import running
from tests.scenarios.deciding import Decision, bind, decide, evict, pipeline, written
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

TABLE = {
    "a gang that doesn't fit leaves no trace": (
        """
        node  n1 cpu=2
        queue q
        job   q/big min=3   - - -
        job   q/small min=2 - -
        """,
        [bind("small-0", "n1"), bind("small-1", "n1")],
    ),
    "of two gangs that fit by half, one starts whole": (
        """
        node  n1 cpu=2   node n2 cpu=1
        queue q
        job   q/one min=2 - -
        job   q/two min=2 - -
        """,
        [bind("one-0", "n1"), bind("one-1", "n1")],
    ),
    "pods that run count towards the minimum": (
        """
        node  n1 cpu=3
        queue q
        job   q/half min=3 n1 - -
        """,
        [bind("half-1", "n1"), bind("half-2", "n1")],
    ),
    "a gang with too few pods isn't tried": (
        """
        node  n1 cpu=4
        queue q
        job   q/short min=3 - -
        """,
        [],
    ),
    "pods that are being deleted don't count towards the minimum": (
        """
        node  n1 cpu=4
        queue q
        job   q/leaving min=2 ~n1 -
        """,
        [],
    ),
    "a gated pod is a member that can't start yet": (
        """
        node  n1 cpu=4
        queue q
        job   q/gated min=2 ! -
        """,
        [],
    ),
    "jobs that lack their minimum come before those that have it": (
        """
        node  n1 cpu=2
        queue q
        job   q/grows min=1  n1 -
        job   q/starts min=1 -
        """,
        [bind("starts-0", "n1")],
    ),
    "each role has its own minimum": (
        """
        node  n1 cpu=2
        queue q
        job   q/roles min=2 roles=master:1,worker:1 master:- worker:-*2
        """,
        [bind("roles-0", "n1"), bind("roles-1", "n1")],
    ),
    "when a pod of a role fits nowhere, no other of that role is tried": (
        """
        node  n1 cpu=2
        queue q
        job   q/p min=1 w:-@3 w:- m:-
        """,
        [bind("p-2", "n1")],
    ),
    "without a role, smaller pods are tried": (
        """
        node  n1 cpu=2
        queue q
        job   q/p min=1 -@3 - -
        """,
        [bind("p-1", "n1"), bind("p-2", "n1")],
    ),
    "a role that can't reach its minimum ends the job's turn": (
        """
        node  n1 cpu=2
        queue q
        job   q/p min=2 roles=m:1,w:1 m:-@3 w:-*2
        """,
        [],
    ),
    "a gang without the pods of one role isn't tried": (
        """
        node  n1 cpu=4
        queue q
        job   q/headless min=2 roles=master:1,worker:1 worker:-*3
        """,
        [],
    ),
    "role minima above minMember are ignored": (
        """
        node  n1 cpu=4
        queue q
        job   q/loose min=1 roles=master:1,worker:1 worker:-
        """,
        [bind("loose-0", "n1")],
    ),
    "pods of one sub-group are placed side by side": (
        """
        node  n1 cpu=4
        queue q
        job   q/j min=4 subgroups=2x2 a:- b:- c:- d:- a:- b:- c:- d:-
        """,
        [bind("j-0", "n1"), bind("j-1", "n1"), bind("j-4", "n1"), bind("j-5", "n1")],
    ),
    "a sub-group that doesn't fit makes way for one that does": (
        """
        node  n1 cpu=2
        queue q
        job   q/j min=2 subgroups=1x2 a:- a:-@3 b:- b:-
        """,
        [bind("j-2", "n1"), bind("j-3", "n1")],
    ),
    "above the minimum whole sub-groups start, too": (
        """
        node  n1 cpu=5
        queue q
        job   q/j min=2 subgroups=1x2 a:-*2 b:-*2 c:-*2
        """,
        [bind(f"j-{at}", "n1") for at in range(4)],
    ),
    "pods above a sub-group's size come one by one": (
        """
        node  n1 cpu=3
        queue q
        job   q/j min=2 subgroups=1x2 a:-*4
        """,
        [bind(f"j-{at}", "n1") for at in range(3)],
    ),
    "a pod in no sub-group stands by itself": (
        """
        node  n1 cpu=3
        queue q
        job   q/j min=3 subgroups=1x2 - a:-*2 b:-*2
        """,
        [bind("j-0", "n1"), bind("j-1", "n1"), bind("j-2", "n1")],
    ),
    "enough pods in too few sub-groups don't start": (
        """
        node  n1 cpu=3
        queue q
        job   q/j min=2 subgroups=2x2 a:-*2 b:-*2
        """,
        [],
    ),
    "a sub-group that lost a pod is made whole first": (
        """
        node  n1 cpu=3
        queue q
        job   q/j min=2 subgroups=1x2 a:-*2 b:n1 b:-
        """,
        [bind("j-3", "n1")],
    ),
    "a sub-group waits for room as a whole": (
        """
        node  n1 cpu=2
        queue q
        job   q/old ~n1
        job   q/j min=2 subgroups=1x2 a:-*2
        """,
        [pipeline("j-0", "n1"), pipeline("j-1", "n1")],
    ),
    "a sub-group above the minimum waits as a whole, on idle room, too": (
        """
        node  n1 cpu=1   node n2 cpu=1   node n3 cpu=2
        queue q
        job   q/old ~n2
        job   q/j min=2 subgroups=1x2 a:n3*2 b:-*2
        """,
        [pipeline("j-2", "n1"), pipeline("j-3", "n2")],
    ),
    "a gang that waits for room keeps all of it, and binds nothing": (
        """
        node  n1 cpu=1   node n2 cpu=1
        queue q
        job   q/leaves     ~n1
        job   q/next min=2 - -
        job   q/other      -
        """,
        [pipeline("next-0", "n2"), pipeline("next-1", "n1")],
    ),
}


@pytest.mark.parametrize(("picture", "decisions"), TABLE.values(), ids=TABLE)
def test_a_gang_starts_whole_or_not_at_all(picture: str, decisions: list[object]) -> None:
    """What minMember and minTaskMember promise."""
    assert decide(picture, "allocate", "gang | predicates") == decisions


def divided(picture: str, parts: str, **policy: Any) -> list[Document]:
    """The picture, its pods labelled part=a, part=b and so on, in sub-groups of two."""
    documents = pictures.documents(picture)
    drawn = [document for document in documents if document["kind"] == "Pod"]
    for pod, part in zip(drawn, parts, strict=True):
        pod["metadata"]["labels"]["part"] = part
    (group,) = (document for document in documents if document["kind"] == "PodGroup")
    group["spec"]["subGroupPolicy"] = [{"subGroupSize": 2, "minSubGroups": 1, **policy}]
    return documents


def test_a_role_that_found_no_room_in_one_sub_group_may_find_it_in_another() -> None:
    """The room that the first sub-group gave back is there for the next."""
    documents = divided(
        "node n1 cpu=4   queue q   job q/j min=2 w:-@3 w:-@3 w:- w:-",
        "aabb",
        matchLabelKeys=["part"],
    )
    tree = {"actions": "allocate", "tiers": running.tiers("gang | predicates")}
    assert written(running.run(documents, tree)) == [bind("j-2", "n1"), bind("j-3", "n1")]


@pytest.mark.parametrize(
    ("compatibility", "decisions"),
    [({}, [bind("j-0", "n1"), bind("j-1", "n1")]), ({"compatibility": "volcano"}, [])],
)
def test_a_sub_group_may_be_all_that_a_selector_matches(
    compatibility: dict[str, str], decisions: list[object]
) -> None:
    """In Volcano such a policy has no sub-groups, and what needs one never starts."""
    documents = divided(
        "node n1 cpu=2   queue q   job q/j min=2 - - -",
        "aab",
        labelSelector={"matchLabels": {"part": "a"}},
    )
    tree = {"actions": "allocate", "tiers": running.tiers("gang | predicates"), **compatibility}
    assert written(running.run(documents, tree)) == decisions


TIERS = "priority gang | predicates"


def test_pods_go_for_whole_sub_groups() -> None:
    """Two surplus pods for two pods of one sub-group; the last would help no other."""
    assert decide(
        """
        node  n1 cpu=4
        queue q
        job   q/peer min=1 priority=10 n1
        job   q/low  min=1 n1*3
        job   q/high min=2 priority=10 subgroups=1x2 a:- b:- a:- b:-
        """,
        "allocate, preempt",
        TIERS,
    ) == [
        evict("low-1", for_="high"),
        evict("low-2", for_="high"),
        pipeline("high-0", "n1"),
        pipeline("high-2", "n1"),
    ]


def test_room_that_was_made_for_sub_groups_is_taken_by_them() -> None:
    """In later cycles, too, their pods are placed side by side."""
    assert decide(
        """
        node  n1 cpu=4
        queue q
        job   q/low  min=1 n1*4
        job   q/high min=4 priority=10 subgroups=2x2 a:- b:- a:- b:-
        """,
        "allocate, preempt",
        TIERS,
    ) == [
        *(evict(f"low-{at}", for_="high") for at in range(4)),
        *(pipeline(f"high-{at}", "n1") for at in range(4)),
    ]


def test_no_pod_goes_for_a_part_of_a_sub_group() -> None:
    """Its other pod would have no room."""
    assert (
        decide(
            """
        node  n1 cpu=4
        queue q
        job   q/low  min=1 n1
        job   q/peer min=1 priority=10 n1
        job   q/high min=2 priority=10 subgroups=1x2 a:n1 a:n1 b:- b:-
        """,
            "allocate, preempt",
            TIERS,
        )
        == []
    )


@pytest.mark.parametrize(
    ("low", "victims"), [("a:n1*2 b:n1*2", [0, 1, 2, 3]), ("a:n1*2 b:n1 b:-", [2])]
)
def test_no_pod_of_a_whole_sub_group_goes_alone(low: str, victims: list[int]) -> None:
    """The gang goes whole, though it has more pods than its minimum."""
    peer = "" if len(victims) == 4 else "job q/peer min=1 priority=10 n1"
    assert decide(
        f"""
        node  n1 cpu=4
        queue q
        {peer}
        job   q/low  min=2 subgroups=1x2 {low}
        job   q/high min=1 priority=10 -
        """,
        "allocate, preempt",
        TIERS,
    ) == [*(evict(f"low-{at}", for_="high") for at in victims), pipeline("high-0", "n1")]


MIXED = {
    "all of a gang start together, or none": (
        "node n1 cpu=4 pods=1 queue q job q/g min=2 - -@0",
        [],
    ),
    "no more than the minimum needs are waited for": (
        "node n1 cpu=4 pods=2 queue q job q/g min=2 - -@0 -@0",
        [bind("g-0", "n1"), bind("g-1", "n1")],
    ),
    "a role that needs them comes first": (
        "node n1 cpu=4 pods=2 queue q job q/g min=2 roles=a:1,b:1 a:- a:-@0 b:-@0",
        [bind("g-0", "n1"), bind("g-2", "n1")],
    ),
    "a sub-group waits for its own": (
        """
        node  n1 cpu=4 pods=3
        queue q
        job   q/g min=2 subgroups=1x2 a:- a:-@0 b:- b:-@0
        """,
        [bind("g-0", "n1"), bind("g-1", "n1")],
    ),
}


@pytest.mark.parametrize("way", [{}, {"compatibility": "volcano"}], ids=["ours", "volcano"])
@pytest.mark.parametrize("actions", ["allocate", "allocate, backfill"])
@pytest.mark.parametrize(("picture", "decisions"), MIXED.values(), ids=MIXED)
def test_members_that_ask_for_nothing_are_members(
    picture: str, decisions: list[Decision], actions: str, way: dict[str, str]
) -> None:
    """A gang that needs them for its minimum starts with them, and nothing is left to backfill."""
    tree = {"actions": actions, "tiers": running.tiers(running.STANDARD), **way}
    result = running.run(pictures.documents(picture), tree)
    assert [each for each in written(result) if each.what == "bind"] == decisions


def test_others_may_do_for_members_that_have_no_place() -> None:
    """They are taken for placed while they wait, but only until that is found out."""
    picture = "node n1 cpu=4 queue q job q/g min=2 - - -@0"
    documents = pictures.documents(picture)
    (pod,) = [document for document in documents if document["metadata"]["name"] == "g-2"]
    pod["spec"]["nodeSelector"] = {"zone": "nowhere"}
    result = running.run(documents, running.TREE)
    assert written(result) == [bind("g-0", "n1"), bind("g-1", "n1")]


def test_nobody_is_evicted_for_a_gang_whose_other_members_have_no_place() -> None:
    """The plan is for all that the minimum needs; a slot that is freed for one does for another."""
    picture = """
        node  n1 cpu=4 pods=2
        queue q
        job   q/low  min=0 cpu=2 priority=1 {low}
        job   q/high min=2 cpu=3 priority=9 - -@0
        """
    assert decide(picture.format(low="n1"), "allocate, preempt") == [
        evict("low-0", for_="high"),
        pipeline("high-0", "n1"),
        pipeline("high-1", "n1"),
    ]
    short = picture.replace("pods=2", "pods=1").format(low="n1")
    for way in ({}, {"compatibility": "volcano"}):
        tree = {**running.TREE, "actions": "allocate, preempt", **way}
        assert running.run(pictures.documents(short), tree).evicts == ()


def test_what_backfill_held_starts_with_the_rest() -> None:
    """In Volcano's way it keeps slots of a gang whose other members have no place yet."""
    picture = "node n1 cpu=4 pods=2 queue q job q/g min=2 - -@0"
    tree = {**running.TREE, "actions": "backfill, allocate"}
    for way in ({}, {"compatibility": "volcano"}):
        result = running.run(pictures.documents(picture), {**tree, **way})
        assert written(result) == [bind("g-0", "n1"), bind("g-1", "n1")]
