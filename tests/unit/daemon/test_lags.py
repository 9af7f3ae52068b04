"""How late the event loop is told to be."""

import asyncio
import time

from vscheduler.daemon import lags

BLOCKED_SECONDS = 0.05


async def test_a_loop_that_is_free_is_looked_at_again_and_again() -> None:
    """Once in every tick, for as long as the block lasts."""
    found: list[float] = []
    async with asyncio.timeout(10):
        with lags.noted(found.append):
            while len(found) < 3:  # noqa: ASYNC110 - what is waited for is a list
                await asyncio.sleep(lags.TICK_SECONDS)
    assert min(found) >= 0


async def test_what_blocks_the_loop_is_noted_when_it_ends() -> None:
    """At least what was blocked beyond the tick, though the loop had another turn."""
    found: list[float] = []
    with lags.noted(found.append):
        time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251 - this is what is measured
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert max(found) >= BLOCKED_SECONDS - lags.TICK_SECONDS


async def test_a_loop_that_is_blocked_to_the_end_is_noted() -> None:
    """It never got to its turn, and that counts."""
    found: list[float] = []
    with lags.noted(found.append):
        time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251 - this is what is measured
    assert len(found) == 1
    assert found[0] >= BLOCKED_SECONDS - lags.TICK_SECONDS


async def test_nothing_is_noted_after_the_block_or_in_a_short_one() -> None:
    """An idle daemon isn't woken for it."""
    found: list[float] = []
    with lags.noted(found.append):
        pass
    del found[:]  # a machine that is busy may be late even here
    await asyncio.sleep(3 * lags.TICK_SECONDS)
    assert found == []
