"""What a tenure of the Queues' keeper waits for, and hears of."""

import asyncio
import json

from aiohttp import web

from tests.unit.cluster.conftest import Handler, Serve
from tests.unit.controllers import queue_api
from tests.unit.daemon import surrounded, worlds
from tests.unit.mirror import manifests
from vscheduler.cluster.writes import write_queue
from vscheduler.controllers import ports
from vscheduler.daemon import controller_manager, settings
from vscheduler.mirror.decode import decoding, events


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
    keeper = controller_manager.Controllers(around, lambda _: None, lambda: settling)
    async with asyncio.TaskGroup() as group:
        around.followed.start(group)
        calls = group.create_task(around.calls.run())
        task = group.create_task(keeper.keep_queues({}))
        await asyncio.sleep(0.3)
        assert not asked
        answered = asyncio.Event()

        async def bind() -> None:
            await answered.wait()

        around.calls.put(write_queue.Lane.BIND, bind)
        settling = False
        await asyncio.sleep(0.3)
        assert not asked
        answered.set()
        await worlds.until(lambda: asked)
        assert not task.done()
        task.cancel()
        calls.cancel()


def served_by(server: queue_api.Server) -> Handler:
    """The same server, for who speaks HTTP; nothing can be watched there."""
    typed = {"apiVersion": "scheduling.volcano.sh/v1beta1"}
    kinds = {"queues": "Queue", "podgroups": "PodGroup"}

    async def answer(request: web.Request) -> web.Response:
        try:
            if request.method == "PATCH":
                body = json.loads(await request.read())
                stored = await server.patch(request.path, body, request.content_type)
                return web.json_response(typed | {"kind": "Queue"} | stored)
            kind = kinds.get(request.path.rpartition("/")[2])
            if kind is None or "watch" in request.query:
                return web.json_response(typed | await server.get(request.path))
            items = await server.list(request.path)
            return web.json_response(typed | {"kind": f"{kind}List", "items": items})
        except ports.RefusedError as error:
            return web.json_response({"message": str(error)}, status=404)

    return answer


async def test_queues_hear_of_pods_that_move(serve: Serve) -> None:
    """A group counts as running once one of its pods has a node; nothing else has happened."""
    server = queue_api.Server()
    for name in ("root", "default"):
        queue_api.a_queue(server, name)
    path = queue_api.a_group(server, "g", "default", "Running")
    server.objects[path]["metadata"]["namespace"] = "ns"
    given = settings.check(settings.Given(leader_elect=False))
    around = surrounded.by(await serve(served_by(server)), given)
    keeper = controller_manager.Controllers(around, lambda _: None, lambda: False)

    def counts() -> tuple[int, int]:
        status = queue_api.status_of(server, "default")
        return status.get("pending", -1), status.get("running", -1)

    async with asyncio.TaskGroup() as group:
        around.followed.start(group)
        calls = group.create_task(around.calls.run())
        task = group.create_task(keeper.keep_queues({}))
        await worlds.until(lambda: counts() == (1, 0))
        pod = manifests.pod("p", group="g", node="n1")
        around.mirror.apply(decoding.convert(events.Kind.POD, pod))
        await worlds.until(lambda: counts() == (0, 1))
        task.cancel()
        await asyncio.wait([task])
        calls.cancel()
    assert not around.mirror._roster._told
