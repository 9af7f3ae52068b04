"""Kopf itself, against a server that knows as much of Kubernetes as it asks for."""

import asyncio
import gc
import json
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import aiohttp
import kopf
import pytest
from aiohttp import web
from structlog import testing

from tests import patience
from vscheduler.controllers import event_coalescing, handlers, operator
from vscheduler.controllers.operator import EndlessBackoffs, Operator, OperatorError, Outlets, Pace
from vscheduler.controllers.ports import Api, Object, RefusedError, Trouble
from vscheduler.controllers.queues.queue_objects import (
    Command,
    Event,
    Gone,
    Group,
    Kind,
    Queue,
    Seen,
)
from vscheduler.daemon.liveness.progress import Heartbeat
from vscheduler.mirror import paths

SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
BUS = "/apis/bus.volcano.sh/v1alpha1"
PACE = Pace(absent_seconds=0.01, look_seconds=0.1, gone_seconds=0.2)


class Cluster:
    """Discovery, lists and watches; the way to it, and the port for what isn't Kopf's."""

    def __init__(self) -> None:
        self.host = ""
        self.kinds = {SCHEDULING: {"queues", "podgroups"}}
        self.forbidden: set[str] = set()
        """Kinds that may not be listed."""
        self.unwatched: set[str] = set()
        """Kinds that may be listed, and not watched."""
        self.reviews: list[str] = []
        self.looks = 0
        self.items: dict[str, list[dict[str, Any]]] = {}
        self.methods: list[str] = []
        self.tokens: list[str] = []
        self._watches: dict[str, list[web.StreamResponse]] = {}
        self.ended = False
        self.heartbeat = Heartbeat()
        """Of Kopf's event loop."""

    def session_elsewhere(
        self, *middlewares: aiohttp.ClientMiddlewareType
    ) -> aiohttp.ClientSession:
        """A session for Kopf's loop."""
        headers = {"Authorization": "Bearer ours"}
        return aiohttp.ClientSession(headers=headers, middlewares=middlewares)

    async def get(self, path: str) -> Object:
        """Discovery, and a look at a list, as the daemon's connection sees them."""
        self.looks += 1
        collection, _, query = path.partition("?")
        if query:
            group, _, plural = collection.rpartition("/")
            if plural in self.forbidden:
                raise RefusedError(Trouble.FORBIDDEN, path)
            assert plural in self.kinds[group]
            return {}
        if path not in self.kinds:
            raise RefusedError(Trouble.MISSING, path)
        return {"resources": [{"name": each} for each in self.kinds[path]]}

    async def create(self, path: str, body: Object) -> Object:
        """What we may."""
        assert path == paths.REVIEWS.everywhere
        asked = body["spec"]["resourceAttributes"]
        self.reviews.append(asked["resource"])
        return {"status": {"allowed": asked["resource"] not in self.unwatched}}

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
        self._watches.setdefault(plural, []).append(response)
        group = request.path.rpartition("/")[0]
        while not self.ended and plural in self.kinds.get(group, ()):  # noqa: ASYNC110 - a set says it
            await asyncio.sleep(0.01)
        return response

    async def tell(self, plural: str, change: str, item: dict[str, Any]) -> None:
        """Tell whoever watches."""
        for watch in self._watches.get(plural, []):
            with suppress(ConnectionError):
                await watch.write(json.dumps({"type": change, "object": item}).encode() + b"\n")

    def forget_watches(self) -> None:
        """Those that were begun so far don't count."""
        self._watches.clear()

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
        "namespaced": plural != "queues",
        "verbs": ["get", "list", "watch", "patch"],
    }


def an_item(name: str, **more: Any) -> dict[str, Any]:
    """An object of any kind."""
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "5"}
    return {"metadata": metadata, **more}


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """A server at work."""
    monkeypatch.setattr(event_coalescing, "GATHER_SECONDS", 0.05)
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


@asynccontextmanager
async def operating(
    cluster: Cluster,
) -> AsyncIterator[tuple[list[Event], asyncio.Task[None]]]:
    """What is heard, and the task; Kopf's thread is gone afterwards."""
    heard: list[Event] = []
    outlets = Outlets(heartbeat=cluster.heartbeat)
    made = Operator(cluster, cluster, heard.append, PACE, outlets)  # type: ignore[arg-type]  # no lists
    task = asyncio.create_task(made.run())
    try:
        yield heard, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, OperatorError):
            await task
        await patience.until(lambda: "kopf" not in {each.name for each in threading.enumerate()})


async def test_events_arrive_as_values_and_nothing_is_written(cluster: Cluster) -> None:
    """Listed, changed and deleted objects; the daemon's tasks and signals stay its own."""
    cluster.items["queues"] = [an_item("red", spec={"parent": "top"})]
    bystander = asyncio.create_task(asyncio.sleep(60))
    before = signal.getsignal(signal.SIGTERM)
    async with operating(cluster) as (heard, _):
        await patience.until(lambda: heard)
        (first,) = heard
        assert isinstance(first, Seen)
        assert first.listed
        assert isinstance(first.item, Queue)
        assert (first.item.name, first.item.parent) == ("red", "top")
        await patience.until(lambda: cluster.watched("podgroups"))
        await cluster.tell("podgroups", "ADDED", an_item("g", status={"phase": "Running"}))
        await patience.until(lambda: len(heard) == 2)
        group = Group(uid="uid-g", version="5", queue="", counter="running", key="ns/g")
        assert heard[1] == Seen(item=group)
        await cluster.tell("podgroups", "DELETED", an_item("g"))
        await patience.until(lambda: len(heard) == 3)
        gone = Gone(kind=Kind.POD_GROUP, uid="uid-g")
        assert heard[2] == gone
    assert set(cluster.methods) == {"GET"}
    assert set(cluster.tokens) == {"Bearer ours"}
    assert signal.getsignal(signal.SIGTERM) is before
    assert not bystander.done()
    bystander.cancel()


async def test_a_burst_of_groups_is_a_few_events(cluster: Cluster) -> None:
    """Kopf takes a millisecond for each. The newest one is among them, and each one of a Queue."""
    cluster.items["podgroups"] = [an_item(f"old{number}") for number in range(100)]
    async with operating(cluster) as (heard, _):
        await patience.until(lambda: cluster.watched("podgroups") and cluster.watched("queues"))
        for number in range(200):
            await cluster.tell("podgroups", "ADDED", an_item(f"g{number}"))
        for number in range(5):
            await cluster.tell("queues", "ADDED", an_item(f"q{number}"))
        await patience.until(lambda: {"uid-g199", "uid-q4"} <= {_uid(each) for each in heard})
        assert sum(_uid(each).startswith("uid-q") for each in heard) == 5
        assert sum(_uid(each).startswith("uid-old") for each in heard) == 1
        assert sum(_uid(each).startswith("uid-g") for each in heard) < 50


def _uid(event: Event) -> str:
    return event.item.uid if isinstance(event, Seen) else event.uid


async def test_kinds_are_waited_for_and_followed_when_they_come(cluster: Cluster) -> None:
    """Without Queues there is no Kopf; with Commands there is a new one; those we may not see are
    left out.
    """
    kinds = cluster.kinds.pop(SCHEDULING)
    with testing.capture_logs() as logs:
        async with operating(cluster) as (heard, _):
            await patience.until(lambda: any(log["event"] == "kinds.absent" for log in logs))
            assert not cluster.methods
            cluster.kinds[SCHEDULING] = kinds
            await patience.until(lambda: cluster.watched("queues"))
            cluster.forbidden.add("commands")
            cluster.kinds[BUS] = {"commands"}
            await asyncio.sleep(0.3)
            assert not cluster.watched("commands")
            assert "commands" not in cluster.reviews
            cluster.unwatched.add("commands")
            cluster.forbidden.clear()
            await patience.until(lambda: "commands" in cluster.reviews)
            assert not cluster.watched("commands")
            cluster.unwatched.clear()
            target = {"kind": "Queue", "name": "red"}
            cluster.items["commands"] = [an_item("c", action="OpenQueue", target=target)]
            await patience.until(lambda: heard)
            assert isinstance(heard[0], Seen)
            assert isinstance(heard[0].item, Command)
    started = [log["kinds"] for log in logs if log["event"] == "kopf.started"]
    assert started == [["podgroups", "queues"], ["commands", "podgroups", "queues"]]


async def test_looking_for_kinds_writes_nothing(cluster: Cluster) -> None:
    """What we may is asked by a write: once, and not while there is nothing to do."""
    cluster.forbidden.add("podgroups")
    async with operating(cluster):
        await patience.until(lambda: cluster.looks > 12)
        assert cluster.reviews == []
        cluster.forbidden.clear()
        await patience.until(lambda: cluster.watched("queues"))
        asked, looks = sorted(cluster.reviews), cluster.looks
        await patience.until(lambda: cluster.looks > looks + 3)
        assert asked == sorted(cluster.reviews) == ["podgroups", "queues"]


async def test_a_kind_that_goes_is_waited_for_again(cluster: Cluster) -> None:
    """Kopf dies of it, the daemon doesn't."""
    with testing.capture_logs() as logs:
        async with operating(cluster) as (_, task):
            await patience.until(lambda: cluster.watched("queues"))
            kinds = cluster.kinds.pop(SCHEDULING)
            await patience.until(lambda: any(log["event"] == "kopf.again" for log in logs))
            cluster.forget_watches()
            cluster.kinds[SCHEDULING] = kinds
            await patience.until(lambda: sum(log["event"] == "kopf.started" for log in logs) == 2)
            await patience.until(lambda: cluster.watched("queues"))
            assert not task.done()


@pytest.mark.contains_failures
async def test_a_kopf_that_dies_is_told_of_and_begins_anew(cluster: Cluster) -> None:
    """The log has a line, and the kinds are followed again."""
    with testing.capture_logs() as logs:
        async with operating(cluster) as (_, task):
            await patience.until(lambda: cluster.watched("queues"))
            await cluster.tell("queues", "ERROR", {"kind": "Status", "code": 500})
            cluster.forget_watches()
            await patience.until(lambda: cluster.watched("queues"))
            assert not task.done()
    (died,) = [log for log in logs if log["event"] == "work.failed"]
    assert died["area"] == "kopf"
    assert "WatchingError" in died["message"]


def test_kopf_is_kept_from_what_it_would_do_by_itself() -> None:
    """No events are posted, no CRDs watched; nothing but events is handled; it never gives up."""
    settings = operator.settings()
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    registry = handlers.registry(frozenset(Kind), Cluster(), lambda _: None)
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert len(registry._watching.get_all_handlers()) == 3
    pauses = iter(EndlessBackoffs())
    assert [next(pauses) for _ in range(9)][-3:] == [15, 15, 15]


def test_kopf_takes_silence_for_an_end() -> None:
    """No watch is silent for as long as it lasts: there is a bookmark just before its end."""
    watching = operator.settings().watching
    assert watching.server_timeout is not None
    assert watching.server_timeout + 2 <= watching.inactivity_timeout < 30


async def test_a_kopf_that_hangs_does_not_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that works does, and where there is none nobody has to."""
    assert cluster.heartbeat.mark() is None
    inside, go = threading.Event(), threading.Event()
    open_session = cluster.session_elsewhere

    def hang(*middlewares: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
        inside.set()
        go.wait(40)
        return open_session(*middlewares)

    async def answers() -> bool:
        before = cluster.heartbeat.mark()
        cluster.heartbeat.ask()
        await asyncio.sleep(0.2)
        return cluster.heartbeat.mark() not in (None, before)

    monkeypatch.setattr(cluster, "session_elsewhere", hang)  # Kopf's thread calls it
    async with operating(cluster):
        await patience.until(inside.is_set)
        await answers()  # to a question of before
        assert not await answers()
        go.set()
        async with asyncio.timeout(40):
            while not await answers():
                pass
    assert cluster.heartbeat.mark() is None


async def test_a_login_that_kopf_gives_up_leaves_no_session_open(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else knows of it, and Kopf's event loop, which it belongs to, ends."""
    sessions: list[aiohttp.ClientSession] = []
    open_session, wrap = cluster.session_elsewhere, kopf.AiohttpSession

    def note(*middlewares: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
        sessions.append(open_session(*middlewares))
        return sessions[-1]

    def give_up_once(**arguments: Any) -> kopf.AiohttpSession:
        if len(sessions) == 1:
            raise kopf.TemporaryError("not now", delay=0)
        return wrap(**arguments)

    monkeypatch.setattr(handlers, "LOGIN_SECONDS", 0.0)
    monkeypatch.setattr(cluster, "session_elsewhere", note)
    monkeypatch.setattr(kopf, "AiohttpSession", give_up_once)
    async with operating(cluster):
        await patience.until(lambda: cluster.watched("queues"))
    assert [session.closed for session in sessions] == [True, True]


async def test_kinds_that_are_missing_are_told_of(cluster: Cluster) -> None:
    """Nobody hears of objects meanwhile: whoever keeps them has to look."""
    told: list[bool] = []
    cluster.kinds[SCHEDULING].discard("podgroups")
    outlets = Outlets(heartbeat=cluster.heartbeat, absent=lambda: told.append(True))
    api = cast("Api", cluster)
    made = Operator(api, cluster, lambda _: None, PACE, outlets)
    task = asyncio.create_task(made.run())
    await patience.until(lambda: len(told) > 2)
    cluster.kinds[SCHEDULING].add("podgroups")
    await patience.until(lambda: cluster.watched("queues"))
    before = len(told)
    await asyncio.sleep(0.05)
    assert len(told) == before
    task.cancel()
    await asyncio.wait([task])
