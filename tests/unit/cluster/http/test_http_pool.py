import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator

import pytest

from tests import patience
from vscheduler.cluster.http.http_pool import (
    Address,
    Answer,
    ConnectionBrokenError,
    HttpPool,
    PooledConnection,
)
from vscheduler.daemon.leader_election.election_settings import Timing

HEAD = b"HTTP/1.1 201 Created\r\nDate: today\r\n"
PLAIN = HEAD + b"Content-Length: 4\r\n\r\nbody"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n2;x=y\r\nbo\r\n02\r\ndy\r\n0\r\n\r\n"
TRAILED = CHUNKED[:-2] + b"Digest: none\r\n\r\n"
FIRST = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


class Wire(asyncio.Transport):
    """What a channel writes to; nothing is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Of no interest here."""

    def is_closing(self) -> bool:
        """Whether it was dropped."""
        return self.ended

    def abort(self) -> None:
        """Drop it."""
        self.ended = True


async def hear(*pieces: bytes, ends: bool = False) -> tuple[Answer | None, bool]:
    """What a channel makes of these pieces, and whether it can be used again."""
    channel = PooledConnection(asyncio.get_running_loop(), lambda _: None)
    channel.connection_made(Wire())
    request = asyncio.create_task(channel.send(b""))
    await asyncio.sleep(0)
    for piece in pieces:
        channel.data_received(piece)
    if ends:
        channel.connection_lost(None)
    await asyncio.wait([request], timeout=0.001)
    if not request.done():
        request.cancel()
        return None, channel.open
    answer = await request
    return answer, channel.open and answer.reusable


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, TRAILED, FIRST + PLAIN, EMPTY])
async def test_an_answer_is_whole_with_its_last_byte(data: bytes) -> None:
    """However it is cut into pieces; its connection can be used again."""
    pieces = [bytes([each]) for each in data]
    assert await hear(*pieces[:-1]) == (None, True)
    answer, reusable = await hear(*pieces)
    assert answer == (await hear(data))[0]
    assert answer is not None
    assert (answer.body, reusable) == (b"" if data is EMPTY else b"body", True)
    assert answer.status == (204 if data is EMPTY else 201)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN + b"more",
        PLAIN + PLAIN,
        PLAIN.replace(b"1.1", b"1.0"),
        PLAIN.replace(b"Date: today", b"connection: Close"),
    ],
)
async def test_a_connection_that_is_out_of_step_is_not_used_again(data: bytes) -> None:
    """Where more came than was asked for, or the server is about to close it."""
    answer, reusable = await hear(data)
    assert answer is not None
    assert (answer.body, reusable) == (b"body", False)


@pytest.mark.parametrize("data", [HEAD + b"\r\nbody", PLAIN[:-1], CHUNKED[:-1], FIRST, b""])
async def test_an_answer_without_its_end_is_none(data: bytes) -> None:
    """One without a length, too: there might have been more of it."""
    assert await hear(data) == (None, True)
    with pytest.raises(ConnectionBrokenError):
        await hear(data, ends=True)


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"x" * 70_000,
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        CHUNKED.replace(b"2;", b"z;"),
        CHUNKED.replace(b"2;", b"-2;"),
        CHUNKED.replace(b"bo\r\n", b"bob\r\n"),
    ],
)
async def test_what_is_no_answer_is_refused(data: bytes) -> None:
    """Rather than waited for."""
    with pytest.raises(ConnectionBrokenError):
        await hear(data)


async def test_when_to_come_again_is_read() -> None:
    """Retry-After, however it is spelt; and only of the answer that has it."""
    once = PLAIN.replace(b"Date: today", b"retry-after:  7 ")
    answer, _ = await hear(once)
    assert answer is not None
    assert answer.retry_after == "7"
    channel = PooledConnection(asyncio.get_running_loop(), lambda _: None)
    channel.connection_made(Wire())
    for data, expected in ((once, "7"), (PLAIN, None)):
        request = asyncio.create_task(channel.send(b""))
        await asyncio.sleep(0)
        channel.data_received(data)
        assert (await request).retry_after == expected


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://h", ("h", 443, "h", "")),
        ("http://h:8/p", ("h", 8, "h:8", "/p")),
        ("https://[::1]:6443", ("::1", 6443, "[::1]:6443", "")),
        ("https://me:secret@h", None),
        ("unix:///x", None),
    ],
)
def test_an_address_is_taken_apart(url: str, found: tuple[str, int, str, str] | None) -> None:
    """What there is more to is left to others."""
    address = Address.of(url, ssl.create_default_context(), None)
    if found is None:
        assert address is None
        return
    assert address is not None
    assert (address.host, address.port, address.authority, address.prefix) == found
    assert (address.context is None) is url.startswith("http:")


class Listener:
    """A server that says what it is told to, and hangs up where it is told to."""

    def __init__(self) -> None:
        self.answer = PLAIN
        self.got: list[bytes] = []
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        self.writers.append(writer)
        while data := await reader.read(65536):
            self.got.append(data)
            if not self.answer:
                break
            writer.write(self.answer)
        writer.close()


@pytest.fixture
def listener() -> Listener:
    """It answers at once."""
    return Listener()


@pytest.fixture
def opened() -> Iterator[list[HttpPool]]:
    """Those that a test has opened."""
    made: list[HttpPool] = []
    yield made
    for each in made:
        each.close()


@pytest.fixture
async def server(listener: Listener) -> AsyncIterator[Address]:
    """Where it is."""
    server = await asyncio.start_server(listener.take, "127.0.0.1")
    host, port = server.sockets[0].getsockname()
    address = Address.of(f"http://{host}:{port}", ssl.create_default_context(), None)
    assert address is not None
    yield address
    for writer in listener.writers:
        writer.transport.abort()
    await asyncio.sleep(0.01)
    server.close()
    await server.wait_closed()


def channels_to(
    server: Address, opened: list[HttpPool], *, keep_alive_seconds: float = 60.0
) -> HttpPool:
    """Two at most."""
    made = HttpPool(server, most=2, connect_seconds=5.0, keep_alive_seconds=keep_alive_seconds)
    opened.append(made)
    return made


async def send(made: HttpPool, path: str = "/a") -> Answer:
    """One request."""
    return await made.send("POST", path, {"X": "y"}, b"{}", None)


async def until(server: Listener, closed: int) -> None:
    """Wait until so many connections have ended."""
    await patience.until(lambda: sum(writer.is_closing() for writer in server.writers) >= closed)


async def test_connections_are_kept_and_limited(
    listener: Listener, server: Address, opened: list[HttpPool]
) -> None:
    """Requests beyond the limit wait; what is sent is a whole request."""
    made = channels_to(server, opened)
    answers = await asyncio.gather(*(send(made) for _ in range(6)))
    assert [(answer.status, answer.body) for answer in answers] == [(201, b"body")] * 6
    assert listener.connections == 2
    host = server.authority.encode()
    head = b"POST /a HTTP/1.1\r\nHost: %s\r\nX: y\r\nContent-Length: 2\r\n\r\n" % host
    assert listener.got == [head + b"{}"] * 6


async def test_a_connection_that_was_closed_meanwhile_is_replaced(
    listener: Listener, server: Address, opened: list[HttpPool]
) -> None:
    """The server may close what is idle; the next request doesn't notice."""
    made = channels_to(server, opened)
    await send(made)
    listener.writers[0].close()
    await listener.writers[0].wait_closed()
    await asyncio.sleep(0.01)
    assert (await send(made)).status == 201
    assert listener.connections == 2


async def test_what_is_unused_for_long_is_closed(
    listener: Listener, server: Address, opened: list[HttpPool]
) -> None:
    """So that a load balancer doesn't do it while a request is on its way."""
    made = channels_to(server, opened, keep_alive_seconds=0.01)
    await asyncio.gather(send(made), send(made))
    await until(listener, closed=2)


async def test_a_server_that_hangs_up_breaks_the_request(
    listener: Listener, server: Address, opened: list[HttpPool]
) -> None:
    """It may be done or not; the next one has a connection of its own."""
    made = channels_to(server, opened)
    await send(made)
    listener.answer = b""
    with pytest.raises(ConnectionBrokenError):
        await send(made)
    listener.answer = PLAIN
    await send(made)
    assert len(listener.got) == 3, "none was sent twice"


async def test_a_request_that_is_given_up_takes_its_connection_with_it(
    listener: Listener, server: Address, opened: list[HttpPool]
) -> None:
    """Its answer may come still, and isn't the next one's."""
    made = channels_to(server, opened)
    listener.answer = PLAIN[:-1]
    request = asyncio.create_task(send(made))
    await patience.until(lambda: listener.got)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(request, 0.01)
    listener.answer = PLAIN
    assert (await send(made)).body == b"body"
    assert listener.connections == 2
    await until(listener, closed=1)


async def test_nobody_writes_headers_of_his_own(
    listener: Listener, server: Address, opened: list[HttpPool]
) -> None:
    """A line break in a path or a token is no request at all."""
    made = channels_to(server, opened)
    with pytest.raises(ConnectionBrokenError):
        await send(made, "/a\r\nX:1")
    assert listener.got == []


async def test_closing_breaks_what_is_under_way(
    listener: Listener, server: Address, opened: list[HttpPool]
) -> None:
    """Nobody waits for an answer after the end."""
    made = channels_to(server, opened)
    listener.answer = PLAIN[:-1]
    request = asyncio.create_task(send(made))
    await patience.until(lambda: listener.got)
    made.close()
    with pytest.raises(ConnectionBrokenError):
        await request


async def test_what_nobody_acknowledges_is_given_up_before_another_instance_may_lead() -> None:
    """By the kernel, even while the process stands still."""
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        transport, _ = await loop.create_connection(
            lambda: PooledConnection(loop, lambda _: None),
            *server.sockets[0].getsockname(),
        )
        option = transport.get_extra_info("socket").getsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT
        )
        transport.abort()
    timing = Timing()
    assert 0 < option / 1000 < timing.duration_seconds - timing.fence_seconds
