"""`vscheduler run` as a process, from the outside: what it does, and how it ends."""

import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from sandbox.control_plane import ControlPlane
from tests.integration import daemons
from tests.integration.daemons import Start

WATCHED = (daemons.PODS, daemons.GROUPS, daemons.EVENTS, daemons.QUEUES)


def versions(cluster: ControlPlane) -> dict[str, str]:
    """The version of everything that the daemon may write to."""
    return {
        each["metadata"]["uid"]: each["metadata"]["resourceVersion"]
        for path in WATCHED
        for each in cluster.api.list(path)
    }


def test_a_gang_runs_whole_another_waits_with_a_reason_and_then_all_is_quiet(
    cluster: ControlPlane, start: Start
) -> None:
    """The seed case: all of one gang, nothing of the other, numbers, no writes at rest."""
    cluster.create_nodes(count=2, cpu="4")
    daemons.a_gang(cluster, "fits", 5)
    daemons.a_gang(cluster, "large", 3, cpu="3")
    daemon = start()
    daemons.until(lambda: daemons.phase(cluster, "fits") == "Running", daemon)
    daemons.until(lambda: "Unschedulable" in daemons.conditions(cluster, "large"), daemon)
    daemons.until(lambda: len(pod_conditions(cluster, "large")) == 3, daemon)
    assert sorted(daemons.nodes_of(cluster)) == [f"fits-{number}" for number in range(5)]
    found = daemons.conditions(cluster, "large")["Unschedulable"]
    assert found["status"] == "True"
    assert re.search(r"\d cpu", found["message"])
    assert set(pod_conditions(cluster, "large")) == {("False", "Unschedulable")}
    daemons.until_at_rest(lambda: versions(cluster), daemon, 3)
    notices = Counter(each["reason"] for each in cluster.api.list(daemons.EVENTS))
    assert (notices["Scheduled"], notices["Unschedulable"]) == (6, 1)
    assert daemon.stop() == 0
    assert daemon.said("stopped")


def pod_conditions(cluster: ControlPlane, group: str) -> list[tuple[str, str]]:
    """Status and reason of condition PodScheduled of the group's pods that have it."""
    return [
        (each["status"], each.get("reason", ""))
        for pod in cluster.api.list(daemons.PODS)
        if pod["metadata"]["annotations"][daemons.GROUP_NAME] == group
        for each in pod["status"].get("conditions", [])
        if each["type"] == "PodScheduled"
    ]


def test_room_that_comes_free_starts_what_waits(cluster: ControlPlane, start: Start) -> None:
    """No polling: the deletion of pods, or a new node, is what makes the next cycle."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_gang(cluster, "first", 4)
    daemon = start()
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 4, daemon)
    daemons.a_gang(cluster, "second", 4)
    daemons.until(lambda: "Unschedulable" in daemons.conditions(cluster, "second"), daemon)
    cluster.create_nodes(count=1, first=1, cpu="4")
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 8, daemon)
    daemons.until(
        lambda: daemons.conditions(cluster, "second")["Unschedulable"]["status"] == "False", daemon
    )
    assert daemon.stop() == 0


@pytest.mark.parametrize(
    "way", [pytest.param(signal.SIGTERM, marks=pytest.mark.at_length), signal.SIGKILL]
)
def test_an_end_in_the_middle_binds_nothing_twice(
    cluster: ControlPlane, start: Start, way: signal.Signals
) -> None:
    """Stopped or killed while it binds; the next one binds the rest, and moves nothing."""
    cluster.create_nodes(count=10, cpu="32")
    for number in range(10):
        daemons.a_gang(cluster, f"gang-{number}", 20)
    first = start()
    daemons.until(lambda: len(daemons.nodes_of(cluster)) > 10, first)
    first.process.send_signal(way)
    status = first.process.wait(daemons.PATIENCE_SECONDS)
    assert status == (0 if way is signal.SIGTERM else -signal.SIGKILL)
    before = daemons.nodes_of(cluster)
    second = start()
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 200, second)
    after = daemons.nodes_of(cluster)
    assert before.items() <= after.items()
    assert max(Counter(after.values()).values()) <= 32
    daemons.until(
        lambda: all(daemons.phase(cluster, f"gang-{n}") == "Running" for n in range(10)), second
    )
    again = {line["pod"] for line in second.said("bind.failed")}
    assert not again & {f"default/{name}" for name in before}
    assert second.stop() == 0


def test_a_group_says_what_it_is_from_its_first_day_to_its_last(
    cluster: ControlPlane, start: Start
) -> None:
    """Pending while it isn't let in; and again when its pods are gone, which its queue counts."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_gang(cluster, "gang", 2)
    daemons.a_gang(cluster, "shut-out", 1, group={"minResources": {"cpu": "64"}})
    daemon = start()
    daemons.until(lambda: daemons.phase(cluster, "gang") == "Running", daemon)
    daemons.until(lambda: daemons.phase(cluster, "shut-out") == "Pending", daemon)
    daemons.until(lambda: counted(cluster) == (1, 1), daemon)
    for pod in ("gang-0", "gang-1"):
        cluster.api.delete(f"{daemons.PODS}/{pod}", gracePeriodSeconds=0)
    daemons.until(lambda: daemons.phase(cluster, "gang") == "Pending", daemon)
    status = cluster.api.get(f"{daemons.GROUPS}/gang")["status"]
    assert not status.get("running")
    daemons.until(lambda: counted(cluster) == (2, 0), daemon)


def counted(cluster: ControlPlane) -> tuple[int, int]:
    """How many PodGroups the default queue says are pending, and running."""
    status = cluster.api.get(f"{daemons.QUEUES}/default").get("status", {})
    return status.get("pending", 0), status.get("running", 0)


def test_what_cannot_start_says_why(cluster: ControlPlane, start: Start, tmp_path: Path) -> None:
    """A kubeconfig that isn't there; an address that is taken."""
    nowhere = start(f"--kubeconfig={tmp_path / 'none'}")
    assert nowhere.process.wait(daemons.PATIENCE_SECONDS) == 1
    assert "none" in nowhere.said("start.failed")[0]["message"]
    port = int(cluster.url.rpartition(":")[2])
    taken = start("--enable-metrics", f"--listen-address=127.0.0.1:{port}")
    assert taken.process.wait(daemons.PATIENCE_SECONDS) == 1
    assert str(port) in taken.said("start.failed")[0]["message"]
