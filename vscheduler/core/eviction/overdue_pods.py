"""Overdue pods: those that run longer than they may, in queues that end such pods.

A Queue opts in with an annotation, `model.run_times.CAP`. What was said of a pod's run time counts
as far as it is shorter. Such pods are deleted, not evicted: no PodDisruptionBudget lets them run
on. Slurm: a partition's MaxTime; Kueue: maximumExecutionTimeSeconds.
"""

from vscheduler.core.memo import evictable_pods
from vscheduler.core.session.session import Session
from vscheduler.model import run_times
from vscheduler.model.decisions import OVERDUE, EndsSoon, Evict
from vscheduler.model.jobs import EVICTABLE, Task, TaskStatus

WARNING_SECONDS = 600.0
"""So long before its end a pod is warned, but not before half of its time is over."""


def end(session: Session) -> None:
    """End the pods whose time is up, warn those whose time is up soon, and wake for the next one.

    Runs after all actions, so that nothing starts on what they still have. Pods that aren't known
    to run, or are on lost nodes, are left alone, and so is a pod whose deletion the API server has
    just refused.
    """
    refused = session.snapshot.carried.reported.eviction_refused_pods
    capped = {name for name, queue in session.queues.items() if queue.run_time_cap is not None}
    if not capped:
        return
    for job in session.snapshot.jobs:
        if job.queue not in capped or not any(map(job.counts.__getitem__, EVICTABLE)):
            continue
        state, queue = session.job_states[job.id], session.queues[job.queue]
        for task in job.tasks:
            limit = run_times.of(job, task, queue)
            if limit is None or task.node not in session.layout.rows or task.uid in refused:
                continue
            if state.status(task) not in EVICTABLE or not _has_started(task):
                continue
            if not _runs_on(session, task, limit):
                _end(session, task, limit)


def _runs_on(session: Session, task: Task, limit: float) -> bool:
    """Whether the pod still has time; if little, it is warned."""
    now, start = session.snapshot.now, evictable_pods.start(task)
    ends = start + limit
    warned = max(ends - WARNING_SECONDS, start + limit / 2)
    session.wake(warned)
    session.wake(ends)
    if warned <= now < ends:
        session.decided.warn(EndsSoon(task=task, at=ends, limit=limit))
    return ends > now


def _has_started(task: Task) -> bool:
    return task.scheduled_at is not None or task.status is TaskStatus.RUNNING


def _end(session: Session, task: Task, limit: float) -> None:
    assert task.node is not None
    with session.statement() as trial:
        trial.evict(Evict(task=task, node=task.node, action=OVERDUE, beneficiary=None, limit=limit))
        trial.commit()
