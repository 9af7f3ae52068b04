"""Bounds: how much one pod may ask for before it isn't looked at any more.

Every condition costs time in each cycle, and a tenant may write as many as an object holds. A pod
that waits and asks for more is refused, and told which bound it is. One that has a node can't be
refused: what counts of its conditions is in pod_constraints.in_short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vscheduler.mirror.decode import fields as errors
    from vscheduler.mirror.decode import wire, wire_terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most that is looked at, of one pod; each field has a flag of its name."""

    max_pod_affinity_terms: int = 100
    """Terms of pod affinity and anti-affinity, required and preferred."""
    max_pod_selector_values: int = 5000
    """Labels, expressions, values and namespaces that all its selectors list, and node selector
    terms."""
    max_pod_topology_spreads: int = 50
    """Topology spread constraints."""
    max_pod_tolerations: int = 500
    """Tolerations."""
    max_pod_resources: int = 64
    """Resources that it names in its requests: each is a column of every node."""
    max_pod_bytes: int = 131_072
    """Size of what is read of it: containers without environment, conditions, labels; as JSON."""

    def excess(self, spec: wire.PodSpec) -> errors.FieldError | None:
        """What of the pod's conditions is more than is looked at; None: all can be."""
        affinity = spec.affinity
        checks = [
            (len(spec.tolerations), "max_pod_tolerations", "tolerations", "spec.tolerations"),
            (
                len(spec.topology_spread_constraints),
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
        if affinity is not None or spec.node_selector or spec.topology_spread_constraints:
            values = node_values(spec) + pod_values(_pod_terms(affinity)) + _spread_values(spec)
            if values > self.max_pod_selector_values:
                what = "values in its selectors"
                return self._error("spec", values, "max_pod_selector_values", what)
        return None

    def check_size(self, size: int, labels: Mapping[str, str]) -> None:
        """FieldError for a pod of which more is to be read; size is that of all but labels."""
        size += sum(map(len, labels)) + sum(map(len, labels.values()))
        if size > self.max_pod_bytes:
            raise self._error("", size, "max_pod_bytes", "bytes")

    def check_resources(self, request: Mapping[str, int]) -> None:
        """FieldError for a pod that names more resources."""
        if len(request) > self.max_pod_resources:
            field = "spec.containers"
            raise self._error(field, len(request), "max_pod_resources", "resources")

    def _error(self, field: str, count: int, bound: str, what: str) -> errors.FieldError:
        from vscheduler.mirror.decode import fields as errors  # noqa: PLC0415 - flags read defaults

        most = getattr(self, bound)
        verb = "is" if most == 1 else "are"
        return errors.FieldError(
            field, f"asks for {count} {what}; at most {most} {verb} looked at ({flag(bound)})"
        )


DEFAULT = Bounds()
NAMES = tuple(field.name for field in fields(Bounds))


def flag(bound: str) -> str:
    """The flag that sets a bound."""
    return f"--{bound.replace('_', '-')}"


def node_values(spec: wire.PodSpec) -> int:
    """How much the pod's conditions on nodes list."""
    count = len(spec.node_selector)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None:
        return count
    terms = [preferred.preference for preferred in affinity.preferred]
    if affinity.required is not None:
        terms += affinity.required.node_selector_terms
    listed = ((*term.match_expressions, *term.match_fields) for term in terms)
    return count + len(terms) + sum(map(_listed, listed))


def pod_values(terms: Iterable[wire_terms.PodAffinityTerm]) -> int:
    """How much the selectors of these terms list."""
    return sum(
        _selected(term.label_selector) + _selected(term.namespace_selector) + len(term.namespaces)
        for term in terms
    )


def _spread_values(spec: wire.PodSpec) -> int:
    return sum(_selected(each.label_selector) for each in spec.topology_spread_constraints)


def _pod_terms(affinity: wire_terms.Affinity | None) -> list[wire_terms.PodAffinityTerm]:
    return [] if affinity is None else list(_each_pod_term(affinity))


def _pod_terms_count(affinity: wire_terms.Affinity | None) -> int:
    if affinity is None:
        return 0
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return sum(len(each.required) + len(each.preferred) for each in parts if each is not None)


def _each_pod_term(affinity: wire_terms.Affinity) -> Iterator[wire_terms.PodAffinityTerm]:
    for each in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if each is not None:
            yield from each.required
            yield from (preferred.pod_affinity_term for preferred in each.preferred)


def _selected(selector: wire_terms.LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + _listed(selector.match_expressions)


def _listed(expressions: Iterable[wire_terms.Requirement]) -> int:
    return sum(1 + len(each.values) for each in expressions)


def of(values: Mapping[str, Any]) -> Bounds:
    """Out of these values by name, whatever else is among them."""
    return Bounds(**{name: values[name] for name in NAMES})
