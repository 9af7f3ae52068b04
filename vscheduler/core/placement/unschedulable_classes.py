"""Jobs for which there is no node as things stand: they needn't stand in line to be told so.

While allocate runs, room only gets less. So a job whose waiting pods all are of one class that no
node takes finds none later either, whoever comes before it, and all jobs like it share one answer.
Pods that depend on other pods are left out, as company may come, and so are those that room was
promised to.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from vscheduler.core.model import jobs
from vscheduler.core.session import job_state

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

CLASSES_MAX = 64
"""So many classes are looked at, those with the most jobs: the budget is for those that find room,
too."""

JOBS_MIN = 2
"""Looking at a class that fewer jobs have costs as much as their turns."""

Group: TypeAlias = tuple[jobs.Task, Sequence[job_state.JobState]]
"""Jobs whose waiting pods are all like this one."""


def groups(session: "working.Session", due: Iterable[job_state.JobState]) -> list[Group]:
    """Those of these jobs that no node takes a pod of, now or once what is being freed is free."""
    alike: defaultdict[Hashable, list[job_state.JobState]] = defaultdict(list)
    nominated = bool(session.nominated)
    promised = session.snapshot.carried.nominations
    all_alone = session.neighbours.nobody and not promised and not nominated
    for gang in due:
        task = representative(gang.job)
        if task is not None and gang.untouched and (all_alone or _is_alone(session, gang.job)):
            kept = session.nominated.of(task) if nominated else None
            alike[task.pod_class, task.role, gang.job.queue, kept].append(gang)
    found: list[Group] = []
    for each in sorted(alike.values(), key=len, reverse=True)[:CLASSES_MAX]:
        task = representative(each[0].job)
        if len(each) < JOBS_MIN or session.spending.over:
            break
        session.spending.payer = each[0].job.namespace
        if task is not None and session.placement.choose(task) is None:
            found.append((task, each))
    session.spending.payer = ""
    return found


def _is_alone(session: "working.Session", job: jobs.Job) -> bool:
    """Whether other pods make no difference to any of its pods, or the same to all where they are
    nominated ones, and none was promised room.
    """
    promised = session.snapshot.carried.nominations
    waiting = _waiting(job)
    return len({session.nominated.of(task) for task in waiting}) <= 1 and all(
        task.uid not in promised and session.neighbours.standing(task) is None for task in waiting
    )


def representative(job: jobs.Job) -> jobs.Task | None:
    """One of its waiting pods, where all of them are alike in class and role."""
    return job.memo("representative", lambda: _representative(job))


def _representative(job: jobs.Job) -> jobs.Task | None:
    tasks = _waiting(job)
    if job.sub_groups or len({(task.pod_class, task.role) for task in tasks}) != 1:
        return None
    return tasks[0]


def _waiting(job: jobs.Job) -> list[jobs.Task]:
    """Pods of the job that want a node, but for those that ask for nothing, by UID."""
    pending = jobs.TaskStatus.PENDING
    return [task for task in job.tasks if task.status is pending and not task.best_effort]
