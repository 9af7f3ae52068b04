"""Jobs by ID: whatever comes, changes or goes, they are those of a dictionary, in order."""

import random

import pytest

from tests.unit.core import sessions
from vscheduler.model import jobs_by_id
from vscheduler.model.jobs import Job, JobId
from vscheduler.model.jobs_by_id import NO_JOBS, JobsById

NAMES = [f"j{number:02}" for number in range(60)]


@pytest.mark.parametrize("seed", range(4))
def test_changed_jobs_are_in_order_and_leave_others_as_they_were(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few or many at a time, all of them at the end. Earlier values stay as they are."""
    monkeypatch.setattr(jobs_by_id, "BLOCK_MAX", 4)
    chance = random.Random(seed)
    jobs, every = NO_JOBS, dict[JobId, Job]()
    for number in (*chance.choices((0, 1, 1, 2, 5, 30), k=60), 0):
        changes: dict[JobId, Job | None] = {}
        for name in chance.sample(NAMES, number):
            job = sessions.job(name)
            changes[job.id] = job if chance.random() < 0.6 else None
        before, was = jobs, dict(every)
        jobs = jobs.changed(changes)
        every = {job: each for job, each in (every | changes).items() if each is not None}
        assert list(map(id, before)) == [id(was[job]) for job in sorted(was)]
        assert list(map(id, jobs)) == [id(every[job]) for job in sorted(every)]
        assert (len(jobs), bool(jobs)) == (len(every), bool(every))
        for name in NAMES:
            job = sessions.job(name)
            assert jobs.get(job.id) is every.get(job.id)
            assert job not in jobs
        assert all(map(jobs.__contains__, every.values()))
        assert all(0 < len(block) <= 4 for block in jobs.blocks)
    assert not jobs.changed(dict.fromkeys(every))


def test_a_change_leaves_all_other_blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody goes through their jobs to find out what has changed."""
    monkeypatch.setattr(jobs_by_id, "BLOCK_MAX", 4)
    jobs = JobsById.of(map(sessions.job, NAMES))
    assert jobs.changed({}) is jobs
    one = sessions.job(NAMES[30])
    changed = jobs.changed({one.id: one})
    assert one in changed.not_shared(jobs)
    assert len(changed.not_shared(jobs)) == len(jobs.not_shared(changed)) <= 4
    assert not jobs.not_shared(jobs)
