"""PodGroups for pods that have none, with the real controllers of Kubernetes around."""

import time
from functools import partial
from typing import Any

import pytest

from sandbox.control_plane import ControlPlane
from tests.integration import daemons
from tests.integration.daemons import Start
from vscheduler.mirror.translate import pod_owners

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MANAGED_BY = "app.kubernetes.io/managed-by"
SCHEDULER = "scheduling.volcano.sh/scheduler-name"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUIET_SECONDS = 3.0
Document = dict[str, Any]


@pytest.fixture
def start(start: Start) -> Start:
    """Daemons that make PodGroups for all pods."""
    return partial(start, daemons.FOR_ALL)


def template(name: str, *, scheduler: str = "vscheduler", **more: Any) -> Document:
    """Of pods of one cpu that name no group."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"schedulerName": scheduler, "containers": [container], **more},
    }


def a_pod(
    cluster: ControlPlane,
    name: str,
    *,
    scheduler: str = "vscheduler",
    **metadata: Any,
) -> Document:
    """A pod without a group; as it is stored."""
    made = template(name, scheduler=scheduler)
    return cluster.api.create(
        daemons.PODS, {**made, "metadata": {"name": name, "labels": {"app": name}, **metadata}}
    )


def a_set(
    cluster: ControlPlane,
    kind: str,
    name: str,
    replicas: int,
    annotations: dict[str, str] | None = None,
) -> Document:
    """A Deployment, ReplicaSet or StatefulSet; as it is stored."""
    spec: Document = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": template(name),
    }
    if kind == "StatefulSet":
        spec["podManagementPolicy"] = "Parallel"
    body = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": spec,
    }
    return cluster.api.create(f"{APPS}/{kind.lower()}s", body)


def a_job(cluster: ControlPlane, name: str, parallelism: int, **annotations: str) -> Document:
    """A Job; as it is stored."""
    made = template(name, restartPolicy="Never")
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parallelism": parallelism, "completions": parallelism, "template": made},
    }
    return cluster.api.create(JOBS, body)


def scale(cluster: ControlPlane, name: str, replicas: int) -> None:
    """Scale a Deployment."""
    cluster.api.patch(f"{APPS}/deployments/{name}", {"spec": {"replicas": replicas}})


def groups(cluster: ControlPlane) -> dict[str, Document]:
    """PodGroups by name."""
    return {each["metadata"]["name"]: each for each in cluster.api.list(daemons.GROUPS)}


def pods_of(cluster: ControlPlane, name: str) -> list[Document]:
    """The live pods with this label."""
    return [
        pod
        for pod in cluster.api.list(daemons.PODS)
        if pod["metadata"].get("labels", {}).get("app") == name
        and "deletionTimestamp" not in pod["metadata"]
    ]


def run(cluster: ControlPlane, name: str, count: int, group: str = "") -> bool:
    """Whether so many pods run, all of the same group that is there."""
    found = pods_of(cluster, name)
    named = {pod["metadata"].get("annotations", {}).get(daemons.GROUP_NAME) for pod in found}
    return (
        len(found) == count
        and all(pod["status"].get("phase") == "Running" for pod in found)
        and len(named) == 1
        and named <= groups(cluster).keys()
        and (not group or named == {group})
    )


def group_of(owner: Document) -> str:
    """The name of its automatic group."""
    return pod_owners.short_name(owner["metadata"]["name"], owner["metadata"]["uid"])


def test_pods_of_every_owner_get_a_group_and_run(cluster: ControlPlane, start: Start) -> None:
    """Bare, of a ReplicaSet, a StatefulSet, a Job, and of an owner of whatever kind."""
    cluster.create_nodes(count=2, cpu="16")
    daemon = start()
    pod = a_pod(cluster, "bare")
    replica_set = a_set(cluster, "ReplicaSet", "replicas", 3, {MIN_MEMBER: "2"})
    stateful_set = a_set(cluster, "StatefulSet", "stateful", 2)
    job = a_job(cluster, "job", 4, **{MIN_MEMBER: "parallelism"})
    stranger = cluster.api.create(CONFIG_MAPS, {"metadata": {"name": "stranger"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "stranger",
        "uid": stranger["metadata"]["uid"],
        "controller": True,
    }
    for number in range(2):
        a_pod(cluster, f"odd-{number}", labels={"app": "odd"}, ownerReferences=[reference])
    expected = {
        "bare": (pod, 1, 1),
        "replicas": (replica_set, 3, 2),
        "stateful": (stateful_set, 2, 1),
        "job": (job, 4, 4),
        "odd": (stranger, 2, 1),
    }
    for name, (owner, count, _) in expected.items():
        daemons.until(partial(run, cluster, name, count, group_of(owner)), daemon)
    found = groups(cluster)
    assert len(found) == len(expected)
    for owner, _, minimum in expected.values():
        group = found[group_of(owner)]
        assert group["metadata"]["labels"][MANAGED_BY] == "vscheduler"
        assert group["metadata"]["annotations"][SCHEDULER] == "vscheduler"
        assert group["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
        assert group["spec"]["minMember"] == minimum
        assert group["spec"]["minResources"]["cpu"] == str(minimum)
        assert group["spec"]["queue"] == "default"
    made = daemon.said("podgroup.created")
    assert len(made) == len(expected)
    assert daemon.stop() == 0


def test_a_group_follows_its_owner(cluster: ControlPlane, start: Start) -> None:
    """Its minMember is what is asked for, as far as there are pods; what a user edits stays."""
    cluster.create_nodes(count=1, cpu="16")
    daemon = start()
    owner = a_set(cluster, "ReplicaSet", "gang", 2, {MIN_MEMBER: "3"})
    name = group_of(owner)
    path = f"{APPS}/replicasets/gang"

    def least() -> tuple[int, str]:
        spec = groups(cluster)[name]["spec"]
        return spec["minMember"], spec["minResources"]["cpu"]

    daemons.until(lambda: run(cluster, "gang", 2, name), daemon)
    assert least() == (2, "2")
    cluster.api.patch(path, {"spec": {"replicas": 5}})
    daemons.until(lambda: run(cluster, "gang", 5, name) and least() == (3, "3"), daemon)
    cluster.api.patch(path, {"metadata": {"annotations": {MIN_MEMBER: "4"}}})
    daemons.until(lambda: least() == (4, "4"), daemon)
    cluster.api.patch(f"{daemons.GROUPS}/{name}", {"spec": {"minMember": 1}})
    cluster.api.patch(path, {"metadata": {"annotations": {MIN_MEMBER: "5"}}})
    daemons.until(lambda: least() == (1, "5"), daemon)
    assert daemon.stop() == 0


def test_a_group_is_used_again_within_its_grace_and_made_anew_after(
    cluster: ControlPlane, start: Start
) -> None:
    """A Deployment goes 1→0→1, quickly and slowly; its pod always runs in a group that is there."""
    cluster.create_nodes(count=1, cpu="16")
    daemon = start("--podgroup-grace=2s")
    a_set(cluster, "Deployment", "web", 1)
    daemons.until(lambda: run(cluster, "web", 1), daemon)
    ((name, first),) = groups(cluster).items()

    scale(cluster, "web", 0)
    daemons.until(lambda: not pods_of(cluster, "web"), daemon)
    scale(cluster, "web", 1)
    daemons.until(lambda: run(cluster, "web", 1, name), daemon)
    time.sleep(QUIET_SECONDS)
    assert groups(cluster)[name]["metadata"]["uid"] == first["metadata"]["uid"]
    assert daemon.said("podgroup.deleted") == []

    scale(cluster, "web", 0)
    daemons.until(lambda: daemon.said("podgroup.deleted"), daemon)
    (gone,) = daemon.said("podgroup.deleted")
    assert groups(cluster) == {}
    assert gone["uid"] == first["metadata"]["uid"]
    scale(cluster, "web", 1)
    daemons.until(lambda: run(cluster, "web", 1, name), daemon)
    assert groups(cluster)[name]["metadata"]["uid"] != first["metadata"]["uid"]
    assert daemon.stop() == 0


def test_groups_of_others_are_never_deleted(cluster: ControlPlane, start: Start) -> None:
    """One that a user made under such a name, and one of another scheduler, stay; pods use them."""
    cluster.create_nodes(count=1, cpu="16")
    owners = {name: a_set(cluster, "ReplicaSet", name, 0) for name in ("ours", "theirs", "other")}
    for name, labels, scheduler in (
        ("theirs", {}, "vscheduler"),
        ("other", {MANAGED_BY: "vscheduler"}, "second"),
    ):
        body = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": group_of(owners[name]),
                "labels": labels,
                "annotations": {SCHEDULER: scheduler},
            },
            "spec": {"minMember": 1},
        }
        cluster.api.create(daemons.GROUPS, body)
    before = {name: each["metadata"]["uid"] for name, each in groups(cluster).items()}
    daemon = start("--podgroup-grace=0s")
    for name in owners:
        cluster.api.patch(f"{APPS}/replicasets/{name}", {"spec": {"replicas": 1}})
    for name, owner in owners.items():
        daemons.until(partial(run, cluster, name, 1, group_of(owner)), daemon)
    for name in owners:
        cluster.api.patch(f"{APPS}/replicasets/{name}", {"spec": {"replicas": 0}})
    daemons.until(lambda: len(groups(cluster)) == 2, daemon)
    time.sleep(QUIET_SECONDS)
    assert {name: each["metadata"]["uid"] for name, each in groups(cluster).items()} == before
    (gone,) = daemon.said("podgroup.deleted")
    assert gone["podgroup"] == f"default/{group_of(owners['ours'])}"
    assert daemon.stop() == 0


def test_a_group_that_is_lost_is_made_anew(cluster: ControlPlane, start: Start) -> None:
    """Somebody deletes the PodGroup of a running pod, while the daemon is there and while not."""
    cluster.create_nodes(count=1, cpu="16")
    daemon = start()
    name = group_of(a_pod(cluster, "bare"))
    daemons.until(lambda: run(cluster, "bare", 1, name), daemon)
    seen = {groups(cluster)[name]["metadata"]["uid"]}
    cluster.api.delete(f"{daemons.GROUPS}/{name}")
    daemons.until(lambda: name in groups(cluster), daemon)
    seen.add(groups(cluster)[name]["metadata"]["uid"])
    assert daemon.stop() == 0
    cluster.api.delete(f"{daemons.GROUPS}/{name}")
    second = start()
    daemons.until(lambda: name in groups(cluster), second)
    seen.add(groups(cluster)[name]["metadata"]["uid"])
    daemons.until(lambda: daemons.phase(cluster, name) == "Running", second)
    assert len(seen) == 3
    assert second.stop() == 0


def test_two_daemons_keep_to_their_own(cluster: ControlPlane, start: Start) -> None:
    """Each is restarted in turn; bare pods of both get groups, nobody touches the other's."""
    cluster.create_nodes(count=1, cpu="32")
    names = ("volcano-online", "volcano-offline")
    flags = "--podgroup-grace=0s"
    running = {name: start(flags, f"--scheduler-name={name}") for name in names}
    every = list(running.items())
    for turn in range(4):
        restarted = names[turn % 2]
        if turn:
            assert running[restarted].stop() == 0
        for name in names:
            a_pod(cluster, f"{name}-{turn}", scheduler=name)
        if turn:
            running[restarted] = start(flags, f"--scheduler-name={restarted}")
            every.append((restarted, running[restarted]))
        for name in names:
            daemons.until(partial(run, cluster, f"{name}-{turn}", 1), running[name])
    for name, daemon in every:
        for line in daemon.said("podgroup.created"):
            group = groups(cluster)[line["podgroup"].partition("/")[2]]
            assert group["metadata"]["annotations"][SCHEDULER] == name
            assert group["metadata"]["ownerReferences"][0]["name"].startswith(name)
        assert daemon.said("podgroup.deleted") == []
    assert sum(len(daemon.said("podgroup.created")) for _, daemon in every) == 8
    assert [running[name].stop() for name in names] == [0, 0]


def test_pods_that_wait_for_their_group_to_be_admitted(cluster: ControlPlane, start: Start) -> None:
    """As Volcano's job controller does: the PodGroup first, its pods once it is Inqueue."""
    cluster.create_nodes(count=1, cpu="4")
    daemon = start()
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "early", "annotations": {SCHEDULER: "vscheduler"}},
        "spec": {"minMember": 2, "minResources": {"cpu": "2"}},
    }
    cluster.api.create(daemons.GROUPS, body)
    daemons.until(lambda: daemons.phase(cluster, "early") == "Inqueue", daemon)
    for number in range(2):
        name = {daemons.GROUP_NAME: "early"}
        a_pod(cluster, f"early-{number}", labels={"app": "early"}, annotations=name)
    daemons.until(lambda: run(cluster, "early", 2, "early"), daemon)
    assert list(groups(cluster)) == ["early"]
    assert daemon.stop() == 0


def test_each_half_runs_alone(cluster: ControlPlane, start: Start) -> None:
    """Controllers make groups and place nothing, a scheduler places and makes none; then rest."""
    cluster.create_nodes(count=1, cpu="16")
    scheduler = start("--only=scheduler")
    owner = a_set(cluster, "ReplicaSet", "pair", 2)
    daemons.until(lambda: scheduler.said("pods.ungrouped"), scheduler)
    assert groups(cluster) == {}
    assert scheduler.stop() == 0
    controllers = start("--only", "controllers")
    name = group_of(owner)
    daemons.until(lambda: name in groups(cluster), controllers)

    def joined() -> bool:
        named = [
            pod["metadata"].get("annotations", {}).get(daemons.GROUP_NAME)
            for pod in pods_of(cluster, "pair")
        ]
        return named == [name, name]

    daemons.until(joined, controllers)
    daemons.until_at_rest(lambda: versions(cluster), controllers, QUIET_SECONDS)
    assert daemons.nodes_of(cluster) == {}
    assert daemons.phase(cluster, name) in ("", "Pending")
    second = start("--only=scheduler")
    daemons.until(lambda: run(cluster, "pair", 2, name), second)
    assert [second.stop(), controllers.stop()] == [0, 0]


def versions(cluster: ControlPlane) -> dict[str, str]:
    """The version of everything that controllers may write to."""
    return {
        each["metadata"]["uid"]: each["metadata"]["resourceVersion"]
        for path in (daemons.PODS, daemons.GROUPS, daemons.QUEUES)
        for each in cluster.api.list(path)
    }


def test_a_pod_is_told_of_the_quota_that_refuses_its_group(
    cluster: ControlPlane, start: Start
) -> None:
    """In an event, once; when there is room for the group, the pod runs."""
    cluster.create_nodes(count=1, cpu="4")
    counted = "count/podgroups.scheduling.volcano.sh"
    quotas = "/api/v1/namespaces/default/resourcequotas"
    spec = {"hard": {counted: "0"}}
    cluster.api.create(quotas, {"metadata": {"name": "small"}, "spec": spec})
    cluster.api.patch(f"{quotas}/small/status", {"status": {**spec, "used": {counted: "0"}}})
    daemon = start(daemons.ALONE)
    a_pod(cluster, "bare")

    def told() -> list[str]:
        return [
            each["note"]
            for each in cluster.api.list(daemons.EVENTS)
            if (each["reason"], each["regarding"]["name"]) == ("PodGroupRefused", "bare")
        ]

    daemons.until(told, daemon)
    time.sleep(QUIET_SECONDS)
    (note,) = told()
    assert "exceeded quota: small" in note
    assert groups(cluster) == {}
    cluster.api.delete(f"{quotas}/small")
    daemons.until(lambda: run(cluster, "bare", 1), daemon)
    assert daemon.stop() == 0
