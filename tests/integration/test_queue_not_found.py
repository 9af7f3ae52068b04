"""A PodGroup of a queue that doesn't exist: no policy can see it, so its condition tells."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons
from tests.integration.daemons import Start

ADMISSION = Path(__file__).parents[2] / "manifests" / "admission"
DEFAULT = f"{daemons.QUEUES}/default"


@pytest.fixture(params=[False, True], ids=["no policies", "all policies"])
def guarded(request: pytest.FixtureRequest, cluster: ControlPlane) -> Iterator[ControlPlane]:
    """The sandbox with a node and the default queue, without policies and with them."""
    folder = ("--recursive", f"--filename={ADMISSION}")
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_queue(cluster, "default")
    try:
        if request.param:
            cluster.run_kubectl("apply", *folder)
            wait_for_verdict(cluster, 403)
        yield cluster
    finally:
        cluster.run_kubectl("delete", "--ignore-not-found", *folder)
        wait_for_verdict(cluster, 200)


def wait_for_verdict(cluster: ControlPlane, status: int) -> None:
    """Until a delete of the default queue would have this answer."""
    query = {"dryRun": "All"}
    patience.wait_until(lambda: cluster.api.ask("DELETE", DEFAULT, query=query).status == status)


def pod_reasons(cluster: ControlPlane) -> list[str]:
    """Of the conditions of pods that aren't scheduled."""
    return [
        each["reason"]
        for pod in cluster.api.list(daemons.PODS)
        for each in pod["status"].get("conditions", [])
        if (each["type"], each["status"]) == ("PodScheduled", "False")
    ]


def test_group_waits_for_its_queue_and_starts_once_there_is_one(
    guarded: ControlPlane, start: Start
) -> None:
    """The condition names the queue and what would help, and turns when it is so."""
    daemon = start()
    daemons.a_gang(guarded, "early", 2, group={"queue": "late"})
    daemons.until(lambda: "Unschedulable" in daemons.conditions(guarded, "early"), daemon)
    told = daemons.conditions(guarded, "early")["Unschedulable"]
    assert (told["status"], told["reason"]) == ("True", "QueueNotFound")
    assert told["message"] == "queue late doesn't exist; create it, or name another in spec.queue"
    daemons.until(lambda: len(pod_reasons(guarded)) == 2, daemon)
    assert set(pod_reasons(guarded)) == {"QueueNotFound"}, "an autoscaler would add nodes in vain"
    assert daemons.nodes_of(guarded) == {}
    daemons.a_queue(guarded, "late")
    daemons.until(lambda: len(daemons.nodes_of(guarded)) == 2, daemon)
    daemons.until(
        lambda: daemons.conditions(guarded, "early")["Unschedulable"]["status"] == "False", daemon
    )
    assert daemons.phase(guarded, "early") in {"Inqueue", "Running"}
    assert daemon.stop() == 0
