"""Stale gangs: gangs that had their minimum, lost pods that nobody replaces, and keep the rest.

They are evicted when their recovery time-out expires, if there is one (Kueue:
waitForPodsReady.recoveryTimeout; KAI: stalenessGracePeriod). Gangs of which only a part was ever
bound are the subject of `partial_gangs`.
"""

import datetime as dt
from collections.abc import Sequence

from vscheduler.core.eviction import partial_gangs
from vscheduler.core.model.decisions import LostPods
from vscheduler.core.model.jobs import STARTED, WAITING, Job, Task, TaskStatus
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session

REFILLING = (
    *WAITING,
    *(TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING),
)
"""Statuses of pods that may still start, so that the gang isn't left with what it has."""

UNSCHEDULABLE = "Unschedulable"
"""The condition that tells since when a PodGroup has lacked pods."""


def evict_expired(session: Session) -> None:
    """Evict stale gangs whose recovery time-out has expired, and wake for the next one.

    Runs after all actions, as `partial_gangs.evict_expired` does. A gang for which no plugin has a
    `recovery_timeout` is left alone.
    """
    now = session.snapshot.now
    for state in session.waiting_jobs():
        if not _is_stale(state):
            continue
        bound = partial_gangs.bound_pods(session, state)
        seconds = session.dispatch.first("recovery_timeout", None, state)
        if not bound or seconds is None:
            continue
        uid = state.job.uid
        since = session.snapshot.carried.stale_since.get(uid)
        if since is None:
            since = _since(session, state.job)
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
            partial_gangs.evict(session, state, bound, lost)


def _is_stale(state: JobState) -> bool:
    """Whether the minimum isn't there any more, and no pod exists that could complete it.

    Pods that have succeeded count towards the minimum, deleted or not.
    """
    return (
        state.job.phase in STARTED
        and state.ready_tasks < state.job.min_member
        and not any(state.counts[status] for status in REFILLING)
    )


def _since(session: Session, job: Job) -> float:
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
    left = session.dispatch.unprotected("preemptable", tasks[0], tasks)
    return len(left) == len(tasks)
