"""Queueing hints: which unschedulable jobs could fit by now, and whose reasons are no longer right.

Both questions are asked about what has changed, and answered for all these jobs at once. Jobs that
could fit become active, and take part in the cycle as if they had never been left out.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.memo.unschedulable_jobs import Seen, UnschedulableGroup
from vscheduler.core.placement import unschedulable_classes
from vscheduler.core.session import reasons
from vscheduler.core.session.dispatch import ABOUT_PODS
from vscheduler.core.session.reasons import JobTurn
from vscheduler.core.session.session import Session
from vscheduler.model.decisions import MissingResource, Reason, ReasonCode
from vscheduler.model.jobs import JobId
from vscheduler.model.resources import Vector

CELLS_MAX = 2**22
"""At most this many requests are compared with nodes at once, times resources."""

REASON_COST = 50
"""Approximate microseconds for finding out the reason of one group."""

PART = 4
"""At most a quarter of the budget is for these reasons while there are pods to bind."""

ANSWER_COST = 5
"""Approximate microseconds for asking plugins about one group."""

STATUS_COST = 8
"""Approximate microseconds for giving one job another reason."""

CELLS_PER_UNIT = 2000
"""How many comparisons take about a microsecond."""

Groups = Sequence[UnschedulableGroup]
Flags = NDArray[np.bool_]

NODES_REFUSE = (ReasonCode.NO_ROOM, ReasonCode.NEVER_FITS)
"""Reasons that name what nodes lack, and not what the queue may have."""


def activate(session: Session) -> None:
    """Activate the unschedulable jobs that might be placed by now, before jobs line up.

    Those are jobs whose pods fit on a node that has more free than before, whether or not they may
    use the node; and all jobs where more than free resources decides.
    """
    pool = session.unschedulable
    if not pool:
        return
    if session.held_pods.holders or session.pools.merged:
        session.activate_jobs(list(pool.groups))
        return
    changed = {state.job.id for state in session.job_states.moved()}
    if session.dispatch.changing(AllHooks.job_valid):
        firsts = (session.job_states[group.first.id] for group in pool.groups)
        changed |= {state.job.id for state in firsts if reasons.invalid(session, state)}
    if changed:
        session.activate_jobs(
            [group for group in pool.groups if not changed.isdisjoint(group.members)]
        )
    groups = list(pool.groups)
    assert pool.before is not None, "unschedulable jobs wait for what was free"
    free = _free(session)
    more = np.flatnonzero((free > pool.before.free).any(axis=1))
    if groups and more.size:
        fits = _fits(session, _requests(session, groups), free[more])
        session.activate_jobs(
            [group for group, may in zip(groups, fits.tolist(), strict=True) if may]
        )


def check_reasons(session: Session) -> None:
    """Give unschedulable jobs new reasons where the old ones are no longer right.

    If the budget doesn't suffice, nothing is said of the rest, and the next cycle goes on with it.
    Pods that can start don't wait for reasons: beside them, reasons get a quarter of the budget.
    """
    pool, budget = session.unschedulable, session.work_budget
    if not pool.is_on:
        return
    seen = Seen(free=_free(session), fingerprints=_fingerprints(session), answers=_answers(session))
    part_is_spent = budget.part(PART if session.decided.binds else 1)
    unsure = _unsure(session, seen) if pool else ()
    for place, group in enumerate(unsure):
        if place and part_is_spent():
            pool.leave_unchecked(unsure[place:])
            budget.leave_unfinished()
            break
        budget.charge(group.first.namespace)
        reason = _reason(session, group)
        if reason != group.reason:
            session.spend("unschedulable", STATUS_COST * len(group.members))
        pool.set_reason(group, reason)
    budget.charge()
    pool.seen = seen


def _free(session: Session) -> Vector:
    """Return what nodes have free after pending releases, (N, R)."""
    free: Vector = session.cluster.allocatable - session.cluster.future_used
    return free


def _fingerprints(session: Session) -> Mapping[str, Hashable]:
    """Return what plugins look at of each queue."""
    of = session.dispatch.queue_fingerprints
    return {name: of(queue) for name, queue in session.queues.items()}


def _answers(session: Session) -> Mapping[JobId, Hashable]:
    """Return what plugins answer about each group, if it may have changed with anything."""
    if not any(map(session.dispatch.changing, ABOUT_PODS)):
        return {}
    found = {}
    for job in session.unschedulable.first_jobs():
        first = session.job_states[job].job
        session.spend("unschedulable", ANSWER_COST)
        found[job] = session.dispatch.changing_answers(session.queues[first.queue], first.tasks[0])
    return found


def _requests(session: Session, groups: Groups) -> Vector:
    """Return the requests of pods of these groups, (G, R)."""
    pool = session.unschedulable
    requests: Vector = pool.found.members.requests
    if len(groups) == len(pool.found.groups):
        return requests
    return requests[[pool.groups[group] for group in groups]]


def _fits(session: Session, requests: Vector, free: Vector) -> Flags:
    """Return which of the requests (G, R) fit into what any of these nodes has free, (n, R)."""
    found = np.zeros(len(requests), dtype=np.bool_)
    # Most requests are larger than what any node has free of some resource.
    left = np.flatnonzero(((requests <= free.max(axis=0)) | (requests == 0)).all(axis=1))
    step = max(1, CELLS_MAX // max(1, free.size))
    for start in range(0, left.size, step):
        part = left[start : start + step]
        asked = requests[part, np.newaxis]
        session.spend("unschedulable", 1 + part.size * free.size // CELLS_PER_UNIT)
        found[part] = ((asked <= free) | (asked == 0)).all(axis=2).any(axis=1)
    return found


def _unsure(session: Session, now: Seen) -> Groups:
    """Return the groups whose reasons may no longer be right."""
    pool, free = session.unschedulable, now.free
    groups, before = list(pool.groups), pool.before
    assert before is not None, "unschedulable jobs wait for what was free"
    rows = np.flatnonzero((free != before.free).any(axis=1))
    changed = {
        name
        for name, each in now.fingerprints.items()
        if each != before.fingerprints.get(name, None)
    }
    told = (
        {group for group in groups if _answer(now, group) != _answer(before, group)}
        if now.answers
        else set()
    )
    if not rows.size and not changed and not told:
        return [group for group in groups if group in pool.unchecked] if pool.unchecked else ()
    crossed = _crossed(session, _requests(session, groups), before.free[rows], free[rows])
    holes = _Holes(session, before.free, free, rows)
    overused = {
        name
        for name in changed
        if session.dispatch.any_says(AllHooks.overused, session.queues[name])
    }

    def is_barred_otherwise(group: UnschedulableGroup) -> bool:
        """Whether what the queue has or may have could make another reason."""
        return (
            group.first.queue in overused
            or group.reason.code not in NODES_REFUSE
            or not _is_allocatable(session, group)
        )

    return [
        group
        for group, is_crossed in zip(groups, crossed.tolist(), strict=True)
        if is_crossed
        or group in told
        or group in pool.unchecked
        or holes.may_differ(group.reason)
        or (group.first.queue in changed and is_barred_otherwise(group))
    ]


def _answer(seen: Seen, group: UnschedulableGroup) -> Hashable:
    return seen.answers.get(group.first.id)


def _is_allocatable(session: Session, group: UnschedulableGroup) -> bool:
    task = group.first.tasks[0]
    return session.dispatch.all_agree(AllHooks.allocatable, session.queues[group.first.queue], task)


def _crossed(
    session: Session,
    requests: Vector,
    before: Vector,
    now: Vector,
) -> Flags:
    """Return for which requests (G, R) any of these nodes (n, R) had enough of a resource, and has
    not, or the other way round.
    """
    found = np.zeros(len(requests), dtype=np.bool_)
    low, high = np.minimum(before, now), np.maximum(before, now)
    step = max(1, CELLS_MAX // max(1, before.size))
    for start in range(0, len(requests), step):
        part = slice(start, start + step)
        asked = requests[part, np.newaxis]
        session.spend("unschedulable", 1 + len(asked) * before.size // CELLS_PER_UNIT)
        found[part] = ((low < asked) & (asked <= high) & (asked > 0)).any(axis=(1, 2))
    return found


class _Holes:
    """Tells whether the largest free amounts that reasons name are still the largest."""

    def __init__(
        self,
        session: Session,
        before: Vector,
        now: Vector,
        rows: NDArray[np.intp],
    ) -> None:
        """`rows` are the nodes whose free amounts differ."""
        self._layout, self._columns = session.layout, session.space.columns
        self._before, self._now, self._rows = before, now, rows
        self._known: dict[tuple[str, str], bool] = {}
        """Answers by node and resource: thousands of reasons name the same ones."""

    def may_differ(self, reason: Reason) -> bool:
        """Whether another node may have more free by now, or the same node another amount."""
        if not self._rows.size:
            return False
        known = self._known
        for hole in reason.holes:  # thousands, so no function is called for each
            key = (hole.node, hole.resource)
            if key not in known:
                known[key] = self._compare(hole)
            if known[key]:
                return True
        return False

    def _compare(self, hole: MissingResource) -> bool:
        row, column = self._layout.rows[hole.node], self._columns[hole.resource]
        amount = self._now[row, column]
        if amount != self._before[row, column] or amount <= 0:
            return True
        others = self._rows[self._rows != row]
        rivals = self._now[others, column]
        return bool(((rivals > amount) | ((rivals == amount) & (others < row))).any())


def _reason(session: Session, group: UnschedulableGroup) -> Reason:
    """Return the reason that the jobs would get if one of them had its turn now."""
    session.spend("unschedulable", REASON_COST)
    job = group.first
    state, queue = session.job_states[job.id], session.queues[job.queue]
    turn = JobTurn(state, (job.tasks[0],))
    if session.dispatch.any_says(AllHooks.overused, queue):
        reasons.note_share(session, queue, turn)
    else:
        unschedulable_classes.record_refusal(session, queue, turn, {})
    reason = session.reasons.by_job[job.id]
    session.reasons.forget(job.id)
    return reason
