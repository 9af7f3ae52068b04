"""What queues have and ask for as the cycle begins: jobs are added up once, class by class."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Protocol

from vscheduler.core.model import jobs, queues, resources, snapshot

Pair = tuple[str, jobs.PodClass]
"""A queue's name and a class of pods."""


class QueueDemands:
    """Of all jobs whose queue exists."""

    def __init__(
        self,
        space: resources.ResourceSpace,
        every: Iterable[jobs.WorkingJob],
        awaited: Iterable[Pair] = (),
    ) -> None:
        """Awaited are pods that don't exist yet and for which room is kept: they ask for it."""
        self._space = space
        self.pods: Mapping[Pair, tuple[int, int]]
        """How many pods hold something, and how many are Pending; in order of jobs, so that the
        same jobs give the same order."""
        found: dict[Pair, list[int]] = {}
        queues: dict[str, None] = {}
        self._bounded: list[jobs.Job] = []
        """Jobs that name minResources."""
        for gang in every:
            job = gang.job
            queues[job.queue] = None
            if job.min_resources is not None:
                self._bounded.append(job)
            for kind, (held, pending) in job.classes.items():
                known = found.get((job.queue, kind))
                if known is None:
                    found[job.queue, kind] = [held, pending]
                else:
                    known[0] += held
                    known[1] += pending
        for pair in awaited:
            queues[pair[0]] = None
            found.setdefault(pair, [0, 0])[1] += 1
        self.pods = {pair: (held, pending) for pair, (held, pending) in found.items()}
        self.queues = tuple(queues)
        """Those that have a job, in order of jobs."""

    @cached_property
    def held(self) -> Mapping[str, list[int]]:
        """What pods of each of these queues hold: an amount per column; not to be written to."""
        return self._sums({pair: held for pair, (held, _) in self.pods.items()})

    @cached_property
    def pending(self) -> Mapping[str, list[int]]:
        """What Pending pods of each of these queues ask for: an amount per column; not to be
        written to.
        """
        return self._sums({pair: pending for pair, (_, pending) in self.pods.items()})

    @cached_property
    def elastic(self) -> Mapping[str, list[int]]:
        """What jobs of each of these queues hold above their minResources, all of it where they
        name none: an amount per column; not to be written to.
        """
        sums = {queue: list(row) for queue, row in self.held.items()}
        for job in self._bounded:
            row = sums[job.queue]
            for name, has in job.allocated.items():
                row[self._space.columns[name]] -= has - job.elastic.get(name, 0)
        return sums

    def _sums(self, counts: Mapping[Pair, int]) -> Mapping[str, list[int]]:
        sums = {queue: [0] * self._space.size for queue in self.queues}
        columns = self._space.columns
        for (queue, kind), count in counts.items():
            if count:
                row = sums[queue]
                for name, amount in kind.request.items():
                    row[columns[name]] += amount * count
        return sums


class Session(Protocol):
    """The running cycle, as far as it is read to count what queues use."""

    snapshot: snapshot.Snapshot
    space: resources.ResourceSpace
    queues: Mapping[str, queues.Queue]
    as_volcano: bool

    @property
    def gangs(self) -> Mapping[jobs.JobId, jobs.WorkingJob]:
        """Jobs with their state in this cycle; every one has its queue in `queues`."""

    @property
    def demands(self) -> QueueDemands:
        """What queues have and ask for as the cycle begins."""

    @property
    def total(self) -> resources.Vector:
        """What there is to share out, (R,)."""

    def request(self, task: jobs.Task) -> resources.Vector:
        """What the task asks for, (R,); not to be written to."""
