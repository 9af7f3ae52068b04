"""Standing plans: what they rest on stays until their jobs have started, and nobody goes in vain.

A plan places pods on nodes as evictions will leave the cluster. What makes a node suitable may be a
pod elsewhere: for required affinity, topology spread, or a claim that is shared. So before further
pods are evicted, all filters are asked again about each pod that is nominated to a node, by this
plan or an earlier one, and about each pod that starts in this cycle.

Each plan is minimal by itself, but several plans together can free more than needed: a whole gang
evicted for one job may leave enough resources for a second job, too. Such victims are reprieved
after all actions.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import rules
from vscheduler.core.eviction.rules import VictimGroup
from vscheduler.core.placement import nominated_pods
from vscheduler.core.session import ordering
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model import resources
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import PLACED, JobId, Task, TaskStatus

PROOF_COST = 100
"""Approximate microseconds for placing one pod again on its node."""

Places: TypeAlias = Sequence[tuple[Task, int]]
"""Pods, each with the row of its node."""

Fits: TypeAlias = Callable[[Task, int], bool]


def hold(
    session: Session,
    statement: Statement,
    state: JobState,
    changed: Collection[Task],
) -> bool:
    """Whether all standing plans hold after what the trial does; nothing is changed.

    `state` is the job that the trial evicts for, and `changed` are the pods that leave or come.
    Plans come true in any order, so each has to hold with the job's pods in place and without them.
    """
    fits = session.placement.feasible
    if not may_break(session, state, changed):
        if session.dispatch.declares_nodes:
            return True
        fits = session.placement.undeclared_allow
    leaving = {evict.task.uid for evict in statement.evicts}
    standing = [each for each in _standing(session) if each[0].uid not in leaving]
    own = _own(session, state)
    hold_with = partial(_hold_with, session, statement, state, standing, fits=fits)
    return not (own and not hold_with(own=())) and hold_with(own=own)


def _hold_with(
    session: Session,
    statement: Statement,
    state: JobState,
    standing: Places,
    *,
    own: Places,
    fits: Fits,
) -> bool:
    """Whether these pods can be placed again, one job after the other, first the standing ones.

    `fits` says where pods may be: for all filters, or for those that declare nothing. Pods that
    merely wait for a release are nowhere meanwhile: nothing keeps their nodes for them.
    """
    places = [*standing, *own]
    checkpoint = statement.checkpoint()
    for task in reversed([*loose(session, state), *(task for task, _ in places)]):
        statement.lift(task)
    session.spend("standing plans", PROOF_COST * len(places))
    by_job: defaultdict[JobId, list[tuple[Task, int]]] = defaultdict(list)
    for task, row in places:
        by_job[task.job].append((task, row))
    holds = all(place(statement, each, fits) for each in by_job.values())
    statement.rollback(checkpoint)
    return holds


def may_break(session: Session, state: JobState, changed: Collection[Task]) -> bool:
    """Whether any standing plan may rest on these pods, present or absent; False is certain for all
    that plugins declare.
    """
    counts = session.affinity_counts
    changed = [task for task in changed if _has_claims(task) or counts.state_of(task) is not None]
    return bool(changed) and any(
        _may_rest_on(session, task, changed)
        for task, _ in (*_standing(session), *_own(session, state))
    )


def place(statement: Statement, places: Places, fits: Fits) -> bool:
    """Let the pods of a job wait on these nodes where filters permit it; return whether all do.

    A pod that needs others of the job comes after these, whatever the order.
    """
    left = list(places)
    while left:
        refused = []
        for task, row in left:
            if fits(task, row):
                statement.pipeline(task, row)
            else:
                refused.append((task, row))
        if len(refused) == len(left):
            return False
        left = refused
    return True


def _standing(session: Session) -> Places:
    """Return the pods that start in this cycle, and then those that are nominated, the oldest
    nominations first.
    """
    decided, rows = session.decided, session.layout.rows
    found = [(bind.task, rows[bind.node]) for bind in decided.binds if _asks(bind.task)]
    waiting = [
        decided.pipelined[uid].task for uid in decided.nominations if uid in decided.pipelined
    ]
    for task in waiting:
        state = session.job_state_of(task)
        if state.status(task) in PLACED:  # a trial may have moved it, or given up its node
            found.append((task, rows[state.node(task) or ""]))
    return found


def _own(session: Session, state: JobState) -> Places:
    """Return the pods of the job that the trial would nominate."""
    return [
        (task, session.layout.rows[state.node(task) or ""])
        for task in state.tasks(TaskStatus.PIPELINED)
        if task.uid not in session.decided.nominations
    ]


def loose(session: Session, state: JobState) -> list[Task]:
    """Return the pods of other jobs that wait on nodes which nothing keeps for them."""
    decided = session.decided
    found = decided.pipelined.keys() - decided.nominations.keys()
    others = {uid for uid in found if decided.pipelined[uid].task.job != state.job.id}
    if not others:  # asked for each plan, with thousands of pods that are nominated
        return []
    return [waits.task for uid, waits in decided.pipelined.items() if uid in others]


def _may_rest_on(session: Session, task: Task, others: Collection[Task]) -> bool:
    """Whether answers about the task may depend on whether these pods are there."""
    if _has_claims(task) and any(map(_has_claims, others)):
        return True
    return session.affinity_counts.rests_on(task, others)


def _has_claims(task: Task) -> bool:
    return bool(task.volumes or task.pod_class.constraints.resource_claims)


def _asks(task: Task) -> bool:
    """Whether the task has any constraint that pods elsewhere may satisfy."""
    limits = task.pod_class.constraints
    return bool(limits.pod_affinity or limits.spread or _has_claims(task))


ROUNDS_MAX = 3
"""Rounds are repeated because sparing a victim may move the preemptor's pods, which can make
another victim unnecessary."""

UNIT_COST = 100
"""Approximate microseconds for examining one victim group, without placing the preemptor's pods."""

REPRIEVE_TASK_COST = 50
"""Approximate microseconds for placing one pod again."""


def grant_reprieves(session: Session) -> None:
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
            rules.cost([VictimGroup(state=state, tasks=tasks, whole=tasks[0].job in gone)]),
            tasks[0].key,
        )

    return sorted(found.values(), key=group_cost, reverse=True)


def _fits(session: Session, statement: Statement, evicts: list[Evict]) -> bool:
    """Whether all pods waiting for these evictions still fit if the victims stay.

    The preemptors' own pods may be placed on different nodes.
    """
    preemptors = {evict.beneficiary for evict in evicts}
    waiting: list[Task] = []
    for job in sorted(filter(None, preemptors)):
        state = session.job_states[job]
        tasks = state.tasks(TaskStatus.PIPELINED)
        waiting += ordering.tasks(session.dispatch, state, tasks)
    if not waiting or not _may_fit(session, waiting):
        return False
    for task in waiting:
        statement.withdraw(task)
    if not _leaves_others_alone(session, evicts):
        return False
    for task in waiting:
        session.spend("tasks", REPRIEVE_TASK_COST)
        queue = session.queues[session.job_state_of(task).job.queue]
        if not session.dispatch.all_agree(AllHooks.allocatable, queue, task):
            return False
        choice = session.placement.choose(task)
        if choice is None:
            return False
        statement.pipeline(task, choice.row)
    return hold(session, statement, session.job_state_of(waiting[0]), waiting)


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


def _may_fit(session: Session, waiting: Sequence[Task]) -> bool:
    """Whether all nodes together have enough free resources for equal pods, each for whole ones.

    Most victims are needed, and this finds out without moving any pod. `waiting` are on their nodes
    now, beside the victims that may stay. True for pods that aren't equal.
    """
    request = session.request(waiting[0])
    if any(session.request(task) is not request for task in waiting):
        return True
    rows = [session.layout.rows[session.job_state_of(task).node(task) or ""] for task in waiting]
    free = session.free
    np.add.at(free, rows, request)
    return bool(resources.copies(request, free).sum() >= len(waiting))
