"""What a term of the Queues' keeper waits for, and hears of."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests import patience
from tests.unit.cluster.conftest import Handler, Serve
from tests.unit.controllers import queue_api
from tests.unit.controllers.queue_api import Server
from tests.unit.daemon import runtimes
from tests.unit.daemon.leading import Token
from tests.unit.mirror import manifests
from vscheduler.controllers.podgroups.owners import Codec, OwnerKind
from vscheduler.controllers.podgroups.podgroup_controller import PodGroupController
from vscheduler.controllers.ports import RefusedError
from vscheduler.daemon import controllers_process, settings
from vscheduler.daemon.controllers_process import Controllers
from vscheduler.daemon.settings import Given
from vscheduler.mirror import paths
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate.pod_owners import Owner


def served_by(server: Server) -> Handler:
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
        except RefusedError as error:
            return web.json_response({"message": str(error)}, status=404)

    return answer


@asynccontextmanager
async def keeping(serve: Serve, server: Server) -> AsyncIterator[tuple[Controllers, Mirror]]:
    """Controllers that keep the Queues of a server once Kopf runs, and their Mirror."""
    given = settings.check(Given(leader_elect=False, only=settings.CONTROLLERS))
    runtime = runtimes.by(await serve(served_by(server)), given)
    keeper = Controllers(runtime)
    async with asyncio.TaskGroup() as group:
        runtime.informers.start(group)
        calls = group.create_task(runtime.write_queue.run())
        task = group.create_task(keeper.keep_queues({}))
        await runtime.informers.wait_for_lists()
        yield keeper, runtime.mirror
        task.cancel()
        await asyncio.wait([task])
        calls.cancel()


async def test_queues_hear_of_pods_that_move(serve: Serve) -> None:
    """A group counts as running once one of its pods has a node; nothing else has happened."""
    server = Server()
    for name in ("root", "default"):
        queue_api.a_queue(server, name)
    path = queue_api.a_group(server, "g", "default", "Running")
    server.objects[path]["metadata"]["namespace"] = "ns"

    def counts() -> tuple[int, int]:
        status = queue_api.status_of(server, "default")
        return status.get("pending", -1), status.get("running", -1)

    async with keeping(serve, server) as (keeper, mirror):
        keeper.kopf_runs.set()
        queue_api.follow(server, keeper.changed)
        await patience.until(lambda: counts() == (1, 0))
        mirror.apply(events.convert(Kind.POD, manifests.pod("p", group="g", node="n1")))
        await patience.until(lambda: counts() == (0, 1))
    assert not mirror._job_index._listeners


async def test_queues_are_left_alone_until_kopf_runs(serve: Serve) -> None:
    """A cluster may never serve them; nobody asks it for them all the time then, or is warned."""
    async with keeping(serve, Server()) as (keeper, _):
        await asyncio.sleep(0.1)
        assert keeper._queues is None
        keeper.kopf_runs.set()
        await patience.until(lambda: keeper._queues)


async def test_queues_count_pods_of_all_schedulers_that_share_them(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process keeps the Queues of all; figures in their statuses tell who places pods."""
    monkeypatch.setattr(controllers_process, "SCHEDULERS_SECONDS", 0.01)
    server = Server()
    for name in ("root", "default"):
        queue_api.a_queue(server, name)
    async with keeping(serve, server) as (keeper, mirror):
        keeper.kopf_runs.set()
        queue_api.follow(server, keeper.changed)
        await patience.until(lambda: queue_api.status_of(server, "default"))
        conditions = [{"type": "other/FairShare", "status": "True"}]
        server.edit(f"{paths.QUEUES.everywhere}/default", {"status": {"conditions": conditions}})
        await patience.until(lambda: "other" in keeper._counted)
        for name in ("other", "strange"):
            pod = manifests.pod(name, node="n1", scheduler=name)
            mirror.apply(events.convert(Kind.POD, pod))
        await patience.until(lambda: queue_api.status_of(server, "default")["running"] == 1)


async def test_heartbeats_of_nodes_are_nothing_to_controllers(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of nodes have some every second, and a look at all groups isn't cheap."""
    told: list[str] = []
    monkeypatch.setattr(PodGroupController, "changed", lambda _: told.append("changed"))
    given = settings.check(Given(leader_elect=False, only=settings.CONTROLLERS))
    runtime = runtimes.by(await serve(served_by(Server())), given)
    controllers = Controllers(runtime)
    held = {lease: Token() for lease in given.election.lease_of.values()}
    work = asyncio.create_task(controllers.work(held))
    await patience.until(lambda: controllers._podgroups)
    documents = manifests.node("n1", {}), manifests.group("g"), manifests.pod("p", group="g")
    for document in documents:
        controllers.feed([manifests.event_of(document)])
    work.cancel()
    await asyncio.wait([work])
    assert told == ["changed"] * 2


@pytest.mark.parametrize(("podgroups", "known"), [("gangs", True), ("all", False)])
async def test_the_mirror_knows_owners_that_decide_which_pods_start_alone(
    serve: Serve, podgroups: str, known: bool
) -> None:
    """Clusters are full of old ReplicaSets: where all pods get PodGroups, it needs none of them."""
    given = Given(leader_elect=False, only=settings.CONTROLLERS, podgroups=podgroups)
    runtime = runtimes.by(await serve(served_by(Server())), settings.check(given))
    kind, body = OwnerKind.JOB, {"metadata": {"name": "a", "namespace": "ns", "uid": "u"}}
    (event,) = Codec(kind).change("ADDED", json.dumps(body).encode())
    Controllers(runtime).feed_owners([event])
    owner = Owner(api_version="batch/v1", kind=kind, name="a", uid="u")
    assert (runtime.mirror.owner_annotations(owner) is not None) is known
