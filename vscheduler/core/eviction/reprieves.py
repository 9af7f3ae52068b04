"""Reprieves: cancel evictions that turn out to be unnecessary after all actions have run.

Each plan is minimal by itself, but several plans together can free more than needed. For example, a
whole gang evicted for one job may leave enough resources for a second job, too.
"""

import itertools
from collections import defaultdict

from vscheduler.core.eviction import standing_plans, victims
from vscheduler.core.eviction.victims import VictimGroup
from vscheduler.core.model.decisions import Evict
from vscheduler.core.model.jobs import Task, TaskStatus
from vscheduler.core.placement import nominated_pods
from vscheduler.core.session import ordering
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement

ROUNDS_MAX = 3
"""Rounds are repeated because sparing a victim may move the preemptor's pods, which can make
another victim unnecessary."""

UNIT_COST = 100
"""Approximate microseconds for examining one victim group, without placing the preemptor's pods."""

TASK_COST = 50
"""Approximate microseconds for placing one pod again."""


def grant(session: Session) -> None:
    """Spare every victim without whose eviction the preemptor still fits, the costliest first.

    Runs after all actions. A single plan is minimal already, so at least two are required.
    """
    if session.work.get("evictions", 0) < 2:
        return
    for _ in range(ROUNDS_MAX):
        spared = [_try_to_spare(session, evicts) for evicts in _costliest_first(session)]
        if not any(spared):
            return


def _try_to_spare(session: Session, evicts: list[Evict]) -> bool:
    """Try to spare these victims, and return whether all of them stay."""
    if session.work_budget.exhausted:
        return False
    session.spend("reprieves", UNIT_COST)
    with session.statement() as trial:
        for evict in evicts:
            trial.reprieve(evict)
        fits = _fits(session, trial, evicts)
        if fits:
            trial.commit()
    return fits


def _costliest_first(session: Session) -> list[list[Evict]]:
    """Group the evictions for jobs by victim group, the costliest first.

    A gang evicted whole is one group. Moved pods are left out, since space elsewhere is already
    reserved for the replacements.
    """
    found: defaultdict[str, list[Evict]] = defaultdict(list)
    gone = {evict.task.job for evict in session.decided.evicts.values() if evict.whole}
    for evict in sorted(session.decided.evicts.values(), key=lambda each: each.task.key):
        if evict.beneficiary is not None and not evict.moves:
            found[evict.task.job if evict.task.job in gone else evict.task.uid].append(evict)

    def group_cost(evicts: list[Evict]) -> tuple[object, ...]:
        tasks = tuple(evict.task for evict in evicts)
        state = session.job_state_of(tasks[0])
        return (
            *victims.cost([VictimGroup(state=state, tasks=tasks, whole=tasks[0].job in gone)]),
            tasks[0].key,
        )

    return sorted(found.values(), key=group_cost, reverse=True)


def _fits(session: Session, statement: Statement, evicts: list[Evict]) -> bool:
    """Whether all pods waiting for these evictions still fit if the victims stay.

    The preemptors' own pods may be placed on different nodes.
    """
    claimants = {evict.beneficiary for evict in evicts}
    waiting: list[Task] = []
    for job in sorted(filter(None, claimants)):
        state = session.job_states[job]
        tasks = state.tasks(TaskStatus.PIPELINED)
        waiting += ordering.tasks(session.dispatch, state, tasks)
    if not waiting:
        return False
    for task in waiting:
        statement.withdraw(task)
    if not _leaves_others_alone(session, evicts):
        return False
    for task in waiting:
        session.spend("tasks", TASK_COST)
        queue = session.queues[session.job_state_of(task).job.queue]
        if not session.dispatch.all_agree("allocatable", queue, task):
            return False
        choice = session.placement.choose(task)
        if choice is None:
            return False
        statement.pipeline(task, choice.row)
    return standing_plans.hold(session, statement, session.job_state_of(waiting[0]), waiting)


def _leaves_others_alone(session: Session, evicts: list[Evict]) -> bool:
    """Whether sparing the victims takes nothing from other waiting jobs.

    A victim is never spared if pod affinity of any kind involves the victim.
    """
    for evict in evicts:
        row = session.layout.rows[evict.node]
        request = session.request(evict.task)
        free = session.cluster.allocatable[row] - session.cluster.future_used[row]
        if (free < 0)[request > 0].any() or not _leaves_nominated_room(session, evict):
            return False
        taken = session.cluster.ports.get(evict.node, ())
        if any(left.conflicts(right) for left, right in itertools.combinations(taken, 2)):
            return False
        if session.affinity_counts.state_of(evict.task):
            return False
    return True


def _leaves_nominated_room(session: Session, evict: Evict) -> bool:
    """Whether pods of other schedulers keep the resources nominated to them if the victim stays.

    All pods placed on the victim's node in this cycle are considered.
    """
    if not session.nominated:
        return True
    row, request = session.layout.rows[evict.node], session.request(evict.task)
    new = [bind.task for bind in session.decided.binds if bind.node == evict.node]
    new += [held.task for held in session.decided.pipelined.values() if held.node == evict.node]
    return not any((nominated_pods.room(session, task)[row] < 0)[request > 0].any() for task in new)
