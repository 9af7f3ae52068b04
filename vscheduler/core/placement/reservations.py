"""Reservations: start times that waiting jobs are promised, and what these keep from other jobs.

A job within its rights that doesn't fit gets a start time and nodes: the first instant, as running
pods end by their limits (model.run_times), at which its minimum fits with every filter. Another job
may start only where that leaves the room free in time: it ends before, or takes what is left over.
That room counts as used while the other job has its turn (`respected_by`).

A reservation is carried from cycle to cycle. It may become earlier, as pods end before their
limits, and never later by a job that came after it. It is planned anew if what it rests on has
changed: a node is lost, or a pod outlives its limit. Slurm and Maui: EASY and conservative backfill
(Mu'alem and Feitelson 2001).
"""

import bisect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.config.policy import Backfill
from vscheduler.core.memo import evictable_pods
from vscheduler.core.session import ordering
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model import resources, run_times
from vscheduler.model.decisions import Evict, PromisedStart
from vscheduler.model.jobs import EVICTABLE, PLACED, JobId, Task, TaskStatus
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Reservation

Rows = NDArray[np.int64]
Times = NDArray[np.float64]

INSTANTS_MAX = 64
"""At so many instants, of those at which pods end, a start is looked for."""

PROOFS_MAX = 8
"""At so many of them where the amounts suffice, pods are placed, to see whether filters agree."""

INSTANT_COST, PROOF_COST = 60, 200
"""Approximate microseconds for looking at the amounts at one instant, and for placing a job there,
beside what its pods cost."""

SLACK_SECONDS = 5.0
"""A pod that has just been bound may get a start that is so much later than was assumed."""

ENDS = "ends"
"""In place of the action, for pods that are expected to have ended."""


class _Held(msgspec.Struct, frozen=True, eq=False):
    """A reservation, and what it takes of its nodes."""

    reservation: Reservation
    queue: str
    rows: Rows
    """The rows of the nodes, (n,)."""
    amounts: Vector
    """What its pods request there, (n, R)."""


class Reservations:
    """The reservations of a cycle, in the order in which they were made."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._held: dict[JobId, _Held] = {}
        self._blocking: dict[JobId, PromisedStart] = {}
        """Jobs that didn't start while something was reserved, with the first start of these."""
        self._tried: set[str] = set()
        """Queues with a job for which a start was looked for in this cycle."""
        self._ends = _Ends(session)

    @property
    def _mode(self) -> Backfill:
        return self._session.policy.backfill

    def wanted(self, queue: str) -> bool:
        """Whether a job of the queue that doesn't fit gets a reservation."""
        self._drop_placed()
        if self._mode is Backfill.CONSERVATIVE:
            return len(self._held) < self._session.policy.backfill_depth
        return self._mode is Backfill.EASY and not (
            queue in self._tried or any(held.queue == queue for held in self._held.values())
        )

    def due(self) -> Sequence[JobState]:
        """Return the jobs that may start now as promised, in the order of the promises."""
        now, states = self._session.snapshot.now, self._session.job_states
        return [states[job] for job, held in self._held.items() if held.reservation.start <= now]

    def restore(self) -> None:
        """Take up the reservations of the last cycle, and let them start earlier where possible, or
        on nodes that aren't free before.
        """
        if self._mode is Backfill.NONE:
            return
        for reservation in self._session.snapshot.carried.reservations:
            state = self._waiting(reservation.job)
            if state is None:
                continue
            kept = self._as_before(state, reservation)
            if kept is None:
                self.reserve(state)
            else:
                self._held[reservation.job] = kept
        for job, held in list(self._held.items()):
            latest = held.reservation.start
            if self._may_improve(held):
                latest = float(np.nextafter(latest, inf))
            times = self._session.snapshot.now, latest
            anew = self._planned(self._session.job_states[job], times)
            if anew is not None:
                self._held[job] = anew

    def reserve(self, state: JobState) -> None:
        """Promise the job the first start that can be found, if there is any. A cycle whose budget
        is used up promises nothing more; the next one goes on.
        """
        if state.job.id in self._held or self._session.work_budget.exhausted:
            return
        if not _may_get_one(self._session, state):
            return
        self._tried.add(state.job.queue)
        held = self._planned(state, (float(np.nextafter(self._session.snapshot.now, inf)), inf))
        if held is not None:
            self._held[state.job.id] = held

    @contextmanager
    def respected_by(self, state: JobState) -> Iterator[None]:
        """Let what is reserved for others count as used, as far as the job would still run then."""
        if not self._held:
            yield
            return
        self._drop_placed()
        now = self._session.snapshot.now
        with self._counted(now, now + _limit(self._session, state), state.job.id) as any_counted:
            yield
        others = [held.reservation for held in self._held.values()]
        if any_counted and others and state.job.id not in self._held:
            first = min(others, key=lambda each: (each.start, each.job))
            self._blocking[state.job.id] = PromisedStart(job=first.job, own=False, at=first.start)

    def conclude(self) -> None:
        """Drop the reservations of jobs that start, or could have started; tell those that wait."""
        session = self._session
        for job, held in list(self._held.items()):
            state = session.job_states[job]
            if held.reservation.start <= session.snapshot.now or not _lacks_minimum(state):
                del self._held[job]
            else:
                session.reasons.promise(
                    job, PromisedStart(job=job, own=True, at=held.reservation.start)
                )
        for job, promised in self._blocking.items():
            if promised.job in self._held:
                session.reasons.promise(job, promised)

    def carried(self) -> tuple[Reservation, ...]:
        """Return what the next cycle takes up."""
        return tuple(held.reservation for held in self._held.values())

    def _drop_placed(self) -> None:
        """Drop the reservations of jobs that have got their places in this cycle."""
        states = self._session.job_states
        for job in [each for each in self._held if not _lacks_minimum(states[each])]:
            del self._held[job]

    def _waiting(self, job: JobId) -> JobState | None:
        """Return the state of a job that still waits for its minimum, or None."""
        if job not in self._session.active:
            return None
        state = self._session.job_states[job]
        return state if _lacks_minimum(state) else None

    def _as_before(self, state: JobState, reservation: Reservation) -> _Held | None:
        """Return the reservation if its nodes still have the room in time, or None."""
        session, rows = self._session, self._session.layout.rows
        waiting = {task.uid: task for task in state.tasks(TaskStatus.PENDING)}
        places = [
            (waiting[uid], rows[node])
            for uid, node in reservation.nodes
            if uid in waiting and node in rows
        ]
        if len(places) < len(reservation.nodes) or not places:
            return None
        start = max(reservation.start, session.snapshot.now)
        held = self._held_at(state, start, places)
        free = self._ends.free_at(start + SLACK_SECONDS)[held.rows]
        until = held.reservation.until
        for row, amounts in self._deductions(start, until, state.job.id).items():
            free[held.rows == row] -= amounts
        lacking = (held.amounts > 0) & (held.amounts > free)
        return None if lacking.any() else held

    def _planned(self, state: JobState, times: tuple[float, float]) -> _Held | None:
        """Return a reservation with the first start that can be found from one instant on, and
        before another one.
        """
        session, (request, needed) = self._session, _least(self._session, state)
        limit = _limit(session, state)
        others = [held.reservation.until for held in self._held.values()]
        instants, proofs = self._ends.instants(times, others), 0

        def suffices(start: float) -> bool:
            return int(resources.copies(request, self._ends.free_at(start)).sum()) >= needed

        # Without reservations, there is ever more free.
        for start in instants[bisect.bisect_left(instants, True, key=suffices) :]:
            session.spend("reservations", INSTANT_COST)
            free = self._ends.free_at(start)
            for row, amounts in self._deductions(start, start + limit, state.job.id).items():
                free[row] -= amounts
            if resources.copies(request, free).sum() < needed:
                continue
            proofs += 1
            session.spend("reservations", PROOF_COST)
            places = self._places(state, start, start + limit)
            if places is not None:
                return self._held_at(state, start, places)
            if proofs == PROOFS_MAX:
                return None
        return None

    def _may_improve(self, held: _Held) -> bool:
        """Whether other nodes may be better at the same start."""
        if self._mode is Backfill.CONSERVATIVE:
            return True
        free = self._session.free[held.rows]
        return bool((held.amounts <= free).all(axis=1).any())

    def _places(
        self, state: JobState, start: float, until: float
    ) -> Sequence[tuple[Task, int]] | None:
        """Return nodes for the minimum of the job at an instant, or None; nothing is changed."""
        session = self._session
        with session.statement() as ended:
            for task in self._ends.before(start):
                _remove(session, ended, task)
            with (
                self._counted(start, until, state.job.id),
                session.statement() as trial,
            ):
                return _placed(session, trial, state, at_once=start <= session.snapshot.now)

    def _held_at(self, state: JobState, start: float, places: Sequence[tuple[Task, int]]) -> _Held:
        session = self._session
        names = session.layout.names
        reservation = Reservation(
            job=state.job.id,
            start=start,
            until=start + _limit(session, state),
            nodes=tuple((task.uid, names[row]) for task, row in places),
        )
        rows = sorted({row for _, row in places})
        amounts = np.zeros((len(rows), session.space.size), dtype=np.int64)
        for task, row in places:
            amounts[rows.index(row)] += session.request(task)
        return _Held(reservation, state.job.queue, np.array(rows, dtype=np.int64), amounts)

    @contextmanager
    def _counted(self, begin: float, until: float, without: JobId) -> Iterator[bool]:
        """Let what is reserved in this time for other jobs count as used."""
        found = self._deductions(begin, until, without)
        for row, amounts in found.items():
            self._session.cluster.hold(row, amounts)
        try:
            yield bool(found)
        finally:
            for row, amounts in found.items():
                self._session.cluster.hold(row, -amounts)

    def _deductions(self, begin: float, until: float, without: JobId) -> Mapping[int, Vector]:
        """Return by row what other jobs' reservations leave too little of, (R,), to a pod that runs
        from one instant to the other: what they take, less what pods that end first release.
        """
        relevant = [
            held
            for job, held in self._held.items()
            if job != without and held.reservation.start < until and held.reservation.until > begin
        ]
        if not relevant:
            return {}
        rows = np.unique(np.concatenate([held.rows for held in relevant]))
        most = np.zeros((len(rows), self._session.space.size), dtype=np.int64)
        for at in sorted({max(held.reservation.start, begin) for held in relevant}):
            taken = -self._ends.released(rows, begin, at)
            for held in relevant:
                if held.reservation.start <= at < held.reservation.until:
                    taken[np.searchsorted(rows, held.rows)] += held.amounts
            np.maximum(most, taken, out=most)
        return {int(row): amounts for row, amounts in zip(rows, most, strict=True) if amounts.any()}


class _Ends:
    """When pods end at the latest that run, or start in this cycle, as far as that is known."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks: list[Task] = []
        self._times: list[float] = []
        self._rows: list[int] = []
        self._amounts: list[Vector] = []
        self._seen = (0, 0)
        """How many binds and evictions the columns include."""
        self._sorted: tuple[Times, Rows, Vector, Sequence[Task]] | None = None

    def before(self, instant: float) -> Sequence[Task]:
        """Return the pods that end until then."""
        times, _, _, tasks = self._columns()
        return tasks[: int(np.searchsorted(times, instant, side="right"))]

    def released(self, rows: Rows, begin: float, until: float) -> Vector:
        """Return what pods on these rows (n,) release after one instant until another, (n, R)."""
        times, where, amounts, _ = self._columns()
        first, last = np.searchsorted(times, (begin, until), side="right")
        found = np.zeros((len(rows), self._session.space.size), dtype=np.int64)
        at = np.searchsorted(rows, where[first:last])
        at[at == len(rows)] = 0
        there = rows[at] == where[first:last]
        np.add.at(found, at[there], amounts[first:last][there])
        return found

    def free_at(self, instant: float) -> Vector:
        """Return what nodes will have free then, (N, R), if nothing else starts."""
        times, where, amounts, _ = self._columns()
        last = int(np.searchsorted(times, instant, side="right"))
        free = self._session.free
        np.add.at(free, where[:last], amounts[:last])
        return free

    def instants(self, times: tuple[float, float], others: Sequence[float]) -> Sequence[float]:
        """Return when something is released from one instant on, and before another one: the first
        of them if it is now, and all that follow, or some of very many.
        """
        begin, before = times
        ends, _, _, _ = self._columns()
        more = [each for each in (self._session.snapshot.now, *others) if each < inf]
        every = np.unique(np.concatenate([ends, more]))
        found = every[(every >= begin) & (every < before)]
        if len(found) > INSTANTS_MAX:
            found = found[np.linspace(0, len(found) - 1, INSTANTS_MAX).round().astype(np.int64)]
        instants: list[float] = found.tolist()
        return instants

    def _columns(self) -> tuple[Times, Rows, Vector, Sequence[Task]]:
        """Return ends in order, rows and amounts of the pods, (P,), (P,), (P, R), and the pods."""
        decided = self._session.decided
        seen = len(decided.binds), len(decided.evicts)
        if self._sorted is None or seen[1] != self._seen[1]:
            self._read_running()
            self._seen, self._sorted = (0, seen[1]), None
        for bind in decided.binds[self._seen[0] :]:
            self._add(bind.task, bind.node, None)
            self._sorted = None
        self._seen = seen
        if self._sorted is None:
            times = np.array(self._times, dtype=np.float64)
            order = np.argsort(times, kind="stable")
            none = np.zeros((0, self._session.space.size), dtype=np.int64)
            amounts = np.array(self._amounts) if self._amounts else none
            rows = np.array(self._rows, dtype=np.int64)
            tasks = [self._tasks[at] for at in order.tolist()]
            self._sorted = times[order], rows[order], amounts[order], tasks
        return self._sorted

    def _read_running(self) -> None:
        for column in (self._tasks, self._times, self._rows, self._amounts):
            column.clear()
        leaving = self._session.decided.evicts
        for job in self._session.snapshot.jobs:
            for task in job.tasks if job.queue in self._session.queues else ():
                runs = task.status in EVICTABLE and task.uid not in leaving
                if runs and task.node is not None:
                    known = task.scheduled_at is not None or task.status is TaskStatus.RUNNING
                    self._add(task, task.node, evictable_pods.start(task) if known else None)

    def _add(self, task: Task, node: str, started: float | None) -> None:
        session = self._session
        job = session.job_states[task.job].job
        limit = run_times.of(job, task, session.queues[job.queue])
        row = session.layout.rows.get(node)
        if limit is None or row is None:
            return
        now = session.snapshot.now
        self._tasks.append(task)
        self._times.append(run_times.end(now if started is None else started, limit, now))
        self._rows.append(row)
        self._amounts.append(session.request(task))


def _may_get_one(session: Session, state: JobState) -> bool:
    """Whether the minimum is what the job lacks, and its pods may be far from each other."""
    return _lacks_minimum(state) and session.topology.of(state.job.id) is None


def _lacks_minimum(state: JobState) -> bool:
    return bool(state.counts[TaskStatus.PENDING]) and not state.reaches(PLACED)


def _limit(session: Session, state: JobState) -> float:
    """Return how many seconds the job's pods run at most; infinite if that isn't known of all."""
    queue = session.queues[state.job.queue]
    waiting = state.tasks(TaskStatus.PENDING)
    found = [run_times.of(state.job, task, queue) for task in waiting]
    return max((inf if each is None else each for each in found), default=inf)


def _least(session: Session, state: JobState) -> tuple[Vector, int]:
    """Return a request, (R,), of which so many copies must fit, whichever pods start."""
    requests = {task.pod_class: session.request(task) for task in state.tasks(TaskStatus.PENDING)}
    smallest: Vector = np.minimum.reduce(list(requests.values()))
    return smallest, max(1, state.minimum - state.ready_tasks - state.waiting_tasks)


def _placed(
    session: Session, trial: Statement, state: JobState, *, at_once: bool
) -> Sequence[tuple[Task, int]] | None:
    """Place the job's minimum, pod by pod, and return the places; None if it doesn't fit, or isn't
    within the rights of its queue.
    """
    queue, places = session.queues[state.job.queue], []
    if session.dispatch.any_says(AllHooks.overused, queue):
        return None
    for task in ordering.pending(session.dispatch, state):
        if not session.dispatch.all_agree(AllHooks.allocatable, queue, task):
            continue
        row = _row(session, task, at_once=at_once)
        if row is None:
            continue
        trial.pipeline(task, row)
        places.append((task, row))
        if state.reaches(PLACED):
            return places
    return None


def _row(session: Session, task: Task, *, at_once: bool) -> int | None:
    """Return the best node for a pod. With EASY backfill, one comes first that isn't free before
    the pod starts: what is free stays for others, whoever runs beyond that start.
    """
    now, later = session.placement.fits(task)
    fits = now if at_once else later
    busy = later & ~now
    if session.policy.backfill is Backfill.EASY and not at_once and busy.any():
        fits = busy
    rows = np.flatnonzero(fits)
    return int(rows[session.placement.scores(task)[rows].argmax()]) if len(rows) else None


def _remove(session: Session, ended: Statement, task: Task) -> None:
    """Remove a pod from its node that runs, or starts in this cycle."""
    state = session.job_state_of(task)
    status = state.status(task)
    if status in EVICTABLE:
        node = state.node(task) or ""
        ended.evict(Evict(task=task, node=node, action=ENDS, beneficiary=None))
    elif status is TaskStatus.ALLOCATED:
        ended.lift(task)
