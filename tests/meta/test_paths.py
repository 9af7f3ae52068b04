"""Request paths are written in one module."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = ROOT / "vscheduler" / "mirror" / "paths.py"
ROOTS = ("/api", "/namespaces/", "api/v1")


def is_docstring(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a text stands by itself."""
    return isinstance(parents.get(node), ast.Expr)


def names_a_path(node: ast.expr) -> bool:
    """Whether an expression gives a request's path, by its name."""
    match node:
        case ast.Call(func=func):
            return names_a_path(func)
        case ast.Attribute(value=ast.Attribute(attr=owner), attr="everywhere" | "within" | "at"):
            return owner.isupper()
        case ast.Attribute(attr="everywhere" | "within"):
            return True
        case ast.Name(id=name):
            return name == "path" or name.endswith("_path")
        case ast.Attribute(attr=name):
            return name in {"path", "_path", "collection_path"}
    return False


def handmade(source: str) -> Iterator[str]:
    """`line: text` for every piece of a path that a module writes itself."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and str(node.value).startswith(ROOTS)
            and not is_docstring(node, parents)
        ):
            yield f"{node.lineno}: {node.value!r}"
        if isinstance(node, ast.JoinedStr):
            for before, after in zip(node.values, node.values[1:], strict=False):
                joined = isinstance(after, ast.Constant) and str(after.value)[:1] in {"/", "?"}
                if joined and isinstance(before, ast.FormattedValue) and names_a_path(before.value):
                    yield f"{node.lineno}: {ast.unparse(node)}"


SOURCES = [
    path
    for package in ("vscheduler", "sandbox")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path != HOME
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_writes_a_path_by_hand(path: Path) -> None:
    """A name that isn't quoted can lead anywhere."""
    allowed = {"sandbox/client.py"}  # puts a query behind a path that it is given
    found = list(handmade(path.read_text()))
    if str(path.relative_to(ROOT)) not in allowed:
        assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'GROUPS = "/apis/x/v1/things"',
        'call(f"/api/v1/namespaces/{namespace}/pods")',
        'call(f"{paths.PODS.everywhere}/{name}")',
        'call(f"{collection.within(namespace)}/{name}")',
        'call(f"{path}?{query}")',
        'call(f"{self._path}/status")',
        'call(root + f"/namespaces/{name}")',
    ],
)
def test_handmade_paths_are_found(source: str) -> None:
    """In whatever way."""
    assert list(handmade(source))
