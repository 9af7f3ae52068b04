"""Who waits beside room that is reserved is told for whom, where that room would do."""

import dataclasses

import pytest

from tests import running
from tests.unit.core.placement.unschedulable_cluster import Around
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult, ReservedFor
from vscheduler.model.jobs import JobId, TaskId
from vscheduler.model.snapshot import Carried
from vscheduler.testing import pictures

TREE = {"actions": "allocate", "tiers": running.tiers("priority gang | predicates")}
BIG = """
    node n1 cpu=4   node n2 cpu=4   queue q
    job  q/gone min=1 cpu=2 ~n1 ~n2
    job  q/other min=1 cpu=2 n1 n2
    job  q/big min=2 cpu=2 -*2
    """
"""Two pods leave, so that the gang can start on their nodes."""
PLACES = {"big-00000": "n1", "big-00001": "n2"}


def result_of(picture: str, nominated: dict[str, str]) -> CycleResult:
    """One cycle in which pods wait where evictions made room for them."""
    carried = Carried(nominations={TaskId(pod): node for pod, node in nominated.items()})
    return running.run(pictures.documents(picture), TREE, carried=carried)


def reserved(picture: str, nominated: dict[str, str] | None = None) -> ReservedFor | None:
    """For whom room is reserved that job `late` is told of."""
    result = result_of(picture, PLACES if nominated is None else nominated)
    (reason,) = [group.reason for group in result.groups if group.job == "default/late"]
    assert reason is not None
    return reason.reserved


def big(nodes: int, others: int = 0) -> ReservedFor:
    """Told of the gang."""
    return ReservedFor(job=JobId("default/big"), others=others, nodes=nodes)


def test_a_job_is_told_for_whom_the_room_is_that_it_would_take() -> None:
    """The figures are those beside what is reserved, so nothing is said of what is free."""
    result = result_of(f"{BIG} job q/late min=1 -", PLACES)
    (reason,) = [group.reason for group in result.groups if group.job == "default/late"]
    assert reason is not None
    assert sentences.sentence(reason) == (
        "needs 1 cpu; 0/2 nodes are available beside what is reserved: 2 Insufficient cpu; "
        "room on 2 nodes is reserved for default/big"
    )


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        ("min=1 cpu=2 -", big(2)),
        ("min=1 cpu=3 -", None),  # it would not fit without the others either
        ("min=1 cpu=1 gpu=1 -", big(1)),
        ("min=1 cpu=1 gpu=2 -", None),
        ("min=1 cpu=1 select=zone=a -", big(1)),
        ("min=1 cpu=1 select=zone=c -", None),
        ("min=2 cpu=2 - -", big(2)),
    ],
)
def test_only_room_counts_that_the_pod_would_find(late: str, expected: ReservedFor | None) -> None:
    """On nodes that it may use."""
    zoned = BIG.replace("n1 cpu=4", "n1 cpu=4 label=zone=a").replace("n2 cpu=4", "n2 cpu=4 gpu=1")
    assert reserved(f"{zoned} job q/late {late}") == expected


@pytest.mark.parametrize(
    ("pods", "expected"), [("-*3", "default/more"), ("-*2", "default/big"), ("-", "default/big")]
)
def test_of_several_jobs_the_one_with_most_pods_is_named(pods: str, expected: str) -> None:
    """Of those with as many, the first by name."""
    picture = f"""{BIG.replace("cpu=4", "cpu=7")} job q/gone-too min=1 cpu=3 ~n1 ~n2
        job q/more min=1 {pods} job q/late min=1 cpu=4 -
        """
    more = {f"more-0000{number}": "n1" for number in range(3)}
    found = reserved(picture, PLACES | more)
    assert found == ReservedFor(job=JobId(expected), others=1, nodes=2)


def test_a_job_is_not_told_of_itself() -> None:
    """One of its pods runs, one waits for its node, and the third finds none."""
    picture = """
        node n1 cpu=4   node n2 cpu=4   queue q
        job  q/gone min=1 cpu=2 ~n1
        job  q/other min=1 cpu=2 n1 n2
        job  q/late min=1 cpu=2 n2 -*2
        """
    assert reserved(picture, {"late-00001": "n1"}) is None


def test_a_job_is_told_of_others_as_they_come_and_go() -> None:
    """Two pods leave for a gang, so that nodes have as little left as before. Cycles that look at
    all jobs anew tell it the same.
    """
    around = Around(f"{BIG.replace('~', '')} queue r job r/late min=1 phase=Inqueue -")

    def told() -> ReservedFor | None:
        (late,) = [each for each in around.cycle().groups if each.job == "default/late"]
        assert late.reason is not None
        return late.reason.reserved

    assert [told(), told()] == [None, None]
    assert "default/late" in around.unschedulable
    nominated = {TaskId(pod): node for pod, node in PLACES.items()}
    around.carried = dataclasses.replace(around.carried, nominations=nominated)
    for name in ("gone-0", "gone-1"):
        metadata = around.documents["Pod", name]["metadata"]
        since = {"deletionTimestamp": "2026-01-01T12:00:00Z"}
        around.change("Pod", name, metadata=metadata | since)
    assert [told(), told()] == [big(2)] * 2
    around.end("gone-0", "gone-1")
    assert told() is None  # the gang starts
