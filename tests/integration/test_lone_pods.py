"""Pods that need no PodGroup start without one, with the real controllers of Kubernetes around."""

import time
from functools import partial
from typing import Any

from sandbox.control_plane import ControlPlane
from tests.integration import daemons, tenancy
from tests.integration.daemons import Start
from tests.integration.test_auto_groups import (
    APPS,
    MIN_MEMBER,
    a_job,
    a_pod,
    a_set,
    groups,
    pods_of,
    scale,
    versions,
)

GRACE = "--podgroup-grace=1s"
QUEUE = "scheduling.volcano.sh/queue-name"
QUIET_SECONDS = 3.0


def group_names(cluster: ControlPlane, name: str) -> list[str]:
    """The PodGroups that live pods with this label name; empty for those that name none."""
    found = (pod["metadata"].get("annotations", {}) for pod in pods_of(cluster, name))
    return sorted(each.get(daemons.GROUP_NAME, "") for each in found)


def run(cluster: ControlPlane, name: str, count: int) -> bool:
    """Whether so many pods with this label run."""
    phases = [pod["status"].get("phase") for pod in pods_of(cluster, name)]
    return phases == ["Running"] * count


def queues(cluster: ControlPlane) -> set[str]:
    """The names of all Queues."""
    return {each["metadata"]["name"] for each in cluster.api.list(daemons.QUEUES)}


def counts(cluster: ControlPlane, queue: str) -> dict[str, Any]:
    """What a Queue's status counts."""
    status = tenancy.queue_of(cluster, queue).get("status", {})
    return {name: status.get(name, 0) for name in ("pending", "running", "completed")}


def test_only_pods_that_need_a_podgroup_have_one(cluster: ControlPlane, start: Start) -> None:
    """Of all kinds of owners; queues count the others, and wait for them when they are deleted."""
    cluster.create_nodes(count=1, cpu="16")
    daemons.a_queue(cluster, "lab")
    daemon = start(daemons.FOR_GANGS)
    a_pod(cluster, "bare", annotations={QUEUE: "lab"})
    a_set(cluster, "Deployment", "web", 2)
    a_set(cluster, "StatefulSet", "store", 2, {QUEUE: "lab"})
    a_job(cluster, "plain", 1)
    a_job(cluster, "gang", 2, **{MIN_MEMBER: "2"})
    for name, count in {"bare": 1, "web": 2, "store": 2, "plain": 1, "gang": 2}.items():
        daemons.until(partial(run, cluster, name, count), daemon)
    assert len(groups(cluster)) == 1
    assert all(group_names(cluster, "gang"))
    assert not any(group_names(cluster, "web"))
    daemons.until(lambda: counts(cluster, "lab")["running"] == 3, daemon)
    daemons.until(lambda: counts(cluster, "default")["running"] == 4, daemon)
    daemons.until_at_rest(lambda: versions(cluster), daemon, QUIET_SECONDS)

    cluster.api.delete(f"{daemons.QUEUES}/lab")
    time.sleep(QUIET_SECONDS)
    assert tenancy.state_of(cluster, "lab") == "Closing"
    cluster.api.delete(f"{APPS}/statefulsets/store")
    cluster.api.delete(f"{daemons.PODS}/bare")
    daemons.until(lambda: "lab" not in queues(cluster), daemon)
    assert daemon.stop() == 0


def test_a_running_installation_changes_its_mind_and_back(
    cluster: ControlPlane, start: Start
) -> None:
    """No pod that runs is lost, or placed anew; those that wait start in the end."""
    cluster.create_nodes(count=1, cpu="3")
    uids: dict[str, str] = {}

    def same() -> bool:
        now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods_of(cluster, "web")}
        return uids.items() <= now.items()

    daemon = start(daemons.FOR_ALL, GRACE)
    a_set(cluster, "Deployment", "web", 2)
    daemons.until(lambda: run(cluster, "web", 2), daemon)
    (name,) = groups(cluster)
    uids |= {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods_of(cluster, "web")}
    assert daemon.stop() == 0

    daemon = start(daemons.FOR_GANGS, GRACE)
    scale(cluster, "web", 3)
    daemons.until(lambda: run(cluster, "web", 3), daemon)
    assert group_names(cluster, "web") == ["", name, name]
    a_pod(cluster, "waits")
    assert same()
    assert daemon.stop() == 0

    daemon = start(daemons.FOR_ALL, GRACE)
    daemons.until(lambda: group_names(cluster, "web") == [name] * 3, daemon)
    daemons.until(lambda: all(group_names(cluster, "waits")), daemon)
    assert same()
    assert daemon.stop() == 0

    daemon = start(daemons.FOR_GANGS, GRACE)
    scale(cluster, "web", 0)
    daemons.until(lambda: run(cluster, "waits", 1), daemon)
    daemons.until(lambda: name not in groups(cluster), daemon)
    scale(cluster, "web", 1)
    daemons.until(lambda: run(cluster, "web", 1), daemon)
    assert group_names(cluster, "web") == [""]
    assert daemon.stop() == 0


def test_an_owner_gets_a_minimum_later(cluster: ControlPlane, start: Start) -> None:
    """Its pods get a PodGroup, also those that run; those to come wait for each other."""
    cluster.create_nodes(count=1, cpu="3")
    daemon = start(daemons.FOR_GANGS, GRACE)
    a_set(cluster, "ReplicaSet", "web", 2)
    daemons.until(lambda: run(cluster, "web", 2), daemon)
    path = f"{APPS}/replicasets/web"
    cluster.api.patch(path, {"metadata": {"annotations": {MIN_MEMBER: "2"}}})
    daemons.until(lambda: all(group_names(cluster, "web")), daemon)
    (group,) = groups(cluster).values()
    assert group["spec"]["minMember"] == 2
    assert run(cluster, "web", 2)
    cluster.api.patch(path, {"metadata": {"annotations": {MIN_MEMBER: None}}})
    cluster.api.patch(path, {"spec": {"replicas": 3}})
    daemons.until(lambda: run(cluster, "web", 3), daemon)
    assert daemon.stop() == 0
