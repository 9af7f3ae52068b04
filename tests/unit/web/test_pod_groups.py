"""PodGroups of the page."""

from tests.unit.mirror import manifests
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
