"""Jobs as JSON trees for programs, described in docs/jobs.md."""

from collections.abc import Sequence
from typing import Any

from vscheduler.cli.job.histories import Entry
from vscheduler.cli.job.job_figures import Job
from vscheduler.mirror import statuses


def tree(job: Job, history: Sequence[Entry] | None = None) -> dict[str, Any]:
    """Return a job as JSON; with `history`, also its pods."""
    place = job.place
    made: dict[str, Any] = {
        "workload": str(job.workload),
        "namespace": job.namespace,
        "podGroup": job.name,
        "queue": job.queue,
        "scheduler": job.scheduler,
        "state": str(job.phase),
        "pods": {"running": job.running, "minimum": job.minimum, "total": job.total},
    }
    if place is not None:
        made["place"] = {
            "inQueue": place.in_queue,
            "ofQueue": place.of_queue,
            "overall": place.overall,
            "ofAll": place.of_all,
            "approximate": job.approximate,
        }
    if job.waits:
        made["waitingSince"] = statuses.timestamp(job.since)
    if job.message:
        made |= {"reason": job.reason, "message": job.message}
    if history is not None:
        made["members"] = [
            {"name": pod.name, "status": pod.phase, **({"node": pod.node} if pod.node else {})}
            for pod in job.pods or ()
        ]
        made["history"] = [{"time": statuses.timestamp(at), "what": what} for at, what in history]
    return made
