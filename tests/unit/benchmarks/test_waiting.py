"""Jobs that wait in vain, or run: calls of functions, counted, for each of them in a cycle."""

import pytest

from tests.benchmarks.core import cases, clusters, timing
from tests.unit.benchmarks import test_rich
from vscheduler.core import cycle
from vscheduler.core.model import snapshot

FEW, MANY = 100, 200
"""Waiting jobs, of which every five are of a kind."""

NODES = 20

CYCLE_CALLS_MAX = 2200
"""For a cycle that starts one pod, 2,054; 2,798 when hooks that nobody calls were prepared, and
shares that need no flow were computed by flows."""


def calls_at_rest(waiting: int, *, lent: bool) -> int:
    """How many calls a cycle leads to in which nothing has changed."""
    cluster = cases.without_room(NODES, waiting, waiting // 5, lent=lent)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried = snapshot.FRESH
    for _ in range(2):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy).carried
    taken = cluster.snapshot(carried)
    return test_rich.calls_of(lambda: cycle.run_cycle(taken, policy))


@pytest.mark.parametrize(
    ("lent", "calls_max"),
    [
        (False, 5),  # 3, and 80 when each cycle went through all jobs
        (True, 135),  # 120 and 166; `reclaim` asks for each job
    ],
)
def test_one_more_waiting_job_costs_few_calls(calls_max: int, *, lent: bool) -> None:
    """Jobs without room are left out of cycles, unless evictions might help them."""
    added = calls_at_rest(MANY, lent=lent) - calls_at_rest(FEW, lent=lent)
    assert added <= calls_max * (MANY - FEW)


def calls_for_one_more(running: int) -> tuple[int, int]:
    """How many calls a snapshot and a cycle lead to that start one pod beside running jobs."""
    cluster = cases.running_jobs(NODES, running)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried = snapshot.FRESH
    for _ in range(2):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy).carried
    cluster.add(clusters.Gang(name="late", requests=[clusters.POD]))
    before = test_rich.calls_of(lambda: cluster.snapshot(carried))
    taken = cluster.snapshot(carried)
    return before, test_rich.calls_of(lambda: cycle.run_cycle(taken, policy))


def test_a_running_job_costs_no_calls() -> None:
    """Neither the snapshot nor the cycle looks at it."""
    few, many = calls_for_one_more(FEW), calls_for_one_more(MANY)
    assert many == few
    assert few[1] <= CYCLE_CALLS_MAX
