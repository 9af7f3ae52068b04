"""Evictions for what a queue may have: victims needn't be where the pod goes that needs it."""

from typing import Any

import pytest

from tests import running
from tests.properties.lives import Life
from tests.scenarios.sharing import losers
from vscheduler.testing import pictures

ACTIONS = "allocate, preempt, reclaim"
CAPACITY: dict[str, Any] = {
    "actions": ACTIONS,
    "tiers": running.tiers("priority gang | predicates capacity:enableHierarchy=true nodeorder"),
}
PROPORTION: dict[str, Any] = {
    "actions": ACTIONS,
    "tiers": running.tiers("priority gang | predicates proportion nodeorder"),
}
ELSEWHERE = """
    node n1 cpu=4   node n2 cpu=4 label=pool=x
    queue a capability=cpu:4
    job a/low min=1 n1*4
    job a/high priority=9 cpu=2 select=pool=x -
    """
BOTH = """
    node n1 cpu=4   node n2 cpu=4
    queue a capability=cpu:4
    job a/low min=1 n1*2 n2*2
    job a/high priority=9 cpu=3 -
    """
ROOT = """
    node n1 cpu=4   node n2 cpu=4 label=pool=x
    queue root capability=cpu:4   queue a   queue b
    job a/low min=1 n1*4
    job b/high cpu=2 select=pool=x -
    """
TREE = """
    node n1 cpu=4   node n2 cpu=4 label=pool=x
    queue org capability=cpu:4 deserved=cpu:4
    queue a parent=org deserved=cpu:2   queue b parent=org deserved=cpu:2
    job a/low min=1 n1*4
    job b/high cpu=2 select=pool=x -
    """


@pytest.mark.parametrize(
    ("picture", "tree", "lost"),
    [
        (ELSEWHERE, CAPACITY, 2),
        (ELSEWHERE, PROPORTION, 2),
        (BOTH, CAPACITY, 3),
        (BOTH, PROPORTION, 3),
        (ROOT, PROPORTION, 2),
        (TREE, CAPACITY, 2),
    ],
    ids=["elsewhere-c", "elsewhere-p", "two-nodes-c", "two-nodes-p", "root", "tree"],
)
def test_for_a_limit_of_the_queue_pods_go_on_any_node(
    picture: str, tree: dict[str, Any], lost: int
) -> None:
    """There is room on a node that has too few victims or none; as many go as the limit lacks."""
    life = Life(pictures.documents(picture))
    first = life.cycle(tree)
    assert sum(losers(first).values()) == lost
    results = [life.cycle(tree) for _ in range(8)]
    assert [bind.task.name for result in results for bind in result.binds] == ["high-0"]
    assert not any(result.evicts for result in results)


def test_only_those_go_who_hold_what_the_limit_is_about() -> None:
    """The youngest hold none of it."""
    picture = """
        node n1 cpu=9 gpu=2   node n2 cpu=4 gpu=2 label=pool=x   node n3 cpu=9
        queue a capability=gpu:2
        job a/low min=1 gpu=1 age=900 n1*2   job a/young min=1 age=9 n3*4
        job a/high priority=9 gpu=1 select=pool=x -
        """
    result = running.run(pictures.documents(picture), CAPACITY)
    assert [evict.task.job for evict in result.evicts] == ["default/low"]


@pytest.mark.parametrize(
    "change",
    [("priority=9", "priority=0"), ("label=pool=x", "label=pool=y"), ("cpu=2", "cpu=5")],
    ids=["equal", "no node", "above the limit"],
)
def test_nobody_goes_for_a_limit_in_vain(change: tuple[str, str]) -> None:
    """Pods of equal priority stay, and all of them if the pod has no node or is above the limit."""
    result = running.run(pictures.documents(ELSEWHERE.replace(*change)), CAPACITY)
    assert result.evicts == ()


def test_what_standing_plans_need_stays_beside_the_limit() -> None:
    """A gang keeps its minimum or goes whole: four of four, where two would do."""
    picture = ELSEWHERE.replace("low min=1", "low min=4")
    result = running.run(pictures.documents(picture), CAPACITY)
    assert losers(result) == {"a": 4}
