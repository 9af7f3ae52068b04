"""Nominations: resources freed by evictions are reserved until the job starts or gives up.

Nodes on which pods merely wait for their claims are taken by a more important job: no pod is
evicted for that, and what was asked for is withdrawn. Otherwise, a job whose volumes are never made
could keep nodes from everybody until its time is up.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.claims.volumes import attempts
from vscheduler.core.eviction import standing_plans
from vscheduler.core.session import ordering, reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.reasons import JobTurn
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model.jobs import JobId, Task, TaskId, TaskStatus
from vscheduler.model.snapshot import Snapshot

TASK_COST = 20
"""Approximate microseconds for one nominated task."""


def restored(snapshot: Snapshot) -> Snapshot:
    """Return the first snapshot of a process with the nominations that the last one has made.

    Otherwise, jobs in front could take the nodes for which volumes are provisioned or pods are
    evicted, and further pods would be evicted for the same jobs. The nodes are those of claims, and
    else status.nominatedNodeName. Which nominations are older isn't known: older jobs come first.
    """
    if snapshot.carried.seen is not None:
        return snapshot
    nodes: dict[str, str] = {}
    for claim, request in attempts.requested(snapshot.storage):
        if request.volume is not None or claim.selected_node:
            nodes[claim.key] = request.node
    found: dict[TaskId, str] = {}
    for job in sorted(snapshot.jobs, key=lambda job: (job.created, job.id)):
        for task in () if job.fully_scheduled else job.tasks:
            if task.status is TaskStatus.PENDING:
                of_claims = (nodes[key] for key in task.volume_claims if key in nodes)
                node = next(of_claims, task.nominated_node)
                if node:
                    found[task.uid] = node
    if not found:
        return snapshot
    nominations = {**found, **snapshot.carried.nominations}
    return replace(snapshot, carried=dataclasses.replace(snapshot.carried, nominations=nominations))


def keep(session: Session) -> None:
    """Pipeline nominated tasks onto the nominated nodes again, before any action runs.

    A job gives up all its reservations when a node no longer takes its nominated pod and the job
    can't start with the remaining pods.
    """
    pending: defaultdict[JobId, list[tuple[Task, int]]] = defaultdict(list)
    nominations = session.snapshot.carried.nominations
    rows = session.layout.rows
    if not nominations:
        return
    for state in session.waiting_jobs():
        if state.counts[TaskStatus.PENDING] and reasons.barred(session, state) is None:
            for task in state.tasks(TaskStatus.PENDING):
                if nominations.get(task.uid) in rows:
                    pending[state.job.id].append((task, rows[nominations[task.uid]]))
    for state in _in_order(session, pending, _by_age(nominations, pending)):
        with session.statement() as trial:
            session.spend("promises", TASK_COST * len(pending[state.job.id]))
            standing_plans.place(trial, pending[state.job.id], session.placement.feasible)
            if state.waiting_tasks and session.dispatch.vote(AllHooks.job_pipelined, state):
                trial.hold()
                extend(session, state)


def extend(session: Session, state: JobState) -> None:
    """Nominate all pipelined tasks of a job for which pods are evicted, now or in the past.

    Tasks that wait on idle resources are included.
    """
    decided = session.decided
    for task in state.tasks(TaskStatus.PIPELINED):
        decided.nominate(task, decided.pipelined[task.uid].node)


def startable(session: Session, waiting: Iterable[JobId]) -> list[JobState]:
    """Return these jobs, which wait on reserved resources, in the order of their turns."""
    ages: dict[JobId, int] = {}
    for age, uid in enumerate(session.decided.nominations):
        pipelined = session.decided.pipelined.get(uid)
        if pipelined is not None:
            ages.setdefault(pipelined.task.job, age)
    return _in_order(session, waiting, ages)


def _by_age(
    nominations: Mapping[TaskId, str],
    pending: Mapping[JobId, Sequence[tuple[Task, int]]],
) -> dict[JobId, int]:
    """Return the position of each job's oldest nomination."""
    places = {uid: place for place, uid in enumerate(nominations)}
    return {job: min(places[task.uid] for task, _ in tasks) for job, tasks in pending.items()}


def _in_order(
    session: Session, waiting: Iterable[JobId], ages: Mapping[JobId, int]
) -> list[JobState]:
    """Sort jobs by the age of the oldest nomination, then by job order.

    Otherwise resources freed for an older job could go to a newer job nominated on the same node.
    """
    found = [session.job_states[job] for job in waiting]
    last = len(ages)

    def key(state: JobState) -> tuple[object, ...]:
        return (ages.get(state.job.id, last), *ordering.job_key(session.dispatch, state))

    return sorted(found, key=key)


JOBS_MAX = 8
"""So many jobs are asked to give up their nodes for one job at most."""

HOLDER_COST = 50
"""Approximate microseconds for one pod that gives up its node."""

Places: TypeAlias = Sequence[tuple[Task, int]]
"""Pods, each with the row of its node."""


def take_held_nodes(
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
    if not may_take_held_nodes(session, state):
        return False

    def fits() -> bool:
        turn.begin_anew(ordering.pending(session.dispatch, state))
        fill()
        return session.dispatch.all_agree(AllHooks.job_ready, state)

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


def may_take_held_nodes(session: Session, state: JobState) -> bool:
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
            gives_way = queue.reclaimable and session.dispatch.any_says(AllHooks.overused, queue)
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
