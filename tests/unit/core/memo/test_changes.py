"""Changes between two cycles: of jobs as if each were looked up, and of all parts by identity."""

import random

import pytest

from tests.unit.core import sessions
from vscheduler.core.memo import changes
from vscheduler.model import jobs_by_id
from vscheduler.model.jobs import Job, JobId
from vscheduler.model.jobs_by_id import NO_JOBS, JobsById

NAMES = [f"j{number:02}" for number in range(40)]


def by_id(every: list[Job]) -> dict[JobId, Job]:
    """Return the jobs by ID, in order of IDs."""
    return {job.id: job for job in sorted(every, key=jobs_by_id.of_job)}


@pytest.mark.parametrize("seed", range(4))
def test_changes_of_jobs_are_those_of_each(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few or many jobs change, come and go at the beginning, in the middle and at the end."""
    monkeypatch.setattr(jobs_by_id, "BLOCK_MAX", 4)
    chance = random.Random(seed)
    every = by_id([sessions.job(name) for name in chance.sample(NAMES, 20)])
    was = NO_JOBS
    for _ in range(60):
        for name in chance.sample(NAMES, chance.choice((0, 1, 2, 5, 30))):
            job = sessions.job(name)
            if job.id in every and chance.random() < 0.5:
                del every[job.id]
            else:
                every[job.id] = job
        every = by_id(list(every.values()))
        listed = JobsById.of(every.values())
        if chance.random() < 0.8:  # otherwise no block is shared
            listed = was.changed({job.id: every.get(job.id) for job in was}).changed(dict(every))
        gone, come = changes.of_jobs(was, listed)
        assert list(map(id, gone)) == [id(job) for job in was if every.get(job.id) is not job]
        olds = set(map(id, was))
        assert list(map(id, come)) == [id(job) for job in listed if id(job) not in olds]
        left_out = {job.id: job for job in was if chance.random() < 0.5}
        others = [each for job, each in every.items() if left_out.get(job) is not each]
        assert list(map(id, changes.without(list(listed), left_out))) == list(map(id, others))
        was = listed
