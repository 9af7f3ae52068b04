"""Pods that wait and can't be used: their job knows of them."""

import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.decode import fields
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.translate import pods
from vscheduler.model.jobs import InvalidPod, TaskId

CLAIMS = {"resourceClaims": [{"name": "gpu"}]}
PRIORITY = {"annotations": {pods.GROUPS[0]: "g", fields.PRIORITY: "high"}}


def rejections(*documents: Document) -> tuple[InvalidPod, ...]:
    """Those of the only job."""
    seen = Mirror(Options(scheduler_names=(manifests.OURS,)))
    for document in (manifests.group("g"), *documents):
        seen.apply(manifests.event_of(document))
    (job,) = seen.snapshot(0.0).jobs
    return job.rejections


def test_a_pod_that_cant_be_used_is_known_to_its_job() -> None:
    """Its field and what is wrong there; by name, whatever the UIDs."""
    last = manifests.pod("b", group="g", spec=CLAIMS, uid="1")
    first = manifests.pod("a", uid="2", metadata=PRIORITY)
    place = "metadata.annotations[volcano.sh/task-priority]"
    assert rejections(last, manifests.pod("fine", group="g"), first) == (
        InvalidPod(
            uid=TaskId("2"),
            namespace="ns",
            name="a",
            field=place,
            message="'high' is not an integer",
        ),
        InvalidPod(
            uid=TaskId("1"),
            namespace="ns",
            name="b",
            field="spec.resourceClaims[0]",
            message="names neither a claim nor a template; nothing else is supported",
        ),
    )


GATES = {"schedulingGates": [{"name": "example.com/wait"}]}
BROKEN = {"overhead": {"cpu": "x"}}
OTHERS = {
    "with gates": (manifests.pod("p", group="g", spec=CLAIMS | GATES), [True]),
    "without": (manifests.pod("p", group="g", spec=CLAIMS), [False]),
    "on a node": (manifests.pod("p", group="g", spec=BROKEN, node="n1"), []),
    "done": (manifests.pod("p", group="g", spec=BROKEN, phase="Failed"), []),
    "being deleted": (
        manifests.pod(
            "p",
            spec=CLAIMS,
            metadata={
                "annotations": {pods.GROUPS[0]: "g"},
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
        ),
        [],
    ),
    "another scheduler's": (manifests.pod("p", group="g", spec=BROKEN, scheduler="other"), []),
    "of another group": (manifests.pod("p", group="h", spec=CLAIMS), []),
}


@pytest.mark.parametrize(("pod", "gated"), OTHERS.values(), ids=OTHERS)
def test_only_pods_that_wait_for_us_are_rejected(pod: Document, gated: list[bool]) -> None:
    """Nobody needs to be told of one that has its node, or waits for others."""
    found = rejections(manifests.pod("fine", group="g"), pod)
    assert [each.gated for each in found] == gated


def test_a_pod_that_was_put_right_or_has_gone_is_rejected_no_more() -> None:
    """Its job is another from then on."""
    seen = Mirror(Options(scheduler_names=(manifests.OURS,)))
    bad = manifests.pod("p", metadata=PRIORITY)
    for document in (manifests.group("g"), manifests.pod("fine", group="g"), bad):
        seen.apply(manifests.event_of(document))
    (before,) = seen.snapshot(0.0).jobs
    seen.apply(manifests.event_of(manifests.pod("p", group="g")))
    (after,) = seen.snapshot(0.0).jobs
    assert [len(job.rejections) for job in (before, after)] == [1, 0]
    assert [len(job.tasks) for job in (before, after)] == [1, 2]
    seen.apply(manifests.event_of(bad))
    seen.apply(manifests.removal_of(bad))
    (gone,) = seen.snapshot(0.0).jobs
    assert not gone.rejections
