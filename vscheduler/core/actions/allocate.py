"""Allocate: give idle room to jobs, gangs whole, then pod by pod in order of fairness.

Volcano: actions/allocate.
"""

import functools
from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import Enum, auto
from typing import ClassVar, TypeAlias

from vscheduler.core.api import contracts
from vscheduler.core.model import decisions, jobs, queues
from vscheduler.core.placement import best_effort, unschedulable_classes
from vscheduler.core.preemption import nominations
from vscheduler.core.session import job_state, ordering, reasons, statement
from vscheduler.core.session import session as working

TURN_COST = 20
"""Microseconds, about: one turn of the loop without any placement."""

TASK_COST = 50
"""Microseconds, about: one task placed, or refused."""

ROOMLESS_COST = 50
"""Microseconds, about: one job told that there is no node for it."""


class Placed(Enum):
    """What came of placing a task, or a sub-group."""

    YES = auto()
    NOWHERE = auto()
    NOT_TRIED = auto()
    """Its queue may not take it, or a task like it found no node before."""


Lines: TypeAlias = dict[str, ordering.Line[reasons.JobTurn]]
"""By queue, the jobs that have something to place."""


class Allocate(contracts.Action[working.Session]):
    """Place pending tasks on nodes that have room now, or will have when pods are gone."""

    name = "allocate"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "predicateErrorCacheEnable": contracts.Argument(bool, default=True),
    }

    def execute(self, session: working.Session) -> None:
        """Queue after queue, one job a turn; a queue that is overused has no more turns.

        Jobs for which there is no node are told so after all turns, for which budgets are first.
        Half of the budget is left for turns, whatever admission has cost; what lining up costs
        leaves one turn at least.
        """
        for gang in session.spending.in_turn(
            nominations.redeemable(session, self._waiting(session))
        ):
            _redeem(session, gang)
        session.spending.grant(2)
        lines, roomless_groups = _line_up(session)
        later: Lines = {}
        spent = _take_turns(session, lines, later)
        if not spent:
            _take_turns(session, later, None)
        for line in (*lines.values(), *later.values()):
            session.unreached.update(sheet.gang.job.id for sheet in line.rest())
        for group in roomless_groups:
            _tell_roomless(session, *group)

    def _waiting(self, session: working.Session) -> Collection[jobs.JobId]:
        """Return the jobs that wait on reserved resources, and may start on these at once.

        All jobs with pipelined tasks count, since preempt and reclaim also place tasks on idle
        resources. Jobs for which pods are evicted in this cycle are left out, and stay on the
        planner's nodes.
        """
        waiting = {held.task.job for held in session.pipelined.values()}
        return waiting - {evict.beneficiary for evict in session.evicts.values()}


def _take_turns(session: working.Session, lines: Lines, later: Lines | None) -> bool:
    """Give turns as long as the budget lasts; whether it is spent. later: in a hurry, jobs whose
    namespaces have had their part wait there.
    """
    waiting: ordering.Line[queues.Queue] = ordering.Line()
    key = functools.partial(ordering.queue_key, session.dispatch)
    shrink = session.policy.has_tree("drf")
    leave = waiting.leave_smallest if shrink else waiting.leave_as_things_stand
    for name in lines:
        queue = session.queues[name]
        waiting.join(key(queue), queue)
    spent = False
    while waiting and not spent:
        session.spend("turns", TURN_COST)
        queue = leave(key)
        line = lines[queue.name]
        if later is not None:
            _stand_back(session, line, later, queue.name)
        if not line:
            continue
        if session.dispatch.any_says("overused", queue):
            for sheet in line.rest():
                reasons.note_share(session, queue, sheet)
            lines[queue.name] = ordering.Line()
            continue
        sheet = line.leave()
        session.spending.payer = sheet.gang.job.namespace
        if _place(session, queue, sheet) and sheet.tasks:
            line.join(ordering.job_key(session.dispatch, sheet.gang), sheet)
        session.spending.payer = ""
        waiting.join(key(queue), queue)
        spent = session.spending.over
    return spent


def _stand_back(
    session: working.Session, line: ordering.Line[reasons.JobTurn], later: Lines, queue: str
) -> None:
    """Who is first in line, and all behind it whose namespaces have had their part, waits until
    others have had theirs.
    """

    def has_had(sheet: reasons.JobTurn) -> bool:
        return session.spending.has_had_its_part(sheet.gang.job.namespace)

    if line and has_had(line.first):
        line.part(has_had, later.setdefault(queue, ordering.Line()))


def _redeem(session: working.Session, gang: job_state.JobState) -> None:
    """Start a job on the room that was made for it, let it wait on, or let it give the room up.

    It has its turn before all others, whatever its queue has by now: the room counts as the
    queue's already.
    """
    queue = session.queues[gang.job.queue]
    session.reasons.pop(gang.job.id, None)  # that it waits, where it was promised room just now
    waiting = gang.tasks(jobs.TaskStatus.PIPELINED)
    tasks = ordering.tasks(session.dispatch, gang, waiting)
    with session.statement() as trial:
        for task in tasks:
            trial.withdraw(task)
        withdrawn = trial.checkpoint()
        sheet = reasons.JobTurn(gang, deque(task for task in tasks if not task.best_effort))
        while sheet.tasks:
            before = len(sheet.tasks)
            _fill(session, trial, queue, sheet)
            assert len(sheet.tasks) < before
        seating = _seating(session, trial, queue, sheet)
        if seating.needed():
            seating.others({task.uid for task in tasks})
        outcome = seating.conclude()
        if outcome is best_effort.Outcome.WAITS:
            session.note(gang.job.id, reasons.of(gang, decisions.ReasonCode.WAITS_FOR_RELEASE))
        elif outcome is best_effort.Outcome.NEITHER:
            trial.rollback(withdrawn)
            trial.commit()


def _line_up(
    session: working.Session,
) -> tuple[Lines, Sequence[unschedulable_classes.Group]]:
    """The jobs that have something to place, by queue, and those for which there is no node."""
    lines: Lines = {}
    admission = session.policy.runs("enqueue")
    due = [gang for gang in session.unsettled() if _is_due(session, gang, admission=admission)]
    without = unschedulable_classes.groups(session, due)
    apart = {gang.job.id for _, group in without for gang in group}
    for gang in due:
        job = gang.job
        if job.id in apart:
            continue
        tasks = [task for task in gang.tasks(jobs.TaskStatus.PENDING) if not task.best_effort]
        if tasks:
            tasks = ordering.tasks(session.dispatch, gang, tasks)
            line = lines.setdefault(job.queue, ordering.Line())
            key = ordering.job_key(session.dispatch, gang)
            line.join(key, reasons.JobTurn(gang, deque(tasks)))
        elif gang.counts[jobs.TaskStatus.GATED] and not gang.has_minimum:
            reasons.note_incomplete(session, gang)
    return lines, without


def _is_due(session: working.Session, gang: job_state.JobState, *, admission: bool) -> bool:
    """Whether the job may have its turn; admission: only if its group was let in."""
    if gang.phase is jobs.Phase.PENDING:
        if admission:
            return False
        gang.phase = jobs.Phase.INQUEUE
    if not gang.counts[jobs.TaskStatus.PENDING] and gang.has_minimum:
        return False
    if gang.waiting_tasks and not gang.has_minimum:  # it had its turn: room was promised to it
        return False
    reason = reasons.invalid(session, gang)
    if reason is not None:
        session.note(gang.job.id, reason)
        return False
    if gang.job.id in session.snapshot.carried.attempted:
        session.unreached.add(gang.job.id)
        return False
    return True


def _tell_roomless(
    session: working.Session, task: jobs.Task, group: Sequence[job_state.JobState]
) -> None:
    """These jobs, whose pods are like this one, have had their turn, or have none in this cycle."""
    queue = session.queues[group[0].job.queue]
    overused = session.dispatch.any_says("overused", queue)
    known: dict[Hashable, decisions.Reason] = {}
    for place, gang in enumerate(group):
        if place and session.spending.over:
            session.unreached.add(gang.job.id)
            continue
        session.spending.payer = gang.job.namespace
        session.spend("roomless", ROOMLESS_COST)
        sheet = reasons.JobTurn(
            gang, deque((unschedulable_classes.representative(gang.job) or task,))
        )
        if overused:
            reasons.note_share(session, queue, sheet)
        else:
            _refuse(session, queue, sheet, known)
    session.spending.payer = ""


def _refuse(
    session: working.Session,
    queue: queues.Queue,
    sheet: reasons.JobTurn,
    known: dict[Hashable, decisions.Reason],
) -> None:
    """What `_place` comes to where there is no node; known are reasons that such jobs share."""
    gang, task = sheet.gang, sheet.tasks[0]
    if session.dispatch.all_agree("allocatable", queue, task):
        job = gang.job
        key = (len(job.tasks), job.min_member, gang.ready_tasks)
        if key not in known:
            known[key] = reasons.no_room(session, gang, task)
        session.note(job.id, known[key])
    else:
        reasons.note_share(session, queue, sheet, task)
    if session.dispatch.all_agree("job_ready", gang):
        return
    if session.dispatch.vote("job_pipelined", gang):
        reasons.note_waiting(session, gang)
    else:
        reasons.note_incomplete(session, gang)


def _place(session: working.Session, queue: queues.Queue, sheet: reasons.JobTurn) -> bool:
    """Give the job one turn: its minimum as a block, or one pod more. False: nothing is bound."""
    gang = sheet.gang
    with session.statement() as trial:
        _fill(session, trial, queue, sheet)
        if not gang.job.pending_best_effort and session.dispatch.all_agree("job_ready", gang):
            trial.commit()
            return True
        seating = _seating(session, trial, queue, sheet)
        outcome = seating.conclude()
        if sheet.tasks and job_state.rests(session.dispatch, gang, jobs.PLACED):
            _fill(session, trial, queue, sheet, idlers=False)  # perhaps more of the others fit
            outcome = seating.conclude()
        if outcome is best_effort.Outcome.WAITS:
            reasons.note_waiting(session, gang)
        elif outcome is best_effort.Outcome.NEITHER:
            reasons.note_incomplete(session, gang)
    return outcome is best_effort.Outcome.STARTS


def _fill(
    session: working.Session,
    trial: statement.Statement,
    queue: queues.Queue,
    sheet: reasons.JobTurn,
    *,
    idlers: bool = True,
) -> None:
    """Place tasks until the job is ready, or can't become ready, or no task is left; idlers:
    best-effort members count while they wait.
    """
    gang = sheet.gang
    while sheet.tasks:
        key = None if gang.sub_groups is None else gang.sub_groups.of(sheet.tasks[0])
        if gang.sub_groups is None or key is None:
            placed = _give_room(session, trial, queue, sheet)
        else:
            placed = _fill_sub_group(session, trial, queue, sheet, (gang.sub_groups, key))
        if placed is Placed.NOWHERE and not gang.may_become_ready(sheet.failed_roles):
            return
        ready = placed is Placed.YES and session.dispatch.all_agree("job_ready", gang)
        if ready and (idlers or not job_state.rests(session.dispatch, gang, jobs.READY)):
            return


def _fill_sub_group(
    session: working.Session,
    trial: statement.Statement,
    queue: queues.Queue,
    sheet: reasons.JobTurn,
    sub_group: tuple[job_state.SubGroups, job_state.Key],
) -> Placed:
    """Place the next tasks, which are of this sub-group, until it is whole; else none of them.

    Volcano: allocateResourcesForTasks, which discards a sub-job that isn't ready.
    """
    groups, key = sub_group
    before = trial.checkpoint()
    while sheet.tasks and groups.of(sheet.tasks[0]) == key:
        placed = _give_room(session, trial, queue, sheet)
        whole = groups.is_whole(key, jobs.PLACED)
        if whole and _seating(session, trial, queue, sheet).sub_group(key, before):
            return placed
    trial.rollback(before)
    sheet.failed_roles.clear()  # the room that others of these roles may need is there again
    return Placed.NOWHERE


def _give_room(
    session: working.Session,
    trial: statement.Statement,
    queue: queues.Queue,
    sheet: reasons.JobTurn,
) -> Placed:
    """Place the next task."""
    task = sheet.tasks.popleft()
    session.spend("tasks", TASK_COST)
    if not session.dispatch.all_agree("allocatable", queue, task):
        reasons.note_share(session, queue, sheet, task)
        return Placed.NOT_TRIED
    if task.role and task.role in sheet.failed_roles:
        return Placed.NOT_TRIED
    choice = session.placement.choose(task)
    if choice is None:
        sheet.failed_roles.add(task.role)
        reasons.note_no_room(session, sheet, task)
        return Placed.NOWHERE
    if choice.idle:
        trial.allocate(task, choice.row)
    else:
        trial.pipeline(task, choice.row)
    return Placed.YES


def _seating(
    session: working.Session,
    trial: statement.Statement,
    queue: queues.Queue,
    sheet: reasons.JobTurn,
) -> best_effort.Seating:
    """What gives best-effort members of the job a place."""

    def place(task: jobs.Task) -> bool:
        session.spend("tasks", TASK_COST)
        if not session.dispatch.all_agree("allocatable", queue, task):
            reasons.note_share(session, queue, sheet, task)
            return False
        choice = session.placement.choose(task)
        if choice is None:
            reasons.note_no_room(session, sheet, task)
        else:
            give = trial.allocate if choice.idle else trial.pipeline
            give(task, choice.row)
        return choice is not None

    return best_effort.Seating(session=session, trial=trial, gang=sheet.gang, place=place)
