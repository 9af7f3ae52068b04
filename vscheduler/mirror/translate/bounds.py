"""Upper bounds on the constraints of a pod, and on the size of pods and PodGroups.

Every constraint costs time in each cycle, and tenants may write as many constraints as an object
can hold. A waiting pod beyond a bound is refused with a message that names the bound. A pod with a
node can't be refused; pod_constraints.in_short decides how much of its constraints counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from vscheduler.mirror.decode.fields import FieldError
    from vscheduler.mirror.decode.wire import (
        Affinity,
        CompositePodGroup,
        LabelSelector,
        NativePodGroup,
        PodAffinityTerm,
        PodGroup,
        PodSpec,
        Requirement,
    )


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds per pod, or per PodGroup. Each field has a flag of equal name."""

    max_pod_affinity_terms: int = 10
    """Pod affinity and anti-affinity terms, required and preferred. Each costs about 30 us when its
    pod is read, before anybody can be charged for it, and up to 8 KiB."""
    max_pod_affinity_values: int = 50
    """Labels, expressions, values and namespaces in their selectors and in those of topology
    spread constraints. Each value that pods may have is looked up by itself, and costs 10 us."""
    max_pod_selector_values: int = 5000
    """Labels, expressions, values and namespaces in all selectors, plus node selector terms."""
    max_pod_topology_spreads: int = 10
    """Topology spread constraints."""
    max_pod_tolerations: int = 500
    """Tolerations."""
    max_pod_resources: int = 64
    """Resources named in requests: each adds a column to every node."""
    max_pod_bytes: int = 131_072
    """Size in bytes of the decoded part as JSON: containers without environment, conditions,
    labels.
    """
    max_podgroup_bytes: int = 131_072
    """Size in bytes of the decoded part of a PodGroup as JSON: metadata, spec and conditions."""

    def excess(self, spec: PodSpec) -> FieldError | None:
        """Return an error for the first exceeded bound of the constraints, or None."""
        affinity, spreads = spec.affinity, spec.topology_spread_constraints
        selects = affinity is not None or spreads or spec.node_selector
        if not selects and len(spec.tolerations) <= self.max_pod_tolerations:
            return None
        checks = [
            (len(spec.tolerations), "max_pod_tolerations", "tolerations", "spec.tolerations"),
            (
                len(spreads),
                "max_pod_topology_spreads",
                "topology spread constraints",
                "spec.topologySpreadConstraints",
            ),
            (
                _pod_terms_count(affinity),
                "max_pod_affinity_terms",
                "pod affinity terms",
                "spec.affinity",
            ),
        ]
        for count, bound, what, field in checks:
            if count > getattr(self, bound):
                return self._error(field, count, bound, what)
        if selects:
            values = pod_values(_pod_terms(affinity)) + _spread_values(spec)
            if values > self.max_pod_affinity_values:
                what = "values in its selectors of pods"
                return self._error("spec", values, "max_pod_affinity_values", what)
            values += node_values(spec)
            if values > self.max_pod_selector_values:
                what = "values in its selectors"
                return self._error("spec", values, "max_pod_selector_values", what)
        return None

    def check_size(self, size: int, labels: Mapping[str, str]) -> None:
        """Raise FieldError for a pod beyond max_pod_bytes; `size` is the size without labels."""
        size += sum(map(len, labels)) + sum(map(len, labels.values()))
        if size > self.max_pod_bytes:
            raise self._error("", size, "max_pod_bytes", "bytes")

    def check_group(self, group: PodGroup | NativePodGroup | CompositePodGroup) -> None:
        """Raise FieldError for a PodGroup beyond max_podgroup_bytes: all of it would be kept."""
        size = len(msgspec.json.encode(group))
        if size > self.max_podgroup_bytes:
            raise self._error("", size, "max_podgroup_bytes", "bytes")

    def check_resources(self, request: Mapping[str, int]) -> None:
        """Raise FieldError for a pod beyond max_pod_resources."""
        if len(request) > self.max_pod_resources:
            field = "spec.containers"
            raise self._error(field, len(request), "max_pod_resources", "resources")

    def _error(self, field: str, count: int, bound: str, what: str) -> FieldError:
        from vscheduler.mirror.decode import fields as errors  # noqa: PLC0415 - flags read defaults

        most = getattr(self, bound)
        verb = "is" if most == 1 else "are"
        asks = "has" if what == "bytes" else "asks for"
        return errors.FieldError(
            field, f"{asks} {count} {what}; at most {most} {verb} looked at ({flag(bound)})"
        )


DEFAULT = Bounds()
NAMES = Bounds.__struct_fields__


def flag(bound: str) -> str:
    """Return the flag that sets a bound."""
    return f"--{bound.replace('_', '-')}"


def node_values(spec: PodSpec) -> int:
    """Count the labels, terms, expressions and values in the pod's node selector and node
    affinity.
    """
    count = len(spec.node_selector)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None:
        return count
    terms = [preferred.preference for preferred in affinity.preferred]
    if affinity.required is not None:
        terms += affinity.required.node_selector_terms
    expressions = ((*term.match_expressions, *term.match_fields) for term in terms)
    return count + len(terms) + sum(map(_listed, expressions))


def pod_values(terms: Iterable[PodAffinityTerm]) -> int:
    """Count the labels, expressions, values and namespaces in pod affinity terms."""
    return sum(
        _selected(term.label_selector) + _selected(term.namespace_selector) + len(term.namespaces)
        for term in terms
    )


def _spread_values(spec: PodSpec) -> int:
    return sum(
        _selected(constraint.label_selector) for constraint in spec.topology_spread_constraints
    )


def _pod_terms(affinity: Affinity | None) -> list[PodAffinityTerm]:
    return [] if affinity is None else list(_each_pod_term(affinity))


def _pod_terms_count(affinity: Affinity | None) -> int:
    if affinity is None:
        return 0
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return sum(len(part.required) + len(part.preferred) for part in parts if part is not None)


def _each_pod_term(affinity: Affinity) -> Iterator[PodAffinityTerm]:
    for each in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if each is not None:
            yield from each.required
            yield from (preferred.pod_affinity_term for preferred in each.preferred)


def _selected(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + _listed(selector.match_expressions)


def _listed(expressions: Iterable[Requirement]) -> int:
    return sum(1 + len(expression.values) for expression in expressions)


def of(values: Mapping[str, Any]) -> Bounds:
    """Return Bounds with the values of the fields' names; further names are ignored."""
    return Bounds(**{name: values[name] for name in NAMES})
