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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

import msgspec
import numpy as np

from vscheduler.core.config.policy import Backfill
from vscheduler.core.placement import availability
from vscheduler.core.placement.availability import Availability, Copies, Held
from vscheduler.core.placement.expected_ends import ExpectedEnds, Rows, Times
from vscheduler.core.placement.start_proofs import Minimum, Places, StartProofs
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.model import resources
from vscheduler.model.decisions import NoPromise, PromisedStart, ReservedAhead
from vscheduler.model.jobs import PLACED, Job, JobId, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.nodes import Mask
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Reservation

PROOFS_MAX = 8
"""At so many instants where the amounts may suffice, pods are placed that aren't alike."""

INSTANT_COST, PROOF_COST = 60, 200
"""Approximate microseconds for looking at the amounts at one instant, and for placing a job there,
beside what its pods cost."""

SLACK_SECONDS = 5.0
"""A pod that has just been bound may get a start that is so much later than was assumed."""


class Reservations:
    """The reservations of a cycle, in the order in which they were made."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ends = ExpectedEnds(session)
        self._proofs = StartProofs(session, self._ends)
        self._reserved: dict[JobId, Held] = {}
        self._table: Availability | None = None
        self._blocked: dict[JobId, float] = {}
        """Jobs that didn't start while something was reserved for others, in order, with how many
        seconds they run at most."""
        self._unpromised: dict[JobId, PromisedStart] = {}
        """Jobs without a promise, with what isn't known."""
        self._tried: set[str] = set()
        """Queues with a job for which a start was looked for in this cycle."""
        self._in_vain: dict[tuple[PodClass, str], list[tuple[int, float]]] = {}
        """By class and queue, how many pods can't start, and how long they run."""
        self._is_tried = False
        """Whether no reserved job can start by now: nothing has changed since that was tried."""
        self._dropped_at = (0, 0)
        """How many pods had places when reservations of placed jobs were last dropped."""

    @property
    def _mode(self) -> Backfill:
        return self._session.policy.backfill

    def wanted(self, queue: str) -> bool:
        """Whether a job of the queue that doesn't fit gets a reservation."""
        self._drop_placed()
        if self._mode is Backfill.CONSERVATIVE:
            return len(self._reserved) < self._session.policy.backfill_depth
        return self._mode is Backfill.EASY and not (
            queue in self._tried or any(held.queue == queue for held in self._reserved.values())
        )

    def due(self) -> Sequence[JobState]:
        """Return the jobs that may start now as promised, in the order of the promises."""
        now, states = self._session.snapshot.now, self._session.job_states
        return [
            states[job] for job, held in self._reserved.items() if held.reservation.start <= now
        ]

    def restore(self) -> None:
        """Take up the reservations of the last cycle, and let them start earlier where possible, or
        on nodes that aren't free before.
        """
        if self._mode is Backfill.NONE:
            return
        carried = self._session.snapshot.carried.reservations
        states = {each.job: self._waiting(each.job) for each in carried}
        found = [
            (state, self._known(state, each))
            for each in carried
            if (state := states[each.job]) is not None
        ]
        self._reserved = {known.reservation.job: known for _, known in found if known is not None}
        if found and not self._all_hold([known for _, known in found]):
            self._keep_in_turn(found)
        for job, held in list(self._reserved.items()):
            begin, before = self._earliest(held), held.reservation.start
            if self._may_improve(held):
                before = float(np.nextafter(before, inf))
            if begin < before:
                self._availability().give_back(held)
                anew = self._planned(self._session.job_states[job], begin, before)
                self._put(held if anew is None else anew)
        self._is_tried = True

    def reserve(self, state: JobState) -> None:
        """Promise the job the first start that can be found, if there is any. A cycle whose budget
        is used up promises nothing more; the next one goes on.
        """
        if state.job.id in self._reserved or self._session.work_budget.exhausted:
            return
        if not _lacks_minimum(state):
            return
        unknown = self._proofs.unknown(state)
        if unknown is None:
            self._tried.add(state.job.queue)
            held = self._planned(state, float(np.nextafter(self._session.snapshot.now, inf)), inf)
            if held is not None:
                self._put(held)
                return
            unknown = self._unknown_run_time()
        self._note(state, unknown)

    def _unknown_run_time(self) -> NoPromise | None:
        """Return whose run times aren't known, for a job for which no start was found."""
        if self._ends.some_are_unknown:
            return NoPromise.RUN_TIMES
        return NoPromise.RUN_TIME_AHEAD if self._unlimited() else None

    def _unlimited(self) -> JobId | None:
        """Return a job with a reservation whose pods run for an unknown time."""
        every = (held.reservation for held in self._reserved.values())
        return next((each.job for each in every if each.until == inf), None)

    def note_unknown(self, state: JobState) -> None:
        """Tell a job that can't be promised a start what isn't known."""
        if self._mode is not Backfill.NONE and _lacks_minimum(state):
            alike = self._proofs.minimum(state).alike
            self._note(state, None if alike else self._proofs.unknown(state))

    def _note(self, state: JobState, unknown: NoPromise | None) -> None:
        job = state.job.id
        if unknown is not None:
            ahead = unknown is NoPromise.RUN_TIME_AHEAD
            unlimited = self._unlimited() if ahead else None
            self._unpromised[job] = PromisedStart(unknown=unknown, unlimited=unlimited)

    @contextmanager
    def respected_by(self, state: JobState, *, evicting: bool = False) -> Iterator[None]:
        """Let what is reserved for others count as used, as far as the job would still run then.
        Unless pods are evicted for it, the job only looks at nodes with enough free by now.
        """
        if not self._reserved:
            yield
            return
        self._drop_placed()
        minimum, now = self._proofs.minimum(state), self._session.snapshot.now
        withheld = self._withheld(now, now + minimum.limit, state.job.id)
        if not evicting:
            withheld[~self._free_by_now(minimum)] = 0
        with self._counted(withheld):
            yield
        if withheld.any():
            self._blame(state, minimum)

    def keep_out(self, state: JobState) -> bool:
        """Whether the job surely can't start by now, since what is free is reserved for others.

        What is free only shrinks, so this holds for more pods, and such that run longer, as well.
        """
        if not self._reserved:
            return False
        self._drop_placed()
        held, minimum = self._reserved.get(state.job.id), self._proofs.minimum(state)
        if not minimum.alike:
            return False
        if held is not None:
            return self._waits_on(state, held)
        known = self._in_vain.setdefault((minimum.task.pod_class, state.job.queue), [])
        if not any(n <= minimum.needed and t <= minimum.limit for n, t in known):
            copies = self._copies(state)
            left = copies.fitting(minimum.limit)
            if left >= minimum.needed or left == copies.now:
                return False
            known.append((minimum.needed, minimum.limit))
        self._blame(state, minimum)
        return True

    def _waits_on(self, state: JobState, held: Held) -> bool:
        """Whether a job with a reservation surely can't start by now."""
        minimum, now = self._proofs.minimum(state), self._session.snapshot.now
        if held.reservation.start <= now or (self._is_tried and not self._proofs.shares_decide):
            return held.reservation.start > now
        if len(self._reserved) == 1:
            return False  # nobody else keeps it out
        if self._copies(state).now < minimum.needed:
            return True
        self._availability().give_back(held)
        left = self._copies(state).fitting(minimum.limit)
        self._availability().take(held)
        return left < minimum.needed

    @contextmanager
    def respected_by_all(self) -> Iterator[None]:
        """Let all that is reserved count as used, for the reasons of jobs that it keeps out."""
        if not self._reserved:
            yield
            return
        with self._counted(self._withheld(self._session.snapshot.now, inf)):
            yield

    def _withheld(self, begin: float, until: float, job: JobId | None = None) -> Vector:
        """Return what reservations leave too little of to a pod that runs from one instant to the
        other, (N, R): what they take, less what pods that end first release. That of the job itself
        doesn't count.
        """
        table, own = self._availability(), None if job is None else self._reserved.get(job)
        if own is not None:
            table.give_back(own)
        least = table.least(begin, until)
        if own is not None:
            table.take(own)
        withheld: Vector = np.maximum(self._ends.free_at(begin) - least, 0)
        return withheld

    def _blame(self, state: JobState, minimum: Minimum) -> None:
        """Record that a job that lacks this can't start because of reservations."""
        if state.job.id not in self._reserved:
            self._blocked[state.job.id] = minimum.limit

    def conclude(self) -> None:
        """Drop the reservations of jobs that start, or could have started; tell those that wait."""
        session = self._session
        for job, held in list(self._reserved.items()):
            start = held.reservation.start
            if start <= session.snapshot.now or not _lacks_minimum(session.job_states[job]):
                del self._reserved[job]
            else:
                session.wake(start)  # what ends by then may have ended long before
        promises = dict(self._unpromised)
        if self._reserved:
            starts = ((held.reservation.start, job) for job, held in self._reserved.items())
            at, first = min(starts)
            for job, limit in self._blocked.items():
                ahead = ReservedAhead(job=first, at=at, limit=limit)
                known = promises.get(job, PromisedStart())
                promises[job] = msgspec.structs.replace(known, ahead=ahead)
        for job, held in self._reserved.items():
            promises[job] = PromisedStart(at=held.reservation.start)
        for job, promised in promises.items():
            session.reasons.promise(job, promised)

    def carried(self) -> tuple[Reservation, ...]:
        """Return what the next cycle takes up."""
        return tuple(held.reservation for held in self._reserved.values())

    def _drop_placed(self) -> None:
        """Drop the reservations of jobs that have got their places in this cycle."""
        decided = self._session.decided
        placed = len(decided.binds), len(decided.pipelined)
        if placed == self._dropped_at:
            return
        self._dropped_at = placed
        states = self._session.job_states
        for job in list(self._reserved):
            if not _lacks_minimum(states[job]):
                self._drop(job)
                self._in_vain.clear()
                self._is_tried = False

    def _waiting(self, job: JobId) -> JobState | None:
        """Return the state of a job that still waits for its minimum, or None."""
        if job not in self._session.active:
            return None
        state = self._session.job_states[job]
        return state if _lacks_minimum(state) else None

    def _known(self, state: JobState, reservation: Reservation) -> Held | None:
        """Return the reservation if its pods and nodes are still there, or None."""
        rows = self._session.layout.rows
        waiting = _waiting_pods(state)
        places = [
            (waiting[uid], rows[node])
            for uid, node in reservation.nodes
            if uid in waiting and node in rows
        ]
        if len(places) < len(reservation.nodes) or not places:
            return None
        start = max(reservation.start, self._session.snapshot.now)
        if start > reservation.start:
            until = start + (reservation.until - reservation.start)
            reservation = msgspec.structs.replace(reservation, start=start, until=until)
        return self._held(state, reservation, places)

    def _all_hold(self, found: Sequence[Held | None]) -> bool:
        """Whether all nodes still have the room for all reservations in time."""
        table = self._availability()  # with all starts, whether they are kept or not
        if not all(found):
            return False
        return table.suffices or all(
            table.suffices_for(held, SLACK_SECONDS) for held in self._reserved.values()
        )

    def _keep_in_turn(self, found: Sequence[tuple[JobState, Held | None]]) -> None:
        """Keep the reservations for which there is room in time, in their order, and plan the
        others anew.
        """
        for job in list(self._reserved):
            self._drop(job)
        for state, known in found:
            if known is not None:
                self._put(known)
                if self._availability().suffices_for(known, SLACK_SECONDS):
                    continue
                self._drop(state.job.id)
            self.reserve(state)

    def _planned(self, state: JobState, begin: float, before: float) -> Held | None:
        """Return a reservation with the first start that can be found from one instant on, and
        before another one, for a job that has none in the table.
        """
        session, minimum = self._session, self._proofs.minimum(state)
        table = self._availability()
        copies = self._copies(state)
        numbers = copies.candidates(minimum.needed, minimum.limit)
        instants = table.instants[numbers]
        in_time = (instants >= begin) & (instants < min(before, inf))
        numbers = numbers[in_time & table.releases[numbers]]
        if not minimum.alike:
            return self._placed(state, copies, availability.some(numbers, PROOFS_MAX))
        while (found := copies.first(numbers, minimum.needed, minimum.limit)) is not None:
            number, fitting = found
            session.spend("reservations", INSTANT_COST)
            start = float(table.instants[number])
            busy_until = None if start <= session.snapshot.now else copies.busy_until(number)
            places = self._proofs.filled(state, minimum, fitting, busy_until)
            numbers = numbers[numbers > number]
            if not places:
                continue
            if self._proofs.within_share(state, minimum, start):
                return self._planned_at(state, minimum, start, places)
            instants = table.instants[numbers]
            numbers = numbers[self._first_within_share(state, minimum, instants) :]
        return None

    def _placed(self, state: JobState, copies: Copies, numbers: Rows) -> Held | None:
        """Return a reservation with the first of these starts at which the core finds nodes."""
        minimum, now = self._proofs.minimum(state), self._session.snapshot.now
        instants = self._availability().instants
        for number in numbers.tolist():
            start = float(instants[number])
            busy_until = None if start <= now else copies.busy_until(number)
            self._session.spend("reservations", PROOF_COST)
            with self._counted(self._withheld(start, start + minimum.limit)):
                places = self._proofs.placed(state, start, busy_until)
            if places:
                return self._planned_at(state, minimum, start, places)
        return None

    def _first_within_share(self, state: JobState, minimum: Minimum, instants: Times) -> int:
        """Return the place of the first instant at which the share of the queue suffices: pods end,
        so that it does ever after.
        """

        def suffices(start: float) -> bool:
            self._session.spend("reservations", INSTANT_COST)
            return self._proofs.within_share(state, minimum, start)

        if not len(instants) or not suffices(float(instants[-1])):
            return len(instants)
        return bisect.bisect_left(instants.tolist(), True, key=suffices)

    def _availability(self) -> Availability:
        """Return the table of what is free over time, as it is by now."""
        if self._table is None or not self._table.follow():
            self._table = Availability(self._session, self._ends, self._reserved.values())
        return self._table

    def _put(self, held: Held) -> None:
        """Add a reservation, or put it in the place of the job's other one, which isn't in the
        table.
        """
        self._reserved[held.reservation.job] = held
        if self._table is not None:
            self._table.take(held)

    def _drop(self, job: JobId) -> None:
        """Forget the reservation of a job."""
        held = self._reserved.pop(job)
        if self._table is not None:
            self._table.give_back(held)

    def _copies(self, state: JobState) -> Copies:
        """Return how many pods of the job fit at each instant."""
        minimum = self._proofs.minimum(state)
        usable = self._proofs.usable(state, minimum)[0] if minimum.alike else None
        return self._availability().copies(minimum.request, usable)

    def _may_improve(self, held: Held) -> bool:
        """Whether other nodes may be better at the same start."""
        free = self._session.free[held.rows]
        return bool((held.amounts <= free).all(axis=1).any())

    def _earliest(self, held: Held) -> float:
        """Return the first instant at which the job may start, as far as it is known without giving
        back what is reserved for it: others leave it enough from then until its start.
        """
        state, start = self._session.job_states[held.reservation.job], held.reservation.start
        minimum, copies = self._proofs.minimum(state), self._copies(state)
        instants = self._availability().instants
        end = int(np.searchsorted(instants, start))
        numbers = copies.candidates(minimum.needed, minimum.limit, end)
        found = copies.first(numbers, minimum.needed, minimum.limit, end)
        return start if found is None else float(instants[found[0]])

    def _planned_at(self, state: JobState, minimum: Minimum, start: float, places: Places) -> Held:
        names = self._session.layout.names
        reservation = Reservation(
            job=state.job.id,
            start=start,
            until=start + minimum.limit,
            nodes=tuple((task.uid, names[row]) for task, row in places),
        )
        return self._held(state, reservation, places)

    def _held(self, state: JobState, reservation: Reservation, places: Places) -> Held:
        """Return a reservation with what it takes of the nodes."""
        session = self._session
        rows, at = np.unique([row for _, row in places], return_inverse=True)
        amounts = np.zeros((len(rows), session.space.size), dtype=np.int64)
        np.add.at(amounts, at, np.array([session.request(task) for task, _ in places]))
        return Held(reservation, state.job.queue, rows, amounts)

    def _free_by_now(self, minimum: Minimum) -> Mask:
        """Return the nodes (N,) on which a pod of the job might start: those with enough free, and
        those where waiting pods could give it up.
        """
        session = self._session
        mask = resources.fits(minimum.request, session.free)
        for waiting in session.decided.pipelined.values():
            mask[session.layout.rows[waiting.node]] = True
        return mask

    @contextmanager
    def _counted(self, amounts: Vector) -> Iterator[None]:
        """Let these amounts (N, R) count as used."""
        rows = np.flatnonzero(amounts.any(axis=1))
        self._session.cluster.hold(rows, amounts[rows])
        try:
            yield
        finally:
            self._session.cluster.hold(rows, -amounts[rows])


def _lacks_minimum(state: JobState) -> bool:
    return bool(state.counts[TaskStatus.PENDING]) and not state.reaches(PLACED)


def _waiting_pods(state: JobState) -> dict[TaskId, Task]:
    """Return the waiting pods of a job by UID."""
    if state.untouched:
        return state.job.memo("waiting by UID", lambda: _pending(state.job))
    return {task.uid: task for task in state.tasks(TaskStatus.PENDING)}


def _pending(job: Job) -> dict[TaskId, Task]:
    return {task.uid: task for task in job.tasks if task.status is TaskStatus.PENDING}
