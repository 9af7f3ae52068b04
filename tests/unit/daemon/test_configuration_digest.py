"""The digest of a configuration: equal for what decides alike, and only then."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from vscheduler.daemon import configuration, settings
from vscheduler.daemon.settings import Given, Settings

BASE = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins:
  - name: gang
  - name: proportion
  - name: binpack
    arguments: {binpack.weight: 2}
"""
GIVEN = settings.check(Given())


def digest(text: str, given: Settings = GIVEN) -> str:
    """The digest of a configuration file."""
    return configuration.digest(configuration.parse(text, "a.yaml").policy, given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "# a comment\n"),
        ("gang\n", "gang\n    enableJobOrder: true\n"),
        ("{binpack.weight: 2}", "{binpack.weight: 2, binpack.cpu: 1}"),
    ],
)
def test_what_decides_alike_has_one_digest(old: str, new: str) -> None:
    """Comments and defaults that are written out make no difference."""
    assert digest(BASE.replace(old, new, 1)) == digest(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reclaim", "preempt"),
        ("weight: 2", "weight: 3"),
        ("gang\n", "gang\n    enableJobOrder: false\n"),
        ("  - name: binpack", "- plugins:\n  - name: binpack"),
        ("\nactions", "\ncompatibility: volcano\nactions"),
    ],
)
def test_what_decides_otherwise_has_another_digest(old: str, new: str) -> None:
    """Actions, arguments, switches, tiers and the mode."""
    assert BASE.count(old) == 1
    assert digest(BASE.replace(old, new)) != digest(BASE)


def test_flags_that_decide_count() -> None:
    """Where logs go doesn't."""
    assert digest(BASE, replace(GIVEN, default_queue="other")) != digest(BASE)
    assert digest(BASE, replace(GIVEN, most=replace(GIVEN.most, max_pod_tolerations=1))) != digest(
        BASE
    )
    assert digest(BASE, replace(GIVEN, log_level="debug")) == digest(BASE)


def test_the_digest_lasts(tmp_path: Path) -> None:
    """It is the same in every process: nothing in it depends on memory, hash seeds or paths."""
    path = tmp_path / "other.yaml"
    path.write_text(BASE, encoding="utf-8")
    assert configuration.digest(configuration.load(str(path)).policy, GIVEN) == digest(BASE)
