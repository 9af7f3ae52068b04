"""Backfill: place best-effort pods, which need a feasible node and a pod slot only.

Best-effort pods don't change any queue's share, so each queue has one turn. Volcano:
actions/backfill.
"""

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import ClassVar

from vscheduler.core.api import contracts
from vscheduler.core.model import decisions, jobs, queues
from vscheduler.core.placement import best_effort
from vscheduler.core.session import job_state, ordering, reasons, statement
from vscheduler.core.session import session as working

TASK_COST = 50
"""Approximate microseconds for one task placed or refused."""


class Backfill(contracts.Action[working.Session]):
    """Bind best-effort pods of jobs that are ready, or become ready by these pods."""

    name = "backfill"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "predicateErrorCacheEnable": contracts.Argument(bool, default=True),
    }

    def execute(self, session: working.Session) -> None:
        """Go through queues and jobs in the order at the beginning of the action."""
        for state in _line_up(session):
            if session.work_budget.exhausted:
                _skip(session, state)
            else:
                self._place(session, state)

    def _place(self, session: working.Session, state: job_state.JobState) -> None:
        """Place the best-effort pods that the job needs, then the rest.

        The pods are bound if the job is ready; otherwise nothing is kept.
        """
        queue = session.queues[state.job.queue]
        with session.statement() as trial:
            place = functools.partial(self._try, session, trial, queue)
            best_effort_placement = best_effort.BestEffortPlacement(
                session=session, trial=trial, state=state, place=place, statuses=jobs.READY
            )
            best_effort_placement.exchange()
            if best_effort_placement.needed():
                best_effort_placement.others()
            if job_state.is_ready(session.dispatch, state):
                best_effort.start(session, trial, state)
            else:
                self._give_up(session, trial, state)

    def _try(
        self,
        session: working.Session,
        trial: statement.Statement,
        queue: queues.Queue,
        task: jobs.Task,
    ) -> bool:
        """Place the task where it can start now; a pipelined task gives up its previous node.

        Without a suitable node, a pipelined task stays.
        """
        session.spend("tasks", TASK_COST)
        state = session.job_state_of(task)
        before = trial.checkpoint()
        if state.status(task) is jobs.TaskStatus.PIPELINED:
            trial.withdraw(task)
        allowed = session.dispatch.all_agree("allocatable", queue, task)
        choice = session.placement.choose(task) if allowed else None
        if choice is not None and choice.idle:
            trial.allocate(task, choice.row)
            return True
        trial.rollback(before)
        if state.status(task) is jobs.TaskStatus.PENDING:
            reason = no_room(session, task) if allowed else _no_share(session, queue, task)
            session.reasons.note(state.job.id, reason)
        return False

    def _give_up(
        self, session: working.Session, trial: statement.Statement, state: job_state.JobState
    ) -> None:
        """Leave the statement uncommitted, as the job isn't ready."""


def _line_up(session: working.Session) -> Iterator[job_state.JobState]:
    """Iterate over the admitted and valid jobs with best-effort pods to place, in order."""
    lines: defaultdict[str, list[job_state.JobState]] = defaultdict(list)
    for state in session.waiting_jobs():
        job = state.job
        if not (state.pending_best_effort or state.waiting_tasks) or not any(_waiting(state)):
            continue
        if state.phase is jobs.Phase.PENDING:
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


def _waiting(state: job_state.JobState) -> Iterator[jobs.Task]:
    """Iterate over the best-effort pods that are pending or pipelined."""
    pending, pipelined = jobs.TaskStatus.PENDING, jobs.TaskStatus.PIPELINED
    for status, count in ((pending, state.pending_best_effort), (pipelined, state.waiting_tasks)):
        if count:
            yield from (task for task in state.tasks(status) if task.best_effort)


def _skip(session: working.Session, state: job_state.JobState) -> None:
    """Report nothing about the job in this cycle, unless a reason was recorded before."""
    if state.job.id not in session.reasons.by_job:
        session.reasons.skip(state.job.id)


def no_room(session: working.Session, task: jobs.Task) -> decisions.Reason:
    """Return why no node takes the task now."""
    session.spend("explanations", TASK_COST)
    refusals, holes = session.placement.explain(task)
    if session.layout.size and not refusals:
        return _reason(session, task, decisions.ReasonCode.WAITS_FOR_RELEASE)
    code = decisions.ReasonCode.NO_ROOM if session.layout.size else decisions.ReasonCode.NO_NODES
    failed = reasons.failed_filter(refusals)
    if failed:
        code = decisions.ReasonCode.PLUGIN_FAILED
    numbers = {"nodes": session.layout.size, "refusals": refusals, "holes": holes}
    return _reason(session, task, code, subject=failed, **numbers)


def _no_share(session: working.Session, queue: queues.Queue, task: jobs.Task) -> decisions.Reason:
    """Return why the queue may not take the task: the queue is closed, or pod slots are used up."""
    if not queue.open:
        return _reason(session, task, decisions.ReasonCode.QUEUE_CLOSED)
    code = decisions.ReasonCode.QUEUE_OVER_SHARE
    return _reason(session, task, code, shortages=reasons.shortages(session, queue, task))


def _reason(
    session: working.Session, task: jobs.Task, code: decisions.ReasonCode, **numbers: object
) -> decisions.Reason:
    state = session.job_state_of(task)
    return reasons.of(state, code, request=task.pod_class.request, role=task.role, **numbers)
