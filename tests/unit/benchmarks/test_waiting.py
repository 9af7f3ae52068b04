"""Jobs that wait in vain, or run: calls of functions, counted, for each of them in a cycle."""

import dataclasses

import pytest

from tests.benchmarks.core import cases, clusters, timing
from tests.unit.benchmarks import test_rich
from vscheduler.core import cycle
from vscheduler.core.model import snapshot

FEW, MANY = 100, 200
"""Waiting jobs, of which every five are of a kind."""

NODES = 20

CHANGE_CALLS_MAX = 85


def calls_at_rest(waiting: int, *, lent: bool) -> int:
    """How many calls a cycle leads to in which nothing has changed."""
    cluster = cases.without_room(NODES, waiting, waiting // 5, lent=lent)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried = snapshot.FRESH
    for _ in range(2):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy).carried
    taken = cluster.snapshot(carried)
    return test_rich.calls_of(lambda: cycle.run_cycle(taken, policy))


@pytest.mark.parametrize("lent", [False, True])
def test_one_more_waiting_job_costs_no_calls(*, lent: bool) -> None:
    """Jobs without room are left out of cycles, whether or not evictions might help them, and what
    their pods request is kept: 1.6 calls for each when sums were formed anew for each kind; 3 and
    120 when `reclaim` woke them.
    """
    assert calls_at_rest(MANY, lent=lent) == calls_at_rest(FEW, lent=lent)


def calls_when_one_comes(waiting: int) -> int:
    """How many calls a cycle leads to that starts a gang beside jobs that could take from it."""
    cluster = cases.without_room(NODES, waiting, waiting // 5, lent=True)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried = snapshot.FRESH
    for _ in range(2):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy).carried
    cluster.add(clusters.Gang(name="late", requests=[clusters.POD] * 2))
    taken = cluster.snapshot(carried)
    return test_rich.calls_of(lambda: cycle.run_cycle(taken, policy))


def test_one_of_each_kind_asks_for_victims() -> None:
    """75 calls for each job of five that are alike; 105 when statuses with another reason were made
    field by field, and 195 when each job asked.
    """
    few = calls_when_one_comes(FEW)
    assert calls_when_one_comes(MANY) - few <= CHANGE_CALLS_MAX * (MANY - FEW)


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
    cycle.run_cycle(taken, policy)  # methods of plugins are looked up once for a configuration
    return before, test_rich.calls_of(lambda: cycle.run_cycle(taken, policy))


def calls_after_binds(bound: int) -> int:
    """How many calls a cycle leads to that starts one pod after it has bound others, whose groups
    have their old status still.
    """
    cluster = cases.running_jobs(NODES, 1)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    for number in range(bound):
        cluster.add(clusters.Gang(name=f"young-{number:05}", requests=[clusters.POD]))
    result = cycle.run_cycle(cluster.snapshot(), policy)
    for bind in result.binds:
        gang = clusters.Gang(name=bind.task.job.partition("/")[2], requests=[clusters.POD])
        cluster.show_pod(gang, 0, clusters.POD, node=bind.node)
    for _ in range(2):
        result = cycle.run_cycle(cluster.snapshot(result.carried), policy)
    cluster.add(clusters.Gang(name="late", requests=[clusters.POD]))
    taken = cluster.snapshot(result.carried)
    return test_rich.calls_of(lambda: cycle.run_cycle(taken, policy))


def test_a_job_that_has_started_costs_no_calls_although_its_phase_is_not_stored_yet() -> None:
    """The status of many groups is written seconds later: 26 calls for each of them meanwhile."""
    assert calls_after_binds(MANY) == calls_after_binds(FEW)


def test_a_running_job_costs_no_calls() -> None:
    """Neither the snapshot nor the cycle looks at it."""
    few, many = calls_for_one_more(FEW), calls_for_one_more(MANY)
    assert many == few


def calls_to_admit_one(running: int) -> int:
    """How many calls a cycle leads to that admits and starts a pod with minResources, beside
    running jobs that have theirs.
    """
    cluster = clusters.Cluster()
    places = cluster.add_nodes(NODES)
    gang = clusters.Gang(name="late", requests=[clusters.POD], promised=clusters.POD)
    for number in range(running):
        place = [places[number % NODES]]
        cluster.add(dataclasses.replace(gang, name=f"gang-{number:05}", nodes=place))
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried = snapshot.FRESH
    for _ in range(2):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy).carried
    cluster.add(dataclasses.replace(gang, phase="Pending"))
    taken = cluster.snapshot(carried)
    assert cycle.run_cycle(taken, policy).binds
    return test_rich.calls_of(lambda: cycle.run_cycle(taken, policy))


def test_admission_costs_no_calls_for_jobs_that_have_what_they_were_promised() -> None:
    """As all groups that are made for pods without one: 38 calls for each when `overcommit` went
    through all jobs.
    """
    assert calls_to_admit_one(MANY) == calls_to_admit_one(FEW)


def calls_without_budget(waiting: int, action: str) -> int:
    """How many calls the action adds to a cycle that has used up its budget by then."""
    cluster = clusters.Cluster(["left", "right"])
    places = cluster.add_nodes(NODES)
    held = clusters.Gang(name="held", queue="right", requests=[clusters.POD], nodes=places[:1])
    cluster.add(held)
    for number in range(waiting):
        cluster.add(clusters.Gang(name=f"gang-{number:05}", queue="left", requests=[clusters.POD]))
    taken = cluster.snapshot()

    def calls(actions: str) -> int:
        policy = timing.policy_of(actions)
        assert not cycle.run_cycle(taken, policy, budget=10).finished
        return test_rich.calls_of(lambda: cycle.run_cycle(taken, policy, budget=10))

    return calls(f"enqueue, allocate, backfill, {action}") - calls("enqueue, allocate, backfill")


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_nobody_is_lined_up_when_the_budget_is_used_up(action: str) -> None:
    """42 calls for each waiting job, to no avail."""
    assert calls_without_budget(MANY, action) == calls_without_budget(FEW, action)
