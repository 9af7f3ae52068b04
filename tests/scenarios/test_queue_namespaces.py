"""Queues that are for some namespaces only: jobs of others wait, whenever the queue came."""

from typing import Any

import pytest

from tests import running
from tests.scenarios.deciding import bind, written
from vscheduler.mirror import statuses
from vscheduler.mirror.translate import translation
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult, GroupStatus, ReasonCode
from vscheduler.model.jobs import Phase
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

TREE = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim",
    "tiers": running.tiers("priority gang conformance | overcommit predicates proportion"),
}
BARE = {"actions": "allocate, backfill", "tiers": running.tiers("gang | predicates")}
VOLCANO = {**TREE, "compatibility": "volcano"}
WAITING = """
    node  n1 cpu=4
    queue q
    job   q/gang min=2 cpu=1 minresources=cpu:2 phase={phase}   - -
    """


def listing(picture: str, told: str | None, queue: str = "q") -> list[Document]:
    """The manifests, with the annotation on the queue."""
    found = pictures.documents(picture)
    (drawn,) = (
        each for each in found if each["kind"] == "Queue" and each["metadata"]["name"] == queue
    )
    if told is not None:
        drawn["metadata"].setdefault("annotations", {})[translation.NAMESPACES] = told
    return found


def group(result: CycleResult) -> GroupStatus:
    """What becomes of the job `gang`."""
    (found,) = (group for group in result.groups if group.job == "default/gang")
    return found


@pytest.mark.parametrize("told", ["", "team-a", "team-a, def", "defaul, *t", "efault*", " , "])
@pytest.mark.parametrize("phase", ["Pending", "Inqueue", "Running"])
@pytest.mark.parametrize("tree", [TREE, BARE, VOLCANO])
def test_a_job_of_another_namespace_waits(told: str, phase: str, tree: dict[str, Any]) -> None:
    """Whatever phase its PodGroup has, which tenants can write, and whatever plugins there are."""
    result = running.run(listing(WAITING.format(phase=phase), told), tree)
    assert written(result) == []
    reason = group(result).reason
    assert reason is not None
    assert reason.code is ReasonCode.QUEUE_BARRED
    assert sentences.sentence(reason).startswith("queue q isn't for namespace default; ")
    assert [task.name for task in group(result).unplaced] == ["gang-0", "gang-1"]
    assert statuses.pod_reason(reason) == "QueueNotForNamespace"
    assert result.carried.admitted == {}


def test_nothing_is_promised_to_it() -> None:
    """A PodGroup that says it is Inqueue is let in no more."""
    result = running.run(listing(WAITING.format(phase="Inqueue"), "team-a"), TREE)
    assert group(result).phase is Phase.PENDING


@pytest.mark.parametrize(
    "told", [None, "default", "team-a,default", "team-a , default ", "*", "def*"]
)
@pytest.mark.parametrize("tree", [TREE, BARE, VOLCANO])
def test_a_job_of_a_listed_namespace_starts(told: str | None, tree: dict[str, Any]) -> None:
    """By name, by how it begins, and where no queue says anything."""
    result = running.run(listing(WAITING.format(phase="Inqueue"), told), tree)
    assert written(result) == [bind("gang-0", "n1"), bind("gang-1", "n1")]


def test_pods_that_run_stay_and_no_more_are_placed() -> None:
    """As in a queue that is closed."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/gang min=1 cpu=1   n1 n1 -
        """
    result = running.run(listing(picture, "team-a"), TREE)
    assert written(result) == []
    assert group(result).running == 2
    reason = group(result).reason
    assert reason is not None
    assert reason.code is ReasonCode.QUEUE_BARRED


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_nobody_is_evicted_for_it(action: str) -> None:
    """Though it would have a right to the room."""
    picture = f"""
        node  n1 cpu=4
        queue q weight=1
        queue p weight=3
        job   q/cheap cpu=2   n1 n1
        job   {"q" if action == "preempt" else "p"}/gang cpu=2 priority=9   -
        """
    queue = "q" if action == "preempt" else "p"
    tree = {**TREE, "actions": f"enqueue, allocate, {action}"}
    assert running.run(listing(picture, None, queue), tree).evicts
    assert not running.run(listing(picture, "team-a", queue), tree).evicts


def test_it_does_not_keep_others_of_its_queue_waiting() -> None:
    """The job behind it starts."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/gang min=2 cpu=2 minresources=cpu:4 priority=9   - -
        job   q/next min=2 cpu=2 minresources=cpu:4   - -
        """
    found = listing(picture, "team-a")
    for document in found:
        if document["metadata"]["name"].startswith("next"):
            document["metadata"]["namespace"] = "team-a"
    result = running.run(found, TREE)
    assert sorted(bind.task.key for bind in result.binds) == ["team-a/next-0", "team-a/next-1"]
