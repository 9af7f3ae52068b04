import pytest

from tests import running
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import rules
from vscheduler.core.eviction.rules import (
    Cost,
    EvictionRules,
    Limits,
    PodCost,
    Scope,
    VictimCandidates,
    WholeGangs,
)
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import JobId
from vscheduler.testing import pictures

PICTURE = """
    node  n1 cpu=6
    queue poor   queue rich
    job   rich/gang  min=4   n1 n1 n1 n1
    job   rich/loose min=1   n1 n1
    job   poor/needy min=2   - -
    """


def test_each_task_that_asks_sees_what_was_taken_for_those_before_it() -> None:
    """Of the 4 cpu that rich deserves the gang would leave 2, and beside an evicted pod only 1."""
    tree = {**running.TREE, "actions": "allocate, reclaim"}
    session = running.open_session(pictures.documents(PICTURE), tree)
    state, loose, needy = (
        session.job_states[JobId(f"default/{name}")] for name in ("gang", "loose", "needy")
    )
    pool = VictimCandidates(
        session,
        hook=AllHooks.reclaimable,
        queue=session.queues["poor"],
        scope=Scope(queues=frozenset(("rich",))),
        limits=Limits(now=session.snapshot.now, min_run_time=0.0, whole_gangs=WholeGangs.ALWAYS),
        rules=EvictionRules(whole=True, always=False, relocation=None),
    )
    task, victim = needy.job.tasks[0], loose.job.tasks[0]

    def overshoot() -> float:
        (unit,) = (unit for unit in pool.units(task, 0) if unit.whole and unit.state is state)
        return unit.overshoot

    pool.start_search(session.request(task))
    assert overshoot() == pytest.approx(0.5, abs=1e-3)
    with session.statement() as trial:
        trial.evict(Evict(task=victim, node="n1", action="reclaim", beneficiary=None))
        pool.start_search(session.request(task))
        assert overshoot() == pytest.approx(0.75, abs=1e-3)


def test_pods_placed_in_this_cycle_make_no_surplus() -> None:
    """Their binds may fail, and then the minimum would be split."""
    picture = "node n1 cpu=4 queue q job q/j min=2 n1 n1 -"
    session = running.open_session(pictures.documents(picture), running.TREE)
    state = session.job_states[JobId("default/j")]
    first, _, last = state.job.tasks
    with session.statement() as trial:
        trial.allocate(last, 0)
        assert state.ready_tasks == 3
        assert rules.surplus_pod(state, first) is None


def test_nobody_costs_less_than_a_pod_of_the_lowest_priority() -> None:
    """Also before the rank of its queue is known, and where no plugin ranks queues."""
    lowest = -(2**31)
    pod = Cost(0, 0.0, (), PodCost(lowest, lowest, 1, -1e10))
    assert rules.NO_COST < pod < pod._replace(rank=((0.0,),)) < pod._replace(whole_gangs=1)
    assert rules.ranked_cost(rules.NO_COST, frozenset(), lambda _: ((0.0,),)) == rules.NO_COST
