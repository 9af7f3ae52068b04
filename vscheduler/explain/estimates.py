"""Estimates: where the search for a size begins in a large cluster.

An estimate counts the pods of the job that free resources of nodes have room for. It knows taints,
selectors and affinity to nodes, but neither shares nor other filters nor other jobs. It decides
nothing: forecasts and trials find the size, in fewer steps if the estimate is near.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vscheduler.model import nodes
from vscheduler.model.constraints import HOSTNAME
from vscheduler.model.jobs import WAITING, JobId, Task
from vscheduler.model.nodes import Mask, NodeTable
from vscheduler.model.resources import ResourceMap, Vector
from vscheduler.model.snapshot import Snapshot

Counts = NDArray[np.int64]
"""Number of pods for each node, (N,)."""

COUNT_MAX = 2**31


class Estimates:
    """How many pods of a job have room on the nodes of a snapshot."""

    def __init__(self, snapshot: Snapshot, job: JobId) -> None:
        self._taken = snapshot
        self._job = next(each for each in snapshot.jobs if each.id == job)
        self._waiting = [task for task in self._job.tasks if task.status in WAITING]
        self._request = self._typical()

    @cached_property
    def lacking(self) -> int:
        """How many pods of the minimum have neither a node nor, by this estimate, room."""
        return max(0, self._needed - int(self._fitting(self._free, self._request).sum()))

    @cached_property
    def usable(self) -> Mask:
        """Mask of the nodes that some waiting pod of the job may use."""
        layout = self._taken.nodes.layout
        found = np.zeros(layout.size, dtype=np.bool_)
        for limits in {task.pod_class.constraints for task in self._waiting}:
            passes = nodes.selected(layout, limits) & layout.schedulable & layout.ready
            for mask in nodes.barriers(layout, limits.tolerations).values():
                passes = passes & mask
            found |= passes
        return found

    def fewer_pods(self) -> int:
        """Return by how many pods the minimum is too large."""
        return self.lacking

    def more_nodes(self, allocatable: ResourceMap) -> int:
        """Return how many nodes of this size the job lacks."""
        row = self._taken.space.present(allocatable)[None, :]
        each = int(self._fitting(row, self._request)[0])
        return -(-self.lacking // each) if each else 1

    def smaller_pods(self, resource: str, sizes: Sequence[int]) -> int:
        """Return the place, counted from 1, of the first of these falling requests with which all
        pods of the minimum have room; the last one if none suffices.
        """
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high) // 2
            request = {**self._request, resource: sizes[middle]}
            if int(self._fitting(self._free, request).sum()) >= self._needed:
                high = middle
            else:
                low = middle + 1
        return low + 1

    def nodes_of(self, names: Sequence[str]) -> int:
        """Return how many of these nodes, which the job can't use now, it lacks."""
        table = self._taken.nodes
        rows = [table.layout.rows[name] for name in names]
        free = np.maximum(table.allocatable[rows] - table.used[rows], 0)
        gained = np.cumsum(self._fitting(free, self._request))
        return 1 + int(np.searchsorted(gained, self.lacking))

    def suffices(self, tasks: Iterable[Task]) -> bool:
        """Whether the job has room once these running pods are gone."""
        if not self.lacking:
            return True
        tasks = list(tasks)
        if self._most_gained(tasks) < self.lacking:
            return False
        rows, space = self._taken.nodes.layout.rows, self._taken.space
        freed: dict[int, Vector] = {}
        for task in tasks:
            row = rows.get(task.node or "")
            if row is not None and self.usable[row]:
                held = space.present(task.pod_class.request)
                freed[row] = freed[row] + held if row in freed else held
        if not freed:
            return False
        index = np.array(list(freed))
        before, after = self._free[index], self._free[index] + np.stack(list(freed.values()))
        gained = self._fitting(after, self._request) - self._fitting(before, self._request)
        return int(gained.sum()) >= self.lacking

    def _most_gained(self, tasks: Collection[Task]) -> int:
        """Return an upper bound on the pods that these running pods make room for, wherever they
        are: what a pod frees of the resource that is scarce on its node, in requests, rounded up.
        """
        asked = {name: amount for name, amount in self._request.items() if amount}
        if not asked:
            return COUNT_MAX
        held = Counter(task.pod_class for task in tasks)
        return sum(
            count * max(-(-each.request.get(name, 0) // part) for name, part in asked.items())
            for each, count in held.items()
        )

    @property
    def _needed(self) -> int:
        return max(1, self._job.min_member) - self._job.ready_tasks

    @cached_property
    def _free(self) -> Vector:
        table = self._taken.nodes
        return np.where(self.usable[:, None], np.maximum(table.allocatable - table.used, 0), 0)

    def _typical(self) -> ResourceMap:
        """Return the largest amount that any waiting pod requests, by resource."""
        found: dict[str, int] = {}
        for task in self._waiting:
            for name, amount in task.pod_class.request.items():
                found[name] = max(found.get(name, 0), amount)
        return found

    def _fitting(self, free: Vector, request: ResourceMap) -> Counts:
        """Return how many pods with this request fit into each row."""
        counts = np.full(len(free), COUNT_MAX, dtype=np.int64)
        for name, amount in request.items():
            if not amount:
                continue
            column = self._taken.space.columns.get(name)
            if column is None:
                return np.zeros(len(free), dtype=np.int64)
            counts = np.minimum(counts, free[:, column] // amount)
        return counts


def shapes(table: NodeTable) -> Iterator[Hashable]:
    """Iterate over what nodes that differ by their names only have in common."""
    for spec, row in zip(table.layout.specs, table.allocatable.tolist(), strict=True):
        labels = tuple(label for label in spec.labels if label[0] != HOSTNAME)
        yield labels, spec.taints, spec.features, tuple(row)
