import math

import pytest

from vscheduler.model import queues
from vscheduler.model.queues import Account, Usage

HALF_LIFE = 100.0


def account(used: float, rate: float) -> Account:
    """Short for one."""
    return Account(used=used, rate=rate)


def integrated(used: float, rate: float, seconds: float, steps: int) -> float:
    """The same by numbers: in each small step a bit is forgotten and a bit is used."""
    step = seconds / steps
    kept = 0.5 ** (step / HALF_LIFE)
    for _ in range(steps):
        used = used * kept + rate * step * math.sqrt(kept)
    return used


@pytest.mark.parametrize(
    ("used", "rate", "seconds"),
    [(0.0, 3.0, 10.0), (500.0, 0.0, 100.0), (500.0, 2.0, 250.0), (1e6, 1e-3, 1.0), (7.0, 5.0, 0.0)],
)
def test_usage_is_what_integration_makes_of_it(used: float, rate: float, seconds: float) -> None:
    """Ten thousand small steps come to the same."""
    found = queues.decayed(account(used, rate), seconds, HALF_LIFE)
    assert found == pytest.approx(integrated(used, rate, seconds, 10_000), rel=1e-8)


def test_half_is_left_after_a_half_life() -> None:
    """And a constant rate comes to what it says in the end."""
    assert queues.decayed(account(8.0, 0.0), HALF_LIFE, HALF_LIFE) == pytest.approx(4.0)
    most = 2.0 * HALF_LIFE / math.log(2)
    assert queues.decayed(account(8.0, 2.0), 1e9, HALF_LIFE) == pytest.approx(most)


def test_many_small_steps_lose_nothing() -> None:
    """A rate that changes ten times a second for an hour, and a half-life of ten years."""
    ten_years = 10 * 365 * 86400.0
    record = queues.updated_usage(None, {"a": 1.0}, 1.0, 0.0, ten_years)
    for step in range(1, 36_001):
        rate = 1.0 + step % 2
        record = queues.updated_usage(record, {"a": rate}, rate, step / 10, ten_years)
    assert record is not None
    assert record.queue.used == pytest.approx(1.5 * 3600, rel=1e-4)
    assert record.namespaces["a"].used == pytest.approx(record.queue.used)


def test_time_alone_changes_no_record() -> None:
    """The very same object, so that nothing is written."""
    record = queues.updated_usage(None, {"a": 2.0}, 2.0, 100.0, HALF_LIFE)
    assert record == Usage(time=100.0, queue=account(0.0, 2.0), namespaces={"a": account(0.0, 2.0)})
    assert queues.updated_usage(record, {"a": 2.0}, 2.0, 500.0, HALF_LIFE) is record


def test_who_used_nothing_has_no_record() -> None:
    """Most queues of a cluster, on its first day."""
    assert queues.updated_usage(None, {}, 0.0, 100.0, HALF_LIFE) is None


def test_a_shift_between_namespaces_is_a_change() -> None:
    """Though the queue's rate is what it was."""
    record = queues.updated_usage(None, {"a": 2.0}, 2.0, 100.0, HALF_LIFE)
    after = queues.updated_usage(record, {"b": 2.0}, 2.0, 110.0, HALF_LIFE)
    assert after is not None
    assert after.namespaces["a"].rate == 0.0
    assert after.namespaces["a"].used == pytest.approx(after.queue.used)
    assert after.namespaces["b"] == account(0.0, 2.0)


@pytest.mark.parametrize("rate", [2.0, 5.0])
def test_a_record_of_the_future_is_one_of_now(rate: float) -> None:
    """A clock was wrong when it was written, or was put back since: what was used stays."""
    record = Usage(time=1e9, queue=account(7.0, 2.0), namespaces={"a": account(7.0, 2.0)})
    after = queues.updated_usage(record, {"a": rate}, rate, 100.0, HALF_LIFE)
    assert after == Usage(
        time=100.0, queue=account(7.0, rate), namespaces={"a": account(7.0, rate)}
    )


def test_namespaces_that_have_come_to_nothing_are_forgotten() -> None:
    """Not those that use something, however little it was so far."""
    record = Usage(
        time=0.0,
        queue=account(1000.0, 0.0),
        namespaces={
            "much": account(998.0, 0.0),
            "nil": account(0.05, 0.0),
            "on": account(0.05, 0.0),
        },
    )
    after = queues.updated_usage(record, {"on": 1.0, "new": 1.0}, 2.0, 1.0, HALF_LIFE)
    assert after is not None
    assert list(after.namespaces) == ["much", "new", "on"]


def test_a_full_record_keeps_those_who_use_something_and_settles() -> None:
    """Namespaces beyond the limit make no record anew in every cycle."""
    most = queues.NAMESPACES_MAX
    idle = {f"idle-{number:04}": account(10.0, 0.0) for number in range(most)}
    record = Usage(time=0.0, queue=account(10.0 * most, 0.0), namespaces=idle)
    rates = {f"busy-{number:04}": 1.0 for number in range(most - 1)}
    after = queues.updated_usage(record, rates, most - 1.0, 1.0, HALF_LIFE)
    assert after is not None
    assert list(after.namespaces) == [*rates, "idle-0000"]
    more = {**rates, "zulu": 1.0, "yankee": 1.0}
    full = queues.updated_usage(after, more, most + 1.0, 2.0, HALF_LIFE)
    assert full is not None
    assert len(full.namespaces) == most
    assert queues.updated_usage(full, more, most + 1.0, 3.0, HALF_LIFE) is full
