"""What is listed anew stays followed, whatever happens meanwhile."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from tests import answers, patience
from tests.unit.cluster.conftest import Serve
from tests.unit.mirror import manifests
from vscheduler.cluster.reflector import Pace, Reflector
from vscheduler.containment import Failures
from vscheduler.daemon import health, informers
from vscheduler.daemon.informers import Codec, Informers
from vscheduler.mirror import paths
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Remove, Upsert
from vscheduler.mirror.index.entries import Event, Replace
from vscheduler.mirror.state import Mirror, Options

KINDS = {Kind.POD: Pace(), Kind.QUEUE: Pace()}
CLOSED = "the handler is closed"


@dataclass
class Followed:
    """Pods and Queues that are followed, on an API server that has none."""

    following: Informers
    lists: Counter[str] = field(default_factory=Counter)
    watched: Counter[str] = field(default_factory=Counter)
    """Watches that are under way, by kind."""
    group: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)

    def is_watched(self) -> bool:
        """Whether there is one watch of each kind."""
        return +self.watched == {"pods": 1, "queues": 1}


@asynccontextmanager
async def followed(serve: Serve) -> AsyncIterator[Followed]:
    """Its lists are in; it must be stopped."""

    async def answer(request: web.Request) -> web.StreamResponse:
        kind = request.path.rpartition("/")[2]
        if "watch" not in request.query:
            made.lists[kind] += 1
            return web.json_response(answers.a_list(request.path, resourceVersion="7"))
        response = web.StreamResponse()
        await response.prepare(request)
        made.watched[kind] += 1
        try:
            while True:
                bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}
                await response.write(json.dumps(bookmark).encode() + b"\n")
                await asyncio.sleep(0.02)
        finally:
            made.watched[kind] -= 1

    def sink(batch: Sequence[Event]) -> None:
        del batch

    mirror = Mirror(Options(scheduler_names=("vscheduler",)))
    made = Followed(Informers(await serve(answer), KINDS, mirror.read, sink))
    async with asyncio.timeout(40), made.group:
        made.following.start(made.group)
        await patience.until(made.is_watched)
        yield made


async def test_listed_anew_is_listed_and_followed(serve: Serve) -> None:
    """Nothing else is; and who was ready stays so."""
    async with followed(serve) as made:
        asking = asyncio.create_task(made.following.list_anew([Kind.POD, Kind.NODE]))
        while not asking.done():
            assert made.following.ready
            await asyncio.sleep(0)
        assert made.lists == {"pods": 2, "queues": 1}
        await patience.until(made.is_watched)
        made.following.stop()


async def test_who_is_cancelled_while_lists_are_taken_leaves_all_followed(serve: Serve) -> None:
    """At whatever moment; and who asks next waits until the lists are in."""
    async with followed(serve) as made:
        for turns in range(12):
            asking = asyncio.create_task(made.following.list_anew(KINDS))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait({asking})
            await made.following.wait_for_lists()
            await patience.until(made.is_watched)
        assert made.lists["pods"] == made.lists["queues"] > 1
        made.following.stop()


async def test_after_a_stop_nothing_is_listed_anew(serve: Serve) -> None:
    """Else the daemon would wait for ever for a watch to end."""
    async with followed(serve) as made:
        asking = asyncio.create_task(made.following.list_anew(KINDS))
        made.following.stop()
        await asyncio.sleep(0.1)
        asking.cancel()


async def test_all_that_are_silent_go_on_anew_where_one_was_overtaken(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their connections are as old. Where that one is busy, they are left alone."""
    asked: list[str] = []
    busy = {"/api/v1/pods": True}

    def overtake(watch: Reflector[Event]) -> bool:
        asked.append(watch.path)
        return not busy.get(watch.path, False)

    monkeypatch.setattr(Reflector, "overtake", overtake)
    async with followed(serve) as made:
        made.following.overtake(Kind.POD)
        assert asked == ["/api/v1/pods"]
        busy.clear()
        made.following.overtake(Kind.POD)
        made.following.stop()
    assert set(asked) == {paths.WATCHED[kind] for kind in KINDS}


@asynccontextmanager
async def refused(
    serve: Serve, refusals: dict[str, int]
) -> AsyncIterator[tuple[Informers, dict[str, int]]]:
    """Pods and budgets that are followed, of which some are refused with a status."""

    async def answer(request: web.Request) -> web.StreamResponse:
        kind = request.path.rpartition("/")[2]
        if kind in refusals:
            return web.json_response({"message": "no"}, status=refusals[kind])
        if "watch" not in request.query:
            return web.json_response(answers.a_list(request.path, resourceVersion="7"))
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(60)
        return response

    mirror = Mirror(Options(scheduler_names=("vscheduler",)))
    kinds = {Kind.POD: Pace(), Kind.BUDGET: Pace()}
    made = Informers(await serve(answer), kinds, mirror.read, lambda _: None)
    async with asyncio.timeout(40), asyncio.TaskGroup() as group:
        made.start(group)
        yield made, refusals
        made.stop()


@pytest.mark.parametrize("status", [403, 404])
async def test_a_kind_that_is_refused_is_waited_for_only_for_a_while(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """And followed as soon as it is there."""
    monkeypatch.setattr(health, "REFUSED_SECONDS", 0.2)
    async with refused(serve, {"poddisruptionbudgets": status}) as (made, refusals):
        ready = [made.ready]
        await made.wait_for_lists()
        assert [*ready, made.ready] == [False, True]
        (pods, budgets) = sorted(made.states(), key=lambda each: each.absent)
        assert (pods.listed, pods.problem, budgets.listed) == (True, None, False)
        assert str(budgets.problem) == "no"
        refusals.clear()
        await patience.until(lambda: all(state.listed for state in made.states()))
        assert [state.problem for state in made.states()] == [None, None]


@pytest.mark.parametrize(
    ("kind", "status"),
    [("pods", 403), ("poddisruptionbudgets", 401), ("poddisruptionbudgets", 500)],
)
async def test_what_is_needed_or_may_come_is_waited_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, kind: str, status: int
) -> None:
    """Nothing is decided without pods, and a server that fails says nothing of its kinds."""
    monkeypatch.setattr(health, "REFUSED_SECONDS", 0.0)
    async with refused(serve, {kind: status}) as (made, _):
        waiting = asyncio.create_task(made.wait_for_lists())
        await patience.until(lambda: any(state.problem for state in made.states()))
        await asyncio.sleep(0.7)
        assert not waiting.done()
        assert not made.ready
        waiting.cancel()


POD = Kind.POD


def test_a_list_loses_only_its_bad_items() -> None:
    """The others are all there, and the bad one is told of."""
    items = [manifests.pod("a"), manifests.pod("b") | {"spec": 1}, manifests.pod("c")]
    seen = manifests.mirror(manifests.pod("gone"))
    codec = Codec(POD, seen.read)
    (event,) = codec.replace(codec.read([json.dumps(item).encode() for item in items]))
    assert isinstance(event, Replace)
    assert {key: entry.value is None for key, entry in event.found.items()} == {
        "a": False,
        "b": True,
        "c": False,
    }
    seen.apply(event)
    assert [key for _, key in seen.rejections] == ["b"]
    assert {pod.uid for pod in seen.ungrouped()} == {"a", "c"}


@pytest.mark.parametrize(
    ("change", "spec", "expected"),
    [
        ("ADDED", {}, Upsert),
        ("MODIFIED", {}, Upsert),
        ("MODIFIED", 1, DecodeFailed),
        ("DELETED", {}, Remove),
        ("DELETED", 1, Remove),
    ],
)
def test_changes_become_events(change: str, spec: object, expected: type[Event]) -> None:
    """An object that can't be read can still go."""
    item = json.dumps(manifests.pod("p") | {"spec": spec}).encode()
    (event,) = Codec(POD, manifests.mirror().read).change(change, item)
    assert type(event) is expected
    if isinstance(event, Remove):
        assert event == Remove(kind=POD, namespace="ns", name="p", uid="p")


def test_a_list_that_came_in_parts_leaves_what_a_whole_one_does() -> None:
    """Also where an object of the first part has gone before the list was whole."""
    documents = [manifests.pod(name, group="g", node="n1") for name in "abc"]
    items = [json.dumps(document).encode() for document in documents]
    around = manifests.node("n1", {"cpu": "8", "pods": "9"}), manifests.group("g")
    whole, parts = manifests.mirror(*around), manifests.mirror(*around)
    codec = Codec(POD, parts.read)
    for item in items:
        for event in codec.begin(codec.read([item])):
            assert parts.apply(event)
    (event,) = codec.replace(codec.read(items[1:]))
    assert parts.apply(event)
    assert not parts.apply(event)
    assert whole.apply(event)
    assert manifests.canonical(parts.snapshot(0.0)) == manifests.canonical(whole.snapshot(0.0))


class Server:
    """Lists the pods that the test says, and counts how often."""

    def __init__(self, *versions: tuple[str, int]) -> None:
        self.versions = dict(versions)
        self.queries: list[dict[str, str]] = []
        self.failures = 0

    async def answer(self, request: web.Request) -> web.Response:
        """One page."""
        self.queries.append(dict(request.query))
        if self.failures:
            self.failures -= 1
            return web.json_response({"message": "no"}, status=500)
        items = [
            {"metadata": {"name": uid, "uid": uid, "resourceVersion": str(version)}}
            for uid, version in self.versions.items()
        ]
        return web.json_response(answers.a_metadata_list(items))


def nobody() -> None:
    """Who is told that a watch is behind, where that is of no interest."""


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informers, "BEHIND_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(informers, "LIST_RETRY_SECONDS", 0.01)


async def test_it_returns_when_every_pod_is_seen_as_new(serve: Serve) -> None:
    """A pod that is seen older, or not at all, is waited for; a newer version will do."""
    server = Server(("a", 5), ("b", 9))
    mirror = manifests.mirror(manifests.pod("a", version=4))
    waiting = asyncio.create_task(
        informers.catch_up(await serve(server.answer), mirror, ["vscheduler"], nobody)
    )
    await patience.until(lambda: server.queries)
    mirror.apply(manifests.event_of(manifests.pod("a", node="n1", version=5)))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    mirror.apply(manifests.event_of(manifests.pod("b", version=11)))
    async with asyncio.timeout(40):
        await waiting
    assert server.queries[0]["fieldSelector"].startswith("spec.schedulerName=vscheduler,")


async def test_a_pod_that_is_gone_before_a_watch_shows_it_holds_nobody_up(serve: Serve) -> None:
    """After some patience it is listed anew."""
    server = Server(("a", 5))
    waiting = asyncio.create_task(
        informers.catch_up(await serve(server.answer), manifests.mirror(), ["vscheduler"], nobody)
    )
    await patience.until(lambda: server.queries)
    server.versions.clear()
    async with asyncio.timeout(40):
        await waiting
    assert len(server.queries) >= 2


async def test_errors_are_waited_out_and_names_are_asked_for_in_turn(serve: Serve) -> None:
    """No list, no beginning."""
    server = Server()
    server.failures = 2
    async with asyncio.timeout(40):
        await informers.catch_up(await serve(server.answer), manifests.mirror(), ["a", "b"], nobody)
    names = [query["fieldSelector"].split(",")[0] for query in server.queries]
    assert names == ["spec.schedulerName=a"] * 3 + ["spec.schedulerName=b"]


@pytest.mark.parametrize(
    ("seen", "listed", "enough"), [("", 5, True), ("x", 5, False), ("6", 5, True), ("4", 5, False)]
)
async def test_versions_are_compared_as_numbers(
    serve: Serve, seen: str, listed: int, enough: bool
) -> None:
    """A pod that doesn't decode is kept without a version, and is seen."""
    server = Server(("a", listed))
    mirror = manifests.mirror(manifests.pod("a", version=seen))
    if not seen:
        mirror.apply(
            DecodeFailed(kind=Kind.POD, namespace="ns", name="a", uid="a", field="spec", message="")
        )
    done = False
    with suppress(TimeoutError):
        async with asyncio.timeout(40 if enough else 0.3):
            await informers.catch_up(await serve(server.answer), mirror, ["vscheduler"], nobody)
            done = True
    assert done is enough


async def test_a_watch_that_the_list_has_overtaken_is_told_of(serve: Serve) -> None:
    """Not one for which there is no list."""
    server = Server(("a", 5))
    server.failures = 3
    mirror = manifests.mirror()
    told: list[int] = []

    def overtake() -> None:
        told.append(server.failures)
        mirror.apply(manifests.event_of(manifests.pod("a", version=5)))

    async with asyncio.timeout(40):
        await informers.catch_up(await serve(server.answer), mirror, ["vscheduler"], overtake)
    assert told == [0]


@pytest.mark.contains_failures
async def test_a_connection_that_breaks_while_it_is_closed_is_no_failure() -> None:
    """The event loop reports it as an error of its own; any other error of a callback counts."""
    counted: list[str] = []
    failures = Failures(counted.append)
    loop = asyncio.get_running_loop()
    closed = RuntimeError("unable to perform operation on <TCPTransport closed=True>; " + CLOSED)
    told = {"message": "Fatal error on SSL protocol", "transport": object()}
    informers.report_callback_error(failures, loop, {**told, "exception": closed})
    assert counted == []
    informers.report_callback_error(failures, loop, {**told, "exception": RuntimeError("other")})
    informers.report_callback_error(failures, loop, {"message": "", "exception": closed})
    assert counted == ["event loop", "event loop"]
