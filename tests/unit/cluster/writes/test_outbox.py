import asyncio
import itertools
from typing import TypeVar

import pytest

from vscheduler.cluster.writes import outbox, write_queue

Item = TypeVar("Item")


def noting(item: Item, seen: list[Item]) -> outbox.Write:
    """A write that notes its turn."""

    async def write() -> None:
        seen.append(item)

    return write


async def test_an_outbox_writes_the_newest_and_not_too_often() -> None:
    """Of what was offered while a key rests, only the last is written."""
    queue = write_queue.Lanes(workers=1, waiting_max=10)
    box = outbox.Outbox(queue, write_queue.Lane.STATUS, spacing_seconds=0.4)
    seen: list[int] = []

    async def until(numbers: list[int]) -> None:
        async with asyncio.timeout(5):
            while seen != numbers:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)

    task = asyncio.create_task(queue.run())
    for number in range(3):
        box.offer("key", noting(number, seen))
    await until([2])
    for number in range(3, 6):
        box.offer("key", noting(number, seen))
    box.offer_again("key", noting(9, seen))
    await asyncio.sleep(0.05)
    assert seen == [2]
    await until([2, 5])
    box.offer("key", noting(6, seen))
    box.withdraw("key")
    await asyncio.sleep(0.6)
    assert seen == [2, 5]
    task.cancel()
    await asyncio.wait([task])


async def test_what_may_wait_is_written_after_a_rest_or_not_at_all() -> None:
    """Something newer takes its place."""
    queue = write_queue.Lanes(workers=1, waiting_max=10)
    box = outbox.Outbox(queue, write_queue.Lane.STATUS, spacing_seconds=0.4)
    seen: list[str] = []
    task = asyncio.create_task(queue.run())
    box.offer_later("a", noting("a at first", seen))
    box.offer_later("b", noting("b", seen))
    box.offer("a", noting("a", seen))
    await asyncio.sleep(0.05)
    assert seen == []
    async with asyncio.timeout(5):
        while len(seen) < 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
    assert sorted(seen) == ["a", "b"]
    task.cancel()
    await asyncio.wait([task])


async def test_an_outbox_tries_a_full_lane_again() -> None:
    """What says how things are is not dropped, only late."""
    queue = write_queue.Lanes(workers=1, waiting_max=1)
    box = outbox.Outbox(queue, write_queue.Lane.STATUS, spacing_seconds=0.005)
    seen: list[str] = []

    for word in ("a", "b"):
        box.offer(word, noting(word, seen))
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0.05)
    assert sorted(seen) == ["a", "b"]
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.contains_failures
async def test_a_write_that_raises_is_made_again_later_and_later() -> None:
    """Until it works; others are written meanwhile."""
    queue = write_queue.Lanes(workers=1, waiting_max=10)
    box = outbox.Outbox(queue, write_queue.Lane.STATUS, spacing_seconds=0.01)
    loop, seen, tried = asyncio.get_running_loop(), list[str](), list[float]()

    async def write() -> None:
        tried.append(loop.time())
        if len(tried) < 4:
            raise ZeroDivisionError
        seen.append("bad")

    task = asyncio.create_task(queue.run())
    box.offer("bad", write)
    box.offer("good", noting("good", seen))
    async with asyncio.timeout(10):
        while len(seen) < 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
    assert seen == ["good", "bad"]
    pauses = [after - before for before, after in itertools.pairwise(tried)]
    assert all(pause >= least for pause, least in zip(pauses, (0.02, 0.04, 0.08), strict=True))
    task.cancel()
    await asyncio.wait([task])
