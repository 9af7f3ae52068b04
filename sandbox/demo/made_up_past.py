"""A made-up history of jobs, so that reports and charts of a new sandbox have a past."""

from collections.abc import Sequence
from pathlib import Path

from vscheduler.history.records import Batch, Ending, JobRecord, JobState, RunRecord
from vscheduler.history.store import Limits, Store
from vscheduler.model.jobs import JobId, TaskId
from vscheduler.model.resources import ResourceMap

DAYS = 14
HOUR = 3600
USERS = ("ada", "bob", "eve")


def write(
    path: Path, now: float, tenants: Sequence[str], requests: Sequence[ResourceMap], jobs: int = 420
) -> Path:
    """Write jobs of the last two weeks, some of them evicted once; return the path.

    Each tenant has a queue and a namespace of its name. `requests` are what pods of the first job
    request, of the second, and so on, again from the first after the last.
    """
    store, end = Store(path, Limits()), int(now)
    records, runs = [], []
    for at in range(jobs):
        job, pods = _job(at, jobs, end, tenants, requests[at % len(requests)])
        records.append(job)
        runs += pods
    store.write(Batch(jobs=records, runs=runs), end)
    store.close()
    return path


def _job(
    at: int, jobs: int, end: int, tenants: Sequence[str], request: ResourceMap
) -> tuple[JobRecord, list[RunRecord]]:
    tenant = tenants[at * 7 // 3 % len(tenants)]
    began = end - DAYS * 24 * HOUR + at * (DAYS * 24 * HOUR // jobs - 20)
    ended = min(end, began + (3 + at * 7 % 19) * HOUR)
    pods, uid, evicted = 1 + at % 5, f"past-{at}", at % 17 == 5
    job = JobRecord(
        uid=uid,
        scheduler="vscheduler",
        job=JobId(f"{tenant}/run-{at}"),
        owner=f"job/run-{at}",
        user=USERS[at % len(USERS)],
        queue=tenant,
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
    rival = tenants[(tenants.index(tenant) + 1) % len(tenants)]
    return job, [
        RunRecord(
            pod=TaskId(f"{uid}-{pod}"),
            began=began,
            job=uid,
            name=f"run-{at}-{pod}",
            node="worker-0",
            queue=tenant,
            request=request,
            ended=ended,
            how=Ending.EVICTED if evicted else Ending.SUCCEEDED,
            action="reclaim" if evicted else "",
            evicted_for=f"{rival}/run-{at + 1}" if evicted else "",
        )
        for pod in range(pods)
    ]
