"""Index for pod affinity and topology spread: pod counts by pod set and node.

Few pods have affinity terms or spread constraints, but the terms may match many pods. The index
therefore keeps counts by term and node instead of the pods themselves.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Generic, TypeAlias, TypeVar

import msgspec

from vscheduler.model.constraints import Constraints, Operator, PodSet, PodTerm, Requirement

PodSets: TypeAlias = tuple[PodSet, ...]
"""The pods that are in all of these sets: the pods counted by an affinity term or spread
constraint."""

PodsByNode: TypeAlias = Mapping[str, tuple[int, int]]
"""By node name, the number of staying pods and of pods being deleted. Nodes without any are left
out."""

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label set by API servers on every namespace."""


class PodPresence(IntEnum):
    """The state of a pod on its node, used as an index into counts."""

    STAYING = 0
    LEAVING = 1
    """The pod is being deleted, or was chosen for eviction."""
    COMING = 2
    """The pod waits for resources being freed on the node."""
    RESERVED = 3
    """Resources are reserved for a replacement that doesn't exist yet, and may never. It only
    counts for anti-affinity, which would keep the replacement out."""


LASTING = (PodPresence.STAYING, PodPresence.COMING)
"""Pods that will be there later."""

EXISTING = (PodPresence.STAYING, PodPresence.LEAVING, PodPresence.COMING)
"""Pods there are, unlike replacements that resources are reserved for."""


class AffinityEffect(StrEnum):
    """The effect of a placed pod's term on pods placed later."""

    REPELS = "required anti-affinity: excludes them from the domain"
    DRAWS = "required affinity: attracts them to the domain"
    LIKES = "preferred affinity, or with a weight below 0 anti-affinity"


class AffinityTermOfPods(msgspec.Struct, frozen=True, cache_hash=True):
    """A pod affinity term of pods already placed, which affects pods placed later."""

    effect: AffinityEffect
    term: PodTerm
    weight: int = 0
    """Weight of a preferred term, else 0."""


def labels_of(namespace: str, known: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """Return the labels of a namespace. For an unknown namespace, return only its name label."""
    found = known.get(namespace)
    return {NAME_LABEL: namespace} if found is None else found


def counted_pod_sets(limits: Constraints) -> Iterator[PodSets]:
    """Yield the pod sets counted for these constraints."""
    if limits.pod_affinity:
        yield pod_sets_of(limits.pod_affinity)
    for term in limits.pod_anti_affinity:
        yield (term.pods,)
    for preferred in limits.pod_preferred:
        yield (preferred.term.pods,)
    for spread in limits.spread:
        yield (spread.pods,)


def pod_sets_of(terms: Iterable[PodTerm]) -> PodSets:
    """Return the pod sets of all terms, without duplicates."""
    return tuple(dict.fromkeys(term.pods for term in terms))


def affinity_terms(limits: Constraints) -> Iterator[AffinityTermOfPods]:
    """Yield the terms by which a pod with these constraints affects later pods."""
    for term in limits.pod_anti_affinity:
        yield AffinityTermOfPods(AffinityEffect.REPELS, term)
    for term in limits.pod_affinity:
        yield AffinityTermOfPods(AffinityEffect.DRAWS, term)
    for preferred in limits.pod_preferred:
        yield AffinityTermOfPods(AffinityEffect.LIKES, preferred.term, preferred.weight)


def anchor(pod_sets: PodSets) -> Requirement | None:
    """Return an In requirement for looking up pods by label value, or None."""
    for pods in pod_sets:
        for requirement in () if pods.labels is None else pods.labels.requirements:
            if requirement.operator is Operator.IN:
                return requirement
    return None


Item = TypeVar("Item", bound=Hashable)


class SelectorIndex(Generic[Item]):
    """Finds the pod sets that contain a pod by the pod's labels, instead of testing each set."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[Item, PodSets]] = {}
        self._general: dict[Item, PodSets] = {}
        self._named: Counter[str] = Counter()
        """How many pod sets refer to each label key."""
        self._stale: set[tuple[str, str]] = set()
        self._frozen: SelectorIndex[Item] | None = None

    def add(self, item: Item, pod_sets: PodSets) -> None:
        """Add an item under these pod sets."""
        for found in self._places(pod_sets):
            found[item] = pod_sets
        self._named.update(_named(pod_sets))

    def discard(self, item: Item, pod_sets: PodSets) -> None:
        """Remove an item."""
        for found in self._places(pod_sets):
            del found[item]
        for pair in _pairs(pod_sets):
            if not self._by_label[pair]:
                del self._by_label[pair]
        for key in _named(pod_sets):
            self._named[key] -= 1
            if not self._named[key]:
                del self._named[key]

    def find(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> list[Item]:
        """Return the items whose pod sets all contain a pod with these labels in this namespace."""
        near: list[Mapping[Item, PodSets]] = [self._general] if self._general else []
        if self._by_label:
            near += [self._by_label[pair] for pair in labels.items() if pair in self._by_label]
        return [
            item
            for found in near
            for item, sets in found.items()
            if all(each.includes(namespace, labels, namespace_labels) for each in sets)
        ]

    def names(self, key: str) -> bool:
        """Whether any pod set refers to this label key.

        All other labels have no influence on results.
        """
        return key in self._named

    def freeze(self) -> "SelectorIndex[Item]":
        """Return an immutable copy, which shares unchanged parts with the previous copy.

        Without changes, the previous copy is returned.
        """
        last = self._frozen
        if last is not None and not self._stale:
            return last
        copy: SelectorIndex[Item] = SelectorIndex()
        copy._named = self._named.copy()
        copy._general = dict(self._general)
        copy._by_label = {} if last is None else dict(last._by_label)  # noqa: SLF001 - same class
        for pair in self._stale:
            found = self._by_label.get(pair)
            if found:
                copy._by_label[pair] = dict(found)
            else:
                copy._by_label.pop(pair, None)
        self._stale.clear()
        self._frozen = copy
        return copy

    def _places(self, pod_sets: PodSets) -> Iterator[dict[Item, PodSets]]:
        pairs = _pairs(pod_sets)
        if not pairs:
            self._stale.add(("", ""))
            yield self._general
        for pair in pairs:
            self._stale.add(pair)
            yield self._by_label.setdefault(pair, {})


def _named(pod_sets: PodSets) -> Iterator[str]:
    for pods in pod_sets:
        for requirement in () if pods.labels is None else pods.labels.requirements:
            yield requirement.key


def _pairs(pod_sets: PodSets) -> list[tuple[str, str]]:
    found = anchor(pod_sets)
    return [] if found is None else [(found.key, value) for value in dict.fromkeys(found.values)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinityIndex:
    """Pod counts per node. Immutable, and shared between snapshots."""

    pod_set_counts: Mapping[PodSets, PodsByNode] = field(default_factory=dict)
    """Counts of the pods named in constraints of this scheduler's waiting pods."""
    term_counts: Mapping[AffinityTermOfPods, PodsByNode] = field(default_factory=dict)
    """Counts of the pods with a term, for terms of placed pods and of this scheduler's waiting
    pods."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of namespaces, by name."""

    pod_set_index: SelectorIndex[PodSets] = field(
        default_factory=SelectorIndex, compare=False, repr=False
    )
    """Finds the keys of `pod_set_counts` that count a given pod."""
    term_index: SelectorIndex[AffinityTermOfPods] = field(
        default_factory=SelectorIndex, compare=False, repr=False
    )
    """Finds the keys of `term_counts` that apply to a given pod."""

    def names(self, label: str) -> bool:
        """Whether any pod affinity term or spread constraint refers to this label key."""
        return self.pod_set_index.names(label) or self.term_index.names(label)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace."""
        return labels_of(name, self.namespaces)


NOBODY = PodAffinityIndex()
"""An empty index: no pod has constraints on other pods."""
