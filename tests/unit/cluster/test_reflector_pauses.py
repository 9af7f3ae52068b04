import asyncio
import random
from contextlib import suppress

import pytest
from aiohttp import web

from tests import patience
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.test_reflector import Names, a_list
from vscheduler.cluster.reflector import Pace, Reflector
from vscheduler.mirror.paths import Path

ENOUGH = 6


@pytest.mark.parametrize("status", [200, 500])
async def test_watches_that_end_at_once_are_opened_ever_less(serve: Serve, status: int) -> None:
    """Whether they fail or not: 0.1 s after the first, and twice as long after each next one."""
    asked, enough = 0, asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        nonlocal asked
        if "watch" not in request.query:
            return a_list()
        asked += 1
        if asked == ENOUGH:
            enough.set()
        return web.Response(status=status)

    watch = Reflector(
        await serve(answer),
        Path.to("/things"),
        Names(),
        lambda _: None,
        pace=Pace(retry_seconds=0.1),
        chance=random.Random(1),
    )
    task = asyncio.create_task(watch.run())
    await patience.until(lambda: asked)
    with suppress(TimeoutError):
        async with asyncio.timeout(1.5):
            await enough.wait()
    task.cancel()
    await asyncio.wait({task})
    assert 0 < asked < ENOUGH
