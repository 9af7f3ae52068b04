"""Which pods count for which queue, and where: the numbers behind Snapshot.seats and .elsewhere.

Volcano: a job's Allocated, which there is known for its own scheduler's pods only.
"""

import bisect
from array import array
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping

import msgspec
import numpy as np

from vscheduler.core.model import jobs, resources, snapshot
from vscheduler.mirror.translate import pods

_encode = msgspec.json.Encoder().encode


class ClassPlaces:
    """Where the pods of one class are: sorted by node and queue, so that a copy is all it takes
    to freeze them.
    """

    def __init__(self, kind: jobs.PodClass) -> None:
        self.rank = _encode(
            (list(kind.request.items()), kind.constraints, list(kind.hints.items()))
        )
        """Orders classes, whatever order they came in: no two of them are written alike."""
        self._nodes: list[str] = []
        self._queues: list[str] = []
        self._counts = array("q")

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def move(self, node: str, queue: str, step: int) -> None:
        """A pod has come (1) or gone (-1)."""
        at = bisect.bisect_left(self._nodes, node)
        while self._is_at(at, node) and self._queues[at] < queue:
            at += 1
        if not (self._is_at(at, node) and self._queues[at] == queue):
            self._nodes.insert(at, node)
            self._queues.insert(at, queue)
            self._counts.insert(at, 0)
        self._counts[at] += step
        assert self._counts[at] >= 0, "only who has come can go"
        if not self._counts[at]:
            del self._nodes[at], self._queues[at], self._counts[at]

    def freeze(self) -> snapshot.ClassCounts:
        """They, as they stand."""
        return snapshot.ClassCounts(
            nodes=tuple(self._nodes),
            queues=tuple(self._queues),
            counts=np.frombuffer(self._counts.tobytes(), dtype=np.int64),
        )

    def _is_at(self, at: int, node: str) -> bool:
        return at < len(self._nodes) and self._nodes[at] == node


class PodsByClass:
    """Keeps count as pods and PodGroups come, change and go.

    A pod that holds room and isn't leaving counts for the queue that its PodGroup names, whether
    that queue and the pod's node are there or not; without its PodGroup it counts for nobody. Only
    what changed is frozen anew.
    """

    def __init__(self, work: Counter[str]) -> None:
        self._work = work
        self._queues: dict[jobs.JobId, str] = {}
        """The queues of the PodGroups that are there."""
        self._places: dict[jobs.PodClass, ClassPlaces] = {}
        """Of our pods; only classes that have some."""
        self._moved: set[jobs.PodClass] = set()
        self._seats: snapshot.ByClass = {}
        self._others: dict[str, Counter[jobs.PodClass]] = {}
        """Pods of other schedulers by queue; only queues that have some."""
        self._stirred: set[str] = set()
        """Queues whose pods of other schedulers changed."""
        self._elsewhere: Mapping[str, resources.ResourceMap] = {}

    @property
    def groups(self) -> Container[object]:
        """The PodGroups that are there: what is said of them here changes as they come and go."""
        return self._queues.keys()

    def move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
        """The pod came, changed or went."""
        before, after = self._queue(old), self._queue(new)
        if before == after and (before is None or _same(old, new)):
            return
        if old is not None and before is not None:
            self._count(old, before, -1)
        if new is not None and after is not None:
            self._count(new, after, 1)

    def move_group(self, key: jobs.JobId, queue: str | None, members: Iterable[pods.Pod]) -> None:
        """The PodGroup came, changed or went (None); these pods name it."""
        before = self._queues.pop(key, None)
        if queue is not None:
            self._queues[key] = queue
        if queue == before:
            return
        for pod in members:
            if _holds(pod):
                if before is not None:
                    self._count(pod, before, -1)
                if queue is not None:
                    self._count(pod, queue, 1)

    def seats(self) -> snapshot.ByClass:
        """Where our pods are, by class; the last answer again when none of them moved."""
        if not self._moved:
            return self._seats
        found = dict(self._seats)
        for kind in self._moved:
            places = self._places.get(kind)
            if places is None:
                found.pop(kind, None)
            else:
                self._work["seats"] += 1
                found[kind] = places.freeze()
        self._moved.clear()
        if found.keys() != self._seats.keys():
            found = dict(sorted(found.items(), key=lambda item: self._places[item[0]].rank))
        self._seats = found
        return found

    def elsewhere(self) -> Mapping[str, resources.ResourceMap]:
        """What pods of other schedulers hold, by queue; the last answer if it is the same."""
        if self._stirred:
            found = dict(self._elsewhere)
            for queue in self._stirred:
                found.pop(queue, None)
                if queue in self._others:
                    self._work["elsewhere"] += 1
                    found[queue] = dict(sorted(total(self._others[queue]).items()))
            self._stirred.clear()
            if found != self._elsewhere:
                self._elsewhere = dict(sorted(found.items()))
        return self._elsewhere

    def _queue(self, pod: pods.Pod | None) -> str | None:
        """For which queue the pod counts."""
        if pod is None or pod.group is None or not _holds(pod):
            return None
        return self._queues.get(pod.group)

    def _count(self, pod: pods.Pod, queue: str, step: int) -> None:
        assert pod.node is not None
        if pod.task is not None:
            self._move_seat(pod.kind, pod.node, queue, step)
        elif not pod.ours:
            others = self._others.setdefault(queue, Counter())
            others[pod.kind] += step
            if not others[pod.kind]:
                del others[pod.kind]
            if not others:
                del self._others[queue]
            self._stirred.add(queue)

    def _move_seat(self, kind: jobs.PodClass, node: str, queue: str, step: int) -> None:
        places = self._places.get(kind)
        if places is None:
            places = self._places[kind] = ClassPlaces(kind)
        places.move(node, queue, step)
        if not places:
            del self._places[kind]
        self._moved.add(kind)


def total(classes: Mapping[jobs.PodClass, int]) -> dict[str, int]:
    """What so many pods of these classes hold together."""
    sums: defaultdict[str, int] = defaultdict(int)
    for kind, count in classes.items():
        for name, amount in kind.request.items():
            sums[name] += amount * count
    return dict(sums)


def _holds(pod: pods.Pod) -> bool:
    """Whether it counts as allocated, if its group is there."""
    return pod.node is not None and pod.status in jobs.HOLDING


def _same(old: pods.Pod | None, new: pods.Pod | None) -> bool:
    """Whether two that count for one queue count alike."""
    assert old is not None
    assert new is not None
    return (
        old.kind is new.kind
        and old.node == new.node
        and old.ours == new.ours
        and (old.task is None) == (new.task is None)
    )
