"""How many statuses, conditions and events are sent at once."""

import asyncio
import itertools
from collections import Counter
from functools import partial

import pytest

from tests.unit.cluster.writes.test_write_queue import run_until_quiet
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue

pytestmark = pytest.mark.usefixtures("virtual_time")

REPORTS = [each for each in WritePriority if each >= WritePriority.STATUS]


@pytest.mark.parametrize(("waiting", "at_once"), [(100, 16), (320, 40), (2000, 64)])
async def test_reports_share_few_connections_unless_many_wait(waiting: int, at_once: int) -> None:
    """Each call at once needs a connection of its own, and opening one costs several calls."""
    queue = WriteQueue(workers=64, waiting_max=5000)
    now, most, lanes = 0, 0, itertools.cycle(REPORTS)

    async def call() -> None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.001)
        now -= 1

    for _ in range(waiting):
        assert queue.put(next(lanes), call)
    await run_until_quiet(queue)
    assert now == 0
    assert at_once * 0.8 <= most <= at_once


async def test_urgent_calls_are_not_kept_waiting_by_reports() -> None:
    """However few connections reports share: all others have the rest."""
    queue = WriteQueue(workers=20, waiting_max=100)
    answer = asyncio.get_running_loop().create_future()
    under_way: list[str] = []

    async def call(word: str) -> None:
        under_way.append(word)
        await answer

    task = asyncio.create_task(queue.run())
    for priority, word in (
        (WritePriority.EVENT, "report"),
        (WritePriority.BIND, "bind"),
    ):
        for _ in range(30):
            queue.put(priority, partial(call, word))
        await asyncio.sleep(0.01)
    assert Counter(under_way) == {"report": 16, "bind": 4}
    answer.set_result(None)
    await asyncio.wait_for(queue.wait_until_quiet(), 20)
    assert Counter(under_way) == {"report": 30, "bind": 30}
    task.cancel()
