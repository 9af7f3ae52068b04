"""Jobs that cycles leave out, and the others: as if each job were looked up anew."""

import random
from collections.abc import Sequence

import pytest

from tests.unit.core import sessions
from vscheduler.core.model.jobs import Job, JobId
from vscheduler.core.session import job_division

NAMES = [f"j{number:02}" for number in range(40)]


def by_id(every: list[Job]) -> dict[JobId, Job]:
    """Return the jobs by ID, in order of IDs."""
    return {job.id: job for job in sorted(every, key=job_division.of_job)}


@pytest.mark.parametrize("seed", range(4))
def test_a_division_follows_all_changes(seed: int) -> None:
    """Few or many jobs change, come and go at the beginning, in the middle and at the end."""
    chance = random.Random(seed)
    every = by_id([sessions.job(name) for name in chance.sample(NAMES, 20)])
    left_out = {job: each for job, each in every.items() if chance.random() < 0.5}
    before = None
    for _ in range(60):
        for name in chance.sample(NAMES, chance.choice((0, 1, 2, 5, 30))):
            job = sessions.job(name)
            if job.id in every and chance.random() < 0.5:
                del every[job.id]
            else:
                every[job.id] = job
        every = by_id(list(every.values()))
        listed = tuple(every.values())
        was: Sequence[Job] = before.every if before else ()
        gone_at_all, come = job_division.all_changes(was, listed)
        assert list(map(id, gone_at_all)) == [
            id(job) for job in was if every.get(job.id) is not job
        ]
        olds = set(map(id, was))
        assert list(map(id, come)) == [id(job) for job in listed if id(job) not in olds]
        division, gone = job_division.divide(listed, left_out, before)
        assert list(gone) == [] or set(gone) <= left_out.keys()
        assert set(gone) == {job for job, each in left_out.items() if every.get(job) is not each}
        others = [each for job, each in every.items() if left_out.get(job) is not each]
        assert list(map(id, division.others)) == list(map(id, others))
        left_out = {job: each for job, each in left_out.items() if job not in gone}
        before = division
        if chance.random() < 0.3:  # others are left out as well, or none is any more
            left_out = {job: each for job, each in every.items() if chance.random() < 0.6}
            before = None


def test_nothing_is_compared_where_nothing_has_changed() -> None:
    """The same list of jobs is divided as before."""
    listed = tuple(by_id([sessions.job(name) for name in NAMES]).values())
    left_out = {job.id: job for job in listed[::2]}
    division, _ = job_division.divide(listed, left_out, None)
    assert job_division.divide(listed, left_out, division) == (division, ())
