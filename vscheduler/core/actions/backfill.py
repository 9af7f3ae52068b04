"""Backfill: place best-effort pods, which need a feasible node and a pod slot only.

Best-effort pods don't change any queue's share, so each queue has one turn. Volcano:
actions/backfill.
"""

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import ClassVar

from vscheduler.core.api.contracts import Action, Argument
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.placement import best_effort, network_domains
from vscheduler.core.placement.best_effort import BestEffortPlacement
from vscheduler.core.session import job_state, ordering, reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.ordering import Line, SortKey
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model.decisions import Reason, ReasonCode
from vscheduler.model.jobs import READY, Phase, Task, TaskStatus
from vscheduler.model.queues import Queue

TASK_COST = 50
"""Approximate microseconds for one task placed or refused."""


class Backfill(Action[Session]):
    """Bind best-effort pods of jobs that are ready, or become ready by these pods."""

    name = "backfill"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "predicateErrorCacheEnable": Argument(bool, default=True),
    }

    def execute(self, session: Session) -> None:
        """Go through queues and jobs in the order at the beginning of the action."""
        for state in _line_up(session):
            if session.work_budget.exhausted:
                _skip(session, state)
            else:
                self._place(session, state)

    def conclude(self, session: Session) -> None:
        """Lend devices to pods that request nothing else, as allocate lends to all others.

        A job borrows for its minimum, or for one more pod, and then waits for its next turn. This
        has a quarter of the budget.
        """
        if not (session.devices.allocates and session.may_lend):
            return
        dispatch, lines = session.dispatch, dict[str, Line[JobState]]()
        for state in _borrowers(session):
            key = ordering.job_key(dispatch, state)
            lines.setdefault(state.job.queue, Line()).join(key, state)
        waiting, is_spent = Line[Queue](), session.work_budget.part(4)
        for name, line in lines.items():
            waiting.join(_lending_key(session, line.first), session.queues[name])
        session.lending = True
        while waiting and not is_spent():
            queue = waiting.leave()
            line = lines[queue.name]
            if dispatch.any_says(AllHooks.overused, queue):
                continue
            state = line.leave()
            session.work_budget.charge(state.job.namespace)
            if self._lends(session, state) and state.pending_best_effort:
                line.join(ordering.job_key(dispatch, state), state)
            session.work_budget.charge()
            if line:
                waiting.join(_lending_key(session, line.first), queue)
        session.lending = False

    def _lends(self, session: Session, state: JobState) -> bool:
        """Give the job one turn, and return whether pods start."""
        before = state.pending_best_effort
        with reasons.kept(session, state):
            self._place(session, state)
        return state.pending_best_effort < before

    def _place(self, session: Session, state: JobState) -> None:
        """Place the best-effort pods of a job; those of a gang that have to be near to each other
        in the nearest domain that has room for them.
        """
        topology = session.topology.of(state.job.id)
        if topology is None or topology.whole.anchor is not None:
            self._starts(session, state)
            return
        tasks, needed = network_domains.pending(state), network_domains.needed_of(state)
        tries, tried = network_domains.Tries(session, topology.whole, tasks, needed), False
        for later in tries:
            if tried:
                session.reasons.forget(state.job.id)
            tried = True
            kept = self._starts(session, state) or topology.whole.anchor is not None
            if later or kept:
                return
        if not tried and state.job.id not in session.reasons.by_job:
            reason = network_domains.too_small(session, state, topology, tries.room)
            session.reasons.note(state.job.id, reason)

    def _starts(self, session: Session, state: JobState) -> bool:
        """Place the best-effort pods that the job needs, then the rest, on nodes that it may use.

        The pods are bound if the job is ready; otherwise nothing is kept.
        """
        queue = session.queues[state.job.queue]
        with session.statement() as trial:
            place = functools.partial(self._try, session, trial, queue)
            best_effort_placement = BestEffortPlacement(
                session=session, trial=trial, state=state, place=place, statuses=READY
            )
            pending = state.pending_best_effort
            best_effort_placement.exchange()
            if best_effort_placement.needed():
                if not session.lending:
                    best_effort_placement.others()
                elif state.pending_best_effort == pending:
                    best_effort_placement.another()
            starts = job_state.is_ready(session.dispatch, state)
            if starts:
                best_effort.start(session, trial, state)
            else:
                self._give_up(session, trial, state)
        return starts

    def _try(
        self,
        session: Session,
        statement: Statement,
        queue: Queue,
        task: Task,
    ) -> bool:
        """Place the task where it can start now; a pipelined task gives up its previous node.

        Without a suitable node, a pipelined task stays.
        """
        session.spend("tasks", TASK_COST)
        state = session.job_state_of(task)
        before = statement.checkpoint()
        if state.status(task) is TaskStatus.PIPELINED:
            statement.withdraw(task)
        allowed = session.dispatch.all_agree(AllHooks.allocatable, queue, task)
        choice = session.placement.choose(task) if allowed else None
        if choice is not None and choice.idle:
            statement.allocate(task, choice.row)
            return True
        statement.rollback(before)
        if not allowed:
            session.over_share[state.job.id] = state
        if state.status(task) is TaskStatus.PENDING:
            reason = no_room(session, task) if allowed else _no_share(session, queue, task)
            session.reasons.note(state.job.id, reason)
        return False

    def _give_up(self, session: Session, statement: Statement, state: JobState) -> None:
        """Leave the statement uncommitted, as the job isn't ready."""


def _borrowers(session: Session) -> Iterator[JobState]:
    """Iterate over the jobs that wait for devices beyond their queues' shares."""
    # Earlier cycles of an unfinished round have refused jobs as well.
    asking = {*session.over_share, *session.snapshot.carried.attempted}
    for state in session.waiting_jobs() if asking else ():
        if (
            state.job.id in asking
            and any(_with_devices(state))
            and state.phase is not Phase.PENDING
            and (state.has_minimum or not state.waiting_tasks)
            and reasons.invalid(session, state) is None
        ):
            yield state


def _with_devices(state: JobState) -> Iterator[Task]:
    """Iterate over the best-effort pods that are pending, and for which devices count."""
    pending = state.tasks(TaskStatus.PENDING) if state.pending_best_effort else ()
    yield from (task for task in pending if task.best_effort and task.pod_class.devices)


def _lending_key(session: Session, state: JobState) -> SortKey:
    """Return the place of a queue whose first job is this one."""
    queue = session.queues[state.job.queue]
    return ordering.lending_key(session.dispatch, queue, state, _with_devices(state))


def _line_up(session: Session) -> Iterator[JobState]:
    """Iterate over the admitted and valid jobs with best-effort pods to place, in order."""
    lines: defaultdict[str, list[JobState]] = defaultdict(list)
    for state in session.waiting_jobs():
        job = state.job
        if not (state.pending_best_effort or state.waiting_tasks) or not any(_waiting(state)):
            continue
        if state.phase is Phase.PENDING:
            continue
        reason = reasons.invalid(session, state)
        if reason is not None:
            session.reasons.note(job.id, reason)
        elif job.id in session.snapshot.carried.attempted:
            _skip(session, state)
        else:
            lines[job.queue].append(state)
    dispatch = session.dispatch
    present = (session.queues[name] for name in lines)
    for queue in sorted(present, key=lambda queue: ordering.queue_key(dispatch, queue)):
        yield from sorted(lines[queue.name], key=lambda state: ordering.job_key(dispatch, state))


def _waiting(state: JobState) -> Iterator[Task]:
    """Iterate over the best-effort pods that are pending or pipelined."""
    pending, pipelined = TaskStatus.PENDING, TaskStatus.PIPELINED
    for status, count in ((pending, state.pending_best_effort), (pipelined, state.waiting_tasks)):
        if count:
            yield from (task for task in state.tasks(status) if task.best_effort)


def _skip(session: Session, state: JobState) -> None:
    """Report nothing about the job in this cycle, unless a reason was recorded before."""
    if state.job.id not in session.reasons.by_job:
        session.reasons.skip(state.job.id)


def no_room(session: Session, task: Task) -> Reason:
    """Return why no node takes the task now."""
    session.spend("explanations", TASK_COST)
    refusals, holes = session.placement.refusals(task)
    if session.layout.size and not refusals:
        return _reason(session, task, ReasonCode.WAITS_FOR_RELEASE)
    code = ReasonCode.NO_ROOM if session.layout.size else ReasonCode.NO_NODES
    failed = reasons.failed_filter(refusals)
    if failed:
        code = ReasonCode.PLUGIN_FAILED
    numbers = {"nodes": session.layout.size, "refusals": refusals, "holes": holes}
    return _reason(session, task, code, subject=failed, **numbers)


def _no_share(session: Session, queue: Queue, task: Task) -> Reason:
    """Return why the queue may not take the task: it is closed, has no pod slots left, or a plugin
    refuses the task.
    """
    if not queue.open:
        return _reason(session, task, ReasonCode.QUEUE_CLOSED)
    refused = reasons.by_plugin(session, session.job_state_of(task), queue, task)
    if refused is not None:
        return refused
    code = ReasonCode.QUEUE_OVER_SHARE
    return _reason(session, task, code, shortages=reasons.shortages(session, queue, task))


def _reason(session: Session, task: Task, code: ReasonCode, **numbers: object) -> Reason:
    state = session.job_state_of(task)
    return reasons.of(state, code, request=task.pod_class.request, role=task.role, **numbers)
