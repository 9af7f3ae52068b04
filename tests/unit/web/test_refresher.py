"""When the page makes a new view."""

import time

import pytest
from msgspec.structs import replace

from tests.web import clusters, stage
from tests.web.stage import Stage
from vscheduler.containment import Failures
from vscheduler.web import refresher
from vscheduler.web.cluster_view import Look, ViewMaker
from vscheduler.web.refresher import Refresher

NOW = time.time()


class Clock:
    """A time that passes when told to; views cost nothing."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """The time."""
        return self.now

    def thread_time(self) -> float:
        """The CPU time."""
        return 0.0


class Watched:
    """A cluster that is looked at, and how often it was."""

    def __init__(self) -> None:
        self.made = Stage(clusters.three_queues(NOW), NOW)
        self.looks = 0
        maker = ViewMaker(stage.places, stage.domains)
        self.views = Refresher(self._look, maker, Failures(), lambda: self.made.past.version)

    async def _look(self) -> Look:
        self.looks += 1
        return await self.made.look()

    def change(self) -> None:
        """Have a cycle end that says something else of a queue."""
        queues = self.made.past.frozen(NOW).cycle
        assert queues is not None
        first, *others = queues.result.queues
        changed = (replace(first, weight=first.weight + 1), *others)
        self.made.past.cycle(self.made.taken, replace(queues.result, queues=changed))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of the page."""
    found = Clock()
    monkeypatch.setattr(refresher, "time", found)
    return found


async def test_news_after_a_quiet_time_is_shown_at_once(clock: Clock) -> None:
    """Nobody waits for the next second, nor looks while there is no news."""
    watched = Watched()
    await watched.views.view()
    clock.now += refresher.LEAST_SECONDS
    before = await watched.views.view()
    looks = watched.looks
    clock.now += 0.1
    assert await watched.views.view() is before
    assert watched.looks == looks
    watched.change()
    after = await watched.views.view()
    assert after.versions["queues"] > before.versions["queues"]


async def test_shares_that_are_noted_by_the_clock_delay_nothing(clock: Clock) -> None:
    """They are new every ten seconds, without any cycle."""
    watched = Watched()
    await watched.views.view()
    clock.now += refresher.LEAST_SECONDS
    watched.made.now = NOW + 600
    noted = await watched.views.view()
    assert noted.versions["fairness"] > 1
    watched.change()
    assert (await watched.views.view()).versions["queues"] > noted.versions["queues"]


async def test_news_without_end_is_shown_once_a_second(clock: Clock) -> None:
    """Views share the interpreter with cycles."""
    watched = Watched()
    first = await watched.views.view()
    for _ in range(9):
        clock.now += refresher.LEAST_SECONDS / 10
        watched.change()
        assert await watched.views.view() is first
    clock.now += refresher.LEAST_SECONDS / 10
    assert await watched.views.view() is not first


async def test_what_no_cycle_tells_is_seen_within_a_second(clock: Clock) -> None:
    """Such as who leads."""
    watched = Watched()
    await watched.views.view()
    clock.now += refresher.LEAST_SECONDS
    await watched.views.view()
    watched.made.instance = replace(watched.made.instance, sentence="another leads")
    clock.now += refresher.LEAST_SECONDS
    assert (await watched.views.view()).instance.sentence == "another leads"
