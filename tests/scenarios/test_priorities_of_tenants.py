"""What a tenant gains by priorities: docs/security.md says as much as is tried here."""

import pytest

from tests import running
from vscheduler.mirror.decode import fields
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

TREE = {
    "actions": "allocate, preempt, reclaim",
    "tiers": running.tiers("priority gang conformance | predicates proportion"),
}
HUGE = "2000000000"
WAITING = """
    node  n1 cpu=2
    queue q
    job   q/{first} cpu=2 {one}  -
    job   q/{second} cpu=2 {two}  -
    """


def annotated(picture: str, *jobs: str, **spec: str) -> list[Document]:
    """The manifests, with the highest volcano.sh/task-priority on the pods of these jobs."""
    found = pictures.documents(picture)
    for document in found:
        name = document["metadata"]["name"].rpartition("-")[0]
        if document["kind"] == "Pod" and name in jobs:
            document["metadata"].setdefault("annotations", {})[fields.PRIORITY] = HUGE
            document["spec"] |= spec
    return found


def victims(found: list[Document]) -> set[str]:
    """The jobs of the pods that are evicted."""
    return {evict.task.name.rpartition("-")[0] for evict in running.run(found, TREE).evicts}


def bound(result: CycleResult) -> list[str]:
    """The pods that are placed."""
    return [bind.task.name for bind in result.binds]


def test_the_annotation_brings_no_job_before_another() -> None:
    """Jobs are ordered by the PodGroup's PriorityClass: neither lower ones nor equal ones gain."""
    for one in ("priority=1", ""):
        picture = WAITING.format(first="ahead", one=one, second="eager", two="")
        assert bound(running.run(pictures.documents(picture), TREE)) == ["ahead-0"]
        assert bound(running.run(annotated(picture, "eager"), TREE)) == ["ahead-0"]


def test_the_annotation_evicts_nobody_of_a_job_of_the_same_priority() -> None:
    """Nor of a higher one: preempt goes by PriorityClasses."""
    picture = """
        node  n1 cpu=2
        queue q
        job   q/runs cpu=2 {} n1
        job   q/eager cpu=2 -
        """
    for priority in ("", "priority=1"):
        assert victims(annotated(picture.format(priority), "eager")) == set()


@pytest.mark.parametrize("keen", ["left", "right"])
def test_the_annotation_has_others_of_the_same_priority_evicted_first(keen: str) -> None:
    """Which is what a tenant can gain by it."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/left cpu=2 n1
        job   q/right cpu=2 n1
        job   q/urgent cpu=2 priority=9 -
        """
    (other,) = {"left", "right"} - {keen}
    assert victims(annotated(picture, keen)) == {other}


def test_the_annotation_does_not_keep_a_job_of_lower_priority() -> None:
    """The PriorityClass counts before it."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/low cpu=2 n1
        job   q/high cpu=2 priority=5 n1
        job   q/urgent cpu=2 priority=9 -
        """
    assert victims(annotated(picture, "low")) == {"low"}


def test_a_system_class_keeps_pods_from_being_evicted() -> None:
    """Plugin conformance protects them in whatever namespace they are."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/low cpu=2 n1 n1
        job   q/urgent cpu=2 priority=9 -
        """
    assert victims(pictures.documents(picture)) == {"low"}
    found = annotated(picture, "low", priorityClassName="system-cluster-critical")
    assert victims(found) == set()
