"""Relocations: pods of a queue within its share are evicted only if a replacement fits elsewhere.

A starving job may need nodes where a queue within its share has pods. Such pods are evicted if the
same amount is free on other nodes, or can be reclaimed there from queues above their shares. A
reservation holds these resources until the owner creates the replacement pod. Without a
reservation, the queue would claim the old nodes back, and evictions would never end.

In an exchange, two pods go in one plan. A queue may be able to use one node only, on which a pod of
a queue within its share runs, while a third queue exceeds its share where that pod could run as
well: the third queue's pod makes room for the other one's replacement, which makes room for the
starving job. Whose pods may go for the replacement is asked on behalf of the starving job, by the
rules for its own victims, but none of these pods is moved in turn.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import search
from vscheduler.core.eviction.rules import VictimCandidates
from vscheduler.core.eviction.search import Problem, VictimSearch
from vscheduler.core.session.interfaces import Choice
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model.constraints import ClaimUse
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import EVICTABLE, JobId, Phase, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import ReplacementReservation

REPLACEMENT_SUFFIX = "/next"
"""Suffix added to a pod's UID for the replacement that the owner will create."""

RESERVATION_COST = 50
"""Approximate microseconds for finding or keeping the resources for one pod."""


def successor(task: Task) -> Task | None:
    """Return the expected replacement of the pod.

    None for pods with affinity, anti-affinity or topology spread: counts for such constraints are
    kept for waiting pods only, so feasible nodes of a future pod are unknown. None as well for pods
    whose claims are made for them: the replacement will have claims of its own.
    """
    limits = task.pod_class.constraints
    if limits.pod_affinity or limits.pod_anti_affinity or limits.spread:
        return None
    pod_class = task.pod_class
    if task.volumes:
        if any(isinstance(volume, ClaimUse) and volume.owner for volume in task.volumes):
            return None
        limits = msgspec.structs.replace(limits, volumes=task.volumes)
        pod_class = dataclasses.replace(pod_class, constraints=limits)
    return msgspec.structs.replace(
        task,
        pod_class=pod_class,
        uid=TaskId(task.uid + REPLACEMENT_SUFFIX),
        status=TaskStatus.PENDING,
        node=None,
        nominated_node=None,
        scheduled_at=None,
    )


class Displacement(NamedTuple):
    """A pod that would be moved in favour of a preemptor."""

    preemptor: Task
    requested: Vector
    """What the preemptor's job still requests, (R,)."""
    replacement: Task


class Relocation:
    """Finds new places for pods of queues within their shares, for one plan."""

    def __init__(self, session: Session, exchange: "Exchange | None" = None) -> None:
        """Without an exchange, pods only move to free resources."""
        self._session, self._exchange = session, exchange
        self._waiting: dict[str, list[Task]] = {}
        """By queue, waiting pods that could start alone."""
        self._preemptors: dict[TaskId, Task] = {}
        """For whom each pod would be moved."""
        self._failed: set[PodClass] = set()
        """Pods for whose replacements evictions make no room."""
        self._with_devices: frozenset[str] | None = None
        """UIDs of the pods that claims of devices are reserved for, once somebody asks."""

    def is_possible(self, preemptor: Task, requested: Vector, tasks: Sequence[Task]) -> bool:
        """Whether each pod's replacement seems to fit elsewhere, or a waiting pod of the queue with
        at least the same request does. `requested` (R,) is what the preemptor's job still requests.
        """
        self._preemptors.update((task.uid, preemptor) for task in tasks)
        return all(self._fits_elsewhere(task) or self._fits_by(task, requested) for task in tasks)

    def find(self, statement: Statement, tasks: Sequence[Task], until: float) -> bool:
        """Reserve resources for each pod's replacement, or place a waiting pod of the queue.

        Return False if neither is possible for some pod. Pods are evicted for a replacement if all
        else fails, and only those without whom not every replacement fits.
        """
        checkpoint = statement.checkpoint()
        nothing = self._session.space.zeros()
        needed: list[Sequence[Evict]] = []
        for task in tasks:
            if not self._place(statement, task, until):
                groups = self._make_room(statement, task, nothing, until)
                if groups is None:
                    return False
                needed += groups
        for group in reversed(needed if len(needed) > 1 else ()):
            without = [each for each in needed if each is not group]
            if self._suffice(statement, checkpoint, without, tasks, until):
                needed = without
        return len(needed) < 2 or self._suffice(statement, checkpoint, needed, tasks, until)

    def _suffice(
        self,
        statement: Statement,
        checkpoint: int,
        groups: Sequence[Sequence[Evict]],
        tasks: Sequence[Task],
        until: float,
    ) -> bool:
        """Whether all pods find a place with these evictions, since the checkpoint."""
        statement.rollback(checkpoint)
        for evict in itertools.chain.from_iterable(groups):
            statement.evict(evict)
        return all(self._place(statement, task, until) for task in tasks)

    def _place(self, statement: Statement, task: Task, until: float) -> bool:
        """Reserve free resources for the pod's replacement, or place a waiting pod of the queue."""
        replacement = self._successor(task)
        choice = None if replacement is None else self._choose(replacement)
        if replacement is None or choice is None:
            return self._start_another(statement, task)
        statement.keep(reservation(self._session, replacement, choice.row, until))
        return True

    def _make_room(
        self, statement: Statement, task: Task, requested: Vector, until: float
    ) -> Sequence[Sequence[Evict]] | None:
        replacement = self._successor(task)
        if self._exchange is None or replacement is None:
            return None
        displacement = Displacement(self._preemptors[task.uid], requested, replacement)
        return self._exchange.place(statement, displacement, until)

    def _successor(self, task: Task) -> Task | None:
        """Return the expected replacement; None for a pod with devices, as well: which devices the
        replacement could get elsewhere isn't known before its claims are made.
        """
        if self._with_devices is None:
            claims = self._session.snapshot.devices.claims.values()
            self._with_devices = frozenset(user for each in claims for user in each.users)
        job = self._session.job_state_of(task).job
        users = {task.uid, *(group.id for group in job.claim_groups)}
        return successor(task) if users.isdisjoint(self._with_devices) else None

    def _fits_by(self, task: Task, requested: Vector) -> bool:
        """Whether evictions could make room for the pod's replacement."""
        if task.pod_class in self._failed:
            return False
        with self._session.statement() as trial:
            if self._make_room(trial, task, requested, self._session.snapshot.now) is not None:
                return True
        self._failed.add(task.pod_class)
        return False

    def _choose(self, task: Task) -> Choice | None:
        self._session.spend("moves", RESERVATION_COST)
        return self._session.placement.choose(task)

    def _fits_elsewhere(self, task: Task) -> bool:
        replacement = self._successor(task)
        if replacement is not None and self._choose(replacement) is not None:
            return True
        classes = {substitute.pod_class: substitute for substitute in self._substitutes(task)}
        return any(self._choose(each) is not None for each in classes.values())

    def _start_another(self, statement: Statement, task: Task) -> bool:
        """Place a waiting pod of the same queue instead of the pod's replacement."""
        queue = self._session.queues[self._session.job_state_of(task).job.queue]
        failed: set[PodClass] = set()
        for substitute in self._substitutes(task):
            waits = self._session.job_state_of(substitute).status(substitute) is TaskStatus.PENDING
            if not waits or substitute.pod_class in failed:
                continue
            choice = self._choose(substitute)
            if choice is None or not self._session.dispatch.all_agree(
                AllHooks.allocatable, queue, substitute
            ):
                failed.add(substitute.pod_class)
                continue
            statement.pipeline(substitute, choice.row)
            return True
        return False

    def _substitutes(self, task: Task) -> list[Task]:
        """Return the waiting pods in the task's queue that request no less of any resource."""
        queue = self._session.job_state_of(task).job.queue
        if queue not in self._waiting:
            self._waiting[queue] = [
                task
                for state in self._session.unfinished_jobs()
                if state.job.queue == queue and _starts_singly(state)
                for task in state.tasks(TaskStatus.PENDING)
            ]
        least = self._session.request(task)
        return [
            each for each in self._waiting[queue] if (self._session.request(each) >= least).all()
        ]


def _starts_singly(state: JobState) -> bool:
    """Whether each pod of the gang could start alone."""
    admitted = state.phase is not Phase.PENDING
    return admitted and (state.has_minimum or state.job.min_member <= 1) and not state.sub_groups


def reservation(
    session: Session, replacement: Task, row: int, until: float
) -> ReplacementReservation:
    """Return the reservation of this node for a replacement, until this instant."""
    queue = session.job_state_of(replacement).job.queue
    return ReplacementReservation(
        task=replacement, queue=queue, node=session.layout.names[row], until=until
    )


def awaited_replacements(session: Session) -> list[ReplacementReservation]:
    """Return the reservations for pods that don't exist yet, and still count as demand."""
    found: list[ReplacementReservation] = []
    for job, reservations in _valid(session).items():
        _, left = _match(session, job, reservations)
        found += (reservation for reservation in left if reservation.queue in session.queues)
    return found


def resume(session: Session) -> None:
    """Give reservations to replacement pods that have appeared, and renew the rest.

    Runs before any action. If a job can't start with the replacements present, all reservations of
    the job are renewed.
    """
    for job, reservations in _valid(session).items():
        pairs, _ = _match(session, job, reservations)
        moved_in = _nominate(session, session.job_states[job], pairs) if pairs else frozenset()
        used = {reservation.task.uid for task, reservation in pairs if task.uid in moved_in}
        with session.statement() as trial:
            for reservation in reservations:
                if reservation.task.uid not in used:
                    session.spend("moves", RESERVATION_COST)
                    if _is_available(session, reservation):
                        trial.keep(reservation)
            trial.hold()


def _nominate(
    session: Session,
    state: JobState,
    pairs: Sequence[tuple[Task, ReplacementReservation]],
) -> frozenset[TaskId]:
    """Nominate the pods on the reserved nodes, if the job could then start.

    Return who was nominated. Pods of a sub-group that isn't whole with them aren't: they would lose
    their nodes to others while the sub-group waits for its next pod.
    """
    with session.statement() as trial:
        placed = _pipeline(session, trial, pairs)
        groups = state.sub_groups
        whole = [pair for pair in placed if groups is None or groups.is_complete(pair[0])]
        if len(whole) < len(placed):
            trial.rollback()
            placed = _pipeline(session, trial, whole)
        if not state.waiting_tasks or not session.dispatch.vote(AllHooks.job_pipelined, state):
            return frozenset()
        for task in state.tasks(TaskStatus.PIPELINED):
            session.decided.move_in(task, state.node(task) or "")
        trial.hold()
    return frozenset(task.uid for task, _ in placed)


def _pipeline(
    session: Session, trial: Statement, pairs: Iterable[tuple[Task, ReplacementReservation]]
) -> list[tuple[Task, ReplacementReservation]]:
    """Let the pods wait on the nodes that are reserved for them; return those that still fit."""
    placed = []
    for task, reservation in pairs:
        session.spend("moves", RESERVATION_COST)
        row = session.layout.rows[reservation.node]
        if session.placement.feasible(task, row):
            trial.pipeline(task, row)
            placed.append((task, reservation))
    return placed


def _is_available(session: Session, reservation: ReplacementReservation) -> bool:
    """Whether the reservation can still be met.

    If the job has no pods left, only amounts are checked.
    """
    row = session.layout.rows[reservation.node]
    if reservation.task.job in session.job_states:
        return session.placement.feasible(reservation.task, row)
    free = session.cluster.allocatable[row] - session.cluster.future_used[row]
    return bool((session.request(reservation.task) <= free).all())


def _valid(
    session: Session,
) -> Mapping[JobId, Sequence[ReplacementReservation]]:
    """Return the valid reservations by job: not expired, and on an existing node.

    Reservations for pods that stayed, because the API server refused the eviction, are dropped.
    """
    by_job: dict[JobId, list[ReplacementReservation]] = {}
    for reservation in session.snapshot.carried.replacement_reservations:
        if reservation.until > session.snapshot.now and reservation.node in session.layout.rows:
            by_job.setdefault(reservation.task.job, []).append(reservation)
    for job in [job for job in by_job if job in session.job_states]:
        tasks = session.job_states[job].job.tasks
        stayed = {task.uid + REPLACEMENT_SUFFIX for task in tasks if task.status in EVICTABLE}
        by_job[job] = [
            reservation for reservation in by_job[job] if reservation.task.uid not in stayed
        ]
    return by_job


def _match(
    session: Session,
    job: JobId,
    reservations: Sequence[ReplacementReservation],
) -> tuple[list[tuple[Task, ReplacementReservation]], list[ReplacementReservation]]:
    """Pair each reservation with a waiting pod of an equal class that has no nomination.

    Return the pairs, and the reservations without a pod.
    """
    nominated = session.snapshot.carried.nominations
    state = session.job_states.get(job)
    newcomers = [
        task
        for task in (state.job.tasks if state is not None else ())
        if task.status is TaskStatus.PENDING and task.uid not in nominated
    ]
    pairs, left = [], []
    for reservation in reservations:
        alike = (task for task in newcomers if task.pod_class.equals(reservation.task.pod_class))
        task = next(alike, None)
        if task is None:
            left.append(reservation)
        else:
            newcomers.remove(task)
            pairs.append((task, reservation))
    return pairs, left


class ExchangeSearch(VictimSearch):
    """One attempt to reserve resources for one replacement."""

    def __init__(self, displacement: Displacement, until: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._replacement, self._until = displacement.replacement, until
        self._requested = displacement.requested

    def succeeds(self) -> bool:
        """Reserve resources where evictions cost least."""
        task = self._replacement
        nodes = self._session.layout.size
        self._session.spend("moves", search.TASK_COST + nodes // search.NODES_PER_UNIT)
        self._scarce = self._session.request(task).astype(np.float64)
        self._pool.start_search(self._requested)
        return self._place_with_victims(task)

    @property
    def groups(self) -> Sequence[Sequence[Evict]]:
        """The evictions, in groups that only go together."""
        by_pod = {evict.task.uid: evict for evict in self._trial.evicts}
        return [[by_pod[task.uid] for task in unit.tasks] for unit in self._chosen.values()]

    def _assign(self, task: Task, row: int) -> None:
        self._trial.keep(reservation(self._session, task, row, self._until))
        self.placed[task.uid] = (task, row)

    def _is_allowed(self, task: Task) -> bool:
        """Whether limits admit the task: its queue holds no more than before the pod is moved."""
        del task
        return True


class Exchange:
    """Makes room for replacements, by evictions on behalf of one starving job."""

    def __init__(
        self, problem: Callable[[], Problem], pool: Callable[[Task], VictimCandidates]
    ) -> None:
        """`problem` returns that of the job as it is then, and `pool` the candidates on behalf of a
        task. The bounds are apart from those of the search around it, which would see what is only
        tried.
        """
        self._problem, self._pool = problem, pool

    def place(
        self, statement: Statement, displacement: Displacement, until: float
    ) -> Sequence[Sequence[Evict]] | None:
        """Reserve resources for the replacement; return the evictions, None without success."""
        pool = self._pool(displacement.preemptor)
        tried = ExchangeSearch(displacement, until, self._problem(), statement, pool)
        return tried.groups if tried.succeeds() else None
