"""Constraints worked out on all nodes at once: one answer per node of a NodeLayout.

Whatever depends only on the nodes' specs is remembered by the layout, under the part of the
constraints that it follows from.
"""

import re
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import constraints, nodes

Operator = constraints.Operator

NAME_FIELD = "metadata.name"
"""The only field that a matchFields requirement may name."""

CORDON = constraints.Taint("node.kubernetes.io/unschedulable", "", constraints.Effect.NO_SCHEDULE)
"""Who tolerates this may use cordoned nodes (Kubernetes: NodeUnschedulable)."""

REPELLING = (constraints.Effect.NO_SCHEDULE, constraints.Effect.NO_EXECUTE)

INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
INTEGER_MAX = 2**63 - 1

Test = Callable[[str | None], bool]
"""Whether a label's value passes; None stands for a node without the label."""


def selected(layout: nodes.NodeLayout, limits: constraints.Constraints) -> nodes.Mask:
    """Nodes that the pod's nodeSelector and its required node affinity allow, (N,).

    Kubernetes: component-helpers nodeaffinity.RequiredNodeAffinity.
    """
    selector, required = limits.node_selector, limits.required

    def compute() -> nodes.Mask:
        mask = np.ones(layout.size, dtype=np.bool_)
        for key, value in selector:
            mask &= _on_label(layout, key, _equals(value))
        if required is not None:
            mask &= _any_term(layout, required)
        return mask

    return layout.memo(("selected", selector, required), compute)


def featured(layout: nodes.NodeLayout, features: tuple[str, ...]) -> nodes.Mask:
    """Nodes that say they have all of these features, (N,).

    Kubernetes: NodeDeclaredFeatures.
    """
    needed = frozenset(features)

    def compute() -> nodes.Mask:
        answers = [needed.issubset(spec.features) for spec in layout.specs]
        return np.array(answers, dtype=np.bool_)

    return layout.memo(("features", features), compute)


def matches(layout: nodes.NodeLayout, term: constraints.Term) -> nodes.Mask:
    """Nodes that meet all conditions of a term, (N,); none when it has none."""

    def compute() -> nodes.Mask:
        mask = np.full(layout.size, bool(term.labels or term.fields), dtype=np.bool_)
        for requirement in term.labels:
            mask &= _on_label(layout, requirement.key, _label_test(requirement))
        for requirement in term.fields:
            mask &= _on_field(layout, requirement)
        return mask

    return layout.memo(("term", term), compute)


def preference(
    layout: nodes.NodeLayout, preferred: tuple[constraints.PreferredTerm, ...]
) -> NDArray[np.float64]:
    """The summed weights of the preferred terms that each node meets, (N,)."""
    total = np.zeros(layout.size)
    for each in preferred:
        total += each.weight * matches(layout, each.term)
    return total


def barriers(
    layout: nodes.NodeLayout, tolerations: tuple[constraints.Toleration, ...]
) -> Mapping[constraints.Taint, nodes.Mask]:
    """The taints that keep the pod away, each with the nodes (N,) that it does not keep it from.

    A node counts for the first taint in its list that repels and isn't tolerated (Kubernetes:
    FindMatchingUntoleratedTaint).
    """
    found: dict[constraints.Taint, nodes.Mask] = {}
    for taints, rows in layout.taint_sets.items():
        taint = next(
            (each for each in taints if each.effect in REPELLING and _bars(each, tolerations)), None
        )
        if taint is not None:
            if taint not in found:
                found[taint] = np.ones(layout.size, dtype=np.bool_)
            found[taint][rows] = False
    return found


def soft_taints(
    layout: nodes.NodeLayout, tolerations: tuple[constraints.Toleration, ...]
) -> NDArray[np.int64]:
    """How many PreferNoSchedule taints of each node the pod doesn't tolerate, (N,).

    Tolerations for other effects don't count (Kubernetes: getAllTolerationPreferNoSchedule).
    """
    counts = np.zeros(layout.size, dtype=np.int64)
    soft = constraints.Effect.PREFER_NO_SCHEDULE
    for taints, rows in layout.taint_sets.items():
        counts[rows] = sum(taint.effect is soft and _bars(taint, tolerations) for taint in taints)
    return counts


def uncordoned(
    layout: nodes.NodeLayout, tolerations: tuple[constraints.Toleration, ...]
) -> nodes.Mask:
    """Nodes that aren't cordoned, or all if the pod tolerates that, (N,)."""
    if _bars(CORDON, tolerations):
        return layout.schedulable
    return layout.memo("all", lambda: np.ones(layout.size, dtype=np.bool_))


def still_takes(
    before: nodes.NodeSpec, now: nodes.NodeSpec, tolerations: tuple[constraints.Toleration, ...]
) -> bool:
    """Whether a node is ready, and wasn't cordoned since for pods with these tolerations."""
    cordoned = now.unschedulable and not before.unschedulable
    return now.ready and not (cordoned and _bars(CORDON, tolerations))


def free_ports(
    layout: nodes.NodeLayout,
    rows: NDArray[np.int64] | None,
    wanted: tuple[constraints.HostPort, ...],
    taken: Mapping[str, tuple[constraints.HostPort, ...]],
) -> nodes.Mask:
    """Which of these rows (None: all) have all wanted host ports free, (n,).

    taken is by node name. It changes within a cycle, so nothing is remembered.
    """
    names = layout.names if rows is None else [layout.names[row] for row in rows.tolist()]
    return np.array(
        [
            name not in taken
            or not any(port.conflicts(other) for port in wanted for other in taken[name])
            for name in names
        ],
        dtype=np.bool_,
    )


def _bars(taint: constraints.Taint, tolerations: tuple[constraints.Toleration, ...]) -> bool:
    return not any(toleration.tolerates(taint) for toleration in tolerations)


def _any_term(layout: nodes.NodeLayout, terms: tuple[constraints.Term, ...]) -> nodes.Mask:
    mask = np.zeros(layout.size, dtype=np.bool_)
    for term in terms:
        mask |= matches(layout, term)
    return mask


def _on_label(layout: nodes.NodeLayout, key: str, test: Test) -> nodes.Mask:
    """Ask once for each value that the label has, and once for nodes without it."""
    column, codes = layout.label(key)
    answers = np.zeros(len(codes) + 1, dtype=np.bool_)
    for value, code in codes.items():
        answers[code] = test(value)
    answers[-1] = test(None)  # a node without the label has code -1
    return answers[column]


def _on_field(layout: nodes.NodeLayout, requirement: constraints.Requirement) -> nodes.Mask:
    """Kubernetes takes exactly one value, In or NotIn, and the field metadata.name only."""
    mask = np.zeros(layout.size, dtype=np.bool_)
    if requirement.key != NAME_FIELD or len(requirement.values) != 1:
        return mask
    if requirement.operator not in (Operator.IN, Operator.NOT_IN):
        return mask
    row = layout.rows.get(requirement.values[0])
    if row is not None:
        mask[row] = True
    return mask if requirement.operator is Operator.IN else ~mask


def _equals(value: str) -> Test:
    return lambda label: label == value


def _label_test(requirement: constraints.Requirement) -> Test:
    """Kubernetes: labels.Requirement.Matches; one that its NewRequirement refuses matches nothing.

    NotIn also matches nodes without the label; Gt and Lt want integers on both sides.
    """
    values, operator = requirement.values, requirement.operator
    if operator in (Operator.GT, Operator.LT):
        return _number_test(requirement)
    if bool(values) is not (operator in (Operator.IN, Operator.NOT_IN)):
        return lambda _: False
    match operator:
        case Operator.IN:
            return frozenset(values).__contains__
        case Operator.NOT_IN:
            listed = frozenset(values)
            return lambda label: label not in listed
        case Operator.EXISTS:
            return lambda label: label is not None
    return lambda label: label is None


def _number_test(requirement: constraints.Requirement) -> Test:
    bound = _integer(requirement.values[0]) if len(requirement.values) == 1 else None
    above = requirement.operator is Operator.GT

    def test(label: str | None) -> bool:
        number = _integer(label)
        if bound is None or number is None:
            return False
        return number > bound if above else number < bound

    return test


def _integer(text: str | None) -> int | None:
    """As Go's ParseInt reads it: decimal, 64 bits."""
    if text is None or len(text) > 100 or not INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -INTEGER_MAX - 1 <= number <= INTEGER_MAX else None
