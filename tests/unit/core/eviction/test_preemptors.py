"""Claims of unschedulable jobs: one of all jobs that are alike asks for victims.

Each cycle of the cluster is compared with one that leaves out nobody and remembers nothing.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests import running
from tests.unit.core.placement import unschedulable_cluster
from tests.unit.core.placement.unschedulable_cluster import Around
from vscheduler.core import cycle
from vscheduler.core.eviction.planner import Planner
from vscheduler.core.memo.memos import Memos
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import JobId
from vscheduler.testing import pictures

PLUGINS = "priority gang conformance | drf predicates proportion nodeorder binpack pdb"
TREE: Mapping[str, Any] = {
    "actions": "enqueue, allocate, backfill, reclaim",
    "tiers": running.tiers(PLUGINS),
}
PICTURE = """
    node n1 cpu=8   node n2 cpu=8
    queue q   queue r
    job r/there min=2 cpu=4 phase=Running n1 n2
    job q/a1 min=1 cpu=7 phase=Inqueue -   job q/a2 min=1 cpu=7 phase=Inqueue -
    job q/b1 min=1 cpu=6 phase=Inqueue -
"""
"""The gang of queue r is within its share, and too large to go for one pod."""


def show(around: Around, picture: str) -> None:
    """Show what the picture has besides."""
    for document in pictures.documents(picture):
        around.show(document)


def claims_of(around: Around, monkeypatch: pytest.MonkeyPatch) -> tuple[CycleResult, list[JobId]]:
    """Run a cycle, and return the jobs that asked for victims, in order."""
    asked: list[list[JobId]] = []
    plan, run = Planner.plan, cycle.run_cycle

    def noted(self: Planner, queue: Any, preemptor: Any, scope: Any) -> bool:
        asked[-1].append(preemptor.state.job.id)
        return plan(self, queue, preemptor, scope)

    def begun(*arguments: Any) -> CycleResult:
        asked.append([])
        return run(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Planner, "plan", noted)
        patch.setattr(cycle, "run_cycle", begun)
        result = around.cycle()
    return result, asked[0]


def at_rest(tree: Mapping[str, Any] = TREE) -> Around:
    """Return a cluster in which all claims have been in vain."""
    around = unschedulable_cluster.waiting(PICTURE, tree)
    around.cycle()
    around.cycle()
    return around


def test_one_of_the_jobs_that_are_alike_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change, and the others stay unschedulable; a new one that is like them is skipped."""
    around = at_rest()
    show(around, "queue q job q/c1 min=1 cpu=6 phase=Pending -")
    _, asked = claims_of(around, monkeypatch)
    assert asked == ["default/a1", "default/b1"]


def parked_before_reclaim(picture: str) -> Around:
    """Return a cluster whose jobs were unschedulable while nobody could be evicted."""
    around = unschedulable_cluster.waiting(
        picture, {**TREE, "actions": "enqueue, allocate, backfill"}
    )
    memos = around.carried.memos
    assert isinstance(memos, Memos)
    around.policy = running.policy_of(dict(TREE))
    basis = msgspec.structs.replace(memos.basis, policy=around.policy)
    memos = msgspec.structs.replace(memos, basis=basis)
    around.carried = dataclasses.replace(around.carried, memos=memos)
    return around


def test_those_behind_a_plan_ask_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that are alike and wait behind a job that finds victims are woken."""
    around = parked_before_reclaim("""
        node n1 cpu=8   node n2 cpu=8   node n3 cpu=8
        queue q   queue r
        job r/there min=1 cpu=4 phase=Running n1*2 n2*2 n3*2
        job q/a1 min=1 cpu=4 phase=Inqueue -   job q/a2 min=1 cpu=4 phase=Inqueue -
        job q/a3 min=1 cpu=4 phase=Inqueue -   job q/a4 min=1 cpu=4 phase=Inqueue -
        """)
    assert len(around.unschedulable) == 4
    result, asked = claims_of(around, monkeypatch)
    assert len(result.evicts) == 3
    assert asked == [f"default/a{number}" for number in range(1, 5)]


def test_those_that_were_in_vain_ask_again_behind_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of jobs that are alike, the first one is before the plan, and the second one behind it."""
    around = parked_before_reclaim("""
        node n1 cpu=8   node n2 cpu=8   node n4 cpu=8 label=zone=b
        queue q   queue r   queue s reclaimable=false
        job r/there min=1 cpu=4 phase=Running n1*2 n2*2
        job s/fixed min=4 cpu=2 phase=Running n4*4
        job q/j1 min=1 cpu=3 select=zone=b phase=Inqueue -   job q/j2 min=1 cpu=4 phase=Inqueue -
        job q/j3 min=1 cpu=3 select=zone=b phase=Inqueue -
        """)
    assert len(around.unschedulable) == 3
    result, asked = claims_of(around, monkeypatch)
    assert [evict.beneficiary for evict in result.evicts] == ["default/j2"]
    assert asked == ["default/j1", "default/j2", "default/j3"]
