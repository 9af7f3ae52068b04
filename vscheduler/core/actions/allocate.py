"""Allocate: place pending pods, first the minimum of a gang as a whole, then pod by pod.

Queues take turns in order of fairness. Volcano: actions/allocate.
"""

import functools
import itertools
from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import Enum, auto
from typing import ClassVar, TypeAlias

from vscheduler.core.api.contracts import Action, Argument
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.config.policy import BACKFILL, BACKFILL_DEPTH, Backfill
from vscheduler.core.eviction import nominations
from vscheduler.core.gangs import attempt
from vscheduler.core.placement import (
    best_effort,
    network_domains,
    queueing_hints,
    unschedulable_classes,
)
from vscheduler.core.placement.best_effort import BestEffortPlacement
from vscheduler.core.placement.unschedulable_classes import Group, UnschedulableClasses
from vscheduler.core.session import job_class, job_state, ordering, reasons
from vscheduler.core.session.job_state import JobState, Key, SubGroups
from vscheduler.core.session.ordering import Line, SortKey
from vscheduler.core.session.reasons import JobTurn
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.core.topology.groups import JobTopology
from vscheduler.model.jobs import PLACED, READY, JobId, Phase, Task, TaskStatus
from vscheduler.model.queues import Queue

SEARCH_STEPS = "allocate.gangSearchSteps"

TURN_COST = 20
"""Approximate microseconds for one turn of the loop without any placement."""

TASK_COST = 50
"""Approximate microseconds for one task placed or refused."""

JOBS_PER_FAILURE = 256
"""After one turn in vain for so many jobs in line, the rest is checked for classes without room."""


class Placed(Enum):
    """The result of placing a task or a sub-group."""

    YES = auto()
    NOWHERE = auto()
    NOT_TRIED = auto()
    """The queue may not take the task, or a task of the same role found no node before."""


Lines: TypeAlias = dict[str, Line[JobTurn]]
"""By queue, the jobs with tasks to place."""


class Allocate(Action[Session]):
    """Place pending tasks on nodes with enough free resources, now or after pending releases."""

    name = "allocate"
    arguments: ClassVar[Mapping[str, Argument]] = {
        SEARCH_STEPS: Argument(int, default=1000, minimum=0),
        BACKFILL: Argument(str, Backfill.NONE.value, choices=tuple(Backfill)),
        BACKFILL_DEPTH: Argument(int, default=100, minimum=1),
        "predicateErrorCacheEnable": Argument(bool, default=True),
    }

    def prepare(self, session: Session) -> None:
        """Allow searches for whole gangs, also by other actions."""
        if session.policy.rules.searches_gangs:
            session.gang_searches.allow(int(self.number(SEARCH_STEPS)))

    def execute(self, session: Session) -> None:
        """Give turns to queues, one job a turn; an overused queue gets no more turns.

        Jobs with nominations go first. Jobs without any suitable node are reported after all turns,
        since turns are more important for a limited budget. Half of the budget is guaranteed for
        turns, whatever admission has cost, and at least one turn is given, whatever the sorting of
        jobs has cost; a quarter is guaranteed for reports.
        """
        for state in session.work_budget.in_turn(
            nominations.startable(session, self._waiting(session))
        ):
            _start_nominated(session, state)
        _start_as_promised(session)
        session.work_budget.grant(2)
        queueing_hints.activate(session)
        classes = UnschedulableClasses(session)
        lines, unschedulable = _line_up(session, classes)
        blocked = BlockedJobs(session, unschedulable)
        later: Lines = {}
        spent = _take_turns(session, (lines, later), classes, blocked)
        if later and not spent:
            _take_turns(session, (later, None), classes, blocked)
        blocked.reserve_for_all()
        for line in (*lines.values(), *later.values()):
            session.reasons.skip(*(turn.state.job.id for turn in line.rest()))
        session.work_budget.grant(4)
        unschedulable_classes.report(session, blocked.groups)
        if blocked.kept_out:
            with session.reservations.respected_by_all():
                unschedulable_classes.report(session, classes.grouped(blocked.kept_out))
        queueing_hints.check_reasons(session)

    def conclude(self, session: Session) -> None:
        """Lend what no queue can use within its share, not even by evictions.

        This comes after all actions, so that nothing is lent that a job within its share waits for.
        """
        if not session.may_lend:
            return
        # Earlier cycles of an unfinished round have refused jobs as well.
        earlier = session.snapshot.carried.attempted
        states = dict(session.over_share)
        if earlier:
            waiting = session.waiting_jobs()
            states.update({state.job.id: state for state in waiting if state.job.id in earlier})
        asking = [state for state in states.values() if _asks_for_more(session, state)]
        if asking:
            session.lending = True
            _lend(session, asking)
            session.lending = False

    def _waiting(self, session: Session) -> Collection[JobId]:
        """Return the jobs that wait on reserved resources, and may start on these at once.

        All jobs with pipelined tasks count, since preempt and reclaim also place tasks on idle
        resources. Jobs for which pods are evicted in this cycle are left out, and stay on the
        planner's nodes.
        """
        waiting = {held.task.job for held in session.decided.pipelined.values()}
        return waiting - {evict.beneficiary for evict in session.decided.evicts.values()}


def _take_turns(
    session: Session,
    line_up: tuple[Lines, Lines | None],
    classes: UnschedulableClasses,
    blocked: "BlockedJobs",
) -> bool:
    """Give turns while the budget lasts, and return whether the budget is used up.

    In a hurry, jobs of namespaces that have used their part of the budget are moved to the later
    lines. As room becomes scarce, jobs without any leave the lines, to be reported after the turns.
    """
    lines, later = line_up
    key = functools.partial(ordering.queue_key, session.dispatch)
    # Keys of queues grow with allocations; in a tree of the plugin drf they may shrink, too.
    waiting = ordering.queue_line(session.dispatch, shrinks=session.policy.has_tree("drf"))
    for name in lines:
        queue = session.queues[name]
        waiting.join(key(queue), queue)
    in_vain, spent = 0, False
    while waiting and not spent:
        session.spend("turns", TURN_COST)
        queue = waiting.next()
        line = lines[queue.name]
        if later is not None:
            _defer(session, line, later, queue.name)
        if not line:
            continue
        if session.dispatch.any_says(AllHooks.overused, queue):
            for turn in line.rest():
                blocked.reserve(turn.state)
                reasons.note_share(session, queue, turn)
                session.over_share[turn.state.job.id] = turn.state
            lines[queue.name] = Line()
            continue
        blocked.reserve_before(queue, line.first)
        in_vain += not _take_turn(session, queue, line, classes, blocked)
        waiting.join(key(queue), queue)
        if in_vain and in_vain * JOBS_PER_FAILURE >= sum(map(len, lines.values())):
            in_vain = 0
            blocked.add(_without_room(session, lines, classes))
        spent = session.work_budget.over
    return spent


def _take_turn(
    session: Session,
    queue: Queue,
    line: Line[JobTurn],
    classes: UnschedulableClasses,
    blocked: "BlockedJobs",
) -> bool:
    """Give the first job of the line a turn, and return whether that wasn't in vain."""
    turn, places = line.leave(), True
    session.work_budget.charge(turn.state.job.namespace)
    if _is_kept_out(session, classes, turn.state):
        blocked.keep_out(turn.state)
    elif not (places := _place(session, queue, turn)):
        blocked.reserve(turn.state)
    elif turn.tasks:
        line.join(ordering.job_key(session.dispatch, turn.state), turn)
    session.work_budget.charge()
    return places


class BlockedJobs:
    """Jobs without any node that has room for them, which get no turns, but reservations."""

    def __init__(self, session: Session, groups: list[Group]) -> None:
        self._session = session
        self.groups = groups
        """Their groups, to be reported after all turns."""
        self.kept_out: list[JobState] = []
        """Jobs that can't start since what is free is reserved for others."""
        self._lines: dict[str, Line[JobState]] = {}
        self._join(groups)

    def add(self, groups: list[Group]) -> None:
        """Add jobs for which no node has room any more."""
        self.groups += groups
        self._join(groups)

    def _join(self, groups: list[Group]) -> None:
        session = self._session
        if session.policy.backfill is Backfill.NONE:
            return
        for state in itertools.chain.from_iterable(group for _, group in groups):
            line = self._lines.setdefault(state.job.queue, Line())
            line.join(ordering.job_key(session.dispatch, state), state)

    def keep_out(self, state: JobState) -> None:
        """Let a job wait that can't start since what is free is reserved for others."""
        self.kept_out.append(state)
        if self._session.reservations.wanted(state.job.queue):
            self._session.reservations.reserve(state)

    def reserve(self, state: JobState) -> None:
        """Promise a start to a job that has no turn, or has had it in vain."""
        if self._session.reservations.wanted(state.job.queue):
            self._session.reservations.reserve(state)
        else:
            self._session.reservations.note_unknown(state)

    def reserve_before(self, queue: Queue, turn: JobTurn) -> None:
        """Promise starts to jobs of the queue that come before this one."""
        line = self._lines.get(queue.name)
        key = ordering.job_key(self._session.dispatch, turn.state) if line else ()
        while line and self._session.reservations.wanted(queue.name):
            if ordering.job_key(self._session.dispatch, line.first) > key:
                return
            self._session.reservations.reserve(line.leave())

    def reserve_for_all(self) -> None:
        """Promise starts to jobs that come after all turns."""
        for _, line in sorted(self._lines.items()):
            while line:
                self.reserve(line.leave())


def _asks_for_more(session: Session, state: JobState) -> bool:
    """Whether an admitted job has pods left to place, and doesn't wait for its minimum on nodes."""
    left = state.counts[TaskStatus.PENDING] > state.pending_best_effort
    waits = state.waiting_tasks and not state.has_minimum
    admitted = state.phase is not Phase.PENDING
    return left and admitted and not waits and reasons.invalid(session, state) is None


def _lend(session: Session, states: Sequence[JobState]) -> None:
    """Give turns to jobs that their queues' shares don't cover, while anything is free.

    The job comes first whose queue ends with the smallest part of its share, then the oldest. This
    has a quarter of the budget, or more until the first job has got something, so that jobs in vain
    keep nobody waiting; the cycle counts as finished all the same.
    """
    is_spent, lent = session.work_budget.part(4), False
    session.work_budget.lift()
    in_vain, are_equal = set[Hashable](), session.dispatch.equal_for_equal_jobs
    classes = UnschedulableClasses(session)
    classes.grouped(states)
    lines: Lines = {}
    for state in states:
        tasks = functools.partial(ordering.pending, session.dispatch, state)
        key = ordering.job_key(session.dispatch, state)
        lines.setdefault(state.job.queue, Line()).join(key, JobTurn(state, tasks))
    waiting: Line[Queue] = Line()
    for name, line in lines.items():
        waiting.join(_lending_key(session, line.first), session.queues[name])
    while waiting and not (lent and is_spent()):
        session.spend("loans", TURN_COST)
        queue = waiting.leave()
        line = lines[queue.name]
        if session.dispatch.any_says(AllHooks.overused, queue):
            continue
        turn = line.leave()
        class_key = job_class.of_waiting(turn.state.job) if are_equal else None
        lacks_room = classes.lacks_room(turn.state) or _is_kept_out(session, classes, turn.state)
        if not (lacks_room or class_key in in_vain):
            session.work_budget.charge(turn.state.job.namespace)
            starts = _lend_to(session, queue, turn)
            session.work_budget.charge()
            lent = lent or starts
            if starts and turn.tasks:
                line.join(ordering.job_key(session.dispatch, turn.state), turn)
            elif not starts and class_key is not None:
                in_vain.add(class_key)
        if line:
            waiting.join(_lending_key(session, line.first), queue)
    session.work_budget.cut_lending = bool(waiting)


def _lending_key(session: Session, turn: JobTurn) -> SortKey:
    """Return the place of a queue whose first job has this turn."""
    queue = session.queues[turn.state.job.queue]
    return ordering.lending_key(session.dispatch, queue, turn.state, turn.tasks)


def _lend_to(session: Session, queue: Queue, turn: JobTurn) -> bool:
    """Give the job one turn, and return whether pods start."""
    state, before = turn.state, turn.state.counts[TaskStatus.PENDING]
    with reasons.kept(session, state):
        # A job that has its minimum is ready with no further pod, too.
        return _place(session, queue, turn) and state.counts[TaskStatus.PENDING] < before


def _without_room(session: Session, lines: Lines, classes: UnschedulableClasses) -> list[Group]:
    """Remove the jobs for which no node has enough free resources any more, and return them."""
    dropped: Line[JobTurn] = Line()
    for line in lines.values():
        line.part(functools.partial(_lacks_room, session, classes), dropped)
    return classes.grouped(turn.state for turn in dropped.rest())


def _is_kept_out(session: Session, classes: UnschedulableClasses, state: JobState) -> bool:
    """Whether a turn would be in vain because of reservations for other jobs."""
    return (
        session.reservations.keep_out(state)
        and classes.is_grouped(state)
        and not nominations.may_take_held_nodes(session, state)
    )


def _lacks_room(
    session: Session,
    classes: UnschedulableClasses,
    turn: JobTurn,
) -> bool:
    return classes.lacks_room(turn.state) and not nominations.may_take_held_nodes(
        session, turn.state
    )


def _defer(session: Session, line: Line[JobTurn], later: Lines, queue: str) -> None:
    """Move jobs of namespaces that have used their part to `later`.

    Nothing moves while the first job's namespace has not used its part.
    """

    def comes_last(turn: JobTurn) -> bool:
        return session.work_budget.has_had_its_part(turn.state.job.namespace)

    if line and comes_last(line.first):
        line.part(comes_last, later.setdefault(queue, Line()))


def _start_nominated(session: Session, state: JobState) -> None:
    """Start a job on its nominated nodes, let the job wait on, or cancel the nominations.

    The job has its turn before all jobs without nominations, and regardless of the queue's share:
    the queue's usage already includes the nominations.
    """
    queue = session.queues[state.job.queue]
    earlier = session.reasons.by_job.get(state.job.id)
    session.reasons.forget(state.job.id)  # an earlier action may have noted a wait
    waiting = state.tasks(TaskStatus.PIPELINED)
    tasks = ordering.tasks(session.dispatch, state, waiting)
    with session.statement() as trial:
        for task in tasks:
            trial.withdraw(task)
        withdrawn = trial.checkpoint()  # where to return to if the nominations are cancelled
        turn = JobTurn(state, (task for task in tasks if not task.best_effort))
        _fill_all(session, trial, queue, turn)
        best_effort_placement = _best_effort(session, trial, queue, turn)
        if _move_to_free(best_effort_placement, queue, turn, withdrawn):
            nominated = {task.uid for task in tasks}
            turn.begin_anew([task for task in turn.tasks if task.uid in nominated])
            _fill_all(session, trial, queue, turn)
        if best_effort_placement.needed():
            best_effort_placement.others({task.uid for task in tasks})
        outcome = best_effort_placement.conclude()
        if outcome is best_effort.Outcome.WAITS:
            session.reasons.note(state.job.id, reasons.waiting(session, state))
        elif outcome is best_effort.Outcome.NEITHER:
            trial.rollback(withdrawn)
            trial.commit()
    remains = state.phase is Phase.PENDING and state.counts[TaskStatus.PENDING]
    if earlier is not None and remains and state.job.id not in session.reasons.by_job:
        session.reasons.note(state.job.id, earlier)  # not admitted, so the rest has no turn


def _start_as_promised(session: Session) -> None:
    """Start the jobs whose promised time has come, whatever their queues' shares are by now."""
    for state in session.reservations.due():
        session.lending = True
        turn = JobTurn(state, ordering.pending(session.dispatch, state))
        _place(session, session.queues[state.job.queue], turn)
        session.lending = False


def _fill_all(
    session: Session,
    statement: Statement,
    queue: Queue,
    turn: JobTurn,
) -> None:
    """Place as many of the tasks as possible."""
    while turn.tasks:
        before = len(turn.tasks)
        _fill(session, statement, queue, turn)
        assert len(turn.tasks) < before


def _line_up(session: Session, classes: UnschedulableClasses) -> tuple[Lines, list[Group]]:
    """Return the jobs with tasks to place by queue, and the jobs without a suitable node."""
    lines: Lines = {}
    admission = session.policy.runs("enqueue")
    due = [
        state for state in session.waiting_jobs() if _is_due(session, state, admission=admission)
    ]
    without = classes.groups(
        state for state in due if not nominations.may_take_held_nodes(session, state)
    )
    apart = {state.job.id for _, group in without for state in group}
    for state in due:
        job = state.job
        if job.id in apart:
            continue
        if state.counts[TaskStatus.PENDING] > state.pending_best_effort:
            line = lines.setdefault(job.queue, Line())
            key = ordering.job_key(session.dispatch, state)
            tasks = functools.partial(ordering.pending, session.dispatch, state)
            line.join(key, JobTurn(state, tasks))
        elif state.counts[TaskStatus.GATED] and not state.has_minimum:
            reasons.note_incomplete(session, state)
    return lines, without


def _is_due(session: Session, state: JobState, *, admission: bool) -> bool:
    """Whether the job gets a turn. With admission, the PodGroup must be admitted first."""
    if state.phase is Phase.PENDING:
        if admission:
            return False
        state.phase = Phase.INQUEUE
    if not state.counts[TaskStatus.PENDING] and state.has_minimum:
        return False
    if (
        state.waiting_tasks
        and not state.has_minimum  # had its turn and waits on nominated nodes
        and not session.held_pods.goes_on(state)
    ):
        return False
    reason = reasons.invalid(session, state)
    if reason is not None:
        session.reasons.note(state.job.id, reason)
        return False
    if state.job.id in session.snapshot.carried.attempted:
        session.reasons.skip(state.job.id)
        return False
    return True


def _place(session: Session, queue: Queue, turn: JobTurn) -> bool:
    """Give the job one turn: place the minimum as a block, or one more pod.

    Return whether pods are bound, or wait for claims and don't keep other pods of the job waiting.
    """
    with session.reservations.respected_by(turn.state):
        topology = session.topology.of(turn.state.job.id)
        if topology is not None:
            return _place_near(session, queue, turn, topology)
        outcome = _try(session, queue, turn)
    return outcome is best_effort.Outcome.STARTS and not session.held_pods.holds_back(turn.state)


def _place_near(session: Session, queue: Queue, turn: JobTurn, topology: JobTopology) -> bool:
    """Give one turn to a job whose pods have to be near to each other: in the nearest domain where
    they can start now, or else in the nearest where they can after pending releases.
    """
    state, group = turn.state, topology.whole
    tasks, needed = network_domains.pending(state), network_domains.needed_of(state)
    tries, tried, proved = network_domains.Tries(session, group, tasks, needed), False, True
    for later in tries:
        if tried:
            session.reasons.forget(state.job.id)
            turn.begin_anew(ordering.pending(session.dispatch, state))
        tried = True
        outcome = _try(session, queue, turn, waits=later)
        if outcome is not best_effort.Outcome.NEITHER:
            starts = outcome is best_effort.Outcome.STARTS
            return starts and not session.held_pods.holds_back(state)
        if not attempt.is_about_nodes(session, state):
            return False
        proved &= attempt.is_proved(session, state)
    if proved and (group.is_bounded or not tried):
        session.reasons.forget(state.job.id)
        reason = network_domains.too_small(session, state, topology, tries.room)
        session.reasons.note(state.job.id, reason)
    turn.tasks.clear()
    return False


def _try(
    session: Session, queue: Queue, turn: JobTurn, *, waits: bool = True
) -> best_effort.Outcome | None:
    """Place the minimum of a job as a block, or one more pod, on the nodes that it may use now.

    Unless it `waits`, it doesn't reserve what is still being released. Return None if the next
    cycle goes on with it.
    """
    state = turn.state
    with session.statement() as trial:
        fill = functools.partial(_fill, session, trial, queue, turn)
        if _begin(session, trial, queue, turn) is attempt.Outcome.LEFT:
            reasons.leave(session, state)
            return None
        if not state.job.pending_best_effort and session.dispatch.all_agree(
            AllHooks.job_ready, state
        ):
            trial.commit()
            return best_effort.Outcome.STARTS
        best_effort_placement = _best_effort(session, trial, queue, turn)
        conclude = functools.partial(best_effort_placement.conclude, waits=waits)
        _move_to_free(best_effort_placement, queue, turn)
        outcome = conclude()
        if outcome is best_effort.Outcome.NEITHER:
            search = attempt.place(session, trial, queue, state)
            if search is attempt.Outcome.LEFT:
                reasons.leave(session, state)
                return None
            if search is attempt.Outcome.PLACED:
                turn.begin_anew(ordering.pending(session.dispatch, state))
                outcome = conclude()
        if turn.tasks and job_state.rests(session.dispatch, state, PLACED):
            fill(idlers=False)  # more large tasks may fit
            outcome = conclude()
        if outcome is best_effort.Outcome.NEITHER and nominations.take_held_nodes(
            session, trial, turn, fill
        ):
            outcome = conclude()
        if outcome is best_effort.Outcome.WAITS:
            reasons.note_waiting(session, state)
        elif outcome is best_effort.Outcome.NEITHER:
            reasons.note_incomplete(session, state)
    return outcome


def _move_to_free(
    placed: BestEffortPlacement,
    queue: Queue,
    turn: JobTurn,
    since: int = 0,
) -> bool:
    """Move a job that would wait for terminating pods to free nodes, if a search finds some.

    `since` is the checkpoint after which the job's tasks were placed. Return whether the job has
    moved; the turn has the remaining tasks then.
    """
    session, trial, state = placed.session, placed.trial, placed.state
    if placed.outcome() is not best_effort.Outcome.WAITS:
        return False
    if not attempt.start_now(session, trial, queue, state, since):
        return False
    turn.begin_anew(ordering.pending(session.dispatch, state))
    return True


def _begin(
    session: Session,
    statement: Statement,
    queue: Queue,
    turn: JobTurn,
) -> attempt.Outcome:
    """Go on with a search that the last cycle has left, or else place tasks one by one."""
    search = attempt.resume(session, statement, queue, turn.state)
    if search is attempt.Outcome.PLACED:
        turn.begin_anew(ordering.pending(session.dispatch, turn.state))
    elif search is attempt.Outcome.FAILED:
        _fill(session, statement, queue, turn)
    return search


def _fill(
    session: Session,
    statement: Statement,
    queue: Queue,
    turn: JobTurn,
    *,
    idlers: bool = True,
) -> None:
    """Place tasks until the job is ready, can't become ready, or has no tasks left.

    With `idlers`, best-effort members count while waiting.
    """
    state = turn.state
    while turn.tasks:
        key = None if state.sub_groups is None else state.sub_groups.of(turn.tasks[0])
        if state.sub_groups is None or key is None:
            placed = _place_next(session, statement, queue, turn)
        else:
            placed = _fill_sub_group(session, statement, queue, turn, (state.sub_groups, key))
        if placed is Placed.NOWHERE and not state.may_become_ready(turn.failed_roles):
            return
        ready = placed is Placed.YES and session.dispatch.all_agree(AllHooks.job_ready, state)
        if ready and (idlers or not job_state.rests(session.dispatch, state, READY)):
            return


def _fill_sub_group(
    session: Session,
    statement: Statement,
    queue: Queue,
    turn: JobTurn,
    sub_group: tuple[SubGroups, Key],
) -> Placed:
    """Place the next tasks of this sub-group until the sub-group is whole; otherwise place none.

    Volcano: allocateResourcesForTasks, which discards a sub-job that isn't ready.
    """
    groups, key = sub_group
    topology = session.topology.of(turn.state.job.id)
    part = None if topology is None else topology.parts.get(key)
    if topology is None or part is None:
        return _fill_here(session, statement, queue, turn, sub_group)
    tasks = [task for task in turn.tasks if groups.of(task) == key]
    others = [task for task in turn.tasks if groups.of(task) != key]
    needed = min(max(1, groups.missing(key)), len(tasks))
    tries = network_domains.Tries(session, part, tasks, needed, topology.whole.chosen)
    for _ in tries:
        turn.begin_anew([*tasks, *others])
        placed = _fill_here(session, statement, queue, turn, sub_group)
        if placed is Placed.YES:
            return placed
    reason = network_domains.too_small_for_part(turn.state, topology, tries.room, key)
    session.reasons.note(turn.state.job.id, reason)
    turn.begin_anew(others)
    return Placed.NOWHERE


def _fill_here(
    session: Session,
    statement: Statement,
    queue: Queue,
    turn: JobTurn,
    sub_group: tuple[SubGroups, Key],
) -> Placed:
    """Place the next tasks of this sub-group on the nodes that they may use now, or none."""
    groups, key = sub_group
    before = statement.checkpoint()
    while turn.tasks and groups.of(turn.tasks[0]) == key:
        placed = _place_next(session, statement, queue, turn)
        whole = groups.is_whole(key, PLACED)
        if whole and _best_effort(session, statement, queue, turn).sub_group(key, before):
            return placed
    statement.rollback(before)
    turn.failed_roles.clear()  # their resources are free again
    return Placed.NOWHERE


def _place_next(
    session: Session,
    statement: Statement,
    queue: Queue,
    turn: JobTurn,
) -> Placed:
    """Place the next task."""
    task = turn.tasks.popleft()
    session.spend("tasks", TASK_COST)
    if not session.dispatch.all_agree(AllHooks.allocatable, queue, task):
        reasons.note_share(session, queue, turn, task)
        session.over_share[turn.state.job.id] = turn.state
        return Placed.NOT_TRIED
    if task.role and task.role in turn.failed_roles:
        return Placed.NOT_TRIED
    choice = session.placement.choose(task)
    if choice is None or (session.lending and not choice.idle):
        turn.failed_roles.add(task.role)
        reasons.note_no_room(session, turn, task)
        return Placed.NOWHERE
    (statement.allocate if choice.idle else statement.pipeline)(task, choice.row)
    return Placed.YES


def _best_effort(
    session: Session,
    statement: Statement,
    queue: Queue,
    turn: JobTurn,
) -> BestEffortPlacement:
    """Return the BestEffortPlacement, which places best-effort members of the job."""

    def place(task: Task) -> bool:
        session.spend("tasks", TASK_COST)
        if not session.dispatch.all_agree(AllHooks.allocatable, queue, task):
            reasons.note_share(session, queue, turn, task)
            session.over_share[turn.state.job.id] = turn.state
            return False
        choice = session.placement.choose(task)
        if choice is None or (session.lending and not choice.idle):
            reasons.note_no_room(session, turn, task)
            return False
        (statement.allocate if choice.idle else statement.pipeline)(task, choice.row)
        return True

    return BestEffortPlacement(session=session, trial=statement, state=turn.state, place=place)
