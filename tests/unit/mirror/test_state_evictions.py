import datetime as dt
from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.mirror.index import node_usage
from vscheduler.mirror.state import Mirror
from vscheduler.model.jobs import TaskId, TaskStatus

P = TaskId("p")
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def running(**options: Any) -> Mirror:
    """A Mirror that has seen a pod of ours on n1."""
    return manifests.mirror(
        manifests.node("n1"),
        manifests.queue("q"),
        manifests.group("g", {"queue": "q"}),
        manifests.pod("p", group="g", node="n1"),
        **options,
    )


def status(seen: Mirror) -> TaskStatus:
    """How the pod counts now."""
    (job,) = seen.snapshot(0.0).jobs
    return job.tasks[0].status


def releasing(seen: Mirror) -> int:
    """The milli-CPU that are being freed on n1."""
    return int(seen.snapshot(0.0).nodes.releasing[0, 0])


def test_an_eviction_that_was_sent_counts_until_it_is_seen() -> None:
    """The pod is Releasing at once; the deletion on the server is no news then; its end is."""
    seen = running()
    assert seen.evicting(P, 10.0)
    assert (status(seen), releasing(seen)) == (TaskStatus.RELEASING, 1000)
    assert not seen.evicting(TaskId("other"), 10.0)
    going = manifests.pod("p", group="g", node="n1", metadata=GOING)
    assert not seen.apply(manifests.event_of(going))
    assert not seen.forget_eviction(P)
    assert not seen.evicting(P, 11.0)
    assert (status(seen), releasing(seen)) == (TaskStatus.RELEASING, 1000)
    assert seen.apply(Remove(kind=Kind.POD, namespace="ns", name="p", uid="p"))
    assert (releasing(seen), list(seen.snapshot(0.0).jobs)) == (0, [])


def test_an_eviction_that_failed_is_forgotten() -> None:
    """The pod stays as it was."""
    seen = running()
    before = seen.snapshot(0.0)
    seen.evicting(P, 10.0)
    assert seen.forget_eviction(P)
    assert status(seen) is TaskStatus.RUNNING
    assert releasing(seen) == 0
    assert (seen.snapshot(0.0).nodes.used == before.nodes.used).all()
    assert not seen.forget_eviction(P)


def test_an_eviction_that_is_never_seen_expires() -> None:
    """After as long as a bind."""
    seen = running(assume_seconds=30.0)
    seen.evicting(P, 10.0)
    assert seen.expire(40.0) == []
    assert seen.expire(40.1) == [P]
    assert status(seen) is TaskStatus.RUNNING


def test_news_of_a_pod_that_stays_leave_its_eviction_on_the_way() -> None:
    """A new label, say, was written before the eviction got there."""
    seen = running()
    seen.evicting(P, 10.0)
    labelled = manifests.pod("p", group="g", node="n1", metadata={"labels": {"a": "b"}})
    seen.apply(manifests.event_of(labelled))
    assert status(seen) is TaskStatus.RELEASING


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_by_itself_is_not_going(phase: str) -> None:
    """Its room is free."""
    seen = running()
    seen.evicting(P, 10.0)
    seen.apply(manifests.event_of(manifests.pod("p", group="g", node="n1", phase=phase)))
    assert releasing(seen) == 0
    assert not seen.forget_eviction(P)


def test_an_eviction_counts_as_a_release_for_five_minutes_after_the_grace_period() -> None:
    """The grace period isn't known before the watch shows it; then the snapshot says when the pod
    is overdue, and counts it as one that stays from then on, until it is gone.
    """
    seen = running()
    assert seen.snapshot(10.0).next_overdue is None
    assert seen.evicting(P, 10.0)
    assert seen.snapshot(10.0).next_overdue == 310.0
    ends = dt.datetime.fromisoformat(GOING["deletionTimestamp"]).timestamp()
    seen.apply(manifests.event_of(manifests.pod("p", group="g", node="n1", metadata=GOING)))
    overdue = ends + node_usage.OVERDUE_SECONDS
    for now, free, due in (
        (ends, 1000, overdue),
        (overdue - 1, 1000, overdue),
        (overdue, 0, None),
        (overdue - 1, 1000, overdue),
    ):
        found = seen.snapshot(now)
        assert found.next_overdue == due
        assert int(found.nodes.releasing[0, found.space.columns["cpu"]]) == free
        assert int(found.nodes.used[0, found.space.columns["cpu"]]) == 1000
    seen.snapshot(overdue)
    seen.apply(manifests.removal_of(manifests.pod("p", group="g", node="n1", metadata=GOING)))
    found = seen.snapshot(overdue)
    assert not found.nodes.used.any()
