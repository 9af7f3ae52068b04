import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.http.listening import listening
from vscheduler.cluster.http import pool
from vscheduler.cluster.http.connection import Access, Connection, Unavailable
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.daemon.leader_election.election_settings import Timing

ANSWER = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"


class Listener:
    """A server that keeps each byte that comes, and answers when it is told to."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.arrived = asyncio.Event()
        self.answers = asyncio.Event()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        while data := await reader.read(65536):
            self.got.append(data)
            self.arrived.set()
            await self.answers.wait()
            writer.write(ANSWER)


@pytest.fixture
def listener() -> Listener:
    """It answers nothing yet."""
    return Listener()


@pytest.fixture
async def link(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    """The only connection that there may be to it."""
    monkeypatch.setattr(pool, "CONNECTIONS_MAX", 1)
    async with listening(listener.take) as place:
        link = await Connection.open(Access(master=f"http://{place}"))
        yield link
        await link.close()


async def test_without_leave_not_a_byte_is_sent(link: Connection, listener: Listener) -> None:
    """Not the headers either; the next call has a connection again."""
    listener.answers.set()
    with pytest.raises(NotSentError):
        await link.call("POST", "/no", b"{}", may_send=lambda: False)
    await link.call("POST", "/yes", b"{}", may_send=lambda: True)
    assert b"".join(listener.got).startswith(b"POST /yes HTTP/1.1\r\n")
    assert b"/no" not in b"".join(listener.got)


async def test_leave_is_asked_for_when_there_is_a_connection(
    link: Connection, listener: Listener
) -> None:
    """Who was frozen while it waited for one, and may not send any more, sends nothing."""
    asked: list[bool] = []

    def may_send() -> bool:
        asked.append(listener.answers.is_set())
        return False

    first = asyncio.create_task(link.call("POST", "/first", b"{}"))
    await listener.arrived.wait()
    second = asyncio.create_task(link.call("POST", "/second", b"{}", may_send=may_send))
    done, _ = await asyncio.wait({second}, timeout=0.1)
    assert (done, asked) == (set(), []), "it waits, and hasn't asked"
    listener.answers.set()
    assert await first == b""
    with pytest.raises(NotSentError):
        await second
    assert asked == [True]
    assert b"/second" not in b"".join(listener.got)


async def test_what_is_guarded_is_sent_as_it_is(link: Connection, listener: Listener) -> None:
    """Type, length and bytes."""
    listener.answers.set()
    await link.call("POST", "/a", b'{"b":1}', may_send=lambda: True)
    head, _, body = b"".join(listener.got).partition(b"\r\n\r\n")
    assert body == b'{"b":1}'
    assert b"\r\nContent-Type: application/json\r\n" in head + b"\r\n"
    assert b"\r\nContent-Length: 7\r\n" in head + b"\r\n"


async def test_a_server_that_hangs_up_is_no_lack_of_leave(
    link: Connection, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written may have been done."""
    monkeypatch.setattr("tests.unit.cluster.http.test_writes.ANSWER", b"nonsense\r\n\r\n")
    listener.answers.set()
    with pytest.raises(Unavailable):
        await link.call("POST", "/a", b"{}", may_send=lambda: True)


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_write_is_sent_once_though_a_kept_connection_breaks(
    serve: Serve, method: str
) -> None:
    """The first may have been done."""
    received: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        received.append(request.method)
        if len(received) == 2:
            assert request.transport is not None
            request.transport.abort()
        return web.Response()

    link = await serve(answer)
    await link.call("GET", "/")
    with pytest.raises(Unavailable, match="the connection was closed"):
        await link.call(method, "/", b"{}")
    assert received == ["GET", method]
    await link.call(method, "/", b"{}")


async def test_what_nobody_acknowledges_is_given_up_before_another_instance_may_lead(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kernel, even while the process stands still."""
    options: list[int] = []
    make = pool.impatient

    def note(address: tuple[int, int, int, str, tuple[str, int]]) -> socket.socket:
        made = make(address)
        options.append(made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        return made

    monkeypatch.setattr(pool, "impatient", note)

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    link = await serve(answer)
    await link.call("POST", "/", b"{}")
    timing = Timing()
    assert 0 < options[0] / 1000 < timing.duration_seconds - timing.fence_seconds
