import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from vscheduler.controllers.podgroups import auto_groups
from vscheduler.controllers.podgroups.auto_groups import Body, Member, Owner, OwnerRef
from vscheduler.mirror.translate import group_terms, pod_owners
from vscheduler.mirror.translate.group_terms import MIN_MEMBER, MIN_RESOURCES, QUEUE
from vscheduler.model.run_times import MAX_RUN_TIME

REF = OwnerRef(api_version="apps/v1", kind="ReplicaSet", name="web", uid="r1")
NAME = pod_owners.short_name("web", "r1")
JOB = OwnerRef(api_version="batch/v1", kind="Job", name="train", uid="j1")


def member(**changes: Any) -> Member:
    """A pod of a ReplicaSet that asks for half a core and a gibibyte."""
    settings: dict[str, Any] = {
        "namespace": "lab",
        "name": "web-1",
        "uid": "p1",
        "labels": {},
        "annotations": {},
        "priority_class": "",
        "request": {"cpu": 500, "memory": 2**30, "pods": 1},
        "owner": REF,
    }
    return Member(**settings | changes)


def owner(replicas: int | None = 3, *, ref: OwnerRef = REF, **annotations: str) -> Owner:
    """An owner; annotations by their name after `group_`."""
    named = {
        f"scheduling.volcano.sh/{key.replace('_', '-')}": annotations[key] for key in annotations
    }
    return Owner(ref=ref, labels={}, annotations=named, replicas=replicas)


def wanted(pod: Member, of: Owner | None, *, inherit: bool = True) -> Body:
    """The manifest of its group."""
    return auto_groups.wanted(
        pod,
        of,
        name=auto_groups.group_name(pod, "vscheduler"),
        scheduler="vscheduler",
        default_queue="default",
        inherit_owner_annotations=inherit,
    )


def problems(pod: Member, of: Owner | None) -> list[str]:
    """What people are told."""
    return [
        str(problem) for problem in auto_groups.problems(pod, of, inherit_owner_annotations=True)
    ]


def stored(body: Body, **spec: Any) -> Body:
    """The group as the server has it, with what a user has edited."""
    found = copy.deepcopy(body)
    found["metadata"] |= {"uid": "g1", "resourceVersion": "7"}
    found["spec"] |= spec
    return found


def test_the_whole_manifest() -> None:
    """Of a pod of a ReplicaSet that wants a gang of two."""
    pod = member(priority_class="high", annotations={QUEUE: "gold"})
    assert wanted(pod, owner(group_min_member="2")) == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "namespace": "lab",
            "name": NAME,
            "labels": {"app.kubernetes.io/managed-by": "vscheduler"},
            "annotations": {
                "scheduling.volcano.sh/scheduler-name": "vscheduler",
                "vscheduler.io/written": (
                    '{"annotations":{},"labels":{},"minMember":2,'
                    '"minResources":{"cpu":"1","memory":"2Gi","pods":"2"},'
                    '"networkTopology":null,"priorityClassName":"high","queue":"gold"}'
                ),
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": "r1",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {
            "minMember": 2,
            "minResources": {"cpu": "1", "memory": "2Gi", "pods": "2"},
            "queue": "gold",
            "priorityClassName": "high",
        },
    }


def test_a_bare_pod_has_a_group_of_its_own() -> None:
    """It owns it, and is alone in it, whatever it says."""
    body = wanted(member(owner=None, annotations={MIN_MEMBER: "3"}), None)
    assert body["metadata"]["name"].startswith("web-1-")
    assert body["metadata"]["ownerReferences"][0]["kind"] == "Pod"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "p1"
    assert body["spec"]["minMember"] == 1


@pytest.mark.parametrize(
    ("of", "pod", "minimum"),
    [
        (owner(), {}, 1),
        (owner(group_min_member="2"), {}, 2),
        (owner(group_min_member="0"), {}, 0),
        (owner(group_min_member="+3"), {}, 3),
        (owner(group_min_member="9"), {}, 3),
        (owner(0, group_min_member="9"), {}, 9),
        (owner(None, group_min_member="9"), {}, 9),
        (owner(), {MIN_MEMBER: "2"}, 2),
        (owner(group_min_member="1"), {MIN_MEMBER: "2"}, 1),
        (None, {MIN_MEMBER: "2"}, 2),
    ],
)
def test_min_member_is_what_is_asked_for_as_far_as_there_will_be_pods(
    of: Owner | None, pod: Mapping[str, str], minimum: int
) -> None:
    """The owner's annotation before the pod's; never more than its replicas, where known."""
    assert wanted(member(annotations=pod), of)["spec"]["minMember"] == minimum


def test_a_job_may_ask_for_as_many_as_run_at_once() -> None:
    """Other owners have no parallelism; of a Job that isn't known, one will do."""
    pod = member(owner=JOB)
    assert wanted(pod, owner(4, ref=JOB, group_min_member="parallelism"))["spec"]["minMember"] == 4
    assert wanted(pod, owner(0, ref=JOB, group_min_member="parallelism"))["spec"]["minMember"] == 1
    assert (
        wanted(member(owner=JOB, annotations={MIN_MEMBER: "parallelism"}), None)["spec"][
            "minMember"
        ]
        == 1
    )
    assert wanted(member(), owner(group_min_member="parallelism"))["spec"]["minMember"] == 1
    assert problems(pod, owner(4, ref=JOB, group_min_member="parallelism")) == []


def test_min_resources_may_be_told() -> None:
    """As JSON; in whatever words, they are written as Kubernetes does."""
    body = wanted(member(), owner(group_min_resources='{"cpu": "1500m", "memory": 1048576}'))
    assert body["spec"]["minResources"] == {"cpu": "1500m", "memory": "1Mi"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "[]",
        '{"cpu": null}',
        '{"cpu": "many"}',
        '{"cpu": "-1"}',
        '{"cpu": NaN}',
    ],
)
def test_min_resources_that_cannot_be_read_are_told_of(text: str) -> None:
    """The sum of requests stands in."""
    of = owner(group_min_resources=text)
    assert wanted(member(), of)["spec"]["minResources"]["cpu"] == "500m"
    (problem,) = problems(member(), of)
    assert problem.startswith(f"ReplicaSet lab/web: metadata.annotations[{MIN_RESOURCES}]: ")
    assert problem.endswith("; the sum of requests is used")


@pytest.mark.parametrize("text", ["", "two", "-1", "1.5", "1_0", " 2", "2147483648", "\u0663"])
def test_a_min_member_that_is_no_number_is_told_of(text: str) -> None:
    """One stands in."""
    pod = member(annotations={MIN_MEMBER: text})
    assert wanted(pod, owner(group_min_member=text))["spec"]["minMember"] == 1
    assert wanted(pod, owner())["spec"]["minMember"] == 1
    place = f"Pod lab/web-1: metadata.annotations[{MIN_MEMBER}]"
    assert problems(pod, owner()) == [f"{place}: {text!r} is not a number of pods; 1 is used"]


def test_the_queue_is_the_pods_else_the_owners_else_the_default() -> None:
    """A name that no Queue can have would have the server refuse the group."""
    gold, lead = member(annotations={QUEUE: "gold"}), owner(queue_name="lead")
    bad = member(annotations={QUEUE: "Gold!"})
    assert wanted(gold, lead)["spec"]["queue"] == "gold"
    assert wanted(member(), lead)["spec"]["queue"] == "lead"
    assert wanted(member(annotations={QUEUE: ""}), owner())["spec"]["queue"] == "default"
    assert wanted(bad, lead)["spec"]["queue"] == "default"
    (problem,) = problems(bad, lead)
    assert "'Gold!' can't be the name of a Queue" in problem


def test_annotations_and_labels_are_inherited() -> None:
    """Those below volcano.sh/, the pod's over the owner's; of labels, two."""
    pod = member(
        annotations={"volcano.sh/cooldown-time": "60s", "note": "x"},
        labels={"volcano.sh/preemptable": "false", "app": "web", "volcano.sh/job-name": "j"},
    )
    theirs = {"volcano.sh/cooldown-time": "10s", "volcano.sh/sla-waiting-time": "1h", "note": "y"}
    of = Owner(ref=REF, labels={}, annotations=theirs, replicas=1)
    metadata = wanted(pod, of)["metadata"]
    own = {key: text for key, text in metadata["annotations"].items() if "volcano.sh/" in key}
    assert own == {
        "volcano.sh/cooldown-time": "60s",
        "volcano.sh/sla-waiting-time": "1h",
        "scheduling.volcano.sh/scheduler-name": "vscheduler",
    }
    assert metadata["labels"] == {
        "volcano.sh/preemptable": "false",
        "app.kubernetes.io/managed-by": "vscheduler",
    }


def test_the_deadline_of_a_job_is_the_run_time_of_its_pods() -> None:
    """Unless its annotation, or that of its pods, says how long they run."""
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "uid": "j1"},
        "spec": {"parallelism": 2, "activeDeadlineSeconds": 600},
    }

    def told(**annotations: str) -> str | None:
        of = auto_groups.owner(body)
        pod = member(owner=JOB, annotations=annotations)
        found: str | None = wanted(pod, of)["metadata"]["annotations"].get(MAX_RUN_TIME)
        return found

    assert told() == "600s"
    assert told(**{MAX_RUN_TIME: "5m"}) == "5m"
    body["metadata"]["annotations"] = {MAX_RUN_TIME: "7m"}  # type: ignore[index]  # a mapping
    assert told() == "7m"
    body["kind"] = "Other"
    body["metadata"]["annotations"] = {}  # type: ignore[index]  # a mapping
    assert told() is None


def test_without_inheritance_nothing_of_the_owner_counts_but_its_replicas() -> None:
    """As with Volcano's flag."""
    of = owner(1, group_min_member="2", queue_name="lead", group_min_resources="{")
    spec = wanted(member(annotations={MIN_MEMBER: "5"}), of, inherit=False)["spec"]
    assert (spec["minMember"], spec["queue"]) == (1, "default")
    assert auto_groups.problems(member(), of, inherit_owner_annotations=False) == ()


def test_budgets_of_the_pod_replace_the_owners() -> None:
    """Of the two kinds only one may be there."""
    least, most = group_terms.BUDGETS
    of = Owner(ref=REF, labels={}, annotations={most: "1"}, replicas=1)
    annotations = wanted(member(annotations={least: "2"}), of)["metadata"]["annotations"]
    assert least in annotations
    assert most not in annotations


@pytest.mark.parametrize(
    ("annotations", "topology", "told"),
    [
        ({}, None, 0),
        ({group_terms.TOPOLOGY_MODE: "Soft"}, {"mode": "soft"}, 0),
        ({group_terms.TOPOLOGY_TIER: "2"}, {"mode": "hard", "highestTierAllowed": 2}, 0),
        ({group_terms.TOPOLOGY_MODE: "x", group_terms.TOPOLOGY_TIER: "-1"}, {"mode": "hard"}, 2),
    ],
)
def test_the_network_topology_of_a_pod(
    annotations: Mapping[str, str], topology: object, told: int
) -> None:
    """Volcano's annotations; what can't be read leaves its defaults."""
    pod = member(annotations=annotations)
    assert wanted(pod, owner())["spec"].get("networkTopology") == topology
    assert len(problems(pod, owner())) == told


def test_a_group_follows_its_owner() -> None:
    """The patch has what differs, and what it was written for."""
    before = wanted(member(), owner(1, group_min_member="3"))
    after = wanted(member(), owner(3, group_min_member="3"))
    patch = auto_groups.change(stored(before), after)
    assert patch is not None
    assert patch["metadata"]["uid"] == "g1"
    assert patch["metadata"]["resourceVersion"] == "7"
    assert patch["spec"] == {
        "minMember": 3,
        "minResources": {"cpu": "1500m", "memory": "3Gi", "pods": "3"},
    }
    written = json.loads(patch["metadata"]["annotations"][auto_groups.WRITTEN])
    assert written == json.loads(after["metadata"]["annotations"][auto_groups.WRITTEN])


def test_resources_that_are_not_asked_for_any_more_go() -> None:
    """A merge patch says null for them."""
    before = wanted(member(request={"cpu": 1000, "nvidia.com/gpu": 1}), owner())
    patch = auto_groups.change(stored(before), wanted(member(request={"cpu": 2000}), owner()))
    assert patch is not None
    assert patch["spec"] == {"minResources": {"cpu": "2", "nvidia.com/gpu": None}}


def test_nothing_is_changed_that_says_the_same() -> None:
    """In other words, or edited, or of another's making."""
    before = wanted(member(), owner(1))
    after = wanted(member(), owner(3, group_min_member="3", queue_name="lead"))
    same = stored(before, minResources={"cpu": "0.5", "memory": "1024Mi", "pods": 1})
    edited = stored(before, minMember=7, minResources={"cpu": "9"}, queue="mine")
    foreign = stored(before)
    foreign["metadata"]["labels"] = {}
    unwritten = stored(before)
    unwritten["metadata"]["annotations"][auto_groups.WRITTEN] = "[" * 100_000
    assert auto_groups.change(stored(before), before) is None
    assert auto_groups.change(same, before) is None
    for each in (edited, foreign, unwritten):
        assert auto_groups.change(each, after) is None


def test_what_a_user_edited_stays_beside_what_follows() -> None:
    """Edited minResources aren't touched while minMember follows, and stay the user's."""
    before = wanted(member(), owner(1, group_min_member="3"))
    after = wanted(member(), owner(3, group_min_member="3"))
    patch = auto_groups.change(stored(before, minResources={"cpu": "9"}), after)
    assert patch is not None
    assert patch["spec"] == {"minMember": 3}
    written = json.loads(patch["metadata"]["annotations"][auto_groups.WRITTEN])
    assert written["minResources"] == before["spec"]["minResources"]


def test_a_group_follows_the_newest_template() -> None:
    """Its queue, its class, Volcano's annotations and labels; what the template lost goes."""
    texts = {"volcano.sh/jdb-min-available": "2", "volcano.sh/sla-waiting-time": "1h"}
    before = wanted(member(annotations={QUEUE: "full", **texts}, priority_class="low"), owner())
    texts = {"volcano.sh/sla-waiting-time": "2h", "volcano.sh/network-topology-mode": "soft"}
    labels = {"volcano.sh/preemptable": "false"}
    pod = member(annotations={QUEUE: "free", **texts}, labels=labels, priority_class="")
    patch = auto_groups.change(stored(before), wanted(pod, owner()))
    assert patch is not None
    assert patch["spec"] == {
        "queue": "free",
        "priorityClassName": None,
        "networkTopology": {"mode": "soft"},
    }
    assert patch["metadata"]["labels"] == labels
    written = patch["metadata"]["annotations"].pop(auto_groups.WRITTEN)
    assert patch["metadata"]["annotations"] == {**texts, "volcano.sh/jdb-min-available": None}
    assert written == wanted(pod, owner())["metadata"]["annotations"][auto_groups.WRITTEN]


def test_a_group_has_what_its_pods_say_about_the_network() -> None:
    """How long they wait for which tier, and of which topology; nothing else of ours."""
    texts = {
        "volcano.sh/network-topology-patience": "10m",
        "volcano.sh/network-topology-preferred-tier": "rack",
        "vscheduler.io/network-topology": "fabric",
    }
    pod = member(annotations={**texts, "vscheduler.io/other": "x", "example.com/a": "b"})
    found = wanted(pod, owner())["metadata"]["annotations"]
    assert {name: found[name] for name in texts} == texts
    assert not {"vscheduler.io/other", "example.com/a"} & found.keys()


def test_what_a_user_edited_of_queue_and_annotations_stays() -> None:
    """Beside what follows; and all of a group that an earlier release has made."""
    before = wanted(member(annotations={QUEUE: "full", "volcano.sh/a": "1"}), owner())
    pod = member(annotations={QUEUE: "free", "volcano.sh/a": "2"}, priority_class="high")
    edited = stored(before, queue="mine")
    edited["metadata"]["annotations"]["volcano.sh/a"] = "mine"
    patch = auto_groups.change(edited, wanted(pod, owner()))
    assert patch is not None
    assert patch["spec"] == {"priorityClassName": "high"}
    assert patch["metadata"]["annotations"].keys() == {auto_groups.WRITTEN}
    earlier = stored(before)
    record = json.dumps({name: before["spec"][name] for name in ("minMember", "minResources")})
    earlier["metadata"]["annotations"][auto_groups.WRITTEN] = record
    assert auto_groups.change(earlier, wanted(pod, owner())) is None


@pytest.mark.parametrize(
    ("completions", "succeeded", "replicas"),
    [(None, 1, 4), (4, None, 4), (8, 3, 4), (4, 2, 2), (4, 4, 1), (4, 9, 1)],
)
def test_a_job_wants_no_more_pods_than_it_still_has_to_complete(
    completions: int | None, succeeded: int | None, replicas: int
) -> None:
    """Its finished pods may be gone, and nobody makes them anew."""
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "uid": "j1"},
        "spec": {"parallelism": 4, "completions": completions},
        "status": {"succeeded": succeeded},
    }
    assert auto_groups.owner(body).replicas == replicas


def test_a_pod_is_attached_by_its_uid() -> None:
    """Another one of its name isn't meant."""
    assert auto_groups.attachment(member(), "mine") == {
        "metadata": {"uid": "p1", "annotations": {"scheduling.k8s.io/group-name": "mine"}}
    }


def test_the_newest_pod_speaks_for_its_group() -> None:
    """In whatever order they come; of several, the one with the last UID."""
    pods = [
        member(uid="a", created=1.0),
        member(uid="c", created=2.0),
        member(uid="b", created=2.0),
    ]
    assert auto_groups.representative(pods).uid == "c"
    assert auto_groups.representative(reversed(pods)).uid == "c"


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "replicas"),
    [
        ("apps/v1", "ReplicaSet", {"replicas": 0}, 0),
        ("apps/v1", "StatefulSet", {"replicas": 2}, 2),
        ("batch/v1", "Job", {"parallelism": 4}, 4),
        ("batch/v1", "Job", {"parallelism": 4, "completions": 2}, 2),
        ("batch/v1", "Job", {"completions": 2}, None),
        ("apps/v1", "DaemonSet", {}, None),
        ("example.com/v1", "ReplicaSet", {"replicas": 2}, None),
        ("v1", "Pod", {"replicas": 2}, None),
    ],
)
def test_how_many_pods_an_owner_wants(
    api_version: str, kind: str, spec: Mapping[str, int], replicas: int | None
) -> None:
    """Of three kinds it is known; a Job never runs more at once than it has to complete."""
    metadata = {"name": "web", "uid": "r1"}
    body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    assert auto_groups.owner(body).replicas == replicas


def test_an_annotation_that_cannot_be_read_becomes_a_condition() -> None:
    """It says what is used instead; where all can be read, there is no status."""
    body = wanted(member(), owner(group_min_member="eight"))
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("vscheduler.io/Annotations", "False")
    assert condition["reason"] == "AnnotationUnreadable"
    assert condition["message"] == (
        f"ReplicaSet lab/web: metadata.annotations[{MIN_MEMBER}]: 'eight' is not a number of "
        "pods; 1 is used"
    )
    assert "status" not in wanted(member(), owner(group_min_member="8"))
    long = wanted(member(), owner(group_min_member="x" * 5000))
    assert len(auto_groups.unreadable(long)) == auto_groups.MESSAGE_MAX


def test_the_condition_goes_when_the_annotation_is_corrected() -> None:
    """Those of the scheduler stay; and it comes when an annotation is spoilt later."""
    wrong, right = (wanted(member(), owner(group_min_member=text)) for text in ("one", "1"))
    said = {"type": "Unschedulable", "status": "True"}
    spoilt = stored(wrong)
    spoilt["status"]["conditions"].insert(0, said)
    identity = {"uid": "g1", "resourceVersion": "7"}
    corrected = auto_groups.change(spoilt, right)
    assert corrected == {"metadata": identity, "status": {"conditions": [said]}}
    assert auto_groups.change(spoilt, wrong) is None
    assert auto_groups.change(stored(right), wrong) == {
        "metadata": identity,
        "status": wrong["status"],
    }
