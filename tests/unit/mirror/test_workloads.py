from typing import Any

import pytest

from tests.unit.cli import job_objects
from vscheduler.mirror import workloads
from vscheduler.mirror.workloads import Workload


def pod(name: str = "p") -> dict[str, Any]:
    """A bare one."""
    return {"metadata": {"name": name, "namespace": "ns"}}


def group(owner: dict[str, str]) -> dict[str, Any]:
    """A PodGroup, perhaps of an owner."""
    return {"metadata": {"name": "g", "ownerReferences": [owner] if owner else []}}


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("train", "", "train"),
        ("job/train", "job", "train"),
        ("Jobs/train", "job", "train"),
        ("deploy/web", "deployment", "web"),
        ("deployments.apps/web", "deployment", "web"),
        ("pg/g", "podgroup", "g"),
        ("podgroups/g", "podgroup", "g"),
        ("sts/db", "statefulset", "db"),
        ("rs/web-5", "replicaset", "web-5"),
        ("rayjob/tune", "rayjob", "tune"),
    ],
)
def test_a_job_is_named_as_in_kubectl(text: str, kind: str, name: str) -> None:
    """With kubectl's short names and plurals; without a kind, any kind will do."""
    assert workloads.parse(text) == Workload(kind, name)


def test_pods_of_a_deployment_belong_to_it() -> None:
    """And to its ReplicaSet, whose name ends with a hash that the pods have as a label."""
    made = job_objects.owned(pod(), "ReplicaSet", "web-7d9f", **{"pod-template-hash": "7d9f"})
    assert [str(each) for each in workloads.of_pod(made)] == [
        "deployment/web",
        "replicaset/web-7d9f",
        "pod/p",
    ]
    alone = job_objects.owned(pod(), "ReplicaSet", "web-7d9f")
    assert [str(each) for each in workloads.of_pod(alone)] == ["replicaset/web-7d9f", "pod/p"]


def test_pods_of_a_rayjob_belong_to_it() -> None:
    """KubeRay says so in labels; their owner is a RayCluster."""
    labels = {workloads.RAY_KIND: "RayJob", workloads.RAY_NAME: "tune"}
    made = job_objects.owned(pod(), "RayCluster", "tune-x5k2", **labels)
    assert [str(each) for each in workloads.of_pod(made)][:2] == [
        "rayjob/tune",
        "raycluster/tune-x5k2",
    ]


@pytest.mark.parametrize(
    ("owner", "pods", "best"),
    [
        ({}, [], "podgroup/g"),
        ({}, [pod()], "pod/p"),
        ({}, [pod("a"), pod("b")], "podgroup/g"),
        ({}, [job_objects.owned(pod(name), "Job", "train") for name in "ab"], "job/train"),
        ({}, [job_objects.owned(pod(name), "Job", f"t{name}") for name in "ab"], "podgroup/g"),
        ({"kind": "Pod", "name": "p", "apiVersion": "v1"}, [pod()], "pod/p"),
        ({"kind": "Job", "name": "t", "apiVersion": "batch.volcano.sh/v1alpha1"}, [], "vcjob/t"),
        ({"kind": "RayCluster", "name": "r", "apiVersion": "ray.io/v1"}, [pod()], "raycluster/r"),
        (
            {"kind": "ReplicaSet", "name": "web-7d", "apiVersion": "apps/v1"},
            [job_objects.owned(pod(), "ReplicaSet", "web-7d", **{"pod-template-hash": "7d"})],
            "deployment/web",
        ),
    ],
)
def test_the_best_name_of_a_podgroup(
    owner: dict[str, str], pods: list[dict[str, Any]], best: str
) -> None:
    """What the user created, as far as the PodGroup and its pods tell."""
    found = workloads.of_group(group(owner), pods)
    assert str(found[0]) == best
    assert Workload("podgroup", "g") in found
    assert len(set(found)) == len(found)


def test_names_match_with_and_without_a_kind() -> None:
    """A Volcano Job is a job, too."""
    names = [Workload("vcjob", "train"), Workload("pod", "train-0")]
    for text in ("train", "vcjob/train", "job/train", "train-0", "pod/train-0"):
        assert workloads.matches(workloads.parse(text), names)
    for text in ("pod/train", "deployment/train", "trains"):
        assert not workloads.matches(workloads.parse(text), names)


def test_names_of_podgroups_match_with_and_without_their_api() -> None:
    """Only PodGroups have such names."""
    native, theirs = Workload("podgroup", "train@scheduling.k8s.io"), Workload("podgroup", "train")
    for text, found in (
        ("train", [native, theirs]),
        ("pg/train", [native, theirs]),
        ("train@scheduling.k8s.io", [native]),
        ("pg/train@scheduling.volcano.sh", [theirs]),
    ):
        wanted = workloads.parse(text)
        assert [each for each in (native, theirs) if workloads.matches(wanted, [each])] == found
        job = Workload("job", "train")
        assert workloads.matches(wanted, [job]) is (text == "train")


def test_a_name_with_a_slip_is_guessed() -> None:
    """With a kind, the kind counts as well."""
    names = [Workload("job", "train"), Workload("pod", "web")]
    assert workloads.similar(workloads.parse("trian"), names) == ["job/train"]
    assert workloads.similar(workloads.parse("job/trayn"), names) == ["job/train"]
    assert workloads.similar(workloads.parse("job/other"), names) == []


@pytest.mark.parametrize(
    ("label", "kind", "owner"),
    [
        ("jobset.sigs.k8s.io/jobset-name", "jobset", "Job"),
        ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset", "Pod"),
    ],
)
def test_the_owner_of_the_owner_is_known_by_a_label(label: str, kind: str, owner: str) -> None:
    """JobSet and LeaderWorkerSet: users know neither their Jobs nor their StatefulSets."""
    member = pod("serve-0-1")
    reference = {"apiVersion": "v1", "kind": owner, "name": "serve-0", "controller": True}
    member["metadata"] |= {"labels": {label: "serve"}, "ownerReferences": [reference]}
    found = workloads.of_group(
        group({"apiVersion": "v1", "kind": owner, "name": "serve-0"}), [member]
    )
    assert found[0] == Workload(kind, "serve")
    assert workloads.matches(workloads.parse(f"{kind}/serve"), found)
    assert not workloads.is_final(owner, {label: "serve"})


def test_the_short_name_of_a_leader_worker_set() -> None:
    """As kubectl has it."""
    assert workloads.parse("lws/serve") == Workload("leaderworkerset", "serve")
