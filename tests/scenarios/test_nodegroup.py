import json
from typing import Any

import pytest

from tests import running
from vscheduler.mirror.translate import translation
from vscheduler.simulator import run
from vscheduler.simulator.run import Options, Outcome
from vscheduler.testing import pictures

LABEL = "label=volcano.sh/nodegroup-name"
NODES = f"""
    node n1 cpu=4 {LABEL}=g1   node n2 cpu=4 {LABEL}=g2   node n3 cpu=4 {LABEL}=g3   node n4 cpu=4
    """


def placed(
    picture: str,
    *,
    limits: str | None = None,
    flags: dict[str, Any] | None = None,
    actions: str = "allocate",
    arguments: dict[str, bool] | None = None,
) -> Outcome:
    """One cycle; limits are the annotation of queue q."""
    nodegroup = {"name": "nodegroup", "arguments": arguments or {}, **(flags or {})}
    tiers = [{"plugins": [{"name": "priority"}, {"name": "gang"}, nodegroup]}]
    documents = pictures.documents(NODES + picture)
    for document in documents:
        if (
            limits is not None
            and document["kind"] == "Queue"
            and document["metadata"]["name"] == "q"
        ):
            document["metadata"]["annotations"] = {translation.GROUP_LIMITS: limits}
    policy = running.policy_of({"actions": actions, "tiers": tiers})
    return run.simulate(documents, policy, Options())


def nodes(outcome: Outcome) -> list[str]:
    """Where pods go, sorted by pod."""
    return [each.node for each in sorted(outcome.binds, key=lambda each: each.task.key)]


AFFINITIES: dict[str, tuple[str, dict[str, bool], list[str]]] = {
    "a group that it requires": ("affinity=required:g2", {}, ["n2"]),
    "a required group before a preferred one": ("affinity=required:g2|preferred:g1", {}, ["n2"]),
    "among required ones, a preferred one": ("affinity=required:g1,g3|preferred:g3", {}, ["n3"]),
    "not one that it must avoid": ("affinity=preferred:g1,g2|anti_required:g1", {}, ["n2"]),
    "one that it would rather avoid, last": (
        "affinity=required:g1,g2|anti_preferred:g1",
        {},
        ["n2"],
    ),
    "but even so": ("affinity=anti_preferred:g3", {}, ["n3"]),
    "preferred ones are alike": ("affinity=preferred:g3,g1", {}, ["n1"]),
    "unless their order counts": (
        "affinity=preferred:g3,g1",
        {"enablePreferredOrder": True},
        ["n3"],
    ),
    "nothing, where it names nothing": ("", {}, []),
    "what is in no group, where that is allowed": ("", {"strict": False}, ["n4"]),
    "no group at all, where it must avoid one": ("affinity=anti_required:g1", {}, []),
}


@pytest.mark.parametrize(("affinity", "arguments", "expected"), AFFINITIES.values(), ids=AFFINITIES)
def test_a_queue_uses(affinity: str, arguments: dict[str, bool], expected: list[str]) -> None:
    """Where its pod goes."""
    assert nodes(placed(f"queue q {affinity}   job q/p -", arguments=arguments)) == expected


def test_a_refused_pod_is_told_why() -> None:
    """Nodes count by their group."""
    said = run.tree(placed("queue q affinity=required:g9   job q/p -"))
    message = said["podGroups"]["default/p"]["message"]
    assert "3 node(s) were in a node group that isn't for queue q" in message
    assert "1 node(s) were in no node group" in message


@pytest.mark.parametrize(("inherits", "expected"), [(True, ["n2"]), (False, [])])
def test_a_queue_inherits_from_the_nearest_above_it(inherits: bool, expected: list[str]) -> None:
    """With enableHierarchy; a queue between them that says nothing is passed over."""
    picture = """
        queue top affinity=required:g2   queue mid parent=top   queue q parent=mid
        job   q/p -
        """
    assert nodes(placed(picture, flags={"enableHierarchy": inherits})) == expected


@pytest.mark.parametrize("parent", ["q", "nowhere"])
def test_broken_trees_give_nothing(parent: str) -> None:
    """A circle, a missing parent."""
    picture = f"queue q parent={parent}   job q/p -"
    assert nodes(placed(picture, flags={"enableHierarchy": True})) == []


BOTH = "queue q affinity=required:g1,g2|preferred:g1"
LIMITED = json.dumps({"g1": {"cpu": "3"}})


def test_a_limit_is_kept_in_the_cycle() -> None:
    """Also on nodes of the group that nothing was placed on."""
    picture = f"node n1b cpu=4 {LABEL}=g1   {BOTH}   job q/old n1   job q/p memory=1 -*4"
    outcome = placed(picture.replace("memory=1 ", ""), limits=LIMITED)
    assert nodes(outcome) == ["n1", "n1", "n2", "n2"]
    outcome = placed(picture.replace("memory=1 ", "cpu=2 "), limits=LIMITED)
    assert nodes(outcome) == ["n1", "n2", "n2"]


def test_a_limit_is_of_one_queue_and_of_what_it_names() -> None:
    """Others' pods don't count, nor does what the pod doesn't ask for."""
    picture = f"{BOTH}   queue o affinity=required:g1   job o/o n1*2   job q/p -*2"
    assert nodes(placed(picture, limits=LIMITED)) == ["n1", "n1"]
    gpus = json.dumps({"g1": {"nvidia.com/gpu": "0"}})
    assert nodes(placed(picture, limits=gpus)) == ["n1", "n1"]


def test_room_that_a_gang_gives_back_counts_no_more() -> None:
    """A gang that can't start leaves the limit to others."""
    picture = "queue q affinity=required:g1   job q/gang min=4 age=9 -*4   job q/p -*3"
    outcome = placed(picture, limits=LIMITED)
    assert [bind.task.name for bind in outcome.binds] == ["p-0", "p-1", "p-2"]
    said = run.tree(outcome)["podGroups"]["default/gang"]["message"]
    assert "1 node(s) were in a node group of which queue q has all that it may have" in said


UNREADABLE = {
    '{"g1": {"cpu":': "is not JSON: ",
    "[" * 100_000: "is not JSON: ",
    '["g1"]': "must be an object: amounts by group of nodes",
    '{"g1": "3"}': "g1: must be an object: amounts by resource",
    '{"g1": {"cpu": "3x"}}': "g1.cpu: '3x' is not a quantity",
    '{"g1": {"cpu": null}}': "g1.cpu: must be a quantity",
    '{"g1": {"cpu": true}}': "g1.cpu: true is not a quantity",
    '{"g1": {"cpu": "-1"}}': "g1.cpu: -1 must not be negative",
}


@pytest.mark.parametrize(("text", "problem"), UNREADABLE.items(), ids=UNREADABLE.values())
def test_limits_that_can_not_be_read_stop_the_queue(text: str, problem: str) -> None:
    """And only it; its jobs say what is wrong with them."""
    picture = f"{BOTH}   queue o affinity=required:g1   job o/o -   job q/p -"
    outcome = placed(picture, limits=text)
    assert [bind.task.name for bind in outcome.binds] == ["o-0"]
    said = run.tree(outcome)["podGroups"]["default/p"]["message"]
    assert f"the limits of queue q can't be read ({problem}" in said


def test_a_pod_of_the_same_queue_makes_way_under_the_limit() -> None:
    """Room is there, the limit is reached: the lower job goes."""
    picture = """
        queue q affinity=required:g1
        job   q/low preemptable=true n1*3   job q/high priority=9 -
        """
    outcome = placed(picture, limits=LIMITED, actions="allocate, preempt")
    assert [evict.task.name for evict in outcome.last.evicts] == ["low-2"]
    assert [(each.task.name, each.node) for each in outcome.last.pipelined] == [("high-0", "n1")]
