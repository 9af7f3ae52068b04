"""Whatever a real API server takes and refuses in test_crds.py, `check` takes and refuses."""

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest

from tests import crd_cases
from vscheduler.cli.checks import schemas
from vscheduler.core.config import validation

ROOT = Path(__file__).parents[4]


def faults(plural: str, **parts: Any) -> dict[str, str]:
    """What is wrong with an object called `me`, by field."""
    tree = crd_cases.named(plural, "me", **parts)
    schema = schemas.of(crd_cases.definition(plural))
    return {validation.written(fault.path): fault.message for fault in schemas.faults(schema, tree)}


@pytest.mark.parametrize(("plural", "spec"), crd_cases.TAKEN)
def test_what_the_api_server_takes_is_right(plural: str, spec: dict[str, Any]) -> None:
    """Nobody is told of what works."""
    assert faults(plural, spec=spec) == {}


@pytest.mark.parametrize(("plural", "spec", "says"), crd_cases.REFUSED)
def test_what_the_api_server_refuses_is_told(
    plural: str, spec: dict[str, Any], says: dict[str, str]
) -> None:
    """The same fields, in the same words, all at once."""
    found = faults(plural, spec=spec)
    expected = {re.sub(r"\[([^\]0-9]+)\]", r".\1", name): words for name, words in says.items()}
    assert found.keys() == expected.keys()
    for name, words in expected.items():
        assert words in found[name]


def test_fields_that_no_schema_knows_are_told_with_the_one_that_was_meant() -> None:
    """As kubectl tells of them; metadata is Kubernetes' own."""
    found = faults("queues", spec={"wieght": 2}, specs={}, metadata={"name": "me", "x": 1})
    assert found == {
        "spec.wieght": "unknown field; did you mean weight?",
        "specs": "unknown field; did you mean spec?",
    }


def test_bounds_are_kept() -> None:
    """Of lengths and entries, which no object of crd_cases.yaml is long enough for."""
    assert faults("queues", spec={"type": "a" * 253}) == {}
    spec = {"type": "a" * 254, "capability": {f"r{at}": 1 for at in range(65)}}
    assert faults("queues", spec=spec) == {
        "spec.type": "must have at most 253 characters, not 254",
        "spec.capability": "must have at most 64 entries, not 65",
    }
    assert faults("queues", status={"allocated": {"cpu": "4x"}}).keys() == {"status.allocated.cpu"}


def test_of_metadata_rules_see_the_name_only() -> None:
    """As in API servers: nothing else there can keep a rule from being judged."""
    metadata = {"name": "me", "labels": {"since": dt.date(2026, 1, 2), "big": 10**30}}
    assert faults("queues", metadata=metadata, spec={"parent": "other"}) == {}
    assert faults("queues", metadata=metadata, spec={"parent": "me"}).keys() == {"spec.parent"}


def test_of_several_resources_the_first_is_named() -> None:
    """Whatever order an expression sees the keys of a map in: that of names."""
    spec = {
        "deserved": dict.fromkeys("jihgfedcba", 2),
        "capability": dict.fromkeys("fghijabcde", 1),
    }
    assert faults("queues", spec=spec)["spec.deserved"].endswith("second: a 2 > 1")


def test_a_rule_that_can_not_be_judged_is_told_where_it_stands() -> None:
    """As an API server refuses what its rule fails for; other rules are judged all the same."""
    rules = [
        {"rule": "self.weight > 'a'", "message": "never said"},
        {"rule": "self.weight > (", "message": "never said"},
        {"rule": "self.weight > 3", "message": "too little"},
    ]
    schema = {
        "type": "object",
        "properties": {"weight": {"type": "integer"}},
        "x-kubernetes-validations": rules,
    }
    valueless, unread, broken = schemas.faults(schema, {"weight": 2})
    assert "its rule can't be judged: UNKNOWN: No matching overloads" in valueless.message
    assert "its rule can't be judged: INVALID_ARGUMENT: ERROR" in unread.message
    assert broken.message == "too little"
