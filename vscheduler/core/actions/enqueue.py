"""Enqueue: let Pending groups in as long as what they need at least can be promised to them.

A group that is Inqueue may be placed, and a Volcano Job makes its pods only then. Volcano:
actions/enqueue.
"""

import functools
from collections.abc import Mapping
from typing import ClassVar, TypeAlias

from vscheduler.core.api import contracts
from vscheduler.core.fair_share import inqueue_resources
from vscheduler.core.model import decisions, durations, jobs, queues
from vscheduler.core.placement import feasibility
from vscheduler.core.session import job_state, ordering, reasons, unschedulable_jobs
from vscheduler.core.session import session as working

TURN_COST = 20
"""Microseconds, about: one group looked at."""

HOPELESS_COST = 30
"""Microseconds, about: one group told that nodes can't hold it."""

AGAIN_COST = 8
"""Microseconds, about: the same of one that was told in an earlier cycle."""

TIMEOUT = "enqueue.timeout"


Lines: TypeAlias = dict[str, ordering.Line[job_state.JobState]]
"""By queue, the groups that wait to be let in."""


class Enqueue(contracts.Action[working.Session]):
    """Pending groups become Inqueue, or are told why not."""

    name = "enqueue"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        TIMEOUT: contracts.Argument(str, "10m", parse=durations.positive),
    }
    feasibility_check: ClassVar[type[feasibility.Feasibility]] = feasibility.Feasibility
    """Tells which gangs couldn't start were all nodes empty."""

    def prepare(self, session: working.Session) -> None:
        """Phases as the cycles before left them, which the API server may not show yet; groups
        that are Inqueue for too long, or can't start however long they wait, are Pending again,
        before any plugin counts their promise.
        """
        timeout = self.seconds(TIMEOUT)
        for gang in session.unsettled():
            if gang.phase not in jobs.YOUNG:
                continue
            if session.bars and reasons.barred(session, gang) is not None:
                gang.phase = jobs.Phase.PENDING
                continue
            uid = gang.job.uid
            if gang.phase is jobs.Phase.PENDING and uid in session.admitted:
                gang.phase = jobs.Phase.INQUEUE
            elif gang.phase is jobs.Phase.INQUEUE and uid in session.admission_expired:
                gang.phase = jobs.Phase.PENDING
            if gang.phase is jobs.Phase.INQUEUE:
                self._enforce_timeout(session, gang, timeout)

    def execute(self, session: working.Session) -> None:
        """Queue after queue, one group a turn; those that lost their place after all others.

        Groups that can't start on empty nodes are told so in the end; one that was let in before
        loses its place at once, and has it again when a node comes. While no node is ready there
        is nothing that a place could keep from others.
        """
        self._feasible = self.feasibility_check(session)
        self._hopeless: list[tuple[job_state.JobState, unschedulable_jobs.Obstacle]] = []
        pending: tuple[list[job_state.JobState], list[job_state.JobState]] = ([], [])
        nodes_ready = bool(session.layout.ready.any())
        young = [gang for gang in session.unsettled() if gang.phase in jobs.YOUNG]
        spending = session.spending
        for gang in spending.in_turn(young):
            waits = gang.phase is jobs.Phase.PENDING
            if gang.job.id in session.snapshot.carried.attempted:
                if waits:
                    session.unreached.add(gang.job.id)
                continue
            if (waits or nodes_ready) and not spending.exhausted:
                obstacle = self._feasible.obstacle(gang)
                if obstacle is not None:
                    self._hopeless.append((gang, obstacle))
                    gang.phase = jobs.Phase.PENDING
                    continue
            if waits:
                pending[gang.job.uid in session.admission_expired].append(gang)
        session.spending.grant(4)
        for waiting in pending:
            self._take_turns(session, waiting)
        session.spending.grant(4)
        self._tell_hopeless(session)

    def _tell_hopeless(self, session: working.Session) -> None:
        """A quarter of the budget at most, as whoever may start is still to have a turn; the cycle
        isn't finished then, and the next one goes on.
        """
        enough = session.spending.part(4)
        obstacles = {gang.job.id: obstacle for gang, obstacle in self._hopeless}
        waiting = [gang for gang, _ in self._hopeless]
        for place, gang in enumerate(session.spending.in_turn(waiting)):
            if place and enough():
                session.spending.exhausted = True
                session.unreached.add(gang.job.id)
                continue
            again = gang.job.id in session.told_hopeless.entries
            session.spend("hopeless", AGAIN_COST if again else HOPELESS_COST)
            session.note(gang.job.id, self._why_hopeless(session, gang, obstacles[gang.job.id]))

    def _why_hopeless(
        self,
        session: working.Session,
        gang: job_state.JobState,
        obstacle: unschedulable_jobs.Obstacle,
    ) -> decisions.Reason:
        """What its queue forbids comes first: no node would change that."""
        bar = reasons.barred(session, gang)
        if bar is not None:
            return bar
        refusal = self._refusal(session, session.queues[gang.job.queue], gang)
        if refusal is None or _lacks_room(refusal):
            return self._feasible.reason(gang, obstacle)
        return self._refused(session, gang, refusal)

    def _take_turns(self, session: working.Session, pending: list[job_state.JobState]) -> None:
        lines: Lines = {}
        for gang in pending:
            line = lines.setdefault(gang.job.queue, ordering.Line())
            since = session.admission_expired.get(gang.job.uid, 0.0)
            line.join((since, *ordering.job_key(session.dispatch, gang)), gang)
        later: Lines = {}
        self._decide_in_turn(session, lines, later)
        self._decide_in_turn(session, later, None)
        for line in (*lines.values(), *later.values()):
            session.unreached.update(gang.job.id for gang in line.rest())

    def _decide_in_turn(self, session: working.Session, lines: Lines, later: Lines | None) -> None:
        """One group a turn, as long as the budget lasts; later: in a hurry, groups whose namespaces
        have had their part wait there.
        """

        def has_had(gang: job_state.JobState) -> bool:
            return session.spending.has_had_its_part(gang.job.namespace)

        waiting: ordering.Line[queues.Queue] = ordering.Line()
        for name in lines:
            queue = session.queues[name]
            waiting.join(ordering.queue_key(session.dispatch, queue), queue)
        while waiting and not session.spending.over:
            session.spend("admissions", TURN_COST)
            queue = waiting.leave()
            line = lines[queue.name]
            if later is not None and has_had(line.first):
                line.part(has_had, later.setdefault(queue.name, ordering.Line()))
            if line:
                gang = line.leave()
                session.spending.payer = gang.job.namespace
                self._decide(session, queue, gang)
                session.spending.payer = ""
            if line:
                waiting.join(ordering.queue_key(session.dispatch, queue), queue)

    def _decide(
        self, session: working.Session, queue: queues.Queue, gang: job_state.JobState
    ) -> None:
        bar = reasons.barred(session, gang)
        if bar is not None:
            session.note(gang.job.id, bar)
            return
        refusal = self._refusal(session, queue, gang)
        if refusal is None:
            self._admit(session, gang)
        else:
            session.note(gang.job.id, self._refused(session, gang, refusal))

    def _admit(self, session: working.Session, gang: job_state.JobState) -> None:
        session.dispatch.every("job_enqueued", gang)
        gang.phase = jobs.Phase.INQUEUE
        session.admitted[gang.job.uid] = session.snapshot.now
        self._wake_at_timeout(session, gang)

    def _enforce_timeout(
        self, session: working.Session, gang: job_state.JobState, timeout: float
    ) -> None:
        """Take the group's place from it where it had long enough to start.

        One that waits for room that evictions made for it keeps its place; one that was promised
        nothing has nothing to give back.
        """
        now, uid = session.snapshot.now, gang.job.uid
        due = session.admitted.setdefault(uid, now) + timeout
        if gang.job.min_resources is None or gang.ready_tasks >= max(1, gang.job.min_member):
            return
        kept = session.snapshot.carried.nominations
        if kept and any(task.uid in kept for task in gang.job.tasks):
            return
        if now < due:
            session.wake(due)
            return
        gang.phase = jobs.Phase.PENDING
        session.admission_expired[uid] = now

    def _wake_at_timeout(self, session: working.Session, gang: job_state.JobState) -> None:
        """Have a cycle when the group that is admitted now loses its place."""
        if gang.job.min_resources is not None:
            session.wake(session.snapshot.now + self.seconds(TIMEOUT))

    def _refusal(
        self, session: working.Session, queue: queues.Queue, gang: job_state.JobState
    ) -> decisions.AdmissionFailure | None:
        """Return why the group isn't admitted. A group that the cluster has no room for is
        admitted where its queue may reclaim that room.
        """
        found = refusal(session, gang)
        if found is None or not _lacks_room(found):
            return found
        limit = session.dispatch.refusal("job_enqueueable", gang, forgive=_is_promised_away)
        return None if limit is None and _is_owed(session, queue, gang) else found

    def _refused(
        self,
        session: working.Session,
        gang: job_state.JobState,
        refusal: decisions.AdmissionFailure,
    ) -> decisions.Reason:
        """Return the refusal as a reason; of a group that asks for more than all nodes have, just
        that.
        """
        if _lacks_room(refusal):
            beyond = feasibility.beyond(session, gang)
            if beyond:
                return reasons.of(gang, decisions.ReasonCode.NEVER_FITS, shortages=beyond)
        return reason_of(gang, refusal)


def refusal(
    session: working.Session, gang: job_state.JobState
) -> decisions.AdmissionFailure | None:
    """Return why plugins refuse the group, None where they don't. That the cluster has no room is
    the last of reasons, returned only where there is no other.
    """
    ask = functools.partial(session.dispatch.refusal, "job_enqueueable", gang)
    found = ask()
    if found is None or not _lacks_room(found):
        return found
    return ask(forgive=_lacks_room) or found


def reason_of(gang: job_state.JobState, refusal: decisions.AdmissionFailure) -> decisions.Reason:
    """Return a plugin's refusal as the reason of the group."""
    return decisions.Reason(
        code=refusal.code,
        queue=gang.job.queue,
        tasks=len(gang.job.tasks),
        minimum=gang.job.min_member,
        subject=refusal.subject,
        problem=refusal.problem,
        shortages=refusal.shortages,
    )


def _lacks_room(refusal: decisions.AdmissionFailure) -> bool:
    """Whether more nodes would help."""
    return refusal.code is decisions.ReasonCode.CLUSTER_FULL


def _is_promised_away(refusal: decisions.AdmissionFailure) -> bool:
    """Whether evictions would help: no queue would have more than it can have in this cluster."""
    return _lacks_room(refusal) and not refusal.subject


def _is_owed(session: working.Session, queue: queues.Queue, gang: job_state.JobState) -> bool:
    """Whether the group may reclaim what the cluster has no room for: its queue is owed it.

    Plugins are asked about one pod as large as what the group needs at least, since there may be
    no pods yet.
    """
    if not (session.runs("reclaim") and session.dispatch.asks("preemptive")):
        return False
    if session.dispatch.any_says("overused", queue):
        return False
    job = gang.job
    whole = jobs.Task(
        uid=jobs.TaskId(""),
        namespace=job.namespace,
        name=job.name,
        job=job.id,
        pod_class=jobs.PodClass(request=inqueue_resources.outstanding(gang)),
        status=jobs.TaskStatus.PENDING,
        created=job.created,
    )
    return session.dispatch.all_agree("preemptive", queue, [whole])
