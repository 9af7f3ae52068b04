"""Rich constraints: calls of functions, counted, grow no faster than the cluster does."""

import math
import sys
from collections.abc import Callable

import pytest

from tests.benchmarks.core import rich, timing
from vscheduler.core import cycle

SMALL, LARGE = 100, 400
"""Nodes; pods, queues, pools and groups grow with them."""
EXPONENT_MAX = 1.1
TREE_EXPONENT_MAX = 1.7
"""For the queue tree of plugin drf: each turn compares all queues that wait (docs/benchmarks.md)."""


def calls_of(function: Callable[[], object]) -> int:
    """How many functions, written in Python or in C, and steps of generators a call leads to."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def calls_of_a_cycle(kind: str, nodes: int) -> int:
    """The same for a cycle that binds all pods of a cluster of this kind."""
    build, tiers = rich.KINDS[kind]
    taken = build(nodes).snapshot()
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim", tiers)
    bound = []
    count = calls_of(lambda: bound.extend(cycle.run_cycle(taken, policy).binds))
    assert len(bound) == rich.gangs_of(nodes) * rich.GANG
    return count


@pytest.mark.parametrize("kind", rich.KINDS)
def test_calls_grow_with_the_cluster(kind: str) -> None:
    """Not with nodes times lists, queues times groups, or queues times queues."""
    small, large = (calls_of_a_cycle(kind, nodes) for nodes in (SMALL, LARGE))
    exponent = math.log(large / small) / math.log(LARGE / SMALL)
    assert exponent <= (TREE_EXPONENT_MAX if "drf" in kind else EXPONENT_MAX), (small, large)
