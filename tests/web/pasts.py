"""A history of jobs, as if a scheduler had kept it for two weeks."""

from pathlib import Path

from vscheduler.history.records import Batch, Ending, JobRecord, JobState, RunRecord
from vscheduler.history.store import Limits, Store
from vscheduler.model.jobs import JobId, TaskId

QUEUES = ("vision", "speech", "ads", "search", "nightly")
HOUR = 3600


def two_weeks(path: Path, now: float) -> Path:
    """Write jobs of a few tenants, some of them evicted once; return the path."""
    store, end = Store(path, Limits()), int(now)
    jobs, runs = [], []
    for at in range(420):
        queue = QUEUES[at * 7 // 3 % 5]
        began = end - 14 * 24 * HOUR + at * 2860
        ended = min(end, began + (3 + at * 7 % 19) * HOUR)
        gpus = 0 if queue == "nightly" else (8, 4, 1, 2)[at % 4]
        request = {"cpu": 8000, "memory": 64 << 30, "nvidia.com/gpu": gpus, "pods": 1}
        pods, uid = 1 + at % 5, f"past-{at}"
        evicted = at % 17 == 5
        jobs.append(
            JobRecord(
                uid=uid,
                scheduler="vscheduler",
                job=JobId(f"{queue}/run-{at}"),
                owner=f"job/run-{at}",
                user=("ada", "bob", "eve")[at % 3],
                queue=queue,
                created=began - 60 * (1 + at % 40),
                started=began,
                last_started=began,
                last_ended=ended,
                finished=ended,
                state=JobState.DELETED if evicted else JobState.COMPLETED,
                pods=pods,
                request={name: pods * amount for name, amount in request.items()},
                evicted=pods if evicted else 0,
            )
        )
        runs += [
            RunRecord(
                pod=TaskId(f"{uid}-{pod}"),
                began=began,
                job=uid,
                name=f"run-{at}-{pod}",
                node="gpu-01",
                queue=queue,
                request=request,
                ended=ended,
                how=Ending.EVICTED if evicted else Ending.SUCCEEDED,
                action="reclaim" if evicted else "",
                evicted_for="vision/pretrain-vit-000c" if evicted else "",
            )
            for pod in range(pods)
        ]
    store.write(Batch(jobs=jobs, runs=runs), end)
    store.close()
    return path
