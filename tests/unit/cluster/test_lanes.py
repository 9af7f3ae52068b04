import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

import pytest

from vscheduler import containment
from vscheduler.cluster import guarding, lanes, windows


async def run_until_quiet(queue: lanes.Lanes) -> None:
    """Let the workers make all calls that wait."""
    task = asyncio.create_task(queue.run())
    await asyncio.wait_for(queue.wait_until_quiet(), 20)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def noting(word: object, seen: list[object]) -> Callable[[], Coroutine[None, None, None]]:
    """A call that notes its turn."""

    async def call() -> None:
        await asyncio.sleep(0)
        seen.append(word)

    return call


async def test_urgent_calls_go_first() -> None:
    """Whatever came first: binds, then statuses, conditions and events, each in its own order."""
    queue = lanes.Lanes(workers=1, waiting_max=10)
    seen: list[object] = []
    for lane in reversed(lanes.Lane):
        for number in range(2):
            assert queue.put(lane, noting((lane, number), seen))
    await run_until_quiet(queue)
    assert seen == [(lane, number) for lane in lanes.Lane for number in range(2)]


async def test_a_full_lane_takes_no_more() -> None:
    """Events are dropped rather than piled up; binds are always taken."""
    queue = lanes.Lanes(workers=1, waiting_max=2)
    seen: list[object] = []
    taken = [queue.put(lanes.Lane.EVENT, noting("event", seen)) for _ in range(3)]
    assert taken == [True, True, False]
    assert all(queue.put(lanes.Lane.BIND, noting("bind", seen)) for _ in range(3))
    await run_until_quiet(queue)
    assert seen == ["bind"] * 3 + ["event"] * 2


async def test_no_more_calls_are_under_way_than_workers() -> None:
    """The number of workers bounds the load on the API server."""
    queue = lanes.Lanes(workers=3, waiting_max=10)
    now, most = 0, 0

    async def call() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1

    for _ in range(9):
        queue.put(lanes.Lane.BIND, call)
    await run_until_quiet(queue)
    assert (now, most) == (0, 3)


async def test_an_api_server_that_is_too_busy_gets_fewer_calls_at_once() -> None:
    """As long as it says so; what waits is sent nevertheless."""
    queue = lanes.Lanes(workers=20, waiting_max=10)
    seen: list[str] = []

    async def most_at_once(*, busy: bool) -> int:
        now = most = 0

        async def call() -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            if busy:
                queue.throttled()
            now -= 1
            seen.append("bind")

        for _ in range(100):
            queue.put(lanes.Lane.BIND, call)
        await run_until_quiet(queue)
        return most

    assert await most_at_once(busy=False) == 20
    await most_at_once(busy=True)
    assert await most_at_once(busy=True) <= windows.LEAST + 1  # after each round it tries one more
    assert len(seen) == 300


async def test_calls_that_come_one_by_one_find_workers() -> None:
    """Workers that had nothing to do, and some that were told so too often, take new calls."""
    queue = lanes.Lanes(workers=20, waiting_max=10)
    seen: list[object] = []
    task = asyncio.create_task(queue.run())
    for number in range(100):
        queue.put(lanes.Lane.BIND, noting(number, seen))
        if number % 7 == 0:
            await asyncio.wait_for(queue.wait_until_quiet(), 2)
            assert seen == list(range(number + 1))
    await asyncio.wait_for(queue.wait_until_quiet(), 2)
    assert seen == list(range(100))
    task.cancel()
    await asyncio.wait([task])


async def test_who_wants_to_add_much_waits_for_room() -> None:
    """Until no more than so many calls wait; at once where that is so already."""
    queue = lanes.Lanes(workers=1, waiting_max=10)
    seen: list[object] = []
    await queue.wait_for_room(lanes.Lane.BIND, 0)
    for number in range(5):
        queue.put(lanes.Lane.BIND, noting(number, seen))
    task = asyncio.create_task(queue.run())
    await asyncio.wait_for(queue.wait_for_room(lanes.Lane.BIND, 2), 2)
    assert 2 <= len(seen) < 5
    task.cancel()
    await asyncio.wait([task])


async def test_who_waits_for_urgent_calls_does_not_wait_for_others() -> None:
    """A Lease is given back when binds have ended, however many events still wait."""
    queue = lanes.Lanes(workers=2, waiting_max=10)
    go_on = asyncio.Event()
    seen: list[object] = []

    async def slow() -> None:
        await go_on.wait()
        seen.append("event")

    for _ in range(3):
        queue.put(lanes.Lane.EVENT, slow)
    queue.put(lanes.Lane.CONDITION, noting("condition", seen))
    task = asyncio.create_task(queue.run())
    await asyncio.wait_for(queue.wait_until_quiet(lanes.Lane.CONDITION), 2)
    assert seen == ["condition"]
    waiting = asyncio.create_task(queue.wait_until_quiet())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    go_on.set()
    await asyncio.wait_for(waiting, 2)
    assert seen == ["condition"] + ["event"] * 3
    task.cancel()
    await asyncio.wait([task])


async def test_a_call_that_may_not_be_sent_is_over_and_its_worker_goes_on() -> None:
    """It counts as a step, as the lane has moved."""
    queue = lanes.Lanes(workers=1, waiting_max=10)
    seen: list[object] = []

    async def withheld() -> None:
        raise guarding.WithheldError

    assert not queue.busy
    queue.put(lanes.Lane.BIND, withheld)
    queue.put(lanes.Lane.BIND, noting("next", seen))
    assert (queue.busy, queue.steps) == (True, 0)
    await run_until_quiet(queue)
    assert seen == ["next"]
    assert (queue.busy, queue.steps) == (False, 2)


@pytest.mark.contains_failures
async def test_a_call_that_raises_ends_no_worker() -> None:
    """It is counted, and the calls behind it are made."""
    counts: list[str] = []
    queue = lanes.Lanes(workers=1, waiting_max=10, failures=containment.Failures(counts.append))
    made = asyncio.Event()

    async def fail() -> None:
        raise ZeroDivisionError

    async def note() -> None:
        made.set()

    for lane in lanes.Lane:
        queue.put(lane, fail)
    queue.put(lanes.Lane.EVENT, note)
    task = asyncio.create_task(queue.run())
    async with asyncio.timeout(10):
        await made.wait()
        await queue.wait_until_quiet()
    assert counts == ["call"] * len(lanes.Lane)
    task.cancel()
    await asyncio.wait([task])
