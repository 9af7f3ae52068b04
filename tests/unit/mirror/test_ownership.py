from typing import Any

import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.translate import translation

OURS = {translation.SCHEDULER: "vscheduler"}
THEIRS = {translation.SCHEDULER: "other"}


@pytest.mark.parametrize(
    ("schedulers", "annotations", "claim", "owned"),
    [
        (["vscheduler"], {}, False, True),
        (["second"], {}, False, True),
        (["vscheduler"], THEIRS, False, True),
        (["other"], OURS, True, False),
        (["other"], {}, True, False),
        (["vscheduler", "other"], {}, False, True),
        ([], {}, False, False),
        ([], {}, True, True),
        ([], OURS, False, True),
        ([], THEIRS, True, False),
    ],
)
def test_a_group_is_ours_by_its_pods_then_by_its_annotation(
    schedulers: list[str], annotations: dict[str, str], claim: bool, owned: bool
) -> None:
    """Two schedulers never write one PodGroup's status; one without pods may be claimed."""
    pods = [
        manifests.pod(f"p{at}", group="g", scheduler=name) for at, name in enumerate(schedulers)
    ]
    seen = manifests.mirror(
        manifests.group("g", annotations=annotations),
        *pods,
        scheduler_names=("vscheduler", "second"),
        claim_unowned=claim,
    )
    found = seen.snapshot(0.0).jobs
    assert [job.id for job in found] == (["ns/g"] if owned else [])
    ours = sum(name != "other" for name in schedulers)
    assert [len(job.tasks) for job in found] == ([ours] if owned else [])


def test_ownership_follows_the_pods() -> None:
    """A group is ours from its first pod of ours to the last."""
    pod = manifests.pod("p", group="g")
    seen = manifests.mirror(manifests.group("g"))
    for event, count in (
        (manifests.event_of(pod), 1),
        (manifests.removal_of(pod), 0),
        (manifests.event_of(pod), 1),
        (manifests.removal_of(manifests.group("g")), 0),
        (manifests.event_of(manifests.group("g")), 1),
    ):
        seen.apply(event)
        assert len(seen.snapshot(0.0).jobs) == count


def left(phase: str, *pods: Document, **options: Any) -> list[str]:
    """The jobs that are ours once these pods of a group have come and gone."""
    seen = manifests.mirror(manifests.group("g", status={"phase": phase}), *pods, **options)
    for pod in pods:
        seen.apply(manifests.removal_of(pod))
    return [job.id for job in seen.snapshot(0.0).jobs]


@pytest.mark.parametrize(
    ("phase", "owned"),
    [
        ("Running", True),
        ("Unknown", True),
        ("Inqueue", False),
        ("Pending", False),
        ("Completed", False),
    ],
)
def test_a_group_whose_pods_are_all_gone_is_ours_until_it_says_so(phase: str, owned: bool) -> None:
    """Else it would be Running for ever: nobody else may write its status."""
    pods = [manifests.pod(name, group="g", node="n1") for name in ("a", "b")]
    assert left(phase, *pods) == (["ns/g"] if owned else [])
    assert left(phase) == []
    assert left(phase, manifests.pod("c", group="g", scheduler="other")) == []


def test_a_group_that_was_left_is_whoever_s_pods_come_next() -> None:
    """Or nobody's, where it is another one of the same name, or gone and made anew."""
    group = manifests.group("g", status={"phase": "Running"})
    pod = manifests.pod("a", group="g")
    for event in (
        manifests.event_of(manifests.pod("b", group="g", scheduler="other")),
        manifests.event_of({**group, "metadata": {**group["metadata"], "uid": "another"}}),
    ):
        seen = manifests.mirror(group, pod)
        seen.apply(manifests.removal_of(pod))
        assert len(seen.snapshot(0.0).jobs) == 1
        seen.apply(event)
        assert not seen.snapshot(0.0).jobs
    seen = manifests.mirror(group, pod)
    stranger = manifests.pod("b", group="g", scheduler="other")
    seen.apply(manifests.removal_of(pod))
    seen.apply(manifests.event_of(stranger))
    seen.apply(manifests.removal_of(stranger))
    assert not seen.snapshot(0.0).jobs
    seen = manifests.mirror(group, pod)
    for gone in (pod, group):
        seen.apply(manifests.removal_of(gone))
    seen.apply(manifests.event_of(group))
    assert not seen.snapshot(0.0).jobs


def test_pods_without_a_group_are_told_of_until_it_comes() -> None:
    """Those that name none, and those whose group isn't there; other schedulers' aren't ours."""
    seen = manifests.mirror(
        manifests.pod("bare"),
        manifests.pod("early", group="g"),
        manifests.pod("stranger", scheduler="other"),
        manifests.pod("early-stranger", group="g", scheduler="other"),
    )
    assert manifests.names(seen.ungrouped()) == ["ns/bare", "ns/early"]
    assert not seen.snapshot(0.0).jobs
    seen.apply(manifests.event_of(manifests.group("g")))
    assert manifests.names(seen.ungrouped()) == ["ns/bare"]
    assert manifests.statuses(manifests.job_of(seen, "g")) == {"early": "Pending"}
    seen.apply(manifests.removal_of(manifests.group("g")))
    assert manifests.names(seen.ungrouped()) == ["ns/bare", "ns/early"]
    for name in ("bare", "early"):
        seen.apply(manifests.removal_of(manifests.pod(name)))
    assert manifests.names(seen.ungrouped()) == []


def test_a_job_waits_for_its_queue_in_the_snapshot() -> None:
    """The session says that the queue is missing; a group that names none is in the default one."""
    seen = manifests.mirror(
        manifests.group("g", {"queue": "nowhere"}),
        manifests.pod("p", group="g"),
        manifests.group("h"),
        manifests.pod("q", group="h"),
        default_queue="standard",
    )
    assert [job.queue for job in seen.snapshot(0.0).jobs] == ["nowhere", "standard"]


@pytest.mark.parametrize(
    ("classes", "named", "priority"),
    [
        ([("high", 9, False)], "high", 9),
        ([("high", 9, False)], "", 0),
        ([("high", 9, False)], "gone", 0),
        ([("high", 9, False), ("usual", 5, True)], "", 5),
        ([("high", 9, False), ("usual", 5, True)], "gone", 5),
        ([("high", 9, True), ("usual", 5, True)], "", 5),
        ([("low", -9, False)], "low", -9),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_priority_comes_from_the_class(
    classes: list[tuple[str, int, bool]], named: str, priority: int, late: bool
) -> None:
    """The class that is named, else the lowest default one, else 0; whichever came first.

    Without a class, a pod's own priority decides; this is what Volcano's jobs have then.
    """
    documents = [
        manifests.priority_class(name, value, default=default) for name, value, default in classes
    ]
    group = [
        manifests.group("g", {"priorityClassName": named}),
        manifests.pod("p", group="g", spec={"priority": 77}),
    ]
    seen = manifests.mirror(*(group if late else documents))
    seen.snapshot(0.0)
    for document in documents if late else group:
        seen.apply(manifests.event_of(document))
    assert manifests.job_of(seen, "g").class_priority == priority
    assert manifests.job_of(seen, "g").priority == (priority if named else 77)
    for document in documents:
        seen.apply(manifests.removal_of(document))
    assert manifests.job_of(seen, "g").class_priority == 0
    assert manifests.job_of(seen, "g").priority == (0 if named else 77)


def test_without_a_class_the_lowest_priority_of_its_pods_counts() -> None:
    """A pod without class and priority has that of the default class."""
    documents = [
        manifests.priority_class("usual", 5, default=True),
        manifests.group("g", {}),
        manifests.pod("p", group="g", spec={"priority": 77}),
    ]
    seen = manifests.mirror(*documents)
    assert manifests.job_of(seen, "g").priority == 77
    seen.apply(manifests.event_of(manifests.pod("q", group="g")))
    assert manifests.job_of(seen, "g").priority == 5


def test_priorities_can_be_switched_off() -> None:
    """Then every job has the same."""
    seen = manifests.mirror(
        manifests.priority_class("high", 9, default=True),
        manifests.group("g", {"priorityClassName": "high"}),
        manifests.pod("p", group="g"),
        priority_classes=False,
    )
    assert manifests.job_of(seen, "g").priority == 0


def test_other_names_are_served_once_the_pods_are_listed_anew() -> None:
    """Pods of a name that isn't served are others' usage of nodes; both ways."""
    objects = [
        manifests.node("n1"),
        manifests.group("g"),
        manifests.group("h"),
        manifests.group("empty", annotations=THEIRS),
        manifests.pod("a", group="g", node="n1", scheduler="vscheduler"),
        manifests.pod("b", group="h", scheduler="other"),
    ]
    both = ("vscheduler", "other")
    seen = manifests.mirror(*objects, scheduler_names=both)
    assert len(seen.snapshot(0.0).jobs) == 3
    for names, jobs in ((("vscheduler",), ["ns/g"]), (("other",), ["ns/empty", "ns/h"])):
        seen.serve(names)
        of_pods = [each for each in objects if each["kind"] == "Pod"]
        manifests.show_list(seen, Kind.POD, *of_pods)
        fresh = manifests.mirror(*objects, scheduler_names=names).snapshot(0.0)
        assert manifests.canonical(seen.snapshot(0.0)) == manifests.canonical(fresh)
        assert [job.id for job in seen.snapshot(0.0).jobs] == jobs


def test_two_schedulers_share_nodes_and_no_jobs() -> None:
    """Each sees the other's pods as usage of nodes, and owns, so writes, its own groups only."""
    objects = [
        manifests.node("n1"),
        manifests.queue("q"),
        *(manifests.group(name, {"queue": "q"}) for name in ("on", "off")),
        manifests.pod("a", group="on", node="n1", scheduler="volcano-online"),
        manifests.pod("b", group="off", node="n1", scheduler="volcano-offline"),
        manifests.pod("c", group="off", scheduler="volcano-offline"),
    ]
    for mine, group in (("volcano-online", "ns/on"), ("volcano-offline", "ns/off")):
        seen = manifests.mirror(*objects, scheduler_names=(mine,))
        found = seen.snapshot(0.0)
        assert [job.id for job in found.jobs] == [group]
        assert manifests.used(seen, "n1") == 2000
        assert found.used_by_other_schedulers == {"q": {"cpu": 1000, "pods": 1}}


def native(queue: str, **spec: Any) -> Document:
    """A PodGroup of Kubernetes' own API, in this queue."""
    annotations = {translation.QUEUE: queue} if queue else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns", "uid": "u-g", "annotations": annotations},
        "spec": {"schedulingPolicy": {"basic": {}}, **spec},
    }


def member() -> Document:
    """A pod of it."""
    found = manifests.pod("p")
    found["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return found


def test_a_native_group_is_no_job_until_it_has_a_queue() -> None:
    """The controllers write it; pods that wait are told that, and get nothing."""
    seen = manifests.mirror(native(""), member())
    (job,) = seen.snapshot(0.0).jobs
    assert (job.uid, job.queue, job.tasks) == ("", "", ())
    assert [each.field for each in job.rejections] == ["spec.schedulingGroup.podGroupName"]
    assert "PodGroup g has no queue yet" in job.defect
    seen.apply(manifests.event_of(native("a")))
    (job,) = seen.snapshot(0.0).jobs
    assert (job.id, job.queue, len(job.tasks)) == ("ns/g@scheduling.k8s.io", "a", 1)


def test_pods_of_a_native_group_that_cant_be_used_are_told_why() -> None:
    """Also those that came before it."""
    seen = manifests.mirror(member())
    (job,) = seen.snapshot(0.0).jobs
    assert job.defect.startswith("there is no PodGroup ns/g of scheduling.k8s.io/v1beta1")
    broken = native("a", schedulingPolicy={"gang": {"minCount": -1}})
    seen.apply(manifests.event_of(broken))
    (job,) = seen.snapshot(0.0).jobs
    place = "spec.schedulingPolicy.gang.minCount"
    assert job.defect == f"PodGroup ns/g can't be used ({place}: -1 is negative)"
    assert [each.message for each in job.rejections] == [job.defect]
    seen.apply(manifests.event_of(native("a")))
    (job,) = seen.snapshot(0.0).jobs
    assert (job.defect, len(job.tasks)) == ("", 1)


@pytest.mark.parametrize("listed", [True, False])
def test_pods_of_a_native_group_that_couldnt_be_used_are_told_that_it_is_gone(
    listed: bool,
) -> None:
    """Whether it is deleted or missing in the next list."""
    broken = native("a", schedulingPolicy={"gang": {"minCount": -1}})
    seen = manifests.mirror(member(), broken)
    assert "can't be used" in next(iter(seen.snapshot(0.0).jobs)).defect
    if listed:
        manifests.show_list(seen, Kind.NATIVE_POD_GROUP)
    else:
        seen.apply(manifests.removal_of(broken))
    (job,) = seen.snapshot(0.0).jobs
    assert job.defect.startswith("there is no PodGroup ns/g of scheduling.k8s.io/v1beta1")


def test_an_annotation_is_no_way_into_a_native_group() -> None:
    """Only spec.schedulingGroup is, which can't be changed."""
    stranger = manifests.pod("s", group="g@scheduling.k8s.io")
    seen = manifests.mirror(native("a"), member(), stranger)
    (job,) = seen.snapshot(0.0).jobs
    assert manifests.names(job.tasks) == ["ns/p"]


def test_a_native_group_without_pods_is_nobody_s() -> None:
    """Even who claims all PodGroups without pods doesn't claim these: they name no scheduler."""
    seen = manifests.mirror(native("a"), claim_unowned=True)
    assert not seen.snapshot(0.0).jobs
