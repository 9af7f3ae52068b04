from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror import state
from vscheduler.mirror.index import entries

Document = manifests.Document


def nominated(name: str = "p", node: str = "n1", **rest: Any) -> Document:
    """A pod of another scheduler, for which others were evicted."""
    status = {"nominatedNodeName": node}
    return manifests.pod(name, scheduler="default-scheduler", status=status, **rest)


def found(seen: state.Mirror) -> list[tuple[str, str, int]]:
    """Whom the next cycle knows of, in order: pod, node and priority."""
    return [(each.key, each.node, each.priority) for each in seen.snapshot(0.0).nominated]


def test_the_highest_priority_comes_first() -> None:
    """Then names; a pod without one has priority 0."""
    seen = manifests.mirror(
        nominated("a"), nominated("c", spec={"priority": 5}), nominated("b", spec={"priority": 5})
    )
    assert found(seen) == [("ns/b", "n1", 5), ("ns/c", "n1", 5), ("ns/a", "n1", 0)]


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"nominatedNodeName": ""}},
        {"node": "n2"},
        {"phase": "Failed", "status": {"nominatedNodeName": "n1"}},
        {"phase": "Succeeded", "status": {"nominatedNodeName": "n1"}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"spec": {"schedulingGates": [{"name": "example.com/gate"}]}},
    ],
)
def test_a_nomination_ends_with_what_kept_it(change: Document) -> None:
    """Cleared, bound, finished, deleted or gated: and whoever waits is to hear of it."""
    seen = manifests.mirror(nominated())
    assert found(seen) == [("ns/p", "n1", 0)]
    after = manifests.pod("p", scheduler="default-scheduler", **change)
    assert seen.apply(manifests.event_of(after)) is entries.Change.OTHER
    assert found(seen) == []


def test_a_pod_that_is_gone_keeps_nothing() -> None:
    """As soon as the watch tells."""
    seen = manifests.mirror(nominated())
    assert seen.apply(manifests.removal_of(nominated())) is entries.Change.OTHER
    assert found(seen) == []


def test_a_nomination_is_news() -> None:
    """What was decided before may not hold any more; another node is news, too."""
    seen = manifests.mirror(manifests.pod("p", scheduler="default-scheduler"))
    for node in ("n1", "n2"):
        assert seen.apply(manifests.event_of(nominated(node=node))) is entries.Change.OTHER
        assert found(seen) == [("ns/p", node, 0)]


def test_pods_of_ours_are_kept_by_other_means() -> None:
    """What was promised to them goes from cycle to cycle."""
    ours = manifests.pod("p", group="g", status={"nominatedNodeName": "n1"})
    seen = manifests.mirror(ours)
    assert found(seen) == []
    assert seen.snapshot(0.0).nominated is seen.snapshot(0.0).nominated


def test_a_request_that_cannot_be_read_keeps_a_slot() -> None:
    """As on a node."""
    seen = manifests.mirror(nominated(requests={"cpu": "lots"}))
    (kept,) = seen.snapshot(0.0).nominated
    assert dict(kept.kind.request) == {"pods": 1}
