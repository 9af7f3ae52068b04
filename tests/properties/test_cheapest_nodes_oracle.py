"""Each node that evictions are planned on is compared with all nodes that nobody looked at."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, strategies

from tests import running
from tests.properties import clusters, lives
from tests.running import Tree
from vscheduler.core.eviction import rules, victim_columns
from vscheduler.core.eviction.bounds import CheapestNodes
from vscheduler.core.eviction.rules import Cost, NodeCandidate
from vscheduler.core.eviction.search import VictimSearch
from vscheduler.model.jobs import Task
from vscheduler.testing import pictures

ACTIONS = "enqueue, allocate, backfill, preempt, reclaim"
TIERS = (
    "priority gang conformance pdb | overcommit drf predicates proportion nodeorder binpack",
    "priority gang conformance pdb | predicates capacity nodeorder",
    "priority gang | drf:enableHierarchy=true predicates nodeorder",
    "priority gang | predicates proportion binpack",
)
TREES: list[Tree] = [{"actions": ACTIONS, "tiers": running.tiers(tiers)} for tiers in TIERS]
CYCLES = 3


class Checked:
    """Counts the choices that were compared."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.choices = self.failures = self.unexplored = 0
        placed = VictimSearch._place_where_cheapest
        accept = VictimSearch._accept
        searched: list[CheapestNodes] = []

        def checked_accept(of: VictimSearch, task: Task, row: int, chosen: NodeCandidate) -> None:
            if searched:  # otherwise the node is given
                self.choices += 1
                cost = rules.ranked_cost(chosen.cost, chosen.losers, of._pool.rank)
                self._compare(of, task, searched[-1], (cost, row))
            accept(of, task, row, chosen)

        def checked_place(of: VictimSearch, task: Task, nodes: CheapestNodes) -> bool:
            searched.append(nodes)
            found = placed(of, task, nodes)
            searched.pop()
            if not found:
                self.failures += 1
                self._compare(of, task, nodes, None)
            return found

        patch.setattr(VictimSearch, "_accept", checked_accept)
        patch.setattr(VictimSearch, "_place_where_cheapest", checked_place)

    def _compare(
        self, of: VictimSearch, task: Task, nodes: CheapestNodes, best: tuple[Cost, int] | None
    ) -> None:
        """No unexplored node is cheaper; after a failure, evictions on none make room."""
        for row in np.flatnonzero(nodes._unexplored).tolist():
            self.unexplored += 1
            other = of._candidate_on(task, row)
            if other is not None:
                assert best is not None, f"{task.key} could be placed on row {row}"
                cost = rules.ranked_cost(other.cost, other.losers, of._pool.rank)
                assert best <= (cost, row), f"{task.key} is cheaper on row {row}"


def live(seed: int, tree: Tree) -> int:
    """Return the number of evictions in a contested cluster."""
    size = clusters.LARGE if seed % 3 == 0 else clusters.SMALL
    life, later = lives.lived_in(lives.from_seed(seed, (1, 2)[seed % 2], size))
    life.add(later)
    return sum(len(life.cycle(tree).evicts) for _ in range(CYCLES))


@pytest.mark.parametrize("tree", TREES, ids=TIERS)
def test_no_node_that_nobody_looked_at_is_cheaper(tree: Tree) -> None:
    """Whatever is chosen is the cheapest; where nothing is, evictions help nowhere."""
    with pytest.MonkeyPatch.context() as patch:
        checked = Checked(patch)

        @clusters.bounded(15)
        @given(strategies.integers(0, 2**32))
        def lived(seed: int) -> None:
            live(seed, tree)

        lived()
    assert checked.choices
    assert checked.failures
    assert checked.unexplored


@pytest.mark.at_length
@pytest.mark.parametrize("tree", TREES, ids=TIERS)
def test_hundreds_of_contested_clusters(tree: Tree) -> None:
    """The same for many more."""
    with pytest.MonkeyPatch.context() as patch:
        checked = Checked(patch)
        assert sum(live(seed, tree) for seed in range(250))
    assert checked.choices


def offers(nodes: int) -> int:
    """Return how many nodes are looked at to start a gang where each node has victims."""
    lines = [f"node n{row:03} cpu=4" for row in range(nodes)]
    lines += ["queue poor", "queue rich"]
    for row in range(nodes):
        lines.append(f"job rich/j{row:03} min=1 cpu=2 n{row:03} n{row:03}")
    lines.append("job poor/gang min=4 cpu=2 - - - -")
    result = running.run(pictures.documents("\n".join(lines)), TREES[0])
    assert len(result.evicts) == 4
    assert result.work["similar"] == 4  # the only group, again after each eviction
    return result.work["offers"]


def test_the_number_of_nodes_that_are_looked_at_does_not_grow() -> None:
    """Bounds tell which nodes are worth a look."""
    assert offers(80) == offers(20) <= 2 * 4


YOUNGEST = """
    node n1 cpu=4
    node n2 cpu=2
    node n3 cpu=4
    queue poor queue rich
    job rich/old    min=1 cpu=2 scheduled=900 n1
    job rich/young  min=1 cpu=2 scheduled=100 n1
    job rich/middle min=1 cpu=2 scheduled=500 n2
    job rich/small  min=1 cpu=1 scheduled=700 n3 n3 n3 n3
    job poor/one    min=1 cpu=2 -
    """


def test_the_youngest_of_similar_pods_counts() -> None:
    """Two pods of 1 cpu could go as well, and no second one of 2 cpu would be needed anywhere."""
    result = running.run(pictures.documents(YOUNGEST), TREES[0])
    assert [evict.task.name for evict in result.evicts] == ["young-0"]


@pytest.mark.parametrize("coarse_groups_max", [victim_columns.COARSE_GROUPS_MAX, 0])
def test_pods_that_differ_too_much_are_looked_at(
    coarse_groups_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more groups than can be asked about, pods are grouped by what they request, or only by
    queue, and nothing is missed.
    """
    monkeypatch.setattr(victim_columns, "GROUPS_MAX", 0)
    monkeypatch.setattr(victim_columns, "COARSE_GROUPS_MAX", coarse_groups_max)
    checked = Checked(monkeypatch)
    assert sum(live(seed, TREES[seed % len(TREES)]) for seed in range(5))
    assert live(6, TREES[3])  # here, a queue may take pods on one kind of nodes only
    assert checked.choices


def in_vain(kinds: int) -> Mapping[str, int]:
    """Return the work for a job in vain, on nodes with so many kinds of pods each."""
    lines = ["queue poor", "queue rich", "job poor/large min=1 cpu=6 -"]
    lines += [f"node n{row} cpu=8 memory=99" for row in range(8)]
    lines += [
        f"job rich/j{number} min=1 cpu=2 memory={number + 1} n{number % 8}"
        for number in range(8 * kinds)
    ]
    result = running.run(pictures.documents("\n".join(lines)), TREES[0])
    assert not result.evicts
    return result.work


@pytest.mark.parametrize("groups_max", [victim_columns.GROUPS_MAX, 15])
def test_no_node_is_looked_at_if_no_pod_may_be_taken(
    groups_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue has its share, of which each pod is a part; 16 kinds of pods are too many to ask
    about each.
    """
    monkeypatch.setattr(victim_columns, "GROUPS_MAX", groups_max)
    work = in_vain(kinds=2)
    assert work["claims"]
    assert "offers" not in work


TWO_PLANS = """
    node n1 cpu=4   node n2 cpu=4
    queue poor queue rich
    job rich/all min=1 cpu=2 n1 n1 n2 n2
    job poor/one min=1 cpu=2 -   job poor/two min=1 cpu=2 -
    """


def test_what_a_queue_may_take_is_asked_again_after_each_plan() -> None:
    """The first plan takes a pod, and places another."""
    result = running.run(pictures.documents(TWO_PLANS), TREES[0])
    assert len(result.evicts) == result.work["entitled"] == 2
