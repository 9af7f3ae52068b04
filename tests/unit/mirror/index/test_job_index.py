"""Pods that succeeded count towards minMember after they are deleted."""

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.state import Mirror
from vscheduler.model.jobs import TaskStatus

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def world(status: Document | None = None, *phases: str) -> Mirror:
    """A PodGroup of four that runs, with a pod a, b, … for each phase."""
    group = manifests.group("g", {"minMember": 4}, status={"phase": "Running"} | (status or {}))
    pods = [
        manifests.pod(name, group="g", node="n1", phase=phase)
        for name, phase in zip("abcd", phases, strict=False)
    ]
    seen = manifests.mirror(group, *pods)
    seen.snapshot(0.0)
    return seen


def change(seen: Mirror, name: str, phase: str, **metadata: str) -> None:
    """Show the pod in this phase."""
    pod = manifests.pod(name, group="g", node="n1", phase=phase, metadata=metadata)
    seen.apply(manifests.event_of(pod))


def remove(seen: Mirror, name: str, *, uid: str = "") -> None:
    """Delete the pod."""
    seen.apply(manifests.removal_of(manifests.pod(name, group="g", uid=uid or name)))


def succeeded(seen: Mirror) -> tuple[int, int]:
    """How many pods have succeeded, and how many of these are deleted."""
    job = manifests.job_of(seen, "g")
    return job.counts[TaskStatus.SUCCEEDED], job.succeeded_gone


def test_each_pod_that_succeeds_and_is_deleted_counts() -> None:
    """One after the other, and those before this process started, by the status."""
    seen = world({"succeeded": 1}, "Running", "Running", "Running")
    assert succeeded(seen) == (1, 1)
    for name, total in (("a", 2), ("b", 3)):
        change(seen, name, "Succeeded")
        assert succeeded(seen) == (total, total - 1)
        remove(seen, name)
        assert succeeded(seen) == (total, total)
    assert manifests.job_of(seen, "g").ready_tasks == 4


def test_the_status_counts_pods_that_are_still_there() -> None:
    """They aren't counted twice."""
    seen = world({"succeeded": 1}, "Succeeded", "Running")
    assert succeeded(seen) == (1, 0)


def test_pods_that_run_or_fail_until_they_are_deleted_are_lost() -> None:
    """Others replace them; also one that ends well because it is deleted."""
    seen = world({}, "Running", "Failed", "Running", "Running")
    change(seen, "c", "Running", **DELETED)
    change(seen, "c", "Succeeded", **DELETED)
    for name in "abc":
        remove(seen, name)
    assert succeeded(seen) == (0, 0)


def test_one_that_is_deleted_slowly_after_it_succeeded_counts() -> None:
    """A finalizer of its Job keeps it for a moment."""
    seen = world({}, "Running", "Running")
    change(seen, "a", "Succeeded")
    change(seen, "a", "Succeeded", **DELETED)
    remove(seen, "a")
    assert succeeded(seen) == (1, 1)


def test_a_group_without_pods_is_free_for_another_gang() -> None:
    """Whether its status shows that yet or not, and whether anybody has looked meanwhile."""
    for looks in (True, False):
        seen = world({"succeeded": 3}, "Succeeded")
        assert succeeded(seen) == (3, 2)
        remove(seen, "a")
        if looks:
            seen.snapshot(0.0)
        change(seen, "b", "Running")
        assert succeeded(seen) == (0, 0)


def test_a_completed_group_has_a_new_gang() -> None:
    """The pods that its status counts are those of the last one."""
    assert succeeded(world({"phase": "Completed", "succeeded": 4}, "Running")) == (0, 0)


def test_a_group_made_anew_knows_nothing_of_the_old_one() -> None:
    """Neither of what it counted, nor of its pods that are deleted only now."""
    seen = world({}, "Succeeded", "Succeeded", "Running")
    remove(seen, "a")
    assert succeeded(seen) == (2, 1)
    fresh = manifests.group("g", {"minMember": 4}, uid="fresh")
    fresh["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    seen.apply(manifests.event_of(fresh))
    assert succeeded(seen) == (1, 0)
    remove(seen, "b")
    assert succeeded(seen) == (0, 0)
