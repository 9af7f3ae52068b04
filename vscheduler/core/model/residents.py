"""Residents: how many pods are where, as far as a condition of some pod is about them.

Pods that ask for nearness to pods, distance from them or an even spread of them are few, and the
pods that they mean may be many, so what is kept is not the pods but their number: by what is asked
for and by node.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from vscheduler.core.model import constraints

Company: TypeAlias = tuple[constraints.PodSet, ...]
"""Pods that are in all of these sets: what a condition of a waiting pod is about."""

Seats: TypeAlias = Mapping[str, tuple[int, int]]
"""By node name: pods that stay, and pods that are being deleted; only nodes that have some."""

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that API servers give every namespace."""


class Bond(StrEnum):
    """What a condition that a pod carries with it means for pods that come later."""

    REPELS = "required anti-affinity: they may not come near"
    DRAWS = "required affinity: they would be company"
    LIKES = "preferred affinity, or with a weight below 0 anti-affinity"


@dataclass(frozen=True, slots=True)
class Tie:
    """A condition on other pods that pods carry with them to their node."""

    bond: Bond
    term: constraints.PodTerm
    weight: int = 0
    """Of a preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residents:
    """Counts of pods on nodes; shared with other snapshots, and never changed."""

    companies: Mapping[Company, Seats] = field(default_factory=dict)
    """Everything that conditions of our waiting pods are about."""
    ties: Mapping[Tie, Seats] = field(default_factory=dict)
    """Everything that pods on nodes, and our waiting pods, carry with them."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of namespaces by name."""

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        return labels_of(name, self.namespaces)


def labels_of(namespace: str, known: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """The labels of a namespace; one that nobody has shown has its name for a label."""
    found = known.get(namespace)
    return {NAME_LABEL: namespace} if found is None else found


NOBODY = Residents()
"""No pod has a condition on other pods."""


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


def ties(limits: constraints.Constraints) -> Iterator[Tie]:
    """What a pod with these conditions carries with it."""
    for term in limits.pod_anti_affinity:
        yield Tie(Bond.REPELS, term)
    for term in limits.pod_affinity:
        yield Tie(Bond.DRAWS, term)
    for preferred in limits.pod_preferred:
        yield Tie(Bond.LIKES, preferred.term, preferred.weight)


def anchor(sets: Company) -> constraints.Requirement | None:
    """A condition that names values of a label, which pods can be looked up by."""
    for pods in sets:
        for requirement in () if pods.labels is None else pods.labels.requirements:
            if requirement.operator is constraints.Operator.IN:
                return requirement
    return None


Item = TypeVar("Item", bound=Hashable)


class Finder(Generic[Item]):
    """Which of many conditions a pod could meet, found by its labels instead of one by one."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[Item, Company]] = {}
        self._general: dict[Item, Company] = {}

    def add(self, item: Item, sets: Company) -> None:
        """From now on it is found under these sets."""
        for found in self._places(sets):
            found[item] = sets

    def discard(self, item: Item, sets: Company) -> None:
        """It is found no more."""
        for found in self._places(sets):
            del found[item]
        for pair in _pairs(sets):
            if not self._by_label[pair]:
                del self._by_label[pair]

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

    def _places(self, sets: Company) -> Iterator[dict[Item, Company]]:
        if anchor(sets) is None:
            yield self._general
        for pair in _pairs(sets):
            yield self._by_label.setdefault(pair, {})


def _pairs(sets: Company) -> list[tuple[str, str]]:
    found = anchor(sets)
    return [] if found is None else [(found.key, value) for value in dict.fromkeys(found.values)]
