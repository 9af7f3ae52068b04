"""Gangs of which only a part could be bound: they have some time to become whole, then it goes.

The API server may refuse one bind of a gang and take the others. The rest is tried again in every
cycle; what never comes together must not hold its room for ever.
"""

from typing import TYPE_CHECKING

from vscheduler.core.model import decisions, jobs
from vscheduler.core.session import job_state

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

RULE = "gang"
"""The plugin that says how long; named in the evictions."""


def settle(session: "working.Session") -> None:
    """Before any action: evict what was bound of gangs whose time is over, wake up for the others.

    Not in Volcano's way, which leaves them as they are.
    """
    if session.as_volcano:
        return
    for gang in session.unsettled():
        if not _is_half(gang):
            continue
        uid = gang.job.uid
        since = session.snapshot.carried.partial_since.get(uid)
        if since is None and gang.job.phase not in jobs.YOUNG:  # it had its minimum once
            continue
        seconds = session.dispatch.first("start_timeout", None, gang)
        if seconds is None:
            continue
        since = session.partial_since[uid] = _since(session, gang) if since is None else since
        session.wake(since + seconds)
        if since + seconds <= session.snapshot.now:
            _evict(session, gang)


def _is_half(gang: job_state.JobState) -> bool:
    """Whether pods of it have nodes, and fewer than its minimum (binds on the way don't count)."""
    return 0 < gang.scheduled_tasks < gang.job.min_member


def _since(session: "working.Session", gang: job_state.JobState) -> float:
    """Since when a gang that no cycle before has seen so is bound in part: an instant.

    The first cycle of all has it from the API server, whose pods say when they were bound: the
    time of a gang doesn't begin anew with each leader. Later cycles go by their own clock, so that
    none that is being bound goes too soon where that is ahead of the API server's. A PodGroup that
    is younger than its pods has had no longer than it is there.
    """
    now = session.snapshot.now
    if session.snapshot.carried.seen is not None:
        return now
    bound = [
        task.scheduled_at
        for task in gang.job.tasks
        if task.status in jobs.EVICTABLE and task.scheduled_at is not None
    ]
    return min(now, max(gang.job.created, min(bound, default=now)))


def _evict(session: "working.Session", gang: job_state.JobState) -> None:
    """All that can go, at once; nothing where the API server just refused one of them, or a
    PodDisruptionBudget would.
    """
    held = [
        task
        for task in gang.job.tasks
        if gang.status(task) in jobs.EVICTABLE and task.node in session.layout.rows
    ]
    if not session.snapshot.carried.eviction_refused_pods.isdisjoint(task.uid for task in held):
        return
    if not session.budgets.spare(held):
        return
    with session.statement() as trial:
        for task in held:
            assert task.node is not None
            trial.evict(
                decisions.Evict(
                    task=task, node=task.node, action=RULE, beneficiary=None, whole=True
                )
            )
        trial.commit()
