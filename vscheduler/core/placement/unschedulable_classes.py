"""Unschedulable pod classes: jobs are refused without a turn if no node takes their pods.

While allocate runs, free resources only shrink. A job with pending pods of a single class, refused
by every node, will find no node later either, whichever jobs come first. All such jobs share an
answer. Pods with affinity to other pods are left out, for such pods may still arrive; so are
nominated pods.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.session import job_class, reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.reasons import JobTurn
from vscheduler.core.session.session import Session
from vscheduler.model import resources
from vscheduler.model.decisions import Reason
from vscheduler.model.jobs import Job, JobId, PodClass, Task, TaskStatus
from vscheduler.model.queues import Queue
from vscheduler.model.resources import Vector

JOBS_MIN = 2
"""A class with fewer jobs, for which some node has enough free resources, isn't checked: the check
would cost as much as the jobs' turns."""

PART = 4
"""At most a quarter of the budget is for classes for which some node has enough free resources."""

CHECK_COST = 5
"""Approximate microseconds for comparing a class with the most that any node has free."""

REPORT_COST = 10
"""Approximate microseconds for reporting one job without any suitable node."""

REPEAT_COST = 4
"""Approximate microseconds for reporting one more job that is like a job reported before."""

NODES_PER_UNIT = 200
"""With how many nodes a class is compared in about a microsecond."""

Group: TypeAlias = tuple[Task, Sequence[JobState]]
"""Jobs whose pending pods are all like this task."""


class UnschedulableClasses:
    """Finds jobs that no node takes, before or instead of their turns in one cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._room = FreeRoom(session)
        self._members: dict[JobId, Task] = {}
        """By job, a task that stands for all pending pods of the job, as far as known."""
        nominations = session.snapshot.carried.nominations
        self._all_alone = (
            session.affinity_counts.nobody and not nominations and not session.nominated
        )

    def groups(self, due: Iterable[JobState]) -> list[Group]:
        """Return the jobs with pods refused by every node, now and after pending releases.

        Most of them lack resources on every node, which is cheap to know for any number of classes.
        """
        session, found = self._session, list[Group]()
        by_pod = self.grouped(due)
        is_spent = session.work_budget.part(PART)
        for task, each in sorted(by_pod, key=lambda group: len(group[1]), reverse=True):
            session.work_budget.charge(task.namespace)
            if not self._room.may_take(task):
                self._note_without_room(task, each)
                found.append((task, each))
                continue
            is_checked = len(each) >= JOBS_MIN and not is_spent()
            if is_checked and not session.placement.may_take(task):
                found.append((task, each))
        session.work_budget.charge()
        return found

    def lacks_room(self, state: JobState) -> bool:
        """Whether no node has enough free resources for the job's pods."""
        task = self._members.get(state.job.id)
        if task is None or not state.untouched or self._room.may_take(task):
            return False
        self._note_without_room(task, (state,))
        return True

    def is_grouped(self, state: JobState) -> bool:
        """Whether `grouped` finds the job: its pods have equal chances."""
        return self._member(state) is not None

    def _note_without_room(self, task: Task, states: Sequence[JobState]) -> None:
        """Let jobs wait for resources if nothing else decides about their pods."""
        session = self._session
        if session.unschedulable.is_on and not session.placement.follows_pods(task):
            session.unschedulable.note_without_room(states)

    def grouped(self, due: Iterable[JobState]) -> list[Group]:
        """Return the jobs whose pending pods all have equal chances, grouped by these chances."""
        found: dict[Hashable, tuple[Task, list[JobState]]] = {}
        nominated, topology = self._session.nominated, self._session.topology
        for state in due:
            task = self._member(state)
            if task is not None:
                self._members[state.job.id] = task
                reserved = nominated.of(task) if nominated else None
                near = topology.class_key(task) if topology.is_used else None
                key = (task.pod_class, task.role, state.job.queue, near, reserved)
                found.setdefault(key, (task, []))[1].append(state)
        return list(found.values())

    def _member(self, state: JobState) -> Task | None:
        """Return a task that stands for all pending pods of the job; None if there is none."""
        if state.job.id in self._members:
            return self._members[state.job.id]
        task = representative(state.job)
        if task is None or not state.untouched:
            return None
        return task if self._all_alone or _is_alone(self._session, state.job) else None


class FreeRoom:
    """What nodes have free for pods, now and after pending releases; reservations count as free.

    Asked between turns only: by then, nodes never have more free than before.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lacking: set[tuple[str, PodClass]] = set()
        """By queue, classes for which no node has had enough."""
        self._having: set[tuple[str, PodClass]] = set()
        """The same of those for which a node has enough, as long as nodes don't change."""
        self._seen = -1
        """How much of `session.cluster.touched` is followed."""
        self._free = self._most = session.space.zeros()
        self._by_domain: dict[int, tuple[Vector, Vector]] = {}
        self._fits_anywhere: dict[PodClass, bool] = {}
        """Whether any node has enough, where all pods can use all nodes; for all queues."""

    def may_take(self, task: Task) -> bool:
        """Whether any node usable for the task has enough free resources for the task."""
        pair = (self._session.job_state_of(task).job.queue, task.pod_class)
        if pair in self._lacking:
            return False
        self._refresh()
        if pair in self._having:
            return True
        self._session.spend("classes", CHECK_COST)
        if not self._suffices(*pair, self._session.request(task)):
            self._lacking.add(pair)
            return False
        self._having.add(pair)
        return True

    def _suffices(self, queue: str, pod_class: PodClass, request: Vector) -> bool:
        """Whether any node has enough free resources."""
        if exceeds(request, self._most):
            return False
        free, most = self._usable(queue, pod_class)
        if most is not self._most and exceeds(request, most):
            return False
        self._session.spend("classes", len(free) // NODES_PER_UNIT)
        if free is not self._free:
            return bool(np.logical_or.reduce(resources.fits(request, free)))
        if pod_class not in self._fits_anywhere:
            fits = bool(np.logical_or.reduce(resources.fits(request, free)))
            self._fits_anywhere[pod_class] = fits
        return self._fits_anywhere[pod_class]

    def _refresh(self) -> None:
        """Follow the changes of nodes."""
        cluster = self._session.cluster
        if self._seen != len(cluster.touched):
            self._seen = len(cluster.touched)
            self._session.spend("classes", len(cluster.used) // NODES_PER_UNIT)
            self._free = resources.by_column(cluster.allocatable - cluster.future_used)
            self._most = np.maximum.reduce(self._free, axis=0, initial=-resources.SUM_MAX)
            self._by_domain.clear()
            self._fits_anywhere.clear()
            self._having.clear()

    def _usable(self, queue: str, pod_class: PodClass) -> tuple[Vector, Vector]:
        """Return what the nodes usable for the pods have free, (n, R), and the maximum, (R,)."""
        pools = self._session.pools
        if pools.is_one:
            return self._free, self._most
        domain = pools.domain(queue, pod_class)
        if domain not in self._by_domain:
            free = self._free[pools.rows(domain)]
            most = np.maximum.reduce(free, axis=0, initial=-resources.SUM_MAX)
            self._by_domain[domain] = free, most
        return self._by_domain[domain]


def exceeds(request: Vector, most: Vector) -> bool:
    """Whether the request (R,) is larger than the most of any requested resource, (R,)."""
    # Rows are so short that lists are faster than arrays.
    for amount, limit in zip(request.tolist(), most.tolist(), strict=True):
        if amount > limit and amount:
            return True
    return False


def _is_alone(session: Session, job: Job) -> bool:
    """Whether placing other pods can't help any pod of the job, and no pod is nominated.

    Reservations for nominated pods of other schedulers must be equal for all pods of the job.
    """
    nominations = session.snapshot.carried.nominations
    waiting = _waiting(job)
    return len({session.nominated.of(task) for task in waiting}) <= 1 and all(
        task.uid not in nominations and session.affinity_counts.state_of(task) is None
        for task in waiting
    )


def representative(job: Job) -> Task | None:
    """Return one of the job's pending pods, if all are equal in class and role."""
    return job.memo("representative", lambda: _representative(job))


def _representative(job: Job) -> Task | None:
    """Return one of the job's pending pods, without memo."""
    tasks = _waiting(job)
    if job.sub_groups or len({(task.pod_class, task.role) for task in tasks}) != 1:
        return None
    return tasks[0]


def _waiting(job: Job) -> list[Task]:
    """Return the job's pending pods by UID, except best-effort pods."""
    pending = TaskStatus.PENDING
    return [task for task in job.tasks if task.status is pending and not task.best_effort]


def report(session: Session, groups: Iterable[Group]) -> None:
    """Report groups of similar jobs without any suitable node, as if each had taken a turn.

    Jobs for which the budget doesn't suffice are left for the next cycle, except the first one.
    """
    is_first, are_equal = True, session.dispatch.equal_for_equal_jobs
    is_apart = session.dispatch.changes_for_jobs
    for task, group in groups:
        queue = session.queues[group[0].job.queue]
        overused = session.dispatch.any_says(AllHooks.overused, queue)
        known: dict[Hashable, Reason] = {}
        alike: dict[Hashable, Reason] = {}
        for state in group:
            if session.work_budget.over and not is_first:
                session.reasons.skip(state.job.id)
                continue
            is_first = False
            job = state.job
            session.work_budget.charge(job.namespace)
            class_key = None if job.id in session.reasons.by_job else job_class.of_waiting(job)
            key = (job.id, class_key) if is_apart else class_key
            if are_equal and class_key in alike:
                session.spend("roomless", REPEAT_COST)
                session.reasons.note(job.id, alike[class_key])
                session.unschedulable.add(state, key, alike[class_key])
                continue
            session.spend("roomless", REPORT_COST)
            turn = JobTurn(state, (representative(job) or task,))
            if overused:
                reasons.note_share(session, queue, turn)
            else:
                record_refusal(session, queue, turn, known if are_equal else {})
            if class_key is not None and state.untouched:
                alike[class_key] = session.reasons.by_job[job.id]
                session.unschedulable.add(state, key, alike[class_key])
    session.work_budget.charge()


def record_refusal(
    session: Session,
    queue: Queue,
    turn: JobTurn,
    known: dict[Hashable, Reason],
) -> None:
    """Record what a turn would record if no node is suitable.

    known caches the reasons of similar jobs.
    """
    state, task = turn.state, turn.tasks[0]
    if session.dispatch.all_agree(AllHooks.allocatable, queue, task):
        job = state.job
        key = (len(job.tasks), state.minimum, state.ready_tasks)
        if key not in known:
            known[key] = reasons.no_room(session, state, task)
        session.reasons.note(job.id, known[key])
    else:
        reasons.note_share(session, queue, turn, task)
    if session.dispatch.all_agree(AllHooks.job_ready, state):
        return
    if session.dispatch.vote(AllHooks.job_pipelined, state):
        reasons.note_waiting(session, state)
    else:
        reasons.note_incomplete(session, state)
