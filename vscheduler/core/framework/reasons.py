"""Reasons with the figures of a job as it stands: what actions and the end of a cycle say alike."""

from typing import TYPE_CHECKING

from vscheduler.core.framework import gangs
from vscheduler.core.model import decisions, jobs, queues

if TYPE_CHECKING:
    from vscheduler.core.framework import session as working


def of(gang: gangs.Gang, code: decisions.ReasonCode, **numbers: object) -> decisions.Reason:
    """Why this job waits; numbers are other fields of Reason."""
    fields = {
        "queue": gang.job.queue,
        "tasks": len(gang.job.tasks),
        "minimum": gang.job.min_member,
        "placed": gang.ready_tasks + gang.waiting_tasks,
        **numbers,
    }
    return decisions.Reason(code=code, **fields)  # type: ignore[arg-type]  # fields by name


def invalid(session: "working.Session", gang: gangs.Gang) -> decisions.Reason | None:
    """Why this job can't be scheduled as it stands; None if it can."""
    job = gang.job
    failed = decisions.ReasonCode.PLUGIN_FAILED
    default = decisions.Reason(code=failed, queue=job.queue, tasks=len(job.tasks))
    reason: decisions.Reason | None = session.dispatch.first("job_valid", default, gang)
    return reason


def shortages(
    session: "working.Session", queue: queues.Queue, task: jobs.Task
) -> tuple[decisions.Shortage, ...]:
    """The numbers behind a queue that may not take this task."""
    answers = session.dispatch.every("shortages", queue, task)
    return tuple(shortage for answer in answers for shortage in answer or ())
