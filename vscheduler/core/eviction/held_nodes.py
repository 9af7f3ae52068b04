"""Held nodes: a more important job takes nodes on which pods merely wait for their claims.

No pod is evicted for that, and what was asked for is withdrawn. Otherwise, a job whose
volumes are never made could keep nodes from everybody until its time is up.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from vscheduler.core.model.jobs import Task, TaskStatus
from vscheduler.core.session import ordering, reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.reasons import JobTurn
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement

JOBS_MAX = 8
"""So many jobs are asked to give up their nodes for one job at most."""

HOLDER_COST = 50
"""Approximate microseconds for one pod that gives up its node."""

Places: TypeAlias = Sequence[tuple[Task, int]]
"""Pods, each with the row of its node."""


def take(
    session: Session,
    statement: Statement,
    turn: JobTurn,
    fill: Callable[[], None],
) -> bool:
    """Withdraw less important jobs from their nodes until the job fits, and place those again that
    don't stand in the way.

    `fill` places the tasks of the turn. Return False, and leave nothing in the statement, if the
    job doesn't fit even then.
    """
    state = turn.state
    if not may_take(session, state):
        return False

    def fits() -> bool:
        turn.begin_anew(ordering.pending(session.dispatch, state))
        fill()
        return session.dispatch.all_agree("job_ready", state)

    statement.rollback()
    known = session.reasons.by_job.get(state.job.id)
    given_up: list[tuple[JobState, Places]] = []
    for holder in _holders(session, state)[:JOBS_MAX]:
        given_up.append((holder, _withdraw(session, statement, holder)))
        before = statement.checkpoint()
        session.reasons.forget(state.job.id)  # what is refused now is about pods that are left
        if fits():
            for other, places in reversed(given_up):
                _return(session, statement, other, places)
            return True
        statement.rollback(before)
    statement.rollback()
    session.reasons.forget(state.job.id)
    if known is not None:
        session.reasons.note(state.job.id, known)
    return False


def may_take(session: Session, state: JobState) -> bool:
    """Whether any job would have to give way to this job."""
    return bool(session.held_pods.holders) and bool(_holders(session, state))


def _holders(session: Session, state: JobState) -> list[JobState]:
    """Return the jobs that have to give way to this job, the least important and youngest first.

    In its own queue these have a lower priority. Another queue gives way if it is overused.
    """
    found = []
    for job in session.held_pods.holders:
        holder = session.job_states[job]
        queue = session.queues[holder.job.queue]
        if queue.name == state.job.queue:
            gives_way = holder.job.priority < state.job.priority
        else:
            gives_way = queue.reclaimable and session.dispatch.any_says("overused", queue)
        if gives_way:
            found.append(holder)
    return sorted(found, key=lambda each: (each.job.priority, -each.job.created, each.job.uid))


def _withdraw(session: Session, statement: Statement, holder: JobState) -> Places:
    places = []
    for task in list(holder.tasks(TaskStatus.PIPELINED)):
        if session.held_pods.is_held(task):
            session.spend("held nodes", HOLDER_COST)
            places.append((task, session.layout.rows[holder.node(task) or ""]))
            statement.withdraw(task)
    return places


def _return(
    session: Session,
    statement: Statement,
    holder: JobState,
    places: Places,
) -> None:
    """Let the pods wait on their nodes again where they still fit: a gang as a whole or not."""
    before, lost = statement.checkpoint(), None
    for task, row in places:
        session.spend("held nodes", HOLDER_COST)
        if session.placement.feasible(task, row):
            statement.pipeline(task, row)
        else:
            lost = task
    if lost is None:
        return
    if not session.held_pods.goes_on(holder):
        statement.rollback(before)
    session.reasons.note(holder.job.id, reasons.no_room(session, holder, lost))
