"""What queues have used, kept on a real API server while schedulers come and go."""

import time
from pathlib import Path

import pytest

from sandbox.control_plane import ControlPlane
from sandbox.errors import ApiError
from tests.integration import daemons
from tests.integration.daemons import Start
from vscheduler.cluster.writes import queue_status_writer
from vscheduler.mirror.translate import usage_annotation as annotations
from vscheduler.model.queues import Usage

KEY = annotations.annotation("vscheduler")
REST_SECONDS = 2.0
CONFIGURATION = """
actions: allocate
tiers:
- plugins: [{name: gang}, {name: fairshare}, {name: predicates}]
"""


@pytest.fixture
def conf(tmp_path: Path) -> str:
    """The flag of a configuration in which history decides."""
    path = tmp_path / "conf.yaml"
    path.write_text(CONFIGURATION)
    return f"--scheduler-conf={path}"


def record(cluster: ControlPlane, queue: str) -> Usage | None:
    """What is written on a queue."""
    metadata = cluster.api.get(f"{daemons.QUEUES}/{queue}")["metadata"]
    text = metadata.get("annotations", {}).get(KEY)
    return None if text is None else annotations.parse(text)


def rate(cluster: ControlPlane, queue: str) -> float | None:
    """What is in use, as it is written."""
    found = record(cluster, queue)
    return None if found is None else found.queue.rate


def rests(cluster: ControlPlane, *queues: str) -> bool:
    """Whether nothing is written to these for a while: their statuses may be still on their way."""
    before = versions(cluster, *queues)
    time.sleep(REST_SECONDS)
    return versions(cluster, *queues) == before


def versions(cluster: ControlPlane, *queues: str) -> list[str]:
    """They change with every write."""
    return [
        str(cluster.api.get(f"{daemons.QUEUES}/{queue}")["metadata"]["resourceVersion"])
        for queue in queues
    ]


def delete_pod(cluster: ControlPlane, name: str) -> None:
    """It is gone when this returns."""
    cluster.api.delete(f"{daemons.PODS}/{name}", gracePeriodSeconds=0)
    cluster.api.wait_until_gone(f"{daemons.PODS}/{name}")


def test_a_killed_scheduler_has_written_what_the_next_one_goes_on_from(
    cluster: ControlPlane, start: Start, conf: str
) -> None:
    """Gold is the older queue, and has used the node so far: lead comes first. What changes in
    between two writes is written when the scheduler stops.
    """
    cluster.create_nodes(count=1, cpu="2")
    daemons.a_queue(cluster, "gold")
    daemons.a_gang(cluster, "long", 1, "2", group={"queue": "gold"})
    killed = start(conf, daemons.ALONE, "--only=scheduler")
    daemons.until(lambda: rate(cluster, "gold") == 2.0, killed)
    before = record(cluster, "gold")
    killed.process.kill()
    killed.process.wait()
    assert before is not None
    assert before.namespaces.keys() == {"default"}
    time.sleep(REST_SECONDS)
    assert record(cluster, "gold") == before
    delete_pod(cluster, "long-0")
    daemons.a_queue(cluster, "lead")
    for queue in ("gold", "lead"):
        daemons.a_gang(cluster, queue, 1, "2", group={"queue": queue})
    daemon = start(conf, daemons.ALONE, "--only=scheduler")
    daemons.until(lambda: rate(cluster, "gold") == 0.0, daemon)
    daemons.until(lambda: rate(cluster, "lead") == 2.0, daemon)
    assert daemons.nodes_of(cluster).keys() == {"lead-0"}
    after = record(cluster, "gold")
    assert after is not None
    passed = after.time - before.time
    assert passed > REST_SECONDS
    assert after.queue.used == pytest.approx(before.queue.used + 2.0 * passed, rel=1e-4)
    assert after.namespaces["default"] == after.queue
    daemons.until(lambda: rests(cluster, "gold", "lead"), daemon)
    delete_pod(cluster, "lead-0")
    daemons.until(lambda: daemons.nodes_of(cluster).keys() == {"gold-0"}, daemon)
    assert daemon.stop() == 0
    assert [rate(cluster, queue) for queue in ("gold", "lead")] == [2.0, 0.0]
    assert [each for each in daemon.said("write.failed") if each["write"] == "usage"] == []


def test_a_record_is_of_one_queue_only(cluster: ControlPlane) -> None:
    """A patch that names the UID of an earlier queue of the name is refused."""
    daemons.a_queue(cluster, "gold")
    body = {"metadata": {"uid": "of-another", "annotations": {KEY: "x"}}}
    with pytest.raises(ApiError, match=queue_status_writer.UID_DIFFERS) as caught:
        cluster.api.patch(f"{daemons.QUEUES}/gold", body)
    assert caught.value.status == 422
    assert record(cluster, "gold") is None
