"""Worksheets: what is left to do for a job in a cycle, and what is said of it on the way."""

from collections import deque
from typing import TYPE_CHECKING

from vscheduler.core.model import decisions, jobs, queues
from vscheduler.core.session import job_state, reasons

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


class Worksheet:
    """What is left to do for one job in this cycle."""

    __slots__ = ("failed_kinds", "failed_roles", "gang", "tasks")

    def __init__(self, gang: job_state.Gang, tasks: deque[jobs.Task]) -> None:
        self.gang = gang
        self.tasks = tasks
        self.failed_roles: set[str] = set()
        """Roles of which a task found no node: their other tasks aren't tried (Volcano:
        TaskHasFitErrors), but for tasks without a role."""
        self.failed_kinds: set[jobs.TaskClass] = set()


def note_incomplete(session: "working.Session", gang: job_state.Gang) -> None:
    """Say why a job can't start although no node and no queue refused any of its tasks.

    A reason that was noted before, for a task that was refused, stays.
    """
    if gang.sub_groups and (short := reasons.short_sub_group(gang)) is not None:
        session.note(gang.job.id, reasons.rejected(gang) or short)
        return
    gated = gang.counts[jobs.TaskStatus.GATED]
    code = decisions.ReasonCode.GATED if gated else decisions.ReasonCode.NO_ROOM
    if not session.is_news(gang.job.id, code):
        return
    tasks = gang.valid_tasks - gated
    session.note(gang.job.id, reasons.of(gang, code, tasks=tasks, nodes=session.layout.size))


def note_waiting(session: "working.Session", gang: job_state.Gang) -> None:
    """Say that the job waits for room that is being freed."""
    waits = decisions.ReasonCode.WAITS_FOR_RELEASE
    if session.is_news(gang.job.id, waits):
        session.note(gang.job.id, reasons.of(gang, waits))


def note_no_room(session: "working.Session", sheet: Worksheet, task: jobs.Task) -> None:
    """Say why no node takes this task, once for each class of tasks."""
    if task.kind in sheet.failed_kinds:
        return
    sheet.failed_kinds.add(task.kind)
    session.note(sheet.gang.job.id, reasons.no_room(session, sheet.gang, task))


def note_share(
    session: "working.Session", queue: queues.Queue, sheet: Worksheet, task: jobs.Task | None = None
) -> None:
    """Say that the queue has had its share, or is closed; of a pod that could go nowhere, and has
    no share for that, why not.
    """
    task = task or _homeless(session, sheet) or sheet.tasks[0]
    if queue.open and session.nowhere(task):
        note_no_room(session, sheet, task)
        return
    shortages: tuple[decisions.Shortage, ...] = ()
    if not queue.open:
        code = decisions.ReasonCode.QUEUE_CLOSED
    elif not session.layout.size:
        code = decisions.ReasonCode.NO_NODES
    else:
        code = decisions.ReasonCode.QUEUE_OVER_SHARE
        shortages = reasons.shortages(session, queue, task)
    reason = reasons.of(sheet.gang, code, request=task.kind.request, shortages=shortages)
    session.note(sheet.gang.job.id, reason)


def _homeless(session: "working.Session", sheet: Worksheet) -> jobs.Task | None:
    """A task of the job that no node could take, whatever goes: no share would help it."""
    if len(sheet.gang.job.classes) < 2:  # then the first task is like all others
        return None
    by_kind = {task.kind: task for task in reversed(sheet.tasks)}
    return next((task for task in by_kind.values() if session.nowhere(task)), None)
