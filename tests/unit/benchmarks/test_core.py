"""The benchmarks of the core, small: each case does what its name says."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.benchmarks.core import __main__ as core
from tests.benchmarks.core import cases, timing

SCALE = 0.004


@pytest.fixture(scope="module")
def timings() -> Mapping[str, list[timing.Timing]]:
    """All cases, by name."""
    found: dict[str, list[timing.Timing]] = {}
    for case in cases.cases(SCALE):
        found.setdefault(case.name, []).append(timing.measure(case))
    return found


@pytest.mark.parametrize("name", ["equal pods", "different pods", "20 queues"])
def test_what_fits_is_bound(timings: Mapping[str, list[timing.Timing]], name: str) -> None:
    """A benchmark of placing in which something waits would be one of waiting."""
    assert [each.bound for each in timings[name]] == [each.pods for each in timings[name]]


@pytest.mark.parametrize("name", ["reclaim", "preempt"])
def test_the_gang_gets_its_room(timings: Mapping[str, list[timing.Timing]], name: str) -> None:
    """As many go as the gang has pods, and no more."""
    assert [each.evicted for each in timings[name]] == [each.pods for each in timings[name]]


def test_what_has_no_room_is_not_bound(timings: Mapping[str, list[timing.Timing]]) -> None:
    """But for the one that comes later and is small."""
    assert {each.bound for each in timings["jobs without room"]} == {0}
    assert {each.bound for each in timings["jobs without room, one comes"]} == {1}


def test_one_change_costs_one_row(timings: Mapping[str, list[timing.Timing]]) -> None:
    """However many nodes there are."""
    work = [each.operations for each in timings["one change, all bound"]]
    assert all(each == work[0] for each in work)


def test_tables_and_json_come_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make bench-core` from end to end, for some of the cases."""
    path = tmp_path / "new" / "core.json"
    arguments = ["one change", "--rounds=2", f"--scale={SCALE}", f"--json={path}"]
    assert core.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "| one change, all bound | 16 | 560 |" in printed
    assert "| one change, all bound, by nodes | 4-16 |" in printed
    assert [row["nodes"] for row in json.loads(path.read_text())] == [4, 8, 16]
