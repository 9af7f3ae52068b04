"""What a linter has no rule for: sizes, words that don't belong, calls that core can't make."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("vscheduler", "sandbox", "tests")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
PURE = ("core", "mirror", "model", "simulator")

FUNCTION_LINES = 70

BANNED = {
    "time": "use snapshot.now",
    "random": "order by name",
    "secrets": "order by name",
    "asyncio": "core, mirror and simulator never wait",
    "threading": "core, mirror and simulator never wait",
    "open": "the edge reads files",
    "print": "return data; cli prints it",
    "input": "return data; cli asks",
    "datetime.now": "use snapshot.now",
    "datetime.utcnow": "use snapshot.now",
    "datetime.today": "use snapshot.now",
    "os": "the edge reads the environment",
    "hash": "differs from run to run for strings",
    "id": "differs from run to run",
}
"""Calls (or modules whose members are called) that a pure room can't make, and what to do."""

BACKWARDS = ("EMXIF", "ODOT", "KCAH")
"""Words for unfinished work, spelled so that this file passes its own check."""

UNFINISHED = re.compile(rf"\b({'|'.join(word[::-1] for word in BACKWARDS)})\b")


def in_tree(path: Path) -> str:
    """A path as people write it."""
    return str(path.relative_to(ROOT))


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or an attribute; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            before = dotted(value)
            return f"{before}.{attribute}" if before else ""
    return ""


SCREENS = ("screen.py", "output.py")
"""Where commands print: what others wrote is made plain there."""

PRINTS = {
    "click.echo",
    "click.secho",
    "print",
    "console.Console",
    "sys.stdout.write",
    "sys.stderr.write",
}


def banned_calls(source: str) -> Iterator[str]:
    """`line: call: what to do instead` for every banned call of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            call = dotted(node.func)
            for name in (call, call.partition(".")[0], ".".join(call.split(".")[-2:])):
                if name in BANNED:
                    yield f"{node.lineno}: {call}(): {BANNED[name]}"
                    break


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_make_no_impure_call(room: str) -> None:
    """No clock, no chance, no files, no waiting where decisions are made."""
    found = [
        f"{in_tree(path)}:{call}"
        for path in (ROOT / "vscheduler" / room).rglob("*.py")
        for call in banned_calls(path.read_text())
    ]
    assert found == []


def test_the_check_for_banned_calls_sees_them() -> None:
    """The check itself: nested modules, bare names, and what only looks alike."""
    source = "import time\ntime.time()\nx.datetime.now()\nprint(1)\nself.time(3)\nopened(2)\n"
    assert [call.partition(":")[0] for call in banned_calls(source)] == ["2", "3", "4"]


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements within, without a look at what they are made of."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from statements(node)


def test_functions_are_short() -> None:
    """40 lines are the aim, 70 the limit."""
    long = [
        f"{in_tree(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in statements(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES
    ]
    assert long == []


def test_nothing_is_left_unfinished() -> None:
    """What is to be done stands in an issue, not in the code."""
    assert UNFINISHED.search(BACKWARDS[0][::-1])
    found = [
        f"{in_tree(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if UNFINISHED.search(line)
    ]
    assert found == []


def contracts() -> dict[str, dict[str, Any]]:
    """The import contracts of pyproject.toml by name."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    return {contract["name"]: contract for contract in tool["importlinter"]["contracts"]}


def rooms(folder: Path) -> set[str]:
    """The modules and packages that stand in a package's folder."""
    return {
        path.stem
        for path in folder.iterdir()
        if path.stem != "__init__"
        and (path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py"))))
    }


@pytest.mark.parametrize(
    ("contract", "folder"), [("the house", "vscheduler"), ("the core", "vscheduler/core")]
)
def test_every_room_has_its_layer(contract: str, folder: str) -> None:
    """A new room says whom it may know."""
    assert contracts()[contract]["exhaustive"]
    layers = contracts()[contract]["layers"]
    placed = {room.strip("() ") for layer in layers for room in layer.split("|")}
    assert rooms(ROOT / folder) - placed == set()


@pytest.mark.parametrize(
    ("contract", "guests"),
    [
        ("kubernetes only in cluster", {"cluster", "__main__"}),
        ("pykube only in cli", {"cli", "__main__"}),
        ("kopf only in controllers", {"controllers", "__main__"}),
    ],
)
def test_every_room_keeps_strangers_out(contract: str, guests: set[str]) -> None:
    """A new room is in the contracts on who may use which client library."""
    guarded = {module.partition(".")[2] for module in contracts()[contract]["source_modules"]}
    assert rooms(ROOT / "vscheduler") - guarded - guests == set()


def printing(source: str) -> Iterator[str]:
    """`line: call` for each call that prints by itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and dotted(node.func) in PRINTS:
            yield f"{node.lineno}: {dotted(node.func)}"


def test_commands_print_in_one_place() -> None:
    """So that no screen can forget that a terminal obeys what is in a name."""
    folders = (ROOT / "vscheduler" / "cli", ROOT / "sandbox" / "demo")
    found = {
        in_tree(path): lines
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        if path.name not in SCREENS and (lines := list(printing(path.read_text())))
    }
    assert found == {}


@pytest.mark.parametrize("call", sorted(PRINTS))
def test_what_prints_is_found(call: str) -> None:
    """Each of these calls."""
    assert list(printing(f"def f(x):\n    {call}(x)\n")) == [f"2: {call}"]
