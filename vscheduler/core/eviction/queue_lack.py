"""Queue lack: what the waiting jobs of a queue lack that its share covers.

A whole gang is compared with it, not with what a single job lacks: many small jobs have as much
right to what their queue deserves as a large one.
"""

from collections.abc import Sequence

from vscheduler.core.model import jobs
from vscheduler.core.model.jobs import Phase, PodClass, Task, TaskStatus
from vscheduler.core.model.queues import Queue
from vscheduler.core.model.resources import Vector
from vscheduler.core.session.session import Session

JOBS_PER_UNIT = 10
"""How many waiting jobs are looked at in about a microsecond."""

POD_COST = 5
"""Approximate microseconds for asking whether the queue's share covers one more pod."""


def of_others(session: Session, queue: Queue, own: Sequence[Task]) -> Vector:
    """Return what waiting pods request, (R,), as far as the queue's share covers them, too.

    `own` are pods that come first, and don't count.
    """
    total = sum((session.counted(task) for task in own), start=session.space.zeros())
    seen = {task.uid for task in own}
    found = session.space.zeros()
    states = [state for state in session.unfinished_jobs() if state.job.queue == queue.name]
    session.spend("queue lacks", 1 + len(states) // JOBS_PER_UNIT)
    for state in states:
        if state.phase is Phase.PENDING:
            continue
        refused: set[PodClass] = set()
        for task in state.tasks(TaskStatus.PENDING):
            if task.uid in seen or task.pod_class in refused:
                continue
            if task.best_effort or task.never_preempts:
                continue
            session.spend("queue lacks", POD_COST)
            more = total + session.counted(task)
            request = dict(zip(session.space.names, more.tolist(), strict=True))
            pod = jobs.stand_in(state.job, request)
            if not session.dispatch.all_agree("preemptive", queue, (pod,)):
                refused.add(task.pod_class)
                continue
            total, found = more, found + session.request(task)
    return found
