"""Claims in vain: repeated once anything has changed, and by one of all jobs that are alike.

Each cycle of the cluster is compared with one that leaves out nobody and remembers nothing.
"""

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from tests import pictures, running
from tests.unit.core.placement import parked_cluster
from tests.unit.core.placement.parked_cluster import Around
from vscheduler.core import cycle
from vscheduler.core.api.contracts import Plugin, Session
from vscheduler.core.model.decisions import CycleResult
from vscheduler.core.model.jobs import JobId, TaskId
from vscheduler.core.model.reclaim_outlooks import Protection
from vscheduler.core.preemption.planner import Planner
from vscheduler.core.session.parked_groups import ParkedJobs

PLUGINS = "priority gang conformance | drf predicates proportion nodeorder binpack pdb"
TREE: Mapping[str, Any] = {
    "actions": "enqueue, allocate, backfill, reclaim",
    "tiers": running.tiers(PLUGINS),
}
PREEMPTING: Mapping[str, Any] = {**TREE, "actions": "enqueue, allocate, backfill, preempt"}
PICTURE = """
    node n1 cpu=8   node n2 cpu=8
    queue q   queue r
    job r/there min=2 cpu=4 phase=Running n1 n2
    job q/a1 min=1 cpu=7 phase=Inqueue -   job q/a2 min=1 cpu=7 phase=Inqueue -
    job q/b1 min=1 cpu=6 phase=Inqueue -
"""
"""The gang of queue r is within its share, and too large to go for one pod."""

Change = Callable[[Around], None]


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
    around = parked_cluster.waiting(PICTURE, tree)
    around.cycle()
    around.cycle()
    return around


@pytest.mark.parametrize("tree", [TREE, PREEMPTING], ids=["reclaim", "preempt"])
def test_nobody_asks_again_when_only_time_has_passed(
    tree: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much of it."""
    around = at_rest(tree)
    for seconds in (0.0, 1.0, 3600.0):
        around.now += seconds
        result, asked = claims_of(around, monkeypatch)
        assert (asked, result.evicts) == ([], ())
        assert around.parked == {"default/a1", "default/a2", "default/b1"}


def test_what_was_tried_and_undone_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each cycle, two pods of a gang get nodes, and lose them again since a third gets none.

    Why reclaim takes nothing for their queue is still said.
    """
    around = parked_cluster.waiting(
        """
        node n1 cpu=8   node n2 cpu=8
        queue q   queue r
        job r/there min=1 cpu=6 phase=Running preemptable=false n1 n2
        job q/a min=1 cpu=7 phase=Inqueue -   job q/gang min=3 cpu=1500m phase=Inqueue - - -
        """,
        TREE,
    )
    first, *_ = (around.cycle() for _ in range(3))
    result, asked = claims_of(around, monkeypatch)
    assert (asked, result.evicts) == ([], ())
    told = {queue.name: queue.reclaim for queue in result.queues}
    assert told == {queue.name: queue.reclaim for queue in first.queues}
    assert told["q"] is not None
    assert dict(told["q"].pods) == {Protection.ANNOTATION: 2}


def test_a_gang_that_was_searched_for_goes_on_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next cycle would forget how far the search for its nodes has come."""
    around = parked_cluster.waiting(
        """
        node n1 cpu=8   node n2 cpu=8
        queue q weight=9   queue r
        job r/one min=1 cpu=4 phase=Running n1   job r/two min=1 cpu=4 phase=Running n1
        job r/three min=1 cpu=4 phase=Running n2   job r/four min=1 cpu=4 phase=Running n2
        node n3 cpu=8 label=disk=fast
        job r/stays min=1 cpu=8 phase=Running preemptable=false n3
        job q/fast min=1 cpu=1 phase=Inqueue select=disk=fast -
        job q/gang min=3 phase=Inqueue cpu=5 - -@4 -@5
        """,
        TREE,
    )
    searches = around.cycle().carried.gang_searches
    assert [room.value for _, room in searches] == ["evictable"]
    for _ in range(3):
        result, asked = claims_of(around, monkeypatch)
        assert (set(asked), result.evicts) == ({"default/fast", "default/gang"}, ())
        assert result.carried.gang_searches == searches


def test_one_of_the_jobs_that_are_alike_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change, and the others stay parked; a new one that is like them is skipped."""
    around = at_rest()
    show(around, "queue q job q/c1 min=1 cpu=6 phase=Pending -")
    _, asked = claims_of(around, monkeypatch)
    assert asked == ["default/a1", "default/b1"]


def another_job(around: Around) -> None:
    """A job comes."""
    show(around, "queue q job q/late min=1 cpu=7 phase=Inqueue -")


def end(around: Around) -> None:
    """A pod ends, and leaves its room."""
    around.end("there-0")


def budget(around: Around) -> None:
    """A PodDisruptionBudget allows another number of evictions."""
    around.show(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "some", "namespace": "default", "uid": "some"},
            "spec": {"selector": {}},
            "status": {"disruptionsAllowed": 1},
        }
    )


def queue(around: Around) -> None:
    """A queue has another weight."""
    around.change("Queue", "q", spec={"weight": 5})


def node(around: Around) -> None:
    """A node becomes larger."""
    status = copy.deepcopy(around.documents["Node", "n1"]["status"])
    status["allocatable"]["cpu"] = "9"
    around.change("Node", "n1", status=status)


def bare_pod(around: Around) -> None:
    """A pod of another scheduler starts, of no queue."""
    pod = copy.deepcopy(around.documents["Pod", "there-1"])
    pod["metadata"] = {"name": "bare", "namespace": "default", "uid": "bare"}
    pod["spec"]["schedulerName"] = "other"
    around.show(pod)


def minimum(around: Around) -> None:
    """A gang that runs needs fewer of its pods."""
    spec = {**around.documents["PodGroup", "there"]["spec"], "minMember": 1}
    around.change("PodGroup", "there", spec=spec)


def refusal(around: Around) -> None:
    """The API server has refused to evict a pod."""
    refused = frozenset({TaskId("some")})
    around.carried = dataclasses.replace(around.carried, eviction_refused_pods=refused)


def admission(around: Around) -> None:
    """A group has another phase."""
    around.change("PodGroup", "b1", status={"phase": "Pending"})


CHANGES = (*(another_job, end, budget, queue, node, bare_pod, minimum, refusal, admission),)


@pytest.mark.parametrize("change", CHANGES, ids=[each.__name__ for each in CHANGES])
def test_jobs_ask_again_once_anything_has_changed(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not it could help."""
    around = at_rest()
    change(around)
    _, asked = claims_of(around, monkeypatch)
    assert asked


def test_pods_that_become_old_enough_are_taken() -> None:
    """Although nothing but time has passed."""
    tree = {
        **TREE,
        "configurations": [{"name": "reclaim", "arguments": {"reclaim.minRuntime": "20h"}}],
    }
    around = parked_cluster.waiting(
        """
        node n1 cpu=8   node n2 cpu=8   queue q   queue r
        job r/there min=1 cpu=4 phase=Running n1*2 n2*2
        job q/a1 min=1 cpu=4 phase=Inqueue -   job q/a2 min=1 cpu=4 phase=Inqueue -
        """,
        tree,
    )
    around.cycle()
    evicted = []
    for _ in range(3):
        around.now += 12 * 3600.0
        evicted.append(len(around.cycle().evicts))
    assert sum(evicted) > 0


class Moody(Plugin):
    """Answers that may change with time."""

    name = "moody"

    def open(self, session: Session) -> None:
        """Nothing to prepare."""


def test_a_plugin_may_depend_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it says that it doesn't."""
    around = at_rest()
    tiers = (*around.policy.tiers, (type(around.policy.tiers[0][0])(plugin=Moody),))
    around.policy = dataclasses.replace(around.policy, tiers=tiers)
    for _ in range(3):
        _, asked = claims_of(around, monkeypatch)
        assert asked


def parked_before_reclaim(picture: str) -> Around:
    """Return a cluster whose jobs were parked while nobody could be evicted."""
    around = parked_cluster.waiting(picture, {**TREE, "actions": "enqueue, allocate, backfill"})
    carried = around.carried.parked
    assert isinstance(carried, ParkedJobs)
    around.policy = running.policy_of(dict(TREE))
    carried = msgspec.structs.replace(carried, policy=around.policy)
    around.carried = dataclasses.replace(around.carried, parked=carried)
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
    assert len(around.parked) == 4
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
    assert len(around.parked) == 3
    result, asked = claims_of(around, monkeypatch)
    assert [evict.beneficiary for evict in result.evicts] == ["default/j2"]
    assert asked == ["default/j1", "default/j2", "default/j3"]
