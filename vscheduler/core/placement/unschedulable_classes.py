"""Unschedulable pod classes: jobs are refused without a turn if no node takes their pods.

While allocate runs, free resources only shrink. A job with pending pods of a single class, refused
by every node, will find no node later either, whichever jobs come first. All such jobs share an
answer. Pods with affinity to other pods are left out, for such pods may still arrive; so are
nominated pods.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

from vscheduler.core.model import jobs
from vscheduler.core.session import job_state
from vscheduler.core.session import session as working

CLASSES_MAX = 64
"""The most classes checked in a cycle, those with the most jobs first. The budget is for jobs that
find room, too."""

JOBS_MIN = 2
"""Checking a class with fewer jobs costs as much as the jobs' turns."""

Group: TypeAlias = tuple[jobs.Task, Sequence[job_state.JobState]]
"""Jobs whose pending pods are all like this task."""


def groups(session: working.Session, due: Iterable[job_state.JobState]) -> list[Group]:
    """Return the jobs with pods refused by every node, now and after pending releases."""
    by_pod: defaultdict[Hashable, list[job_state.JobState]] = defaultdict(list)
    nominated = bool(session.nominated)
    nominations = session.snapshot.carried.nominations
    all_alone = session.affinity_counts.nobody and not nominations and not nominated
    for state in due:
        task = representative(state.job)
        if task is not None and state.untouched and (all_alone or _is_alone(session, state.job)):
            reserved = session.nominated.of(task) if nominated else None
            by_pod[task.pod_class, task.role, state.job.queue, reserved].append(state)
    found: list[Group] = []
    for each in sorted(by_pod.values(), key=len, reverse=True)[:CLASSES_MAX]:
        task = representative(each[0].job)
        if len(each) < JOBS_MIN or session.work_budget.over:
            break
        session.work_budget.charge(each[0].job.namespace)
        if task is not None and session.placement.choose(task) is None:
            found.append((task, each))
    session.work_budget.charge()
    return found


def _is_alone(session: working.Session, job: jobs.Job) -> bool:
    """Whether placing other pods can't help any pod of the job, and no pod is nominated.

    Reservations for nominated pods of other schedulers must be equal for all pods of the job.
    """
    nominations = session.snapshot.carried.nominations
    waiting = _waiting(job)
    return len({session.nominated.of(task) for task in waiting}) <= 1 and all(
        task.uid not in nominations and session.affinity_counts.state_of(task) is None
        for task in waiting
    )


def representative(job: jobs.Job) -> jobs.Task | None:
    """Return one of the job's pending pods, if all are equal in class and role."""
    return job.memo("representative", lambda: _representative(job))


def _representative(job: jobs.Job) -> jobs.Task | None:
    """Return one of the job's pending pods, without memo."""
    tasks = _waiting(job)
    if job.sub_groups or len({(task.pod_class, task.role) for task in tasks}) != 1:
        return None
    return tasks[0]


def _waiting(job: jobs.Job) -> list[jobs.Task]:
    """Return the job's pending pods by UID, except best-effort pods."""
    pending = jobs.TaskStatus.PENDING
    return [task for task in job.tasks if task.status is pending and not task.best_effort]
