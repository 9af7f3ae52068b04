"""Values are Structs, and dataclasses only where Structs can't do it (decision 29)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "vscheduler"

CORE_USES = {
    "msgspec.Struct",
    "msgspec.field",
    "msgspec.structs.replace",
    "msgspec.structs.force_setattr",
    "structs.replace",
}
"""What the core may use of msgspec: values, and no decoder."""

NEEDED = {"init", "compare", "repr", "hash"}
"""What only a dataclass can say of a field, if it is no: a value that is computed, left out of
comparisons, or not shown."""


def members(source: str) -> set[str]:
    """Return what a module uses of msgspec, as it is written."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="msgspec" | "structs")):
                found.add(ast.unparse(node))
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="msgspec"))):
                found.add(ast.unparse(node))
            case ast.ImportFrom(module=str(module)) if module.startswith("msgspec"):
                found |= {f"{module}.{name.name}" for name in node.names}
    return found - {"msgspec.structs"}


def idle_dataclasses(source: str) -> Iterator[str]:
    """Yield the dataclasses of a module that could be Structs."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and any(
            isinstance(each, ast.Call) and ast.unparse(each.func).endswith("dataclass")
            for each in node.decorator_list
        ):
            said = {each.arg for each in ast.walk(node) if isinstance(each, ast.keyword)}
            has_dictionary = any("slots" not in ast.unparse(each) for each in node.decorator_list)
            if not (said & NEEDED or has_dictionary):
                yield node.name


def test_the_core_takes_only_values_from_msgspec() -> None:
    """No decoders and no conversions: these belong to the Mirror and the edges."""
    used = set[str]()
    for path in (*PACKAGE.glob("core/**/*.py"), *PACKAGE.glob("model/**/*.py")):
        used |= members(path.read_text())
    assert {"msgspec.Struct"} <= used <= CORE_USES


@pytest.mark.parametrize("room", sorted(path.name for path in PACKAGE.iterdir() if path.is_dir()))
def test_a_dataclass_is_needed_where_it_stands(room: str) -> None:
    """Each takes a millisecond of every start."""
    found = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in (PACKAGE / room).rglob("*.py")
        for name in idle_dataclasses(path.read_text())
    ]
    assert found == []


def test_the_checks_see_what_they_look_for() -> None:
    """Each way to import, and a dataclass with and without a reason."""
    source = "import msgspec\nfrom msgspec import json\nmsgspec.json.decode\nmsgspec.convert\n"
    assert members(source) == {"msgspec.json", "msgspec.json.decode", "msgspec.convert"}
    plain = "@dataclass(frozen=True, slots=True)\nclass A:\n    x: int = field(default=1)\n"
    assert list(idle_dataclasses(plain)) == ["A"]
    assert list(idle_dataclasses(plain.replace("default=1", "init=False"))) == []
    assert list(idle_dataclasses(plain.replace(", slots=True", ""))) == []
