"""Reasons with the figures of a job as it stands: what actions and the end of a cycle say alike.

A Worksheet is what is left to do for a job in its turn, with what is said of the job on the way.
"""

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from vscheduler.core.model import decisions, jobs, queues
from vscheduler.core.session import job_state

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


LACKS_PODS = frozenset(
    {
        decisions.ReasonCode.TOO_FEW_PODS,
        decisions.ReasonCode.TOO_FEW_OF_ROLE,
        decisions.ReasonCode.TOO_FEW_SUB_GROUPS,
    }
)
"""What is said of jobs that would have more pods if all could be used."""

FAILED = decisions.Reason(code=decisions.ReasonCode.PLUGIN_FAILED, queue="")
"""Stands in for what a plugin that fails would have said."""


def of(gang: job_state.JobState, code: decisions.ReasonCode, **numbers: object) -> decisions.Reason:
    """Why this job waits; numbers are other fields of Reason."""
    fields = {
        "queue": gang.job.queue,
        "tasks": len(gang.job.tasks),
        "minimum": gang.job.min_member,
        "placed": gang.ready_tasks + gang.waiting_tasks,
        **numbers,
    }
    return decisions.Reason(code=code, **fields)  # type: ignore[arg-type]  # fields by name


def barred(session: "working.Session", gang: job_state.JobState) -> decisions.Reason | None:
    """Why a job may not start, whatever plugins say and however much room there is; None if it may.

    Its phase is no excuse, since tenants can write it: a queue that is made after a job named it
    is as closed to that job as to later ones.
    """
    job, queue = gang.job, session.queues[gang.job.queue]
    if not queue.takes(job.namespace):
        return of(gang, decisions.ReasonCode.QUEUE_BARRED, subject=job.namespace)
    return _topology(session, gang)


def _topology(session: "working.Session", gang: job_state.JobState) -> decisions.Reason | None:
    """Why a gang waits that must be near together in the network, which nobody sees to yet."""
    field = gang.job.hard_topology
    if not field or not session.policy.hard_topology_waits:
        return None
    return of(gang, decisions.ReasonCode.TOPOLOGY_UNKNOWN, subject=field)


def invalid(session: "working.Session", gang: job_state.JobState) -> decisions.Reason | None:
    """Why this job can't be scheduled as it stands; None if it can."""
    bar = barred(session, gang) if session.bars else None
    if bar is not None:
        return bar
    reason: decisions.Reason | None = session.dispatch.first("job_valid", FAILED, gang)
    if reason is FAILED:
        return replace(FAILED, queue=gang.job.queue, tasks=len(gang.job.tasks))
    if reason is not None and reason.code in LACKS_PODS:
        return rejected(gang) or reason
    return reason


def rejected(gang: job_state.JobState) -> decisions.Reason | None:
    """Why some of this job's pods can't be used; None if all can."""
    rejections = gang.job.rejections
    if not rejections:
        return None
    return of(
        gang,
        decisions.ReasonCode.POD_REJECTED,
        tasks=len(gang.job.tasks) + len(rejections),
        rejected=len(rejections),
        rejection=rejections[0],
    )


def short_sub_group(gang: job_state.JobState) -> decisions.Reason | None:
    """Which sub-group keeps its pods from being placed, as too few of them are there; None if
    each could be whole.
    """
    if gang.sub_groups is None or not gang.counts[jobs.TaskStatus.PENDING]:
        return None
    found = gang.sub_groups.short(gang.tasks(jobs.TaskStatus.PENDING))
    if found is None:
        return None
    (place, values), usable, gated = found
    policy = gang.job.sub_groups[place]
    code = decisions.ReasonCode.TOO_FEW_OF_SUB_GROUP
    if usable + gated >= policy.size:
        code = decisions.ReasonCode.GATED
    labels = dict(zip(policy.keys, values, strict=True))
    numbers = {"tasks": usable, "minimum": policy.size}
    return of(gang, code, subject=policy.name, sub_group=labels, **numbers)


def no_room(
    session: "working.Session", gang: job_state.JobState, task: jobs.Task, *, empty: bool = False
) -> decisions.Reason:
    """Why no node takes this task of the job; empty: would take it, if nothing ran there."""
    placement = session.placement
    found = placement.standing_explanation(task) if empty else placement.explanation(task)
    code = decisions.ReasonCode.NO_ROOM if session.layout.size else decisions.ReasonCode.NO_NODES
    if found.outsized:
        code = decisions.ReasonCode.NEVER_FITS
    return of(
        gang,
        code,
        request=task.pod_class.request,
        role=task.role,
        nodes=session.layout.size,
        refusals=found.refusals,
        holes=found.outsized or found.holes,
    )


def shortages(
    session: "working.Session", queue: queues.Queue, task: jobs.Task
) -> tuple[decisions.Shortage, ...]:
    """The numbers behind a queue that may not take this task."""
    answers = session.dispatch.every("shortages", queue, task)
    return tuple(shortage for answer in answers for shortage in answer or ())


class JobTurn:
    """What is left to do for one job in this cycle."""

    __slots__ = ("failed_kinds", "failed_roles", "gang", "tasks")

    def __init__(self, gang: job_state.JobState, tasks: deque[jobs.Task]) -> None:
        self.gang = gang
        self.tasks = tasks
        self.failed_roles: set[str] = set()
        """Roles of which a task found no node: their other tasks aren't tried (Volcano:
        TaskHasFitErrors), but for tasks without a role."""
        self.failed_kinds: set[jobs.PodClass] = set()


def note_incomplete(session: "working.Session", gang: job_state.JobState) -> None:
    """Say why a job can't start although no node and no queue refused any of its tasks.

    A reason that was noted before, for a task that was refused, stays.
    """
    if gang.sub_groups and (short := short_sub_group(gang)) is not None:
        session.note(gang.job.id, rejected(gang) or short)
        return
    gated = gang.counts[jobs.TaskStatus.GATED]
    code = decisions.ReasonCode.GATED if gated else decisions.ReasonCode.NO_ROOM
    if not session.is_news(gang.job.id, code):
        return
    tasks = gang.valid_tasks - gated
    session.note(gang.job.id, of(gang, code, tasks=tasks, nodes=session.layout.size))


def note_waiting(session: "working.Session", gang: job_state.JobState) -> None:
    """Say that the job waits for room that is being freed."""
    waits = decisions.ReasonCode.WAITS_FOR_RELEASE
    if session.is_news(gang.job.id, waits):
        session.note(gang.job.id, of(gang, waits))


def note_no_room(session: "working.Session", sheet: JobTurn, task: jobs.Task) -> None:
    """Say why no node takes this task, once for each class of tasks."""
    if task.pod_class in sheet.failed_kinds:
        return
    sheet.failed_kinds.add(task.pod_class)
    session.note(sheet.gang.job.id, no_room(session, sheet.gang, task))


def note_share(
    session: "working.Session", queue: queues.Queue, sheet: JobTurn, task: jobs.Task | None = None
) -> None:
    """Say that the queue has had its share, or is closed; of a pod that could go nowhere, and has
    no share for that, why not.
    """
    task = task or _homeless(session, sheet) or sheet.tasks[0]
    if queue.open and session.nowhere(task):
        note_no_room(session, sheet, task)
        return
    short: tuple[decisions.Shortage, ...] = ()
    if not queue.open:
        code = decisions.ReasonCode.QUEUE_CLOSED
    elif not session.layout.size:
        code = decisions.ReasonCode.NO_NODES
    else:
        code = decisions.ReasonCode.QUEUE_OVER_SHARE
        short = shortages(session, queue, task)
    reason = of(sheet.gang, code, request=task.pod_class.request, shortages=short)
    session.note(sheet.gang.job.id, reason)


def _homeless(session: "working.Session", sheet: JobTurn) -> jobs.Task | None:
    """A task of the job that no node could take, whatever goes: no share would help it."""
    if len(sheet.gang.job.classes) < 2:  # then the first task is like all others
        return None
    by_kind = {task.pod_class: task for task in reversed(sheet.tasks)}
    return next((task for task in by_kind.values() if session.nowhere(task)), None)
