"""Now before later: what fits on free resources starts, whatever other pods still have to end.

A terminating pod may never end, so its resources are only the second choice.
"""

import copy
from typing import Any

import pytest

from tests import running
from tests.scenarios.deciding import bind, decide, pipeline
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.model.jobs import TaskId
from vscheduler.model.snapshot import FRESH, Carried
from vscheduler.testing import pictures

TIERS = "priority gang | predicates nodeorder binpack"
TREE: dict[str, Any] = {"actions": "allocate, backfill", "tiers": running.tiers(TIERS)}
RACKS = """
    node a1 cpu=1 label=rack=a   node a2 cpu=1 label=rack=a
    node b1 cpu=1 label=rack=b   node b2 cpu=1 label=rack=b
    queue q
    job q/gone min=0 cpu=1 ~a1
    job q/g min=2 cpu=1 label=app=g near=app=g@rack - -
    """
"""The first pod may go to any rack, and likes the one where a pod terminates."""
SMALL_FIRST = """
    node n1 cpu=2   node n2 cpu=3
    queue q
    job q/gone min=0 ~n2@2
    job q/g min=2 -@1 -@2
    """
"""The small pod likes n1, and then only n2 is left for the large one, once a pod is gone."""


def first(
    picture: str, *, steps: int = 1000, nominated: dict[str, str] | None = None
) -> CycleResult:
    """The first cycle, in which jobs wait on these nodes already."""
    arguments = {"allocate.gangSearchSteps": steps}
    tree = {**TREE, "configurations": [{"name": "allocate", "arguments": arguments}]}
    named = {TaskId(uid): node for uid, node in (nominated or {}).items()}
    documents = pictures.documents(picture)
    return running.run(documents, tree, carried=Carried(nominations=named))


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (RACKS, [bind("g-0", "b1"), bind("g-1", "b2")]),
        (SMALL_FIRST, [bind("g-0", "n2"), bind("g-1", "n1")]),
        (
            """
            node n0 cpu=4   node n1 cpu=4   node n2 cpu=4   node n3 cpu=5
            queue q
            job q/gone min=0 ~n3@4
            job q/g min=4 -@1 -@4*3
            """,
            [bind("g-0", "n3"), bind("g-1", "n0"), bind("g-2", "n1"), bind("g-3", "n2")],
        ),
    ],
)
def test_a_gang_starts_on_free_nodes_beside_a_terminating_pod(
    picture: str, expected: list[Any]
) -> None:
    """Placed pod by pod, the gang would wait for the pod that terminates."""
    assert decide(picture, "allocate", TIERS) == expected


@pytest.mark.parametrize("steps", [0, 1])
def test_a_gang_without_a_search_waits_where_it_is(steps: int) -> None:
    """Volcano places pods one by one, too. One step is too few for a search."""
    result = first(SMALL_FIRST, steps=steps)
    assert not result.binds
    assert [(held.task.name, held.node) for held in result.pipelined] == [
        ("g-0", "n1"),
        ("g-1", "n2"),
    ]


def test_a_gang_that_fits_only_later_waits_as_before() -> None:
    """The search for free nodes finds none, so the pods keep the places they were given."""
    picture = SMALL_FIRST.replace("min=2 -@1 -@2", "min=2 -@2 -@2")
    assert decide(picture, "allocate", TIERS) == [pipeline("g-0", "n1"), pipeline("g-1", "n2")]
    result = first(picture)
    (group,) = [group for group in result.groups if group.job.endswith("/g")]
    assert group.reason is not None
    assert group.reason.code is ReasonCode.WAITS_FOR_RELEASE


def test_a_gang_that_pods_were_evicted_for_keeps_its_places_until_it_fits() -> None:
    """Free nodes are searched in each cycle, in vain so far."""
    picture = SMALL_FIRST.replace("min=2 -@1 -@2", "min=2 -@2 -@3")
    result = first(picture, nominated={"g-00000": "n1", "g-00001": "n2"})
    assert not result.binds
    assert result.carried.nominations == {"g-00000": "n1", "g-00001": "n2"}


def test_a_nominated_pod_starts_on_another_node_that_is_free() -> None:
    """Its own node is still in use, perhaps for ever."""
    picture = """
        node n1 cpu=4   node n2 cpu=4
        queue q
        job q/gone min=0 ~n1@4
        job q/one cpu=4 nominated=n1 -
        """
    assert decide(picture, "allocate", TIERS) == [bind("one-0", "n2")]
    both = copy.copy(picture).replace("node n2 cpu=4", "node n2 cpu=4 job q/two cpu=4 n2")
    assert decide(both, "allocate", TIERS) == [pipeline("one-0", "n1")]
    free = picture.replace("~n1@4", "-@9")
    assert decide(free, "allocate", TIERS) == [bind("one-0", "n1")]


def test_a_gang_that_pods_were_evicted_for_starts_where_it_fits_now() -> None:
    """Nodes became free elsewhere while the victim of the job terminates."""
    result = first(SMALL_FIRST, nominated={"g-00000": "n1", "g-00001": "n2"})
    assert {(bind.task.name, bind.node) for bind in result.binds} == {("g-0", "n2"), ("g-1", "n1")}
    assert not result.carried.nominations


def test_a_pod_that_is_near_itself_waits_for_its_predecessor_on_a_lost_node() -> None:
    """As in kube-scheduler, for which pods being deleted count; the reason speaks of affinity."""
    picture = """
        node a1 cpu=1 label=rack=a unready   node b1 cpu=1 label=rack=b
        queue q
        job q/old min=0 cpu=1 label=app=x ~a1
        job q/new min=1 cpu=1 label=app=x near=app=x@rack -
        """
    result = first(picture)
    assert [(held.task.name, held.node) for held in result.pipelined] == [("new-0", "b1")]
    (group,) = [group for group in result.groups if group.job.endswith("/new")]
    assert group.reason is not None
    assert sentences.sentence(group.reason) == (
        "waits until pods being deleted are gone; as long as they count, "
        "1 node(s) didn't match pod affinity rules; 1 of the 1 pod it needs has a place"
    )
    gone = first(picture.replace("~a1", "-@9"))
    assert [(bind.task.name, bind.node) for bind in gone.binds] == [("new-0", "b1")]


NEVER_GONE = """
    node n1 cpu=4   node n2 cpu=4
    queue q
    job q/gone min=0 port=80 ~n1@4
    job q/gang min=2 cpu=4 age=9 nominated=n1 - -
    job q/small min=1 cpu=4 age=1 -
    """


@pytest.mark.parametrize("kept", [True, False], ids=["nominated", "new"])
def test_nobody_waits_for_a_pod_that_should_be_gone_for_five_minutes(*, kept: bool) -> None:
    """Its kubelet may be gone for ever. Until then a gang keeps what is free beside it, and a cycle
    is due when the time is up; then the pod counts as one that stays.
    """
    picture = NEVER_GONE if kept else NEVER_GONE.replace(" nominated=n1", "")
    documents, now = pictures.documents(picture), pictures.NOW.timestamp()
    nominations = {TaskId("gang-00000"): "n1", TaskId("gang-00001"): "n2"}
    carried = Carried(nominations=nominations if kept else {})
    result = running.run_at(documents, TREE, now + 299, carried)
    assert not result.binds
    assert sorted(held.node for held in result.pipelined) == ["n1", "n2"]
    assert result.wake_at == now + 300
    result = running.run_at(documents, TREE, now + 300, result.carried)
    assert [(bind.task.name, bind.node) for bind in result.binds] == [("small-0", "n2")]
    assert not result.pipelined
    assert not result.carried.nominations
    assert result.wake_at is None


def test_a_pod_that_goes_after_all_frees_its_node_at_once() -> None:
    """However late it is."""
    late = [
        document
        for document in pictures.documents(NEVER_GONE)
        if document["metadata"]["name"] not in ("gone-0", "small-0")
    ]
    result = running.run_at(late, TREE, pictures.NOW.timestamp() + 900, FRESH)
    assert sorted(bind.node for bind in result.binds) == ["n1", "n2"]


def test_a_host_port_of_a_pod_that_never_goes_is_taken() -> None:
    """As its resources are."""
    picture = """
        node n1 cpu=4
        queue q
        job q/gone min=0 port=80 ~n1   job q/next port=80 -
        """
    documents, now = pictures.documents(picture), pictures.NOW.timestamp()
    counts = [
        len(running.run_at(documents, TREE, now + seconds, FRESH).pipelined) for seconds in (0, 300)
    ]
    assert counts == [1, 0]
