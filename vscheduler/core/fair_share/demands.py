"""Demand of queues as the cycle begins: what pods hold and ask for, added up once per pod class."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from vscheduler.core.model import jobs, queues, resources, snapshot

Pair = tuple[str, jobs.PodClass]
"""A queue's name and a pod class."""


class CountedPod(NamedTuple):
    """Pods of one class in one queue, counted in an earlier cycle."""

    first: jobs.JobId
    """The first of their jobs, by ID."""
    place: int
    """The place of the class among the classes of this job."""
    queue: str
    pod_class: jobs.PodClass
    held: int
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPods:
    """Jobs that were added up in an earlier cycle, and haven't changed."""

    pods: Collection[CountedPod] = ()
    queues: Mapping[str, jobs.JobId] = field(default_factory=dict)
    """Queues of these jobs, each with its first job by ID."""
    promised: Mapping[str, resources.ResourceMap] = field(default_factory=dict)
    """By queue, what admitted groups among them were promised and don't have yet."""
    required: Mapping[str, resources.ResourceMap] = field(default_factory=dict)
    """By queue, what groups among them hold of their minResources."""


class QueueDemands:
    """Held and requested resources of all queues with a job."""

    def __init__(
        self,
        space: resources.ResourceSpace,
        every: Iterable[jobs.Job],
        awaited: Iterable[Pair] = (),
        counted: Sequence[CountedPods] = (),
    ) -> None:
        """`awaited` are future pods for which room is reserved. Such pods count as pending.

        `every` are all other jobs than those in `counted`, by ID.
        """
        self._space, self._counted = space, counted
        self.pods: Mapping[Pair, tuple[int, int]]
        """How many pods hold resources, and how many are pending. In order of jobs, so that equal
        jobs give an equal order."""
        found: dict[Pair, list[int]] = {}
        queues: dict[str, jobs.JobId] = {}
        """Queues with a job, each with its first job."""
        places: dict[Pair, tuple[jobs.JobId, int]] = {}
        """Where each pair comes first."""
        bounded: list[jobs.Job] = []
        for job in every:
            if job.queue not in queues:
                queues[job.queue] = job.id
            if job.min_resources is not None:
                bounded.append(job)
            for pod_class, (held, pending) in job.classes.items():
                known = found.get((job.queue, pod_class))
                if known is None:
                    found[job.queue, pod_class] = [held, pending]
                    places[job.queue, pod_class] = job.id, len(places)
                else:
                    known[0] += held
                    known[1] += pending
        if counted:
            found, queues = _with_counted(found, places, queues, counted)
        for pair in awaited:
            queues.setdefault(pair[0], jobs.JobId(""))
            found.setdefault(pair, [0, 0])[1] += 1
        self.pods = {pair: (held, pending) for pair, (held, pending) in found.items()}
        self.queues = tuple(queues)
        """Those that have a job, in order of jobs."""
        self.bounded: Sequence[jobs.Job] = bounded
        """Jobs with minResources, without counted ones."""

    @property
    def promised(self) -> Iterable[tuple[str, resources.ResourceMap]]:
        """By queue, what was promised to counted groups that don't have it yet."""
        return itertools.chain.from_iterable(each.promised.items() for each in self._counted)

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
        for job in self.bounded:
            row = sums[job.queue]
            for name, has in job.allocated.items():
                row[self._space.columns[name]] -= has - job.elastic.get(name, 0)
        for counted in self._counted:
            for queue, amounts in counted.required.items():
                for name, amount in amounts.items():
                    sums[queue][self._space.columns[name]] -= amount
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


def _with_counted(
    found: Mapping[Pair, list[int]],
    places: dict[Pair, tuple[jobs.JobId, int]],
    queues: dict[str, jobs.JobId],
    counted: Iterable[CountedPods],
) -> tuple[dict[Pair, list[int]], dict[str, jobs.JobId]]:
    """Return pods and queues with counted pods, in the order that their jobs would have given."""
    every = dict(found)
    for known in counted:
        for queue, job in known.queues.items():
            queues[queue] = min(queues.get(queue, job), job)
        for first, place, queue, pod_class, held, pending in known.pods:
            pair, where = (queue, pod_class), (first, place)
            if pair in every:
                places[pair] = min(places[pair], where)
                every[pair][0] += held
                every[pair][1] += pending
            else:
                places[pair] = where
                every[pair] = [held, pending]
    ordered = {pair: every[pair] for pair in sorted(every, key=places.__getitem__)}
    return ordered, {queue: queues[queue] for queue in sorted(queues, key=queues.__getitem__)}


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
