"""The thread of cycles: what comes back of what is raised there, and who waits for it."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests import patience
from vscheduler.daemon import cycle_thread
from vscheduler.daemon.cycle_thread import CycleThread, FailedError
from vscheduler.daemon.liveness.progress import Cycles


@pytest.fixture
def cycles() -> Cycles:
    """Nothing runs."""
    return Cycles()


@pytest.fixture
def thread(cycles: Cycles) -> Iterator[CycleThread]:
    """One that works."""
    made = CycleThread(cycles)
    made.start()
    yield made
    made.stop()


async def test_it_runs_elsewhere_and_is_noted_while_it_runs(
    thread: CycleThread, cycles: Cycles
) -> None:
    """What it returns comes back."""
    seen = await thread.run(lambda: (threading.get_ident(), cycles.oldest()))
    assert seen == (seen[0], 1)
    assert seen[0] != threading.get_ident()
    assert cycles.oldest() is None


def test_it_may_run_here_and_is_noted_just_the_same(cycles: Cycles) -> None:
    """In the calling thread, whether or not the other one was started."""
    thread = CycleThread(cycles)
    seen = thread.run_here(lambda: (threading.get_ident(), cycles.oldest()))
    assert seen == (threading.get_ident(), 1)
    assert cycles.oldest() is None

    def fail() -> None:
        raise SystemExit

    with pytest.raises(FailedError):
        thread.run_here(fail)
    assert cycles.oldest() is None


async def test_what_it_cost_is_its_own_work(thread: CycleThread) -> None:
    """Not what others did meanwhile, and not what an earlier one cost."""

    def work() -> str:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
        return "done"

    def rest() -> str:
        time.sleep(0.2)
        return "rested"

    await thread.run(work)
    assert thread.worked_seconds >= 0.2
    await thread.run(rest)
    assert thread.worked_seconds < 0.2


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(0), asyncio.CancelledError(), KeyboardInterrupt(), MemoryError()],
)
async def test_whatever_is_raised_is_a_failure_of_the_function(
    thread: CycleThread, cycles: Cycles, error: BaseException
) -> None:
    """Else a plugin that raises SystemExit ends the thread, and one that raises CancelledError
    the task that waits: both without a word.
    """

    def fail() -> None:
        raise error

    with pytest.raises(FailedError) as caught:
        await thread.run(fail)
    assert caught.value.error is error
    assert cycles.oldest() is None
    assert await thread.run(lambda: "next") == "next"


async def test_who_is_cancelled_does_not_wait_and_the_cycle_is_still_noted(
    thread: CycleThread, cycles: Cycles
) -> None:
    """Until it ends: its thread is stuck, whoever leads by then."""
    go, begun = threading.Event(), threading.Event()

    def hang() -> bool:
        begun.set()
        return go.wait(40)

    task = asyncio.create_task(thread.run(hang))
    assert await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    await asyncio.wait({task}, timeout=20)
    assert task.cancelled()
    assert cycles.oldest() == 1
    go.set()
    await patience.until(lambda: cycles.oldest() is None)


def test_the_end_of_the_process_does_not_wait_for_it() -> None:
    """As it would for one of the standard library's pools."""
    program = """
import asyncio, threading
from vscheduler.daemon import cycle_thread
from vscheduler.daemon.liveness import progress
async def main():
    thread = cycle_thread.CycleThread(progress.Cycles())
    thread.start()
    try:
        async with asyncio.timeout(0.1):
            await thread.run(threading.Event().wait)
    except TimeoutError:
        print("left")
asyncio.run(main())
"""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("left\n", 0)


BLOCKED_SECONDS = 0.05


async def test_a_loop_that_is_free_is_looked_at_again_and_again() -> None:
    """Once in every tick, for as long as the block lasts."""
    found: list[float] = []
    async with asyncio.timeout(40):
        with cycle_thread.noting_loop_lag(found.append):
            while len(found) < 3:  # noqa: ASYNC110 - what is waited for is a list
                await asyncio.sleep(cycle_thread.LAG_TICK_SECONDS)
    assert min(found) >= 0


async def test_what_blocks_the_loop_is_noted_when_it_ends() -> None:
    """At least what was blocked beyond the tick, though the loop had another turn."""
    found: list[float] = []
    with cycle_thread.noting_loop_lag(found.append):
        time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251 - this is what is measured
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert max(found) >= BLOCKED_SECONDS - cycle_thread.LAG_TICK_SECONDS


async def test_a_loop_that_is_blocked_to_the_end_is_noted() -> None:
    """It never got to its turn, and that counts."""
    found: list[float] = []
    with cycle_thread.noting_loop_lag(found.append):
        time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251 - this is what is measured
    assert len(found) == 1
    assert found[0] >= BLOCKED_SECONDS - cycle_thread.LAG_TICK_SECONDS


async def test_nothing_is_noted_after_the_block_or_in_a_short_one() -> None:
    """An idle daemon isn't woken for it."""
    found: list[float] = []
    with cycle_thread.noting_loop_lag(found.append):
        pass
    del found[:]  # a machine that is busy may be late even here
    await asyncio.sleep(3 * cycle_thread.LAG_TICK_SECONDS)
    assert found == []
