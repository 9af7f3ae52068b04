"""Plans with all bounds, and without any: every node is looked at on behalf of every job."""

from collections.abc import Iterator, Sequence
from unittest import mock

import numpy as np
import pytest

from tests import running
from tests.properties import clusters, lives, test_cheapest_nodes_oracle
from tests.running import Tree
from vscheduler.core.eviction import planner
from vscheduler.core.eviction.bounds import Bounds, CheapestNodes
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.rules import NO_COST, Cost, VictimCandidates
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import Task
from vscheduler.testing import pictures

CYCLES = 3
ALWAYS = {"name": "reclaim", "arguments": {"reclaim.wholeGangs": "always"}}
TREES: dict[str, Tree] = {
    **dict(zip(test_cheapest_nodes_oracle.TIERS, test_cheapest_nodes_oracle.TREES, strict=True)),
    "whole gangs always": {**test_cheapest_nodes_oracle.TREES[0], "configurations": [ALWAYS]},
}


class EveryNode(CheapestNodes):
    """All nodes, each as cheap as can be until somebody looks."""

    def ascending(self) -> Iterator[tuple[Cost, int]]:
        """Know nothing; joint searches ask which pods may be evicted, which is no bound."""
        return ((NO_COST, int(row)) for row in np.flatnonzero(self._unexplored))


class NoBounds(Bounds):
    """Rules nobody out."""

    def rule_out(self, preemptor: Preemptor, pool: VictimCandidates) -> bool:
        """Ask what queues may take all the same: joint searches make use of it."""
        super().rule_out(preemptor, pool)
        return False

    def nodes(self, pool: VictimCandidates, task: Task) -> CheapestNodes:
        """Return all nodes."""
        return EveryNode(self._session, self, pool, task)


def decisions(result: CycleResult) -> Sequence[object]:
    """What the cycle decided, and what the next one is told of it."""
    carried = result.carried
    return (
        [(bind.task.key, bind.node) for bind in result.binds],
        [(waiting.task.key, waiting.node) for waiting in result.pipelined],
        [(evict.task.key, evict.beneficiary, evict.whole, evict.moves) for evict in result.evicts],
        list(carried.nominations.items()),
        [(kept.task.key, kept.node) for kept in carried.replacement_reservations],
        sorted(carried.reclaim_failed),
    )


def compare(seed: int, tree: Tree) -> tuple[int, int]:
    """Compare cycles of one cluster; return how many nodes were looked at, with and without."""
    size = clusters.LARGE if seed % 3 == 0 else clusters.SMALL
    life, later = lives.lived_in(lives.from_seed(seed, (1, 2)[seed % 2], size))
    life.add(later)
    bounded = unbounded = 0
    for number in range(CYCLES):
        with mock.patch.object(planner, "Bounds", NoBounds):
            other = running.run(life.documents, tree, carried=life.carried)
        result = life.cycle(tree)
        assert decisions(result) == decisions(other), f"seed {seed}, cycle {number}"
        bounded += result.work.get("offers", 0)
        unbounded += other.work.get("offers", 0)
    return bounded, unbounded


@pytest.mark.parametrize("name", TREES)
def test_plans_are_the_same_without_bounds(name: str) -> None:
    """Bounds only save looks at nodes."""
    looks = [compare(seed, TREES[name]) for seed in range(6)]
    bounded, unbounded = map(sum, zip(*looks, strict=True))
    assert 0 < bounded < unbounded


OTHER_VICTIMS = """
    node n1 cpu=5 memory=4
    node n2 cpu=2 memory=2
    node n3 cpu=2 memory=2
    queue poor weight=1000   queue rich   queue well
    job rich/parts min=1 cpu=2 memory=0 n1
    job rich/rest  min=1 cpu=1 memory=2 n1
    job well/cheap min=1 priority=1 cpu=2 memory=2 n1
    job rich/first min=1 cpu=2 memory=2 n2
    job well/dear  min=1 priority=5 cpu=2 memory=2 n3
    job poor/gang  min=2 cpu=2 memory=2 - -
    """


def test_a_node_becomes_cheaper_when_another_queue_is_the_one_to_lose() -> None:
    """Two pods of the richest queue are dearer than one on n2; once that queue has lost this one,
    the other queue comes first, and loses its least important pod.
    """
    found = running.run(pictures.documents(OTHER_VICTIMS), TREES["whole gangs always"])
    assert sorted(evict.task.name for evict in found.evicts) == ["cheap-0", "first-0"]


@pytest.mark.at_length
@pytest.mark.parametrize("name", TREES)
def test_plans_of_hundreds_of_clusters_are_the_same(name: str) -> None:
    """The same for many more."""
    for seed in range(300):
        compare(seed, TREES[name])
