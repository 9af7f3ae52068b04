import asyncio
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from vscheduler.daemon import pacing
from vscheduler.daemon.pacing import Pace, Pacing
from vscheduler.mirror.index.entries import Change

pytestmark = pytest.mark.usefixtures("virtual_time")

QUICK = Pace(
    period_seconds=60, debounce_seconds=60, quick_seconds=0.001, step_seconds=60, rest_factor=1000
)
"""What isn't due soon isn't due within a test."""
LONG = 1000.0
"""Seconds that a cycle took."""


def paced(pace: Pace = QUICK, more_to_come: Callable[[], bool] = lambda: False) -> Pacing:
    """After a first cycle that bound nothing, and took no time."""
    made = Pacing(pace, more_to_come)
    ended(made)
    return made


def ended(
    made: Pacing,
    *,
    seconds: float = 0.0,
    bound: bool = False,
    finished: bool = True,
    wake_at: float | None = None,
    **costs: int,
) -> None:
    """A cycle has come to its end; costs: of namespaces."""
    made.begin()
    made.end(seconds=seconds, bound=bound, finished=finished, wake_at=wake_at, costs=costs)


async def is_due(made: Pacing, *, within: float = 0.1) -> bool:
    """Whether a cycle is due soon."""
    try:
        await asyncio.wait_for(made.wait(), within)
    except TimeoutError:
        return False
    return True


async def test_the_first_change_makes_the_first_cycle_at_once() -> None:
    """Lists have shown all there is, whole gangs or not."""
    made = Pacing(replace(QUICK, quick_seconds=60), lambda: True)
    assert not await is_due(made)
    made.changed()
    assert await is_due(made)


async def test_a_change_makes_a_cycle_soon_and_only_one() -> None:
    """What a cycle has seen makes no other."""
    made = paced()
    assert not await is_due(made)
    made.changed()
    assert await is_due(made, within=5)
    ended(made)
    assert not await is_due(made)


async def test_who_changes_nothing_makes_no_cycle() -> None:
    """However long it is waited."""
    made = paced(replace(QUICK, step_seconds=0.001))
    made.changed(Change.NONE)
    assert not await is_due(made)


@pytest.mark.parametrize(("step", "due"), [(60.0, False), (0.001, True)])
async def test_a_step_is_let_rest_for_longer(step: float, due: bool) -> None:
    """Nobody waits for it."""
    made = paced(replace(QUICK, step_seconds=step))
    made.changed(Change.STEP)
    assert await is_due(made, within=5 if due else 0.1) is due


async def test_a_step_that_another_cycle_has_seen_makes_none() -> None:
    """Nor does it hasten the next one; a later step makes one of its own."""
    made = paced(replace(QUICK, step_seconds=0.2))
    made.changed(Change.STEP)
    made.changed(Change.STEP)
    made.changed(Change.OTHER)
    assert await is_due(made, within=5)
    ended(made)
    assert not await is_due(made, within=0.4)
    made.changed(Change.STEP)
    assert await is_due(made, within=5)


async def test_a_change_that_leaves_no_gang_incomplete_makes_a_cycle_at_once() -> None:
    """Nothing more is expected, so there is nothing to wait for."""
    made = paced(replace(QUICK, quick_seconds=60))
    made.changed()
    assert await is_due(made, within=5)


async def test_more_of_a_gang_is_waited_for() -> None:
    """Until it is whole."""
    missing = ["pod"]
    made = paced(more_to_come=lambda: bool(missing))
    made.changed()
    assert not await is_due(made)
    missing.clear()
    assert await is_due(made, within=5)


async def test_a_gang_that_is_never_whole_is_waited_for_as_long_as_a_debounce() -> None:
    """Then its pods are told why they wait."""
    made = paced(replace(QUICK, debounce_seconds=0.2), more_to_come=lambda: True)
    made.changed()
    started = time.monotonic()
    assert await is_due(made, within=5)
    assert time.monotonic() - started >= 0.2


@pytest.mark.parametrize(
    ("bound", "pace", "due"),
    [
        (False, QUICK, False),
        (False, replace(QUICK, period_seconds=0.01), True),
        (False, replace(QUICK, rest_factor=0.00001), True),
        (True, QUICK, False),
        (True, replace(QUICK, debounce_seconds=0.01), True),
        (True, replace(QUICK, short_factor=0.00001), True),
    ],
)
async def test_a_cycle_is_followed_by_a_rest(bound: bool, pace: Pace, due: bool) -> None:
    """By its length, with a bound of its own where pods were bound."""
    made = paced(pace)
    ended(made, seconds=LONG, bound=bound)
    made.changed()
    assert await is_due(made, within=5 if due else 0.1) is due


async def test_a_cycle_that_was_cut_short_is_followed_by_the_next_at_once() -> None:
    """What changes meanwhile makes another cycle, after the last of them."""
    made = paced()
    ended(made, finished=False, seconds=LONG)
    assert await is_due(made)
    made.changed()
    made.begin()
    made.end(seconds=0.0, bound=True, finished=True, wake_at=None)
    assert await is_due(made, within=5)


@pytest.mark.parametrize(("after", "due"), [(-1.0, True), (0.05, True), (60.0, False)])
async def test_a_cycle_comes_when_it_was_asked_for(after: float, due: bool) -> None:
    """By the clock on the wall, with nothing changed."""
    made = paced()
    ended(made, wake_at=time.time() + after)
    assert await is_due(made, within=5 if due else 0.1) is due


@pytest.mark.parametrize(("seconds", "due"), [(60.0, False), (0.0, True)])
async def test_a_cycle_that_failed_is_tried_again_later(seconds: float, due: bool) -> None:
    """The first one, too; and though nothing has changed."""
    for made in (Pacing(QUICK, lambda: False), paced()):
        made.changed()
        made.begin()
        made.fail(seconds)
        assert await is_due(made, within=5 if due else 0.1) is due


OTHER = Change.OTHER


@pytest.mark.parametrize(
    ("waiting", "due"),
    [
        (["b"], True),
        (["new"], True),
        (["a", "b"], True),
        (["a"], False),
        (["c"], False),
        ([], False),
    ],
)
@pytest.mark.parametrize("early", [True, False])
async def test_who_had_little_part_in_what_a_cycle_cost_ends_its_rest(
    waiting: list[str], due: bool, early: bool
) -> None:
    """Its pods come while it is rested, or came when the cycle had begun."""
    made = paced()
    made.begin()
    made.changed(OTHER, waiting if early else ())
    costs = {"a": 1000, "b": 249, "c": 250}
    made.end(seconds=0.01, bound=False, finished=True, wake_at=None, costs=costs)
    made.changed(OTHER, () if early else waiting)
    assert await is_due(made, within=5 if due else 0.1) is due


@pytest.mark.parametrize(
    ("news", "due"),
    [
        (["a"], False),
        (["c"], False),
        (["b"], True),
        (["a", pacing.ANYBODY], True),
        (["bound"], True),
    ],
)
@pytest.mark.parametrize("early", [True, False])
async def test_what_others_got_is_no_hurry_for_who_got_nothing(
    news: list[str], due: bool, early: bool
) -> None:
    """A cycle bound pods, and two namespaces cost much in vain: only their news can wait."""
    made = paced()
    made.begin()
    costs = {"a": 1_000_000, "b": 249_000, "c": 250_000}
    if early:
        made.changed(OTHER, news)
    made.end(seconds=0.1, bound=True, finished=True, wake_at=None, costs=costs)
    if not early:
        made.changed(OTHER, news)
    assert await is_due(made, within=5 if due else 0.1) is due


async def test_what_was_in_vain_is_rested_four_times_at_most() -> None:
    """Of a cycle that bound pods, it is what it cost in vain that counts."""
    made = paced(replace(QUICK, rest_factor=4.0, debounce_seconds=0.0))
    ended(made, seconds=9.0, bound=True, a=100_000)
    made.changed(OTHER, ["a"])
    started = time.monotonic()
    assert await is_due(made, within=5)
    assert time.monotonic() - started >= 0.39


async def test_a_gang_of_which_the_first_pod_ends_a_rest_is_waited_for() -> None:
    """Else the rest of it would be seen a cycle later."""
    lacks = [True]
    made = paced(replace(QUICK, debounce_seconds=5), lambda: lacks[0])
    ended(made, seconds=0.01, a=1000)
    lacks[0] = False
    made.changed(OTHER, ["a"])
    waits = asyncio.ensure_future(made.wait())
    await asyncio.sleep(0.1)
    lacks[0] = True
    made.changed(OTHER, ["b"])
    await asyncio.sleep(0.1)
    assert not waits.done()
    lacks[0] = False
    await asyncio.wait_for(waits, 5)


class Counted(Pacing):
    """Counts the moments in which more is waited for."""

    moments = 0

    async def _rest(self) -> None:
        self.moments += 1
        await super()._rest()


@pytest.mark.parametrize(("comes", "moments"), [(True, pacing.GATHERINGS_MAX), (False, 1)])
async def test_a_gang_that_still_comes_is_waited_for_a_few_moments_at_most(
    comes: bool, moments: int
) -> None:
    """A gang of which nothing comes any more gets one moment."""
    made = Counted(replace(QUICK, debounce_seconds=0.1), lambda: True)
    ended(made)
    ended(made, seconds=0.001, a=1000)
    made.changed(OTHER, ["a"])
    waits = asyncio.ensure_future(made.wait())
    await asyncio.sleep(0.2)
    before = made.moments
    made.changed(OTHER, ["b"])
    while not waits.done():
        await asyncio.sleep(0.02)
        if comes:
            made.changed(OTHER, ["b"])
    assert made.moments - before == moments


async def test_pods_that_come_in_the_middle_of_a_rest_end_it() -> None:
    """Who waits hears of them."""
    made = paced()
    ended(made, seconds=0.01, a=1000)
    made.changed(OTHER, ["a"])
    waits = asyncio.ensure_future(made.wait())
    await asyncio.sleep(0.1)
    assert not waits.done()
    made.changed(OTHER, ["b"])
    await asyncio.wait_for(waits, 5)


async def test_the_rest_lasts_half_as_long_as_the_cycle_for_them_too() -> None:
    """Two thirds of a core at most are spent however often they come."""
    made = paced()
    ended(made, seconds=0.6, a=1000)
    made.changed(OTHER, ["b"])
    started = time.monotonic()
    assert await is_due(made, within=5)
    assert time.monotonic() - started >= 0.29


async def test_what_a_cycle_has_seen_ends_no_rest() -> None:
    """They had their turn in it."""
    made = paced()
    ended(made, seconds=0.001, a=1000)
    made.changed(OTHER, ["b"])
    ended(made, seconds=0.01, a=1000)
    made.changed(OTHER)
    assert not await is_due(made)


async def test_after_a_failure_nobody_ends_the_rest() -> None:
    """It is for the scheduler's own sake."""
    made = paced()
    ended(made, seconds=0.001, a=1000)
    made.fail(60)
    made.changed(OTHER, ["b"])
    assert not await is_due(made)
