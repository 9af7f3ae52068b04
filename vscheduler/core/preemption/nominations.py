"""Room that was made for a job by evictions is kept for it until it starts, or gives it up."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from vscheduler.core.model import jobs
from vscheduler.core.session import job_state, ordering, reasons

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

TASK_COST = 20
"""Microseconds, about: one promise looked at."""


def keep(session: "working.Session") -> None:
    """Before any action: those who were promised room wait on their nodes again.

    A job gives its room up, all of it, when a node that it counted on doesn't take its pod any
    more, so that it can't start with what is left.
    """
    promised: defaultdict[jobs.JobId, list[tuple[jobs.Task, int]]] = defaultdict(list)
    named = session.snapshot.carried.nominations
    rows = session.layout.rows
    if not named:
        return
    for gang in session.unsettled():
        if gang.counts[jobs.TaskStatus.PENDING] and reasons.barred(session, gang) is None:
            for task in gang.tasks(jobs.TaskStatus.PENDING):
                if named.get(task.uid) in rows:
                    promised[gang.job.id].append((task, rows[named[task.uid]]))
    for gang in _in_order(session, promised, _by_age(named, promised)):
        with session.statement() as trial:
            for task, row in promised[gang.job.id]:
                session.spend("promises", TASK_COST)
                if session.placement.feasible(task, row):
                    trial.pipeline(task, row)
            if gang.waiting_tasks and session.dispatch.vote("job_pipelined", gang):
                waiting = list(gang.tasks(jobs.TaskStatus.PIPELINED))
                session.nominations.update((task.uid, named[task.uid]) for task in waiting)
                trial.hold()


def extend(session: "working.Session", gang: job_state.JobState) -> None:
    """Others are evicted for the job: all room that it waits for is kept, idle or not."""
    for task in gang.tasks(jobs.TaskStatus.PIPELINED):
        session.nominations[task.uid] = session.pipelined[task.uid].node


def redeemable(session: "working.Session") -> list[job_state.JobState]:
    """Jobs that wait for room that was promised to them, in order.

    Where preempt or reclaim come first, that is also idle room that they found; those for which
    they evict others wait where the planner has them.
    """
    if session.as_volcano:
        waiting = {
            held.task.job for uid, held in session.pipelined.items() if uid in session.nominations
        }
    else:
        waiting = {held.task.job for held in session.pipelined.values()}
        waiting -= {evict.beneficiary for evict in session.evicts.values() if evict.beneficiary}
    ages: dict[jobs.JobId, int] = {}
    for age, uid in enumerate(session.nominations):
        if uid in session.pipelined:
            ages.setdefault(session.pipelined[uid].task.job, age)
    return _in_order(session, waiting, ages)


def _by_age(
    named: Mapping[jobs.TaskId, str],
    promised: Mapping[jobs.JobId, Sequence[tuple[jobs.Task, int]]],
) -> dict[jobs.JobId, int]:
    """When each job's first promise was given: its place among all."""
    places = {uid: place for place, uid in enumerate(named)}
    return {job: min(places[task.uid] for task, _ in tasks) for job, tasks in promised.items()}


def _in_order(
    session: "working.Session", waiting: Iterable[jobs.JobId], ages: Mapping[jobs.JobId, int]
) -> list[job_state.JobState]:
    """The oldest promise first, else the room that was freed for it could go to a newer one of
    the same node; then those that come first in their queues' lines.
    """
    found = [session.gangs[job] for job in waiting]
    last = len(ages)

    def key(gang: job_state.JobState) -> tuple[object, ...]:
        return (ages.get(gang.job.id, last), *ordering.job_key(session.dispatch, gang))

    return sorted(found, key=key)
