"""The commands about Kubernetes' own PodGroups (scheduling.k8s.io), beside Volcano's."""

import json
from typing import Any

import pytest
from click import testing

from tests.scenarios import test_group_trees as group_trees
from tests.scenarios import test_native_pod_groups as native
from tests.unit.cli import job_objects
from tests.unit.cli.job_objects import Fake
from vscheduler.cli import main
from vscheduler.cli.job import placing
from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import Kind, Listing, NotServed

PICTURE = """
    node  n1 cpu=4
    queue lab
    job   lab/train min=1 cpu=1  -
"""
SINCE = "2026-01-01T11:30:00Z"
MESSAGE = "needs 6 cpu for 3 pods; 2 of 3 fit"


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    """A condition of a PodGroup."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": SINCE,
    }


WAITS = [
    condition("PodGroupInitiallyScheduled", "False", "Unschedulable", MESSAGE),
    condition("vscheduler.io/Phase", "False", "Inqueue", "queue lab"),
    condition("vscheduler.io/Unschedulable", "True", "NotEnoughResources", MESSAGE),
]


def objects(
    conditions: list[dict[str, Any]], pods: list[dict[str, Any]], *, queue: str = "lab"
) -> dict[Kind, list[dict[str, Any]]]:
    """A cluster with a PodGroup `train` of each kind."""
    found = job_objects.objects(PICTURE)
    group = native.group("train", 3, queue=queue, status={"conditions": conditions})
    group["metadata"] |= {"uid": "u", "creationTimestamp": SINCE}
    for number, pod in enumerate(pods):
        pod["metadata"]["name"] = f"w-{number}"
    for each in (group, *pods):
        each["metadata"]["namespace"] = "default"
    found[Kind.NATIVE_POD_GROUP].append(group)
    found[Kind.POD] += pods
    return found


def run(fake: Fake, monkeypatch: pytest.MonkeyPatch, *words: str) -> testing.Result:
    """Run a command on that cluster."""
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(fake))
    return testing.CliRunner().invoke(main.vscheduler, ["job", *words])


def test_both_kinds_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With queue, phase and reason from annotation and conditions, and counts of the pods."""
    fake = Fake(objects(WAITS, native.pods("train", 3)))
    found = json.loads(run(fake, monkeypatch, "list", "-o", "json").stdout)["jobs"]
    by_name = {each["podGroup"]: each for each in found}
    assert set(by_name) == {"train", "train@scheduling.k8s.io"}
    job = by_name["train@scheduling.k8s.io"]
    assert (job["queue"], job["state"], job["scheduler"]) == ("lab", "Inqueue", "vscheduler")
    assert job["pods"] == {"running": 0, "minimum": 3, "total": 3}
    assert (job["reason"], job["message"]) == ("NotEnoughResources", MESSAGE)
    assert job["waitingSince"] == SINCE
    assert job["place"]["ofQueue"] == 2


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("train", ["train", "train@scheduling.k8s.io"]),
        ("train@scheduling.k8s.io", ["train@scheduling.k8s.io"]),
        ("pg/train@scheduling.k8s.io", ["train@scheduling.k8s.io"]),
        ("podgroup.scheduling.k8s.io/train", ["train", "train@scheduling.k8s.io"]),
        ("job/fit", ["train@scheduling.k8s.io"]),
    ],
)
def test_names(monkeypatch: pytest.MonkeyPatch, name: str, shown: list[str]) -> None:
    """The name of its Job, of the PodGroup, and the one that only one PodGroup has."""
    members = [job_objects.owned(each, "Job", "fit") for each in native.pods("train", 3)]
    found = run(Fake(objects(WAITS, members)), monkeypatch, "get", name, "-o", "json").stdout
    tree = json.loads(found)
    assert sorted(each["podGroup"] for each in tree.get("jobs", [tree])) == shown


def test_a_running_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since when is in Kubernetes' own condition."""
    conditions = [
        condition("PodGroupInitiallyScheduled", "True", "Scheduled"),
        condition("vscheduler.io/Phase", "True", "Running", "queue lab"),
    ]
    fake = Fake(objects(conditions, native.pods("train", 3, on="n1")))
    text = run(fake, monkeypatch, "get", "train@scheduling.k8s.io").stdout
    assert "State:      Running" in text
    assert "3 of 3 pods run; 3 must start together" in text
    assert "all pods that must start together have nodes" in text


def test_a_minimum_by_annotation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy is basic."""
    found = objects(WAITS, native.pods("train", 3))
    (group,) = found[Kind.NATIVE_POD_GROUP]
    group["spec"]["schedulingPolicy"] = {"basic": {}}
    group["metadata"]["annotations"]["scheduling.volcano.sh/group-min-member"] = "2"
    text = run(Fake(found), monkeypatch, "get", "train@scheduling.k8s.io", "-o", "json").stdout
    assert json.loads(text)["pods"]["minimum"] == 2


def test_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what would start it."""
    fake = Fake(objects(WAITS, native.pods("train", 3)))
    text = run(fake, monkeypatch, "why", "train@scheduling.k8s.io").stdout
    assert MESSAGE in text
    assert "lower spec.schedulingPolicy.gang.minCount from 3 to 1" in text


@pytest.mark.parametrize(
    ("conditions", "scheduler"),
    [
        ([], "default-scheduler"),
        ([condition("PodGroupInitiallyScheduled", "True", "Scheduled")], ""),
    ],
)
def test_gangs_of_kube_scheduler_are_left_out(
    monkeypatch: pytest.MonkeyPatch, conditions: list[dict[str, Any]], scheduler: str
) -> None:
    """The Job controller makes a PodGroup for every Job."""
    pods = native.pods("train", 3, schedulerName=scheduler) if scheduler else []
    fake = Fake(objects(conditions, pods))
    assert "@" not in run(fake, monkeypatch, "list", "-o", "wide").stdout
    if scheduler:
        done = run(fake, monkeypatch, "why", "w-0")
        assert "default-scheduler, which starts PodGroup train@scheduling.k8s.io" in done.stderr


def test_a_gang_without_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controllers write it."""
    fake = Fake(objects([], native.pods("train", 3), queue=""))
    text = run(fake, monkeypatch, "why", "train@scheduling.k8s.io").stdout
    assert "PodGroup train@scheduling.k8s.io, no queue yet: " in text
    assert "The controllers haven't given its PodGroup a queue yet (annotation " in text


def tree(*, created: str = SINCE, count: int = 2) -> dict[Kind, list[dict[str, Any]]]:
    """A cluster with a CompositePodGroup `all` of a JobSet above two PodGroups and another one."""
    found = job_objects.objects(PICTURE)
    whole = group_trees.root("all", count, queue="lab", status={"conditions": TREE_WAITS})
    middle = group_trees.root("middle", 1, parent="all")
    parts = [group_trees.group("driver", 1, "all"), group_trees.group("worker", 2, "middle")]
    members = [*native.pods("driver", 1), *native.pods("worker", 2)]
    for pod in members:
        job_objects.owned(pod, "Job", "fit", **{"jobset.sigs.k8s.io/jobset-name": "fits"})
    for each in (whole, middle, *parts, *members):
        each["metadata"] |= {"namespace": "default", "creationTimestamp": created}
    found[Kind.COMPOSITE_POD_GROUP] += [whole, middle]
    found[Kind.NATIVE_POD_GROUP] += parts
    found[Kind.POD] += members
    return found


TREE_WAITS = [{**WAITS[0], "type": "CompositePodGroupInitiallyScheduled"}, *WAITS[1:]]
TREE = "all@composite.scheduling.k8s.io"


def test_a_tree_is_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the pods of all of its PodGroups, of which each needs some."""
    found = json.loads(run(Fake(tree()), monkeypatch, "list", "-o", "json").stdout)["jobs"]
    by_name = {each["podGroup"]: each for each in found}
    assert set(by_name) == {"train", TREE}
    job = by_name[TREE]
    assert job["pods"] == {"running": 0, "minimum": 3, "total": 3}
    assert (job["workload"], job["queue"], job["state"]) == ("jobset/fits", "lab", "Inqueue")
    assert (job["message"], job["waitingSince"]) == (MESSAGE, SINCE)
    assert job["place"]["ofQueue"] == 2


@pytest.mark.parametrize(
    "name",
    [
        *("compositepodgroup/all", "CompositePodGroups.scheduling.k8s.io/all", TREE, f"pg/{TREE}"),
        *("middle", "pg/worker", "worker@scheduling.k8s.io", "pod/worker-1", "jobset/fits"),
        "job/fit",
    ],
)
def test_names_of_a_tree(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Its own, those of its parts and pods, and of whoever made these."""
    found = json.loads(run(Fake(tree()), monkeypatch, "why", name, "-o", "json").stdout)
    assert found["podGroup"] == TREE
    assert {each["change"] for each in found["remedies"]["remedies"]} >= {"MoreNodes"}


def test_why_a_tree_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """In words."""
    text = run(Fake(tree()), monkeypatch, "why", "compositepodgroup/all").stdout
    assert text.startswith("jobset/fits in namespace default has been waiting for ")
    assert "CompositePodGroup all, queue lab: 0 of 3 pods run; 3 must start together" in text
    assert "add 1 more node like n1" in text


def test_the_parts_of_a_tree_that_is_wrong_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for itself, and says why."""
    found = json.loads(run(Fake(tree(count=3)), monkeypatch, "list", "-o", "json").stdout)["jobs"]
    shown = {each["podGroup"] for each in found}
    assert shown == {"train", "driver@scheduling.k8s.io", "worker@scheduling.k8s.io"}


def test_trees_of_kube_scheduler_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pods name it."""
    found = tree()
    (whole, _) = found[Kind.COMPOSITE_POD_GROUP]
    whole["status"] = {"conditions": TREE_WAITS[:1]}
    for pod in found[Kind.POD]:
        if "schedulingGroup" in pod["spec"]:
            pod["spec"]["schedulerName"] = "default-scheduler"
    shown = json.loads(run(Fake(found), monkeypatch, "list", "-o", "json").stdout)["jobs"]
    assert [each["podGroup"] for each in shown] == ["train"]


def test_a_gang_without_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """No annotation names its scheduler: its pods do."""
    text = run(Fake(objects([], [])), monkeypatch, "why", "train@scheduling.k8s.io").stdout
    assert "create them, with the scheduler in spec.schedulerName." in text
    assert "scheduler-name" not in text


class Unserved(Fake):
    """A cluster without Kubernetes' own PodGroups."""

    def list(self, kind: Kind) -> Listing:
        """All but those."""
        if kind is Kind.NATIVE_POD_GROUP:
            raise NotServed("no such kind")
        return super().list(kind)


@pytest.mark.parametrize("namespace", [None, "default"])
@pytest.mark.parametrize("forbidden", [True, False])
def test_the_api_need_not_be_served(namespace: str | None, forbidden: bool) -> None:
    """An API server forbids what it doesn't serve, too: nothing is said of it."""
    found = job_objects.objects(PICTURE)
    fake: Any = Unserved(found)
    if forbidden:
        fake = Fake(found, refused=frozenset({Kind.NATIVE_POD_GROUP}))
    seen = placing.look(fake, namespace)
    assert seen.complete
    assert len(seen.groups) == 1
    assert Kind.NATIVE_POD_GROUP not in seen.objects
