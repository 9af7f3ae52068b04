"""Nodes that two schedulers use: races, kubelets that refuse the loser, and what comes of it."""

import time
from collections import Counter
from functools import partial

import pytest

from sandbox.control_plane import ControlPlane
from tests.integration import daemons, kubelets
from tests.integration.daemons import Start

ALONE = "left alone for {} s, as a kubelet refused a pod (OutOfcpu)"


def names(cluster: ControlPlane) -> Counter[str]:
    """Running pods by the scheduler that they name."""
    return Counter(
        pod["spec"]["schedulerName"]
        for pod in cluster.api.list(daemons.PODS)
        if pod["status"]["phase"] == "Running"
    )


def jobs_of(cluster: ControlPlane, scheduler: str, count: int) -> None:
    """So many jobs of one pod of one cpu for this scheduler."""
    for number in range(count):
        name = f"{scheduler.removeprefix('volcano-')}-{number}"
        daemons.a_gang(cluster, name, 1, annotations=kubelets.UNTOUCHED, scheduler=scheduler)


@pytest.mark.at_length
def test_a_refused_pod_is_not_bound_there_again_at_once(
    cluster: ControlPlane, start: Start
) -> None:
    """Its controller makes a new one at once, over and over: one bind, then one after 30 s."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_gang(cluster, "one", 1, annotations=kubelets.UNTOUCHED)
    with kubelets.running(cluster, lambda _asked, _free: False) as there:
        daemon = start("--leader-elect=false")
        daemons.until(lambda: there.refused, daemon)
        daemons.until(lambda: ALONE.format(30) in said(cluster, "one"), daemon)
        assert len(there.refused) == 1
        daemons.until(lambda: len(there.refused) == 2, daemon)
        first, second = there.refused
        assert second - first > 28, "30 s from the second in which it was refused"
        daemons.until(lambda: ALONE.format(60) in said(cluster, "one"), daemon)
        assert there.refused == [first, second]
    daemons.a_gang(cluster, "two", 1)
    cluster.create_nodes(count=1, first=1, cpu="4")
    daemons.until(lambda: set(daemons.nodes_of(cluster).values()) == {"node-1"}, daemon)


def said(cluster: ControlPlane, group: str) -> str:
    """Why the group waits."""
    return daemons.conditions(cluster, group).get("Unschedulable", {}).get("message", "")


@pytest.mark.at_length
def test_two_schedulers_on_the_same_nodes_overcommit_none(
    cluster: ControlPlane, start: Start
) -> None:
    """Room for half of what both want; the loser of a race goes elsewhere, or waits."""
    with kubelets.running(cluster) as there:
        online = start("--scheduler-name=volcano-online", "--leader-elect=false")
        offline = start(
            "--scheduler-name=volcano-offline", "--leader-elect=false", "--only=scheduler"
        )
        for name in ("volcano-online", "volcano-offline"):
            jobs_of(cluster, name, 16)
        for last, daemon in (("online-15", online), ("offline-15", offline)):
            daemons.until(partial(said, cluster, last), daemon)
        cluster.create_nodes(count=4, cpu="4")  # both see them at the same moment
        daemons.until(lambda: names(cluster).total() == 16, online)
        assert settled(cluster) == kubelets.room(cluster)
        print(f"{len(there.refused)} binds raced; {dict(names(cluster))}")  # noqa: T201
        assert online.stop() == 0
        for pod in cluster.api.list(daemons.PODS):
            if pod["spec"]["schedulerName"] == "volcano-online":
                cluster.api.delete(f"{daemons.PODS}/{pod['metadata']['name']}")
        daemons.until(lambda: names(cluster) == {"volcano-offline": 16}, offline)
        assert settled(cluster) == kubelets.room(cluster)
        assert offline.stop() == 0


def settled(cluster: ControlPlane) -> Counter[str]:
    """What runs, by node, once no bind is on the way."""
    deadline = time.monotonic() + daemons.PATIENCE_SECONDS
    while True:
        pods = cluster.api.list(daemons.PODS)
        if not any(p["spec"].get("nodeName") and p["status"]["phase"] == "Pending" for p in pods):
            return kubelets.used(pods)
        assert time.monotonic() < deadline
        time.sleep(kubelets.PERIOD_SECONDS)
