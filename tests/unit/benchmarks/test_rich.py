"""Rich constraints: calls of functions, counted, grow no faster than the cluster does."""

import gc
import math
import sys
from collections.abc import Callable

import numpy as np
import numpy.ma
import pytest
from numpy.typing import NDArray

from tests.benchmarks.core import rich, timing
from vscheduler.core import cycle
from vscheduler.core.api import contracts
from vscheduler.core.model import decisions, jobs
from vscheduler.core.plugins import nodeorder

SMALL, MIDDLE, LARGE = 200, 400, 800
"""Nodes; pods, queues, pools and groups grow with them."""
EXPONENT_MAX = 1.1
PER_POD_MAX = 500
"""Calls for each pod on the largest cluster, where most pods are alike; at most 436, and fewer with
twice the nodes. On smaller clusters, where a class of pods is given a large part of the nodes, all
nodes are evaluated at once, with few calls."""
ALIKE = (
    *("plain pods", "affinity across 200 namespaces", "20 GPU types"),
    "one In-list of 1,000 values",
)
STEADY = (
    *("500 queues with node pools", "500 queues with node groups"),
    *("1,000 queues in a tree, capacity", "1,000 queues in a tree, drf"),
    "an In-list of 1,000 values each",
)
STEP_MAX = 2.1
"""How many calls the second step adds at most, relative to the first one. It is 2 where calls grow
with the cluster, 4 with its square, and shows early what is small in small clusters."""


def calls_of(function: Callable[[], object]) -> int:
    """How many functions, written in Python or in C, and steps of generators a call leads to; none
    of the collector's callbacks, such as Hypothesis's, which come when they like.
    """
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def calls_of_a_cycle(kind: str, nodes: int) -> int:
    """The same for a cycle that binds all pods of a cluster of this kind."""
    build, tiers = rich.KINDS[kind]
    taken = build(nodes).snapshot()
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim", tiers)
    bound: list[decisions.Bind] = []
    count = calls_of(lambda: bound.extend(cycle.run_cycle(taken, policy).binds))
    assert len(bound) == rich.gangs_of(nodes) * rich.GANG
    return count


@pytest.mark.parametrize("kind", rich.KINDS)
def test_calls_grow_with_the_cluster(kind: str) -> None:
    """Not with nodes times lists, queues times groups, or queues times queues."""
    if kind in ALIKE:
        assert calls_of_a_cycle(kind, LARGE) <= PER_POD_MAX * rich.gangs_of(LARGE) * rich.GANG
        return
    small, large = calls_of_a_cycle(kind, SMALL), calls_of_a_cycle(kind, LARGE)
    exponent = math.log(large / small) / math.log(LARGE / SMALL)
    assert exponent <= EXPONENT_MAX, (small, large)
    if kind in STEADY:
        middle = calls_of_a_cycle(kind, MIDDLE)
        assert large - middle <= STEP_MAX * (middle - small), (small, middle, large)


@pytest.mark.parametrize("kind", ["spread over zones and hosts", "anti-affinity by zone"])
def test_all_nodes_are_scored_once_for_each_gang(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not once for each of its ten pods, although each changes where the others may go."""
    score, whole = nodeorder.NodeOrder.score_nodes, 0

    def counted(
        plugin: nodeorder.NodeOrder, task: jobs.Task, view: contracts.NodeView
    ) -> NDArray[np.float64]:
        nonlocal whole
        whole += view.rows is None
        return score(plugin, task, view)

    monkeypatch.setattr(nodeorder.NodeOrder, "score_nodes", counted)
    calls_of_a_cycle(kind, SMALL)
    assert whole == rich.gangs_of(SMALL)
