"""What a snapshot has kept is worked out anew when it changes."""

from tests.unit.mirror import manifests


def test_a_changed_queue_is_seen() -> None:
    """Its weight, for one."""
    seen = manifests.mirror(manifests.queue("q", {"weight": 1}))
    assert seen.snapshot(0.0).queues["q"].weight == 1
    seen.apply(manifests.event_of(manifests.queue("q", {"weight": 3})))
    assert seen.snapshot(0.0).queues["q"].weight == 3


def test_pods_that_came_before_their_group_count_as_ours_once_it_is_there() -> None:
    """On their nodes, whose rows a snapshot has already worked out."""
    placed = manifests.pod("p", group="g", node="n1", requests={"cpu": "1"})
    seen = manifests.mirror(manifests.node("n1"), manifests.queue("q"), placed)
    assert seen.snapshot(0.0).nodes.ours[0, 0] == 0
    seen.apply(manifests.event_of(manifests.group("g", {"queue": "q"})))
    assert seen.snapshot(0.0).nodes.ours[0, 0] == 1000


def test_listeners_hear_of_pods_that_come_and_go() -> None:
    """Until they listen no more."""
    heard: list[str] = []
    seen = manifests.mirror()
    end = seen.subscribe(heard.append)
    document = manifests.pod("p", group="g")
    seen.apply(manifests.event_of(document))
    assert heard == ["ns/g"]
    seen.apply(manifests.removal_of(document))
    assert heard == ["ns/g"] * 2
    end()
    seen.apply(manifests.event_of(document))
    assert heard == ["ns/g"] * 2


def test_listeners_hear_of_groups_whose_pods_change_until_they_end() -> None:
    """Whoever counts them by their pods looks again."""
    seen, heard = manifests.mirror(manifests.group("g", {})), list[str]()
    end = seen.subscribe(heard.append)
    seen.apply(manifests.event_of(manifests.pod("p", group="g")))
    assert heard == ["ns/g"]
    end()
    seen.apply(manifests.event_of(manifests.pod("p", group="g", node="n1")))
    assert heard == ["ns/g"]
