"""Kinds of pods: those that differ only in claims of their own, which ask for the same.

Each pod of a job has claims of its own, made from a template, and so a pod class of its own.
Whatever plugins and nodes say of one of them before its claims get devices, they say of all.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from vscheduler.core.model import jobs
from vscheduler.core.placement.devices import claims


@dataclass(frozen=True, slots=True, eq=False)
class PodKind:
    """A kind of pods."""

    first: jobs.PodClass
    """The first class of it that was asked about."""


class PodKinds:
    """The kinds of a cycle, as it begins."""

    def __init__(self, needs_of: Callable[[jobs.PodClass], claims.Needs]) -> None:
        self._needs_of = needs_of
        self._kinds: dict[Hashable, PodKind] = {}
        self._known: dict[jobs.PodClass, PodKind | None] = {}

    def of(self, pod_class: jobs.PodClass) -> PodKind | None:
        """Return the kind of these pods; None if they share a claim, or a claim has devices or
        can't be allocated.
        """
        if pod_class not in self._known:
            traits = self._traits(pod_class)
            self._known[pod_class] = (
                None if traits is None else self._kinds.setdefault(traits, PodKind(pod_class))
            )
        return self._known[pod_class]

    def _traits(self, pod_class: jobs.PodClass) -> Hashable:
        limits, needs = pod_class.constraints, self._needs_of(pod_class)
        if needs.problems or needs.elsewhere or len(needs.open) < len(needs.claims):
            return None
        uses = limits.resource_claims
        if not all(use.owner for use in uses) or any(each.reserved_for for each in needs.claims):
            return None
        return (
            *(tuple(each.items()) for each in (pod_class.counted, pod_class.hints)),
            tuple(use.resources for use in uses),
            replace(limits, resource_claims=()),
            needs.shapes,
        )
