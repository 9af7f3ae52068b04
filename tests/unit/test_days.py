import datetime as dt
import os

import pytest

from tests import days


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a run that has no time for all."""
    monkeypatch.setattr(days, "at_length", False)


@pytest.mark.parametrize("count", [2, 3])
def test_each_seed_has_its_turn_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On so many days in a row, over the end of a month, too."""
    found: list[int] = []
    for day in range(count):
        monkeypatch.setenv(days.VARIABLE, str(dt.date(2026, 1, 31) + dt.timedelta(days=day)))
        found += days.share(range(10), count)
    assert sorted(found) == list(range(10))


def test_all_have_their_turn_at_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """On any day."""
    monkeypatch.setattr(days, "at_length", True)
    assert days.share(range(10)) == range(10)


def test_a_day_that_is_told_is_that_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """All processes of a run are told."""
    monkeypatch.setenv(days.VARIABLE, "2026-01-31")
    assert days.today() == dt.date(2026, 1, 31)


def test_a_run_keeps_the_day_of_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its environment, which the processes that share the tests get."""
    monkeypatch.setattr(os, "environ", {})
    assert os.environ == {}
    assert days.today() == days.today() == dt.date.fromisoformat(os.environ[days.VARIABLE])
