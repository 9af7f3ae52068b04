"""Planted faults, and what notices each: the teeth of the tests, as a list that can be run again.

One TOML file for each folder of `vscheduler/`, and one for `manifests/`; one table for each mutant:

- `breaks`: what goes wrong, in one sentence;
- `file`, `inside`: the module, and the function or class (`Planner.choose`) that has the fault;
  without `inside`, the fault is outside of all of them;
- `old`, `new`: the code to replace, which occurs once in there, whatever the white space; the
  rest of the file is free to change. A `new` that is indented replaces whole lines;
- `found_by`: the quickest command that fails with the fault and passes without: a test, or
  `simulate SEED ...` with the arguments of `python -m tests.simulation`;
- `survives`, instead: why nothing notices the fault.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SIMULATE = "simulate "


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A fault to plant."""

    name: str
    breaks: str
    file: str
    inside: str = ""
    old: str
    new: str
    found_by: str = ""
    survives: str = ""

    def planted(self, text: str) -> str:
        """Return the file's text with the fault."""
        start, end = self.span(text)
        if self.new[:1].isspace():
            start = text.rindex("\n", 0, start) + 1
        return text[:start] + self.new.rstrip() + text[end:]

    def span(self, text: str) -> tuple[int, int]:
        """Return where the old code begins and ends in the file's text.

        Raises:
            AssertionError: There is no such function or class, or it has the code not just once.
        """
        first, last = 1, len(text)
        if self.inside:
            known = dict(definitions(ast.parse(text)))
            assert self.inside in known, f"{self.name}: {self.file} has no {self.inside}"
            first, last = known[self.inside]
        places = _places(text, self.old)
        found = [place for place in places if first <= text.count("\n", 0, place[0]) + 1 <= last]
        where = self.inside or self.file
        assert len(found) == 1, f"{self.name}: {where} has its code {len(found)} times, not once"
        return found[0]


def definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the qualified name, first and last line of each definition, outer ones first."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{each.name}"
            first = min(one.lineno for one in (each, *each.decorator_list))
            yield name, (first, each.end_lineno or first)
            yield from definitions(each, f"{name}.")
        else:
            yield from definitions(each, prefix)


def _places(text: str, code: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each place that has the code, whatever the white space."""
    positions = [index for index, letter in enumerate(text) if not letter.isspace()]
    letters = "".join(text.split())
    wanted = "".join(code.split())
    index = letters.find(wanted)
    while index >= 0:
        yield positions[index], positions[index + len(wanted) - 1] + 1
        index = letters.find(wanted, index + 1)


def catalogue() -> Mapping[str, Mutant]:
    """Return all mutants by name."""
    found: dict[str, Mutant] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for name, fields in tomllib.loads(path.read_text()).items():
            assert name not in found, f"two mutants are called {name}"
            found[name] = Mutant(name=name, **fields)
    return found
