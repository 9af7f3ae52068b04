"""Rich constraints: work grows no faster than the cluster does."""

from functools import partial, wraps

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.benchmarks.core import rich, timing
from tests.unit.benchmarks.growth import LINEAR, exponent, work_of
from vscheduler.core import cycle
from vscheduler.core.api.contracts import NodeView
from vscheduler.core.plugins.nodeorder import NodeOrder
from vscheduler.model.decisions import Bind
from vscheduler.model.jobs import Task

SMALL, LARGE = 200, 800
"""Nodes; pods, queues, pools and groups grow with them."""


def work_of_a_cycle(kind: str, nodes: int) -> int:
    """The work of a cycle that binds all pods of a cluster of this kind."""
    build, tiers = rich.KINDS[kind]
    taken = build(nodes).snapshot()
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim", tiers)
    bound: list[Bind] = []
    work = work_of(lambda: bound.extend(cycle.run_cycle(taken, policy).binds))
    assert len(bound) == rich.gangs_of(nodes) * rich.GANG
    return work


@pytest.mark.parametrize("kind", rich.KINDS)
def test_work_grows_with_the_cluster(kind: str) -> None:
    """Not with nodes times lists, queues times groups, or queues times queues."""
    assert exponent(partial(work_of_a_cycle, kind), SMALL, LARGE) <= LINEAR


@pytest.mark.parametrize("kind", ["spread over zones and hosts", "anti-affinity by zone"])
def test_all_nodes_are_scored_once_for_each_gang(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not once for each of its ten pods, although each changes where the others may go."""
    score, whole = NodeOrder.score_nodes, 0

    @wraps(score)  # with what it declares to depend on
    def counted(plugin: NodeOrder, task: Task, view: NodeView) -> NDArray[np.float64]:
        nonlocal whole
        whole += view.rows is None
        return score(plugin, task, view)

    monkeypatch.setattr(NodeOrder, "score_nodes", counted)
    work_of_a_cycle(kind, SMALL)
    assert whole == rich.gangs_of(SMALL)
