"""History on a real API server, through the death of the process that keeps it."""

import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from click import testing

from sandbox.control_plane import ControlPlane
from tests.integration import daemons
from tests.integration.daemons import Start
from vscheduler.cli import main
from vscheduler.history.queries import Filter, PastJob, Reader
from vscheduler.history.records import JobState
from vscheduler.history.schema import HistoryError


def jobs(path: Path) -> dict[str, PastJob]:
    """What the file tells by now; nothing while it has no tables."""
    with suppress(HistoryError):
        now = int(time.time())
        return {job.job: job for job in Reader(path).jobs(Filter(), now, limit=100)}
    return {}


def seconds(pod: dict[str, Any]) -> int:
    """How long a pod held its node, by its own status."""
    (bound,) = (
        each["lastTransitionTime"]
        for each in pod["status"]["conditions"]
        if each["type"] == "PodScheduled"
    )
    (container,) = pod["status"]["containerStatuses"]
    ended = container["state"]["terminated"]["finishedAt"]
    return round((datetime.fromisoformat(ended) - datetime.fromisoformat(bound)).total_seconds())


def test_history_survives_a_kill_and_has_what_ran_meanwhile(
    cluster: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """Pods that ended while nobody looked ran exactly as long as their statuses say."""
    path = tmp_path / "history.db"
    cluster.create_nodes(count=1, cpu="8")
    daemons.a_queue(cluster, "default")
    flags = (f"--history-file={path}", daemons.ALONE)
    daemon = start(*flags)
    ends = {"vscheduler.sandbox/completes-after": "6s"}
    user = {"vscheduler.io/user": "ann"}
    daemons.a_gang(cluster, "short", 2, annotations=ends, labels=user)
    daemons.a_gang(cluster, "long", 2, cpu="500m")

    def both_run() -> bool:
        found = jobs(path)
        return [found[key].pods for key in sorted(found)] == [2, 2]

    daemons.until(both_run, daemon)
    daemon.kill()

    def done() -> list[dict[str, Any]]:
        pods = cluster.api.list(daemons.PODS)
        return [pod for pod in pods if pod["status"]["phase"] == "Succeeded"]

    deadline = time.monotonic() + daemons.PATIENCE_SECONDS
    while len(done()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    expected = sum(map(seconds, done()))
    daemon = start(*flags)
    daemons.until(lambda: jobs(path)["default/short"].succeeded == 2, daemon)
    daemons.until(lambda: jobs(path)["default/short"].state is JobState.COMPLETED, daemon)
    short = jobs(path)["default/short"]
    assert short.pod_seconds == {"cpu": 1000 * expected, "pods": expected}
    assert (short.user, short.queue, short.scheduler) == ("ann", "default", "vscheduler")
    for name in ("long-0", "long-1"):
        cluster.api.delete(f"{daemons.PODS}/{name}")
    cluster.api.delete(f"{daemons.GROUPS}/long")
    daemons.until(lambda: jobs(path)["default/long"].state is JobState.DELETED, daemon)
    assert daemon.stop() == 0
    said = testing.CliRunner().invoke(main.vscheduler, ["job", "history", f"--history={path}"])
    assert {line.split()[1] for line in said.stdout.splitlines()[1:]} == {
        "podgroup/long",
        "podgroup/short",
    }
    assert not daemon.said("history.not_written")
