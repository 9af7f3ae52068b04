"""A process that writes history until it is killed, and says what it has written."""

import itertools
import sys
import time
from pathlib import Path

from vscheduler.history.records import Batch, JobRecord, RunRecord
from vscheduler.history.store import Limits, Store
from vscheduler.model.jobs import JobId, TaskId

START = 1_700_000_000
RUNS = 4


def batch_of(number: int) -> Batch:
    """A job with its runs; each batch also ends the runs of the batch before."""
    uid = f"job-{number}"
    job = JobRecord(
        uid=uid, scheduler="vscheduler", job=JobId(f"ns/{uid}"), queue="gold", created=START
    )

    def run(of: int, at: int, ended: int | None) -> RunRecord:
        return RunRecord(
            pod=TaskId(f"{of}-{at}"),
            began=START,
            job=f"job-{of}",
            name=f"{of}-{at}",
            node=f"n{at}",
            queue="gold",
            request={"cpu": 1000, "pods": 1},
            ended=ended,
        )

    runs = [run(number, at, None) for at in range(RUNS)]
    if number:
        runs += [run(number - 1, at, START + 10) for at in range(RUNS)]
    return Batch(jobs=[job], runs=runs)


def transactions(path: Path) -> None:
    """Write one transaction after the other; say the number of each once it is written."""
    store = Store(path, Limits())
    known = store._link.execute("SELECT COUNT(*) FROM jobs").fetchone()[0]
    for number in itertools.count(known):
        store.write(batch_of(number), START)
        print(number, flush=True)  # noqa: T201 - for the parent


def daemon(path: Path) -> None:
    """Let pods come at a pace, with the writer's own thread; say when each came."""
    from tests.unit.history.clusters import Cluster, group, pod  # noqa: PLC0415 - takes long

    cluster = Cluster(path)
    cluster.writer._started = False
    cluster.mirror.follow(cluster.writer)
    cluster.writer.begin(["vscheduler"], cluster._list)
    cluster.show(group("train"))
    for number in itertools.count():
        cluster.show(pod(f"p{number}", "train", bound=0))
        print(number, time.monotonic(), flush=True)  # noqa: T201 - for the parent
        time.sleep(0.005)


if __name__ == "__main__":
    {"transactions": transactions, "daemon": daemon}[sys.argv[1]](Path(sys.argv[2]))
