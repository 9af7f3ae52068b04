"""The HTTP client itself: what it makes of bytes, connections, proxies and pauses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from sandbox import credentials as issuing
from tests import patience
from tests.unit.cluster.http.listening import listening
from vscheduler.cluster.http import pool as pooling
from vscheduler.cluster.http.pool import (
    Answer,
    BrokenConnectionError,
    Pool,
    PooledConnection,
    Route,
)
from vscheduler.cluster.http.responses import TooLargeError

HEAD = b"HTTP/1.1 201 Created\r\nDate: today\r\n"
PLAIN = HEAD + b"Content-Length: 4\r\n\r\nbody"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n2;x=y\r\nbo\r\n02\r\ndy\r\n0\r\n\r\n"
TRAILED = CHUNKED[:-2] + b"Digest: none\r\n\r\n"
FIRST = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
UNCHANGED = b"HTTP/1.1 304 Not Modified\r\n\r\n"
ENDLESS = HEAD + b"\r\nbody"
CONTEXT = ssl.create_default_context()


class Wire(asyncio.Transport):
    """What a connection writes to; nothing is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False
        self._reads = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Of no interest here."""

    def is_closing(self) -> bool:
        """Whether it was dropped."""
        return self.ended

    def abort(self) -> None:
        """Drop it."""
        self.ended = True

    def pause_reading(self) -> None:
        """Be read no more."""
        self._reads = False

    def resume_reading(self) -> None:
        """Be read again."""
        self._reads = True

    def is_reading(self) -> bool:
        """Whether it is read."""
        return self._reads


def wired() -> tuple[PooledConnection, Wire]:
    """A connection of a pool, to nowhere."""
    pool = Pool(Route.to("http://h", None, None), CONTEXT, most=1)
    connection, wire = PooledConnection(pool), Wire()
    connection.connection_made(wire)
    return connection, wire


async def hear(*pieces: bytes, ends: bool = False) -> tuple[tuple[int, bytes] | None, bool]:
    """The answer that these pieces are, if any, and whether the connection can be used again."""
    connection, _ = wired()
    answer = connection.send(b"", None)
    read = asyncio.create_task(whole(answer))
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
    if ends:
        connection.eof_received()
        connection.connection_lost(None)
    for _ in range(3):
        await asyncio.sleep(0)
    if not read.done():
        read.cancel()
        return None, connection.open
    return await read, connection.reusable


async def whole(answer: Answer) -> tuple[int, bytes]:
    """Status and body."""
    await answer.head()
    return answer.status, await answer.body(100)


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, TRAILED, FIRST + PLAIN, EMPTY, UNCHANGED])
async def test_an_answer_is_whole_with_its_last_byte(data: bytes) -> None:
    """However it is cut into pieces; its connection can be used again."""
    pieces = [bytes([each]) for each in data]
    assert await hear(*pieces[:-1]) == (None, True)
    found, reusable = await hear(*pieces)
    assert (found, reusable) == await hear(data)
    assert found is not None
    assert (found[1], reusable) == (b"" if data in (EMPTY, UNCHANGED) else b"body", True)
    assert found[0] == {EMPTY: 204, UNCHANGED: 304}.get(data, 201)


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
    assert await hear(data) == ((201, b"body"), False)


@pytest.mark.parametrize("data", [ENDLESS, ENDLESS.replace(b"1.1", b"1.0")])
async def test_an_answer_of_unknown_length_ends_with_its_connection(data: bytes) -> None:
    """Some proxies send such; and if the connection breaks instead, it is no answer."""
    assert await hear(data) == (None, True)
    assert await hear(data, ends=True) == ((201, b"body"), False)
    connection, _ = wired()
    answer = connection.send(b"", None)
    connection.data_received(data)
    connection.connection_lost(None)
    with pytest.raises(BrokenConnectionError):
        await whole(answer)


@pytest.mark.parametrize(
    "data",
    [PLAIN[:-1], CHUNKED[:-1], CHUNKED[:-5], FIRST, b""],
    ids=["length", "last chunk", "chunk", "hint", "nothing"],
)
async def test_an_answer_without_its_end_is_none(data: bytes) -> None:
    """There might have been more of it."""
    assert await hear(data) == (None, True)
    with pytest.raises(BrokenConnectionError):
        await hear(data, ends=True)


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        CHUNKED.replace(b"2;", b"z;"),
        CHUNKED.replace(b"2;", b"-2;"),
        CHUNKED.replace(b"bo\r\n", b"bob\r\n"),
    ],
)
async def test_what_is_no_answer_is_refused(data: bytes) -> None:
    """Rather than waited for."""
    with pytest.raises(BrokenConnectionError):
        await hear(data)


@pytest.mark.parametrize(
    ("begin", "piece"),
    [(b"", FIRST), (HEAD, b"x: y\r\n"), (HEAD, b"x"), (CHUNKED[:-2], b"x: y\r\n")],
    ids=["hints", "headers", "a header", "trailers"],
)
async def test_what_is_no_body_has_a_bound(begin: bytes, piece: bytes) -> None:
    """Before the body, and after it."""
    flood = [piece * 100] * (pooling.HEAD_MAX_BYTES // len(piece) // 100 + 2)
    with pytest.raises(TooLargeError):
        await hear(begin, *flood)


async def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    """Before the first request, and after an answer."""
    for before in ([], [PLAIN]):
        for data in (b"x", PLAIN):
            connection, _ = wired()
            for each in before:
                connection.send(b"", None)
                connection.data_received(each)
            connection.data_received(data)
            assert not connection.open


async def test_when_to_come_again_is_read() -> None:
    """Retry-After, however it is spelt; and only of the answer that has it."""
    connection, _ = wired()
    for data, expected in (
        (PLAIN.replace(b"Date: today", b"retry-after:  7 "), "7"),
        (PLAIN, None),
    ):
        answer = connection.send(b"", None)
        connection.data_received(data)
        assert answer.retry_after == expected


@contextmanager
def chunks(gather_seconds: float = 0.0) -> Iterator[tuple[AsyncIterator[bytes], Any, Wire]]:
    """A stream, and how its server sends more of it."""
    connection, wire = wired()
    answer = connection.send(b"", None)
    connection.data_received(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")

    def send(data: bytes) -> None:
        connection.data_received(b"%x\r\n%s\r\n" % (len(data), data))

    yield answer.chunks(patience.SECONDS, gather_seconds), send, wire


async def test_a_stream_is_read_as_it_comes() -> None:
    """What has come meanwhile, in one piece."""
    with chunks() as (stream, send, _):
        send(b"a")
        send(b"b")
        assert await anext(stream) == b"ab"
        following = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert not following.done()
        send(b"c")
        assert await following == b"c"
        send(b"")
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_reading_pauses_while_the_reader_is_slow() -> None:
    """What waits for the reader has a bound."""
    with chunks() as (stream, send, wire):
        send(b"x" * (pooling.BUFFER_BYTES - 1))
        assert wire.is_reading()
        send(b"x")
        assert not wire.is_reading()
        assert len(await anext(stream)) == pooling.BUFFER_BYTES
        following = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert wire.is_reading()
        send(b"y")
        assert await following == b"y"


async def test_changes_are_gathered() -> None:
    """Between two reads of a stream, its connection isn't read."""
    with chunks(0.01) as (stream, send, wire):
        send(b"x")
        assert await anext(stream) == b"x"
        following = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert not wire.is_reading()
        await patience.until(wire.is_reading)
        send(b"y")
        assert await following == b"y"


async def test_a_large_answer_is_not_read_in_pauses() -> None:
    """Who wants the whole is woken at its end, or when it becomes too large."""
    connection, wire = wired()
    answer = connection.send(b"", None)
    size = 2 * pooling.BUFFER_BYTES
    connection.data_received(HEAD + b"Content-Length: %d\r\n\r\n" % size)
    body = asyncio.ensure_future(answer.body(size))
    for _ in range(4):
        await asyncio.sleep(0)
        connection.data_received(b"x" * (size // 4))
        assert wire.is_reading()
    assert await body == b"x" * size


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://h", ("h", 443, "h", "")),
        ("http://h:8/p", ("h", 8, "h:8", "/p")),
        ("https://[::1]:6443", ("::1", 6443, "[::1]:6443", "")),
    ],
)
def test_an_address_is_taken_apart(url: str, found: tuple[str, int, str, str]) -> None:
    """Host, port, prefix, and what the Host header says."""
    host, port, named, prefix = found
    route = Route.to(url, None, None)
    assert (route.host, route.port, route.prefix) == (host, port, prefix)
    assert route.headers.startswith(f"Host: {named}\r\n")
    assert route.server_name == (host if url.startswith("https:") else None)
    assert Route.to(url, None, "other").server_name == (route.server_name and "other")


@pytest.mark.parametrize("url", ["https://me:secret@h", "unix:///x", "h:80", "http://h:x", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    """In a sentence without secrets."""
    with pytest.raises(ValueError, match=r"address|[Pp]ort") as told:
        Route.to(url, None, None)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("proxy", ["https://me:secret@p:1", "socks5://p:1", "socks5h://p:1"])
def test_a_proxy_of_another_kind_is_refused(proxy: str) -> None:
    """In a sentence that names it, without secrets."""
    name = proxy.partition(":")[0]
    with pytest.raises(ValueError, match=rf"the proxy {name}://p isn't supported") as told:
        Route.to("https://h", proxy, None)
    assert "secret" not in str(told.value)


class Listener:
    """A server that says what it is told to, and hangs up where it is told to."""

    def __init__(self) -> None:
        self.answer = self.later = PLAIN
        """What it says to the first request of a connection, and to others. Nothing: it hangs
        up."""
        self.got: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []

    @property
    def connections(self) -> int:
        """How many there have been."""
        return len(self.writers)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.writers.append(writer)
        answer = self.answer
        while data := await reader.read(65536):
            self.got.append(data)
            if not answer:
                break
            writer.write(answer)
            answer = self.later

    async def until(self, closed: int) -> None:
        """Wait until so many connections have ended."""
        await patience.until(lambda: sum(each.is_closing() for each in self.writers) >= closed)


@pytest.fixture
def listener() -> Listener:
    """It answers at once."""
    return Listener()


@pytest.fixture
async def pool(listener: Listener) -> AsyncIterator[Pool]:
    """Two connections at most."""
    async with listening(listener.take) as place:
        pool = Pool(Route.to(f"http://{place}", None, None), CONTEXT, most=2)
        yield pool
        pool.close()


async def send(pool: Pool, path: str = "/a") -> tuple[int, bytes]:
    """One request."""
    with await pool.send("POST", path, {"X": "y"}, b"{}") as answer:
        return answer.status, await answer.body(100)


async def read(pool: Pool) -> tuple[int, bytes]:
    """Another, without a body."""
    with await pool.send("GET", "/a", {}) as answer:
        return answer.status, await answer.body(100)


async def test_connections_are_kept_and_limited(pool: Pool, listener: Listener) -> None:
    """Requests beyond the limit wait; what is sent is a whole request."""
    assert await asyncio.gather(*(send(pool) for _ in range(6))) == [(201, b"body")] * 6
    assert listener.connections == 2
    for request in listener.got:
        first, *headers = request.removesuffix(b"\r\n\r\n{}").split(b"\r\n")
        assert first == b"POST /a HTTP/1.1"
        assert {b"X: y", b"Content-Length: 2", b"Accept-Encoding: identity"} <= set(headers)
    assert len(listener.got) == 6


async def test_a_connection_that_was_closed_meanwhile_is_replaced(
    pool: Pool, listener: Listener
) -> None:
    """The server may close what is idle; the next request doesn't notice."""
    await send(pool)
    listener.writers[0].close()
    await patience.until(lambda: not pool._all)
    assert (await send(pool))[0] == 201
    assert listener.connections == 2


async def test_what_is_unused_for_long_is_closed(
    pool: Pool, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a load balancer doesn't do it while a request is on its way."""
    monkeypatch.setattr(pooling, "KEEP_ALIVE_SECONDS", 0.01)
    await asyncio.gather(send(pool), send(pool))
    await listener.until(closed=2)


async def test_a_server_that_hangs_up_breaks_the_request(pool: Pool, listener: Listener) -> None:
    """It may be done or not; the next one has a connection of its own."""
    listener.later = b""
    await send(pool)
    with pytest.raises(BrokenConnectionError):
        await send(pool)
    await send(pool)
    assert len(listener.got) == 3, "none was sent twice"


@pytest.mark.parametrize("again", [True, False])
async def test_a_read_is_sent_again_when_a_kept_connection_breaks(
    pool: Pool, listener: Listener, *, again: bool
) -> None:
    """The server closed it while the request came. Once, on a connection that wasn't kept."""
    listener.later = b""
    await asyncio.gather(read(pool), read(pool))
    if again:
        assert await read(pool) == (201, b"body")
    else:
        listener.answer = b""
        with pytest.raises(BrokenConnectionError):
            await read(pool)
    assert (len(listener.got), listener.connections) == (4, 3)


async def test_a_read_that_was_answered_in_part_is_not_sent_again(
    pool: Pool, listener: Listener
) -> None:
    """Nor one on a new connection."""
    listener.later = b"H"
    await read(pool)
    reading = asyncio.create_task(read(pool))
    await patience.until(lambda: len(listener.got) == 2)
    listener.writers[0].close()
    with pytest.raises(BrokenConnectionError):
        await reading
    listener.answer = b""
    with pytest.raises(BrokenConnectionError):
        await read(pool)
    assert len(listener.got) == 3


async def test_a_request_that_is_given_up_takes_its_connection_with_it(
    pool: Pool, listener: Listener
) -> None:
    """Its answer may come still, and isn't the next one's."""
    listener.answer = PLAIN[:-1]
    request = asyncio.create_task(send(pool))
    await patience.until(lambda: listener.got)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(request, 0.01)
    listener.answer = PLAIN
    assert (await send(pool))[1] == b"body"
    assert listener.connections == 2
    await listener.until(closed=1)


async def test_after_a_doubt_only_requests_under_way_go_on(pool: Pool, listener: Listener) -> None:
    """Others have new connections."""
    listener.answer = HEAD + b"Content-Length: 4\r\n\r\n"
    with await pool.send("GET", "/a", {}) as answer:
        pool.doubt()
        listener.writers[0].write(b"body")
        assert await answer.body(4) == b"body"
    listener.answer = PLAIN
    await send(pool)
    assert listener.connections == 2


async def test_nobody_writes_headers_of_his_own(pool: Pool, listener: Listener) -> None:
    """A line break in a path or a token is no request at all."""
    for path, token in (("/a\r\nX:1", "t"), ("/a b", "t"), ("/a", "t\r\nX: 1")):
        with pytest.raises(BrokenConnectionError):
            await pool.send("GET", path, {"Authorization": token})
    assert listener.got == []


async def test_closing_breaks_what_is_under_way(pool: Pool, listener: Listener) -> None:
    """Nobody waits for an answer after the end, nor for a connection."""
    listener.answer = PLAIN[:-1]
    request = asyncio.create_task(send(pool))
    await patience.until(lambda: listener.got)
    pool.close()
    with pytest.raises(BrokenConnectionError):
        await request
    with pytest.raises(BrokenConnectionError):
        await send(pool)


async def test_the_name_of_a_host_is_looked_up(listener: Listener) -> None:
    """An address isn't, which would take a thread."""
    async with listening(listener.take) as place:
        port = place.partition(":")[2]
        pool = Pool(Route.to(f"http://localhost:{port}", None, None), CONTEXT, most=1)
        assert await send(pool) == (201, b"body")
        pool.close()


class Proxy:
    """An HTTP proxy that notes what it is asked for, and connects to one server."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.asked: list[bytes] = []
        self.says = b"HTTP/1.1 200 Connection established\r\n\r\n"

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        host, _, port = self.place.partition(":")
        there, back = await asyncio.open_connection(host, int(port))
        if head.startswith(b"CONNECT"):
            writer.write(self.says)
        else:
            back.write(head)
        try:
            await asyncio.gather(pump(reader, back), pump(there, writer))
        finally:
            back.transport.abort()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on bytes, and their end."""
    while data := await reader.read(65536):
        writer.write(data)
    writer.transport.abort()


async def test_plain_requests_through_a_proxy_name_their_server(listener: Listener) -> None:
    """And the proxy's user, whatever the characters of the password."""
    async with listening(listener.take) as place:
        proxy = Proxy(place)
        async with listening(proxy.take) as near:
            url = f"http://me:p%40ss@{near}"
            pool = Pool(Route.to("http://server:8080/base", url, None), CONTEXT, most=1)
            assert await send(pool) == (201, b"body")
            pool.close()
    first, host, *headers = proxy.asked[0].split(b"\r\n")
    assert first == b"POST http://server:8080/base/a HTTP/1.1"
    assert host == b"Host: server:8080"
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==" in headers


Run = Callable[[Coroutine[Any, Any, None]], None]


def secure(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server and its clients need."""
    authority = issuing.found_authority(folder)
    pair = authority.issue_serving()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    return server, ssl.create_default_context(cafile=str(authority.certificate_path))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_proxy_passes_on_what_is_encrypted(listener: Listener, tmp_path: Path, run: Run) -> None:
    """It hears where to, and nothing else; the server shows the certificate of its own name."""
    server, context = secure(tmp_path)

    async def ask() -> None:
        async with listening(listener.take, server) as place:
            proxy = Proxy(place)
            async with listening(proxy.take) as near:
                route = Route.to("https://[::1]/base", f"http://me@{near}", "localhost")
                pool = Pool(route, context, most=1)
                assert [await send(pool) for _ in range(2)] == [(201, b"body")] * 2
                pool.close()
                await asyncio.sleep(0)
        first, host, signed, *_ = proxy.asked[0].split(b"\r\n")
        assert (first, host) == (b"CONNECT [::1]:443 HTTP/1.1", b"Host: [::1]:443")
        assert signed == b"Proxy-Authorization: Basic bWU6"
        assert (len(proxy.asked), len(listener.got)) == (1, 2)

    run(ask())


async def test_a_proxy_that_refuses_is_an_error(listener: Listener) -> None:
    """With its status."""
    async with listening(listener.take) as place:
        proxy = Proxy(place)
        proxy.says = b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n"
        async with listening(proxy.take) as near:
            pool = Pool(Route.to(f"https://{place}", f"http://{near}", None), CONTEXT, most=1)
            with pytest.raises(BrokenConnectionError, match="the proxy refuses: HTTP status 407"):
                await send(pool)
            pool.close()
    assert listener.got == []


@pytest.mark.parametrize("wrong", ["name", "authority"])
async def test_a_certificate_of_somebody_else_is_refused(
    listener: Listener, tmp_path: Path, wrong: str
) -> None:
    """Nothing is sent."""
    server, context = secure(tmp_path / "ours")
    if wrong == "authority":
        _, context = secure(tmp_path / "other")
    name = "elsewhere.example" if wrong == "name" else "localhost"
    async with listening(listener.take, server) as place:
        pool = Pool(Route.to(f"https://{place}", None, name), context, most=1)
        with pytest.raises(ssl.SSLCertVerificationError):
            await send(pool)
        assert not pool._all
        pool.close()
    assert listener.got == []
