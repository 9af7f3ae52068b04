"""Index of pods by node for pod affinity and topology spread: the counts behind
model.pod_affinity.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from vscheduler.mirror.translate.pods import Pod
from vscheduler.model import constraints, pod_affinity
from vscheduler.model.jobs import TaskId, TaskStatus
from vscheduler.model.pod_affinity import (
    AffinityTermOfPods,
    PodAffinityIndex,
    PodsByNode,
    PodSets,
    SelectorIndex,
)

Item = TypeVar("Item", bound=Hashable)


class CountsByNode(Generic[Item]):
    """How many matching pods are on each node, for every item that has at least one holder."""

    def __init__(self) -> None:
        self._holders: Counter[Item] = Counter()
        self._counts: dict[Item, dict[str, tuple[int, int]]] = {}
        self._stale: set[Item] = set()
        self._frozen: dict[Item, PodsByNode] = {}

    def __contains__(self, item: Item) -> bool:
        return item in self._holders

    def __bool__(self) -> bool:
        return bool(self._holders)

    def hold(self, item: Item) -> bool:
        """Add a holder; return whether the item is new and has no counts yet."""
        self._holders[item] += 1
        if self._holders[item] > 1:
            return False
        self._counts[item] = {}
        self._stale.add(item)
        return True

    def release(self, item: Item) -> bool:
        """Remove a holder; return whether the item had no further holder and its counts are
        dropped.
        """
        self._holders[item] -= 1
        if self._holders[item]:
            return False
        del self._holders[item], self._counts[item]
        self._stale.add(item)
        return True

    def add(self, item: Item, pod: Pod, step: int) -> None:
        """Count a matching pod that came to its node (step 1) or left (step -1)."""
        assert pod.node is not None
        counts = self._counts[item]
        staying, leaving = counts.get(pod.node, (0, 0))
        if pod.status is TaskStatus.RELEASING:
            leaving += step
        else:
            staying += step
        if staying or leaving:
            counts[pod.node] = (staying, leaving)
        else:
            del counts[pod.node]
        self._stale.add(item)

    def clear(self, item: Item) -> None:
        """Reset the counts of an item before a recount."""
        self._counts[item].clear()
        self._stale.add(item)

    def items(self) -> list[Item]:
        """Return the items with at least one holder."""
        return list(self._holders)

    def frozen(self) -> Mapping[Item, PodsByNode]:
        """Return all counts. Counts unchanged since the last call are the same objects."""
        if self._stale:
            self._frozen = dict(self._frozen)
            for item in self._stale:
                if item in self._counts:
                    self._frozen[item] = dict(self._counts[item])
                else:
                    self._frozen.pop(item, None)
            self._stale.clear()
        return self._frozen


class PodAffinityIndexer:
    """Maintains pod counts as pods come, change and go.

    Only terms of our waiting pods are counted. A new term costs a single pass over the pods with a
    label that the term names. Afterwards only changed pods are looked at.
    """

    def __init__(self, work: Counter[str], everyone: Callable[[], Iterable[Pod]]) -> None:
        self._work = work
        self._everyone = everyone
        """Returns all pods that hold room at present."""
        self._pod_set_counts: CountsByNode[PodSets] = CountsByNode()
        self._pod_set_index: SelectorIndex[PodSets] = SelectorIndex()
        self._term_counts: CountsByNode[AffinityTermOfPods] = CountsByNode()
        self._term_index: SelectorIndex[AffinityTermOfPods] = SelectorIndex()
        self._named: dict[str, dict[str, dict[TaskId, Pod]]] = {}
        """Pods that hold room, by label key and value, for label keys named in terms."""
        self._namers: Counter[str] = Counter()
        """How many held pod sets are looked up by a label key."""
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._frozen = pod_affinity.NOBODY

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went. `everyone` must already reflect the change."""
        if not (self._pod_set_counts or _has_terms(old) or _has_terms(new)):
            return  # labels are indexed only while pod sets are counted
        if old is not None and new is not None and _same(old, new):
            return
        if old is not None and old.holds_resources:
            self._unname(old)
            self._count_pod(old, -1)
        if new is not None:
            self._hold(new)
            if new.holds_resources:
                self._name(new)
                self._count_pod(new, 1)
        if old is not None:
            self._release(old)

    def move_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Apply a namespace that came, changed or went (None)."""
        self._namespaces = dict(self._namespaces)
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        for pod_sets in self._pod_set_counts.items():
            if any(pods.more_namespaces is not None for pods in pod_sets):
                self._pod_set_counts.clear(pod_sets)
                self._count(pod_sets)

    def freeze(self) -> PodAffinityIndex:
        """Return all counts; the last object again when nothing changed."""
        pod_set_counts, term_counts = self._pod_set_counts.frozen(), self._term_counts.frozen()
        last = self._frozen
        frozen = (last.pod_set_counts, last.term_counts, last.namespaces)
        now = (pod_set_counts, term_counts, self._namespaces)
        if any(before is not after for before, after in zip(frozen, now, strict=True)):
            self._frozen = PodAffinityIndex(
                pod_set_counts=pod_set_counts,
                term_counts=term_counts,
                namespaces=self._namespaces,
                pod_set_index=self._pod_set_index.freeze(),
                term_index=self._term_index.freeze(),
            )
        return self._frozen

    def _hold(self, pod: Pod) -> None:
        for pod_sets in _pod_sets_counted_for(pod):
            self._hold_pod_sets(pod_sets)
        for term in _terms_of(pod):
            if self._term_counts.hold(term):
                self._term_index.add(term, (term.term.pods,))

    def _release(self, pod: Pod) -> None:
        for pod_sets in _pod_sets_counted_for(pod):
            self._release_pod_sets(pod_sets)
        for term in _terms_of(pod):
            if self._term_counts.release(term):
                self._term_index.discard(term, (term.term.pods,))

    def _hold_pod_sets(self, pod_sets: PodSets) -> None:
        if self._pod_set_counts.hold(pod_sets):
            self._pod_set_index.add(pod_sets, pod_sets)
            anchor = pod_affinity.anchor(pod_sets)
            if anchor is not None:
                self._namers[anchor.key] += 1
                if self._namers[anchor.key] == 1:
                    self._index(anchor.key)
            self._count(pod_sets)

    def _release_pod_sets(self, pod_sets: PodSets) -> None:
        if self._pod_set_counts.release(pod_sets):
            self._pod_set_index.discard(pod_sets, pod_sets)
            anchor = pod_affinity.anchor(pod_sets)
            if anchor is not None:
                self._namers[anchor.key] -= 1
                if not self._namers[anchor.key]:
                    del self._namers[anchor.key], self._named[anchor.key]

    def _count(self, pod_sets: PodSets) -> None:
        for pod in self._candidates(pod_sets):
            self._work["residents"] += 1
            labels = self._namespace_labels(pod.namespace)
            if all(each.includes(pod.namespace, pod.labels, labels) for each in pod_sets):
                self._pod_set_counts.add(pod_sets, pod, 1)

    def _candidates(self, pod_sets: PodSets) -> Iterable[Pod]:
        """Return all pods that may be in all of these sets."""
        anchor = pod_affinity.anchor(pod_sets)
        if anchor is None:
            return self._everyone()
        named = self._named[anchor.key]
        return [
            pod for value in dict.fromkeys(anchor.values) for pod in named.get(value, {}).values()
        ]

    def _index(self, key: str) -> None:
        named: dict[str, dict[TaskId, Pod]] = {}
        for pod in self._everyone():
            self._work["residents"] += 1
            if key in pod.labels:
                named.setdefault(pod.labels[key], {})[pod.uid] = pod
        self._named[key] = named

    def _name(self, pod: Pod) -> None:
        for key, value in self._naming(pod):
            self._named[key].setdefault(value, {})[pod.uid] = pod

    def _unname(self, pod: Pod) -> None:
        for key, value in self._naming(pod):
            names = self._named[key][value]
            del names[pod.uid]
            if not names:
                del self._named[key][value]

    def _naming(self, pod: Pod) -> Iterable[tuple[str, str]]:
        """Return those labels of the pod that terms name, by way of the smaller of the two sets."""
        named, labels = self._named, pod.labels
        if len(named) < len(labels):
            return [(key, labels[key]) for key in named if key in labels]
        return [pair for pair in labels.items() if pair[0] in named]

    def _count_pod(self, pod: Pod, step: int) -> None:
        if self._pod_set_counts:
            labels = self._namespace_labels(pod.namespace)
            for pod_sets in self._pod_set_index.find(pod.namespace, pod.labels, labels):
                self._pod_set_counts.add(pod_sets, pod, step)
        for term in _terms_of(pod):
            self._term_counts.add(term, pod, step)

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        return pod_affinity.labels_of(name, self._namespaces)


def _has_terms(pod: Pod | None) -> bool:
    """Whether the pod has terms about other pods, whatever its status."""
    if pod is None:
        return False
    limits = pod.pod_class.constraints
    return bool(
        limits.pod_affinity or limits.pod_anti_affinity or limits.pod_preferred or limits.spread
    )


def _same(old: Pod, new: Pod) -> bool:
    """Whether nothing relevant for the counts changed."""
    return all(
        getattr(old, name) == getattr(new, name)
        for name in ("node", "holds_resources", "waits", "leaves", "labels")
    ) and (old.pod_class is new.pod_class or old.pod_class.constraints == new.pod_class.constraints)


def _pod_sets_counted_for(pod: Pod) -> Iterable[PodSets]:
    """Return the pod sets that the pod's terms count while the pod waits, without duplicates."""
    limits = pod.pod_class.constraints
    if limits is constraints.ANYWHERE or not pod.waits:
        return ()
    return dict.fromkeys(pod_affinity.counted_pod_sets(limits))


def _terms_of(pod: Pod) -> Iterable[AffinityTermOfPods]:
    """Return the affinity terms that the pod imposes on pods nearby, now or once placed, without
    duplicates.
    """
    limits = pod.pod_class.constraints
    if limits is constraints.ANYWHERE or not (pod.waits or pod.holds_resources):
        return ()
    return dict.fromkeys(pod_affinity.affinity_terms(limits))
