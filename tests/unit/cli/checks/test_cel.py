from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vscheduler.cli.checks import cel
from vscheduler.cli.checks.cel import CelError

ROOT = Path(__file__).parents[4]
POLICY = "ValidatingAdmissionPolicy"
OF_POLICIES = ("namespaceObject", "object", "oldObject", "params", "request", "variables")
KEYS = ("rule", "expression", "messageExpression", "valueExpression")


def expressions(node: Any) -> Iterator[str]:
    """All CEL of a manifest."""
    if isinstance(node, dict):
        yield from (node[key] for key in KEYS if isinstance(node.get(key), str))
        node = list(node.values())
    for child in node if isinstance(node, list) else []:
        yield from expressions(child)


def shipped(folder: str, kind: str) -> list[str]:
    """All CEL of the objects of a kind in a folder's files."""
    trees = [
        tree
        for path in sorted((ROOT / folder).rglob("*.yaml"))
        for tree in yaml.safe_load_all(path.read_text())
        if isinstance(tree, dict) and tree.get("kind") == kind
    ]
    return sorted({text for tree in trees for text in expressions(tree)})


def test_every_rule_of_the_crds_compiles() -> None:
    """So that `check` judges all of them; messages, too."""
    found = shipped("crds", "CustomResourceDefinition")
    assert len(found) > 10
    assert all(map(cel.compiled, found))


def test_every_expression_of_admission_policies_compiles() -> None:
    """A misspelt function or a bracket too many is found without an API server."""
    found = shipped("manifests", POLICY)
    assert len(found) > 80
    environment = cel.environment(*OF_POLICIES)
    assert all(map(environment.compile, found))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("quantity('1Gi').isGreaterThan(quantity('1G'))", True),
        ("quantity('1n').isLessThan(quantity('0'))", False),
        ("quantity('-1').isLessThan(quantity('0'))", True),
        ("quantity('1') == quantity('1000m')", True),
        ("quantity('1e30') == quantity('1e40')", True),  # beyond what Kubernetes counts
        ("isQuantity('4x')", False),
        ("isQuantity('1e1000')", True),
        ("self.map(key, key).min()", "a"),  # keys have no order
        ("oldSelf.hasValue()", False),
    ],
)
def test_functions_of_kubernetes_mean_what_they_do_there(text: str, value: object) -> None:
    """What the library doesn't have itself."""
    assert cel.compiled(text)({"c": 1, "a": 2, "b": 3}) == value


@pytest.mark.parametrize("text", ["a b", "f(1)", "self.f(1)", "nobody", "(self", "1 + ", "'"])
def test_what_can_not_be_read_is_refused(text: str) -> None:
    """Not passed over: a rule that isn't judged would let everything through."""
    with pytest.raises(CelError):
        cel.compiled(text)


@pytest.mark.parametrize(
    "text", ["self[5]", "self.name", "size(self[0])", "quantity('x')", "'a'.matches('(')"]
)
def test_what_has_no_value_says_so(text: str) -> None:
    """By the same error, when it is asked; values that CEL doesn't have are no different."""
    for value in ([1], [10**30], [], ["\ud800"]):
        with pytest.raises(CelError):
            cel.compiled(text)(value)
