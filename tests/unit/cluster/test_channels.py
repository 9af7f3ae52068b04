import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator

import pytest

from vscheduler.cluster import channels

HEAD = b"HTTP/1.1 201 Created\r\nDate: today\r\n"
PLAIN = HEAD + b"Content-Length: 4\r\n\r\nbody"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n2;x=y\r\nbo\r\n02\r\ndy\r\n0\r\n\r\n"
TRAILED = CHUNKED[:-2] + b"Digest: none\r\n\r\n"
FIRST = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, TRAILED, FIRST + PLAIN, EMPTY])
def test_an_answer_is_whole_with_its_last_byte(data: bytes) -> None:
    """However it is cut into pieces; its connection can be used again."""
    assert [channels.read(data[:end]) for end in range(len(data))] == [None] * len(data)
    answer = channels.read(data)
    assert answer is not None
    assert (answer.body, answer.reusable) == (b"" if data is EMPTY else b"body", True)
    assert answer.status == (204 if data is EMPTY else 201)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN + b"more",
        PLAIN.replace(b"1.1", b"1.0"),
        PLAIN.replace(b"Date: today", b"connection: Close"),
    ],
)
def test_a_connection_that_is_out_of_step_is_not_used_again(data: bytes) -> None:
    """Where more came than was asked for, or the server is about to close it."""
    answer = channels.read(data)
    assert answer is not None
    assert (answer.body, answer.reusable) == (b"body", False)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    """As long as it is open there may be more."""
    data = HEAD + b"\r\nbody"
    assert channels.read(data) is None
    answer = channels.read(data, ended=True)
    assert answer is not None
    assert (answer.body, answer.reusable) == (b"body", False)
    assert channels.read(PLAIN[:-1], ended=True) is None
    assert channels.read(CHUNKED[:-1], ended=True) is None


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"x" * (channels.HEAD_MAX + 1),
        CHUNKED.replace(b"2;", b"z;"),
        CHUNKED.replace(b"2;", b"-2;"),
        CHUNKED.replace(b"bo\r\n", b"bob\r\n"),
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    """Rather than waited for."""
    with pytest.raises(ValueError):  # noqa: PT011 - a number's own words are among them
        channels.read(data)


def test_when_to_come_again_is_read() -> None:
    """Retry-After, however it is spelt."""
    answer = channels.read(PLAIN.replace(b"Date: today", b"retry-after:  7 "))
    assert answer is not None
    assert answer.retry_after == "7"


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
    address = channels.Address.of(url, ssl.create_default_context(), None)
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
def opened() -> Iterator[list[channels.Channels]]:
    """Those that a test has opened."""
    made: list[channels.Channels] = []
    yield made
    for each in made:
        each.close()


@pytest.fixture
async def server(listener: Listener) -> AsyncIterator[channels.Address]:
    """Where it is."""
    server = await asyncio.start_server(listener.take, "127.0.0.1")
    host, port = server.sockets[0].getsockname()
    address = channels.Address.of(f"http://{host}:{port}", ssl.create_default_context(), None)
    assert address is not None
    yield address
    for writer in listener.writers:
        writer.transport.abort()
    await asyncio.sleep(0.01)
    server.close()
    await server.wait_closed()


def channels_to(
    server: channels.Address, opened: list[channels.Channels], *, keep_alive_seconds: float = 60.0
) -> channels.Channels:
    """Two at most."""
    made = channels.Channels(
        server, most=2, connect_seconds=5.0, keep_alive_seconds=keep_alive_seconds
    )
    opened.append(made)
    return made


async def send(made: channels.Channels, path: str = "/a") -> channels.Answer:
    """One request."""
    return await made.send("POST", path, {"X": "y"}, b"{}", None)


async def until(server: Listener, closed: int) -> None:
    """Wait until so many connections have ended."""
    async with asyncio.timeout(10):
        while sum(writer.is_closing() for writer in server.writers) < closed:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_connections_are_kept_and_limited(
    listener: Listener, server: channels.Address, opened: list[channels.Channels]
) -> None:
    """Requests beyond the limit wait; what is sent is a whole request."""
    made = channels_to(server, opened)
    answers = await asyncio.gather(*(send(made) for _ in range(6)))
    assert [(each.status, each.body) for each in answers] == [(201, b"body")] * 6
    assert listener.connections == 2
    host = server.authority.encode()
    head = b"POST /a HTTP/1.1\r\nHost: %s\r\nX: y\r\nContent-Length: 2\r\n\r\n" % host
    assert listener.got == [head + b"{}"] * 6


async def test_a_connection_that_was_closed_meanwhile_is_replaced(
    listener: Listener, server: channels.Address, opened: list[channels.Channels]
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
    listener: Listener, server: channels.Address, opened: list[channels.Channels]
) -> None:
    """So that a load balancer doesn't do it while a request is on its way."""
    made = channels_to(server, opened, keep_alive_seconds=0.01)
    await asyncio.gather(send(made), send(made))
    await until(listener, closed=2)


async def test_a_server_that_hangs_up_breaks_the_request(
    listener: Listener, server: channels.Address, opened: list[channels.Channels]
) -> None:
    """It may be done or not; the next one has a connection of its own."""
    made = channels_to(server, opened)
    await send(made)
    listener.answer = b""
    with pytest.raises(channels.BrokenError):
        await send(made)
    listener.answer = PLAIN
    await send(made)
    assert len(listener.got) == 3, "none was sent twice"


async def test_a_request_that_is_given_up_takes_its_connection_with_it(
    listener: Listener, server: channels.Address, opened: list[channels.Channels]
) -> None:
    """Its answer may come still, and isn't the next one's."""
    made = channels_to(server, opened)
    listener.answer = PLAIN[:-1]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await send(made)
    listener.answer = PLAIN
    assert (await send(made)).body == b"body"
    assert listener.connections == 2
    await until(listener, closed=1)


async def test_nobody_writes_headers_of_his_own(
    listener: Listener, server: channels.Address, opened: list[channels.Channels]
) -> None:
    """A line break in a path or a token is no request at all."""
    made = channels_to(server, opened)
    with pytest.raises(channels.BrokenError):
        await send(made, "/a\r\nX:1")
    assert listener.got == []


async def test_closing_breaks_what_is_under_way(
    listener: Listener, server: channels.Address, opened: list[channels.Channels]
) -> None:
    """Nobody waits for an answer after the end."""
    made = channels_to(server, opened)
    listener.answer = PLAIN[:-1]
    request = asyncio.create_task(send(made))
    async with asyncio.timeout(10):
        while not listener.got:  # noqa: ASYNC110 - the listener tells nobody
            await asyncio.sleep(0.001)
    made.close()
    with pytest.raises(channels.BrokenError):
        await request
