"""Enqueue: let Pending groups in as long as what they need at least can be promised to them.

A group that is Inqueue may be placed, and a Volcano Job makes its pods only then. Volcano:
actions/enqueue. There a group that never starts keeps what it was promised for ever, and one that
the cluster has no room for can't reclaim what its queue is owed; here neither is so.
"""

from collections.abc import Mapping
from typing import ClassVar

from vscheduler.core.framework import contracts, gangs, ordering, reservations
from vscheduler.core.framework import session as working
from vscheduler.core.model import decisions, durations, jobs, queues

TURN_COST = 20
"""Microseconds, about: one group looked at."""

TIMEOUT = "enqueue.timeout"


class Enqueue(contracts.Action):
    """Pending groups become Inqueue, or are told why not."""

    name = "enqueue"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        TIMEOUT: contracts.Argument(str, "10m", parse=durations.positive),
    }

    def prepare(self, session: working.Session) -> None:
        """Phases as the cycles before left them, which the API server may not show yet; groups
        that are Inqueue for too long are Pending again, before any plugin counts their promise.
        """
        for gang in session.gangs.values():
            uid = gang.job.uid
            if gang.phase is jobs.Phase.PENDING and uid in session.admitted:
                gang.phase = jobs.Phase.INQUEUE
            elif gang.phase is jobs.Phase.INQUEUE and uid in session.lapsed:
                gang.phase = jobs.Phase.PENDING
            if gang.phase is jobs.Phase.INQUEUE and not session.as_volcano:
                self._hold_to_time(session, gang)

    def execute(self, session: working.Session) -> None:
        """Queue after queue, one group a turn; those that lost their place after all others."""
        pending: tuple[list[gangs.Gang], list[gangs.Gang]] = ([], [])
        for gang in session.gangs.values():
            if gang.phase is not jobs.Phase.PENDING:
                continue
            if gang.job.id in session.snapshot.carried.tried:
                session.unreached.add(gang.job.id)
            else:
                pending[gang.job.uid in session.lapsed].append(gang)
        for waiting in pending:
            self._take_turns(session, waiting)

    def _hold_to_time(self, session: working.Session, gang: gangs.Gang) -> None:
        """Take the group's place from it where it had long enough to start.

        One that waits for room that evictions made for it keeps its place; one that was promised
        nothing has nothing to give back.
        """
        now, uid = session.snapshot.now, gang.job.uid
        since = session.admitted.setdefault(uid, now)
        promised = session.snapshot.carried.nominations
        if gang.has_minimum or gang.job.min_resources is None:
            return
        if promised and any(task.uid in promised for task in gang.job.tasks):
            return
        due = since + self.seconds(TIMEOUT)
        if now < due:
            session.wake(due)
            return
        gang.phase = jobs.Phase.PENDING
        session.lapsed[uid] = now

    def _take_turns(self, session: working.Session, pending: list[gangs.Gang]) -> None:
        lines: dict[str, ordering.Line[gangs.Gang]] = {}
        for gang in pending:
            line = lines.setdefault(gang.job.queue, ordering.Line())
            since = session.lapsed.get(gang.job.uid, 0.0)
            line.join((since, *ordering.job_key(session.dispatch, gang)), gang)
        waiting: ordering.Line[queues.Queue] = ordering.Line()
        for name in lines:
            queue = session.queues[name]
            waiting.join(ordering.queue_key(session.dispatch, queue), queue)
        while waiting and not session.exhausted:
            session.spend("admissions", TURN_COST)
            queue = waiting.leave()
            self._decide(session, queue, lines[queue.name].leave())
            if lines[queue.name]:
                waiting.join(ordering.queue_key(session.dispatch, queue), queue)
        for queue in waiting.rest():
            session.unreached.update(gang.job.id for gang in lines[queue.name].rest())

    def _decide(self, session: working.Session, queue: queues.Queue, gang: gangs.Gang) -> None:
        refusal = None
        # Volcano lets a group that names no minResources in unasked, even into a closed queue.
        if gang.job.min_resources is not None or not session.as_volcano:
            refusal = session.dispatch.refusal("job_enqueueable", gang)
        if refusal is None or _is_owed(session, queue, gang, refusal):
            self._admit(session, gang)
            return
        job = gang.job
        reason = decisions.Reason(
            code=refusal.code,
            queue=job.queue,
            tasks=len(job.tasks),
            minimum=job.min_member,
            subject=refusal.subject,
            problem=refusal.problem,
            shortages=refusal.shortages,
        )
        session.note(job.id, reason)

    def _admit(self, session: working.Session, gang: gangs.Gang) -> None:
        session.dispatch.every("job_enqueued", gang)
        gang.phase = jobs.Phase.INQUEUE
        uid, now = gang.job.uid, session.snapshot.now
        session.admitted[uid] = now
        session.lapsed.pop(uid, None)
        if gang.job.min_resources is not None and not session.as_volcano:
            session.wake(now + self.seconds(TIMEOUT))


def _is_owed(
    session: working.Session, queue: queues.Queue, gang: gangs.Gang, refusal: decisions.Refusal
) -> bool:
    """Whether the group may reclaim what the cluster has no room for: its queue is owed it.

    Plugins are asked about one pod as large as what the group needs at least, since there may be
    no pods yet.
    """
    if refusal.code is not decisions.ReasonCode.CLUSTER_FULL or session.as_volcano:
        return False
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
        kind=jobs.TaskClass(request=reservations.outstanding(gang)),
        status=jobs.TaskStatus.PENDING,
        created=job.created,
    )
    return session.dispatch.all_agree("preemptive", queue, [whole])
