"""Which resources anything in the cluster names: the columns of a snapshot."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from vscheduler.core.model import jobs, resources
from vscheduler.mirror.index import entries
from vscheduler.mirror.translate import pods, translation

T = TypeVar("T")

NOWHERE_MAX = 64
"""Resources that pods ask for, and no node or queue has, that are told apart: the first by name."""


class Dimensions:
    """Keeps count of who names what; a resource that nobody names any more is no column."""

    def __init__(self) -> None:
        self._classes: Counter[jobs.TaskClass] = Counter()
        """How many pods that count are of a class."""
        self._named: Counter[str] = Counter()
        """How many nodes and queues name a resource."""
        self._asked: Counter[str] = Counter()
        """How many classes of pods, and groups, do."""
        self._space = resources.ResourceSpace.of(())

    def move(self, old: entries.Value | None, new: entries.Value | None) -> None:
        """Something that is no pod came, changed or went."""
        for value, step in ((old, -1), (new, 1)):
            asks = isinstance(value, translation.Group)
            counter = self._asked if asks else self._named
            _count(counter, entries.resources_of(value), step)

    def move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
        """A pod came, changed or went."""
        for pod, step in ((new, 1), (old, -1)):
            if pod is not None and (pod.ours or pod.holds_room):
                _count(self._classes, (pod.kind,), step)
                if self._classes[pod.kind] == max(step, 0):
                    _count(self._asked, pod.kind.request, step)

    def space(self) -> resources.ResourceSpace:
        """The columns; the last answer again if they are the same.

        Whoever writes pods may name any resources, and each would be a column of every node: of
        those that no node and no queue has only so many are told apart.
        """
        nowhere = self._asked.keys() - self._named.keys() - {*resources.FIRST}
        folded = len(nowhere) > NOWHERE_MAX
        if folded:
            names = {*self._named, *sorted(nowhere)[:NOWHERE_MAX]}
        else:
            names = {*self._named, *nowhere}
        space = resources.ResourceSpace.of(names, folded=folded)
        if space != self._space:
            self._space = space
        return self._space


def _count(counter: Counter[T], items: Iterable[T], step: int) -> None:
    """Count up or down; what is down to nothing is gone."""
    for item in items:
        counter[item] += step
        if not counter[item]:
            del counter[item]
