"""The list of planted mutants stays runnable when the code that they change is rewritten."""

import ast
import shlex
from pathlib import Path

import pytest
import yaml

from tests import mutants
from tests.mutants import Mutant
from tests.simulation import faults

KNOWN = mutants.catalogue()
LEAST = 45
SURVIVORS_PART = 0.05


@pytest.mark.parametrize("mutant", KNOWN.values(), ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_planted_and_its_command_exists(mutant: Mutant) -> None:
    """Its code is there once, its fault can be read, and its test or simulated fault exists."""
    assert mutant.breaks.endswith(".")
    assert bool(mutant.found_by) != bool(mutant.survives)
    text = (mutants.ROOT / mutant.file).read_text()
    planted = mutant.planted(text)
    if mutant.file.endswith(".yaml"):
        assert list(yaml.safe_load_all(planted))
        assert not mutant.inside
    else:
        ast.parse(planted)
        row = text.count("\n", 0, mutant.span(text)[0]) + 1
        spans = mutants.definitions(ast.parse(text))
        around = [name for name, (first, last) in spans if first <= row <= last]
        assert mutant.inside == (around or [""])[-1], "`inside` names the innermost definition"
    if mutant.found_by.startswith(mutants.SIMULATE):
        words = shlex.split(mutant.found_by)
        named = {word.removeprefix("--fault=") for word in words if word.startswith("--fault=")}
        assert named <= faults.KINDS.keys()
    elif mutant.found_by:
        file, _, test = mutant.found_by.partition("::")
        name = test.partition("[")[0]
        assert f"def {name}(" in Path(mutants.ROOT / file).read_text()


def test_nearly_all_mutants_are_found() -> None:
    """Of each 20, at most one survives."""
    survivors = [each.name for each in KNOWN.values() if each.survives]
    assert len(KNOWN) >= LEAST
    assert len(survivors) <= SURVIVORS_PART * len(KNOWN)
