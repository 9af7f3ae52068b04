"""Rules of CRDs that are broken in any way are read, or refused by the one declared error."""

import random
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vscheduler.cli.checks import cel
from vscheduler.cli.checks.cel import CelError

CRDS = Path(__file__).parents[2] / "crds"
BREAKS = 400
"""Broken rules a seed."""
WORD = re.compile(r"'(?:\\.|[^'\\])*'|\w+|\s+|.")
SELVES: tuple[Any, ...] = (
    {},
    [],
    "",
    "4x",
    "500m",
    7,
    -1,
    True,
    ["a", {"name": "b"}],
    {"name": "a", "spec": {"weight": 2, "guarantee": {"resource": {"cpu": "3"}}}},
    {"capability": {"cpu": "1"}, "deserved": {"cpu": "2"}, "minMember": 3, "queue": "q"},
)


def rules(node: Any) -> Iterator[str]:
    """All expressions of a CRD, those of messages among them."""
    if isinstance(node, dict):
        for rule in node.get("x-kubernetes-validations", ()):
            yield from (rule[key] for key in ("rule", "messageExpression") if key in rule)
        node = list(node.values())
    for child in node if isinstance(node, list) else []:
        yield from rules(child)


RULES = sorted(
    {text for file in CRDS.glob("*.yaml") for text in rules(yaml.safe_load(file.read_text()))}
)


def broken(chance: random.Random) -> str:
    """A shipped rule with some words or characters left out, doubled, moved or made up."""
    text = chance.choice(RULES)
    for _ in range(chance.randint(1, 6)):
        parts = WORD.findall(text) if chance.random() < 0.7 else list(text)
        if not parts:
            return text
        at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        match chance.randrange(6):
            case 0:
                del parts[at : at + chance.randint(1, 3)]
            case 1:
                parts.insert(other, parts[at])
            case 2:
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at] = chance.choice(string.printable)
            case 4:
                parts[at] = chance.choice("([!'\\") * chance.choice((1, 2, 40, 3000))
            case 5:
                parts[at:] = WORD.findall(chance.choice(RULES))[at:]
        text = "".join(parts)
    return text


def outcome(text: str) -> str:
    """What becomes of a rule with values of all sorts; any error but CelError is let through."""
    try:
        program = cel.compiled(text)
    except CelError:
        return "unread"
    valueless = 0
    for value in SELVES:
        try:
            program({"self": value, "oldSelf": cel.ABSENT})
        except CelError:
            valueless += 1
    return "valueless" if valueless == len(SELVES) else "valued"


@pytest.mark.parametrize("seed", range(8))
def test_no_broken_rule_raises_anything_else(seed: int) -> None:
    """Some are still rules, some have no value, and most can't be read."""
    chance = random.Random(seed)
    found = [outcome(broken(chance)) for _ in range(BREAKS)]
    assert set(found) == {"unread", "valueless", "valued"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "'",
        "'a",
        "'\\x'",
        "has()",
        "has(self.a, self.b)",
        "9" * 5000,
        "(" * 3000 + "1" + ")" * 3000,
        "!" * 3000 + "self",
        "[" * 3000,
        "self" + ".a" * 3000,
        "1 ? " * 3000,
        " + ".join(["1"] * 3000),
    ],
)
def test_what_can_never_be_read_is_refused(text: str) -> None:
    """However long or deep it is, and whatever is left out."""
    with pytest.raises(CelError):
        cel.compiled(text)


@pytest.mark.parametrize(
    "text",
    [
        "self[5]",
        "self.name",
        "self.?name",
        "nobody",
        "1 + 'a'",
        "size()",
        "size(1)",
        "quantity('x')",
        "'a' < 1",
        "'a'.matches('(')",
        "self" + ".a" * 990,
    ],
)
def test_what_has_no_value_says_so(text: str) -> None:
    """By the same error, when it is asked."""
    program = cel.compiled(text)
    with pytest.raises(CelError, match="has no value"):
        program({"self": ["a"]})
