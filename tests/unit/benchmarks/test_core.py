"""The benchmarks of the core, small: each case does what its name says."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.benchmarks.core import __main__ as core
from tests.benchmarks.core import cases, timing
from tests.benchmarks.core.timing import Timing

SCALE = 0.004


def measured(*names: str) -> Mapping[str, list[Timing]]:
    """The cases of these names."""
    found: dict[str, list[Timing]] = {}
    for case in cases.cases(SCALE):
        if case.name in names:
            found.setdefault(case.name, []).append(timing.measure(case))
    return found


def test_every_case_does_what_it_is_called() -> None:
    """What fits is bound, what has no room waits, and who takes room takes no more than needed.

    The smallest of each name.
    """
    smallest = {case.name: case for case in reversed(list(cases.cases(SCALE)))}
    timings = {name: [timing.measure(case)] for name, case in smallest.items()}
    for name in ("equal pods", "different pods", "20 queues"):
        assert [each.bound for each in timings[name]] == [each.pods for each in timings[name]]
    for name in ("reclaim", "preempt"):
        assert [each.evicted for each in timings[name]] == [each.pods for each in timings[name]]
    for name in ("jobs without room", "one change, all bound"):
        assert {(each.bound, each.evicted) for each in timings[name]} == {(0, 0)}


def test_a_case_that_does_something_else_is_no_benchmark() -> None:
    """Where nobody may be evicted for it, the quickest cycle of all would be told."""
    small = next(case for case in cases.cases(SCALE) if case.name == "preempt")
    with pytest.raises(AssertionError, match=r"preempt: \(0, 0\) bound, evicted"):
        timing.measure(dataclasses.replace(small, actions="allocate"))


def test_one_change_costs_one_row() -> None:
    """However many nodes there are."""
    (timings,) = measured("one change, all bound").values()
    assert len(timings) > 1
    assert all(timing.operations == timings[0].operations for timing in timings)


def test_tables_and_json_come_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make bench-core` from end to end, for some of the cases."""
    path = tmp_path / "new" / "core.json"
    arguments = ["one change", "--rounds=2", f"--scale={SCALE}", f"--json={path}"]
    assert core.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "| one change, all bound | 16 | 560 |" in printed
    assert "| one change, all bound, by nodes | 4-16 |" in printed
    assert [row["nodes"] for row in json.loads(path.read_text())] == [4, 8, 16]
