"""Demand of queues as the cycle begins: what pods hold and ask for, added up once per pod class."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from vscheduler.model import computed
from vscheduler.model.jobs import Job, JobId, PodClass, Task, WorkingJob
from vscheduler.model.queues import Queue
from vscheduler.model.resources import ResourceMap, ResourceSpace, Vector
from vscheduler.model.snapshot import Snapshot

Pair = tuple[str, PodClass]
"""A queue's name and a pod class."""

Place = tuple[JobId, int]
"""The first of the jobs that have pods of a pair, by ID, and the place of the class in this job."""

LAST = JobId("\U0010ffff")
"""Comes after the ID of every job."""


class CountedPod(NamedTuple):
    """Pods of one class in one queue, counted in an earlier cycle."""

    first: JobId
    """The first of their jobs, by ID."""
    place: int
    """The place of the class among the classes of this job."""
    queue: str
    pod_class: PodClass
    held: int
    pending: int


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedPods:
    """Jobs that were added up in an earlier cycle, and haven't changed."""

    pods: Mapping[Pair, CountedPod] = field(default_factory=dict)
    queues: Mapping[str, JobId] = field(default_factory=dict)
    """Queues of these jobs, each with its first job by ID."""
    promised: Mapping[str, ResourceMap] = field(default_factory=dict)
    """By queue, what admitted groups among them were promised and don't have yet."""
    required: Mapping[str, ResourceMap] = field(default_factory=dict)
    """By queue, what groups among them hold of their minResources."""

    @computed.once
    def pending(self) -> Mapping[str, ResourceMap]:
        """By queue, what their pending pods request."""
        sums: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for _, _, queue, pod_class, _, pending in self.pods.values():
            if pending:
                row = sums[queue]
                for name, amount in pod_class.counted.items():
                    row[name] += amount * pending
        return sums


NOBODY = CountedPods()


class PodCount(msgspec.Struct):
    """How many pods of one class in one queue hold resources, and how many are pending."""

    place: Place
    held: int = 0
    pending: int = 0


class QueueDemands:
    """Held and requested resources of all queues with a job."""

    def __init__(
        self,
        space: ResourceSpace,
        every: Iterable[Job],
        awaited: Iterable[Pair] = (),
        unchanged: CountedPods = NOBODY,
        unschedulable: CountedPods = NOBODY,
    ) -> None:
        """`awaited` are future pods for which room is reserved. Such pods count as pending.

        `every` are the jobs not counted before, by ID. Unschedulable jobs hold nothing, and
        are of very many kinds; so their sums are kept, and nothing here goes through them.
        """
        self._space, self._unchanged = space, unchanged
        self.unschedulable = unschedulable
        found: dict[Pair, PodCount] = {}
        queues: dict[str, JobId] = {}
        bounded: list[Job] = []
        for job in every:
            if job.queue not in queues:
                queues[job.queue] = job.id
            if job.min_resources is not None:
                bounded.append(job)
            for place, (pod_class, (held, pending)) in enumerate(job.classes.items()):
                pair = (job.queue, pod_class)
                known = found.get(pair)
                if known is None:
                    known = found[pair] = PodCount((job.id, place))
                known.held += held
                known.pending += pending
        for pair, (first, place, _, _, held, pending) in unchanged.pods.items():
            known = found.get(pair)
            if known is None:
                found[pair] = PodCount((first, place), held, pending)
            else:
                known.place = min(known.place, (first, place))
                known.held += held
                known.pending += pending
        for number, pair in enumerate(awaited):
            queues.setdefault(pair[0], LAST)
            found.setdefault(pair, PodCount((LAST, number))).pending += 1
        self.active: Mapping[Pair, PodCount] = found
        """The pods of all jobs that aren't unschedulable, and future pods."""
        for queue, first in itertools.chain(unchanged.queues.items(), unschedulable.queues.items()):
            queues[queue] = min(queues.get(queue, first), first)
        self.queues = tuple(sorted(queues, key=queues.__getitem__))
        """Those that have a job, in order of jobs."""
        self.bounded: Sequence[Job] = bounded
        """Jobs with minResources, without counted ones."""

    @property
    def promised(self) -> Iterable[tuple[str, ResourceMap]]:
        """By queue, what was promised to counted groups that don't have it yet."""
        return itertools.chain(
            self._unchanged.promised.items(), self.unschedulable.promised.items()
        )

    def pending_of(self, pair: Pair) -> int:
        """Return how many pods of this pair are pending."""
        active, unschedulable = self.active.get(pair), self.unschedulable.pods.get(pair)
        return (active.pending if active else 0) + (unschedulable.pending if unschedulable else 0)

    @computed.once
    def held(self) -> Mapping[str, list[int]]:
        """Resources held by pods of each queue, one amount per column; read-only."""
        return self._sums({pair: each.held for pair, each in self.active.items()})

    @computed.once
    def pending(self) -> Mapping[str, list[int]]:
        """Resources requested by pending pods of each queue, one amount per column; read-only."""
        sums = self._sums({pair: each.pending for pair, each in self.active.items()})
        columns = self._space.columns
        for queue, amounts in self.unschedulable.pending.items():
            row = sums[queue]
            for name, amount in amounts.items():
                row[columns[name]] += amount
        return sums

    @computed.once
    def elastic(self) -> Mapping[str, list[int]]:
        """Resources held by jobs of each queue above minResources, by column; read-only.

        A job without minResources counts in full (Volcano: elastic).
        """
        sums = {queue: list(row) for queue, row in self.held.items()}
        for job in self.bounded:
            row = sums[job.queue]
            for name, has in job.allocated.items():
                row[self._space.columns[name]] -= has - job.elastic.get(name, 0)
        for queue, amounts in self._unchanged.required.items():
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


class Session(Protocol):
    """The running cycle, as far as fair shares read it."""

    snapshot: Snapshot
    space: ResourceSpace
    queues: Mapping[str, Queue]

    @property
    def job_states(self) -> Mapping[JobId, WorkingJob]:
        """All jobs with their state in this cycle. `queues` has the queue of every job."""

    @property
    def promised_jobs(self) -> Sequence[WorkingJob]:
        """The jobs that may have been promised more than they hold, by ID."""

    @property
    def demands(self) -> QueueDemands:
        """Demand of queues as the cycle begins."""

    @property
    def total(self) -> Vector:
        """The resources to share out, (R,)."""

    def request(self, task: Task) -> Vector:
        """Return the resource request of the task, (R,); read-only."""

    def counted(self, task: Task) -> Vector:
        """Return what of the task counts for its queue, (R,); read-only."""
