"""Attempt: places a whole gang by the search, within a budget of steps and a statement."""

import hashlib
from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.gangs import assembly
from vscheduler.core.gangs.assembly import Assembled
from vscheduler.core.gangs.solver import depth_first, strategy
from vscheduler.core.gangs.solver.problem import (
    Found,
    Impossible,
    Problem,
    Requirement,
)
from vscheduler.core.gangs.solver.strategy import Proof
from vscheduler.core.placement import nominated_pods
from vscheduler.core.session import ordering, reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model.decisions import ReasonCode, Shortage
from vscheduler.model.gang_proof import GangProof
from vscheduler.model.jobs import JobId, PodClass, Task, TaskStatus
from vscheduler.model.queues import Queue
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import GangSearch, SearchPlace, SearchRoom

Room = SearchRoom

ASSEMBLY_COST, ASSEMBLED_NODES = 200, 5
"""Approximate microseconds for one kind of pods in a problem; so many nodes cost one more."""
STEP_COST, LARGE_STEP_COST, RULE_COST = 250, 190, 40
"""Approximate microseconds for one step of a search, for one of a large gang, and for each rule
between pods in a step."""
CELLS_A_UNIT = 250
"""For so many nodes times kinds of pods, a step takes about a microsecond more."""
CELLS_A_STEP = 40_000
"""For each so many nodes times kinds of pods, a step counts once more."""
ENOUGH_STEPS = 256
"""A search with fewer steps is left to the next cycle. So many are enough for most gangs."""
CYCLES_MAX = 16
"""A search is given up after so many times the steps of a cycle."""
CONTINUE_SECONDS = 1.0
"""After how long a search that was cut short is continued."""
REARRANGED_PART = 8
"""To spare one victim, this fraction of the steps may be used."""
REARRANGED_STEPS = 20
"""What it costs to look at all nodes again for one victim, in steps."""
ABOUT_NODES = frozenset({ReasonCode.NO_ROOM, ReasonCode.NEVER_FITS, ReasonCode.NO_DOMAIN})
"""Reasons that a search may find to be wrong for the gang as a whole: no node has room."""
ABOUT_SHARES = frozenset({ReasonCode.QUEUE_OVER_SHARE, ReasonCode.PLUGIN_REFUSED})
"""The same: the queue may not have more."""


class Outcome(Enum):
    """What came of an attempt."""

    PLACED = auto()
    FAILED = auto()
    LEFT = auto()
    """The budget of the cycle is too small, and the next cycle goes on with the search."""


def resume(
    session: Session,
    statement: Statement,
    queue: Queue,
    state: JobState,
) -> Outcome:
    """Begin with a search that the last cycle has left, if its problem is still the same.

    If it fails, the tasks may be placed one by one.
    """
    known = session.gang_searches.last((state.job.id, _idle(session)))
    if known is None or not known.waits or not could_help(session, state):
        return Outcome.FAILED
    outcome = Attempt(session, queue, state).resume(statement, known)
    if outcome is Outcome.PLACED:
        session.gang_searches.forget(state.job.id)
    return outcome


def start_now(
    session: Session,
    statement: Statement,
    queue: Queue,
    state: JobState,
    since: int = 0,
) -> bool:
    """Place the minimum of a job on what is free now, although its tasks could wait where they are.

    Placing tasks one by one takes resources that are being released as soon as nothing free is left
    for a task, and the pods that hold them may never end. If no nodes are found, the tasks stay
    where the statement has placed them since the checkpoint `since`.
    """
    if not _may_help(session, state):
        return False
    waiting = statement.set_aside(since)
    if Attempt(session, queue, state).succeeds(statement, (_idle(session),)):
        session.reasons.forget(state.job.id)
        session.gang_searches.forget(state.job.id)
        return True
    statement.place_again(waiting)
    return False


def place(
    session: Session,
    statement: Statement,
    queue: Queue,
    state: JobState,
) -> Outcome:
    """Place the minimum of a job by a search, since placing its tasks one by one has failed.

    What the statement holds of the job is undone. If no nodes are found, the job's reason says what
    the search has shown. A job that its queue's share limits may still borrow.
    """
    if not _may_help(session, state):
        return Outcome.FAILED
    statement.rollback()
    attempt = Attempt(session, queue, state)
    if attempt.succeeds(statement, attempt.rooms()):
        session.reasons.forget(state.job.id)
        session.gang_searches.forget(state.job.id)
        return Outcome.PLACED
    if attempt.is_left:
        return Outcome.LEFT
    if attempt.proof is not None and attempt.proof.limited:
        session.over_share[state.job.id] = state
    if attempt.proof is not None and attempt.over_limit:
        reasons.note_limit(session, state, attempt.proof, attempt.shortages)
    elif attempt.proof is not None:
        if attempt.proof.proved:
            reasons.note_no_choice(session, state)
        session.reasons.add_proof(state.job.id, attempt.proof)
    return Outcome.FAILED


def with_room_to_free(
    session: Session,
    state: JobState,
    tasks: Sequence[Task],
    evictions: str,
    most: Vector,
) -> list[tuple[Task, int]] | None:
    """Return nodes for the minimum of a job, if all that may be evicted were gone; or None.

    `most` (N, R) is an upper bound of what these evictions could free.
    """
    return Attempt(session, session.queues[state.job.queue], state).find(tasks, evictions, most)


def rearranged(session: Session, state: JobState, tasks: Sequence[Task]) -> list[tuple[Task, int]]:
    """Return nodes for all of these tasks after all that is being released has gone; or none."""
    attempt = Attempt(session, session.queues[state.job.queue], state)
    assembled = attempt.assembled(tasks, Room.RELEASING)
    given = assembled.scored()
    every = Requirement(kinds=tuple(range(len(given.kinds))), least=len(tasks))
    given = msgspec.structs.replace(given, requirements=(every,), sub_groups=())
    if not assembled.rows.size or not depth_first.remembers(given):
        return []
    outcome = strategy.solve(given, session.gang_searches.steps_left // REARRANGED_PART)
    attempt.spend(given, outcome.steps + REARRANGED_STEPS)
    if not isinstance(outcome.answer, Found):
        return []
    return assembled.on_nodes(outcome.answer.places)


def _idle(session: Session) -> Room:
    """Return what is searched first: resources that are free now."""
    return Room.LENT if session.lending else Room.IDLE


def is_about_nodes(session: Session, state: JobState) -> bool:
    """Whether nodes, as far as is known, are what the job lacks."""
    reason = session.reasons.by_job.get(state.job.id)
    return reason is None or reason.code in ABOUT_NODES


def is_proved(session: Session, state: JobState) -> bool:
    """Whether a search has shown that there are no nodes for the minimum of a job."""
    reason = session.reasons.by_job.get(state.job.id)
    return reason is not None and reason.proof is not None and reason.proof.proved


def _may_help(session: Session, state: JobState) -> bool:
    """Whether nodes are what a job lacks that can't be placed pod by pod."""
    if not could_help(session, state):
        return False
    if not is_about_nodes(session, state):
        # Other members may ask for less than those that the queue may not take.
        elastic = state.job.task_count > state.minimum
        reason = session.reasons.by_job[state.job.id]
        if not elastic or reason.code not in ABOUT_SHARES:
            return False
    return True


def could_help(session: Session, state: JobState) -> bool:
    """Whether a search could do better than placing pod by pod.

    It can't for equal pods that nothing but their size and one rule restricts: any of them is as
    good as any other.
    """
    if not session.gang_searches.steps_max or not session.dispatch.asks(AllHooks.job_ready):
        return False
    job = state.job
    if len(job.classes) > 1 or job.roles_count or state.sub_groups is not None:
        return True
    if any(_is_restricted(session, pod_class) for pod_class in job.classes):
        return True
    if session.affinity_counts.nobody and not session.nominated.anybody:
        return False
    return len({nominated_pods.class_key(session, task) for task in job.tasks}) > 1


def _is_restricted(session: Session, pod_class: PodClass) -> bool:
    """Whether more than the size of such pods and one rule decides on their nodes."""
    limits = pod_class.constraints
    return bool(
        limits.pod_affinity
        or limits.spread
        or len(limits.pod_anti_affinity) > 1
        or limits.resource_claims
        or session.volumes.demands.choosing(pod_class)
    )


class Attempt:
    """One attempt to place the minimum of a job that placing pod by pod doesn't place."""

    def __init__(self, session: Session, queue: Queue, state: JobState) -> None:
        self._session, self._queue, self._state = session, queue, state
        self.proof: GangProof | None = None
        """Why no nodes were found."""
        self.over_limit = False
        """Whether the queue may not have enough of the pods, wherever they are."""
        self.shortages: tuple[Shortage, ...] = ()
        """The limits of the queue that are in the way; empty if none is by itself."""
        self.is_left = False
        """Whether a search that hasn't begun yet is left to the next cycle."""

    def rooms(self) -> Sequence[Room]:
        """Return where the job may be placed: on what is free, or else on what is released."""
        idle = _idle(self._session)
        waits = self._session.cluster.is_releasing and not self._session.lending
        return (idle, Room.RELEASING) if waits else (idle,)

    def succeeds(self, statement: Statement, rooms: Sequence[Room]) -> bool:
        """Place the minimum in the first of these rooms that has nodes for it, or place nothing.

        The job has no task placed in this cycle.
        """
        tasks = self._pending()
        for room in rooms:
            self.proof = None
            if not tasks:
                continue
            assembled = self.assembled(tasks, room)
            places = self._solve(assembled, (self._state.job.id, room))
            if places is not None:
                return self._place(statement, assembled, places)
            if self.over_limit or self.is_left:
                break
        return False

    def resume(self, statement: Statement, search: GangSearch) -> Outcome:
        """Place the minimum on what is free by a search that was left by the last cycle."""
        tasks, room = self._pending(), _idle(self._session)
        assembled = self.assembled(tasks, room)
        if _fingerprint(assembled.given) != search.fingerprint:
            return Outcome.FAILED
        places = self._solve(assembled, (self._state.job.id, room))
        if places is not None:
            placed = self._place(statement, assembled, places)
            return Outcome.PLACED if placed else Outcome.FAILED
        # The tasks are placed one by one for the sake of the reason why they don't fit.
        return Outcome.LEFT if self._session.work_budget.is_late else Outcome.FAILED

    def find(
        self, tasks: Sequence[Task], evictions: str, most: Vector
    ) -> list[tuple[Task, int]] | None:
        """Return tasks with rows, in an order in which all filters pass; None if none are found."""
        if not tasks:
            return None
        assembled = self.assembled(tasks, Room.EVICTABLE, most)
        places = self._solve(assembled, (self._state.job.id, f"{Room.EVICTABLE}: {evictions}"))
        return None if places is None else assembled.on_nodes(places)

    def assembled(self, tasks: Sequence[Task], room: Room, most: Vector | None = None) -> Assembled:
        """Return the problem of placing enough of these tasks."""
        assembled = assembly.assemble(self._session, self._state, tasks, room, most)
        each = ASSEMBLY_COST + assembled.rows.size // ASSEMBLED_NODES
        self._session.spend("assemblies", each * len(assembled.tasks))
        return assembled

    def _pending(self) -> Sequence[Task]:
        """Return the tasks to place, in the order of their turns."""
        pending = list(self._state.tasks(TaskStatus.PENDING))
        return ordering.tasks(self._session.dispatch, self._state, pending)

    def _solve(self, assembled: Assembled, place: SearchPlace) -> Sequence[tuple[int, int]] | None:
        """Return kinds and rows, unless none are found, or it is known that none will be."""
        given, searches = assembled.given, self._session.gang_searches
        if not assembled.rows.size:  # nobody fits anywhere, and other reasons say it better
            return None
        known = self._known(given, place)
        if known.places:
            known = msgspec.structs.replace(known, waits=False)
        elif not known.finished:
            known = self._go_on(assembled, known, place[0])
        if known.places:
            searches.keep(place, known)
            return known.places
        if not known.finished:
            self._continue_soon()
        self._conclude(assembled, place, known)
        return None

    def _go_on(self, assembled: Assembled, known: GangSearch, job: JobId) -> GangSearch:
        """Search within the budgets, or leave that to later cycles, and return what is known."""
        given, searches = assembled.given, self._session.gang_searches
        weight = 1 + given.cells // CELLS_A_STEP
        allowed = searches.steps_left // weight
        whole = min(searches.steps_max // weight, strategy.enough_steps(given))
        if allowed < max(1, whole) or not searches.is_due(job):
            return known
        cost, budget = _step_cost(given), self._session.work_budget
        enough = budget.affords_early(cost, min(allowed, max(whole, ENOUGH_STEPS)))
        affordable = budget.affords(cost, allowed)
        if affordable < max(1, enough) and not known.waits:
            self.is_left = not known.steps
            return msgspec.structs.replace(known, waits=True)
        known = msgspec.structs.replace(known, waits=False)
        affordable = max(affordable, min(allowed, ENOUGH_STEPS))
        return self._search(assembled.scored(), known, affordable, weight)

    def _known(self, problem: Problem, place: SearchPlace) -> GangSearch:
        """Return what is known of this problem."""
        known = self._session.gang_searches.last(place) or GangSearch(fingerprint=b"")
        fingerprint = _fingerprint(problem)
        if known.fingerprint == fingerprint:
            return known
        # Nodes may change all the time, but no search is left to the next cycle twice in a row.
        return GangSearch(fingerprint=fingerprint, spent=known.spent, waits=known.waits)

    def _search(self, problem: Problem, known: GangSearch, allowed: int, weight: int) -> GangSearch:
        """Search, or go on, and return what is known then."""
        over_limit = not known.steps and self._is_over_limit(problem, allowed)
        if over_limit:
            # If the nodes are too small as well, that is the better reason.
            problem = msgspec.structs.replace(problem, queue_room=None)
            known = msgspec.structs.replace(known, over_limit=True)
        failed = known.failed if known.steps else None
        outcome = strategy.solve(problem, allowed, failed)
        if over_limit and not isinstance(outcome.answer, Impossible):
            self.spend(problem, outcome.steps, weight)
            return msgspec.structs.replace(known, finished=True)
        if isinstance(outcome.answer, Found):
            self.spend(problem, outcome.steps, weight)
            # If all goes well, the job is placed, and nothing is remembered.
            return msgspec.structs.replace(known, places=outcome.answer.places)
        return self._refused(problem, known, outcome, allowed, weight)

    def _is_over_limit(self, problem: Problem, allowed: int) -> bool:
        """Whether the queue may not have enough of the pods, whatever the nodes are."""
        if problem.queue_room is None:
            return False
        choice = strategy.solve(problem.without_nodes(), allowed)
        self.spend(problem, choice.steps)
        return isinstance(choice.answer, Impossible)

    def _refused(
        self,
        problem: Problem,
        known: GangSearch,
        outcome: strategy.Outcome,
        allowed: int,
        weight: int,
    ) -> GangSearch:
        """Return what is known after a search that found no nodes."""
        blocking, steps = Impossible(), outcome.steps
        proved = isinstance(outcome.answer, Impossible)
        if proved:
            proof = Proof(problem, strategy.steps_for_proof(allowed, steps))
            blocking = proof.find()
            steps += proof.steps
        self.spend(problem, steps, weight)
        enough = self._session.gang_searches.steps_max * CYCLES_MAX
        return GangSearch(
            fingerprint=known.fingerprint,
            steps=known.steps + steps,
            spent=known.spent + steps * weight,
            finished=proved
            or not depth_first.remembers(problem)
            or not problem.exact
            or (known.steps + steps) * weight >= enough,
            proved=proved,
            blocking=blocking.counts,
            irreducible=blocking.irreducible,
            over_limit=known.over_limit,
            failed=() if proved else outcome.failed,
        )

    def spend(self, problem: Problem, steps: int, weight: int = 1) -> None:
        """Count the steps of a search, each of which may count several times on many nodes."""
        self._session.gang_searches.spend(steps * weight)
        self._session.spend("searches", steps * _step_cost(problem))

    def _continue_soon(self) -> None:
        """Ask for another cycle with a budget of its own."""
        self._session.decided.wake(self._session.snapshot.now + CONTINUE_SECONDS)

    def _conclude(
        self,
        assembled: Assembled,
        place: SearchPlace,
        search: GangSearch,
    ) -> None:
        """Remember a search without result."""
        self._session.gang_searches.keep(place, search)
        self.over_limit = search.over_limit and not search.proved
        if self.over_limit and assembled.limits is not None:
            self.shortages = assembled.limits.shortages(assembled.given)
        if not (search.steps or search.proved or self.over_limit):
            return
        self.proof = GangProof(
            proved=search.proved or self.over_limit,
            steps=search.steps,
            blocking=tuple(assembled.pods_of(search.blocking)),
            irreducible=search.irreducible,
            limited=assembled.given.queue_room is not None
            and not (search.over_limit and search.proved),
        )

    def _place(
        self,
        statement: Statement,
        assembled: Assembled,
        places: Sequence[tuple[int, int]],
    ) -> bool:
        """Place the tasks there; place none if any filter or hook disagrees."""
        self._session.volumes.intend(assembled.volumes_of(places))
        placed = self._place_each(statement, assembled.on_nodes(places))
        self._session.volumes.intend({})
        return placed

    def _place_each(self, statement: Statement, places: Sequence[tuple[Task, int]]) -> bool:
        session, before = self._session, statement.checkpoint()
        for task, row in places:
            choice = None
            if session.dispatch.all_agree(AllHooks.allocatable, self._queue, task):
                choice = session.placement.at(task, row)
            if choice is None:
                statement.rollback(before)
                return False
            (statement.allocate if choice.idle else statement.pipeline)(task, row)
        return True


def _step_cost(problem: Problem) -> int:
    each = STEP_COST if depth_first.remembers(problem) else LARGE_STEP_COST
    return each + RULE_COST * problem.rules + problem.cells // CELLS_A_UNIT


def _fingerprint(problem: Problem) -> bytes:
    return hashlib.blake2b(problem.key(), digest_size=16).digest()
