"""Which nodes `--node-selector` leaves in sight, and what becomes of pods on the others."""

from tests.unit.mirror import manifests
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror

Document = manifests.Document
BATCH = {"pool": "batch"}
SELECTOR = (("pool", "batch"), ("other", "x"))


def apply(seen: Mirror, *documents: Document) -> list[bool]:
    """Show manifests to the Mirror; which of them mattered."""
    return [bool(seen.apply(manifests.event_of(document))) for document in documents]


def names(seen: Mirror) -> tuple[str, ...]:
    """The nodes in sight."""
    return seen.snapshot(0.0).nodes.layout.names


def test_any_of_several_labels_is_enough() -> None:
    """The key alone, or another value, is not."""
    seen = manifests.mirror(
        manifests.node("n1", labels=BATCH),
        manifests.node("n2", labels={"other": "x", "pool": "web"}),
        manifests.node("n3", labels=BATCH | {"other": "x"}),
        manifests.node("n4", labels={"pool": "web", "other": "batch"}),
        manifests.node("n5"),
        node_selector=SELECTOR,
    )
    assert names(seen) == ("n1", "n2", "n3")


def test_a_node_comes_and_goes_with_its_label() -> None:
    """Each time it matters, with all pods that came to it meanwhile; unseen, nothing of it does."""
    seen = manifests.mirror(
        manifests.group("g", {"queue": "q"}),
        manifests.node("n1"),
        manifests.pod("before", group="g", node="n1"),
        node_selector=SELECTOR,
    )
    assert names(seen) == ()
    assert apply(seen, manifests.node("n1", labels=BATCH)) == [True]
    assert names(seen) == ("n1",)
    assert manifests.used(seen, "n1") == 1000
    # One of the labels for the other: it stays in sight.
    assert apply(seen, manifests.node("n1", labels={"other": "x"})) == [True]
    assert names(seen) == ("n1",)
    assert apply(seen, manifests.node("n1", labels={"pool": "web"})) == [True]
    assert names(seen) == ()
    unseen = manifests.node("n1", {"cpu": "9"}, labels={"pool": "web"})
    assert apply(seen, unseen) == [False]
    stranger = manifests.pod("late", scheduler="other", node="n1", requests={"cpu": "2"})
    assert apply(seen, stranger, manifests.node("n1", labels=BATCH)) == [True, True]
    assert manifests.used(seen, "n1") == 3000
    assert seen.snapshot(0.0).nodes.ours[0, 0] == 1000


def test_pods_on_a_node_out_of_sight_keep_their_seats() -> None:
    """They still belong to their job and count for their queue, on a node without a row."""
    seen = manifests.mirror(
        manifests.group("g", {"queue": "q"}),
        manifests.node("n1", labels=BATCH),
        manifests.node("n2", labels=BATCH),
        manifests.pod("p", group="g", node="n1"),
        node_selector=SELECTOR,
    )
    before = seen.snapshot(0.0)
    assert before.nodes.ours[:, 0].tolist() == [1000, 0]
    apply(seen, manifests.node("n1", labels={}))
    after = seen.snapshot(0.0)
    assert after.pods_by_class is before.pods_by_class
    assert [(each.nodes, each.queues) for each in after.pods_by_class.values()] == [
        (("n1",), ("q",))
    ]
    assert after.nodes.layout.names == ("n2",)
    assert after.nodes.ours[:, 0].tolist() == [0]
    job = manifests.job_of(seen, "g")
    assert (manifests.statuses(job), job.allocated["cpu"]) == ({"p": "Running"}, 1000)
    apply(seen, manifests.pod("late", group="g", node="n1"))
    found = seen.snapshot(0.0)
    assert list(manifests.seats(found).values()) == [[("n1", "q", 2)]]
    apply(seen, manifests.node("n1", labels=BATCH))
    assert seen.snapshot(0.0).nodes.ours[:, 0].tolist() == [2000, 0]


def test_a_list_of_nodes_shows_lost_labels_as_well() -> None:
    """What happened while nobody watched."""
    seen = manifests.mirror(
        manifests.node("n1", labels=BATCH),
        manifests.node("n2", labels={}),
        node_selector=SELECTOR,
    )
    left = manifests.node("n1", labels={}), manifests.node("n2", labels=BATCH)
    assert manifests.show_list(seen, Kind.NODE, *left)
    assert names(seen) == ("n2",)
    assert not manifests.show_list(seen, Kind.NODE, *left)
