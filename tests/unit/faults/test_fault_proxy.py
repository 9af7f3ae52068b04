"""Each fault, seen from both sides: the client, and the server behind the proxy."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import test_utils, web

from tests import patience
from tests.faults import proxying
from tests.faults.plans import (
    Delay,
    Duplicate,
    Fault,
    Freeze,
    LoseAnswer,
    LoseRequest,
    Plan,
    Refuse,
    Reorder,
    Rule,
)
from tests.faults.proxying import Proxy, Upstream, What

GROUP = "/podgroups/a"


class Server:
    """An API server of a few lines, and what it was asked."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.go_on = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Echo, or two lines of a watch with a pause between them."""
        body = await request.read()
        self.seen.append(f"{request.method} {request.raw_path} {body.decode()}".rstrip())
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first\n")
            await self.go_on.wait()
            await response.write(b"second\n")
            return response
        if request.path == "/zipped":
            return web.Response(body=gzip.compress(b"told"), headers={"Content-Encoding": "gzip"})
        kind = request.headers.get("Content-Type", "")
        return web.Response(status=201, text=f"{kind}:{body.decode()}", headers={"X-Said": "yes"})


def upstream_of(server: test_utils.BaseTestServer) -> Upstream:
    """It listens without TLS."""
    return Upstream(url=f"http://{server.host}:{server.port}")


@asynccontextmanager
async def behind(
    *rules: Rule,
) -> AsyncIterator[tuple[Server, Proxy, aiohttp.ClientSession]]:
    """A server, a proxy before it, and a client of the proxy that never asks twice by itself."""
    server = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    async with (
        test_utils.TestServer(application) as real,
        proxying.serving(upstream_of(real), Plan(rules)) as proxy,
        aiohttp.ClientSession(proxy.url) as session,
    ):
        session._retry_connection = False
        yield server, proxy, session
        server.go_on.set()


def deletes(fault: Fault, at_most: int | None = 1) -> Rule:
    """The fault strikes deletes of PodGroups."""
    return Rule(requests=r"^DELETE /podgroups/(\w+)", fault=fault, at_most=at_most)


async def done(request: asyncio.Task[aiohttp.ClientResponse]) -> int:
    """The status of a request that was begun."""
    async with await request as answer:
        return answer.status


async def test_what_meets_no_fault_passes_whole() -> None:
    """Method, path, query, headers and body there; status, headers and body back."""
    async with behind() as (server, proxy, session):
        headers = {"Content-Type": "application/merge-patch+json"}
        async with session.patch("/a%2Fb?c=d", data=b"{}", headers=headers) as answer:
            assert answer.status == 201
            assert answer.headers["X-Said"] == "yes"
            assert await answer.text() == "application/merge-patch+json:{}"
        async with session.get("/zipped") as answer:
            assert await answer.text() == "told"
        assert server.seen == ["PATCH /a%2Fb?c=d {}", "GET /zipped"]
        await patience.until(lambda: not proxy.busy)
        assert [note.what for note in proxy.notes("^PATCH /a")] == [
            What.RECEIVED,
            What.SENT,
            What.ANSWERED,
            What.DONE,
        ]


async def test_a_watch_that_is_hushed_stays_open_and_carries_nothing() -> None:
    """Not even the server's end of it; those that begin later, and other kinds', do."""
    async with behind() as (server, proxy, session):
        async with session.get("/x?watch=true") as old, session.get("/y?watch=true") as other:
            for each in (old, other):
                assert await each.content.readline() == b"first\n"
            proxy.hush("/x")
            server.go_on.set()
            assert await other.content.readline() == b"second\n"
            async with session.get("/x?watch=true") as new:
                assert await new.text() == "first\nsecond\n"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(old.content.readany(), 3 * proxying.LOOK_SECONDS)
        await patience.until(lambda: len(proxy.notes("/x", What.DONE)) == 2)


async def test_a_watch_passes_line_by_line() -> None:
    """Its first line is here while the second isn't written yet; it doesn't count as busy."""
    async with behind() as (server, proxy, session), session.get("/x?watch=true") as answer:
        assert await answer.content.readline() == b"first\n"
        assert not proxy.busy
        server.go_on.set()
        assert await answer.content.readline() == b"second\n"


async def test_a_watch_ends_with_its_client() -> None:
    """Though the server says nothing more that would find it gone."""
    async with behind() as (server, proxy, session):
        answer = await session.get("/x?watch=true")
        assert await answer.content.readline() == b"first\n"
        answer.close()
        await patience.until(lambda: bool(proxy.notes("watch", What.DONE)))
        assert not server.go_on.is_set()


async def test_a_delayed_request_arrives_though_its_sender_is_gone() -> None:
    """As on a wire: who sent it can't take it back."""
    async with behind(deletes(Delay(seconds=1))) as (server, proxy, session):
        sent = asyncio.ensure_future(session.delete(GROUP))
        await patience.until(lambda: proxy.busy)
        sent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sent
        assert proxy.busy
        assert server.seen == []
        await patience.until(lambda: not proxy.busy)
        assert server.seen == ["DELETE /podgroups/a"]


async def test_a_duplicate_comes_after_the_answer() -> None:
    """The client hears of the first only; the body is sent both times."""
    async with behind(deletes(Duplicate(after_seconds=1.0))) as (server, proxy, session):
        async with session.delete(GROUP, data=b"x") as answer:
            assert answer.status == 201
        await patience.until(lambda: len(server.seen) == 2 and not proxy.busy)
        assert server.seen == ["DELETE /podgroups/a x"] * 2
        first, second = proxy.notes("^DELETE", What.SENT)
        answered, *_ = proxy.notes("^DELETE", What.ANSWERED)
        assert answered.at_seconds < second.at_seconds
        assert first.request == second.request == 1
        assert second.at_seconds - first.at_seconds >= 0.99


async def test_a_reordered_request_is_overtaken() -> None:
    """It waits for the later one on the same object, and not for one on another."""
    fault = Reorder(later=r"^PATCH /podgroups/\1$", at_most_seconds=10)
    async with behind(deletes(fault)) as (server, proxy, session):
        held = asyncio.create_task(session.delete(GROUP))
        await patience.until(lambda: bool(proxy.notes("^DELETE")))
        (await session.patch("/podgroups/b")).release()
        await asyncio.sleep(0.05)
        assert server.seen == ["PATCH /podgroups/b"]
        (await session.patch(GROUP)).release()
        assert await done(held) == 201
        assert server.seen[1:] == ["PATCH /podgroups/a", "DELETE /podgroups/a"]


async def test_a_reordered_request_that_nothing_overtakes_goes_in_time() -> None:
    """Its bound."""
    fault = Reorder(later="^PATCH", at_most_seconds=0.1)
    async with behind(deletes(fault)) as (server, _, session):
        (await session.delete(GROUP)).release()
        assert server.seen == ["DELETE /podgroups/a"]


@pytest.mark.parametrize(
    ("fault", "times"),
    [(LoseRequest(), 0), (LoseAnswer(), 1)],
    ids=["request", "answer"],
)
async def test_a_lost_connection_tells_nothing(fault: Fault, times: int) -> None:
    """The client sees the same, whether the server did it or not; the next request gets through."""
    async with behind(deletes(fault)) as (server, proxy, session):
        with pytest.raises(aiohttp.ClientError):
            await session.delete(GROUP)
        assert server.seen == ["DELETE /podgroups/a"] * times
        assert len(proxy.notes("^DELETE", What.LOST)) == 1
        async with session.delete(GROUP) as answer:
            assert answer.status == 201


@pytest.mark.parametrize("status", [429, 500])
async def test_a_refusal_is_worded_as_by_an_api_server(status: int) -> None:
    """The server hears nothing of it."""
    async with behind(deletes(Refuse(status=status))) as (server, proxy, session):
        async with session.delete(GROUP) as answer:
            assert answer.status == status
            assert answer.headers["Retry-After"] == "1"
            assert (await answer.json())["code"] == status
        assert server.seen == []
        assert [note.status for note in proxy.notes("", What.REFUSED)] == [status]


async def test_a_frozen_answer_comes_late() -> None:
    """What was asked is done at once."""
    async with behind(deletes(Freeze(seconds=0.3))) as (server, proxy, session):
        began = time.monotonic()
        answer = asyncio.create_task(session.delete(GROUP))
        await patience.until(lambda: server.seen == ["DELETE /podgroups/a"])
        assert await done(answer) == 201
        assert time.monotonic() - began >= 0.3
        await patience.until(lambda: proxy.notes("^DELETE", What.DONE))
        (heard,) = proxy.notes("^DELETE", What.ANSWERED)
        (over,) = proxy.notes("^DELETE", What.DONE)
        assert over.at_seconds - heard.at_seconds >= 0.29


async def test_a_server_that_is_gone_is_told_of() -> None:
    """502, as of any proxy."""
    async with (
        proxying.serving(Upstream(url="http://127.0.0.1:1"), Plan()) as proxy,
        aiohttp.ClientSession(proxy.url) as session,
        session.get("/x") as answer,
    ):
        assert answer.status == 502
        assert len(proxy.notes("", What.FAILED)) == 1


async def test_nothing_is_sent_once_the_block_is_left() -> None:
    """A duplicate that is still to come, and a request that is held, are dropped."""
    duplicate = Rule(requests="^POST", fault=Duplicate(after_seconds=30))
    async with behind(duplicate, deletes(Delay(seconds=30))) as (server, proxy, session):
        (await session.post(GROUP)).release()
        held = asyncio.create_task(session.delete(GROUP))
        await patience.until(lambda: bool(proxy.notes("^DELETE")))
    with pytest.raises((aiohttp.ClientError, asyncio.CancelledError)):
        await held
    assert server.seen == ["POST /podgroups/a"]
