"""Kopf itself, against a server that knows as much of Kubernetes as it asks for.

Kopf has a thread and an event loop of its own here: at its end it cancels all tasks of its loop
that are younger than itself, such as those of the server.
"""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from structlog import testing

from tests import patience
from vscheduler.controllers import operator
from vscheduler.controllers.followed_objects import Event, FollowedObjects
from vscheduler.controllers.operator import EndlessBackoffs, Outlets, Pace
from vscheduler.controllers.ports import Api, Object, RefusedError, Trouble
from vscheduler.controllers.queues.queue_objects import FollowedKind
from vscheduler.mirror.translate import translation
from vscheduler.model.topology import HyperNode, Member

SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
BUS = "/apis/bus.volcano.sh/v1alpha1"
TOPOLOGY = "/apis/topology.volcano.sh/v1alpha1"
NATIVE = "/apis/scheduling.k8s.io/v1beta1"
NATIVE_GROUPS = f"{NATIVE}/podgroups"
"""Stands for itself in `tell` and `watched`, which take plurals otherwise."""
PACE = Pace(absent_seconds=0.01, look_seconds=0.1)


class Cluster:
    """Discovery, lists and watches; the way to it, and the port for what isn't Kopf's."""

    def __init__(self) -> None:
        self.host = ""
        self.kinds = {SCHEDULING: {"queues", "podgroups"}}
        self.forbidden: set[str] = set()
        """Kinds that may not be listed."""
        self.looks = 0
        self.silent = False
        """Whether no look at a list is answered."""
        self.items: dict[str, list[dict[str, Any]]] = {}
        self.methods: list[str] = []
        self.tokens: list[str] = []
        self._watches: dict[str, list[web.StreamResponse]] = {}
        self.ended = False

    def session(self) -> aiohttp.ClientSession:
        """A session for Kopf's loop."""
        return aiohttp.ClientSession(headers={"Authorization": "Bearer ours"})

    async def get(self, path: str) -> Object:
        """A look at a list, as the daemon's connection sees it."""
        self.looks += 1
        while self.silent:  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.01)
        group, _, plural = path.partition("?")[0].rpartition("/")
        if plural in self.forbidden:
            raise RefusedError(Trouble.FORBIDDEN, path)
        if plural not in self.kinds.get(group, ()):
            raise RefusedError(Trouble.MISSING, path)
        return {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Whatever Kopf asks."""
        self.methods.append(request.method)
        self.tokens.append(request.headers["Authorization"])
        group, _, plural = request.path.rpartition("/")
        discovered = {
            "/api": {"versions": ["v1"]},
            "/api/v1": {"resources": [_resource("namespaces")]},
            "/apis": {"groups": [_group(kind) for kind in self.kinds]},
        } | {
            path: {"resources": [_resource(plural) for plural in plurals]}
            for path, plurals in self.kinds.items()
        }
        if request.path in discovered:
            return web.json_response(discovered[request.path])
        if plural not in self.kinds.get(group, ()):
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        if "watch" in request.query:
            return await self._watch(request, plural)
        items = self.items.get(plural, [])
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        key = NATIVE_GROUPS if request.path == NATIVE_GROUPS else plural
        self._watches.setdefault(key, []).append(response)
        group = request.path.rpartition("/")[0]
        while not self.ended and plural in self.kinds.get(group, ()):  # noqa: ASYNC110 - a set says it
            await asyncio.sleep(0.01)
        return response

    async def tell(self, plural: str, change: str, item: dict[str, Any]) -> None:
        """Tell whoever watches."""
        for watch in self._watches.get(plural, []):
            with suppress(ConnectionError):
                await watch.write(json.dumps({"type": change, "object": item}).encode() + b"\n")

    def watched(self, plural: str) -> bool:
        """Whether somebody watches."""
        return bool(self._watches.get(plural))


def _group(path: str) -> dict[str, Any]:
    _, _, name, version = path.split("/")
    return {
        "name": name,
        "versions": [{"version": version}],
        "preferredVersion": {"version": version},
    }


def _resource(plural: str) -> dict[str, Any]:
    return {
        "name": plural,
        "kind": plural.title(),
        "singularName": plural,
        "namespaced": plural not in ("queues", "hypernodes"),
        "verbs": ["get", "list", "watch", "patch"],
    }


def an_item(name: str, **more: Any) -> dict[str, Any]:
    """An object of any kind."""
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "5"}
    return {"metadata": metadata, **more}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A server at work."""
    made = Cluster()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    made.ended = True
    await runner.cleanup()
    # What Kopf has left behind speaks up here, when nobody holds it any more, and not while another
    # test parses code: Python 3.11 puts that into a traceback, and can't parse two at a time.
    gc.collect()


class Run:
    """A run of the operator, and what its handlers were told."""

    def __init__(self, cluster: Cluster) -> None:
        self.followed = FollowedObjects()
        self.indices = self.followed.indices
        self.heard: list[bool] = []
        """Of each event, whether its object was listed."""
        self.ends = 0
        self._cluster = cluster
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    async def run(self) -> None:
        """Run, in another thread's event loop."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        outlets = Outlets(changed=self._hear, ended=self._end)
        api = cast("Api", self._cluster)
        await operator.run(
            api, self._cluster, outlets, stop=self._stop, spawned=lambda: None, pace=PACE
        )

    def stop(self) -> None:
        """Let it end."""
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)

    def groups(self) -> set[str]:
        """UIDs of the PodGroups in the index."""
        return {group.uid for held in list(self.indices.podgroups.values()) for group in [*held]}

    def _hear(self, kind: FollowedKind, event: Event) -> None:
        self.followed.take(kind, event)
        self.heard.append(event["type"] is None)

    async def _end(self) -> None:
        self.ends += 1


@asynccontextmanager
async def operating(cluster: Cluster) -> AsyncIterator[tuple[Run, "asyncio.Future[None]"]]:
    """A run, and its end."""
    run = Run(cluster)
    task = asyncio.ensure_future(asyncio.to_thread(asyncio.run, run.run()))
    try:
        yield run, task
    finally:
        run.stop()
        await asyncio.wait([task])


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_objects_are_indexed_and_nothing_is_written(cluster: Cluster) -> None:
    """Listed, changed and deleted ones."""
    cluster.items["queues"] = [an_item("red", spec={"parent": "top"})]
    async with operating(cluster) as (run, task):
        await patience.until(lambda: run.heard)
        assert run.heard == [True]
        ((red,),) = run.indices.queues.values()
        assert (red.name, red.parent) == ("red", "top")
        await patience.until(lambda: cluster.watched("podgroups"))
        running = an_item("g", status={"phase": "Running"}, spec={"queue": "red"})
        await cluster.tell("podgroups", "ADDED", running)
        await patience.until(lambda: len(run.heard) == 2)
        assert run.heard[1] is False
        ((group,),) = run.indices.podgroups.values()
        assert (group.uid, group.queue, group.counter) == ("uid-g", "red", "running")
        await cluster.tell("podgroups", "DELETED", running)
        await patience.until(lambda: not run.groups())
        assert run.ends == 0
        run.stop()
        await task
        assert run.ends == 1
    assert set(cluster.methods) == {"GET"}
    assert set(cluster.tokens) == {"Bearer ours"}


async def test_each_group_is_indexed_by_its_queue(cluster: Cluster) -> None:
    """Those of a list, and of a burst of events."""
    cluster.items["podgroups"] = [an_item(f"old{number}") for number in range(100)]
    async with operating(cluster) as (run, _):
        await patience.until(lambda: cluster.watched("podgroups"))
        for number in range(200):
            group = an_item(f"g{number}", spec={"queue": f"q{number % 3}"})
            await cluster.tell("podgroups", "ADDED", group)
        await patience.until(lambda: len(run.groups()) == 300)
        assert {key: len(store) for key, store in run.indices.podgroups.items()} == {
            "": 100, "q0": 67, "q1": 67, "q2": 66
        }  # fmt: skip


async def test_groups_of_kubernetes_own_api_are_indexed_beside_volcanos(cluster: Cluster) -> None:
    """From the moment at which they name a queue, under that one."""
    cluster.kinds[NATIVE] = {"podgroups"}
    async with operating(cluster) as (run, _):
        await patience.until(lambda: cluster.watched(NATIVE_GROUPS))
        for queue in ("", "red", "blue"):
            group = an_item("g")
            group["metadata"]["annotations"] = {translation.QUEUE: queue}
            await cluster.tell(NATIVE_GROUPS, "MODIFIED" if queue else "ADDED", group)
        await patience.until(lambda: len(run.heard) == 3)
        assert [*run.indices.nativepodgroups] == ["blue"]
        assert not run.indices.podgroups


async def test_kinds_that_are_needed_are_waited_for(cluster: Cluster) -> None:
    """Without them Kopf would end; what we may not list isn't there for us."""
    kinds = cluster.kinds.pop(SCHEDULING)
    cluster.kinds[BUS] = {"commands"}
    cluster.forbidden.add("commands")
    with testing.capture_logs() as logs:
        async with operating(cluster):
            await patience.until(lambda: any(log["event"] == "kinds.absent" for log in logs))
            assert not cluster.methods
            cluster.kinds[SCHEDULING] = kinds
            await patience.until(lambda: cluster.watched("queues"))
    started = [log["kinds"] for log in logs if log["event"] == "kopf.started"]
    assert started == [["podgroups", "queues"]]


async def test_queues_alone_are_work_enough(cluster: Cluster) -> None:
    """Where Kubernetes' own PodGroups replace Volcano's. These may follow for a moment."""
    cluster.kinds[SCHEDULING] = {"queues"}
    cluster.kinds[NATIVE] = {"podgroups"}
    with testing.capture_logs() as logs:
        async with operating(cluster):
            await patience.until(lambda: cluster.watched("queues"))
    started = [log["kinds"] for log in logs if log["event"] == "kopf.started"]
    assert started == [["nativepodgroups", "queues"]]


async def test_a_stop_ends_the_wait_for_kinds(cluster: Cluster) -> None:
    """Nothing else ends it."""
    del cluster.kinds[SCHEDULING]
    async with operating(cluster) as (run, task):
        await patience.until(lambda: cluster.looks > 6)
        run.stop()
        await task


async def test_a_stop_ends_a_look_that_is_never_answered(cluster: Cluster) -> None:
    """Whoever makes the calls may have ended before."""
    cluster.silent = True
    async with operating(cluster) as (run, task):
        await patience.until(lambda: cluster.looks)
        run.stop()
        try:
            await patience.until(task.done)
        finally:
            cluster.silent = False


async def test_hyper_nodes_that_come_later_end_the_operator(cluster: Cluster) -> None:
    """Another one indexes them by name."""
    async with operating(cluster) as (_, task):
        await patience.until(lambda: cluster.watched("queues"))
        cluster.kinds[TOPOLOGY] = {"hypernodes"}
        await task
    member = {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}
    cluster.items["hypernodes"] = [an_item("h", spec={"tier": 1, "members": [member]})]
    async with operating(cluster) as (run, _):
        await patience.until(lambda: run.heard)
        ((found,),) = run.indices.hypernodes.values()
        assert (found.name, found.uid, found.problem) == ("h", "uid-h", "")
        assert found.value == HyperNode(name="h", tier=1, members=(Member(node="n1"),))


async def test_commands_that_come_later_end_the_operator(cluster: Cluster) -> None:
    """Another one has handlers for them."""
    with testing.capture_logs() as logs:
        async with operating(cluster) as (_, task):
            await patience.until(lambda: cluster.watched("queues"))
            cluster.kinds[BUS] = {"commands"}
            await task
        target = {"kind": "Queue", "name": "red"}
        cluster.items["commands"] = [an_item("c", action="OpenQueue", target=target)]
        async with operating(cluster) as (run, _):
            await patience.until(lambda: run.heard)
            assert list(run.indices.commands) == ["uid-c"]
    assert "kopf.again" in {log["event"] for log in logs}


async def test_the_end_of_a_kind_is_kopfs_end(cluster: Cluster) -> None:
    """Whoever else works is told first. It is no failure: the next operator waits for the kind."""
    with testing.capture_logs() as logs:
        async with operating(cluster) as (run, task):
            await patience.until(lambda: cluster.watched("queues"))
            del cluster.kinds[SCHEDULING]
            await task
            assert run.ends == 1
    assert "kinds.gone" in {log["event"] for log in logs}


async def test_an_error_in_a_watch_is_kopfs_end(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """One that it doesn't know. No other watch waits for credentials then."""
    async with operating(cluster) as (run, task):
        await patience.until(lambda: cluster.watched("queues"))
        await cluster.tell("queues", "ERROR", {"kind": "Status", "code": 500})
        with pytest.raises(Exception, match="Error in the watch-stream"):
            await task
        assert run.ends == 1
    assert "will re-authenticate" not in caplog.text


def test_kopf_is_kept_from_what_it_would_do_by_itself() -> None:
    """No events are posted, no CRDs watched; nothing but events is handled; it never gives up.

    Nothing is indexed: each object's first handler would wait until all are indexed, and be woken
    by every other one meanwhile.
    """
    settings = operator.settings()
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    run = Run(Cluster())
    outlets = Outlets(changed=run._hear, ended=run._end)
    registry = operator.registry(frozenset(FollowedKind), Cluster(), outlets)
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert len(registry._watching.get_all_handlers()) == len(FollowedKind)
    assert not registry._indexing.get_all_handlers()
    pauses = iter(EndlessBackoffs())
    assert [next(pauses) for _ in range(9)][-3:] == [15, 15, 15]


def test_kopf_takes_silence_for_an_end() -> None:
    """No watch is silent for as long as it lasts: there is a bookmark just before its end."""
    watching = operator.settings().watching
    assert watching.server_timeout is not None
    assert watching.server_timeout + 2 <= watching.inactivity_timeout < 30
