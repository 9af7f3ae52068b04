"""What is listed anew stays followed, whatever happens meanwhile."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from tests import answers
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from vscheduler.cluster import reflector
from vscheduler.daemon import informers, readiness
from vscheduler.mirror import state
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import entries

KINDS = (events.Kind.POD, events.Kind.QUEUE)


@dataclass
class Followed:
    """Pods and Queues that are followed, on an API server that has none."""

    following: informers.Following
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

    def sink(batch: Sequence[entries.Event]) -> None:
        del batch

    mirror = state.Mirror(state.Options(scheduler_names=("vscheduler",)))
    made = Followed(informers.Following(await serve(answer), KINDS, mirror.read, sink))
    async with asyncio.timeout(20), made.group:
        made.following.start(made.group)
        await worlds.until(made.is_watched)
        yield made


async def test_listed_anew_is_listed_and_followed(serve: Serve) -> None:
    """Nothing else is; and who was ready stays so."""
    async with followed(serve) as made:
        asking = asyncio.create_task(made.following.list_anew([events.Kind.POD, events.Kind.NODE]))
        while not asking.done():
            assert made.following.ready
            await asyncio.sleep(0)
        assert made.lists == {"pods": 2, "queues": 1}
        await worlds.until(made.is_watched)
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
            await worlds.until(made.is_watched)
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

    def overtake(watch: reflector.Watch[entries.Event]) -> bool:
        asked.append(watch.path)
        return not busy.get(watch.path, False)

    monkeypatch.setattr(reflector.Watch, "overtake", overtake)
    async with followed(serve) as made:
        made.following.overtake(events.Kind.POD)
        assert asked == ["/api/v1/pods"]
        busy.clear()
        made.following.overtake(events.Kind.POD)
        made.following.stop()
    assert set(asked) == {informers.PATHS[kind] for kind in KINDS}


@asynccontextmanager
async def refused(
    serve: Serve, refusals: dict[str, int]
) -> AsyncIterator[tuple[informers.Following, dict[str, int]]]:
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

    mirror = state.Mirror(state.Options(scheduler_names=("vscheduler",)))
    kinds = (events.Kind.POD, events.Kind.BUDGET)
    made = informers.Following(await serve(answer), kinds, mirror.read, lambda _: None)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        made.start(group)
        yield made, refusals
        made.stop()


@pytest.mark.parametrize("status", [403, 404])
async def test_a_kind_that_is_refused_is_waited_for_only_for_a_while(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """And followed as soon as it is there."""
    monkeypatch.setattr(readiness, "REFUSED_SECONDS", 0.2)
    async with refused(serve, {"poddisruptionbudgets": status}) as (made, refusals):
        ready = [made.ready]
        await made.wait_for_lists()
        assert [*ready, made.ready] == [False, True]
        (pods, budgets) = sorted(made.states(), key=lambda each: each.absent)
        assert (pods.listed, pods.problem, budgets.listed) == (True, None, False)
        assert str(budgets.problem) == "no"
        refusals.clear()
        await worlds.until(lambda: all(each.listed for each in made.states()))
        assert [each.problem for each in made.states()] == [None, None]


@pytest.mark.parametrize(
    ("kind", "status"),
    [("pods", 403), ("poddisruptionbudgets", 401), ("poddisruptionbudgets", 500)],
)
async def test_what_is_needed_or_may_come_is_waited_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, kind: str, status: int
) -> None:
    """Nothing is decided without pods, and a server that fails says nothing of its kinds."""
    monkeypatch.setattr(readiness, "REFUSED_SECONDS", 0.0)
    async with refused(serve, {kind: status}) as (made, _):
        waiting = asyncio.create_task(made.wait_for_lists())
        await worlds.until(lambda: any(each.problem for each in made.states()))
        await asyncio.sleep(0.7)
        assert not waiting.done()
        assert not made.ready
        waiting.cancel()
