"""When pods end at the latest that run, or start in this cycle, and what nodes have free then."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.memo import evictable_pods
from vscheduler.core.session.session import Session
from vscheduler.model import run_times
from vscheduler.model.jobs import EVICTABLE, Job, PodClass, Task, TaskStatus
from vscheduler.model.resources import Vector

Rows = NDArray[np.int64]
Times = NDArray[np.float64]


class _OfJob(NamedTuple):
    """The pods of one job that hold nodes, as far as the job itself tells."""

    tasks: Sequence[Task]
    nodes: Sequence[str]
    starts: Times
    """When they got their nodes; NaN if that isn't known."""
    limits: Times
    """How many seconds they run at most; NaN if job and pod don't say it."""
    classes: Sequence[PodClass]
    class_numbers: Rows
    """The places of the pods' classes in `classes`."""


class Columns(NamedTuple):
    """Pods (P) in the order of their ends."""

    times: Times
    rows: Rows
    """The rows of their nodes."""
    amounts: Vector
    """What they release, (P, R)."""
    queues: Rows
    """The numbers of their queues."""
    places: Rows
    """Their places among the tasks."""

    def of(self, chosen: Rows) -> "Columns":
        """Return these of the pods, in this order."""
        times, *others = self
        return Columns(times[chosen], *(column[chosen] for column in others))

    def with_more(self, more: "Columns") -> "Columns":
        """Return these pods, and then more."""
        pairs = zip(self[1:], more[1:], strict=True)
        return Columns(np.concatenate([self.times, more.times]), *map(np.concatenate, pairs))


class ExpectedEnds:
    """The ends of pods, as far as their run times are known, and the amounts that are free then."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._queues = {name: number for number, name in enumerate(session.queues)}
        self._tasks: list[Task] = []
        self._running_pods = 0
        """How many of the tasks run, before those that start in this cycle."""
        self._seen = (-1, -1)
        """How many binds and evictions the columns include."""
        self.some_are_unknown = False
        """Whether it isn't known of any pod when it ends."""
        self._known: Columns | None = None

    @property
    def decided(self) -> tuple[int, int]:
        """How many binds and evictions of this cycle are taken into account."""
        return len(self._session.decided.binds), len(self._session.decided.evicts)

    def before(self, instant: float) -> Sequence[Task]:
        """Return the pods that end until then."""
        columns = self.columns()
        return [self._tasks[at] for at in columns.places[: _last(columns.times, instant)].tolist()]

    def free_at(self, instant: float) -> Vector:
        """Return what nodes will have free then, (N, R), if nothing else starts."""
        columns, free = self.columns(), self._session.free.copy()
        last = _last(columns.times, instant)
        np.add.at(free, columns.rows[:last], columns.amounts[:last])
        return free

    def by_queue(self, instant: float) -> Mapping[str, Vector]:
        """Return what pods that end until then release, (R,), by the names of their queues."""
        columns = self.columns()
        last = _last(columns.times, instant)
        found = np.zeros((len(self._queues), self._session.space.size), dtype=np.int64)
        np.add.at(found, columns.queues[:last], columns.amounts[:last])
        return {name: found[at] for name, at in self._queues.items() if found[at].any()}

    def bound_since(self, binds: int) -> Columns:
        """Return the columns of pods that were bound after so many others in this cycle."""
        columns = self.columns()
        return columns.of(np.flatnonzero(columns.places >= self._running_pods + binds))

    def columns(self) -> Columns:
        """Return the pods whose ends are known."""
        seen, binds = self.decided, self._session.decided.binds[max(0, self._seen[0]) :]
        if self._known is None or seen[1] != self._seen[1]:
            self._tasks.clear()
            self._known = self._sorted(list(self._running()))
            self._running_pods = len(self._tasks)
            self._seen, binds = (0, seen[1]), self._session.decided.binds
        if seen != self._seen:
            more = []
            for bind in binds:
                job = self._session.job_states[bind.task.job].job
                more.append((job, _of_pods(job, [bind.task], [bind.node])))
            self._known = self._sorted(more, self._known)
            self._seen = seen
        return self._known

    def _running(self) -> Iterator[tuple[Job, _OfJob]]:
        leaving = self._session.decided.evicts
        for job in self._session.snapshot.jobs:
            if job.queue not in self._queues or not any(map(job.counts.__getitem__, EVICTABLE)):
                continue
            if leaving and any(task.uid in leaving for task in job.tasks):
                yield job, _of_running([task for task in job.tasks if task.uid not in leaving], job)
            else:
                yield job, _known_running(job)

    def _sorted(self, more: Sequence[tuple[Job, _OfJob]], known: Columns | None = None) -> Columns:
        """Return the columns of these pods, and of those that are known."""
        session, first = self._session, len(self._tasks)
        for _, found in more:
            self._tasks += found.tasks
        rows = session.layout.rows
        nodes = [rows.get(node, -1) for _, found in more for node in found.nodes]
        sizes = [len(found.tasks) for _, found in more]
        defaults = [session.queues[job.queue].max_run_time for job, _ in more]
        unknown = np.array([np.nan if each is None else each for each in defaults], dtype=float)
        none = np.zeros(0)
        limits = np.concatenate([none, *(found.limits for _, found in more)])
        limits = np.where(np.isnan(limits), np.repeat(unknown, sizes), limits)
        caps = [session.queues[job.queue].run_time_cap for job, _ in more]
        most = np.array([np.nan if each is None else each for each in caps], dtype=float)
        limits = np.fmin(limits, np.repeat(most, sizes))
        starts = np.concatenate([none, *(found.starts for _, found in more)])
        queues = np.repeat(np.array([self._queues[job.queue] for job, _ in more], int), sizes)
        columns = Columns(
            _ends(starts, limits, session.snapshot.now),
            np.array(nodes, dtype=np.int64),
            self._amounts(more),
            queues,
            np.arange(first, len(self._tasks)),
        )
        known_ends = ~np.isnan(columns.times)
        self.some_are_unknown |= not known_ends.all()
        columns = columns.of(np.flatnonzero(known_ends & (columns.rows >= 0)))
        if known is not None:
            columns = known.with_more(columns)
        return columns.of(np.argsort(columns.times, kind="stable"))

    def _amounts(self, more: Sequence[tuple[Job, _OfJob]]) -> Vector:
        """Return what these pods release, (n, R)."""
        session, numbers = self._session, dict[PodClass, int]()
        requests: list[Vector] = []
        found = [np.zeros(0, dtype=np.int64)]
        for _, pods in more:
            own = []
            for at, pod_class in enumerate(pods.classes):
                number = numbers.get(pod_class)
                if number is None:
                    number = numbers[pod_class] = len(requests)
                    first = int(np.argmax(pods.class_numbers == at))
                    requests.append(session.request(pods.tasks[first]))
                own.append(number)
            found.append(np.array(own, dtype=np.int64)[pods.class_numbers])
        table = np.array(requests, dtype=np.int64).reshape(-1, session.space.size)
        amounts: Vector = table[np.concatenate(found)]
        return amounts


def _known_running(job: Job) -> _OfJob:
    return job.memo("ends", lambda: _of_running(job.tasks, job))


def _of_running(tasks: Sequence[Task], job: Job) -> _OfJob:
    """Return the pods of a job that run."""
    running = [task for task in tasks if task.status in EVICTABLE and task.node is not None]
    return _of_pods(job, running, [task.node or "" for task in running])


def _of_pods(job: Job, tasks: Sequence[Task], nodes: Sequence[str]) -> _OfJob:
    """Return pods with their nodes; those that start in this cycle got them just now."""
    limits = [job.max_run_time, *(task.max_run_time for task in tasks)]
    every = [limits[0] if limits[0] is not None else limit for limit in limits[1:]]
    numbers: dict[PodClass, int] = {}
    for task in tasks:
        numbers.setdefault(task.pod_class, len(numbers))
    return _OfJob(
        tasks=tuple(tasks),
        nodes=tuple(nodes),
        starts=np.array([_start(task) for task in tasks], dtype=float),
        limits=np.array([np.nan if each is None else each for each in every], dtype=float),
        classes=tuple(numbers),
        class_numbers=np.array([numbers[task.pod_class] for task in tasks], dtype=np.int64),
    )


def _start(task: Task) -> float:
    known = task.scheduled_at is not None or task.status is TaskStatus.RUNNING
    return evictable_pods.start(task) if known else np.nan


def _ends(starts: Times, limits: Times, now: float) -> Times:
    """Return when pods end that got their nodes then (NaN: now) and run at most so many seconds."""
    starts = np.where(np.isnan(starts), now, starts)
    ends: Times = starts + limits
    for at in np.flatnonzero(ends <= now).tolist():
        ends[at] = run_times.end(float(starts[at]), float(limits[at]), now)
    return ends


def _last(times: Times, instant: float) -> int:
    """Return how many of these times, in ascending order, are at the instant or before."""
    return int(np.searchsorted(times, instant, side="right"))
