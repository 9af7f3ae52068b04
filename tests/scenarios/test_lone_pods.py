"""Pods that need no PodGroup are jobs by themselves, beside gangs."""

from typing import Any

import pytest

from tests.scenarios import alone
from tests.scenarios.alone import (
    NOW,
    QUEUE,
    a_node,
    a_queue,
    binds,
    jobs_of,
    show,
    used,
    words,
)
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.translate.lone_pods import Need
from vscheduler.model.jobs import TaskId

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
GROUP_NAME = "scheduling.k8s.io/group-name"
KINDS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}


def a_mirror(*documents: dict[str, Any], **options: Any) -> Mirror:
    """What a daemon knows that makes PodGroups for gangs only."""
    names = ("vscheduler", "volcano")
    options = {"scheduler_names": names, "spares_groups": True, **options}
    mirror = Mirror(Options(**options))
    show(mirror, a_node("n1"), a_queue("default"), a_queue("lab"), *documents)
    return mirror


def a_pod(name: str, owner: str = "", on: str = "", **annotations: str) -> dict[str, Any]:
    """A pod with two cpus; an owner is `Kind/name`, and its UID is that as well."""
    pod = alone.a_pod(name, on=on, **annotations)
    if owner:
        kind, _, named = owner.partition("/")
        version = KINDS.get(kind, "apps/v1" if kind == "DaemonSet" else "v1")
        reference = {"apiVersion": version, "kind": kind, "name": named, "uid": owner}
        pod["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return pod


def own(mirror: Mirror, owner: str, **annotations: str) -> None:
    """An owner that came or changed."""
    kind, _, name = owner.partition("/")
    metadata = {"name": name, "namespace": "default", "uid": owner, "annotations": annotations}
    mirror.apply(events.convert(Kind(kind), {"metadata": metadata}))


def disown(mirror: Mirror, owner: str) -> None:
    """An owner that went."""
    kind, _, name = owner.partition("/")
    mirror.apply(Remove(kind=Kind(kind), namespace="default", name=name, uid=owner))


def needs(mirror: Mirror) -> dict[str, str]:
    """What pods without a PodGroup wait for."""
    return {pod.key.partition("/")[2]: mirror.need(pod).value for pod in mirror.ungrouped()}


def test_a_bare_pod_starts_alone() -> None:
    """In the queue that it names, with the phase that its PodGroup would have."""
    mirror = a_mirror(a_pod("runs", on="n1", **{QUEUE: "lab"}), a_pod("waits"))
    assert jobs_of(mirror) == [
        ("default/runs@pod", "lab", "Running"),
        ("default/waits@pod", "default", "Pending"),
    ]
    assert binds(mirror) == ["waits"]
    assert used(mirror) == {"lab": 2000}
    assert needs(mirror) == {}


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (MIN_MEMBER, "2"),
        (MIN_MEMBER, "parallelism"),
        (MIN_MEMBER, "eight"),
        ("scheduling.volcano.sh/group-min-resources", '{"cpu": "1"}'),
        ("volcano.sh/network-topology-mode", "hard"),
        ("volcano.sh/network-topology-highest-tier", "2"),
        ("vscheduler.io/network-topology", "fabric"),
        ("volcano.sh/jdb-min-available", "1"),
        ("volcano.sh/jdb-max-unavailable", "1"),
        ("volcano.sh/task-spec", "worker"),
        (QUEUE, "No_Queue"),
    ],
)
def test_who_says_more_than_a_pod_can_have_needs_a_podgroup(annotation: str, text: str) -> None:
    """The pod itself, or its owner."""
    mirror = a_mirror(
        a_pod("bare", **{annotation: text}),
        a_pod("owned", "ReplicaSet/web"),
        a_pod("said", "ReplicaSet/other", **{annotation: text}),
    )
    own(mirror, "ReplicaSet/web", **{annotation: text})
    own(mirror, "ReplicaSet/other")
    assert needs(mirror) == dict.fromkeys(("bare", "owned", "said"), "PodGroup")
    assert binds(mirror) == []


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (MIN_MEMBER, "1"),
        (MIN_MEMBER, "0"),
        (QUEUE, "lab"),
        ("volcano.sh/preemptable", "false"),
        ("volcano.sh/sla-waiting-time", "1h"),
        ("example.com/anything", "x"),
    ],
)
def test_what_a_pod_can_have_needs_no_podgroup(annotation: str, text: str) -> None:
    """It counts for the pod that is a job, also if its owner says so."""
    mirror = a_mirror(a_pod("bare", **{annotation: text}), a_pod("owned", "Job/train"))
    own(mirror, "Job/train", **{annotation: text})
    assert binds(mirror) == ["bare", "owned"]
    of_groups = annotation.startswith("volcano.sh/")
    for job in mirror.snapshot(NOW).jobs:
        assert job.annotations.get(annotation) == (text if of_groups else None)
        assert job.queue == (text if annotation == QUEUE else "default")


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_waits_for_its_owner(kind: str) -> None:
    """It may have a minimum. The pod comes before it, or after it."""
    mirror = a_mirror(a_pod("a", f"{kind}/first"))
    assert needs(mirror) == {"a": "owner"}
    assert binds(mirror) == []
    own(mirror, f"{kind}/first")
    assert binds(mirror) == ["a"]
    own(mirror, f"{kind}/second", **{MIN_MEMBER: "2"})
    show(mirror, a_pod("b", f"{kind}/second"))
    assert needs(mirror) == {"b": "PodGroup"}
    assert binds(mirror) == ["a"]


def test_an_owner_that_changes_moves_its_pods() -> None:
    """To a PodGroup that is still to be made, back, and to another queue."""
    mirror = a_mirror(a_pod("w", "Job/train"), a_pod("r", "Job/train", on="n1"))
    own(mirror, "Job/train", **{QUEUE: "lab"})
    assert binds(mirror) == ["w"]
    assert used(mirror) == {"lab": 2000}
    own(mirror, "Job/train", **{MIN_MEMBER: "2"})
    assert needs(mirror) == {"w": "PodGroup", "r": "PodGroup"}
    assert used(mirror) == {}
    assert binds(mirror) == []
    own(mirror, "Job/train")
    assert binds(mirror) == ["w"]
    assert used(mirror) == {"default": 2000}
    assert {job for job, _, _ in jobs_of(mirror)} == {"default/w@pod", "default/r@pod"}


def test_a_pod_that_runs_stays_a_job_without_its_owner() -> None:
    """While Kubernetes deletes it; one that waits doesn't start."""
    mirror = a_mirror(a_pod("r", "ReplicaSet/web", on="n1"), a_pod("w", "ReplicaSet/web"))
    own(mirror, "ReplicaSet/web")
    disown(mirror, "ReplicaSet/web")
    assert used(mirror) == {"default": 2000}
    assert needs(mirror) == {"w": "owner"}


def test_a_bind_in_flight_stays_while_its_owner_goes() -> None:
    """The pod has its place until the watch shows more."""
    mirror = a_mirror(a_pod("w", "ReplicaSet/web"))
    own(mirror, "ReplicaSet/web")
    assert mirror.assume(TaskId("w"), "n1", NOW)
    disown(mirror, "ReplicaSet/web")
    assert used(mirror) == {"default": 2000}
    assert mirror.forget(TaskId("w"))
    assert used(mirror) == {}
    assert needs(mirror) == {"w": "owner"}


def test_a_list_of_owners_replaces_what_was_known() -> None:
    """An owner that isn't listed is gone."""
    mirror = a_mirror(a_pod("a", "Job/a"), a_pod("b", "Job/b"))
    own(mirror, "Job/a")
    metadata = {"name": "b", "namespace": "default", "uid": "Job/b"}
    event = events.convert(Kind.JOB, {"metadata": metadata})
    assert isinstance(event, events.Upsert)
    mirror.apply(alone.listed(mirror, event))
    assert needs(mirror) == {"a": "owner"}
    assert binds(mirror) == ["b"]


def test_owners_of_other_kinds_are_as_with_volcano() -> None:
    """Operators look for the PodGroups of their pods. Some of Kubernetes' own kinds say nothing."""
    mirror = a_mirror(
        a_pod("daemon", "DaemonSet/a"), a_pod("old", "ReplicationController/b"), a_pod("x", "My/c")
    )
    assert needs(mirror) == {"x": "PodGroup"}
    assert binds(mirror) == ["daemon", "old"]


def test_a_scheduler_called_volcano_has_podgroups_for_all_pods() -> None:
    """As Volcano's controllers make them."""
    pod = a_pod("theirs")
    pod["spec"]["schedulerName"] = "volcano"
    mirror = a_mirror(pod, a_pod("ours"))
    assert needs(mirror) == {"theirs": "PodGroup"}
    assert binds(mirror) == ["ours"]


def test_without_annotations_of_owners_nobody_waits_for_them() -> None:
    """--inherit-owner-annotations=false."""
    mirror = a_mirror(a_pod("a", "Job/train"), inherits=False)
    own(mirror, "Job/train", **{MIN_MEMBER: "2"})
    assert binds(mirror) == ["a"]


def test_pods_have_podgroups_while_their_owners_cannot_be_read() -> None:
    """Those that run alone, too. Bare pods need none."""
    mirror = a_mirror(a_pod("a", "Job/train"), a_pod("r", "Job/train", on="n1"), a_pod("bare"))
    own(mirror, "Job/train")
    mirror.serve_owners(served=False)
    assert needs(mirror) == {"a": "PodGroup", "r": "PodGroup"}
    assert binds(mirror) == ["bare"]
    mirror.serve_owners(served=True)
    assert needs(mirror) == {}
    assert used(mirror) == {"default": 2000}


def test_a_pod_has_a_podgroup_if_its_condition_asks_for_one() -> None:
    """The scheduler says so where it knows less than the controllers, or has other flags."""
    pod = a_pod("w", "Job/train")
    said = {"type": "PodScheduled", "status": "False", "reason": "PodGroupNeeded"}
    pod["status"]["conditions"] = [said]
    mirror = a_mirror(pod)
    own(mirror, "Job/train")
    assert needs(mirror) == {"w": "PodGroup"}


def test_what_pods_wait_for_is_said() -> None:
    """The annotation that needs a PodGroup, the owner that isn't known, or which rule it is."""
    pods = (
        a_pod("a", **{MIN_MEMBER: "2"}),
        a_pod("b", "Job/b"),
        a_pod("c", "Job/c"),
        a_pod("d", "My/d"),
    )
    mirror = a_mirror(*pods)
    own(mirror, "Job/b", **{MIN_MEMBER: "2"})

    def told() -> dict[str, str]:
        return {pod.key.partition("/")[2]: mirror.why_ungrouped(pod) for pod in mirror.ungrouped()}

    assert told() == {
        "a": f"it has annotation {MIN_MEMBER}",
        "b": f"Job b has annotation {MIN_MEMBER}",
        "c": "its Job c isn't known yet",
        "d": "all such pods have one",
    }
    mirror.serve_owners(served=False)
    assert told()["c"] == "the scheduler can't read Job c, or makes PodGroups for all pods"


def test_a_pod_of_kubernetes_own_podgroup_waits_for_no_other() -> None:
    """While that one is missing, the pod isn't told that the controllers make one."""
    pod = a_pod("member")
    pod["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    for spares_groups in (True, False):
        mirror = a_mirror(pod, spares_groups=spares_groups)
        (waiting,) = mirror.ungrouped()
        assert mirror.why_ungrouped(waiting) == ""


def test_a_pod_stays_in_the_podgroup_that_it_names() -> None:
    """So nothing changes for what runs when an installation is upgraded."""
    group = alone.an_automatic_group("default/web-0123456789")
    mirror = a_mirror(group, a_pod("old", **{GROUP_NAME: "web-0123456789"}), a_pod("new"))
    assert {job for job, _, _ in jobs_of(mirror)} == {"default/web-0123456789", "default/new@pod"}


def test_all_pods_need_a_podgroup_if_a_flag_says_so() -> None:
    """--podgroups=all."""
    mirror = a_mirror(a_pod("bare"), a_pod("a", "Job/train"), spares_groups=False)
    assert needs(mirror) == {"bare": "PodGroup", "a": "PodGroup"}
    assert all(mirror.need(pod) is Need.POD_GROUP for pod in mirror.ungrouped())


def test_a_namespace_that_requires_a_queue_says_where_to_name_one() -> None:
    """On the pod, or on its owner."""
    head = {"apiVersion": "v1", "kind": "Namespace"}
    requires = {"name": "default", "annotations": {"vscheduler.io/require-queue": "true"}}
    mirror = a_mirror(a_pod("bare"), a_pod("a", "Job/train"), {**head, "metadata": requires})
    own(mirror, "Job/train")
    told = words(mirror)
    assert told["bare"].endswith(f"name a queue in annotation {QUEUE} of the pod")
    assert told["a"].endswith(f"annotation {QUEUE} of Job train or of its pods")
    own(mirror, "Job/train", **{QUEUE: "lab"})
    assert binds(mirror) == ["a"]


def test_what_is_known_of_owners_is_the_same_in_any_order() -> None:
    """Pods first, owners first."""
    pods = a_pod("a", "Job/a"), a_pod("b", "Job/b", on="n1"), a_pod("c", "Job/c")
    said: dict[str, dict[str, str]] = {
        "Job/a": {QUEUE: "lab"},
        "Job/b": {},
        "Job/c": {MIN_MEMBER: "2"},
    }
    early = a_mirror(*pods)
    late = a_mirror()
    for mirror in (early, late):
        for owner, annotations in said.items():
            own(mirror, owner, **annotations)
    show(late, *reversed(pods))
    for seen in (jobs_of, used, binds, needs):
        assert seen(early) == seen(late)
