import datetime as dt
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Event, Kind, Remove, Upsert
from vscheduler.mirror.decode.wire import (
    Metadata,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PodSpec,
    PodStatus,
)
from vscheduler.model.decisions import Bind, CycleResult, Evict
from vscheduler.model.jobs import (
    Condition,
    GroupState,
    JobId,
    Phase,
    PodClass,
    Task,
    TaskId,
    TaskStatus,
)
from vscheduler.model.snapshot import FRESH
from vscheduler.simulator.world import Owners, World
from vscheduler.testing import pictures

NOW = 1_767_268_800.0
PICTURE = """
    node n1 cpu=9    queue gold weight=1
    job  gold/j min=1   n1 +n1 ~n1 -
"""


def task(name: str, **labels: str) -> Task:
    """The task of one of the picture's pods."""
    return Task(
        uid=TaskId(name),
        namespace="default",
        name=name,
        job=JobId("default/j"),
        pod_class=PodClass(request={}),
        status=TaskStatus.RUNNING,
        created=0.0,
        labels=labels,
    )


def result(**decided: Any) -> CycleResult:
    """What a cycle decided, nothing unless it is given."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("binds", "pipelined", "evicts", "changeable", "queues"), ()
    )
    return CycleResult(**{**nothing, "total": {}, "carried": FRESH, **decided})


def drawn(picture: str = PICTURE, selector: Any = None, *, pods_return: bool = False) -> World:
    """The picture as a world; selector: of its budgets."""
    documents = pictures.documents(picture)
    for document in documents:
        if selector and document["kind"] == "PodDisruptionBudget":
            document["spec"]["selector"] = selector
    read = [
        events.convert(kind, document)
        for document in documents
        if (kind := events.kind_of(document))
    ]
    upserts = (event for event in read if isinstance(event, Upsert))
    return World(upserts, pods_return=pods_return)


def told(changes: Iterable[Event]) -> list[tuple[str, ...]]:
    """Events in a few words each."""
    words: list[tuple[str, ...]] = []
    for event in changes:
        match event:
            case Remove(name=name):
                words.append((name, "gone"))
            case Upsert(object=Pod() as pod):
                going = "going" if pod.metadata.deletion_timestamp else pod.status.phase
                words.append((pod.metadata.name, going, pod.spec.node_name))
            case Upsert(object=PodGroup() as group):
                status = group.status
                words.append((group.metadata.name, status.phase, str(status.running)))
            case Upsert(object=PodDisruptionBudget() as budget):
                words.append((budget.metadata.name, str(budget.status.disruptions_allowed)))
    return words


def test_what_was_decided_has_happened_by_the_next_cycle() -> None:
    """Bound pods run, evicted ones are going, those that were going are gone."""
    around = drawn()
    decided = result(
        binds=(Bind(task=task("j-3"), node="n1"),),
        evicts=(Evict(task=task("j-0"), node="n1", action="reclaim", beneficiary=None),),
    )
    assert told(around.obey(decided, {}, NOW)) == [
        ("j-2", "gone"),
        ("j-1", "Running", "n1"),
        ("j-3", "Running", "n1"),
        ("j-0", "going", "n1"),
    ]
    assert told(around.obey(result(), {}, NOW)) == [("j-0", "gone")]
    assert told(around.obey(result(), {}, NOW)) == []


def test_a_groups_state_is_stored_with_its_conditions() -> None:
    """What the next cycle compares with."""
    condition = Condition(
        type="Scheduled", status="True", last_transition="2026-01-01T12:00:00Z", transition_id="1"
    )
    state = GroupState(phase=Phase.RUNNING, running=3, conditions=(condition,))
    events_seen = list(drawn().obey(result(), {JobId("default/j"): state}, NOW))
    assert told(events_seen)[-1] == ("j", "Running", "3")
    (event,) = events_seen[-1:]
    assert isinstance(event, Upsert)
    assert isinstance(event.object, PodGroup)
    assert [
        (condition.type, condition.status, condition.last_transition_time, condition.transition_id)
        for condition in event.object.status.conditions
    ] == [("Scheduled", "True", "2026-01-01T12:00:00Z", "1")]


def evict(name: str, **labels: str) -> Evict:
    """An eviction of one of the picture's pods."""
    return Evict(
        task=task(name, **labels), node="n1", action="reclaim", beneficiary=JobId("default/x")
    )


def test_budgets_count_down_for_good() -> None:
    """Only those that cover the pod, not below nothing; its end gives nothing back."""
    around = drawn("""
        node n1 cpu=9 queue gold
        job  gold/j label=app=db n1 n1 -
        budget calm select=app=db allowed=1 budget other select=app=x allowed=1
    """)
    both = result(evicts=(evict("j-0", app="db"), evict("j-1", app="db")))
    assert told(around.obey(both, {}, NOW)) == [
        ("calm", "0"),
        ("j-0", "going", "n1"),
        ("calm", "0"),
        ("j-1", "going", "n1"),
    ]
    assert told(around.obey(result(), {}, NOW)) == [("j-0", "gone"), ("j-1", "gone")]


def test_a_budget_that_cant_be_read_protects_nobody() -> None:
    """The Mirror has rejected it as well."""
    selector = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    around = drawn(
        """
        node n1 cpu=9 queue gold
        job  gold/j label=app=db n1
        budget calm
    """,
        selector,
    )
    assert told(around.obey(result(evicts=(evict("j-0", app="db"),)), {}, NOW)) == [
        ("j-0", "going", "n1")
    ]


def test_pods_return_once_they_are_gone() -> None:
    """In the cycle after the one in which they go, waiting, under another name, made then."""
    around = drawn(pods_return=True)
    assert told(around.obey(result(evicts=(evict("j-0"),)), {}, NOW)) == [
        ("j-2", "gone"),
        ("j-2-r1", "Pending", ""),
        ("j-1", "Running", "n1"),
        ("j-0", "going", "n1"),
    ]
    assert told(around.obey(result(), {}, NOW + 1)) == [("j-0", "gone"), ("j-0-r1", "Pending", "")]
    made = {pod.metadata.name: pod.metadata for pod in around.pods()}["j-0-r1"]
    assert made.creation_timestamp is not None
    assert (made.uid, made.creation_timestamp.timestamp()) == ("default/j-0-r1", NOW + 1)


def test_a_budget_gets_back_what_runs_again() -> None:
    """A budget that had nothing to give gets nothing; one of an older life counts once."""
    around = drawn(
        """
        node n1 cpu=9 queue gold
        job  gold/j label=app=db n1
        budget calm select=app=db allowed=1 budget none select=app=db allowed=0
    """,
        pods_return=True,
    )
    list(around.obey(result(evicts=(evict("j-0", app="db"),)), {}, NOW))
    list(around.obey(result(), {}, NOW + 1))
    back = {pod.metadata.name: pod for pod in around.pods()}["j-0-r1"]
    bound = msgspec.structs.replace(task("j-0-r1"), uid=TaskId(back.metadata.uid))
    bind = result(binds=(Bind(task=bound, node="n1"),))
    assert told(around.obey(bind, {}, NOW + 2)) == [("j-0-r1", "Running", "n1"), ("calm", "1")]
    again = Evict(task=bound, node="n1", action="reclaim", beneficiary=None)
    assert told(around.obey(result(evicts=(again,)), {}, NOW + 3)) == [("j-0-r1", "going", "n1")]
    assert told(around.obey(result(), {}, NOW + 4)) == [
        ("j-0-r1", "gone"),
        ("j-0-r2", "Pending", ""),
    ]


@pytest.mark.parametrize(("kind", "expected"), [("Job", "j-0-r1"), ("StatefulSet", "j-0")])
def test_owners_answer_to_what_had_failed(kind: str, expected: str) -> None:
    """Once, in the first cycle; a failed pod stays, but where the next one has its name."""
    documents = pictures.documents(PICTURE.replace("n1 +n1 ~n1 -", "n1"))
    pod = documents[-1]
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "j", "uid": "o", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    pod["status"] = {"phase": "Failed"}
    upsert = events.convert(Kind.POD, pod)
    assert isinstance(upsert, Upsert)
    around = World([upsert], pods_return=True)
    gone = [("j-0", "gone")] if kind == "StatefulSet" else []
    assert told(around.obey(result(), {}, NOW)) == [*gone, (expected, "Pending", "")]
    assert told(around.obey(result(), {}, NOW)) == []


def test_what_had_failed_and_is_being_deleted_comes_back_once() -> None:
    """It goes first, and the one that has its name by then is left alone."""
    documents = pictures.documents(PICTURE.replace("n1 +n1 ~n1 -", "~n1"))
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "j", "controller": True}
    documents[-1]["metadata"]["ownerReferences"] = [owner]
    documents[-1]["status"] = {"phase": "Failed"}
    upsert = events.convert(Kind.POD, documents[-1])
    assert isinstance(upsert, Upsert)
    around = World([upsert], pods_return=True)
    assert told(around.obey(result(), {}, NOW)) == [("j-0", "gone"), ("j-0", "Pending", "")]
    assert told(around.obey(result(), {}, NOW)) == []


NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def pod(name: str, *, kind: str = "ReplicaSet", age: int = 0, **status: str) -> Pod:
    """A pod of an owner of that kind, none where it is empty; age in seconds before noon."""
    version = "batch.volcano.sh/v1alpha1" if kind == "vcjob" else "apps/v1"
    owner = OwnerReference(
        api_version=version,
        kind=kind.replace("vcjob", "Job"),
        name="o",
        uid="owner",
        controller=True,
    )
    metadata = Metadata(
        name=name,
        namespace="lab",
        uid=name,
        resource_version="7",
        labels={"app": "a"},
        creation_timestamp=NOON - dt.timedelta(seconds=age),
        owner_references=[owner] if kind else [],
    )
    spec = PodSpec(node_name="n1", scheduler_name="vscheduler")
    return Pod(
        metadata=metadata,
        spec=spec,
        status=PodStatus(phase=status.get("phase", "Running"), nominated_node_name="n1"),
    )


def test_what_takes_a_pods_place_knows_nothing_of_its_node() -> None:
    """A new UID, made now, nothing of the status; labels, owner and the rest of the spec stay."""
    old = pod("a")
    made = Owners([old]).again(old, NOON.timestamp(), set())
    assert (made.metadata.name, made.metadata.uid) == ("a-r1", "lab/a-r1")
    assert made.metadata.creation_timestamp == NOON
    assert made.metadata.resource_version == ""
    assert (made.metadata.labels, made.metadata.owner_references) == (
        old.metadata.labels,
        old.metadata.owner_references,
    )
    assert (made.spec.node_name, made.spec.scheduler_name) == ("", "vscheduler")
    assert made.status == PodStatus(phase="Pending")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("ReplicaSet", ["a-r1", "a-r2"]),
        ("Job", ["a-r1", "a-r2"]),
        ("", ["a-r1", "a-r2"]),
        ("StatefulSet", ["a", "a"]),
        ("vcjob", ["a", "a"]),
    ],
)
def test_names_are_counted_on_from_the_first(kind: str, names: list[str]) -> None:
    """Those of a StatefulSet and of Volcano's Job stay; UIDs never do."""
    first = pod("a", kind=kind)
    known = Owners([first])
    second = known.again(first, 0.0, set())
    third = known.again(second, 0.0, set())
    assert [second.metadata.name, third.metadata.name] == names
    assert (second.metadata.uid, third.metadata.uid) == ("lab/a-r1", "lab/a-r2")


def test_a_name_that_is_taken_is_passed_over() -> None:
    """The other pod is somebody else."""
    known = Owners([pod("a")])
    assert known.again(pod("a"), 0.0, {"lab/a-r1", "lab/a-r2"}).metadata.name == "a-r3"


def wanted(lost: Pod, *others: Pod) -> bool:
    """Whether somebody makes another for the first of these pods."""
    return Owners([lost, *others]).wants_again(lost)


def test_nobody_makes_another_for_what_is_done_or_replaced() -> None:
    """A failed pod is replaced once, by its owner, and only if that hasn't happened yet."""
    failed = pod("a", age=60, phase="Failed")
    assert wanted(pod("a"))
    assert wanted(failed)
    assert not wanted(pod("a", phase="Succeeded"))
    assert not wanted(pod("a", kind="", phase="Failed"))
    assert wanted(pod("a", kind=""))
    assert not wanted(failed, pod("b", age=30))
    assert wanted(failed, pod("b", age=90))
    assert wanted(failed, pod("b", age=30, kind="Job"))
    assert wanted(failed, pod("b", age=30, phase="Failed"))
    assert wanted(failed, pod("b", age=30, phase="Succeeded"))
