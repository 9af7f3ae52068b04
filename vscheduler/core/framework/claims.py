"""Who may ask others for room: starving jobs, queue by queue."""

from collections import deque
from collections.abc import Container
from typing import TYPE_CHECKING

from vscheduler.core.framework import gangs, ordering
from vscheduler.core.model import jobs, queues

if TYPE_CHECKING:
    from vscheduler.core.framework import session as working


class Claim:
    """A starving job, and those of its tasks that haven't asked yet."""

    __slots__ = ("gang", "tasks")

    def __init__(self, gang: gangs.Gang, tasks: deque[jobs.Task]) -> None:
        self.gang = gang
        self.tasks = tasks

    def drop(self, placed: Container[jobs.TaskId]) -> None:
        """These tasks have room and ask no more."""
        self.tasks = deque(task for task in self.tasks if task.uid not in placed)


def line_up(
    session: "working.Session",
) -> tuple[ordering.Line[queues.Queue], dict[str, ordering.Line[Claim]]]:
    """Queues that have valid jobs in use, and the starving jobs of each.

    A job that wasn't admitted doesn't ask (Volcano: preempt and reclaim skip Pending jobs).
    """
    waiting: ordering.Line[queues.Queue] = ordering.Line()
    lines: dict[str, ordering.Line[Claim]] = {}
    denied = session.snapshot.carried.denied
    for gang in session.gangs.values():
        if gang.phase is jobs.Phase.PENDING:
            continue
        if session.dispatch.first("job_valid", True, gang) is not None:
            continue
        queue = session.queues[gang.job.queue]
        if queue.name not in lines:
            lines[queue.name] = ordering.Line()
            waiting.join(ordering.queue_key(session.dispatch, queue), queue)
        if not gang.counts[jobs.TaskStatus.PENDING] or gang.job.id in denied:
            continue
        if session.dispatch.first_tier("job_starving", gang):
            pending = gang.tasks(jobs.TaskStatus.PENDING)
            tasks = ordering.tasks(session.dispatch, gang, pending)
            key = ordering.job_key(session.dispatch, gang)
            lines[queue.name].join(key, Claim(gang, deque(tasks)))
    return waiting, lines
