"""Kinds of pods: those that differ only in claims of their own, which ask for the same.

Each pod of a job has claims of its own, made from a template, and so a pod class of its own.
Whatever plugins and nodes say of one of them before its claims get devices, they say of all.
"""

import weakref
from collections.abc import Callable, Hashable

import msgspec
from msgspec.structs import replace

from vscheduler.core.claims.devices.claims import Needs
from vscheduler.core.model.jobs import PodClass

KIND_COST = 10
"""About how many microseconds it takes in each cycle to tell what kind the pods of a class are."""

TRAITS_MAX = 20_000
"""How many pods' traits are kept. When full, all are dropped."""


class PodKind(msgspec.Struct, frozen=True, eq=False):
    """A kind of pods."""

    first: PodClass
    """The first class of it that was asked about."""


class PodKinds:
    """The kinds of a cycle, as it begins."""

    def __init__(
        self,
        needs_of: Callable[[PodClass], Needs],
        kept: "KnownTraits",
        spend: Callable[[str, int], None],
    ) -> None:
        self._needs_of, self._kept, self._spend = needs_of, kept, spend
        self._kinds: dict[object, PodKind] = {}
        self._known: dict[PodClass, PodKind | None] = {}

    def of(self, pod_class: PodClass) -> PodKind | None:
        """Return the kind of these pods; None if they share a claim, or a claim can't be allocated.

        Pods of a kind whose claims have devices have them on the same nodes.
        """
        if pod_class not in self._known:
            self._spend("devices", KIND_COST)
            traits = self._kept.of(pod_class, self._needs_of(pod_class))
            self._known[pod_class] = (
                None if traits is None else self._kinds.setdefault(traits, PodKind(pod_class))
            )
        return self._known[pod_class]


class KnownTraits:
    """What stands for the traits of pods, kept from cycle to cycle: most waiting pods are as they
    were. It keeps no class alive.
    """

    def __init__(self) -> None:
        self._of: dict[Hashable, tuple[weakref.ref[PodClass], Needs, object]] = {}
        """By claims of the pod."""
        self._same: dict[Hashable, object] = {}

    def of(self, pod_class: PodClass, needs: Needs) -> object | None:
        """Return what stands for the traits; the same for pods of one kind, and None if a pod isn't
        like others.
        """
        uses = pod_class.constraints.resource_claims
        known = self._of.get(uses)
        if known is not None and known[0]() is pod_class and known[1] is needs:
            return known[2]
        if len(self._of) >= TRAITS_MAX:
            self._of.clear()
            self._same.clear()
        traits = _traits(pod_class, needs)
        found = None if traits is None else self._same.setdefault(traits, object())
        self._of[uses] = weakref.ref(pod_class), needs, found
        return found


def _traits(pod_class: PodClass, needs: Needs) -> Hashable:
    """Return all that decisions about a pod can depend on, but for the names of its claims."""
    limits = pod_class.constraints
    uses = limits.resource_claims
    if needs.problems or not all(use.owner for use in uses):
        return None
    if any(each.reserved_for for each in needs.open):
        return None
    if any(claim.extended and claim.uid for claim in needs.claims):
        return None  # it fits some nodes only
    places = [claim.allocation and (claim.allocation.nodes,) for claim in needs.claims]
    return (
        tuple(places),
        *(tuple(each.items()) for each in (pod_class.counted, pod_class.hints)),
        tuple(use.resources for use in uses),
        replace(limits, resource_claims=()),
        needs.shapes,
    )
