"""Resources that nobody has are no columns without end; what pods hold on a node before a bind."""

from typing import Any

import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.index import node_usage
from vscheduler.mirror.state import Mirror
from vscheduler.model import resources
from vscheduler.model.jobs import TaskId
from vscheduler.model.nodes import NodeSpec


def waiting(number: int, **amounts: str) -> Document:
    """A pod that asks for a resource of its own."""
    requests = {f"example.com/r{number:03}": "2", **amounts}
    return manifests.pod(f"p{number}", group="g", requests=requests)


def test_so_many_are_told_apart_and_the_rest_is_one() -> None:
    """The first by name; nobody has any of the rest, whatever it is called."""
    most = node_usage.REQUESTED_ONLY_MAX
    pods = [waiting(number) for number in range(most)]
    seen = manifests.mirror(manifests.node("n"), manifests.group("g"), *pods)
    assert seen.snapshot(0.0).space.size == 3 + most
    for number in (most, most + 1):
        seen.apply(manifests.event_of(waiting(number)))
    found = seen.snapshot(0.0)
    assert found.space.size == 3 + most + 1
    assert found.space.names[-1] == resources.OTHERS
    for task in next(iter(found.jobs)).tasks:
        vector = found.space.vector(task.pod_class.request)
        assert vector.sum() == 3
        assert not resources.fits(vector, found.nodes.allocatable).any()
        assert found.space.amounts(vector)
    both = found.space.vector({"example.com/r064": 1, "example.com/r065": 2})
    assert both[-1] == 3
    assert "example.com/r064" not in found.space.amounts(both)


def test_what_a_node_or_a_queue_names_has_its_column() -> None:
    """However many names there are."""
    most = node_usage.REQUESTED_ONLY_MAX
    pods = [waiting(number) for number in range(most + 5)]
    last, limited = f"example.com/r{most + 4:03}", f"example.com/r{most + 3:03}"
    seen = manifests.mirror(
        manifests.node("n", {"cpu": "4", "pods": "10", last: "2"}),
        manifests.queue("q", {"capability": {limited: "1"}}),
        manifests.group("g", {"minResources": {"example.com/zzz": "1"}}),
        *pods,
    )
    found = seen.snapshot(0.0)
    assert {last, limited} <= set(found.space.names)
    assert "example.com/zzz" not in found.space.names
    assert resources.fits(found.space.vector({last: 2}), found.nodes.allocatable).all()
    for number in range(2):
        seen.apply(manifests.removal_of(waiting(number)))
    assert resources.OTHERS in seen.snapshot(0.0).space.names
    for number in range(2, 5):
        seen.apply(manifests.removal_of(waiting(number)))
    assert resources.OTHERS not in seen.snapshot(0.0).space.names


P = TaskId("p")
CORDON_TOLERATED: dict[str, Any] = {
    "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
}


def about_to_bind(cpu: str = "1", **spec: Any) -> Mirror:
    """A mirror in which pod p is being bound to n1, which has four cpu."""
    pod = manifests.pod("p", group="g", requests={"cpu": cpu}, spec=spec)
    seen = manifests.mirror(
        manifests.node("n1"), manifests.queue("q"), manifests.group("g", {"queue": "q"}), pod
    )
    assert seen.assume(P, "n1", now=1.0)
    return seen


def still_fits(seen: Mirror, name: str = "n1", **before: Any) -> bool:
    """Whether the bind of p can still be sent to a node that was like this."""
    return seen.still_fits(P, NodeSpec(name=name, **before))


def show(seen: Mirror, *documents: Document) -> Mirror:
    """What the watch shows since."""
    for document in documents:
        seen.apply(manifests.event_of(document))
    return seen


def another(name: str, cpu: str, **rest: Any) -> Document:
    """A pod that another scheduler has bound to n1."""
    return manifests.pod(name, node="n1", requests={"cpu": cpu}, scheduler="other", **rest)


def test_a_bind_fits_until_others_take_its_room() -> None:
    """Pods of any scheduler count, to the last milli-cpu."""
    seen = about_to_bind()
    assert still_fits(seen)
    assert still_fits(show(seen, another("a", "3")))
    assert not still_fits(show(seen, another("b", "1m")))
    seen.apply(manifests.removal_of(another("b", "1m")))
    assert still_fits(seen)


def test_what_is_being_bound_there_counts_too() -> None:
    """Two binds of ours that don't go together: neither is sent."""
    seen = show(about_to_bind("3"), manifests.pod("r", group="g", requests={"cpu": "2"}))
    assert seen.assume(TaskId("r"), "n1", now=1.0)
    assert not still_fits(seen)
    assert seen.forget(TaskId("r"))
    assert still_fits(seen)


def test_a_pod_that_is_being_deleted_holds_its_room_until_it_is_gone() -> None:
    """As in the snapshot; one that has finished holds none."""
    leaving = another("a", "4", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    seen = show(about_to_bind(), leaving)
    assert not still_fits(seen)
    assert still_fits(show(seen, another("a", "4", phase="Succeeded")))


def test_only_what_the_pod_asks_for_has_to_be_there() -> None:
    """A node that others have overcommitted in memory still takes a pod that asks for cpu."""
    seen = about_to_bind()
    show(seen, manifests.pod("a", node="n1", requests={"memory": "9Gi"}, scheduler="other"))
    assert still_fits(seen)
    wants_none = manifests.pod("p", group="g", requests={"cpu": "1", "memory": "0"})
    assert still_fits(show(seen, wants_none))
    slots = [manifests.pod(f"s{n}", node="n1", requests={}, scheduler="other") for n in range(9)]
    assert not still_fits(show(seen, *slots)), "eleven pods on a node that takes ten"


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": True}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"amounts": {"cpu": "500m", "pods": "10"}},
    ],
    ids=["cordoned", "not ready", "shrunk"],
)
def test_a_node_that_changed_for_the_worse_takes_nothing(change: dict[str, Any]) -> None:
    """Until it is as it was."""
    seen = show(about_to_bind(), manifests.node("n1", **change))
    assert not still_fits(seen)
    assert still_fits(show(seen, manifests.node("n1")))


def test_a_cordon_keeps_nobody_away_who_tolerates_it() -> None:
    """As the cycle decided it."""
    seen = about_to_bind(**CORDON_TOLERATED)
    assert still_fits(show(seen, manifests.node("n1", spec={"unschedulable": True})))


def test_what_was_decided_for_a_cordoned_node_holds() -> None:
    """A configuration without predicates may decide so; it must not do so for ever."""
    seen = show(about_to_bind(), manifests.node("n1", spec={"unschedulable": True}))
    assert still_fits(seen, unschedulable=True)


def test_a_bind_that_is_not_on_its_way_is_not_sent() -> None:
    """Its node has gone, or its pod; it was given up; it is for another node."""
    seen = about_to_bind()
    assert not still_fits(seen, "n2")
    assert not still_fits(show(seen, manifests.node("n2")), "n2")
    seen.apply(manifests.removal_of(manifests.node("n1")))
    assert not still_fits(seen)
    gone = about_to_bind()
    gone.apply(manifests.removal_of(manifests.pod("p", group="g")))
    assert not still_fits(gone)
    given_up = about_to_bind()
    given_up.forget(P)
    assert not still_fits(given_up)


def test_a_pod_that_is_resized_moves_what_is_held() -> None:
    """Its requests change while it runs."""
    seen = show(about_to_bind(), another("a", "3"), another("a", "3500m", version=2))
    assert not still_fits(seen)
    assert still_fits(show(seen, another("a", "1", version=3)))
