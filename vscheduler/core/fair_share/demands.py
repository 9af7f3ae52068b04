"""Demand of queues as the cycle begins: what pods hold and ask for, added up once per pod class."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Protocol

from vscheduler.core.model import jobs, queues, resources, snapshot

Pair = tuple[str, jobs.PodClass]
"""A queue's name and a pod class."""


class QueueDemands:
    """Held and requested resources of all queues with a job."""

    def __init__(
        self,
        space: resources.ResourceSpace,
        every: Iterable[jobs.WorkingJob],
        awaited: Iterable[Pair] = (),
    ) -> None:
        """`awaited` are future pods for which room is reserved. Such pods count as pending."""
        self._space = space
        self.pods: Mapping[Pair, tuple[int, int]]
        """How many pods hold resources, and how many are pending. In order of jobs, so that equal
        jobs give an equal order."""
        found: dict[Pair, list[int]] = {}
        queues: dict[str, None] = {}
        """Queues with a job, in order of jobs."""
        self._bounded: list[jobs.Job] = []
        """Jobs with minResources."""
        for state in every:
            job = state.job
            queues[job.queue] = None
            if job.min_resources is not None:
                self._bounded.append(job)
            for pod_class, (held, pending) in job.classes.items():
                known = found.get((job.queue, pod_class))
                if known is None:
                    found[job.queue, pod_class] = [held, pending]
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
        """Resources held by pods of each queue, one amount per column; read-only."""
        return self._sums({pair: held for pair, (held, _) in self.pods.items()})

    @cached_property
    def pending(self) -> Mapping[str, list[int]]:
        """Resources requested by pending pods of each queue, one amount per column; read-only."""
        return self._sums({pair: pending for pair, (_, pending) in self.pods.items()})

    @cached_property
    def elastic(self) -> Mapping[str, list[int]]:
        """Resources held by jobs of each queue above minResources, by column; read-only.

        A job without minResources counts in full (Volcano: elastic).
        """
        sums = {queue: list(row) for queue, row in self.held.items()}
        for job in self._bounded:
            row = sums[job.queue]
            for name, has in job.allocated.items():
                row[self._space.columns[name]] -= has - job.elastic.get(name, 0)
        return sums

    def _sums(self, counts: Mapping[Pair, int]) -> Mapping[str, list[int]]:
        """Return the requests of this many pods of each pair, added up by queue."""
        sums = {queue: [0] * self._space.size for queue in self.queues}
        columns = self._space.columns
        for (queue, pod_class), count in counts.items():
            if count:
                row = sums[queue]
                for name, amount in pod_class.counted.items():
                    row[columns[name]] += amount * count
        return sums


class Session(Protocol):
    """The running cycle, as far as fair shares read it."""

    snapshot: snapshot.Snapshot
    space: resources.ResourceSpace
    queues: Mapping[str, queues.Queue]

    @property
    def job_states(self) -> Mapping[jobs.JobId, jobs.WorkingJob]:
        """All jobs with their state in this cycle. `queues` has the queue of every job."""

    @property
    def demands(self) -> QueueDemands:
        """Demand of queues as the cycle begins."""

    @property
    def total(self) -> resources.Vector:
        """The resources to share out, (R,)."""

    def request(self, task: jobs.Task) -> resources.Vector:
        """Return the resource request of the task, (R,); read-only."""

    def counted(self, task: jobs.Task) -> resources.Vector:
        """Return what of the task counts for its queue, (R,); read-only."""
