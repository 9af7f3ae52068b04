"""What a tenure of the Queues' keeper waits for."""

import asyncio

from aiohttp import web

from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import surrounded, worlds
from vscheduler.cluster import lanes
from vscheduler.daemon import controlling, settings


async def test_queues_are_looked_at_after_the_schedulers_first_cycle(serve: Serve) -> None:
    """Kopf's start, which takes long in a large cluster, comes after what users wait for: the first
    cycle, and what it binds.
    """
    asked: list[str] = []
    settling = True

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"message": "no"}, status=404)

    given = settings.check(settings.Given(leader_elect=False))
    around = surrounded.by(await serve(answer), given)
    keeper = controlling.Controllers(around, lambda _: None, lambda: settling)
    async with asyncio.TaskGroup() as group:
        around.followed.start(group)
        calls = group.create_task(around.calls.run())
        task = group.create_task(keeper.keep_queues({}))
        await asyncio.sleep(0.3)
        assert not asked
        answered = asyncio.Event()

        async def bind() -> None:
            await answered.wait()

        around.calls.put(lanes.Lane.BIND, bind)
        settling = False
        await asyncio.sleep(0.3)
        assert not asked
        answered.set()
        await worlds.until(lambda: asked)
        assert not task.done()
        task.cancel()
        calls.cancel()
