"""Kubelets that refuse pods: which nodes are left alone, and how long. Pods nominated to nodes."""

import datetime as dt
from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.index.entries import Change
from vscheduler.mirror.state import Mirror
from vscheduler.model.snapshot import Refused

Document = manifests.Document
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
T = START.timestamp()


def at(seconds: float) -> str:
    """An instant so long after the start."""
    return (START + dt.timedelta(seconds=seconds)).isoformat()


def refused(name: str, seconds: float, reason: str = "OutOfcpu", **rest: Any) -> Document:
    """A pod that the kubelet of n1 refused at this moment."""
    status = {"reason": reason, "startTime": at(seconds)} | rest.pop("status", {})
    return manifests.pod(name, node="n1", phase="Failed", status=status, **rest)


def started(name: str, seconds: float, phase: str = "Running", **rest: Any) -> Document:
    """A pod that the same kubelet started at this moment."""
    return manifests.pod(name, node="n1", phase=phase, status={"startTime": at(seconds)}, **rest)


def pauses(seen: Mirror, seconds: float) -> dict[str, tuple[str, int, float]]:
    """Reason, length and end by node, at this moment."""
    found = seen.snapshot(T + seconds).refused
    return {name: (each.reason, each.seconds, each.until - T) for name, each in found.items()}


def length(seen: Mirror, seconds: float) -> int:
    """How long n1 is left alone that is left alone at this moment, else 0."""
    return pauses(seen, seconds).get("n1", ("", 0, 0.0))[1]


def test_a_refusal_pauses_its_node_for_half_a_minute() -> None:
    """Only this node, and until then only."""
    seen = manifests.mirror(refused("a", 0))
    assert pauses(seen, 0) == {"n1": ("OutOfcpu", 30, 30.0)}
    assert pauses(seen, 29.9) == {"n1": ("OutOfcpu", 30, 30.0)}
    assert pauses(seen, 30) == {}


def test_each_refusal_in_a_row_doubles_the_pause_up_to_five_minutes() -> None:
    """A row of pods, each bound as soon as the last pause was over."""
    seen = manifests.mirror()
    moment, found = 0.0, []
    for number in range(7):
        seen.apply(manifests.event_of(refused(f"p{number}", moment)))
        found.append(length(seen, moment))
        moment += found[-1]
        seen.expire(T + moment)
    assert found == [30, 60, 120, 240, 300, 300, 300]


def test_pods_that_were_on_their_way_already_do_not_lengthen_it() -> None:
    """A gang of which ten pods are refused at once is one refusal."""
    seen = manifests.mirror(*(refused(f"p{number}", number) for number in range(10)))
    assert pauses(seen, 10) == {"n1": ("OutOfcpu", 30, 30.0)}


def test_a_row_ends_when_nothing_was_refused_for_long() -> None:
    """Five minutes after a pause it is forgotten; a moment earlier it isn't."""
    assert length(manifests.mirror(refused("a", 0), refused("b", 329)), 330) == 60
    assert length(manifests.mirror(refused("a", 0), refused("b", 330)), 331) == 30


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_pod_of_ours_that_starts_later_ends_pause_and_row(phase: str) -> None:
    """Not one that started in the same second, which may have taken the room."""
    assert length(manifests.mirror(refused("a", 5), started("b", 5, phase)), 6) == 30
    assert length(manifests.mirror(refused("a", 5), started("b", 4, phase)), 6) == 30
    ended = manifests.mirror(started("b", 6, phase), refused("a", 5))
    assert length(ended, 7) == 0
    ended.apply(manifests.event_of(refused("c", 40)))
    assert length(ended, 41) == 30


def test_pods_of_others_neither_begin_nor_end_a_pause() -> None:
    """What another scheduler's pods meet there is its own matter."""
    other = {"scheduler": "other"}
    assert length(manifests.mirror(refused("a", 0, **other)), 1) == 0
    assert length(manifests.mirror(refused("a", 0), started("b", 1, **other)), 2) == 30


def test_a_pod_counts_once_and_when_it_was_refused() -> None:
    """Seen again, listed again, read by a new process: the pause ends when it would have."""
    seen = manifests.mirror(refused("a", 0))
    assert length(seen, 0) == 30
    seen.apply(manifests.event_of(refused("a", 0, version=7, metadata={"labels": {"x": "y"}})))
    manifests.show_list(seen, Kind.POD, refused("a", 0, version=8))
    assert pauses(seen, 20) == pauses(manifests.mirror(refused("a", 0)), 20)
    assert pauses(seen, 20) == {"n1": ("OutOfcpu", 30, 30.0)}
    assert length(seen, 31) == length(manifests.mirror(refused("a", 0)), 31) == 0


def test_a_pause_outlives_its_pod() -> None:
    """Whoever made the pod deletes it, and makes another at once."""
    seen = manifests.mirror(refused("a", 0))
    seen.apply(manifests.removal_of(refused("a", 0)))
    seen.expire(T + 10)
    assert length(seen, 10) == 30


def test_what_was_refused_an_hour_ago_is_forgotten() -> None:
    """A Mirror doesn't grow with the pods that were ever refused."""
    seen = manifests.mirror(refused("a", 0), started("b", 0))
    seen.expire(T + 3599)
    assert len(seen._refusals._refused) == len(seen._refusals._started) == 1
    seen.expire(T + 3600)
    assert not seen._refusals._refused
    assert not seen._refusals._started


def test_a_kubelet_whose_clock_is_ahead_does_not_lengthen_the_pause() -> None:
    """It counts from when the refusal was first seen; the order of its own answers stays."""
    seen = manifests.mirror(started("b", 3599), refused("a", 3600))
    assert pauses(seen, 10) == {"n1": ("OutOfcpu", 30, 40.0)}
    seen.apply(manifests.event_of(refused("a", 3600, metadata={"labels": {"x": "y"}})))
    assert pauses(seen, 39) == {"n1": ("OutOfcpu", 30, 40.0)}
    assert pauses(seen, 40) == {}


def test_a_kubelet_whose_clock_is_behind_refused_no_earlier_than_the_pod_was_bound() -> None:
    """The API server's times say when the pod was made, and when it was bound."""
    made = refused("a", -3600, metadata={"creationTimestamp": at(0)})
    assert length(manifests.mirror(made), 1) == 30
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0)}
    bound = refused("a", -3600, status={"conditions": [condition]})
    assert length(manifests.mirror(bound), 1) == 30


@pytest.mark.parametrize(
    ("reason", "message", "counts"),
    [
        ("OutOfmemory", "", True),
        ("OutOfpods", "", True),
        ("OutOfnvidia.com/gpu", "", True),
        ("UnexpectedAdmissionError", "", True),
        ("NodeAffinity", "", True),
        ("NodeShutdown", "", True),
        ("Evicted", "Pod was rejected: The node had condition: [DiskPressure]. ", True),
        ("Evicted", "The node was low on resource: memory.", False),
        ("SysctlForbidden", "", False),
        ("TopologyAffinityError", "", False),
        ("DeadlineExceeded", "", False),
        ("", "", False),
    ],
)
def test_only_reasons_that_are_about_the_node_count(
    reason: str, message: str, *, counts: bool
) -> None:
    """Not what a pod asks for that no such node grants, nor what befell a pod that ran."""
    seen = manifests.mirror(refused("a", 0, reason, status={"message": message}))
    assert (length(seen, 1) > 0) is counts


def test_a_failed_pod_without_a_node_says_nothing() -> None:
    """Nobody's kubelet refused it."""
    seen = manifests.mirror(manifests.pod("a", phase="Failed", status={"reason": "OutOfcpu"}))
    assert seen.snapshot(1.0).refused == {}


def test_nodes_are_sorted_whatever_order_pods_come_in() -> None:
    """Equal objects give equal snapshots."""
    pods = [refused(name, 0, spec={"nodeName": name}) for name in ("n3", "n1", "n2")]
    assert list(pauses(manifests.mirror(*pods), 1)) == ["n1", "n2", "n3"]
    assert isinstance(manifests.mirror(*pods).snapshot(T).refused["n1"], Refused)


def nominated(name: str = "p", node: str = "n1", **rest: Any) -> Document:
    """A pod of another scheduler, for which others were evicted."""
    status = {"nominatedNodeName": node}
    return manifests.pod(name, scheduler="default-scheduler", status=status, **rest)


def found(seen: Mirror) -> list[tuple[str, str, int]]:
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
    assert seen.apply(manifests.event_of(after)) is Change.OTHER
    assert found(seen) == []


def test_a_pod_that_is_gone_keeps_nothing() -> None:
    """As soon as the watch tells."""
    seen = manifests.mirror(nominated())
    assert seen.apply(manifests.removal_of(nominated())) is Change.OTHER
    assert found(seen) == []


def test_a_nomination_is_news() -> None:
    """What was decided before may not hold any more; another node is news, too."""
    seen = manifests.mirror(manifests.pod("p", scheduler="default-scheduler"))
    for node in ("n1", "n2"):
        assert seen.apply(manifests.event_of(nominated(node=node))) is Change.OTHER
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
    assert dict(kept.pod_class.request) == {"pods": 1}
