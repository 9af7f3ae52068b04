"""Residents: how many pods are where, as far as a condition of some pod is about them.

Pods that ask for nearness to pods, distance from them or an even spread of them are few, and the
pods that they mean may be many, so what is kept is not the pods but their number: by what is asked
for and by node.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Generic, TypeAlias, TypeVar

from vscheduler.core.model import constraints

Company: TypeAlias = tuple[constraints.PodSet, ...]
"""Pods that are in all of these sets: what a condition of a waiting pod is about."""

Seats: TypeAlias = Mapping[str, tuple[int, int]]
"""By node name: pods that stay, and pods that are being deleted; only nodes that have some."""

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that API servers give every namespace."""


class Seat(IntEnum):
    """How a pod stands on its node: an index into counts."""

    STAYING = 0
    LEAVING = 1
    """The pod is being deleted, or was chosen to be evicted."""
    PROMISED = 2
    """The pod waits for room there that is being freed."""


class AffinityKind(StrEnum):
    """What a condition that a pod carries with it means for pods that come later."""

    REPELS = "required anti-affinity: they may not come near"
    DRAWS = "required affinity: they would be company"
    LIKES = "preferred affinity, or with a weight below 0 anti-affinity"


@constraints.hashed_once
@dataclass(frozen=True, slots=True)
class AffinityTermOfPods(constraints.Hashed):
    """A condition on other pods that pods carry with them to their node."""

    bond: AffinityKind
    term: constraints.PodTerm
    weight: int = 0
    """Of a preference."""


def labels_of(namespace: str, known: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """The labels of a namespace; one that nobody has shown has its name for a label."""
    found = known.get(namespace)
    return {NAME_LABEL: namespace} if found is None else found


def companies(limits: constraints.Constraints) -> Iterator[Company]:
    """What these conditions ask about the pods on nodes."""
    if limits.pod_affinity:
        yield company(limits.pod_affinity)
    for term in limits.pod_anti_affinity:
        yield (term.pods,)
    for preferred in limits.pod_preferred:
        yield (preferred.term.pods,)
    for spread in limits.spread:
        yield (spread.pods,)


def company(terms: Iterable[constraints.PodTerm]) -> Company:
    """Pods that all of these terms are about."""
    return tuple(dict.fromkeys(term.pods for term in terms))


def ties(limits: constraints.Constraints) -> Iterator[AffinityTermOfPods]:
    """What a pod with these conditions carries with it."""
    for term in limits.pod_anti_affinity:
        yield AffinityTermOfPods(AffinityKind.REPELS, term)
    for term in limits.pod_affinity:
        yield AffinityTermOfPods(AffinityKind.DRAWS, term)
    for preferred in limits.pod_preferred:
        yield AffinityTermOfPods(AffinityKind.LIKES, preferred.term, preferred.weight)


def anchor(sets: Company) -> constraints.Requirement | None:
    """A condition that names values of a label, which pods can be looked up by."""
    for pods in sets:
        for requirement in () if pods.labels is None else pods.labels.requirements:
            if requirement.operator is constraints.Operator.IN:
                return requirement
    return None


Item = TypeVar("Item", bound=Hashable)


class SelectorIndex(Generic[Item]):
    """Which of many conditions a pod could meet, found by its labels instead of one by one."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[Item, Company]] = {}
        self._general: dict[Item, Company] = {}
        self._named: Counter[str] = Counter()
        """How many conditions name a label."""
        self._stale: set[tuple[str, str]] = set()
        self._frozen: SelectorIndex[Item] | None = None

    def add(self, item: Item, sets: Company) -> None:
        """From now on it is found under these sets."""
        for found in self._places(sets):
            found[item] = sets
        self._named.update(_named(sets))

    def discard(self, item: Item, sets: Company) -> None:
        """It is found no more."""
        for found in self._places(sets):
            del found[item]
        for pair in _pairs(sets):
            if not self._by_label[pair]:
                del self._by_label[pair]
        for key in _named(sets):
            self._named[key] -= 1
            if not self._named[key]:
                del self._named[key]

    def find(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> list[Item]:
        """Those that have a pod with these labels in this namespace in all of their sets."""
        near: list[Mapping[Item, Company]] = [self._general] if self._general else []
        if self._by_label:
            near += [self._by_label[pair] for pair in labels.items() if pair in self._by_label]
        return [
            item
            for found in near
            for item, sets in found.items()
            if all(each.includes(namespace, labels, namespace_labels) for each in sets)
        ]

    def names(self, key: str) -> bool:
        """Whether any condition names this label: of all others no answer depends."""
        return key in self._named

    def freeze(self) -> "SelectorIndex[Item]":
        """A copy that stays as it is; the last one again where nothing changed, and what didn't
        change is shared with it.
        """
        last = self._frozen
        if last is not None and not self._stale:
            return last
        copy: SelectorIndex[Item] = SelectorIndex()
        copy._named = self._named.copy()
        copy._general = dict(self._general)
        copy._by_label = {} if last is None else dict(last._by_label)  # noqa: SLF001 - one of its own
        for pair in self._stale:
            found = self._by_label.get(pair)
            if found:
                copy._by_label[pair] = dict(found)
            else:
                copy._by_label.pop(pair, None)
        self._stale.clear()
        self._frozen = copy
        return copy

    def _places(self, sets: Company) -> Iterator[dict[Item, Company]]:
        pairs = _pairs(sets)
        if not pairs:
            self._stale.add(("", ""))
            yield self._general
        for pair in pairs:
            self._stale.add(pair)
            yield self._by_label.setdefault(pair, {})


def _named(sets: Company) -> Iterator[str]:
    for pods in sets:
        for requirement in () if pods.labels is None else pods.labels.requirements:
            yield requirement.key


def _pairs(sets: Company) -> list[tuple[str, str]]:
    found = anchor(sets)
    return [] if found is None else [(found.key, value) for value in dict.fromkeys(found.values)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinityIndex:
    """Counts of pods on nodes; shared with other snapshots, and never changed."""

    companies: Mapping[Company, Seats] = field(default_factory=dict)
    """Everything that conditions of our waiting pods are about."""
    ties: Mapping[AffinityTermOfPods, Seats] = field(default_factory=dict)
    """Everything that pods on nodes, and our waiting pods, carry with them."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of namespaces by name."""

    company_finder: SelectorIndex[Company] = field(
        default_factory=SelectorIndex, compare=False, repr=False
    )
    """Which of the companies a pod is of."""
    tie_finder: SelectorIndex[AffinityTermOfPods] = field(
        default_factory=SelectorIndex, compare=False, repr=False
    )
    """Which of the ties are about a pod."""

    def names(self, label: str) -> bool:
        """Whether any condition on pods names this label."""
        return self.company_finder.names(label) or self.tie_finder.names(label)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        return labels_of(name, self.namespaces)


NOBODY = PodAffinityIndex()
"""No pod has a condition on other pods."""
