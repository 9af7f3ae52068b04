"""Masks over all nodes agree with asking one node after the other."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from vscheduler.model import constraints, nodes
from vscheduler.model.constraints import (
    Constraints,
    Effect,
    PreferredTerm,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from vscheduler.model.nodes import NodeLayout, NodeSpec

Operator = constraints.Operator
KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["", "x", "y", "-1", "0", "7", "+7", "07", "1.5", "9" * 19])
EFFECTS = st.sampled_from(list(Effect))
NAME = "metadata.name"

requirements = st.builds(
    Requirement,
    KEYS,
    st.sampled_from(list(Operator)),
    st.lists(VALUES, max_size=2).map(tuple),
)
fields = st.builds(
    Requirement,
    st.sampled_from([NAME, NAME, "metadata.uid"]),
    st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS]),
    st.lists(st.sampled_from(["n0", "n1", "n9"]), max_size=2).map(tuple),
)
terms = st.builds(
    Term,
    st.lists(requirements, max_size=2).map(tuple),
    st.lists(fields, max_size=1).map(tuple),
)
taints = st.builds(Taint, KEYS, VALUES, EFFECTS)
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", "a", "b"]),
    st.booleans(),
    VALUES,
    st.one_of(st.none(), EFFECTS),
)
specs = st.lists(
    st.tuples(
        st.dictionaries(KEYS, VALUES), st.lists(taints, max_size=3).map(tuple), st.booleans()
    ),
    max_size=5,
).map(
    lambda drawn: [
        NodeSpec(
            name=f"n{place}",
            labels=tuple(sorted(labels.items())),
            taints=marks,
            unschedulable=cordoned,
        )
        for place, (labels, marks, cordoned) in enumerate(drawn)
    ]
)
limits = st.builds(
    Constraints,
    node_selector=st.dictionaries(KEYS, VALUES, max_size=1).map(lambda it: tuple(it.items())),
    required=st.one_of(st.none(), st.lists(terms, max_size=2).map(tuple)),
    preferred=st.lists(st.builds(PreferredTerm, st.integers(1, 100), terms), max_size=2).map(tuple),
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
)


def number(text: str) -> int | None:
    """A decimal integer of 64 bits, or None."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or any(character not in "0123456789" for character in digits):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def holds(condition: Requirement, labels: Mapping[str, str]) -> bool:
    """One requirement on one node's labels, as Kubernetes' documentation tells it."""
    has, value, values = condition.key in labels, labels.get(condition.key, ""), condition.values
    simple = {
        Operator.IN: has and value in values,
        Operator.NOT_IN: bool(values) and not (has and value in values),
        Operator.EXISTS: not values and has,
        Operator.DOES_NOT_EXIST: not values and not has,
    }
    if condition.operator in simple:
        return simple[condition.operator]
    if len(values) != 1 or not has:
        return False
    left, right = number(value), number(values[0])
    if left is None or right is None:
        return False
    return left > right if condition.operator is Operator.GT else left < right


def holds_on_name(condition: Requirement, name: str) -> bool:
    """One requirement on one node's name."""
    if condition.key != NAME or len(condition.values) != 1:
        return False
    equal = condition.values == (name,)
    return {Operator.IN: equal, Operator.NOT_IN: not equal}.get(condition.operator, False)


def meets(term: Term, spec: NodeSpec) -> bool:
    """A term on one node."""
    return (
        bool(term.labels or term.fields)
        and all(holds(label, dict(spec.labels)) for label in term.labels)
        and all(holds_on_name(field, spec.name) for field in term.fields)
    )


@given(specs, limits)
def test_selected_nodes(there: list[NodeSpec], wanted: Constraints) -> None:
    """Selector and required affinity."""
    expected = [
        all(dict(spec.labels).get(key) == value for key, value in wanted.node_selector)
        and (wanted.required is None or any(meets(term, spec) for term in wanted.required))
        for spec in there
    ]
    layout = NodeLayout(there)
    assert nodes.selected(layout, wanted).tolist() == expected
    assert nodes.selected(layout, wanted).tolist() == expected


@given(specs, limits)
def test_preferred_nodes(there: list[NodeSpec], wanted: Constraints) -> None:
    """Summed weights."""
    expected = [
        sum(each.weight for each in wanted.preferred if meets(each.term, spec)) for spec in there
    ]
    assert nodes.preference(NodeLayout(there), wanted.preferred).tolist() == expected


@given(specs, limits)
def test_tainted_nodes(there: list[NodeSpec], wanted: Constraints) -> None:
    """The first taint that bars the pod, and how many only ask it to stay away."""
    layout = NodeLayout(there)
    barriers = nodes.barriers(layout, wanted.tolerations)
    counts = nodes.soft_taints(layout, wanted.tolerations).tolist()
    for row, spec in enumerate(there):
        left = [
            taint
            for taint in spec.taints
            if not any(toleration.tolerates(taint) for toleration in wanted.tolerations)
        ]
        soft = [taint for taint in left if taint.effect == "PreferNoSchedule"]
        hard = [taint for taint in left if taint not in soft]
        assert [taint for taint, mask in barriers.items() if not mask[row]] == hard[:1]
        assert counts[row] == len(soft)
