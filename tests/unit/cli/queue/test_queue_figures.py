import pytest

from tests.unit.cli import queue_objects
from vscheduler.cli.queue import queue_figures
from vscheduler.cli.queue.queue_figures import Counts, Figures, Sentence

GROUPS = [
    queue_figures.group(each)
    for each in (
        queue_objects.a_group("a", "gold", "Pending", why="late", created="2026-01-01T00:02:00Z"),
        queue_objects.a_group("b", "gold", "Inqueue", why="early"),
        queue_objects.a_group("c", "gold", "Running"),
        queue_objects.a_group("d", "", "", why="no queue means default, no phase Pending"),
    )
]
GROUP_COUNTS = queue_figures.count_groups(GROUPS)


def test_a_queue_with_everything() -> None:
    """Each field comes from where the CRD has it."""
    found = queue_figures.figures(
        queue_objects.a_queue(
            "gold",
            status=queue_objects.FIGURES,
            weight=3,
            priority=7,
            parent="metals",
            capability={"cpu": 40},
            guarantee={"resource": {"cpu": 4}},
            deserved={"cpu": 8},
        ),
        GROUP_COUNTS,
    )
    assert found == Figures(
        name="gold",
        state="Open",
        weight=3,
        priority=7,
        parent="metals",
        created=queue_objects.NOW - 300,
        allocated={"cpu": "24", "memory": "96Gi"},
        deserved={"cpu": "25", "memory": "100Gi"},
        request={"cpu": "32", "memory": "128Gi"},
        real_capability={"cpu": "75"},
        capability={"cpu": 40},  # type: ignore[dict-item]  # as people write it
        guarantee={"cpu": 4},  # type: ignore[dict-item]  # the same
        quota={"cpu": 8},  # type: ignore[dict-item]  # the same
        share=0.96,
        sentences=(Sentence(scheduler="vscheduler", text=queue_objects.WHY, reason="Weight"),),
        counts=Counts(pending=1, inqueue=1, running=1),
    )


def test_a_queue_of_which_nobody_has_written_anything() -> None:
    """No spec and no status: open, weight 1, nothing known."""
    found = queue_figures.figures({"metadata": {"name": "bare"}}, None)
    assert (found.state, found.weight, found.share, found.counts) == ("Open", 1, None, None)
    assert (found.allocated, found.deserved, found.sentences, found.created) == ({}, {}, (), 0.0)


def test_counts_of_a_controller_are_taken_before_our_own() -> None:
    """One that it has left out is 0."""
    queue = queue_objects.a_queue("gold", status={"running": 5})
    expected = Counts(pending=0, inqueue=0, running=5)
    assert queue_figures.figures(queue, GROUP_COUNTS).counts == expected


def test_only_conditions_of_fair_shares_are_told_by_scheduler() -> None:
    """Each scheduler has one; they come in the order of their names."""
    conditions = [
        {"type": "volcano/FairShare", "status": "True", "message": "b"},
        {"type": "Ready", "status": "True", "message": "c"},
        {"type": "batch/FairShare", "status": "True", "message": "a"},
    ]
    queue = queue_objects.a_queue("gold", status={"conditions": conditions})
    queue["metadata"]["managedFields"] = [
        {"manager": "batch", "subresource": "status", "time": "2026-01-01T12:00:00Z"},
        {"manager": "volcano", "time": "2026-01-01T13:00:00Z"},
    ]
    noon = queue_figures.instant("2026-01-01T12:00:00Z")
    assert queue_figures.figures(queue, None).sentences == (
        Sentence(scheduler="batch", text="a", written=noon),
        Sentence(scheduler="volcano", text="b"),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gold", ["team/b", "team/a"]), ("default", ["team/d"]), ("silver", [])],
)
def test_who_waits_is_told_by_age(name: str, expected: list[str]) -> None:
    """The oldest first; a condition that is False doesn't count."""
    assert [each.key for each in queue_figures.waiting(name, GROUPS)] == expected


@pytest.mark.parametrize(
    ("phase", "waits"),
    [("Pending", 1), ("Inqueue", 1), ("Running", 1), ("Unknown", 1), ("Completed", 0)],
)
def test_a_group_that_has_completed_doesnt_wait(phase: str, waits: int) -> None:
    """Whatever its conditions say: schedulers may leave them behind."""
    conditions = [{"type": "Unschedulable", "status": "True", "message": "1 of 2 pods exist"}]
    status = {"phase": phase, "conditions": conditions}
    found = queue_figures.group(
        {"metadata": {"name": "a", "namespace": "team"}, "spec": {"queue": "q"}, "status": status}
    )
    assert len(queue_figures.waiting("q", [found])) == waits


def test_a_phase_that_nobody_has_written_is_pending() -> None:
    """The PodGroup is new, or its scheduler is down."""
    assert GROUP_COUNTS["default", "Pending"] == 1


@pytest.mark.parametrize(
    ("resource", "amounts", "expected"),
    [
        ("cpu", {}, "-"),
        ("cpu", {"memory": "1Gi"}, "0"),
        ("cpu", {"cpu": "24"}, "24"),
        ("cpu", {"cpu": 24}, "24"),
        ("cpu", {"cpu": "33333333u"}, "33.33"),
        ("cpu", {"cpu": "1500m"}, "1.5"),
        ("cpu", {"cpu": "50m"}, "0.05"),
        ("cpu", {"cpu": "100"}, "100"),
        ("memory", {"memory": "107374182400"}, "100Gi"),
        ("memory", {"memory": "1536Mi"}, "1536Mi"),
        ("nvidia.com/gpu", {"nvidia.com/gpu": "8"}, "8"),
        ("cpu", {"cpu": "many"}, "many"),
    ],
)
def test_amounts_are_short(resource: str, amounts: dict[str, str], expected: str) -> None:
    """What is no quantity is shown as it stands there."""
    assert queue_figures.amount(resource, amounts) == expected


def test_a_limit_that_is_not_named_is_none() -> None:
    """0 would be another one."""
    assert queue_figures.limit("cpu", {"memory": "1Gi"}) == "-"
    assert queue_figures.limit("cpu", {"cpu": "0", "memory": "1Gi"}) == "0"


def test_resources_that_matter_get_a_column() -> None:
    """First and always cpu and memory, no pod slots, nothing of which nobody has or wants any."""
    status = {"allocated": {"b/gpu": "1", "a/gpu": "0", "pods": "5"}, "request": {"c/gpu": "2"}}
    found = queue_figures.figures(queue_objects.a_queue("gold", status=status), None)
    assert queue_figures.named([found]) == ["cpu", "memory", "b/gpu", "c/gpu"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (187, "3m7s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (18720, "5h12m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (190800, "2d5h"),
        (691200, "8d"),
        (63071999, "729d"),
        (63072000, "2y"),
        (64800000, "2y20d"),
        (252288000, "8y"),
    ],
)
def test_ages_are_those_of_kubectl(seconds: float, expected: str) -> None:
    """The bounds of duration.HumanDuration in apimachinery."""
    assert queue_figures.age(seconds) == expected


def test_objects_are_shown_without_who_wrote_which_field() -> None:
    """And are left as they are otherwise."""
    queue = queue_objects.a_queue("gold", status=queue_objects.FIGURES)
    shown = queue_figures.without_bookkeeping(queue)
    assert shown.keys() == queue.keys()
    assert shown["metadata"] == {"name": "gold", "creationTimestamp": queue_objects.CREATED}
    assert "managedFields" in queue["metadata"]
