"""`vscheduler run` as a process, from the outside: what it does, and how it ends."""

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vscheduler.sandbox import control_plane

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
GROUP_NAME = "scheduling.k8s.io/group-name"
WATCHED = (PODS, GROUPS, EVENTS, "/apis/scheduling.volcano.sh/v1beta1/queues")
PATIENCE_SECONDS = 40.0


class Daemon:
    """A running scheduler and what it says."""

    def __init__(self, cluster: control_plane.ControlPlane, log: Path, *flags: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "vscheduler", "run", "--log-format=json"]
        with log.open("wb") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [*command, f"--kubeconfig={cluster.kubeconfig}", *flags], stderr=output
            )

    def said(self, event: str) -> list[dict[str, Any]]:
        """The log's lines about one kind of event."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


Start = Callable[..., Daemon]


@pytest.fixture
def start(cluster: control_plane.ControlPlane, tmp_path: Path) -> Iterator[Start]:
    """Start schedulers; none outlives the test."""
    started: list[Daemon] = []

    def begin(*flags: str) -> Daemon:
        started.append(Daemon(cluster, tmp_path / f"{len(started)}.log", *flags))
        return started[-1]

    yield begin
    for daemon in started:
        if daemon.process.poll() is None:
            daemon.process.kill()
            daemon.process.wait()


def a_gang(cluster: control_plane.ControlPlane, name: str, size: int, cpu: str = "1") -> None:
    """A PodGroup that needs all its pods, and its pods."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }
    cluster.api.create(GROUPS, group)
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    cluster.api.create_all(
        PODS,
        [
            {
                "metadata": {"name": f"{name}-{number}", "annotations": {GROUP_NAME: name}},
                "spec": {"schedulerName": "vscheduler", "containers": [container]},
            }
            for number in range(size)
        ],
    )


def nodes_of(cluster: control_plane.ControlPlane) -> dict[str, str]:
    """Bound pods and their nodes."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in cluster.api.list(PODS)
        if pod["spec"].get("nodeName")
    }


def until(done: Callable[[], object], daemon: Daemon) -> None:
    """Wait until something is so, and the daemon still runs."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert daemon.process.poll() is None, "the daemon has ended"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def versions(cluster: control_plane.ControlPlane) -> dict[str, str]:
    """The version of everything that the daemon may write to."""
    return {
        each["metadata"]["uid"]: each["metadata"]["resourceVersion"]
        for path in WATCHED
        for each in cluster.api.list(path)
    }


def phase(cluster: control_plane.ControlPlane, group: str) -> str:
    """A PodGroup's phase."""
    return str(cluster.api.get(f"{GROUPS}/{group}").get("status", {}).get("phase", ""))


def conditions(cluster: control_plane.ControlPlane, group: str) -> dict[str, dict[str, str]]:
    """A PodGroup's conditions by type."""
    status = cluster.api.get(f"{GROUPS}/{group}").get("status", {})
    return {each["type"]: each for each in status.get("conditions", [])}


def test_a_gang_runs_whole_another_waits_with_a_reason_and_then_all_is_quiet(
    cluster: control_plane.ControlPlane, start: Start
) -> None:
    """The seed case: all of one gang, nothing of the other, numbers, no writes at rest."""
    cluster.create_nodes(count=2, cpu="4")
    a_gang(cluster, "fits", 5)
    a_gang(cluster, "large", 3, cpu="3")
    daemon = start()
    until(lambda: phase(cluster, "fits") == "Running", daemon)
    until(lambda: "Unschedulable" in conditions(cluster, "large"), daemon)
    until(lambda: len(pod_conditions(cluster, "large")) == 3, daemon)
    assert sorted(nodes_of(cluster)) == [f"fits-{number}" for number in range(5)]
    found = conditions(cluster, "large")["Unschedulable"]
    assert found["status"] == "True"
    assert re.search(r"\d cpu", found["message"])
    assert set(pod_conditions(cluster, "large")) == {("False", "Unschedulable")}
    time.sleep(2)
    before = versions(cluster)
    time.sleep(3)
    assert versions(cluster) == before
    notices = Counter(each["reason"] for each in cluster.api.list(EVENTS))
    assert (notices["Scheduled"], notices["Unschedulable"]) == (6, 1)
    assert daemon.stop() == 0
    assert daemon.said("stopped")


def pod_conditions(cluster: control_plane.ControlPlane, group: str) -> list[tuple[str, str]]:
    """Status and reason of condition PodScheduled of the group's pods that have it."""
    return [
        (each["status"], each.get("reason", ""))
        for pod in cluster.api.list(PODS)
        if pod["metadata"]["annotations"][GROUP_NAME] == group
        for each in pod["status"].get("conditions", [])
        if each["type"] == "PodScheduled"
    ]


def test_room_that_comes_free_starts_what_waits(
    cluster: control_plane.ControlPlane, start: Start
) -> None:
    """No polling: the deletion of pods, or a new node, is what makes the next cycle."""
    cluster.create_nodes(count=1, cpu="4")
    a_gang(cluster, "first", 4)
    daemon = start()
    until(lambda: len(nodes_of(cluster)) == 4, daemon)
    a_gang(cluster, "second", 4)
    until(lambda: "Unschedulable" in conditions(cluster, "second"), daemon)
    cluster.create_nodes(count=1, first=1, cpu="4")
    until(lambda: len(nodes_of(cluster)) == 8, daemon)
    until(lambda: conditions(cluster, "second")["Unschedulable"]["status"] == "False", daemon)
    assert daemon.stop() == 0


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL])
def test_an_end_in_the_middle_binds_nothing_twice(
    cluster: control_plane.ControlPlane, start: Start, way: signal.Signals
) -> None:
    """Stopped or killed while it binds; the next one binds the rest, and moves nothing."""
    cluster.create_nodes(count=10, cpu="32")
    for number in range(10):
        a_gang(cluster, f"gang-{number}", 20)
    first = start()
    until(lambda: len(nodes_of(cluster)) > 10, first)
    first.process.send_signal(way)
    status = first.process.wait(PATIENCE_SECONDS)
    assert status == (0 if way is signal.SIGTERM else -signal.SIGKILL)
    before = nodes_of(cluster)
    second = start()
    until(lambda: len(nodes_of(cluster)) == 200, second)
    after = nodes_of(cluster)
    assert before.items() <= after.items()
    assert max(Counter(after.values()).values()) <= 32
    until(lambda: all(phase(cluster, f"gang-{n}") == "Running" for n in range(10)), second)
    again = {line["pod"] for line in second.said("bind.failed")}
    assert not again & {f"default/{name}" for name in before}
    assert second.stop() == 0


def test_what_cannot_start_says_why(
    cluster: control_plane.ControlPlane, start: Start, tmp_path: Path
) -> None:
    """A kubeconfig that isn't there; an address that is taken."""
    nowhere = start(f"--kubeconfig={tmp_path / 'none'}")
    assert nowhere.process.wait(PATIENCE_SECONDS) == 1
    assert "none" in nowhere.said("start.failed")[0]["message"]
    port = int(cluster.url.rpartition(":")[2])
    taken = start("--enable-metrics", f"--listen-address=127.0.0.1:{port}")
    assert taken.process.wait(PATIENCE_SECONDS) == 1
    assert str(port) in taken.said("start.failed")[0]["message"]
