"""JobsById: jobs in order of IDs, of which a changed copy costs little however many there are.

They are in blocks, as in the leaves of a B-tree. A copy has the same blocks but for those in which
a job has come, changed or gone: so it is made, and compared, without going through all jobs.
"""

import bisect
import itertools
import operator
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from vscheduler.model.jobs import Job, JobId

BLOCK_MAX = 256
"""A block with more jobs is divided into blocks of half this size, which have room for more."""

Block: TypeAlias = Sequence[Job]

of_job = operator.attrgetter("id")
"""The ID of a job, by which jobs are in order."""


class JobsById(Collection[Job]):
    """Jobs by ID; a value that is never changed."""

    __slots__ = ("blocks", "firsts")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        """No block is empty."""
        self.blocks = tuple(blocks)
        self.firsts = [block[0].id for block in self.blocks]

    @classmethod
    def of(cls, jobs: Iterable[Job]) -> "JobsById":
        """Return these jobs, which are in order."""
        return cls(_blocks(tuple(jobs)))

    def changed(self, jobs: Mapping[JobId, Job | None]) -> "JobsById":
        """Return the same with these jobs, which may have been there, and without those (None)."""
        if not jobs:
            return self
        blocks: list[Block] = list(self.blocks) or [()]
        by_place: defaultdict[int, dict[JobId, Job | None]] = defaultdict(dict)
        for job, new in jobs.items():
            by_place[self._place(job)][job] = new
        for place in sorted(by_place, reverse=True):  # places before it stay right
            every = {job.id: job for job in blocks[place]} | by_place[place]
            left = tuple(job for _, job in sorted(every.items()) if job is not None)
            blocks[place : place + 1] = _blocks(left)
        return JobsById(blocks)

    def get(self, job: JobId) -> Job | None:
        """Return the job with this ID; None without any."""
        block = self.blocks[self._place(job)] if self.blocks else ()
        place = bisect.bisect_left(block, job, key=of_job)
        return block[place] if place < len(block) and block[place].id == job else None

    def not_shared(self, other: "JobsById") -> Block:
        """Return the jobs of all blocks that the other jobs don't share."""
        theirs = map(dict(zip(other.firsts, other.blocks, strict=True)).get, self.firsts)
        blocks = itertools.compress(self.blocks, map(operator.is_not, self.blocks, theirs))
        return list(itertools.chain.from_iterable(blocks))

    def __iter__(self) -> Iterator[Job]:
        return itertools.chain.from_iterable(self.blocks)

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def __contains__(self, job: object) -> bool:
        return isinstance(job, Job) and self.get(job.id) is job

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _place(self, job: JobId) -> int:
        """Return the place of the block in which the job is, or would be."""
        return max(0, bisect.bisect_right(self.firsts, job) - 1)


NO_JOBS = JobsById()


def _blocks(jobs: Block) -> Iterable[Block]:
    size = max(1, len(jobs)) if len(jobs) <= BLOCK_MAX else BLOCK_MAX // 2
    return (jobs[at : at + size] for at in range(0, len(jobs), size))
