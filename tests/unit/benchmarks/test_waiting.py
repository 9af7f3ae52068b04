"""Jobs that wait in vain, or run: how the work of a cycle grows with their number."""

import dataclasses
from functools import partial

import pytest

from tests.benchmarks.core import cases, clusters, timing
from tests.benchmarks.core.clusters import Cluster, Gang
from tests.unit.benchmarks.growth import FLAT, LINEAR, exponent, work_of
from vscheduler.core import cycle
from vscheduler.model.snapshot import FRESH

FEW, MANY = 50, 400
"""Waiting jobs, of which every five are of a kind."""

NODES = 20


def work_at_rest(waiting: int) -> int:
    """The work of a cycle in which nothing has changed."""
    cluster = cases.without_room(NODES, waiting, waiting // 5)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried = FRESH
    for _ in range(2):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy).carried
    taken = cluster.snapshot(carried)
    return work_of(lambda: cycle.run_cycle(taken, policy))


def test_jobs_that_wait_in_vain_make_no_work() -> None:
    """However many they are."""
    assert exponent(work_at_rest, FEW, MANY) <= FLAT


def work_when_one_comes(waiting: int) -> int:
    """The work of a cycle that starts a gang beside jobs that could take from it."""
    cluster = cases.without_room(NODES, waiting, waiting // 5, lent=True)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried = FRESH
    for _ in range(2):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy).carried
    cluster.add(Gang(name="late", requests=[clusters.POD] * 2))
    taken = cluster.snapshot(carried)
    return work_of(lambda: cycle.run_cycle(taken, policy))


def test_work_for_a_gang_that_comes_grows_with_waiting_jobs() -> None:
    """One of each kind asks for victims, and not each job."""
    assert exponent(work_when_one_comes, FEW, MANY) <= LINEAR


def work_for_one_more(running: int) -> int:
    """The work of a snapshot and of a cycle that start one pod beside running jobs."""
    cluster = cases.running_jobs(NODES, running)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried = FRESH
    for _ in range(2):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy).carried
    cluster.add(Gang(name="late", requests=[clusters.POD]))
    before = work_of(lambda: cluster.snapshot(carried))
    taken = cluster.snapshot(carried)
    cycle.run_cycle(taken, policy)  # methods of plugins are looked up once for a configuration
    return before + work_of(lambda: cycle.run_cycle(taken, policy))


def work_after_binds(bound: int) -> int:
    """The work of a cycle that starts one pod after it has bound others, whose groups
    have their old status still.
    """
    cluster = cases.running_jobs(NODES, 1)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    for number in range(bound):
        cluster.add(Gang(name=f"young-{number:05}", requests=[clusters.POD]))
    result = cycle.run_cycle(cluster.snapshot(), policy)
    for bind in result.binds:
        gang = Gang(name=bind.task.job.partition("/")[2], requests=[clusters.POD])
        cluster.show_pod(gang, 0, clusters.POD, node=bind.node)
    for _ in range(2):
        result = cycle.run_cycle(cluster.snapshot(result.carried), policy)
    cluster.add(Gang(name="late", requests=[clusters.POD]))
    taken = cluster.snapshot(result.carried)
    return work_of(lambda: cycle.run_cycle(taken, policy))


def test_jobs_that_have_started_make_no_work_before_their_phase_is_stored() -> None:
    """The status of many groups is written seconds later."""
    assert exponent(work_after_binds, FEW, MANY) <= FLAT


def test_running_jobs_make_no_work() -> None:
    """Neither the snapshot nor the cycle looks at it."""
    assert exponent(work_for_one_more, FEW, MANY) <= FLAT


def work_to_admit_one(running: int) -> int:
    """The work of a cycle that admits and starts a pod with minResources, beside
    running jobs that have theirs.
    """
    cluster = Cluster()
    places = cluster.add_nodes(NODES)
    gang = Gang(name="late", requests=[clusters.POD], promised=clusters.POD)
    for number in range(running):
        place = [places[number % NODES]]
        cluster.add(dataclasses.replace(gang, name=f"gang-{number:05}", nodes=place))
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried = FRESH
    for _ in range(2):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy).carried
    cluster.add(dataclasses.replace(gang, phase="Pending"))
    taken = cluster.snapshot(carried)
    assert cycle.run_cycle(taken, policy).binds
    return work_of(lambda: cycle.run_cycle(taken, policy))


def test_jobs_that_have_what_they_were_promised_make_no_work_for_admission() -> None:
    """As all groups that are made for pods without one."""
    assert exponent(work_to_admit_one, FEW, MANY) <= FLAT


def work_without_budget(waiting: int, action: str) -> int:
    """The work that the action adds to a cycle which has used up its budget by then."""
    cluster = Cluster(["left", "right"])
    places = cluster.add_nodes(NODES)
    held = Gang(name="held", queue="right", requests=[clusters.POD], nodes=places[:1])
    cluster.add(held)
    for number in range(waiting):
        cluster.add(Gang(name=f"gang-{number:05}", queue="left", requests=[clusters.POD]))
    taken = cluster.snapshot()

    def calls(actions: str) -> int:
        policy = timing.policy_of(actions)
        assert not cycle.run_cycle(taken, policy, budget=10).finished
        return work_of(lambda: cycle.run_cycle(taken, policy, budget=10))

    return calls(f"enqueue, allocate, backfill, {action}") - calls("enqueue, allocate, backfill")


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_nobody_is_lined_up_when_the_budget_is_used_up(action: str) -> None:
    """It would be to no avail."""
    assert exponent(partial(work_without_budget, action=action), FEW, MANY) <= FLAT
