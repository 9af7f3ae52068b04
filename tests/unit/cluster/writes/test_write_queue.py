import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

import pytest

from tests import patience
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes import concurrency_limit, write_queue
from vscheduler.cluster.writes.concurrency_limit import ConcurrencyLimit
from vscheduler.cluster.writes.write_queue import CoalescingQueue, WritePriority, WriteQueue
from vscheduler.containment import Failures

pytestmark = pytest.mark.usefixtures("virtual_time")

Item = TypeVar("Item")


async def run_until_quiet(queue: WriteQueue) -> None:
    """Let the workers make all calls that wait."""
    task = asyncio.create_task(queue.run())
    await asyncio.wait_for(queue.wait_until_quiet(), 20)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def noting(word: Item, seen: list[Item]) -> Callable[[], Coroutine[None, None, None]]:
    """A call that notes its turn."""

    async def call() -> None:
        await asyncio.sleep(0)
        seen.append(word)

    return call


async def test_urgent_calls_go_first() -> None:
    """Whatever came first: binds, then statuses, conditions and events, each in its own order."""
    queue = WriteQueue(workers=1, waiting_max=10)
    seen: list[object] = []
    for lane in reversed(WritePriority):
        for number in range(2):
            assert queue.put(lane, noting((lane, number), seen))
    await run_until_quiet(queue)
    assert seen == [(lane, number) for lane in WritePriority for number in range(2)]


async def test_what_continues_a_call_goes_ahead_of_its_lane() -> None:
    """And behind more urgent lanes."""
    queue = WriteQueue(workers=1, waiting_max=10)
    seen: list[object] = []
    for word in ("first", "second"):
        queue.put(WritePriority.EVICTION, noting(word, seen))
    queue.put(WritePriority.EVICTION, noting("next step", seen), ahead=True)
    queue.put(WritePriority.BIND, noting("bind", seen))
    await run_until_quiet(queue)
    assert seen == ["bind", "next step", "first", "second"]


async def test_a_full_lane_takes_no_more() -> None:
    """Events are dropped rather than piled up; binds are always taken."""
    queue = WriteQueue(workers=1, waiting_max=2)
    seen: list[object] = []
    taken = [queue.put(WritePriority.EVENT, noting("event", seen)) for _ in range(3)]
    assert taken == [True, True, False]
    assert all(queue.put(WritePriority.BIND, noting("bind", seen)) for _ in range(3))
    await run_until_quiet(queue)
    assert seen == ["bind"] * 3 + ["event"] * 2


async def test_no_more_calls_are_under_way_than_workers() -> None:
    """The number of workers bounds the load on the API server."""
    queue = WriteQueue(workers=3, waiting_max=10)
    now, most = 0, 0

    async def call() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1

    for _ in range(9):
        queue.put(WritePriority.BIND, call)
    await run_until_quiet(queue)
    assert (now, most) == (0, 3)


async def test_an_api_server_that_is_too_busy_gets_fewer_calls_at_once() -> None:
    """As long as it says so; what waits is sent nevertheless."""
    queue = WriteQueue(workers=20, waiting_max=10)
    all_at_once = asyncio.Barrier(20)
    seen: list[str] = []

    async def most_at_once(*, busy: bool) -> int:
        now = most = 0

        async def call() -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if busy:
                await asyncio.sleep(0)
                queue.throttled()
            else:
                await all_at_once.wait()
            now -= 1
            seen.append("bind")

        for _ in range(100):
            queue.put(WritePriority.BIND, call)
        await run_until_quiet(queue)
        return most

    assert await most_at_once(busy=False) == 20
    await most_at_once(busy=True)
    assert (
        await most_at_once(busy=True) <= concurrency_limit.CALLS_MIN + 1
    )  # after each round it tries one more
    assert len(seen) == 300


async def test_calls_that_come_one_by_one_find_workers() -> None:
    """Workers that had nothing to do, and some that were told so too often, take new calls."""
    queue = WriteQueue(workers=20, waiting_max=10)
    seen: list[object] = []
    task = asyncio.create_task(queue.run())
    for number in range(100):
        queue.put(WritePriority.BIND, noting(number, seen))
        if number % 7 == 0:
            await asyncio.wait_for(queue.wait_until_quiet(), 20)
            assert seen == list(range(number + 1))
    await asyncio.wait_for(queue.wait_until_quiet(), 20)
    assert seen == list(range(100))
    task.cancel()
    await asyncio.wait([task])


async def test_who_wants_to_add_much_waits_for_room() -> None:
    """Until no more than so many calls wait; at once where that is so already."""
    queue = WriteQueue(workers=1, waiting_max=10)
    seen: list[object] = []
    await queue.wait_for_room(WritePriority.BIND, 0)
    for number in range(5):
        queue.put(WritePriority.BIND, noting(number, seen))
    task = asyncio.create_task(queue.run())
    await asyncio.wait_for(queue.wait_for_room(WritePriority.BIND, 2), 20)
    assert 2 <= len(seen) < 5
    task.cancel()
    await asyncio.wait([task])


async def test_who_waits_for_urgent_calls_does_not_wait_for_others() -> None:
    """A Lease is given back when binds have ended, however many events still wait."""
    queue = WriteQueue(workers=2, waiting_max=10)
    go_on = asyncio.Event()
    seen: list[object] = []

    async def slow() -> None:
        await go_on.wait()
        seen.append("event")

    for _ in range(3):
        queue.put(WritePriority.EVENT, slow)
    queue.put(WritePriority.CONDITION, noting("condition", seen))
    task = asyncio.create_task(queue.run())
    await asyncio.wait_for(queue.wait_until_quiet(WritePriority.CONDITION), 20)
    assert seen == ["condition"]
    waiting = asyncio.create_task(queue.wait_until_quiet())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    go_on.set()
    await asyncio.wait_for(waiting, 20)
    assert seen == ["condition"] + ["event"] * 3
    task.cancel()
    await asyncio.wait([task])


async def test_a_call_that_may_not_be_sent_is_over_and_its_worker_goes_on() -> None:
    """It counts as a step, as the lane has moved."""
    queue = WriteQueue(workers=1, waiting_max=10)
    seen: list[object] = []

    async def withheld() -> None:
        raise NotSentError

    assert not queue.busy
    queue.put(WritePriority.BIND, withheld)
    queue.put(WritePriority.BIND, noting("next", seen))
    assert (queue.busy, queue.steps) == (True, 0)
    await run_until_quiet(queue)
    assert seen == ["next"]
    assert (queue.busy, queue.steps) == (False, 2)


@pytest.mark.contains_failures
async def test_a_call_that_raises_ends_no_worker() -> None:
    """It is counted, and the calls behind it are made."""
    counts: list[str] = []
    queue = WriteQueue(workers=1, waiting_max=10, failures=Failures(counts.append))
    made = asyncio.Event()

    async def fail() -> None:
        raise ZeroDivisionError

    async def note() -> None:
        made.set()

    for lane in WritePriority:
        queue.put(lane, fail)
    queue.put(WritePriority.EVENT, note)
    task = asyncio.create_task(queue.run())
    async with asyncio.timeout(40):
        await made.wait()
        await queue.wait_until_quiet()
    assert counts == ["call"] * len(WritePriority)
    task.cancel()
    await asyncio.wait([task])


async def test_an_outbox_writes_the_newest_and_not_too_often() -> None:
    """Of what was offered while a key rests, only the last is written."""
    queue = WriteQueue(workers=1, waiting_max=10)
    box = CoalescingQueue(queue, WritePriority.STATUS, spacing_seconds=0.4)
    seen: list[int] = []

    task = asyncio.create_task(queue.run())
    for number in range(3):
        box.offer("key", noting(number, seen))
    await patience.until(lambda: seen == [2])
    for number in range(3, 6):
        box.offer("key", noting(number, seen))
    box.offer_again("key", noting(9, seen))
    await asyncio.sleep(0.05)
    assert seen == [2]
    await patience.until(lambda: seen == [2, 5])
    box.offer("key", noting(6, seen))
    box.withdraw("key")
    await asyncio.sleep(0.6)
    assert seen == [2, 5]
    task.cancel()
    await asyncio.wait([task])


async def test_what_may_wait_is_written_after_a_rest_or_not_at_all() -> None:
    """Something newer takes its place."""
    queue = WriteQueue(workers=1, waiting_max=10)
    box = CoalescingQueue(queue, WritePriority.STATUS, spacing_seconds=0.4)
    seen: list[str] = []
    task = asyncio.create_task(queue.run())
    box.offer_later("a", noting("a at first", seen))
    box.offer_later("b", noting("b", seen))
    box.offer("a", noting("a", seen))
    await asyncio.sleep(0.05)
    assert seen == []
    await patience.until(lambda: len(seen) >= 2)
    assert sorted(seen) == ["a", "b"]
    task.cancel()
    await asyncio.wait([task])


async def test_an_outbox_tries_a_full_lane_again() -> None:
    """What says how things are is not dropped, only late."""
    queue = WriteQueue(workers=1, waiting_max=1)
    box = CoalescingQueue(queue, WritePriority.STATUS, spacing_seconds=0.005)
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
    queue = WriteQueue(workers=1, waiting_max=10)
    box = CoalescingQueue(queue, WritePriority.STATUS, spacing_seconds=0.01)
    loop, seen, tried = asyncio.get_running_loop(), list[str](), list[float]()

    async def write() -> None:
        tried.append(loop.time())
        if len(tried) < 4:
            raise ZeroDivisionError
        seen.append("bad")

    task = asyncio.create_task(queue.run())
    box.offer("bad", write)
    box.offer("good", noting("good", seen))
    await patience.until(lambda: len(seen) >= 2)
    assert seen == ["good", "bad"]
    pauses = [after - before for before, after in itertools.pairwise(tried)]
    assert pauses == pytest.approx([0.02, 0.04, 0.08])
    task.cancel()
    await asyncio.wait([task])


async def test_what_was_refused_is_offered_again_unless_there_is_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Permissions may come back; a newer write, or none, takes the place of the refused one."""
    monkeypatch.setattr(write_queue, "REFUSED_SECONDS", 0.05)
    queue = WriteQueue(workers=1, waiting_max=10)
    box = CoalescingQueue(queue, WritePriority.STATUS, spacing_seconds=0.01)
    seen = list[str]()
    task = asyncio.create_task(queue.run())
    for key in ("a", "b", "c"):
        box.offer_after_refusal(key, noting(f"{key} again", seen))
    box.offer("b", noting("b anew", seen))
    box.withdraw("c")
    await asyncio.sleep(0.02)
    assert seen == ["b anew"]
    await asyncio.sleep(0.1)
    assert seen == ["b anew", "a again"]
    box.offer_after_refusal("a", noting("a at last", seen))
    box.stop()
    await asyncio.sleep(0.1)
    assert seen == ["b anew", "a again"]
    task.cancel()
    await asyncio.wait([task])


def answer(limit: ConcurrencyLimit, number: int) -> None:
    """So many calls have ended."""
    for _ in range(number):
        limit.answered()


@pytest.mark.parametrize("most", [1, 3, 8, 16, 64])
def test_it_stays_between_its_bounds(most: int) -> None:
    """Whatever the answers are, and with less room than the least."""
    chance = random.Random(7)
    limit = ConcurrencyLimit(most)
    for _ in range(10_000):
        if chance.random() < 0.02:
            limit.throttled()
        limit.answered()
        assert min(concurrency_limit.CALLS_MIN, most) <= limit.size <= most


def test_it_is_wide_open_until_the_server_is_too_busy() -> None:
    """A server that can is given all that there may be."""
    limit = ConcurrencyLimit(64)
    answer(limit, 1000)
    assert limit.size == 64


def test_a_server_that_is_too_busy_closes_it_once_for_calls_of_one_moment() -> None:
    """Sixty-four refusals of as many calls are one piece of news; the next is another."""
    limit = ConcurrencyLimit(64)
    for _ in range(64):
        limit.throttled()
        limit.answered()
    assert limit.size == 48
    limit.throttled()
    assert limit.size == 36


def test_it_opens_again_by_one_a_round() -> None:
    """When answers to calls that were made before it closed are in."""
    limit = ConcurrencyLimit(64)
    limit.throttled()
    answer(limit, 64 + 47)
    assert limit.size == 48
    answer(limit, 1)
    assert limit.size == 49
    answer(limit, 49 + 50)
    assert limit.size == 51


def test_a_server_that_goes_on_being_too_busy_gets_the_least() -> None:
    """From there it opens as soon as answers come that are none of that kind."""
    limit = ConcurrencyLimit(64)
    for _ in range(1000):
        limit.throttled()
        limit.answered()
    assert limit.size == concurrency_limit.CALLS_MIN
    answer(limit, 64)
    assert limit.size > concurrency_limit.CALLS_MIN
