import numpy as np
import pytest

from vscheduler.model import constraints, nodes
from vscheduler.model.constraints import (
    Constraints,
    HostPort,
    PreferredTerm,
    Requirement,
    Taint,
    Term,
)
from vscheduler.model.nodes import Mask, NodeLayout, NodeSpec

Operator = constraints.Operator
Effect = constraints.Effect
NAMES = ("n1", "n2", "n3", "n4")


def layout() -> NodeLayout:
    """Four nodes: n1 has text, n2 a number, n3 a negative one, n4 no label at all."""
    specs = [
        NodeSpec(name="n1", labels=(("k", "a"), ("zone", "z"))),
        NodeSpec(name="n2", labels=(("k", "10"), ("zone", "z"))),
        NodeSpec(name="n3", labels=(("k", "-3"),)),
        NodeSpec(name="n4"),
    ]
    return NodeLayout(specs)


def chosen(mask: Mask) -> str:
    """The names of the nodes that pass, without their n."""
    return "".join(name[1:] for name, passes in zip(NAMES, mask.tolist(), strict=True) if passes)


def requirement(key: str, operator: Operator, *values: str) -> Requirement:
    """One condition."""
    return Requirement(key, operator, values)


LABELS = {
    "In": (requirement("k", Operator.IN, "a", "10"), "12"),
    "In, a value that no node has": (requirement("k", Operator.IN, "b"), ""),
    "In, without values: invalid": (requirement("k", Operator.IN), ""),
    "NotIn also matches nodes without the label": (requirement("k", Operator.NOT_IN, "a"), "234"),
    "NotIn, without values: invalid": (requirement("k", Operator.NOT_IN), ""),
    "Exists": (requirement("k", Operator.EXISTS), "123"),
    "Exists, with a value: invalid": (requirement("k", Operator.EXISTS, "a"), ""),
    "DoesNotExist": (requirement("k", Operator.DOES_NOT_EXIST), "4"),
    "a label that no node has": (requirement("x", Operator.DOES_NOT_EXIST), "1234"),
    "Gt compares numbers, and skips text and nodes without the label": (
        requirement("k", Operator.GT, "9"),
        "2",
    ),
    "Gt is strict": (requirement("k", Operator.GT, "10"), ""),
    "Lt": (requirement("k", Operator.LT, "+9"), "3"),
    "Gt with two values: invalid": (requirement("k", Operator.GT, "1", "2"), ""),
    "Gt without an integer: invalid": (requirement("k", Operator.GT, "1.5"), ""),
    "Gt beyond 64 bits: invalid": (requirement("k", Operator.LT, str(2**63)), ""),
}


@pytest.mark.parametrize(("condition", "names"), LABELS.values(), ids=LABELS)
def test_conditions_on_labels(condition: Requirement, names: str) -> None:
    """Kubernetes' meaning of each operator, missing labels and invalid conditions included."""
    assert chosen(nodes.matches(layout(), Term(labels=(condition,)))) == names


FIELDS = {
    "In": (requirement("metadata.name", Operator.IN, "n2"), "2"),
    "NotIn": (requirement("metadata.name", Operator.NOT_IN, "n2"), "134"),
    "a node that doesn't exist": (requirement("metadata.name", Operator.IN, "n9"), ""),
    "two values: invalid": (requirement("metadata.name", Operator.IN, "n1", "n2"), ""),
    "another operator: invalid": (requirement("metadata.name", Operator.EXISTS), ""),
    "another field: invalid": (requirement("metadata.uid", Operator.NOT_IN, "u"), ""),
}


@pytest.mark.parametrize(("condition", "names"), FIELDS.values(), ids=FIELDS)
def test_conditions_on_the_name(condition: Requirement, names: str) -> None:
    """matchFields, which knows metadata.name only."""
    assert chosen(nodes.matches(layout(), Term(fields=(condition,)))) == names


IN_ZONE = requirement("zone", Operator.EXISTS)
NAMED = requirement("k", Operator.IN, "-3")
SELECTED = {
    "nothing asked": (constraints.ANYWHERE, "1234"),
    "a selector": (Constraints(node_selector=(("zone", "z"),)), "12"),
    "all labels of a selector": (
        Constraints(node_selector=(("k", "a"), ("zone", "z"))),
        "1",
    ),
    "all conditions of a term": (
        Constraints(required=(Term(labels=(IN_ZONE, NAMED)),)),
        "",
    ),
    "any term": (
        Constraints(required=(Term(labels=(IN_ZONE,)), Term(labels=(NAMED,)))),
        "123",
    ),
    "labels and fields of a term": (
        Constraints(
            required=(
                Term(labels=(IN_ZONE,), fields=(requirement("metadata.name", Operator.IN, "n2"),)),
            )
        ),
        "2",
    ),
    "an empty term matches nothing": (
        Constraints(required=(Term(),)),
        "",
    ),
    "affinity without terms matches nothing": (Constraints(required=()), ""),
    "selector and affinity": (
        Constraints(node_selector=(("zone", "z"),), required=(Term(labels=(IN_ZONE,)),)),
        "12",
    ),
}


@pytest.mark.parametrize(("limits", "names"), SELECTED.values(), ids=SELECTED)
def test_selectors_and_affinity(limits: Constraints, names: str) -> None:
    """Terms are alternatives, conditions add up."""
    assert chosen(nodes.selected(layout(), limits)) == names


def test_preferred_terms_add_their_weights() -> None:
    """An empty term adds nothing."""
    preferred = (
        PreferredTerm(80, Term(labels=(IN_ZONE,))),
        PreferredTerm(5, Term(labels=(requirement("k", Operator.EXISTS),))),
        PreferredTerm(100, Term()),
    )
    assert nodes.preference(layout(), preferred).tolist() == [85.0, 85.0, 5.0, 0.0]


HARD = Taint("gpu", "yes", Effect.NO_SCHEDULE)
HARSH = Taint("gpu", "yes", Effect.NO_EXECUTE)
SOFT = Taint("spot", "", Effect.PREFER_NO_SCHEDULE)


def tainted() -> NodeLayout:
    """n1 none, n2 hard, n3 soft then harsh, n4 twice soft and cordoned."""
    other = Taint("old", "", Effect.PREFER_NO_SCHEDULE)
    specs = [
        NodeSpec(name="n1"),
        NodeSpec(name="n2", taints=(HARD,)),
        NodeSpec(name="n3", taints=(SOFT, HARSH)),
        NodeSpec(name="n4", taints=(SOFT, other), unschedulable=True),
    ]
    return NodeLayout(specs)


Toleration = constraints.Toleration
TAINTS: dict[str, tuple[tuple[constraints.Toleration, ...], dict[Taint, str]]] = {
    "no toleration": ((), {HARD: "134", HARSH: "124"}),
    "one effect": ((Toleration("gpu", exists=True, effect=Effect.NO_EXECUTE),), {HARD: "134"}),
    "any effect": ((Toleration("gpu", value="yes"),), {}),
    "another value": ((Toleration("gpu", value="no"),), {HARD: "134", HARSH: "124"}),
    "everything": ((Toleration(exists=True),), {}),
}


@pytest.mark.parametrize(("tolerations", "barred"), TAINTS.values(), ids=TAINTS)
def test_taints_keep_pods_away(
    tolerations: tuple[constraints.Toleration, ...], barred: dict[Taint, str]
) -> None:
    """Which taint keeps the pod from which nodes; the rest passes."""
    found = nodes.barriers(tainted(), tolerations)
    assert {taint: chosen(mask) for taint, mask in found.items()} == barred


def test_soft_taints_are_counted() -> None:
    """Those that are tolerated don't count."""
    tolerations = (Toleration("spot", exists=True),)
    assert nodes.soft_taints(tainted(), ()).tolist() == [0, 0, 1, 2]
    assert nodes.soft_taints(tainted(), tolerations).tolist() == [0, 0, 0, 1]


def test_cordons_are_tolerated_like_taints() -> None:
    """By key, or by a toleration of everything; not by another effect."""
    key = "node.kubernetes.io/unschedulable"
    assert chosen(nodes.uncordoned(tainted(), ())) == "123"
    assert chosen(nodes.uncordoned(tainted(), (Toleration(key, exists=True),))) == "1234"
    other = Toleration(key, exists=True, effect=Effect.NO_EXECUTE)
    assert chosen(nodes.uncordoned(tainted(), (other,))) == "123"


def test_ports_conflict_by_protocol_number_and_address() -> None:
    """Every address conflicts with each, two single ones with themselves only."""
    port = HostPort
    taken = {
        "n1": (port("0.0.0.0", "TCP", 80),),  # noqa: S104 - nothing is bound
        "n2": (port("10.0.0.1", "TCP", 80), port("10.0.0.1", "TCP", 443)),
        "n3": (port("0.0.0.0", "UDP", 80),),  # noqa: S104
        "gone": (port("10.0.0.1", "TCP", 80),),
    }
    wanted = (port("10.0.0.2", "TCP", 80),)
    assert chosen(nodes.free_ports(layout(), None, wanted, taken)) == "234"
    rows = np.array([1, 0])
    assert nodes.free_ports(layout(), rows, wanted, taken).tolist() == [True, False]


def test_masks_are_worked_out_once() -> None:
    """The layout remembers, and nobody writes into what it remembers."""
    there = layout()
    limits = Constraints(node_selector=(("zone", "z"),))
    again = Constraints(node_selector=(("zone", "z"),), tolerations=(Toleration(),))
    assert nodes.selected(there, limits) is nodes.selected(there, again)
    assert not nodes.selected(there, limits).flags.writeable
