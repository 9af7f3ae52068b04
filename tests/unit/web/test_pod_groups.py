"""PodGroups of the page."""

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror import wording
from vscheduler.mirror.translate import translation
from vscheduler.web import pod_groups


def test_groups_without_pods_are_found_unless_they_name_another_scheduler() -> None:
    """Nobody else's, and none with a pod of any scheduler."""
    seen = manifests.mirror(
        manifests.group("alone"),
        manifests.group("ours", annotations={translation.SCHEDULER: "vscheduler"}),
        manifests.group("theirs", annotations={translation.SCHEDULER: "other"}),
        manifests.group("held"),
        manifests.pod("p", group="held", scheduler="other"),
        scheduler_names=("vscheduler",),
    )
    assert sorted(job.name for job in pod_groups.without_pods(seen, ("vscheduler",))) == [
        "alone",
        "ours",
    ]


@pytest.mark.parametrize(
    ("annotations", "phase", "unclaimed"),
    [
        ({}, "Pending", True),
        ({translation.SCHEDULER: "vscheduler"}, "Pending", False),
        ({}, "Running", False),
    ],
)
def test_a_group_that_nobody_takes_is_told_so(
    annotations: dict[str, str], phase: str, unclaimed: bool
) -> None:
    """It has no pods yet, and names no scheduler."""
    seen = manifests.mirror(manifests.group("a", annotations=annotations, status={"phase": phase}))
    (job,) = pod_groups.without_pods(seen, ("vscheduler",))
    reason = pod_groups.reason_without_pods(job)
    assert reason is not None
    assert ("no scheduler takes its PodGroup" in wording.sentence(reason)) is unclaimed
