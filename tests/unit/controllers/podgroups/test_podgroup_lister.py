"""What pods bear out of a PodGroup's status."""

from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.controllers.podgroups.owners import Owners
from vscheduler.controllers.podgroups.podgroup_lister import PodGroupLister, StatusEvidence
from vscheduler.controllers.queues import queue_objects
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror, Options

GROUP = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
WAITS = manifests.pod("a", metadata=GROUP)
RUNS = manifests.pod("a", node="n1", metadata=GROUP)
STRANGERS = manifests.pod("a", node="n1", scheduler="other", metadata=GROUP)
DONE = {**RUNS, "status": {"phase": "Succeeded"}}
ELSEWHERE = manifests.pod(
    "a", node="n1", metadata={"annotations": {next(iter(GROUP["annotations"])): "h"}}
)


@pytest.mark.parametrize(
    ("phase", "pods", "counts_as"),
    [
        ("Running", [], "pending"),
        ("Running", [WAITS], "pending"),
        ("Running", [ELSEWHERE], "pending"),
        ("Running", [RUNS], "running"),
        ("Running", [STRANGERS], "running"),
        ("Running", [DONE], "running"),
        ("Unknown", [], "pending"),
        ("Unknown", [RUNS], "unknown"),
        ("Whatever", [], "pending"),
        ("Completed", [], "completed"),
        ("Completed", [DONE], "completed"),
        ("Completed", [RUNS], "running"),
        ("Inqueue", [], "inqueue"),
        ("Pending", [RUNS], "pending"),
        ("", [], "pending"),
    ],
)
def test_a_group_counts_where_its_pods_say(
    phase: str, pods: list[dict[str, Any]], counts_as: str
) -> None:
    """Whoever wrote the status, and whatever numbers stand in it."""
    mirror = Mirror(Options(scheduler_names=("vscheduler",)))
    for pod in pods:
        mirror.apply(events.convert(Kind.POD, pod))
    group = queue_objects.group(
        {
            "metadata": {"name": "g", "namespace": "ns", "uid": "u"},
            "spec": {"queue": "q"},
            "status": {"phase": phase, "running": 1000, "succeeded": 1000},
        }
    )
    assert StatusEvidence(mirror).counter(group) == counts_as


def test_podgroups_are_made_for_the_schedulers_that_are_served() -> None:
    """Pods of others are known because they count in Queues; others make their PodGroups."""
    mirror = Mirror(Options(scheduler_names=("ours", "other")))
    for name in ("ours", "other"):
        mirror.apply(events.convert(Kind.POD, manifests.pod(name, scheduler=name)))
    lister = PodGroupLister(mirror, Owners(), ["ours"])
    ((key, pod),) = lister.ungrouped()
    assert pod.key == "ns/ours"
    assert lister.owned_pods(key, [pod]) is not None
    assert PodGroupLister(mirror, Owners(), []).owned_pods(key) is None
