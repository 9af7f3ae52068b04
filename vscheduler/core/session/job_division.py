"""Division of jobs: those that cycles leave out, and the others, from cycle to cycle.

From one snapshot to the next few jobs change, and a job that has changed is another object. So the
jobs of the last cycle are compared with those of this one by identity, without calling a function
for each job: there may be very many.
"""

import bisect
import itertools
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from vscheduler.core.model.jobs import Job, JobId

CHANGES_MAX = 16
"""With more changes, all jobs are looked up."""

Jobs: TypeAlias = Sequence[Job]

of_job = operator.attrgetter("id")
"""The ID of a job, by which jobs are in order."""


class JobDivision(msgspec.Struct, frozen=True, eq=False):
    """Jobs by ID, and those among them that aren't left out."""

    every: Jobs
    others: Jobs


def divide(
    every: Jobs,
    left_out: Mapping[JobId, Job],
    before: JobDivision | None,
) -> tuple[JobDivision, Collection[JobId]]:
    """Return the division of all jobs, and which of those left out have changed or are gone.

    `before` is the division by the same jobs left out, in an earlier cycle.
    """
    if not left_out:
        return JobDivision(every, every), ()
    if before is None:
        return _looked_up(every, left_out)
    if before.every is every:
        return before, ()
    found = changes(before.every, every)
    if found is None:
        return _looked_up(every, left_out)
    return JobDivision(every, _changed(before.others, *found)), [
        job.id for job in found[0] if job.id in left_out
    ]


def _changed(others: Jobs, gone: Jobs, come: Jobs) -> Jobs:
    """Return the jobs, by ID, without those that are gone, and with those that have come."""
    if len(gone) + len(come) > CHANGES_MAX:
        names = {job.id for job in gone}
        return sorted((*(job for job in others if job.id not in names), *come), key=of_job)
    found = list(others)
    for job in gone:
        place = place_of(job, found)
        if place is not None:
            del found[place]
    for job in come:
        bisect.insort(found, job, key=of_job)
    return found


def _looked_up(every: Jobs, left_out: Mapping[JobId, Job]) -> tuple[JobDivision, Collection[JobId]]:
    """Return the same, with nothing known of earlier cycles."""
    others = _without(every, left_out)
    if len(others) + len(left_out) == len(every):
        return JobDivision(every, others), ()
    gone = _without(left_out.values(), _by_id(every))
    return JobDivision(every, others), [job.id for job in gone]


def changes(before: Jobs, now: Jobs) -> tuple[Jobs, Jobs] | None:
    """Return the jobs that are gone and those that have come, by ID; None if these are too many.

    A job that has changed is among both.
    """
    gone: list[Job] = []
    come: list[Job] = []
    old = new = 0
    for _ in range(CHANGES_MAX):
        common = min(len(before) - old, len(now) - new)
        equal = _same(before[old : old + common], now[new : new + common])
        old, new = old + equal, new + equal
        if equal == common:
            return [*gone, *before[old:]], [*come, *now[new:]]
        was, is_now = before[old], now[new]
        if was.id <= is_now.id:
            gone.append(was)
            old += 1
        if is_now.id <= was.id:
            come.append(is_now)
            new += 1
    return None


def all_changes(before: Jobs, now: Jobs) -> tuple[Jobs, Jobs]:
    """Return the jobs that are gone and those that have come, by ID, however many these are."""
    few = changes(before, now)
    if few is not None:
        return few
    return _without(before, _by_id(now)), _without(now, _by_id(before))


def place_of(job: Job, every: Jobs) -> int | None:
    """Return the place of this very object among jobs by ID."""
    place = bisect.bisect_left(every, job.id, key=of_job)
    return place if place < len(every) and every[place] is job else None


def _by_id(every: Jobs) -> Mapping[JobId, Job]:
    return dict(zip(map(of_job, every), every, strict=True))


def _without(every: Collection[Job], others: Mapping[JobId, Job]) -> Jobs:
    """Return the jobs that aren't the same objects as any of the others."""
    theirs = map(others.get, map(of_job, every))
    return list(itertools.compress(every, map(operator.is_not, theirs, every)))


def _same(before: Jobs, now: Jobs) -> int:
    """Return how many jobs at the beginning are the same objects, of equally many jobs."""
    rest = iter(now)
    if all(map(operator.is_, before, rest)):
        return len(now)
    return len(now) - operator.length_hint(rest) - 1
