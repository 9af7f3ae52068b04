from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.index.entries import Change
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate.pods import Pod
from vscheduler.model.jobs import TaskId, TaskStatus

Document = manifests.Document
P = TaskId("p")

CLUSTER = (
    manifests.node("n1"),
    manifests.node("n2"),
    manifests.queue("q"),
    manifests.group("g", {"queue": "q"}),
)


def apply(seen: Mirror, document: Document) -> Change:
    """Show a manifest to the Mirror; what it changed."""
    return seen.apply(manifests.event_of(document))


def pending(**options: Any) -> Mirror:
    """A mirror with a pod p that waits in group g."""
    return manifests.mirror(*CLUSTER, manifests.pod("p", group="g"), **options)


def test_an_assumed_bind_counts_until_it_is_confirmed() -> None:
    """Binding on the node, then what the watch shows."""
    seen = pending()
    assert seen.assume(P, "n1", now=1.0)
    assert (manifests.used(seen, "n1"), seen.assumed) == (1000, 1)
    assert manifests.statuses(manifests.job_of(seen, "g")) == {"p": "Binding"}
    assert manifests.job_of(seen, "g").allocated == {"cpu": 1000, "pods": 1}
    assert not apply(seen, manifests.pod("p", group="g", version=2))
    assert manifests.statuses(manifests.job_of(seen, "g")) == {"p": "Binding"}
    shown = apply(seen, manifests.pod("p", group="g", node="n1", phase="Pending"))
    assert shown is Change.STEP
    assert manifests.statuses(manifests.job_of(seen, "g")) == {"p": "Bound"}
    assert (manifests.used(seen, "n1"), seen.assumed) == (1000, 0)
    assert not seen.forget(P)
    assert seen.expire(now=1000.0) == []
    assert not seen.assume(P, "n2", now=2.0)


@pytest.mark.parametrize(
    ("after", "used"),
    [
        (manifests.pod("p", group="g", node="n2"), (0, 1000)),
        (manifests.pod("p", group="g", phase="Failed"), (0, 0)),
        (manifests.pod("p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), (0, 0)),
        (manifests.pod("p", spec={"resourceClaims": [{}]}), (0, 0)),
        (manifests.pod("p") | {"spec": 1}, (0, 0)),
        (None, (0, 0)),
    ],
)
def test_what_the_watch_shows_ends_an_assumption(
    after: Document | None, used: tuple[int, int]
) -> None:
    """Another node, the pod's end, or that it can't be bound any more."""
    seen = pending()
    seen.assume(P, "n1", now=1.0)
    if after is None:
        seen.apply(manifests.removal_of(manifests.pod("p")))
    else:
        apply(seen, after)
    assert (manifests.used(seen, "n1"), manifests.used(seen, "n2")) == used
    assert seen.assumed == 0


def test_a_bind_that_failed_is_forgotten() -> None:
    """The pod waits again, as if nothing had been sent."""
    seen = pending()
    before = manifests.canonical(seen.snapshot(0.0))
    seen.assume(P, "n1", now=1.0)
    assert seen.forget(P)
    assert manifests.canonical(seen.snapshot(0.0)) == before
    assert not seen.assume(TaskId("nobody"), "n1", now=1.0)


def test_a_bind_that_is_never_seen_expires() -> None:
    """After the configured time, and not before."""
    seen = pending(assume_seconds=10.0)
    apply(seen, manifests.pod("a", group="g"))
    seen.assume(P, "n1", now=1.0)
    seen.assume(TaskId("a"), "n1", now=5.0)
    assert seen.expire(now=11.0) == []
    assert seen.expire(now=11.1) == ["p"]
    assert manifests.statuses(manifests.job_of(seen, "g")) == {"a": "Binding", "p": "Pending"}
    assert seen.expire(now=99.0) == ["a"]
    assert manifests.used(seen, "n1") == 0


def test_a_bind_still_fits_whose_extended_resource_comes_by_a_claim() -> None:
    """The node has none of the resource, which stands for a DeviceClass."""
    gpu = "example.com/gpu"
    named = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}}
    seen = manifests.mirror(*CLUSTER, manifests.pod("p", group="g", requests={gpu: "1"}))
    apply(seen, named | {"spec": {"extendedResourceName": gpu}})
    before = seen.snapshot(1.0).nodes.layout.specs[0]
    assert seen.assume(P, "n1", now=1.0)
    assert seen.still_fits(P, before)
    apply(seen, manifests.node("n1", {"cpu": "4", "pods": "10", gpu: "1"}))
    assert seen.still_fits(P, before)
    apply(seen, named | {"spec": {}})
    apply(seen, manifests.node("n1"))
    assert not seen.still_fits(P, before)


def test_a_pod_becomes_binding_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not anew for each of the looks at it before it is sent, which are three and more."""
    made: list[str] = []
    bound_to = Pod.bound_to

    def note(pod: Pod, node: str) -> Pod:
        made.append(node)
        return bound_to(pod, node)

    monkeypatch.setattr(Pod, "bound_to", note)
    seen = pending()
    assert seen.assume(P, "n1", now=1.0)
    layout = seen.snapshot(1.0).nodes.layout
    spec = layout.specs[layout.rows["n1"]]
    assert all(seen.still_fits(P, spec) for _ in range(3))
    apply(seen, manifests.pod("p", group="g", node="n1", phase="Pending"))
    assert made == ["n1"]


def test_a_pod_that_changes_while_it_is_binding_is_another_one() -> None:
    """With the labels that it has by now, on the node that it was sent to."""
    seen = pending()
    seen.assume(P, "n1", now=1.0)
    apply(seen, manifests.pod("p", group="g", version=2, metadata={"labels": {"a": "b"}}))
    (task,) = manifests.job_of(seen, "g").tasks
    assert (task.node, task.status) == ("n1", TaskStatus.BINDING)
    pod = seen._as_seen(seen._pod(P))
    assert pod is not None
    assert (pod.labels, pod.node) == ({"a": "b"}, "n1")


def test_a_pod_that_is_held_back_has_no_place_until_it_is_released() -> None:
    """It counts as gated. A bind that others have made ends the pause."""
    pod = manifests.pod("p", group="g")
    seen, task = manifests.mirror(*CLUSTER, pod), TaskId("p")

    def status() -> TaskStatus:
        return manifests.job_of(seen, "g").tasks[0].status

    assert seen.assume(task, "n1", 0.0)
    seen.hold_back(task)
    assert status() is TaskStatus.GATED
    assert seen.assumed == 0
    assert not seen.assume(task, "n1", 0.0)
    assert seen.release(task)
    assert not seen.release(task)
    assert status() is TaskStatus.PENDING
    seen.hold_back(task)
    seen.release_all()
    assert status() is TaskStatus.PENDING
    seen.hold_back(task)
    apply(seen, manifests.pod("p", group="g", node="n1", version=9))
    assert status() is not TaskStatus.GATED
    assert not seen.release(task)
    seen.hold_back(task)
    seen.hold_back(TaskId("unknown"))
    assert not seen.release(task)


def test_whoever_has_no_node_may_be_told_why_it_waits() -> None:
    """Also an unusable pod, and one that is gated or held back; not one that is seen on a node."""
    priority = {"volcano.sh/task-priority": "low"}
    seen = manifests.mirror(
        *CLUSTER,
        manifests.pod("p", group="g", version=4),
        manifests.pod("unusable", group="g", version=5, annotations=priority),
        manifests.pod("runs", group="g", node="n1", version=6),
    )
    task = TaskId("p")
    assert seen.waiting_version(task) == "4"
    assert seen.waiting_version(TaskId("unusable")) == "5"
    assert seen.waiting_version(TaskId("runs")) is None
    seen.hold_back(task)
    assert seen.waiting_version(task) == "4"
    gate = {"schedulingGates": [{"name": "example.com/gate"}]}
    apply(seen, manifests.pod("p", group="g", version=7, spec=gate))
    assert seen.waiting_version(task) == "7"
    apply(seen, manifests.pod("p", group="g", version=8, node="n1"))
    assert seen.waiting_version(task) is None
