"""EvictablePods: the pods that could be evicted, in columns sorted by node."""

import functools
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import jobs, nodes
from vscheduler.core.session import job_state


class EvictablePods:
    """This scheduler's evictable pods (P) as the cycle began, and their jobs (J)."""

    def __init__(
        self,
        states: Iterable[job_state.JobState],
        layout: nodes.NodeLayout,
        refused: Collection[jobs.TaskId],
    ) -> None:
        """Collect the pods on known nodes, without those whose eviction was refused."""
        self.states: list[job_state.JobState] = []
        """The jobs (J), in the order of the session."""
        found: list[_OfJob] = []
        self.read = 0
        """How many pods haven't been read in an earlier cycle."""

        def read(job: jobs.Job) -> _OfJob:
            self.read += len(job.tasks)
            return _OfJob(job)

        for state in states:
            job = state.job
            if any(map(job.counts.__getitem__, jobs.EVICTABLE)):
                self.states.append(state)
                found.append(job.memo("evictable", functools.partial(read, job)))
        self._found = found
        sizes = np.array([len(each.tasks) for each in found], dtype=np.int64)
        owners = np.repeat(np.arange(len(found)), sizes)
        rows: NDArray[np.int64] = _joined([each.rows(layout) for each in found], np.int64)
        self._first = np.cumsum(sizes) - sizes
        allowed = rows >= 0
        if refused:
            tasks = itertools.chain.from_iterable(each.tasks for each in found)
            allowed &= np.array([task.uid not in refused for task in tasks], dtype=np.bool_)
        self._order = np.argsort(rows, kind="stable")
        self._order = order = self._order[allowed[self._order]]
        """The places of the pods if they were listed job by job, (P,)."""
        self.rows: NDArray[np.int64] = rows[order]
        """The rows of the pods' nodes in ascending order, (P,)."""
        self.owners: NDArray[np.int64] = owners[order]
        """The places of the pods' jobs in `states`, (P,)."""
        self.bounds: NDArray[np.int64] = np.searchsorted(self.rows, np.arange(layout.size + 1))
        """Where the pods of each row begin, and where the last row ends, (N + 1,)."""
        numbers: dict[jobs.PodClass, int] = {}
        for pod_class in itertools.chain.from_iterable(each.classes for each in found):
            numbers.setdefault(pod_class, len(numbers))
        self.classes: Sequence[jobs.PodClass] = list(numbers)
        """The classes of the pods (C)."""
        firsts = np.array([numbers[each.classes[0]] for each in found], dtype=np.int64)
        classes = np.repeat(firsts, sizes)
        for place, each in enumerate(found):
            if len(each.classes) > 1:
                first = self._first[place]
                classes[first : first + len(each.tasks)] = each.class_numbers(numbers)
        self.class_numbers: NDArray[np.int64] = classes[order]
        """The places of the pods' classes in `classes`, (P,)."""
        traits = _joined([each.traits for each in found], np.float64)[order]
        self.starts: NDArray[np.float64] = traits[:, 0]
        """When the pods got their nodes, in seconds since the epoch, (P,)."""
        self.priorities: NDArray[np.float64] = traits[:, 1]
        """The pods' own priorities, (P,)."""
        self.preemptable: NDArray[np.bool_] = traits[:, 2] > 0
        """Whether the pods allow evictions, (P,)."""

        self.spare: NDArray[np.bool_] = np.array([each.spare for each in found], dtype=np.bool_)
        """Whether the jobs could lose a single pod, regardless of roles and sub-groups, (J,)."""

    def task(self, place: int) -> jobs.Task:
        """Return one of the pods."""
        owner = int(self.owners[place])
        return self._found[owner].tasks[int(self._order[place] - self._first[owner])]

    def on(self, row: int) -> list[jobs.Task]:
        """Return the pods on the node, by UID."""
        tasks = map(self.task, range(self.bounds[row], self.bounds[row + 1]))
        return sorted(tasks, key=lambda task: task.uid)


def start(task: jobs.Task) -> float:
    """Return when the pod got a node, or the creation time if unknown."""
    return task.created if task.scheduled_at is None else task.scheduled_at


def may_lose_one(job: jobs.Job | job_state.JobState) -> bool:
    """Whether a single pod may be evicted, regardless of roles and sub-groups."""
    minimum = job.min_member if isinstance(job, jobs.Job) else job.job.min_member
    counts = job.counts
    if job.ready_tasks - counts[jobs.TaskStatus.ALLOCATED] > minimum:
        return True
    return sum(map(counts.__getitem__, jobs.HOLDING)) == 1


class _OfJob:
    """The evictable pods of one job, kept with the job."""

    __slots__ = ("_layout", "_places", "_rows", "classes", "spare", "tasks", "traits")

    def __init__(self, job: jobs.Job) -> None:
        self.tasks = tuple(task for task in job.tasks if task.status in jobs.EVICTABLE)
        self.classes = tuple(dict.fromkeys(task.pod_class for task in self.tasks))
        places = {each: place for place, each in enumerate(self.classes)}
        self._places = np.array([places[task.pod_class] for task in self.tasks], dtype=np.int64)
        traits = [(start(task), task.priority, task.preemptable) for task in self.tasks]
        self.traits: NDArray[np.float64] = np.array(traits, dtype=np.float64)
        self.spare = may_lose_one(job)
        self._layout: nodes.NodeLayout | None = None
        self._rows: NDArray[np.int64] = self._places

    def rows(self, layout: nodes.NodeLayout) -> NDArray[np.int64]:
        """Return the rows of the pods' nodes, with -1 for missing nodes; the last are kept."""
        if self._layout is not layout:
            rows = [layout.rows.get(task.node or "", -1) for task in self.tasks]
            self._layout, self._rows = layout, np.array(rows, dtype=np.int64)
        return self._rows

    def class_numbers(self, numbers: dict[jobs.PodClass, int]) -> NDArray[np.int64]:
        """Return the numbers of the pods' classes."""
        return np.array([numbers[each] for each in self.classes])[self._places]


def _joined(parts: Sequence[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros((0, 3) if kind is np.float64 else 0, kind)
