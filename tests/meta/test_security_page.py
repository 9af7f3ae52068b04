"""docs/security.md: what it says to be impossible is tried by a test that it names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text()
NAMED = re.compile(r"`([a-z_/]+\.py)::(\w+)`")
IMPOSSIBLE = re.compile(r"\b(?:can't|cannot|can not|never|impossible)\b")
EXPLAINED = ("Every statement that something is impossible", "RBAC can't treat the status")
"""The sentence that says so, and one about Kubernetes."""


def statements(page: str) -> Iterator[str]:
    """Rows of tables, and sentences of the rest with what stands in brackets after them."""
    for block in re.split(r"\n(?=[|\n#-])", page):
        text = " ".join(block.split())
        if text.startswith("|"):
            yield text
        else:
            yield from re.split(r"(?<=[a-z0-9)`*][.:]) (?=[A-Z*`\[])", text)


@pytest.mark.parametrize(
    "statement", [statement for statement in statements(PAGE) if IMPOSSIBLE.search(statement)]
)
def test_what_is_impossible_is_tried(statement: str) -> None:
    """Each sentence and row names a test, and one for each thing that can't be."""
    if statement.startswith(EXPLAINED[0]):
        return
    said = IMPOSSIBLE.findall(statement.replace(EXPLAINED[1], ""))
    assert len(NAMED.findall(statement)) >= len(said), statement


@pytest.mark.parametrize(("file", "function"), sorted(set(NAMED.findall(PAGE))))
def test_each_test_that_is_named_is_there(file: str, function: str) -> None:
    """Under its name, and with something in it that can fail."""
    tree = ast.parse((TESTS / file).read_text())
    (found,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    )
    assert function.startswith("test_")
    checks = [node for node in ast.walk(found) if isinstance(node, ast.Assert | ast.Call)]
    assert checks


def test_sentences_are_told_apart() -> None:
    """A test that stands beside one claim doesn't count for the next."""
    page = (
        "It can't fly (`a.py::test_b`). It can't swim.\n\n| a | never | `c.py::test_d` |\n| b |\n"
    )
    found = list(statements(page))
    assert [len(NAMED.findall(each)) for each in found if IMPOSSIBLE.search(each)] == [1, 0, 1]
    assert len([statement for statement in statements(PAGE) if IMPOSSIBLE.search(statement)]) >= 12
