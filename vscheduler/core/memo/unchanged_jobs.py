"""Unchanged jobs: jobs that run and request nothing, which cycles leave out until they change.

Most jobs of a large cluster have started, wait for nothing, and get the same status in every cycle.
A job is one of them after a cycle in which nothing was decided about it, and as long as it is the
same object: whatever happens to its pods or its PodGroup makes another one. Cycles look at it once,
by identity. What queues hold by these jobs is added up; plugins that ask for the job see it as
usual (session.job_states).

A job that has started may be left out before its phase is stored, which can take seconds while many
pods are bound. Until then it counts as Inqueue.
"""

import bisect
import operator
from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar, TypeAlias

from vscheduler.core.memo.changes import Changes, Part
from vscheduler.core.shares import inqueue_resources
from vscheduler.core.shares.demands import CountedPod, CountedPods, Pair
from vscheduler.model import computed, jobs_by_id, resources
from vscheduler.model.decisions import GroupStatus
from vscheduler.model.jobs import YOUNG, Job, JobId, Phase
from vscheduler.model.jobs_by_id import JobsById
from vscheduler.model.resources import ResourceMap

Status: TypeAlias = GroupStatus

FEW = 16
"""Up to one in so many jobs is taken out or put in by itself; with more, all are added up anew."""

by_job = operator.attrgetter("job")
"""The job of a status, by which statuses are in order."""


def may_skip(job: Job, phase: Phase, *, bars: bool = False) -> bool:
    """Whether cycles may leave out this job while it has its status and nobody looks at it.

    `phase` is that of the job in this cycle; `bars` says that queues bar jobs, which would end the
    admission of a job whose phase isn't stored yet. Groups that hold less than their minResources
    may be promised the rest.
    """
    started = job.fully_scheduled or (is_inqueue(job, phase) and not bars)
    return (
        started
        and not job.hard_topology
        and (job.min_resources is None or not inqueue_resources.lacks(job))
    )


def is_inqueue(job: Job, phase: Phase) -> bool:
    """Whether the job has started, but counts as Inqueue until its new phase is stored."""
    has_all = job.has_all and job.ready_tasks >= max(1, job.min_member)
    return has_all and job.phase in YOUNG and phase is Phase.INQUEUE


class UnchangedJobs:
    """All unchanged jobs and what they hold; a value that is never changed."""

    rests_on: ClassVar[frozenset[Part]] = frozenset({Part.POLICY, Part.QUEUES})
    """Statuses depend on the policy, and a queue that bars jobs would end an admission whose phase
    isn't stored yet."""

    def __init__(
        self,
        every: JobsById = jobs_by_id.NO_JOBS,
        sums: "_Sums | None" = None,
        inqueue: frozenset[str] = frozenset(),
    ) -> None:
        self.jobs = every
        """The jobs. Each keeps its status (`Job.memo`)."""
        self._sums = _Sums() if sums is None else sums
        self.inqueue = inqueue
        """The UIDs of the jobs that count as Inqueue."""

    def __bool__(self) -> bool:
        """Whether there is any job."""
        return bool(self.jobs.blocks)

    def __contains__(self, job: JobId) -> bool:
        """Whether the job with this ID is one of them."""
        return self.jobs.get(job) is not None

    @computed.once
    def counted(self) -> CountedPods:
        """What the jobs hold."""
        return self._sums.counted()

    def after(self, changes: Changes) -> "UnchangedJobs":
        """Return the jobs that are still there, and the same."""
        gone = [job for job in changes.gone if self.jobs.get(job.id) is job]
        return self._changed(gone, ())

    def with_more(self, more: Collection[Job]) -> "UnchangedJobs":
        """Return the same jobs, and these."""
        return self._changed((), more)

    def _changed(self, gone: Collection[Job], more: Collection[Job]) -> "UnchangedJobs":
        """Return the jobs without those that are gone, and with more."""
        if not (gone or more):
            return self
        every = self.jobs.changed({job.id: None for job in gone} | {job.id: job for job in more})
        if _are_many(len(gone) + len(more), every):
            sums = _Sums()
            for job in every:
                sums.add(job)
        else:
            sums = self._sums.changed(gone, more)
            if sums.headless:
                sums.find_first(every)
        inqueue = self.inqueue.difference(job.uid for job in gone)
        inqueue = inqueue.union(job.uid for job in more if job.phase in YOUNG)
        return UnchangedJobs(every, sums, inqueue)


class _Sums:
    """What queues hold by unchanged jobs, each amount with the first job that it comes from."""

    def __init__(self) -> None:
        self.pods: dict[Pair, CountedPod] = {}
        self.queues: dict[str, tuple[JobId, int]] = {}
        """The first job of each queue, and their number."""
        self.required: dict[str, ResourceMap] = {}
        self.headless: set[Pair | str] = set()
        """Pairs and queues whose first job is gone."""

    def counted(self) -> CountedPods:
        """Return the sums as demand of queues."""
        return CountedPods(
            pods=self.pods,
            queues={name: first for name, (first, _) in self.queues.items()},
            required=self.required,
        )

    def changed(self, gone: Iterable[Job], more: Iterable[Job]) -> "_Sums":
        """Return the sums without the jobs that are gone, and with more."""
        found = _Sums()
        found.pods, found.queues = dict(self.pods), dict(self.queues)
        found.required = dict(self.required)
        for job in gone:
            found.remove(job)
        for job in more:
            found.add(job)
        return found

    def add(self, job: Job) -> None:
        """Count a job that is unchanged from now on."""
        first, number = self.queues.get(job.queue) or (job.id, 0)
        self.queues[job.queue] = (min(first, job.id), number + 1)
        for place, (pod_class, (held, _)) in enumerate(job.classes.items()):
            pair = (job.queue, pod_class)
            known = self.pods.get(pair)
            if known is None:
                self.pods[pair] = CountedPod(job.id, place, *pair, held, 0)
            else:
                first, place_there = min((job.id, place), known[:2])
                self.pods[pair] = known._replace(
                    first=first, place=place_there, held=known.held + held
                )
        if job.min_resources is not None:
            sums = self.required.get(job.queue, {})
            self.required[job.queue] = resources.add(sums, _required(job))

    def remove(self, job: Job) -> None:
        """Undo `add`; where the job was the first, the next one is still to be found."""
        first, number = self.queues[job.queue]
        if number == 1:
            del self.queues[job.queue]
            self.required.pop(job.queue, None)
            self.headless.discard(job.queue)
        else:
            self.queues[job.queue] = (first, number - 1)
            if first == job.id:
                self.headless.add(job.queue)
        for pod_class, (held, _) in job.classes.items():
            pair = (job.queue, pod_class)
            known = self.pods[pair]
            if known.held == held:
                del self.pods[pair]
                self.headless.discard(pair)
                continue
            self.pods[pair] = known._replace(held=known.held - held)
            if known.first == job.id:
                self.headless.add(pair)
        if number > 1 and job.min_resources is not None:
            sums = self.required[job.queue]
            less = {name: -amount for name, amount in _required(job).items()}
            self.required[job.queue] = resources.add(sums, less)

    def find_first(self, ordered: Iterable[Job]) -> None:
        """Find the first jobs of headless pairs and queues, among all unchanged jobs by ID."""
        for job in ordered:
            if job.queue in self.headless:
                self.headless.discard(job.queue)
                self.queues[job.queue] = (job.id, self.queues[job.queue][1])
            for place, pod_class in enumerate(job.classes):
                pair = (job.queue, pod_class)
                if pair in self.headless:
                    self.headless.discard(pair)
                    self.pods[pair] = self.pods[pair]._replace(first=job.id, place=place)
            if not self.headless:
                break


def _required(job: Job) -> ResourceMap:
    """Return what the group holds of its minResources."""
    return {name: has - job.elastic.get(name, 0) for name, has in job.allocated.items()}


def in_order(statuses: Sequence[Status], more: Collection[Status]) -> Sequence[Status]:
    """Return the statuses, which are in order of jobs, and more, in order of jobs."""
    if not more:
        return statuses
    found = list(statuses)
    if _are_many(len(more), statuses):
        found += more
        found.sort(key=by_job)
    else:
        for each in more:
            bisect.insort(found, each, key=by_job)
    return found


def _are_many(changes: int, of: Collection[object]) -> bool:
    return changes * FEW > len(of)
