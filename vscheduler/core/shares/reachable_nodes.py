"""Nodes that pods could use if evictions made space, as sets of rows: what promises are about."""

from collections.abc import Callable, Iterable

from vscheduler.model import nodes
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import Mask


class ReachableNodes:
    """Sets of nodes, looked up once for each pod class of a cycle."""

    def __init__(self, reachable: Callable[[Task], Mask]) -> None:
        """`reachable` returns the nodes (N,) that a task could use after evictions."""
        self._reachable = reachable
        self._known: dict[PodClass, int] = {}

    def of(self, tasks: Iterable[Task]) -> int:
        """Return the nodes that any of these tasks could use, as a set (`nodes.row_set`)."""
        found = 0
        for task in {task.pod_class: task for task in tasks}.values():
            if task.pod_class not in self._known:
                self._known[task.pod_class] = nodes.row_set(self._reachable(task))
            found |= self._known[task.pod_class]
        return found
