"""Reasons with the figures of a job as it stands: what actions and the end of a cycle say alike."""

from dataclasses import replace
from typing import TYPE_CHECKING

from vscheduler.core.framework import gangs
from vscheduler.core.model import decisions, jobs, queues

if TYPE_CHECKING:
    from vscheduler.core.framework import session as working

FAILED = decisions.Reason(code=decisions.ReasonCode.PLUGIN_FAILED, queue="")
"""Stands in for what a plugin that fails would have said."""


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


def topology(session: "working.Session", gang: gangs.Gang) -> decisions.Reason | None:
    """Why a gang waits that must be near together in the network, which nobody sees to yet."""
    field = gang.job.hard_topology
    if not field or not session.policy.hard_topology_waits:
        return None
    return of(gang, decisions.ReasonCode.TOPOLOGY_UNKNOWN, subject=field)


def invalid(session: "working.Session", gang: gangs.Gang) -> decisions.Reason | None:
    """Why this job can't be scheduled as it stands; None if it can."""
    unknown = topology(session, gang)
    if unknown is not None:
        return unknown
    reason: decisions.Reason | None = session.dispatch.first("job_valid", FAILED, gang)
    if reason is FAILED:
        return replace(FAILED, queue=gang.job.queue, tasks=len(gang.job.tasks))
    return reason


def shortages(
    session: "working.Session", queue: queues.Queue, task: jobs.Task
) -> tuple[decisions.Shortage, ...]:
    """The numbers behind a queue that may not take this task."""
    answers = session.dispatch.every("shortages", queue, task)
    return tuple(shortage for answer in answers for shortage in answer or ())
