"""What a tenure of the Queues' keeper waits for."""

import asyncio

from aiohttp import web

from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from vscheduler.cluster import heralding, lanes
from vscheduler.daemon import controlling, following, metrics, settings, surroundings
from vscheduler.mirror import state


async def test_queues_are_looked_at_after_the_schedulers_first_cycle(serve: Serve) -> None:
    """Kopf's start, which takes long in a large cluster, comes after what users wait for."""
    asked: list[str] = []
    settling = True

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"message": "no"}, status=404)

    link = await serve(answer)
    queue = lanes.Lanes(workers=1, waiting_max=10)
    observed = metrics.Metrics()
    around = surroundings.Surroundings(
        given=settings.check(settings.Given(leader_elect=False)),
        link=link,
        calls=queue,
        mirror=state.Mirror(state.Options(scheduler_names=("vscheduler",))),
        followed=following.Following(link, (), lambda _: None),
        herald=heralding.Herald(
            link,
            queue,
            heralding.Identity(controller="vscheduler", instance="test"),
            observe=observed.observe_write,
        ),
        observed=observed,
        stopping=lambda: False,
        withholding=lambda: False,
    )
    keeper = controlling.Controllers(around, lambda _: None, lambda: settling)
    async with asyncio.TaskGroup() as group:
        around.followed.start(group)
        calls = group.create_task(queue.run())
        task = group.create_task(keeper.keep_queues({}))
        await asyncio.sleep(0.3)
        assert not asked
        settling = False
        await worlds.until(lambda: asked)
        assert not task.done()
        task.cancel()
        calls.cancel()
