"""Enqueue: admit Pending PodGroups while their minimum resources can be promised.

Only an Inqueue group may be placed, and a Volcano Job creates its pods only once admitted. Volcano:
actions/enqueue. In Volcano a group that never starts keeps the promised resources for ever, and a
group for which the cluster is full can't reclaim the share of its queue. Here the admission of a
group expires, and a full cluster doesn't keep a queue from reclaiming.
"""

from collections.abc import Mapping
from typing import ClassVar, TypeAlias

import numpy as np
from msgspec.structs import replace

from vscheduler.core.api.contracts import Action, Argument
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction.relief import Relief
from vscheduler.core.memo.never_fitting import Obstacle
from vscheduler.core.placement import feasibility
from vscheduler.core.placement.feasibility import Feasibility
from vscheduler.core.session import ordering, reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.ordering import Line
from vscheduler.core.session.session import Session
from vscheduler.core.shares import inqueue_resources
from vscheduler.model import durations
from vscheduler.model.decisions import AdmissionFailure, Reason, ReasonCode
from vscheduler.model.jobs import HOLDING, YOUNG, Phase
from vscheduler.model.queues import Queue

TURN_COST = 20
"""Approximate microseconds for considering one group."""

REPORT_COST = 30
"""Approximate microseconds for reporting one group that doesn't fit on empty nodes."""

REPEAT_COST = 8
"""Approximate microseconds for reporting a group again with the finding of an earlier cycle."""

TIMEOUT = "enqueue.timeout"


MOMENTARY = (
    ReasonCode.CLUSTER_FULL,
    ReasonCode.QUEUE_FULL,
)
"""Refusals of groups that might be admitted when others have ended, or with more nodes."""


Lines: TypeAlias = dict[str, Line[JobState]]
"""By queue, the groups that wait for admission."""


class Enqueue(Action[Session]):
    """Make Pending groups Inqueue, or report why not."""

    name = "enqueue"
    arguments: ClassVar[Mapping[str, Argument]] = {
        TIMEOUT: Argument(str, "10m", parse=durations.positive),
    }
    feasibility_check: ClassVar[type[Feasibility]] = Feasibility
    """Finds gangs that couldn't start even on empty nodes."""

    def prepare(self, session: Session) -> None:
        """Restore the phases decided in earlier cycles, which the API server may not show yet.

        Groups that have been Inqueue for too long, that may not use their queue, or that ask for
        more than it can ever have, become Pending before any plugin counts the resources promised
        to them. Running groups that ask for more than that stay Running, but nothing is promised to
        them any more.
        """
        timeout = self.seconds(TIMEOUT)
        self._limits: dict[str, Mapping[str, float] | None] = {}
        """By queue, the most that a group can be promised; None if that isn't known."""
        self._review_running(session)
        for state in session.waiting_jobs():
            if state.phase not in YOUNG:
                continue
            if session.bars and reasons.barred(session, state) is not None:
                state.phase = Phase.PENDING
                continue
            uid = state.job.uid
            if state.phase is Phase.PENDING and uid in session.admissions.admitted:
                state.phase = Phase.INQUEUE
            elif state.phase is Phase.INQUEUE and uid in session.admissions.expired:
                state.phase = Phase.PENDING
            if state.phase is Phase.INQUEUE:
                self._review(session, state, timeout)

    def execute(self, session: Session) -> None:
        """Give turns to queues, one group a turn. Groups with an expired admission come last.

        Groups that can't start on empty nodes are reported at the end. Any earlier admission of
        such a group ends at once; the group is admitted again when suitable nodes appear. While no
        node is ready, groups stay admitted, since no group could use the resources.
        """
        self._feasible = self.feasibility_check(session)
        self._relief = Relief(session)
        self._unschedulable: list[tuple[JobState, Obstacle]] = []
        pending: tuple[list[JobState], list[JobState]] = ([], [])
        nodes_ready = bool(np.logical_or.reduce(session.layout.ready))
        young = [state for state in session.waiting_jobs() if state.phase in YOUNG]
        budget = session.work_budget
        for state in budget.in_turn(young):
            waits = state.phase is Phase.PENDING
            if state.job.id in session.snapshot.carried.attempted:
                if waits:
                    session.reasons.skip(state.job.id)
                continue
            if (waits or nodes_ready) and not budget.exhausted:
                obstacle = self._feasible.obstacle(state)
                if obstacle is not None:
                    self._unschedulable.append((state, obstacle))
                    state.phase = Phase.PENDING
                    continue
            if waits:
                pending[state.job.uid in session.admissions.expired].append(state)
        session.work_budget.grant(4)
        for waiting in filter(None, pending):
            self._take_turns(session, waiting)
        session.work_budget.grant(4)
        self._report_unschedulable(session)

    def _report_unschedulable(self, session: Session) -> None:
        """Report groups that can't start on empty nodes, with at most a quarter of the budget.

        The rest of the budget is for jobs that may start. If the quarter doesn't suffice, the cycle
        is unfinished and the next cycle continues.
        """
        part_is_spent = session.work_budget.part(4)
        obstacles = {state.job.id: obstacle for state, obstacle in self._unschedulable}
        waiting = [state for state, _ in self._unschedulable]
        for place, state in enumerate(session.work_budget.in_turn(waiting)):
            if place and part_is_spent():
                session.work_budget.leave_unfinished()
                session.reasons.skip(state.job.id)
                continue
            again = state.job.id in session.memos.never_fitting.entries
            session.spend("hopeless", REPEAT_COST if again else REPORT_COST)
            reason = self._reason_for(session, state, obstacles[state.job.id])
            session.reasons.note(state.job.id, reason)

    def _reason_for(
        self,
        session: Session,
        state: JobState,
        obstacle: Obstacle,
    ) -> Reason:
        """Return why the group can't start.

        What bars the queue comes first. What is lacking at the moment comes last: without it, the
        group couldn't start, either.
        """
        barred_by = reasons.barred(session, state)
        if barred_by is not None:
            return barred_by
        refusal = self._refusal(session, state)
        if refusal is None or refusal.code in MOMENTARY:
            return self._feasible.reason(state, obstacle)
        return self._refused(session, state, refusal)

    def _take_turns(self, session: Session, pending: list[JobState]) -> None:
        lines: Lines = {}
        for state in pending:
            line = lines.setdefault(state.job.queue, Line())
            since = session.admissions.expired.get(state.job.uid, 0.0)
            line.join((since, *ordering.job_key(session.dispatch, state)), state)
        later: Lines = {}
        self._decide_in_turn(session, lines, later)
        self._decide_in_turn(session, later, None)
        for line in (*lines.values(), *later.values()):
            session.reasons.skip(*(state.job.id for state in line.rest()))

    def _decide_in_turn(self, session: Session, lines: Lines, later: Lines | None) -> None:
        """Consider one group a turn while the budget lasts.

        In a hurry, groups of namespaces that have used their part of the budget are moved to
        `later`.
        """

        def comes_last(state: JobState) -> bool:
            return session.work_budget.has_had_its_part(state.job.namespace)

        waiting: Line[Queue] = Line()
        for name in lines:
            queue = session.queues[name]
            waiting.join(ordering.queue_key(session.dispatch, queue), queue)
        while waiting and not session.work_budget.over:
            session.spend("admissions", TURN_COST)
            queue = waiting.leave()
            line = lines[queue.name]
            if later is not None and comes_last(line.first):
                line.part(comes_last, later.setdefault(queue.name, Line()))
            if line:
                state = line.leave()
                session.work_budget.charge(state.job.namespace)
                self._decide(session, state)
                session.work_budget.charge()
            if line:
                waiting.join(ordering.queue_key(session.dispatch, queue), queue)

    def _decide(self, session: Session, state: JobState) -> None:
        barred_by = reasons.barred(session, state)
        if barred_by is not None:
            session.reasons.note(state.job.id, barred_by)
            return
        refusal = self._refusal(session, state)
        if refusal is None:
            self._admit(session, state)
        else:
            session.reasons.note(state.job.id, self._refused(session, state, refusal))

    def _admit(self, session: Session, state: JobState) -> None:
        session.dispatch.every(AllHooks.job_enqueued, state)
        self._relief.admitted(state)
        state.phase = Phase.INQUEUE
        uid, now = state.job.uid, session.snapshot.now
        again = state.job.state.phase is Phase.INQUEUE  # excessive, and admitted all the same
        if not again or uid in session.admissions.expired:
            session.admissions.admit(uid, now)
        self._wake_at_timeout(session, state, session.admissions.since(uid, now))

    def _review(self, session: Session, state: JobState, timeout: float) -> None:
        """Revoke the admission of a group that didn't start in time, or can't have been admitted.

        A group with nominations keeps its admission. A group without minResources was promised
        nothing, and has nothing to give back.
        """
        now, uid = session.snapshot.now, state.job.uid
        due = session.admissions.since(uid, now) + timeout
        if state.job.min_resources is None or state.ready_tasks >= max(1, state.minimum):
            return
        nominated = session.snapshot.carried.nominations
        if nominated and any(task.uid in nominated for task in state.job.tasks):
            return
        if now >= due:
            session.admissions.expire(uid, now)
        elif not self._is_excessive(session, state):
            session.wake(due)
            session.unschedulable.expires(state.job.id, due)
            return
        state.phase = Phase.PENDING

    def _review_running(self, session: Session) -> None:
        """Promise nothing more to running groups that ask for more than they can ever have.

        Nor to groups without a pod that holds anything, which is enough for a minMember of 0.
        """
        for job in session.demands.bounded:
            if job.phase is Phase.RUNNING and inqueue_resources.lacks(job):
                state = session.job_states[job.id]
                holding = any(state.counts[status] for status in HOLDING)
                state.owed = holding and not self._is_excessive(session, state)

    def _is_excessive(self, session: Session, state: JobState) -> bool:
        """Whether the group requires more than its queue can ever have in this cluster.

        Admission hasn't promised that much, whatever the group's status says, or nodes have left
        since. While no node is ready, nothing counts as excessive.
        """
        name = state.job.queue
        if name not in self._limits:
            self._limits[name] = _most_to_promise(session, session.queues[name])
        limits = self._limits[name]
        return limits is not None and any(
            amount > limits.get(resource, 0)
            for resource, amount in inqueue_resources.required(state).items()
        )

    def _wake_at_timeout(self, session: Session, state: JobState, since: float) -> None:
        """Ask for a cycle at the timeout of the group, admitted at this time."""
        if state.job.min_resources is not None:
            session.wake(since + self.seconds(TIMEOUT))

    def _refusal(self, session: Session, state: JobState) -> AdmissionFailure | None:
        """Return why the group isn't admitted; None to admit the group. What could be released for
        the group is no reason.
        """
        found: list[AdmissionFailure] = []

        def note(failure: AdmissionFailure) -> bool:
            if not self._relief.covers(state, failure):
                found.append(failure)
            return True

        session.dispatch.refusal(AllHooks.job_enqueueable, state, forgive=note)
        return next((each for each in found if not is_cluster_full(each)), None) or next(
            iter(found), None
        )

    def _refused(
        self,
        session: Session,
        state: JobState,
        refusal: AdmissionFailure,
    ) -> Reason:
        """Return the refusal as a reason.

        For a group that requests more than all nodes have, report only the excess.
        """
        if is_cluster_full(refusal):
            beyond = feasibility.beyond(session, state)
            if beyond:
                return reasons.of(state, ReasonCode.NEVER_FITS, shortages=beyond)
        reason = reason_of(state, refusal)
        if self._relief.is_waived(state, refusal):
            return replace(reason, never_preempts=True)
        return reason


def reason_of(state: JobState, refusal: AdmissionFailure) -> Reason:
    """Return a plugin's refusal as the reason of the group."""
    return Reason(
        code=refusal.code,
        queue=state.job.queue,
        plugin=refusal.plugin,
        tasks=state.job.task_count,
        minimum=state.job.min_member,
        subject=refusal.subject,
        problem=refusal.problem,
        shortages=tuple(
            replace(each, minimum=(state.job.min_resources or {}).get(each.resource, 0))
            for each in refusal.shortages
        ),
        some_nodes=refusal.some_nodes,
    )


def _most_to_promise(session: Session, queue: Queue) -> Mapping[str, float] | None:
    """Return the capacity of all ready nodes within the queue's capability; None without nodes."""
    ready = session.layout.ready
    if not ready.any():
        return None
    total = session.cluster.allocatable[ready].sum(axis=0)
    devices = session.devices.supply(session.space)
    if devices is not None:
        total = total + devices[ready].sum(axis=0)
    most = np.minimum(total, queue.ceiling(session.space)).tolist()
    return dict(zip(session.space.names, most, strict=True))


def is_cluster_full(refusal: AdmissionFailure) -> bool:
    """Whether more nodes would help."""
    return refusal.code is ReasonCode.CLUSTER_FULL
