"""Counts of pods by class, node and queue: the figures behind Snapshot.pods_by_class and
Snapshot.used_by_other_schedulers.

Volcano: Allocated of a job, which Volcano knows only for pods of its own scheduler.
"""

import bisect
from array import array
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from vscheduler.mirror.translate.pods import Pod
from vscheduler.model.jobs import HOLDING, JobId, PodClass
from vscheduler.model.resources import ResourceMap
from vscheduler.model.snapshot import ByClass, ClassCounts

_encode = msgspec.json.Encoder().encode


class ClassPlaces:
    """Where the pods of a class are, sorted by node and queue.

    Changes are added up first, and applied by `freeze`: many pods come to a node at a start, and a
    pod that changes mostly leaves its place for the same place.
    """

    def __init__(self, pod_class: PodClass) -> None:
        self.rank = _encode(
            (
                list(pod_class.counted.items()),
                pod_class.constraints,
                list(pod_class.hints.items()),
            )
        )
        """Sort key that is unique per class, so the order of classes doesn't depend on the order of
        events.
        """
        self._pods = 0
        self.moved: dict[tuple[str, str], int] = {}
        """Changes of counts by node and queue since the last freeze."""
        self._nodes: list[str] = []
        self._queues: list[str] = []
        self._counts = array("q")
        self._frozen: ClassCounts | None = None
        """The last counts, as long as the places are the same."""

    def __bool__(self) -> bool:
        return bool(self._pods)

    def move(self, node: str, queue: str, step: int) -> None:
        """Count a pod that came (step 1) or left (step -1)."""
        self._pods += step
        place = (node, queue)
        change = self.moved.pop(place, 0) + step
        if change:  # a standby never freezes: it keeps no place that pods have come to and left
            self.moved[place] = change

    def freeze(self) -> ClassCounts:
        """Return the counts as frozen arrays."""
        for (node, queue), change in self.moved.items():
            self._add(node, queue, change)
        self.moved.clear()
        counts = np.frombuffer(self._counts.tobytes(), dtype=np.int64)
        if self._frozen is None:
            nodes, queues = tuple(self._nodes), tuple(self._queues)
            self._frozen = ClassCounts(nodes=nodes, queues=queues, counts=counts)
        else:
            self._frozen = replace(self._frozen, counts=counts)  # its rows in layouts stay known
        return self._frozen

    def _add(self, node: str, queue: str, change: int) -> None:
        at = bisect.bisect_left(self._nodes, node)
        while self._is_at(at, node) and self._queues[at] < queue:
            at += 1
        if not (self._is_at(at, node) and self._queues[at] == queue):
            self._nodes.insert(at, node)
            self._queues.insert(at, queue)
            self._counts.insert(at, 0)
            self._frozen = None
        self._counts[at] += change
        assert self._counts[at] >= 0, "a pod can't leave twice"
        if not self._counts[at]:
            del self._nodes[at], self._queues[at], self._counts[at]
            self._frozen = None

    def _is_at(self, at: int, node: str) -> bool:
        return at < len(self._nodes) and self._nodes[at] == node


class PodsByClass:
    """Counts pods as pods and PodGroups come, change and go.

    A pod that holds room and stays counts for the queue named by its PodGroup, whether the queue
    and the pod's node exist or not. A pod without an existing PodGroup counts for no queue. Only
    changed counts are frozen again.
    """

    def __init__(self, work: Counter[str]) -> None:
        self._work = work
        self._queues: dict[JobId, str] = {}
        """The queues of the existing PodGroups."""
        self._places: dict[PodClass, ClassPlaces] = {}
        """Our pods; classes without pods are left out."""
        self._changed_classes: set[PodClass] = set()
        self._own_pods: ByClass = {}
        self._foreign_pods: dict[str, Counter[PodClass]] = {}
        """Pods of foreign schedulers by queue; queues without any are left out."""
        self._changed_queues: set[str] = set()
        """Queues whose pods of foreign schedulers changed."""
        self._used_by_other_schedulers: Mapping[str, ResourceMap] = {}

    @property
    def groups(self) -> Container[object]:
        """A live view of the existing PodGroups."""
        return self._queues.keys()

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went."""
        before = None if old is None else self._queue(old)
        after = None if new is None else self._queue(new)
        if before == after and (before is None or _same(old, new)):
            return
        if old is not None and before is not None:
            self._count(old, before, -1)
        if new is not None and after is not None:
            self._count(new, after, 1)

    def move_group(self, key: JobId, queue: str | None, members: Iterable[Pod]) -> None:
        """Apply a PodGroup that came, changed or went (queue is None); `members` are the pods that
        name the PodGroup.
        """
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

    def own_pods(self) -> ByClass:
        """Return where our pods are, by class; the last object again when no pod moved."""
        if not self._changed_classes:
            return self._own_pods
        pods = dict(self._own_pods)
        for pod_class in self._changed_classes:
            places = self._places.get(pod_class)
            if places is None:
                pods.pop(pod_class, None)
            else:
                self._work["seats"] += 1
                pods[pod_class] = places.freeze()
        self._changed_classes.clear()
        if pods.keys() != self._own_pods.keys():
            pods = dict(sorted(pods.items(), key=lambda item: self._places[item[0]].rank))
        self._own_pods = pods
        return pods

    def used_by_other_schedulers(self) -> Mapping[str, ResourceMap]:
        """Return the resources held by pods of foreign schedulers, by queue; the last object again
        when unchanged.
        """
        if self._changed_queues:
            used = dict(self._used_by_other_schedulers)
            for queue in self._changed_queues:
                used.pop(queue, None)
                if queue in self._foreign_pods:
                    self._work["elsewhere"] += 1
                    used[queue] = dict(sorted(total(self._foreign_pods[queue]).items()))
            self._changed_queues.clear()
            if used != self._used_by_other_schedulers:
                self._used_by_other_schedulers = dict(sorted(used.items()))
        return self._used_by_other_schedulers

    def _queue(self, pod: Pod) -> str | None:
        """Return the queue that the pod counts for, or None."""
        if pod.group is None or not _holds(pod):
            return None
        return self._queues.get(pod.group)

    def _count(self, pod: Pod, queue: str, step: int) -> None:
        assert pod.node is not None
        if pod.task is not None:
            self._move_own_pod(pod.pod_class, pod.node, queue, step)
        elif not pod.ours:
            pods_by_class = self._foreign_pods.setdefault(queue, Counter())
            pods_by_class[pod.pod_class] += step
            if not pods_by_class[pod.pod_class]:
                del pods_by_class[pod.pod_class]
            if not pods_by_class:
                del self._foreign_pods[queue]
            self._changed_queues.add(queue)

    def _move_own_pod(self, pod_class: PodClass, node: str, queue: str, step: int) -> None:
        places = self._places.get(pod_class)
        if places is None:
            places = self._places[pod_class] = ClassPlaces(pod_class)
        places.move(node, queue, step)
        if not places:
            del self._places[pod_class]
        self._changed_classes.add(pod_class)


def total(classes: Mapping[PodClass, int]) -> dict[str, int]:
    """Return the total request of these numbers of pods by class."""
    sums: defaultdict[str, int] = defaultdict(int)
    for pod_class, count in classes.items():
        for name, amount in pod_class.request.items():
            sums[name] += amount * count
    return dict(sums)


def _holds(pod: Pod) -> bool:
    """Whether the pod counts as allocated, provided its PodGroup exists."""
    return pod.node is not None and pod.status in HOLDING


def _same(old: Pod | None, new: Pod | None) -> bool:
    """Whether two versions of a pod, both counted for the same queue, count alike."""
    assert old is not None
    assert new is not None
    return (
        old.pod_class is new.pod_class
        and old.node == new.node
        and old.ours == new.ours
        and (old.task is None) == (new.task is None)
    )
