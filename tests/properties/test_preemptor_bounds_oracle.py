"""Jobs for which bounds exclude all evictions, against a search for victims for each of them."""

import pytest

from tests import running
from tests.properties import test_cheapest_nodes_oracle
from tests.running import Tree
from vscheduler.core.eviction import victim_columns
from vscheduler.core.eviction.bounds import PreemptorBounds
from vscheduler.core.eviction.planner import Planner
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.rules import Scope
from vscheduler.model.queues import Queue
from vscheduler.testing import pictures

TREES = test_cheapest_nodes_oracle.TREES
TIERS = test_cheapest_nodes_oracle.TIERS


class Checked:
    """Searches for victims all the same, and counts the jobs that the bounds had excluded."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.excluded = self.left = 0
        self._is_excluded = False
        plan, exclude = Planner.plan, PreemptorBounds.exclude

        def checked_plan(
            of: Planner,
            queue: Queue,
            preemptor: Preemptor,
            scope: Scope,
        ) -> bool:
            self._is_excluded = False
            found = plan(of, queue, preemptor, scope)
            assert not (found and self._is_excluded), preemptor.state.job.id
            return found

        def noted(of: PreemptorBounds, preemptor: Preemptor) -> bool:
            self._is_excluded = exclude(of, preemptor)
            self.excluded += self._is_excluded
            self.left += not self._is_excluded
            return False

        patch.setattr(Planner, "plan", checked_plan)
        patch.setattr(PreemptorBounds, "exclude", noted)


@pytest.mark.parametrize("tree", TREES, ids=TIERS)
def test_no_search_finds_victims_that_bounds_exclude(tree: Tree) -> None:
    """Whatever is excluded would have been searched for in vain."""
    with pytest.MonkeyPatch.context() as patch:
        checked = Checked(patch)
        for seed in range(10):
            test_cheapest_nodes_oracle.live(seed, tree)
    assert checked.excluded
    assert checked.left


@pytest.mark.parametrize("tree", [TREES[0], TREES[3]], ids=[TIERS[0], TIERS[3]])
def test_groups_by_requested_resources_exclude_no_victims(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where plugins are asked about pods that request the same resources."""
    monkeypatch.setattr(victim_columns, "GROUPS_MAX", 0)
    checked = Checked(monkeypatch)
    for seed in range(10, 14):
        test_cheapest_nodes_oracle.live(seed, tree)
    assert checked.excluded


@pytest.mark.at_length
@pytest.mark.parametrize("tree", TREES, ids=TIERS)
def test_bounds_of_hundreds_of_contested_clusters(tree: Tree) -> None:
    """The same for many more."""
    with pytest.MonkeyPatch.context() as patch:
        checked = Checked(patch)
        assert sum(test_cheapest_nodes_oracle.live(seed, tree) for seed in range(250))
    assert checked.excluded


RECLAIM = {**TREES[0], "actions": "enqueue, allocate, reclaim"}


def searches(classes: int, held: str, whole_gangs: str) -> int:
    """Return how many jobs are searched victims for, if each asks for other amounts in vain."""
    lines = [f"node n{row} cpu=8 memory=99" for row in range(4)]
    lines += ["queue poor", "queue rich", f"job rich/big {held}"]
    lines += [f"job poor/j{number} min=1 cpu=6 memory={number + 1}" for number in range(classes)]
    picture = "\n".join(f"{line} -" if "poor/j" in line else line for line in lines)
    result = running.run(pictures.documents(picture), configured(whole_gangs))
    assert not result.evicts
    return result.work.get("claims", 0)


@pytest.mark.parametrize(
    ("held", "whole_gangs"),
    [
        ("min=8 cpu=3 n0 n0 n1 n1 n2 n2 n3 n3", "never"),
        ("min=1 cpu=2 n0 n1 n2 n3 n0 n1 n2 n3", "proportionate"),  # no more than its share
    ],
)
def test_no_class_is_searched_for_in_vain(held: str, whole_gangs: str) -> None:
    """Classes share the bounds, which tell that evictions make no room for any of them."""
    assert searches(20, held, whole_gangs) == 0


SURPLUS = """
    node n0 cpu=8
    node n1 cpu=8
    queue poor queue rich
    job rich/gang min=2 cpu=2 n0 n0 n0 n0 n1 n1 n1 n1
    job poor/huge min=1 cpu=9 -
    job poor/fits min=1 cpu=3 -
    """


def test_a_class_that_evictions_help_is_searched_for_after_one_in_vain() -> None:
    """The first job is larger than every node; pods above their minimum make room for the next."""
    result = running.run(pictures.documents(SURPLUS), RECLAIM)
    assert [evict.beneficiary for evict in result.evicts] == ["default/fits"] * len(result.evicts)
    assert result.evicts


IN_VAIN = """
    queue poor weight=4   queue rich   queue other reclaimable=false
    node n9 cpu=10   job other/stays min=1 cpu=10 n9   job poor/ahuge min=1 cpu=9 -
    """
"""The first job would fit on a node whose pod stays."""

BEHIND = {
    "a pod that leaves, and one above the minimum": """
        node n0 cpu=8   node n1 cpu=8
        job rich/goes min=1 cpu=2 ~n0   job other/half min=1 cpu=4 n0
        job rich/gang min=1 cpu=2 n0 n1   job rich/rest min=3 cpu=2 n1*3
        job poor/fits min=1 cpu=4 -
        """,
    "a gang of twice what is lacking": """
        node n0 cpu=8   node n1 cpu=8
        job rich/gang min=4 cpu=2 n0*4   job rich/rest min=4 cpu=2 n1*4
        job poor/fits min=2 cpu=2 - -
        """,
    "a gang that is small enough once it has lost a pod": """
        node n0 cpu=8   node n1 cpu=8
        job rich/gang min=3 cpu=2 n0*4   job rich/rest min=4 cpu=2 n1*4
        job poor/fits min=1 cpu=3 -
        """,
    "a gang that is large only in what is not lacking": """
        node n0 cpu=8 memory=4   node n1 cpu=8 memory=4   node n2 cpu=8 memory=4
        job rich/gang min=4 cpu=2 memory=1 n0*4   job rich/rest min=4 cpu=2 memory=1 n1*4
        job other/half min=1 cpu=4 memory=4 n2
        job poor/fits min=1 cpu=2 memory=4 -
        """,
    "other nodes than the job before": """
        node n0 cpu=8 label=zone=a   node n1 cpu=8 label=zone=b
        job other/gang min=4 cpu=2 n0*4   job rich/many min=1 cpu=2 n1*4
        job poor/bzone min=1 cpu=3 select=zone=a -   job poor/fits min=1 cpu=3 select=zone=b -
        """,
    "other resources than the job before": """
        node n0 cpu=8 memory=8   node n1 cpu=8 memory=8
        job rich/gang min=1 cpu=1 memory=4 n0 n0 n1 n1
        job poor/bcpu min=1 cpu=8 -   job poor/fits min=1 cpu=1 memory=4 -
        """,
}


@pytest.mark.parametrize("way", BEHIND)
def test_a_job_behind_one_in_vain_finds_its_victims(way: str) -> None:
    """Just enough could be free: a lower bound would leave the job out."""
    result = running.run(pictures.documents(IN_VAIN + BEHIND[way]), RECLAIM)
    assert {evict.beneficiary for evict in result.evicts} == {"default/fits"}
    assert result.work["bounded"]


def configured(whole_gangs: str) -> Tree:
    """RECLAIM with this value of wholeGangs."""
    arguments = {"reclaim.wholeGangs": whole_gangs}
    return {**RECLAIM, "configurations": [{"name": "reclaim", "arguments": arguments}]}


def test_gangs_of_any_size_may_go_if_the_configuration_says_so() -> None:
    """The bounds have no limit for their size, either."""
    gangs = """
        node n0 cpu=8   node n1 cpu=8
        job rich/gang min=4 cpu=2 n0*4   job rich/rest min=4 cpu=2 n1*4
        job poor/fits min=1 cpu=2 -
        """
    documents = pictures.documents(IN_VAIN + gangs)
    assert not running.run(documents, RECLAIM).evicts
    assert running.run(documents, configured("always")).evicts


def test_pods_above_a_minimum_go_even_if_no_gang_may() -> None:
    """The bounds count these pods by themselves."""
    picture = IN_VAIN + BEHIND["a pod that leaves, and one above the minimum"]
    result = running.run(pictures.documents(picture), configured("never"))
    assert {evict.beneficiary for evict in result.evicts} == {"default/fits"}
