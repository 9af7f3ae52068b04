"""Pods that kube-scheduler evicts for its own: their room isn't ours, however slow it is."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.control_plane import ControlPlane
from tests.integration import daemons, kubelets
from tests.integration.daemons import Start
from tests.integration.electors import KubeScheduler

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LONG_ENOUGH_SECONDS = 2.0
"""For a bind that is going to be."""


@pytest.fixture
def kube_scheduler(cluster: ControlPlane, tmp_path: Path) -> Iterator[KubeScheduler]:
    """Kubernetes' own scheduler, which doesn't outlive the test."""
    started = KubeScheduler(cluster, tmp_path / "kube-scheduler.log", elect=False)
    yield started
    started.process.kill()
    started.process.wait()


def a_pod(name: str, *finalizers: str, **spec: Any) -> dict[str, Any]:
    """A pod of kube-scheduler's of two cpus, which lingers while it has finalizers."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}}}
    return {
        "metadata": {
            "name": name,
            "annotations": kubelets.UNTOUCHED,
            "finalizers": list(finalizers),
        },
        "spec": {"containers": [container], **spec},
    }


def test_a_preemptor_of_kube_scheduler_finds_the_room_that_its_victim_left(
    cluster: ControlPlane,
    start: Start,
    kube_scheduler: KubeScheduler,
) -> None:
    """Its scheduler stands still just then, and ours, which is awake, leaves the room alone."""
    pods = cluster.api
    cluster.create_nodes(count=1, cpu="2")
    pods.create(PRIORITIES, {"metadata": {"name": "urgent"}, "value": 1000})
    pods.create(daemons.PODS, a_pod("victim", "example.com/slow", nodeName="node-0"))
    daemon = start(daemons.ALONE)
    pods.create(daemons.PODS, a_pod("preemptor", priorityClassName="urgent"))
    pods.wait_for(
        f"{daemons.PODS}/preemptor", lambda pod: pod["status"].get("nominatedNodeName") == "node-0"
    )
    pods.wait_for(
        f"{daemons.PODS}/victim", lambda pod: pod["metadata"].get("deletionTimestamp") is not None
    )  # kube-scheduler deletes it at its leisure, once the nomination is written
    kube_scheduler.process.send_signal(signal.SIGSTOP)
    daemons.a_gang(cluster, "eager", 1)
    pods.patch(f"{daemons.PODS}/victim", {"metadata": {"finalizers": None}})
    pods.delete(f"{daemons.PODS}/victim", gracePeriodSeconds=0)
    pods.wait_until_gone(f"{daemons.PODS}/victim")
    daemons.until(lambda: "nominated to pods of other schedulers" in said(cluster), daemon)
    time.sleep(LONG_ENOUGH_SECONDS)
    assert daemons.nodes_of(cluster) == {}
    kube_scheduler.process.send_signal(signal.SIGCONT)
    daemons.until(lambda: daemons.nodes_of(cluster) == {"preemptor": "node-0"}, daemon)
    pods.delete(f"{daemons.PODS}/preemptor", gracePeriodSeconds=0)
    daemons.until(lambda: daemons.nodes_of(cluster) == {"eager-0": "node-0"}, daemon)
    assert daemon.stop() == 0


def said(cluster: ControlPlane) -> str:
    """Why the gang waits."""
    return daemons.conditions(cluster, "eager").get("Unschedulable", {}).get("message", "")
