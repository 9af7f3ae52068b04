"""Changes of when the job has its turn: a run time with which it ends before nodes are needed that
are reserved for another job, and a priority above that of others.
"""

from collections.abc import Iterator

from vscheduler.explain.changes import HigherPriority, Remedy, RunTime
from vscheduler.explain.search import Search
from vscheduler.model import jobs
from vscheduler.model.decisions import Reason, ReasonCode
from vscheduler.model.jobs import WAITING, Job

GRIDS = (3600, 600, 60, 10)
"""Seconds of which run times are multiples: the largest of which a time has GRID_PARTS."""

GRID_PARTS = 6

PREEMPT = "preempt"

ABOUT_OTHERS = frozenset(
    {
        *(ReasonCode.QUEUE_FULL, ReasonCode.QUOTA_FULL, ReasonCode.CLUSTER_FULL),
        *(ReasonCode.QUEUE_OVER_SHARE, ReasonCode.NO_ROOM, ReasonCode.NO_DOMAIN),
    }
)
"""Reasons of jobs that would start if others hadn't what they need."""

PRIORITIES_MAX = 8
"""So many priorities are tried, the lowest first."""


def shorter(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield a run time with which the job ends before another one starts as promised."""
    promised = search.reason.promised if search.reason else None
    if promised is None or promised.ahead is None or jobs.is_composite(job.id):
        return
    seconds = below(promised.ahead.at - search.trials.snapshot.now)
    alone = jobs.is_lone_pod(job.id)
    remedy = search.one(RunTime(seconds=seconds, alone=alone)) if seconds else None
    if remedy is not None:
        yield remedy


def below(seconds: float) -> int:
    """Return a round number of seconds that is less, by enough that a user may take some time to
    set it; 0 if there is none.
    """
    grid = next((each for each in GRIDS if each * GRID_PARTS <= seconds), 0)
    return int(seconds - 1) // grid * grid if grid else 0


def prior(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the lowest priority, just above that of another job, with which the job starts."""
    if jobs.is_composite(job.id) or jobs.is_native(job.id):
        return  # all pods must have the priority, which can't be changed
    if not waits_for_others(search.reason):
        return
    alone = jobs.is_lone_pod(job.id)
    levels = sorted({each.priority for each in _rivals(search, job)})
    if search.quick or len(levels) > PRIORITIES_MAX:
        levels = [*levels[: 0 if search.quick else PRIORITIES_MAX - 1], *levels[-1:]]
    for level in levels:
        change = HigherPriority(before=job.priority, after=level + 1, alone=alone)
        # In a forecast the others would have had their turns already.
        remedy = search.proved(change)
        if remedy is not None:
            yield remedy
            return


def waits_for_others(reason: Reason | None) -> bool:
    """Whether the job would start if others hadn't what it needs; with no reason it had no turn."""
    return reason is None or reason.code in ABOUT_OTHERS


def _rivals(search: Search, job: Job) -> Iterator[Job]:
    """Yield the jobs of the same or a higher priority that may have what the job needs: those that
    wait, and those whose pods might be evicted for it.
    """
    preempts = search.trials.policy.has_action(PREEMPT)
    for each in search.trials.snapshot.jobs:
        waits = any(each.counts[status] for status in WAITING)
        if each.id != job.id and each.priority >= job.priority and (waits or preempts):
            yield each
