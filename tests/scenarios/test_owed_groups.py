from collections.abc import Sequence

import pytest

from tests import running
from tests.scenarios.admitting import CLUSTER_FULL, QUEUE_FULL, cycles, phases, reasons
from vscheduler.core import compat, cycle
from vscheduler.core.actions import ACTIONS
from vscheduler.core.api.contracts import Plugin
from vscheduler.core.config import policy
from vscheduler.core.plugins.overcommit import Overcommit
from vscheduler.mirror.wording.sentences import sentence
from vscheduler.model.jobs import Task
from vscheduler.model.queues import Queue
from vscheduler.testing import pictures

OWED = """
    node  n1 cpu=10
    queue greedy   queue poor
    job   greedy/g n1*10
    job   poor/p phase=Pending minresources=cpu:4 min=4 {pods}
    """


@pytest.mark.parametrize("pods", ["", "-*4"])
@pytest.mark.parametrize("actions", ["enqueue", "enqueue, reclaim"])
def test_what_a_queue_is_owed_is_admitted_where_it_can_be_reclaimed(
    actions: str, pods: str
) -> None:
    """The cluster is full, two cpus can be promised; half of it is the poor queue's."""
    (result,) = cycles(OWED.format(pods=pods), actions=actions)
    owed = "reclaim" in actions
    assert phases(result)["p"] == ("Inqueue" if owed else "Pending")
    assert (reasons(result).get("p") is CLUSTER_FULL) is not owed


def test_more_than_is_owed_is_not_admitted() -> None:
    """Six of ten cpus, where half is deserved."""
    picture = OWED.replace("cpu:4", "cpu:6").format(pods="")
    (result,) = cycles(picture, actions="enqueue, reclaim")
    assert reasons(result) == {"p": CLUSTER_FULL}


def test_what_its_queue_has_promised_to_others_is_not_owed() -> None:
    """Six of ten cpus; five more is more than any queue can have here."""
    picture = """
        node  n1 cpu=10
        queue q
        job   q/a phase=Inqueue minresources=cpu:6
        job   q/b phase=Pending minresources=cpu:5
        """
    (result,) = cycles(picture, actions="enqueue, reclaim")
    assert reasons(result)["b"] is CLUSTER_FULL


class Sated(Plugin):
    """Says that every queue is owed all, and has had enough."""

    name = "sated"

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """All."""
        del queue, tasks
        return True

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """All."""
        del preemptor
        return candidates

    def overused(self, queue: Queue) -> bool:
        """Enough, where it may say so."""
        del queue
        return True


@pytest.mark.parametrize("sated", [False, True])
def test_a_queue_that_has_had_enough_is_owed_nothing(sated: bool) -> None:
    """As in reclaim."""
    flags = {"enabledOverused": sated}
    tiers = [{"plugins": [{"name": "overcommit"}, {"name": "sated", **flags}]}]
    parsed = policy.parse(
        {"actions": "enqueue, reclaim", "tiers": tiers},
        [Overcommit, Sated],
        ACTIONS,
        compat.VOLCANO,
    )
    assert parsed.policy is not None
    picture = """
        node  n1 cpu=4
        queue o             queue q
        job   o/o n1*4      job   q/a phase=Pending min=4 minresources=cpu:4 -*4
        """
    result = cycle.run_cycle(running.snapshot_of(pictures.documents(picture)), parsed.policy)
    assert phases(result)["a"] == ("Pending" if sated else "Inqueue")


FULL = """
    node  n1 cpu=4
    queue q {limit}
    job   q/lo phase=Running min=1 minresources=cpu:4 priority=10 n1*4
    job   q/hi phase=Pending priority={priority} minresources=cpu:2 min=2 {pods}
    """
PLUGINS = {
    "overcommit": ("priority gang | overcommit drf predicates proportion", ""),
    "proportion": ("priority gang | drf predicates proportion", "capability=cpu:4"),
    "capacity": ("priority gang | drf predicates capacity", "capability=cpu:4"),
}


@pytest.mark.parametrize(("tiers", "limit"), PLUGINS.values(), ids=PLUGINS)
@pytest.mark.parametrize("pods", ["", "-*2"])
def test_who_may_preempt_is_admitted_where_all_is_taken(tiers: str, limit: str, pods: str) -> None:
    """Less important pods of its queue could go, whether its own pods exist by now or not."""
    picture = FULL.format(limit=limit, priority=1000, pods=pods)
    results = cycles(picture, 4, actions="enqueue, allocate, preempt", tiers=running.tiers(tiers))
    assert phases(results[0])["hi"] == "Inqueue"
    assert sum(len(result.evicts) for result in results) == (2 if pods else 0)
    assert {bind.task.name for result in results for bind in result.binds} == (
        {"hi-0", "hi-1"} if pods else set()
    )


@pytest.mark.parametrize(("tiers", "limit"), PLUGINS.values(), ids=PLUGINS)
@pytest.mark.parametrize(("priority", "actions"), [(1, "preempt"), (1000, "backfill")])
def test_who_may_not_is_not(tiers: str, limit: str, priority: int, actions: str) -> None:
    """Of lower priority, or with no action that evicts, it waits, and nothing is evicted."""
    picture = FULL.format(limit=limit, priority=priority, pods="-*2")
    results = cycles(
        picture, 3, actions=f"enqueue, allocate, {actions}", tiers=running.tiers(tiers)
    )
    assert reasons(results[-1])["hi"] in (CLUSTER_FULL, QUEUE_FULL)
    assert not any(result.evicts for result in results)


def test_a_leaf_gets_its_quota_back_below_a_full_parent() -> None:
    """The sibling's job has minResources, so that the parent is full of what it must have."""
    picture = """
        node  n1 cpu=8
        queue root
        queue org parent=root capability=cpu:4 deserved=cpu:4
        queue a1 parent=org deserved=cpu:2    queue a2 parent=org deserved=cpu:2
        job   a1/r phase=Running min=1 minresources=cpu:4 n1*4
        job   a2/w phase=Pending min=2 minresources=cpu:2 -*2
        """
    tiers = running.tiers("priority gang | drf predicates capacity:enableHierarchy=true")
    results = cycles(picture, 4, actions="enqueue, allocate, reclaim", tiers=tiers)
    assert sum(len(result.evicts) for result in results) == 2
    assert {bind.task.name for result in results for bind in result.binds} == {"w-0", "w-1"}


def test_promises_to_less_important_groups_give_way() -> None:
    """No node has room for five cpus more, and all that may be promised is promised to it."""
    picture = """
        node  n1 cpu=5   node n2 cpu=5
        queue q
        job   q/runs  phase=Running min=4 minresources=cpu:4 n1*2 n2*2
        job   q/stuck phase=Inqueue minresources=cpu:5 min=1 cpu=5 age=9 priority={} -
        job   q/next  phase=Pending minresources=cpu:2 min=1 cpu=2 priority={} -
        """
    for stuck, waiting in ((1, 1), (5, 1)):
        (kept,) = cycles(picture.format(stuck, waiting))
        assert phases(kept)["next"] == "Pending"
    (above,) = cycles(picture.format(1, 5))
    assert {bind.task.name for bind in above.binds} == {"next-0"}


def test_nothing_is_evicted_for_preemption_policy_never() -> None:
    """It isn't admitted, either, and its reason says so."""
    documents = pictures.documents(FULL.format(limit="", priority=1000, pods="-*2"))
    for document in documents:
        if document["kind"] == "Pod" and document["metadata"]["name"].startswith("hi"):
            document["spec"]["preemptionPolicy"] = "Never"
    tree = {
        "actions": "enqueue, allocate, preempt",
        "tiers": running.tiers(PLUGINS["overcommit"][0]),
    }
    result = running.decide(running.snapshot_of(documents), tree)
    (reason,) = [group.reason for group in result.groups if group.job.endswith("hi")]
    assert reason is not None
    assert sentence(reason).endswith("; no pod is evicted for it, as its preemptionPolicy is Never")
    assert not result.evicts


ELSEWHERE = """
    node n1 cpu=4   node n2 cpu=4 label=pool=x
    queue q
    job q/runs min=1 cpu=4 n2
    job q/stuck min=1 age=99 cpu=4 minresources=cpu:4 phase=Inqueue select=pool=x -
    job q/next min=1 cpu=2 minresources=cpu:2 phase=Pending -
    """


@pytest.mark.parametrize("actions", ["enqueue, allocate", "enqueue, allocate, preempt, reclaim"])
def test_what_was_promised_to_a_group_that_needs_other_nodes_gives_way(actions: str) -> None:
    """A node is empty that the group of the same priority can't use: who fits there starts."""
    (result,) = cycles(ELSEWHERE, actions=actions)
    assert phases(result)["next"] == "Inqueue"
    assert [bind.task.name for bind in result.binds] == ["next-0"]
    assert reasons(result)["stuck"] is not CLUSTER_FULL


@pytest.mark.parametrize(
    "change",
    [
        ("select=pool=x", ""),
        ("n1 cpu=4", "n1 cpu=4 job q/more min=1 cpu=3 n1"),
        ("phase=Pending -", "phase=Pending"),
        ("next min=1", "next min=3"),
    ],
    ids=["the same nodes", "no room", "no pods", "too few pods"],
)
def test_a_promise_stays_unless_another_group_could_start_elsewhere(
    change: tuple[str, str],
) -> None:
    """Otherwise small groups would take, one after the other, what a large one waits for."""
    picture = ELSEWHERE.replace("min=1 age=99 cpu=4", "min=2 age=99 cpu=4").replace(*change)
    (result,) = cycles(picture)
    assert phases(result)["next"] == "Pending"
