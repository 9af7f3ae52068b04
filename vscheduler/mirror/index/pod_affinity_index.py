"""Index of pods by node for pod affinity and topology spread: the counts behind
core.model.pod_affinity.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from vscheduler.core.model import constraints, jobs, pod_affinity
from vscheduler.mirror.translate import pods

Item = TypeVar("Item", bound=Hashable)


class CountsByNode(Generic[Item]):
    """How many matching pods are on each node, for every item that has at least one holder."""

    def __init__(self) -> None:
        self._holders: Counter[Item] = Counter()
        self._counts: dict[Item, dict[str, tuple[int, int]]] = {}
        self._stale: set[Item] = set()
        self._frozen: dict[Item, pod_affinity.Seats] = {}

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

    def add(self, item: Item, pod: pods.Pod, step: int) -> None:
        """Count a matching pod that came to its node (step 1) or left (step -1)."""
        assert pod.node is not None
        counts = self._counts[item]
        staying, leaving = counts.get(pod.node, (0, 0))
        if pod.status is jobs.TaskStatus.RELEASING:
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

    def frozen(self) -> Mapping[Item, pod_affinity.Seats]:
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

    def __init__(self, work: Counter[str], everyone: Callable[[], Iterable[pods.Pod]]) -> None:
        self._work = work
        self._everyone = everyone
        """Returns all pods that hold room at present."""
        self._companies: CountsByNode[pod_affinity.Company] = CountsByNode()
        self._finder: pod_affinity.SelectorIndex[pod_affinity.Company] = (
            pod_affinity.SelectorIndex()
        )
        self._ties: CountsByNode[pod_affinity.AffinityTermOfPods] = CountsByNode()
        self._tie_finder: pod_affinity.SelectorIndex[pod_affinity.AffinityTermOfPods] = (
            pod_affinity.SelectorIndex()
        )
        self._named: dict[str, dict[str, dict[jobs.TaskId, pods.Pod]]] = {}
        """Pods that hold room, by label key and value, for label keys named in terms."""
        self._namers: Counter[str] = Counter()
        """How many companies are looked up by a label key."""
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._frozen = pod_affinity.NOBODY

    def move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
        """Apply a pod that came, changed or went. `everyone` must already reflect the change."""
        if old is not None and new is not None and _same(old, new):
            return
        if old is not None and old.holds_room:
            self._unname(old)
            self._count_pod(old, -1)
        if new is not None:
            self._hold(new)
            if new.holds_room:
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
        for company in self._companies.items():
            if any(pods.more_namespaces is not None for pods in company):
                self._companies.clear(company)
                self._count(company)

    def freeze(self) -> pod_affinity.PodAffinityIndex:
        """Return all counts; the last object again when nothing changed."""
        companies, ties = self._companies.frozen(), self._ties.frozen()
        last = self._frozen
        known = (last.companies, last.ties, last.namespaces)
        now = (companies, ties, self._namespaces)
        if any(before is not after for before, after in zip(known, now, strict=True)):
            self._frozen = pod_affinity.PodAffinityIndex(
                companies=companies,
                ties=ties,
                namespaces=self._namespaces,
                company_finder=self._finder.freeze(),
                tie_finder=self._tie_finder.freeze(),
            )
        return self._frozen

    def _hold(self, pod: pods.Pod) -> None:
        for company in _companies_of(pod):
            self._hold_company(company)
        for tie in _terms_of(pod):
            if self._ties.hold(tie):
                self._tie_finder.add(tie, (tie.term.pods,))

    def _release(self, pod: pods.Pod) -> None:
        for company in _companies_of(pod):
            self._release_company(company)
        for tie in _terms_of(pod):
            if self._ties.release(tie):
                self._tie_finder.discard(tie, (tie.term.pods,))

    def _hold_company(self, company: pod_affinity.Company) -> None:
        if self._companies.hold(company):
            self._finder.add(company, company)
            anchor = pod_affinity.anchor(company)
            if anchor is not None:
                self._namers[anchor.key] += 1
                if self._namers[anchor.key] == 1:
                    self._index(anchor.key)
            self._count(company)

    def _release_company(self, company: pod_affinity.Company) -> None:
        if self._companies.release(company):
            self._finder.discard(company, company)
            anchor = pod_affinity.anchor(company)
            if anchor is not None:
                self._namers[anchor.key] -= 1
                if not self._namers[anchor.key]:
                    del self._namers[anchor.key], self._named[anchor.key]

    def _count(self, company: pod_affinity.Company) -> None:
        for pod in self._candidates(company):
            self._work["residents"] += 1
            labels = self._namespace_labels(pod.namespace)
            if all(each.includes(pod.namespace, pod.labels, labels) for each in company):
                self._companies.add(company, pod, 1)

    def _candidates(self, company: pod_affinity.Company) -> Iterable[pods.Pod]:
        """Return all pods that may match the company."""
        anchor = pod_affinity.anchor(company)
        if anchor is None:
            return self._everyone()
        named = self._named[anchor.key]
        return [
            pod for value in dict.fromkeys(anchor.values) for pod in named.get(value, {}).values()
        ]

    def _index(self, key: str) -> None:
        named: dict[str, dict[jobs.TaskId, pods.Pod]] = {}
        for pod in self._everyone():
            self._work["residents"] += 1
            if key in pod.labels:
                named.setdefault(pod.labels[key], {})[pod.uid] = pod
        self._named[key] = named

    def _name(self, pod: pods.Pod) -> None:
        for key, value in self._naming(pod):
            self._named[key].setdefault(value, {})[pod.uid] = pod

    def _unname(self, pod: pods.Pod) -> None:
        for key, value in self._naming(pod):
            found = self._named[key][value]
            del found[pod.uid]
            if not found:
                del self._named[key][value]

    def _naming(self, pod: pods.Pod) -> Iterable[tuple[str, str]]:
        """Return those labels of the pod that terms name, by way of the smaller of the two sets."""
        named, labels = self._named, pod.labels
        if len(named) < len(labels):
            return [(key, labels[key]) for key in named if key in labels]
        return [pair for pair in labels.items() if pair[0] in named]

    def _count_pod(self, pod: pods.Pod, step: int) -> None:
        if self._companies:
            labels = self._namespace_labels(pod.namespace)
            for company in self._finder.find(pod.namespace, pod.labels, labels):
                self._companies.add(company, pod, step)
        for tie in _terms_of(pod):
            self._ties.add(tie, pod, step)

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        return pod_affinity.labels_of(name, self._namespaces)


def _same(old: pods.Pod, new: pods.Pod) -> bool:
    """Whether nothing relevant for the counts changed."""
    return all(
        getattr(old, name) == getattr(new, name)
        for name in ("node", "holds_room", "waits", "leaves", "labels")
    ) and (old.kind is new.kind or old.kind.constraints == new.kind.constraints)


def _companies_of(pod: pods.Pod) -> Iterable[pod_affinity.Company]:
    """Return the companies that the pod's terms count while the pod waits, without duplicates."""
    limits = pod.kind.constraints
    if limits is constraints.ANYWHERE or not pod.waits:
        return ()
    return dict.fromkeys(pod_affinity.companies(limits))


def _terms_of(pod: pods.Pod) -> Iterable[pod_affinity.AffinityTermOfPods]:
    """Return the affinity terms that the pod imposes on pods nearby, now or once placed, without
    duplicates.
    """
    limits = pod.kind.constraints
    if limits is constraints.ANYWHERE or not (pod.waits or pod.holds_room):
        return ()
    return dict.fromkeys(pod_affinity.ties(limits))
