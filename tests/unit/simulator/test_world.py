import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest

from tests import pictures
from vscheduler.core.model import decisions, jobs, snapshot
from vscheduler.mirror.decode import decoding, events, wire
from vscheduler.simulator import world

NOW = 1_767_268_800.0
PICTURE = """
    node n1 cpu=9    queue gold weight=1
    job  gold/j min=1   n1 +n1 ~n1 -
"""


def task(name: str, **labels: str) -> jobs.Task:
    """The task of one of the picture's pods."""
    return jobs.Task(
        uid=jobs.TaskId(name),
        namespace="default",
        name=name,
        job=jobs.JobId("default/j"),
        kind=jobs.TaskClass(request={}),
        status=jobs.TaskStatus.RUNNING,
        created=0.0,
        labels=labels,
    )


def result(**decided: Any) -> decisions.CycleResult:
    """What a cycle decided, nothing unless it is given."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("binds", "pipelined", "evicts", "groups", "queues"), ()
    )
    return decisions.CycleResult(**{**nothing, "total": {}, "carried": snapshot.FRESH, **decided})


def drawn(
    picture: str = PICTURE, selector: Any = None, *, pods_return: bool = False
) -> world.World:
    """The picture as a world; selector: of its budgets."""
    documents = pictures.documents(picture)
    for document in documents:
        if selector and document["kind"] == "PodDisruptionBudget":
            document["spec"]["selector"] = selector
    read = [
        decoding.convert(kind, document)
        for document in documents
        if (kind := decoding.kind_of(document))
    ]
    upserts = (event for event in read if isinstance(event, events.Upsert))
    return world.World(upserts, pods_return=pods_return)


def told(changes: Iterable[events.Event]) -> list[tuple[str, ...]]:
    """Events in a few words each."""
    words: list[tuple[str, ...]] = []
    for event in changes:
        match event:
            case events.Remove(name=name):
                words.append((name, "gone"))
            case events.Upsert(object=wire.Pod() as pod):
                going = "going" if pod.metadata.deletion_timestamp else pod.status.phase
                words.append((pod.metadata.name, going, pod.spec.node_name))
            case events.Upsert(object=wire.PodGroup() as group):
                status = group.status
                words.append((group.metadata.name, status.phase, str(status.running)))
            case events.Upsert(object=wire.PodDisruptionBudget() as budget):
                words.append((budget.metadata.name, str(budget.status.disruptions_allowed)))
    return words


def test_what_was_decided_has_happened_by_the_next_cycle() -> None:
    """Bound pods run, evicted ones are going, those that were going are gone."""
    around = drawn()
    decided = result(
        binds=(decisions.Bind(task=task("j-3"), node="n1"),),
        evicts=(decisions.Evict(task=task("j-0"), node="n1", action="reclaim", beneficiary=None),),
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
    condition = jobs.Condition(
        type="Scheduled", status="True", last_transition="2026-01-01T12:00:00Z", transition_id="1"
    )
    state = jobs.GroupState(phase=jobs.Phase.RUNNING, running=3, conditions=(condition,))
    events_seen = list(drawn().obey(result(), {jobs.JobId("default/j"): state}, NOW))
    assert told(events_seen)[-1] == ("j", "Running", "3")
    (event,) = events_seen[-1:]
    assert isinstance(event, events.Upsert)
    assert isinstance(event.object, wire.PodGroup)
    assert [
        (each.type, each.status, each.last_transition_time, each.transition_id)
        for each in event.object.status.conditions
    ] == [("Scheduled", "True", "2026-01-01T12:00:00Z", "1")]


def evict(name: str, **labels: str) -> decisions.Evict:
    """An eviction of one of the picture's pods."""
    return decisions.Evict(
        task=task(name, **labels), node="n1", action="reclaim", beneficiary=jobs.JobId("default/x")
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
    bound = dataclasses.replace(task("j-0-r1"), uid=jobs.TaskId(back.metadata.uid))
    bind = result(binds=(decisions.Bind(task=bound, node="n1"),))
    assert told(around.obey(bind, {}, NOW + 2)) == [("j-0-r1", "Running", "n1"), ("calm", "1")]
    again = decisions.Evict(task=bound, node="n1", action="reclaim", beneficiary=None)
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
    upsert = decoding.convert(events.Kind.POD, pod)
    assert isinstance(upsert, events.Upsert)
    around = world.World([upsert], pods_return=True)
    gone = [("j-0", "gone")] if kind == "StatefulSet" else []
    assert told(around.obey(result(), {}, NOW)) == [*gone, (expected, "Pending", "")]
    assert told(around.obey(result(), {}, NOW)) == []


def test_what_had_failed_and_is_being_deleted_comes_back_once() -> None:
    """It goes first, and the one that has its name by then is left alone."""
    documents = pictures.documents(PICTURE.replace("n1 +n1 ~n1 -", "~n1"))
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "j", "controller": True}
    documents[-1]["metadata"]["ownerReferences"] = [owner]
    documents[-1]["status"] = {"phase": "Failed"}
    upsert = decoding.convert(events.Kind.POD, documents[-1])
    assert isinstance(upsert, events.Upsert)
    around = world.World([upsert], pods_return=True)
    assert told(around.obey(result(), {}, NOW)) == [("j-0", "gone"), ("j-0", "Pending", "")]
    assert told(around.obey(result(), {}, NOW)) == []
