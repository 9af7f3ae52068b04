"""Watches that say nothing while there is something to be said."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from structlog import testing

from tests import patience
from tests.unit.cluster import test_reflector
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.test_reflector import Event, Names
from vscheduler.cluster.http import connection
from vscheduler.cluster.http.connection import Connection, Unavailable
from vscheduler.cluster.reflector import Pace, Reflector
from vscheduler.mirror.paths import Path

THINGS = Path.to("/things")

PACE = Pace(moment_seconds=0.05, at_once_seconds=0)
"""Its connections may be silent for as long as by default."""


@dataclass
class Silent:
    """A server whose watches say what they are told to; by default nothing."""

    say: list[bytes] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    transports: list[object] = field(default_factory=list)
    refuse: int = 0
    ends: bool = False
    """Whether watches end at once, as others do after their time."""

    @property
    def watches(self) -> list[str]:
        """From which version on each watch began."""
        return [each["resourceVersion"] for each in self.asked if "watch" in each]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """A list of nothing, or a watch without an end."""
        self.asked.append(dict(request.query))
        if self.refuse:
            return test_reflector.refusal(self.refuse)
        if "watch" not in request.query:
            return test_reflector.a_list()
        self.transports.append(request.transport)
        response = web.StreamResponse()
        await response.prepare(request)
        if self.ends:
            return response
        said = 0
        while request.transport is not None and not request.transport.is_closing():
            for line in self.say[said:]:
                await response.write(line)
                said += 1
            await asyncio.sleep(0.01)
        return response


@asynccontextmanager
async def running(
    serve: Serve, server: Silent, pace: Pace = PACE
) -> AsyncIterator[tuple[Reflector[Event], list[Event]]]:
    """A watch that has begun, and what it handed on."""
    link = await serve(server.answer)
    seen: list[Event] = []
    watch: Reflector[Event] = Reflector(
        link, THINGS, Names(), seen.extend, pace=pace, chance=random.Random(1)
    )
    task = asyncio.create_task(watch.run())
    try:
        yield watch, seen
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_watch_that_a_list_has_overtaken_goes_on_anew(serve: Serve) -> None:
    """From the last version that it showed, over a connection of its own; nothing is lost."""
    server = Silent([test_reflector.line("ADDED", 11, "a")])
    with testing.capture_logs() as told:
        async with running(serve, server) as (watch, seen):
            await patience.until(lambda: len(seen) == 2)
            await asyncio.sleep(0.1)
            server.say = [test_reflector.line("ADDED", 12, "b")]
            assert watch.overtake()
            await patience.until(lambda: len(seen) == 3)
    assert seen == [("REPLACE", ""), ("ADDED", "a"), ("ADDED", "b")]
    assert server.watches == ["10", "11"]
    assert len(set(map(id, server.transports))) == 2
    assert [each["event"] for each in told] == ["watch.listed", "watch.overtaken"]


async def test_a_watch_that_was_heard_of_a_moment_ago_is_only_busy(serve: Serve) -> None:
    """To begin it anew would cost more time."""
    server = Silent([test_reflector.line("ADDED", 11, "a")])
    pace = Pace(moment_seconds=60, at_once_seconds=0)
    async with running(serve, server, pace) as (watch, seen):
        await patience.until(lambda: len(seen) == 2)
        assert not watch.overtake()
        server.say.append(test_reflector.line("ADDED", 12, "b"))
        await patience.until(lambda: len(seen) == 3)
    assert server.watches == ["10"]


async def test_a_watch_that_has_not_begun_is_not_overtaken(serve: Serve) -> None:
    """While it is listed, or waits for its next attempt."""
    server = Silent(refuse=503)
    async with running(serve, server) as (watch, seen):
        await patience.until(lambda: server.asked)
        await asyncio.sleep(0.1)
        assert not watch.overtake()
        server.refuse = 0
        await patience.until(lambda: server.watches)
    assert seen == [("REPLACE", "")]


async def test_when_it_was_heard_of_is_told(serve: Serve) -> None:
    """A list, a watch that is granted, and all that comes over it, count."""
    server = Silent()
    before = time.monotonic()
    async with running(serve, server) as (watch, seen):
        await patience.until(lambda: server.watches)
        await patience.until_at_rest(lambda: watch.heard_at, 0.1)
        granted = watch.heard_at
        assert before < granted < time.monotonic() - 0.05
        server.say.append(test_reflector.line("BOOKMARK", 11))
        await patience.until(lambda: watch.heard_at > granted)
    assert seen == [("REPLACE", "")]


async def test_a_watch_that_was_only_opened_is_not_current(serve: Serve) -> None:
    """Nothing may ever come through it, watch after watch; a bookmark shows that it works."""
    server = Silent()
    pace = Pace(silence_seconds=0.2, retry_seconds=0.01, at_once_seconds=0)
    async with running(serve, server, pace) as (watch, _):
        await patience.until(lambda: server.watches)
        listed = watch.current_at
        await patience.until(lambda: len(server.watches) == 4)
        assert watch.heard_at > watch.current_at == listed
        server.say.append(test_reflector.line("BOOKMARK", 11))
        await patience.until(lambda: watch.current_at > listed)


async def test_a_quiet_watch_that_ends_in_time_is_current(serve: Serve) -> None:
    """So an idle cluster isn't a silent one."""
    server = Silent(ends=True)
    async with running(serve, server) as (watch, _):
        await patience.until(lambda: server.watches)
        opened = watch.current_at
        await patience.until(lambda: watch.current_at > opened)
        assert not watch.problem


async def test_watches_are_short_and_silence_is_longer_than_any(serve: Serve) -> None:
    """Else a watch of a quiet kind would count as dead; and thirty seconds are enough to tell."""
    pace = Pace()
    server = Silent()
    async with running(serve, server, pace):
        await patience.until(lambda: server.watches)
    longest = pace.watch_seconds * 1.25
    assert pace.watch_seconds <= int(server.asked[-1]["timeoutSeconds"]) <= longest
    assert longest + 2 <= pace.silence_seconds <= 30 - pace.retry_seconds


async def read(link: Connection) -> None:
    """A watch that says nothing, for a moment."""
    async with link.stream("/x?watch=1&resourceVersion=1", silence_seconds=0.05) as chunks:
        async for _ in chunks:
            pass


async def test_silence_makes_all_earlier_connections_suspect(serve: Serve) -> None:
    """What a firewall has forgotten is dead for whoever uses it next, too."""
    server = Silent()
    link = await serve(server.answer)
    before = link._pool.generation
    for _ in range(2):
        with pytest.raises(Unavailable):
            await read(link)
    assert link._pool.generation == before + 1, "not for each that is lost"


async def test_new_credentials_end_a_pause(serve: Serve) -> None:
    """A watch that isn't known any more goes on as soon as there are others."""
    server = Silent(refuse=401)
    pace = Pace(retry_seconds=1000, retry_max_seconds=1000)
    with testing.capture_logs() as told:
        async with running(serve, server, pace) as (watch, seen):
            await patience.until(lambda: told)
            server.refuse = 0
            watch._link._credentials._changed.set()
            await patience.until(lambda: seen)
    assert [each["event"] for each in told] == ["watch.failed", "watch.listed"]


async def test_calls_that_get_no_answer_make_them_suspect_too(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that is lost takes idle connections for writes with it."""
    silent = asyncio.Event()
    transports: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        transports.append(request.transport)
        if silent.is_set():
            await asyncio.sleep(patience.SECONDS)
        return web.Response()

    link = await serve(answer)
    await asyncio.gather(*(link.call("POST", "/", b"{}") for _ in range(3)))
    assert len(set(map(id, transports))) == 3
    monkeypatch.setattr(connection, "CALL_TIMEOUT_SECONDS", 0.05)
    silent.set()
    with pytest.raises(Unavailable):
        await link.call("POST", "/", b"{}")
    silent.clear()
    monkeypatch.setattr(connection, "CALL_TIMEOUT_SECONDS", 20)
    before = set(map(id, transports))
    await link.call("POST", "/", b"{}")
    assert id(transports[-1]) not in before
