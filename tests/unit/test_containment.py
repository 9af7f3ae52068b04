"""Work that fails is counted and told of, and takes nothing else with it."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog import testing

from vscheduler import containment
from vscheduler.containment import Failures
from vscheduler.mirror.statuses import EventNotice, ObjectReference

pytestmark = pytest.mark.contains_failures

POD = ObjectReference(kind="Pod", namespace="ns", name="a", uid="1")


@dataclass
class World:
    """What is told of failures, and the time."""

    counts: Counter[str] = field(default_factory=Counter)
    notices: list[EventNotice] = field(default_factory=list)
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.failures = Failures(
            lambda area: self.counts.update([area]), self.notices.append, clock=lambda: self.now
        )

    def fail(self, key: str, error: Exception | None = None) -> None:
        """Let a piece of work fail."""
        with self.failures.contained("work", key, POD):
            raise error or KeyError(key)


def lines(logs: list[Any]) -> list[tuple[str, int]]:
    """Of what the log tells, and how often it failed since the line before."""
    return [(log["object"], log["failures_since"]) for log in logs]


def test_what_fails_is_counted_and_told_of() -> None:
    """A line in the log with where it came from, and an event on the object."""
    world = World()
    with testing.capture_logs() as logs:
        world.fail("a")
    assert world.counts == {"work": 1}
    (line,) = logs
    assert (line["event"], line["area"], line["object"]) == ("work.failed", "work", "a")
    assert line["message"] == "KeyError: 'a'"
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("KeyError: 'a'")
    (notice,) = world.notices
    assert (notice.kind, notice.name, notice.reason) == ("Pod", "a", "SchedulerFailed")


def test_what_goes_on_failing_is_told_of_less_and_less_often() -> None:
    """Once at first, then after a minute, after two more and so on; each failure is counted."""
    world, told = World(), []
    with testing.capture_logs() as logs:
        for second in range(0, 1000, 10):
            world.now = 1000.0 + second
            before = len(logs)
            world.fail("a")
            if len(logs) > before:
                told.append(second)
    assert told == [0, 60, 180, 420, 900]
    assert sum(1 + since for _, since in lines(logs)) + 9 == world.counts["work"] == 100
    assert len(world.notices) == len(told)


def test_a_piece_of_work_that_was_quiet_for_long_is_news_again() -> None:
    """And others are news at once."""
    world = World()
    with testing.capture_logs() as logs:
        world.fail("a")
        world.fail("b")
        world.now += 1000
        world.fail("a")
    assert [key for key, _ in lines(logs)] == ["a", "b", "a"]


def test_the_way_to_a_place_is_shown_once() -> None:
    """A thousand objects with one fault are no thousand tracebacks, nor a thousand lines."""
    world = World()
    with testing.capture_logs() as logs:
        for number in range(1000):
            world.fail(str(number))
    assert sum("exception" in log for log in logs) == 1
    assert len(logs) == containment.LINES_MAX
    assert world.counts == {"work": 1000}


def test_what_is_remembered_is_bounded() -> None:
    """However many objects there are."""
    world = World()
    with testing.capture_logs():
        for number in range(containment.KEYS_MAX + 10):
            world.fail(str(number))
    assert len(world.failures._throttles) <= containment.KEYS_MAX


def test_a_block_says_whether_it_failed() -> None:
    """And what it raises is gone."""
    world = World()
    with testing.capture_logs():
        with world.failures.contained("work", "a") as good:
            pass
        with world.failures.contained("work", "a") as bad:
            raise ValueError
    assert (good.failed, bad.failed) == (False, True)
    assert world.notices == []


@pytest.mark.parametrize("kind", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
async def test_what_is_no_exception_passes(kind: type[BaseException]) -> None:
    """A task that is cancelled ends."""
    world = World()

    async def work() -> None:
        raise kind

    with pytest.raises(kind), world.failures.contained("work", "a"):
        raise kind
    if kind is asyncio.CancelledError:
        with pytest.raises(kind):
            await world.failures.keep_on("work", work)
    assert not world.counts


async def test_a_task_that_fails_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """After pauses that grow, and are short again once it has worked for long."""
    world, pauses = World(), []
    left = [1.0, 1.0, 1.0, 100.0, 1.0]

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        world.now += seconds

    async def work() -> None:
        if not left:
            return
        world.now += left.pop(0)
        raise ValueError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with testing.capture_logs():
        await world.failures.keep_on("work", work)
    assert pauses == [1.0, 2.0, 4.0, 1.0, 2.0]
    assert world.counts == {"work": 5}


async def test_a_task_that_goes_on_failing_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that is asked for: after so many attempts in a row, long ones don't count."""
    world = World()
    begun: list[float] = []
    lasts = [1.0, 1.0, 100.0, 1.0, 1.0, 1.0]

    async def sleep(seconds: float) -> None:
        world.now += seconds

    async def work() -> None:
        world.now += lasts[len(begun)]
        begun.append(world.now)
        raise ValueError("out of order")

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with testing.capture_logs(), pytest.raises(ValueError, match="out of order"):
        await world.failures.keep_on("work", work, attempts_max=3)
    assert len(begun) == 5
    assert world.counts == {"work": 5}
