"""Planted faults, and what notices each: the teeth of the tests, as a list that can be run again.

One TOML file for each folder of `vscheduler/`, and one for `manifests/`; one table for each mutant:

- `breaks`: what goes wrong, in one sentence;
- `file`, `old`, `new`: the text to replace, which occurs exactly once;
- `found_by`: the quickest command that fails with the fault and passes without: a test, or
  `simulate SEED ...` with the arguments of `python -m tests.simulation`;
- `survives`, instead: why nothing notices the fault.
"""

import tomllib
from collections.abc import Mapping
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
    old: str
    new: str
    found_by: str = ""
    survives: str = ""

    def planted(self, text: str) -> str:
        """Return the file's text with the fault."""
        assert text.count(self.old) == 1, f"{self.name}: {self.file} has its text once"
        return text.replace(self.old, self.new)


def catalogue() -> Mapping[str, Mutant]:
    """Return all mutants by name."""
    found: dict[str, Mutant] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for name, fields in tomllib.loads(path.read_text()).items():
            assert name not in found, f"two mutants are called {name}"
            found[name] = Mutant(name=name, **fields)
    return found
