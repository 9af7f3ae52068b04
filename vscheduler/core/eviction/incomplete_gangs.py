"""Incomplete gangs: those that hold resources without their minimum go when their time is up.

Of partial gangs, only some members were ever bound: the API server may refuse one bind of a gang
and accept the rest. Every cycle tries to bind the missing members; a gang that never becomes
complete must not hold resources for ever. Stale gangs had their minimum, lost pods that nobody
replaces, and keep the rest. They go when their recovery time-out expires, if there is one (Kueue:
waitForPodsReady.recoveryTimeout; KAI: stalenessGracePeriod).
"""

import datetime as dt
from collections.abc import Iterable, Sequence

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.model.decisions import Evict, LostPods
from vscheduler.model.jobs import EVICTABLE, STARTED, WAITING, YOUNG, Job, Task, TaskStatus

RULE = "gang"
"""The plugin that sets the timeout; recorded as the action of the evictions."""

ANSWER_SECONDS = 1.0
"""When to look again at an expired gang whose last binds have just been sent."""


def evict_partial(session: Session) -> None:
    """Evict partial gangs whose start timeout has expired, and wake for the next timeout.

    Runs after all actions, so that nothing starts on what a gang still has: the API server may
    refuse the evictions, and the queue would then have more than its capability. A gang that has
    become complete in this cycle keeps what it has, and so does one that had its minimum before, as
    its phase tells. One for which no plugin has a `start_timeout` is left alone.
    """
    for state in session.waiting_jobs():
        if state.job.phase not in YOUNG or not _is_partial(state):
            continue
        uid, bound = state.job.uid, bound_pods(session, state)
        since = session.snapshot.carried.partial_since.get(uid)
        seconds = session.dispatch.first(AllHooks.start_timeout, None, state)
        if not bound or seconds is None:
            continue
        if since is None:
            since = _partial_since(session, state.job, bound)
        session.eviction_history.note_partial(uid, since)
        now, expires = session.snapshot.now, since + seconds
        if expires > now:
            session.wake(expires)
        elif state.counts[TaskStatus.ALLOCATED]:  # it is complete if these binds succeed
            session.wake(now + ANSWER_SECONDS)
        else:
            _evict(session, state, bound)


def _is_partial(state: JobState) -> bool:
    """Whether some, but fewer than minMember, pods have nodes; binds in flight don't count.

    A gang whose pods have ended keeps nothing from others, however many of them there are.
    """
    return state.scheduled_tasks < state.job.min_member and any(
        state.counts[status] for status in EVICTABLE
    )


def bound_pods(session: Session, state: JobState) -> list[Task]:
    """Return the pods that have nodes and could be evicted.

    A pod on a node that is lost keeps nothing from others, and can't be evicted: if it counted, the
    time of the gang would be over for ever, and each pod that its owner makes would go as soon as
    it is bound.
    """
    return [
        task
        for task in state.job.tasks
        if state.status(task) in EVICTABLE and task.node in session.layout.rows
    ]


def _partial_since(session: Session, job: Job, bound: Iterable[Task]) -> float:
    """Return the instant from which a newly found partial gang counts as bound in part.

    The first cycle of a process takes the instant from the pods' PodScheduled conditions, so that a
    new leader doesn't restart the timeout. Later cycles use their own clock: with a clock ahead of
    the API server's, a gang whose binds are in flight could otherwise be evicted too early. The
    PodGroup's creation is the earliest possible instant.
    """
    now = session.snapshot.now
    if session.snapshot.carried.seen is not None:
        return now
    times = [task.scheduled_at for task in bound if task.scheduled_at is not None]
    return min(now, max(job.created, min(times, default=now)))


def _evict(
    session: Session, state: JobState, tasks: Sequence[Task], lost: LostPods | None = None
) -> None:
    """Evict the gang's bound pods, all at once. `lost` says what a gang lacks that ran.

    Nothing is evicted if the API server has just refused to evict any of the pods, or if a
    PodDisruptionBudget doesn't allow the evictions.
    """
    refused = session.snapshot.carried.reported.eviction_refused_pods
    if not refused.isdisjoint(task.uid for task in tasks):
        return
    if not session.cluster.budgets.spare(tasks):
        return
    with session.statement() as trial:
        for task in state.tasks(TaskStatus.PIPELINED):
            trial.withdraw(task)
        for task in tasks:
            assert task.node is not None
            trial.evict(
                Evict(
                    task=task,
                    node=task.node,
                    action=RULE,
                    beneficiary=None,
                    whole=True,
                    lost=lost,
                )
            )
        trial.commit()


REFILLING = (
    *WAITING,
    *(TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING),
)
"""Statuses of pods that may still start, so that the gang isn't left with what it has."""

UNSCHEDULABLE = "Unschedulable"
"""The condition that tells since when a PodGroup has lacked pods."""


def evict_stale(session: Session) -> None:
    """Evict stale gangs whose recovery time-out has expired, and wake for the next one.

    Runs after all actions, as `evict_partial` does. A gang for which no plugin has a
    `recovery_timeout` is left alone.
    """
    now = session.snapshot.now
    for state in session.waiting_jobs():
        if not _is_stale(state):
            continue
        bound = bound_pods(session, state)
        seconds = session.dispatch.first(AllHooks.recovery_timeout, None, state)
        if not bound or seconds is None:
            continue
        uid = state.job.uid
        since = session.snapshot.carried.stale_since.get(uid)
        if since is None:
            since = _stale_since(session, state.job)
        session.eviction_history.note_stale(uid, since)
        if since + seconds > now:
            session.wake(since + seconds)
        elif _may_go(session, state, bound):
            lost = LostPods(
                ready=state.ready_tasks,
                minimum=state.job.min_member,
                failed=state.counts[TaskStatus.FAILED],
                seconds=now - since,
            )
            _evict(session, state, bound, lost)


def _is_stale(state: JobState) -> bool:
    """Whether the minimum isn't there any more, and no pod exists that could complete it.

    Pods that have succeeded count towards the minimum, deleted or not.
    """
    return (
        state.job.phase in STARTED
        and state.ready_tasks < state.job.min_member
        and not any(state.counts[status] for status in REFILLING)
    )


def _stale_since(session: Session, job: Job) -> float:
    """Return the instant from which a newly found gang counts as stale.

    The first cycle of a process takes the instant from the PodGroup's condition, so that a new
    leader doesn't restart the time-out. The PodGroup's creation is the earliest possible instant.
    """
    now = session.snapshot.now
    if session.snapshot.carried.seen is not None:
        return now
    return min(now, max(job.created, _lacks_pods_since(job, now)))


def _lacks_pods_since(job: Job, default: float) -> float:
    for condition in job.state.conditions:
        if (condition.type, condition.status) == (UNSCHEDULABLE, "True"):
            try:
                found = dt.datetime.fromisoformat(condition.last_transition)
            except ValueError:
                return default
            return default if found.tzinfo is None else found.timestamp()
    return default


def _may_go(session: Session, state: JobState, tasks: Sequence[Task]) -> bool:
    """Whether nothing protects any of the pods: the gang goes as a whole or not at all."""
    if state.protected or not all(task.preemptable for task in tasks):
        return False
    left = session.dispatch.unprotected(AllHooks.preemptable, tasks[0], tasks)
    return len(left) == len(tasks)
