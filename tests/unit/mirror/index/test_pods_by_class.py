"""Which pods count for which queue, and where."""

import random
from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.index.pods_by_class import ClassPlaces
from vscheduler.mirror.state import Mirror
from vscheduler.model.jobs import PodClass, TaskId
from vscheduler.model.snapshot import Snapshot

Document = manifests.Document
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TWO_CPU = {"cpu": "2"}
CLUSTER = (
    manifests.node("n1"),
    manifests.node("n2"),
    manifests.group("g", {"queue": "q"}),
    manifests.group("h", {"queue": "r"}),
)


def show(seen: Mirror, *documents: Document) -> Snapshot:
    """What there is after these."""
    for document in documents:
        seen.apply(manifests.event_of(document))
    return seen.snapshot(0.0)


def gone(seen: Mirror, *documents: Document) -> Snapshot:
    """What there is without these."""
    for document in documents:
        seen.apply(manifests.removal_of(document))
    return seen.snapshot(0.0)


def seats(found: Snapshot) -> list[list[tuple[str, str, int]]]:
    """Nodes, queues and numbers of pods of each class."""
    return list(manifests.seats(found).values())


def ours(found: Snapshot) -> list[int]:
    """The cpu of our pods on each node, in thousandths."""
    return [int(amount) for amount in found.nodes.ours[:, 0]]


def foreign(name: str, **rest: Any) -> Document:
    """A pod of another scheduler."""
    return manifests.pod(name, scheduler="other", **rest)


def test_seats_are_counted_by_class_node_and_queue() -> None:
    """Sorted by node and queue, larger and smaller pods apart."""
    found = show(
        manifests.mirror(*CLUSTER),
        manifests.pod("a", group="h", node="n2"),
        manifests.pod("b", group="h", node="n1"),
        manifests.pod("c", group="g", node="n1"),
        manifests.pod("d", group="g", node="n1"),
        manifests.pod("e", group="g", node="n2", requests=TWO_CPU),
    )
    small, large = found.pods_by_class
    assert (small.request["cpu"], large.request["cpu"]) == (1000, 2000)
    assert seats(found) == [[("n1", "q", 2), ("n1", "r", 1), ("n2", "r", 1)], [("n2", "q", 1)]]
    assert ours(found) == [3000, 3000]
    assert not found.pods_by_class[small].counts.flags.writeable


@pytest.mark.parametrize(
    "other",
    [
        manifests.pod("p", group="g"),
        manifests.pod("p", group="g", node="n1", phase="Succeeded"),
        manifests.pod("p", group="g", node="n1", metadata=LEAVING | {"annotations": {}}),
        manifests.pod("p", node="n1"),
        manifests.pod("p", group="missing", node="n1"),
        manifests.pod("p", group="g", node="n1", spec={"tolerations": [{"value": "no key"}]}),
        foreign("p", group="g", node="n1"),
    ],
    ids=["waits", "finished", "leaves", "alone", "no group", "refused", "foreign"],
)
def test_others_are_not_seated(other: Document) -> None:
    """Who waits, has finished, leaves, belongs to no group that is there, or isn't ours."""
    seen = manifests.mirror(*CLUSTER, manifests.pod("a", group="g", node="n1"))
    found = show(seen, other)
    assert seats(found) == [[("n1", "q", 1)]]
    assert ours(found) == [1000, 0]
    found = show(seen, manifests.pod("p", group="g", node="n1"))
    assert seats(found) == [[("n1", "q", 2)]]
    assert ours(found) == [2000, 0]
    found = show(seen, other)
    assert seats(found) == [[("n1", "q", 1)]]
    assert ours(found) == [1000, 0]


def test_a_leaving_pod_of_a_group_gives_up_its_seat_at_once() -> None:
    """Its room is still taken."""
    seen = manifests.mirror(*CLUSTER, manifests.pod("p", group="g", node="n1"))
    leaving = manifests.pod("p", group="g", node="n1")
    leaving["metadata"] |= LEAVING
    found = show(seen, leaving)
    assert (seats(found), ours(found)) == ([], [0, 0])
    assert manifests.used(seen, "n1") == 1000


def test_a_pod_that_is_another_one_now_moves() -> None:
    """Resized in place; shown anew on another node, or with another scheduler."""
    seen = manifests.mirror(*CLUSTER, manifests.pod("p", group="g", node="n1"))
    seen.snapshot(0.0)
    found = show(seen, manifests.pod("p", group="g", node="n1", requests=TWO_CPU))
    assert [pod_class.request["cpu"] for pod_class in found.pods_by_class] == [2000]
    assert ours(found) == [2000, 0]
    found = show(seen, manifests.pod("p", group="g", node="n2", requests=TWO_CPU))
    assert (seats(found), ours(found)) == ([[("n2", "q", 1)]], [0, 2000])
    found = show(seen, foreign("p", group="g", node="n2", requests=TWO_CPU))
    assert (seats(found), ours(found)) == ([], [0, 0])
    assert found.used_by_other_schedulers == {"q": {"cpu": 2000, "pods": 1}}
    found = show(seen, manifests.pod("p", group="g", node="n2", requests=TWO_CPU))
    assert (seats(found), ours(found)) == ([[("n2", "q", 1)]], [0, 2000])
    assert dict(found.used_by_other_schedulers) == {}


def test_a_refused_pod_counts_nowhere_until_another_scheduler_has_it() -> None:
    """One of ours with a mistake in it is nobody's; the same pod of another's is elsewhere."""
    mistake = {"tolerations": [{"value": "no key"}]}
    seen = manifests.mirror(*CLUSTER)
    found = show(seen, manifests.pod("p", group="g", node="n1", spec=mistake))
    assert (seats(found), ours(found), dict(found.used_by_other_schedulers)) == ([], [0, 0], {})
    found = show(seen, foreign("p", group="g", node="n1", spec=mistake))
    assert list(found.used_by_other_schedulers) == ["q"]
    found = show(seen, manifests.pod("p", group="g", node="n1", spec=mistake))
    assert dict(found.used_by_other_schedulers) == {}


def test_what_was_sent_counts_as_done() -> None:
    """A bind seats the pod until it fails, an eviction unseats it until it fails."""
    seen = manifests.mirror(*CLUSTER, manifests.pod("p", group="g"))
    task = TaskId("p")
    seen.assume(task, "n2", 0.0)
    assert seats(seen.snapshot(0.0)) == [[("n2", "q", 1)]]
    assert ours(seen.snapshot(0.0)) == [0, 1000]
    seen.forget(task)
    assert seats(seen.snapshot(0.0)) == []
    show(seen, manifests.pod("p", group="g", node="n1"))
    seen.evicting(task, 0.0)
    assert seats(seen.snapshot(0.0)) == []
    assert ours(seen.snapshot(0.0)) == [0, 0]
    seen.forget_eviction(task)
    assert seats(seen.snapshot(0.0)) == [[("n1", "q", 1)]]
    assert ours(seen.snapshot(0.0)) == [1000, 0]


def test_a_group_that_comes_or_goes_takes_its_pods_along() -> None:
    """In their seats and on their nodes; the pods themselves are never shown again."""
    seen = manifests.mirror(*CLUSTER[:2])
    pods = [manifests.pod(f"p{at}", group="g", node=f"n{at}") for at in (1, 2)]
    found = show(seen, *pods, foreign("f", group="g", node="n1"))
    assert (seats(found), ours(found), dict(found.used_by_other_schedulers)) == ([], [0, 0], {})
    found = show(seen, manifests.group("g", {"queue": "q"}))
    assert seats(found) == [[("n1", "q", 1), ("n2", "q", 1)]]
    assert ours(found) == [1000, 1000]
    assert found.used_by_other_schedulers == {"q": {"cpu": 1000, "pods": 1}}
    found = gone(seen, manifests.group("g"))
    assert (seats(found), ours(found), dict(found.used_by_other_schedulers)) == ([], [0, 0], {})


def test_a_group_that_changes_its_queue_moves_its_pods() -> None:
    """Also to a queue that isn't there; one whose spec is refused is as good as gone."""
    seen = manifests.mirror(
        *CLUSTER,
        manifests.pod("p", group="g", node="n1"),
        foreign("f", group="g", node="n1"),
        manifests.pod("other", group="h", node="n1"),
    )
    found = show(seen, manifests.group("g", {"queue": "a"}))
    assert seats(found) == [[("n1", "a", 1), ("n1", "r", 1)]]
    assert list(found.used_by_other_schedulers) == ["a"]
    found = show(seen, manifests.group("g", {"queue": "r"}))
    assert seats(found) == [[("n1", "r", 2)]]
    assert list(found.used_by_other_schedulers) == ["r"]
    found = show(seen, manifests.group("g", {"queue": "r", "minMember": -1}))
    assert (seats(found), ours(found)) == ([[("n1", "r", 1)]], [1000, 0])
    assert dict(found.used_by_other_schedulers) == {}


def test_seats_outlive_their_node() -> None:
    """They name it as long as its pods are there, and its row has them when it is back."""
    seen = manifests.mirror(*CLUSTER, manifests.pod("p", group="g", node="n1"))
    before = seen.snapshot(0.0).pods_by_class
    found = gone(seen, manifests.node("n1"))
    assert found.nodes.layout.names == ("n2",)
    assert found.pods_by_class is before
    assert [each.rows(found.nodes.layout).tolist() for each in found.pods_by_class.values()] == [
        [-1]
    ]
    assert ours(show(seen, manifests.node("n1"))) == [1000, 0]


def test_counts_change_where_pods_are_already() -> None:
    """The places stay the same, and their rows known, until a pod comes to another one, or goes."""
    seen = manifests.mirror(*CLUSTER, manifests.pod("a", group="g", node="n1"))
    (first,) = seen.snapshot(0.0).pods_by_class.values()
    found = show(seen, manifests.pod("b", group="g", node="n1"))
    (second,) = found.pods_by_class.values()
    assert second.nodes is first.nodes
    assert (first.counts.tolist(), second.counts.tolist()) == ([1], [2])
    layout = found.nodes.layout
    assert second.rows(layout) is first.rows(layout)
    found = show(seen, manifests.pod("c", group="g", node="n2"))
    (third,) = found.pods_by_class.values()
    assert seats(found) == [[("n1", "q", 2), ("n2", "q", 1)]]
    assert third.rows(layout).tolist() == [0, 1]
    found = gone(seen, manifests.pod("c", group="g", node="n2"))
    assert seats(found) == [[("n1", "q", 2)]]


def test_only_classes_whose_pods_moved_are_made_anew() -> None:
    """Heartbeats, pods that wait, and a pod's start on its node move nobody."""
    seen = manifests.mirror(
        *CLUSTER,
        manifests.pod("a", group="g", node="n1", phase="Pending"),
        manifests.pod("b", group="g", node="n1", requests=TWO_CPU),
    )
    before = seen.snapshot(0.0).pods_by_class
    assert seen.work["seats"] == 2
    found = show(
        seen,
        manifests.node("n1", {"cpu": "5"}),
        manifests.pod("a", group="g", node="n1"),
        manifests.pod("w", group="g", requests=TWO_CPU),
        foreign("f", group="g", node="n1"),
        manifests.group("g", {"queue": "q", "minMember": 2}),
    )
    assert found.pods_by_class is before
    assert seen.work["seats"] == 2
    found = show(seen, manifests.pod("w", group="g", node="n2", requests=TWO_CPU))
    small, large = found.pods_by_class
    assert found.pods_by_class[small] is before[small]
    assert found.pods_by_class[large] is not before[large]
    assert seen.work["seats"] == 3
    found = gone(seen, manifests.pod("a"))
    assert list(found.pods_by_class) == [large]
    assert seen.work["seats"] == 3


def test_places_that_pods_left_again_are_not_kept() -> None:
    """A standby takes no snapshots, while pods come to its nodes and go for weeks."""
    places = ClassPlaces(PodClass(request={}))
    for number in range(3):
        places.move(f"n{number}", "q", 1)
    for number in range(2):
        places.move(f"n{number}", "q", -1)
    assert places.moved == {("n2", "q"): 1}
    assert places
    assert places.freeze().nodes == ("n2",)
    places.move("n2", "q", -1)
    assert not places
    assert places.freeze().nodes == ()
    assert not places.moved


def test_a_group_moves_only_its_own_members() -> None:
    """Hundreds of other pods of other classes are left as they are."""
    many = [
        manifests.pod(f"p{at}", group="g", node="n1", requests={"cpu": f"{at}m"})
        for at in range(1, 200)
    ]
    seen = manifests.mirror(*CLUSTER, *many, manifests.pod("a", group="h", node="n2"))
    seen.snapshot(0.0)
    before = dict(seen.work)
    gone(seen, manifests.group("h"))
    assert seen.work["seats"] == before["seats"]
    assert seen.work["rows"] == before["rows"] + 1
    show(seen, manifests.group("h", {"queue": "s"}))
    assert seen.work["seats"] == before["seats"] + 1
    assert seen.work["rows"] == before["rows"] + 2
    show(seen, manifests.group("h", {"queue": "t"}))
    assert seen.work["seats"] == before["seats"] + 2
    assert seen.work["rows"] == before["rows"] + 2


def test_the_order_of_classes_is_that_of_what_they_are() -> None:
    """Whoever came first, also where they differ in constraints or hints only."""
    zone = {"volcano.sh/revocable-zone": "*", "scheduling.k8s.io/group-name": "g"}
    documents = [
        manifests.pod("a", group="g", node="n1"),
        manifests.pod("b", group="g", node="n1", requests=TWO_CPU),
        manifests.pod("c", group="g", node="n1", spec={"nodeSelector": {"a": "b"}}),
        manifests.pod("d", group="g", node="n1", spec={"nodeSelector": {"a": "c"}}),
        manifests.pod("e", node="n1", metadata={"annotations": zone}),
    ]
    orders = set()
    for seed in range(8):
        shuffled = random.Random(seed).sample(documents, len(documents))
        found = show(manifests.mirror(*CLUSTER), *shuffled)
        orders.add(repr(manifests.canonical(found)["seats"]))
        assert len(found.pods_by_class) == 5
    assert len(orders) == 1


def test_elsewhere_is_what_queues_hold_under_other_schedulers() -> None:
    """By queue and resource, on any node; not who leaves, has finished, waits, or is ours."""
    leaving = foreign("leaving", group="g", node="n1")
    leaving["metadata"] |= LEAVING
    found = show(
        manifests.mirror(*CLUSTER),
        foreign("a", group="h", node="n1"),
        foreign("b", group="g", node="n1"),
        foreign("c", group="g", node="n9", requests={"cpu": "2", "memory": "1Ki"}),
        foreign("d", group="missing", node="n1"),
        foreign("e", node="n1"),
        foreign("f", group="g"),
        foreign("g", group="g", node="n1", phase="Failed"),
        leaving,
        manifests.pod("ours", group="g", node="n1"),
    )
    assert [
        (queue, list(held.items())) for queue, held in found.used_by_other_schedulers.items()
    ] == [
        ("q", [("cpu", 3000), ("memory", 1024), ("pods", 2)]),
        ("r", [("cpu", 1000), ("pods", 1)]),
    ]
    assert seats(found) == [[("n1", "q", 1)]]


def test_elsewhere_costs_what_changed() -> None:
    """One queue is added up anew; what comes out the same is the same object."""
    seen = manifests.mirror(
        *CLUSTER, foreign("a", group="g", node="n1"), foreign("b", group="h", node="n1")
    )
    before = seen.snapshot(0.0).used_by_other_schedulers
    assert seen.work["elsewhere"] == 2
    found = show(seen, manifests.pod("p", group="g", node="n1"), manifests.node("n1", {"cpu": "9"}))
    assert found.used_by_other_schedulers is before
    assert seen.work["elsewhere"] == 2
    seen.apply(manifests.removal_of(foreign("a")))
    assert show(seen, foreign("c", group="g", node="n2")).used_by_other_schedulers is before
    assert seen.work["elsewhere"] == 3
    found = show(seen, foreign("d", group="g", node="n2"))
    assert found.used_by_other_schedulers["q"] == {"cpu": 2000, "pods": 2}
    assert found.used_by_other_schedulers["r"] is before["r"]
    assert list(gone(seen, foreign("c"), foreign("d")).used_by_other_schedulers) == ["r"]
