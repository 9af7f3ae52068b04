"""EvictablePods: the pods that could be evicted, in columns sorted by node, from cycle to cycle.

There may be very many of them, and few change from one cycle to the next. A job that has changed is
another object, so only the pods of jobs that are gone or new are taken out and put in.
"""

import bisect
import copy
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.memo import changes
from vscheduler.core.memo.changes import Changes, Part
from vscheduler.model import jobs_by_id
from vscheduler.model.jobs import EVICTABLE, HOLDING, Job, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.jobs_by_id import JobsById
from vscheduler.model.nodes import NodeLayout

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOT_KNOWN = -1
"""The row of pods on nodes that aren't known."""


class _Columns(NamedTuple):
    """Pods, by row, job and place in the job."""

    places: Rows
    """The rows of the pods' nodes, the places of their jobs, their own places among the evictable
    pods of these, and the numbers of their classes, (4, P)."""
    traits: NDArray[np.float64]
    """Starts, beginnings of work that would be lost, priorities, and 1 for pods that allow
    evictions, (4, P)."""

    def of(self, chosen: Rows) -> "_Columns":
        """Return these of the pods, in this order."""
        return _Columns(self.places.take(chosen, axis=1), self.traits.take(chosen, axis=1))

    def with_more(self, more: "_Columns") -> "_Columns":
        """Return these pods, and then more."""
        return _Columns(*(np.concatenate(both, axis=1) for both in zip(self, more, strict=True)))


class EvictablePods:
    """This scheduler's evictable pods (P) as the cycle began, and their jobs (J).

    Pods on nodes that aren't known are left out, and those whose eviction was refused. The value is
    never changed.
    """

    rests_on: ClassVar[frozenset[Part]] = frozenset({Part.NODES, Part.QUEUES})
    owner_jobs: Sequence[Job]
    """The jobs (J), by ID."""
    queue_names: Sequence[str]
    """The queues of the jobs (Q), by name."""
    owner_queues: Rows
    """The places of the jobs' queues in `queue_names`, (J,)."""
    owner_priorities: NDArray[np.float64]
    """The priorities of the jobs, (J,)."""
    protected: Flags
    """Whether the jobs' PodGroups forbid evictions, (J,)."""
    spare: Flags
    """Whether the jobs could lose a single pod, regardless of roles and sub-groups, (J,)."""
    classes: Sequence[PodClass]
    """The classes of the pods (C), in the order of jobs and their pods."""
    read: int
    """How many pods haven't been read in an earlier cycle."""
    rows: Rows
    """The rows of the pods' nodes in ascending order, (P,)."""
    bounds: Rows
    """Where the pods of each row begin, and where the last row ends, (N + 1,)."""
    owners: Rows
    """The places of the pods' jobs in `owner_jobs`, (P,)."""
    class_numbers: Rows
    """The places of the pods' classes in `classes`, (P,)."""
    starts: NDArray[np.float64]
    """When the pods got their nodes, in seconds since the epoch, (P,)."""
    unsaved_since: NDArray[np.float64]
    """Since when an eviction would undo the pods' work, (P,)."""
    priorities: NDArray[np.float64]
    """The pods' own priorities, (P,)."""
    preemptable: Flags
    """Whether the pods allow evictions, (P,)."""

    def __init__(self, layout: NodeLayout, queues: Collection[str]) -> None:
        """No pods. `queues` are the names of those that exist: jobs of others aren't looked at."""
        self._layout, self._queues = layout, frozenset(queues)
        self._every = jobs_by_id.NO_JOBS
        self._refused: frozenset[TaskId] = frozenset()
        self.owner_jobs, self.queue_names, self.classes, self.read = (), (), (), 0
        self._of_jobs: Sequence[_OfJob] = ()
        self._traits_of_jobs = np.zeros((3, 0), dtype=np.float64)
        self.owner_queues = np.zeros(0, dtype=np.int64)
        self._all = _Columns(np.zeros((4, 0), dtype=np.int64), np.zeros((4, 0), dtype=np.float64))
        self._show()

    def after(self, _: Changes) -> "EvictablePods":
        """Return the same: it follows the jobs once somebody asks (`of_jobs`)."""
        return self

    def of_jobs(
        self,
        every: JobsById,
        refused: frozenset[TaskId],
    ) -> "EvictablePods":
        """Return the evictable pods of these jobs, which are all of a snapshot, by ID.

        refused are pods whose eviction was refused. Most cycles don't ask, so jobs are compared
        with those of the last cycle that did.
        """
        found: EvictablePods = copy.copy(self)
        found.read = 0
        if every is found._every and refused == found._refused:
            return found
        found._follow(every)
        found._refused = refused
        found._show()
        return found

    def _follow(self, every: JobsById) -> None:
        """Take out the pods of jobs that are gone, and put in those of new ones."""
        gone, come = changes.of_jobs(self._every, every)
        self._every = every
        come = [
            job
            for job in come
            if any(map(job.counts.__getitem__, EVICTABLE)) and job.queue in self._queues
        ]
        found = (changes.place_of(job, self.owner_jobs) for job in gone)
        places = [place for place in found if place is not None]
        if come or places:
            self._change(places, come)

    def _change(self, gone: Sequence[int], come: Sequence[Job]) -> None:
        """Take out the jobs at these places, and put in those that have come, by ID."""
        stays = np.ones(len(self.owner_jobs), dtype=np.bool_)
        stays[gone] = False
        staying = list(itertools.compress(self.owner_jobs, stays.tolist()))
        at = [bisect.bisect_left(staying, job.id, key=jobs_by_id.of_job) for job in come]
        order = _merged(np.flatnonzero(stays), at, len(stays))
        # The new places of the jobs that were known, and then of those that have come.
        numbers = np.full(len(stays) + len(come), NOT_KNOWN)
        numbers[order] = np.arange(len(order))
        news = list(map(self._read, come))
        more, classes = self._columns(news, len(stays))
        known = self._all
        kept = np.flatnonzero(stays[known.places[1]])
        keys, more_keys = (
            rows * len(order) + numbers[owners]
            for rows, owners in (known.places[:2, kept], more.places[:2])
        )
        pods = _merged(kept, np.searchsorted(keys, more_keys), known.places.shape[1])
        self._all = known.with_more(more).of(pods)
        self._all.places[1] = numbers[self._all.places[1]]
        self._number_classes(classes)
        self._set_owners(come, news, order)

    def _set_owners(self, come: Sequence[Job], news: Sequence["_OfJob"], order: Rows) -> None:
        """Keep these of the jobs that were known, followed by those that come, in this order."""
        queues = {name: number for number, name in enumerate(self.queue_names)}
        for job in come:
            queues.setdefault(job.queue, len(queues))
        places = np.array([queues[job.queue] for job in come], dtype=np.int64)
        places = np.concatenate([self.owner_queues, places])[order]
        there, names = set(np.unique(places).tolist()), list(queues)
        self.queue_names = sorted(names[number] for number in there)
        anew = {name: number for number, name in enumerate(self.queue_names)}
        numbers = [anew.get(name, NOT_KNOWN) for name in names]
        self.owner_queues = np.array(numbers, dtype=np.int64)[places]
        traits = [
            [job.priority, job.protected, of_job.spare]
            for job, of_job in zip(come, news, strict=True)
        ]
        more = np.array(traits, dtype=np.float64).reshape(-1, 3).T
        self._traits_of_jobs = np.concatenate([self._traits_of_jobs, more], axis=1)[:, order]
        every, of_jobs = [*self.owner_jobs, *come], [*self._of_jobs, *news]
        self.owner_jobs = list(map(every.__getitem__, order.tolist()))
        self._of_jobs = list(map(of_jobs.__getitem__, order.tolist()))

    def _read(self, job: Job) -> "_OfJob":
        def read() -> _OfJob:
            self.read += len(job.tasks)
            return _OfJob(job)

        found: _OfJob = job.memo("evictable", read)
        return found

    def _columns(self, news: Sequence["_OfJob"], first: int) -> tuple[_Columns, Sequence[PodClass]]:
        """Return the pods of jobs, whose numbers begin with `first`, and the classes by which they
        are numbered: those that were there, and more.
        """
        numbers = {each: number for number, each in enumerate(self.classes)}
        for each in itertools.chain.from_iterable(each.classes for each in news):
            numbers.setdefault(each, len(numbers))
        tasks = list(itertools.chain.from_iterable(each.tasks for each in news))
        sizes = [len(each.tasks) for each in news]
        where = self._layout.rows
        places = np.array(
            [
                [where.get(task.node or "", NOT_KNOWN) for task in tasks],
                np.repeat(np.arange(first, first + len(news)), sizes),
                [place for size in sizes for place in range(size)],
                [numbers[task.pod_class] for task in tasks],
            ],
            dtype=np.int64,
        )
        traits = np.array(
            [
                [start(task) for task in tasks],
                [unsaved_since(task) for task in tasks],
                [task.priority for task in tasks],
                [task.preemptable for task in tasks],
            ],
            dtype=np.float64,
        )
        return _Columns(places, traits).of(np.argsort(places[0], kind="stable")), list(numbers)

    def _number_classes(self, classes: Sequence[PodClass]) -> None:
        """Number the classes as if all jobs were read anew, without those that are gone."""
        _, owners, places, numbers = self._all.places
        width = int(places.max(initial=0)) + 1
        last = int(owners.max(initial=0) + 1) * width
        first = np.full(len(classes), last, dtype=np.int64)
        np.minimum.at(first, numbers, owners * width + places)
        order = np.argsort(first)
        order = order[first[order] < last]
        anew = np.zeros(len(classes), dtype=np.int64)
        anew[order] = np.arange(len(order))
        self.classes = [classes[each] for each in order]
        numbers[:] = anew[numbers]

    def _show(self) -> None:
        """Show all pods that may be evicted as far as is known here."""
        columns = self._all
        if self._refused:
            tasks = map(self._task, *columns.places[1:3].tolist())
            allowed = [task.uid not in self._refused for task in tasks]
            columns = columns.of(np.flatnonzero(allowed))
        begin = np.searchsorted(columns.places[0], 0)
        self.rows, self.owners, self._places, self.class_numbers = columns.places[:, begin:]
        self.starts, self.unsaved_since, self.priorities, allow = columns.traits[:, begin:]
        self.preemptable = allow > 0
        self.bounds = np.zeros(self._layout.size + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.rows, minlength=self._layout.size), out=self.bounds[1:])
        self.owner_priorities, protected, spare = self._traits_of_jobs
        self.protected, self.spare = protected > 0, spare > 0

    def task(self, place: int) -> Task:
        """Return one of the pods."""
        return self._task(int(self.owners[place]), int(self._places[place]))

    def _task(self, owner: int, place: int) -> Task:
        return self._of_jobs[owner].tasks[place]

    def on(self, row: int) -> list[Task]:
        """Return the pods on the node, by UID."""
        tasks = map(self.task, range(self.bounds[row], self.bounds[row + 1]))
        return sorted(tasks, key=lambda task: task.uid)


def start(task: Task) -> float:
    """Return when the pod got a node, or the creation time if unknown."""
    return task.created if task.scheduled_at is None else task.scheduled_at


def unsaved_since(task: Task) -> float:
    """Return since when an eviction would undo the pod's work: its start, or a later checkpoint."""
    return max(start(task), task.checkpointed_at or 0.0)


def may_lose_one(counts: Mapping[TaskStatus, int], ready: int, minimum: int) -> bool:
    """Whether a job could lose a single pod, regardless of roles and sub-groups."""
    if ready - counts[TaskStatus.ALLOCATED] > minimum:
        return True
    return sum(map(counts.__getitem__, HOLDING)) == 1


class _OfJob:
    """The evictable pods of one job, kept with the job."""

    __slots__ = ("classes", "spare", "tasks")

    def __init__(self, job: Job) -> None:
        self.tasks = tuple(task for task in job.tasks if task.status in EVICTABLE)
        self.classes = tuple(dict.fromkeys(task.pod_class for task in self.tasks))
        self.spare = may_lose_one(job.counts, job.ready_tasks, job.min_member)


def _merged(kept: Rows, at: Sequence[int] | Rows, first: int) -> Rows:
    """Return what is kept with more numbers, from `first` on, before the places `at`."""
    found: Rows = np.insert(kept, at, np.arange(first, first + len(at)))
    return found
