"""Unschedulable pod classes: jobs are refused without a turn if no node takes their pods.

While allocate runs, free resources only shrink. A job with pending pods of a single class, refused
by every node, will find no node later either, whichever jobs come first. All such jobs share an
answer. Pods with affinity to other pods are left out, for such pods may still arrive; so are
nominated pods.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from vscheduler.core.model import jobs, resources
from vscheduler.core.session import job_state
from vscheduler.core.session import session as working

JOBS_MIN = 2
"""A class with fewer jobs, for which some node has enough free resources, isn't checked: the check
would cost as much as the jobs' turns."""

PART = 4
"""At most a quarter of the budget is for classes for which some node has enough free resources."""

CHECK_COST = 2
"""Approximate microseconds for comparing a class with the most that any node has free."""

NODES_PER_UNIT = 200
"""With how many nodes a class is compared in about a microsecond."""

Group: TypeAlias = tuple[jobs.Task, Sequence[job_state.JobState]]
"""Jobs whose pending pods are all like this task."""


def groups(session: working.Session, due: Iterable[job_state.JobState]) -> list[Group]:
    """Return the jobs with pods refused by every node, now and after pending releases.

    Most of them lack resources on every node, which is cheap to know for any number of classes.
    """
    by_pod = _by_pod(session, due)
    room = FreeRoom(session, [task for task, _ in by_pod])
    found: list[Group] = []
    is_spent = session.work_budget.part(PART)
    for task, each in sorted(by_pod, key=lambda group: len(group[1]), reverse=True):
        session.work_budget.charge(task.namespace)
        is_refused = not room.may_take(task) or (
            len(each) >= JOBS_MIN and not is_spent() and session.placement.choose(task) is None
        )
        if is_refused:
            found.append((task, each))
    session.work_budget.charge()
    return found


class FreeRoom:
    """What nodes have free for pods, now and after pending releases; reservations count as free."""

    def __init__(self, session: working.Session, tasks: Sequence[jobs.Task]) -> None:
        """Compare the requests of all these tasks with the most that any node has free."""
        self._session = session
        free = session.cluster.allocatable - session.cluster.future_used
        self._free = resources.by_column(free)
        self._by_domain: dict[int, tuple[resources.Vector, resources.Vector]] = {}
        requests = np.array([session.request(task) for task in tasks], dtype=np.int64)
        requests = requests.reshape(-1, session.space.size)
        most = free.max(axis=0, initial=-resources.SUM_MAX)
        short = ((requests > most) & (requests > 0)).any(axis=1)
        self._short = {task.uid for task, each in zip(tasks, short.tolist(), strict=True) if each}

    def may_take(self, task: jobs.Task) -> bool:
        """Whether any node usable for the task has enough free resources for the task."""
        self._session.spend("classes", CHECK_COST)
        if task.uid in self._short:
            return False
        free, most = self._usable(task)
        request = self._session.request(task)
        if ((request > most) & (request > 0)).any():
            return False
        self._session.spend("classes", len(free) // NODES_PER_UNIT)
        return bool(resources.fits(request, free).any())

    def _usable(self, task: jobs.Task) -> tuple[resources.Vector, resources.Vector]:
        """Return what the nodes usable for the task have free, (n, R), and the maximum, (R,)."""
        pools = self._session.pools
        pair = (self._session.job_state_of(task).job.queue, task.pod_class)
        domain, _ = pools.demands.get(pair, (pools.anywhere, 0))
        if domain not in self._by_domain:
            free = resources.by_column(self._free[pools.reach[domain][pools.kinds]])
            most = free.max(axis=0, initial=-resources.SUM_MAX)
            self._by_domain[domain] = free, most
        return self._by_domain[domain]


def _by_pod(session: working.Session, due: Iterable[job_state.JobState]) -> list[Group]:
    """Return the jobs whose pending pods all have equal chances, grouped by these chances."""
    found: dict[Hashable, tuple[jobs.Task, list[job_state.JobState]]] = {}
    nominated = bool(session.nominated)
    nominations = session.snapshot.carried.nominations
    all_alone = session.affinity_counts.nobody and not nominations and not nominated
    for state in due:
        task = representative(state.job)
        if task is not None and state.untouched and (all_alone or _is_alone(session, state.job)):
            reserved = session.nominated.of(task) if nominated else None
            key = (task.pod_class, task.role, state.job.queue, reserved)
            found.setdefault(key, (task, []))[1].append(state)
    return list(found.values())


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
