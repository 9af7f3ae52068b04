"""Reprieves: who needn't go after all, once everybody who asked for room has been answered.

Each plan is a least one by itself. Several of them can free more together than is needed: a gang
that goes whole for one job leaves room that would have done for another one as well.
"""

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

from vscheduler.core.model import decisions, jobs
from vscheduler.core.placement import nominated_pods
from vscheduler.core.preemption import victims
from vscheduler.core.session import ordering, statement

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

ROUNDS_MAX = 3
"""Claimants that move when one unit is spared can leave room for another one."""

UNIT_COST = 100
"""Microseconds, about: one unit looked at, its claimant's pods aside."""

TASK_COST = 50
"""Microseconds, about: one pod placed anew."""


def grant(session: "working.Session") -> None:
    """After all actions: spare those without whom the job that they go for still fits.

    The dearest first. Where there was one plan only, it is a least one already.
    """
    if session.as_volcano or session.work["evictions"] < 2:
        return
    for _ in range(ROUNDS_MAX):
        spared = [_spared(session, evicts) for evicts in _dearest_first(session)]
        if not any(spared):
            return


def _spared(session: "working.Session", evicts: list[decisions.Evict]) -> bool:
    """Whether these pods stay from now on."""
    if session.spending.exhausted:
        return False
    session.spend("reprieves", UNIT_COST)
    with session.statement() as trial:
        for evict in evicts:
            trial.reprieve(evict)
        fits = _fits(session, trial, evicts)
        if fits:
            trial.commit()
    return fits


def _dearest_first(session: "working.Session") -> list[list[decisions.Evict]]:
    """Evictions for the sake of jobs, by unit: all pods of a gang of which nothing stays. Those who
    are only moved have room elsewhere already.
    """
    found: defaultdict[str, list[decisions.Evict]] = defaultdict(list)
    gone = {evict.task.job for evict in session.evicts.values() if evict.whole}
    for evict in sorted(session.evicts.values(), key=lambda each: each.task.key):
        if evict.beneficiary is not None and not evict.moves:
            found[evict.task.job if evict.task.job in gone else evict.task.uid].append(evict)

    def dearness(evicts: list[decisions.Evict]) -> tuple[object, ...]:
        tasks = tuple(evict.task for evict in evicts)
        gang = session.gang_of(tasks[0])
        return (
            *victims.cost(
                [victims.VictimGroup(gang=gang, tasks=tasks, whole=tasks[0].job in gone)]
            ),
            tasks[0].key,
        )

    return sorted(found.values(), key=dearness, reverse=True)


def _fits(
    session: "working.Session", trial: statement.Statement, evicts: list[decisions.Evict]
) -> bool:
    """Whether all pods that wait for evictions fit again, now that these stay; the claimants' own
    pods may move.
    """
    claimants = {evict.beneficiary for evict in evicts}
    waiting: list[jobs.Task] = []
    for job in sorted(filter(None, claimants)):
        gang = session.gangs[job]
        tasks = gang.tasks(jobs.TaskStatus.PIPELINED)
        waiting += ordering.tasks(session.dispatch, gang, tasks)
    if not waiting:
        return False
    for task in waiting:
        trial.withdraw(task)
    if not _leaves_others_alone(session, evicts):
        return False
    for task in waiting:
        session.spend("tasks", TASK_COST)
        queue = session.queues[session.gang_of(task).job.queue]
        if not session.dispatch.all_agree("allocatable", queue, task):
            return False
        choice = session.placement.choose(task)
        if choice is None:
            return False
        trial.pipeline(task, choice.row)
    return True


def _leaves_others_alone(session: "working.Session", evicts: list[decisions.Evict]) -> bool:
    """Whether the pods that stay take nothing from other jobs that wait.

    Pods about which other pods have conditions are left as they are.
    """
    for evict in evicts:
        row = session.layout.rows[evict.node]
        request = session.request(evict.task)
        room = session.allocatable[row] - session.future_used[row]
        if (room < 0)[request > 0].any() or not _leaves_nominated_room(session, evict):
            return False
        taken = session.ports.get(evict.node, ())
        if any(left.conflicts(right) for left, right in itertools.combinations(taken, 2)):
            return False
        if session.neighbours.standing(evict.task):
            return False
    return True


def _leaves_nominated_room(session: "working.Session", evict: decisions.Evict) -> bool:
    """Whether what is placed on its node leaves pods of other schedulers what is nominated to them,
    with this pod still there.
    """
    if not session.nominated:
        return True
    row, request = session.layout.rows[evict.node], session.request(evict.task)
    new = [bind.task for bind in session.binds if bind.node == evict.node]
    new += [held.task for held in session.pipelined.values() if held.node == evict.node]
    return not any((nominated_pods.room(session, task)[row] < 0)[request > 0].any() for task in new)
