"""The HTTP client: HTTP/1.1 with keep-alive, one request at a time on each connection.

Each pod causes a bind and an event, for which aiohttp takes more than twice as much CPU (decision
34). httptools parses the answers, and every answer takes the same path: lists, watches, writes.
"""

import asyncio
import base64
import math
import socket
import ssl
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib import metadata
from typing import Self, cast

import aiohappyeyeballs
import httptools
import msgspec
from msgspec.structs import replace

from vscheduler.cluster.http.responses import TooLargeError

CONNECTIONS_MAX = 128
CONNECT_SECONDS = 10.0
NEXT_ADDRESS_SECONDS = 0.25
"""After this time, another address of the host is tried besides (RFC 8305)."""
UNACKNOWLEDGED_SECONDS = 4.0
"""How long the kernel keeps sending bytes that the other side doesn't acknowledge.

After a partition, a write would otherwise arrive minutes late, when another instance leads. By
default, a leader acts for 5 s after a renewal, and another may lead 10 s later.
"""
KEEP_ALIVE_SECONDS = 75.0
DOUBT_SECONDS = 20.0
"""Minimum time between two replacements of all connections, however many time-outs occur."""
BUFFER_BYTES = 2**18
"""Reading pauses when a reader has so many bytes before it."""
HEAD_MAX_BYTES = 2**16
"""How many bytes in a row may be no part of a body: headers, informational answers, trailers. They
are counted after each read, of as many bytes as an event loop reads at once."""
FINAL = 200
"""Smallest status of a final answer; lower statuses are informational."""
REDIRECTED = 300
CLOSED = "the connection was closed"
USER_AGENT = f"vscheduler/{metadata.version('vscheduler')}"
PORTS = {"http": 80, "https": 443}


class NotSentError(Exception):
    """The request was not sent, because sending is no longer permitted."""


class BrokenConnectionError(ConnectionError):
    """The connection ended without a complete answer; the request may have been executed."""


class StaleConnectionError(BrokenConnectionError):
    """The same, on a connection that had been idle, and before any byte of the answer."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The way to the API server, through a proxy if there is one."""

    host: str
    """The server's or the proxy's, with its port."""
    port: int
    prefix: str
    """What all request targets begin with."""
    headers: str
    """What all requests have."""
    server_name: str | None
    """The name in the server's certificate. None: no TLS."""
    tunnel: str = ""
    """The request that makes a proxy pass on bytes."""

    @classmethod
    def to(cls, url: str, proxy: str | None, server_name: str | None) -> Self:
        """Return the way to http(s)://HOST[:PORT][/PREFIX]. Raises ValueError with a sentence."""
        server = urllib.parse.urlsplit(url)
        host, port = server.hostname, server.port or PORTS.get(server.scheme)
        if not host or not port or "@" in server.netloc:
            raise ValueError(f"no address like https://HOST:PORT: {server.scheme}://{host}")
        direct = cls(
            host=host,
            port=port,
            prefix=server.path,
            headers=f"Host: {server.netloc}\r\n"
            f"User-Agent: {USER_AGENT}\r\nAccept-Encoding: identity\r\n",
            server_name=(server_name or host) if server.scheme == "https" else None,
        )
        return direct if proxy is None else direct._through(server, proxy)

    def _through(self, server: urllib.parse.SplitResult, proxy: str) -> Self:
        way = urllib.parse.urlsplit(proxy)
        if way.scheme != "http" or not way.hostname:
            raise ValueError(
                f"the proxy {way.scheme}://{way.hostname} isn't supported: only http:// is"
            )
        signed = ""
        if way.username is not None:
            user, password = map(urllib.parse.unquote, (way.username, way.password or ""))
            code = base64.b64encode(f"{user}:{password}".encode()).decode()
            signed = f"Proxy-Authorization: Basic {code}\r\n"
        near = replace(self, host=way.hostname, port=way.port or PORTS["http"])
        if self.server_name is None:
            whole = f"http://{server.netloc}{self.prefix}"
            return replace(near, prefix=whole, headers=self.headers + signed)
        host = f"[{self.host}]" if ":" in self.host else self.host
        target = f"{host}:{self.port}"
        tunnel = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{signed}\r\n"
        return replace(near, tunnel=tunnel)

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        """Return a request as it is sent."""
        lines = [f"{name}: {value}" for name, value in headers.items()]
        written = "".join(lines)
        if not (written.isprintable() and path.isprintable() and " " not in path):
            raise BrokenConnectionError("a space or a control character where none may be")
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        first = f"{method} {self.prefix}{path} HTTP/1.1\r\n{self.headers}"
        head = first + "\r\n".join(lines) + "\r\n\r\n"
        return head.encode() + (body or b"")


class Answer:
    """The answer to one request. `with answer:` frees its connection for others at the end."""

    status = 0
    """0 until all headers of the final answer have come."""
    retry_after: str | None = None
    begun = False
    """Whether any byte has come."""
    complete = False
    reusable = False
    """Whether the connection can carry another request."""
    length = 0
    """The body's length, if the server says so."""
    framed = False
    """Whether the answer says where it ends. Otherwise the connection's end is its end."""
    _size = 0
    _least = 1
    _error: Exception | None = None
    _waiter: asyncio.Future[None] | None = None

    def __init__(self, connection: "PooledConnection") -> None:
        self._connection = connection
        self._pieces: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.release()

    async def head(self) -> None:
        """Wait for the headers. Raises ConnectionError."""
        while not self.status:
            await self._wait()

    async def body(self, most: int) -> bytes:
        """Return the whole body. Raises ConnectionError, TooLargeError above `most` bytes."""
        if self.length <= most:
            data = await self._read(most + 1)
            if len(data) <= most:
                return data
        raise TooLargeError(f"an answer of more than {most} bytes")

    async def chunks(self, silence_seconds: float, gather_seconds: float) -> AsyncIterator[bytes]:
        """Yield the body as it comes. After each chunk, reading pauses for `gather_seconds`.

        Raises ConnectionError, and TimeoutError if nothing comes for `silence_seconds`.
        """
        while True:
            async with asyncio.timeout(silence_seconds):
                chunk = await self._read()
            if not chunk:
                return
            yield chunk
            if gather_seconds and not self.complete:
                self._connection.pause()  # without this, every packet would wake the event loop
                await asyncio.sleep(gather_seconds)

    async def _read(self, least: int = 1) -> bytes:
        """Return what has come of the body, at least so many bytes unless it ends before."""
        self._least = least
        while self._size < least and not self.complete:
            self._connection.resume()
            await self._wait()
        pieces, self._pieces, self._size = self._pieces, [], 0
        return b"".join(pieces)

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def begin(self, status: int) -> None:
        """Note that all headers have come."""
        self.status = status
        self._wake()

    def add(self, piece: bytes) -> None:
        """Add a part of the body. Reading pauses while many wait for the reader."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= self._least:
            self._wake()
            if self._size >= BUFFER_BYTES:
                self._connection.pause()

    def finish(self, *, reusable: bool) -> None:
        """Note that the answer is complete."""
        self.complete, self.reusable = True, reusable
        self._wake()

    def fail(self, error: Exception) -> None:
        """Raise the error where the answer is read, unless the answer is complete."""
        self._error = self._error or error
        self._wake()


class PooledConnection(asyncio.Protocol):
    """A connection of the pool."""

    def __init__(self, pool: "Pool") -> None:
        self.generation = pool.generation
        self.idle_since = 0.0
        self._pool = pool
        self._transport: asyncio.Transport
        self._parser: httptools.HttpResponseParser
        self._answer: Answer
        """The current answer, or the last one."""
        self._between = 0
        """Bytes since the last part of a body."""
        self._kept = False
        """Whether the connection had carried another request before."""
        self._paused = False
        self._begin()

    def _begin(self) -> None:
        """Be ready for the first answer."""
        self._parser = httptools.HttpResponseParser(self)
        self._answer = Answer(self)
        self._answer.finish(reusable=True)

    @property
    def open(self) -> bool:
        """Whether the connection has not ended."""
        return not self._transport.is_closing()

    @property
    def reusable(self) -> bool:
        """Whether another request can be sent."""
        return self._answer.reusable and not self._paused and self.open

    async def tunnel(self, request: str) -> None:
        """Ask the proxy to pass on all further bytes. Raises ConnectionError."""
        answer = self.send(request.encode(), None)
        await answer.head()
        if answer.status >= REDIRECTED:
            raise BrokenConnectionError(f"the proxy refuses: HTTP status {answer.status}")
        self._begin()

    async def encrypt(self, context: ssl.SSLContext, server_name: str) -> None:
        """Begin TLS. Raises OSError."""
        loop = asyncio.get_running_loop()
        encrypted = await loop.start_tls(
            self._transport, self, context, server_hostname=server_name
        )
        assert encrypted is not None
        self.connection_made(encrypted)

    def send(self, request: bytes, may_send: Callable[[], bool] | None) -> Answer:
        """Send a request, if it may be sent. Raises NotSentError, ConnectionError."""
        if not self.open:
            raise BrokenConnectionError(CLOSED)
        if may_send is not None and not may_send():
            raise NotSentError
        self._kept = self._answer.status != 0
        self._answer, self._between = Answer(self), 0
        self._transport.write(request)
        return self._answer

    def release(self) -> None:
        """Give the connection back to the pool."""
        self._pool.give_back(self)

    def drop(self) -> None:
        """Abort the connection."""
        self._transport.abort()

    def pause(self) -> None:
        """Receive no more, until `resume`."""
        if not self._paused and self.open:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Receive again."""
        if self._paused and self.open:
            self._paused = False
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is established."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes arrived. None may come without a request, or after its answer."""
        self._answer.begun = True
        self._between += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(BrokenConnectionError(f"not an answer: {error}"))
        if self._between > HEAD_MAX_BYTES:
            self._fail(TooLargeError(f"more than {HEAD_MAX_BYTES} bytes of headers"))

    def eof_received(self) -> None:
        """asyncio: the server sends no more."""
        if self._answer.status and not self._answer.framed:
            self._answer.finish(reusable=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection ended."""
        self._pool.forget(self)
        stale = self._kept and not self._answer.begun
        broken = StaleConnectionError if stale else BrokenConnectionError
        self._answer.fail(broken(str(exc or CLOSED)))

    def _fail(self, error: Exception) -> None:
        self._answer.fail(error)
        self.drop()

    def on_message_begin(self) -> None:
        """httptools: an answer begins, perhaps after informational ones."""
        answer = self._answer
        if answer.complete:
            self.drop()
        answer.retry_after, answer.length, answer.framed = None, 0, False

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: a header or trailer was parsed."""
        answer, name = self._answer, name.lower()
        if name == b"content-length":
            answer.length, answer.framed = int(value), True
        elif name == b"transfer-encoding":
            answer.framed = True
        elif name == b"retry-after":
            answer.retry_after = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """httptools: all headers were parsed."""
        status = self._parser.get_status_code()
        if status >= FINAL and not self._answer.complete:
            self._answer.begin(status)

    def on_body(self, body: bytes) -> None:
        """httptools: a part of the body was parsed."""
        self._between = 0
        if not self._answer.complete:
            self._answer.add(body)

    def on_message_complete(self) -> None:
        """httptools: the answer is complete, or an informational one."""
        if self._answer.status and not self._answer.complete:
            self._answer.finish(reusable=self._parser.should_keep_alive())


class Pool:
    """All connections to the API server. The most recently used one is used first."""

    def __init__(self, route: Route, context: ssl.SSLContext, *, most: int) -> None:
        self._route = route
        self._context = context
        self._slots = asyncio.Semaphore(most)
        self._all: dict[PooledConnection, None] = {}
        """In the order in which they were opened, in which they are closed, too."""
        self._idle: list[PooledConnection] = []
        self.generation = 0
        """Connections of an earlier generation carry no further request."""
        self._doubted_at = -math.inf
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        may_send: Callable[[], bool] | None = None,
    ) -> Answer:
        """Send a request and return the answer once its headers have come.

        `may_send` is asked just before the bytes are written; when it returns False, NotSentError
        is raised. A GET is sent again if a connection breaks that was idle: the server may have
        closed it at the same moment. Raises OSError and TimeoutError.
        """
        request = self._route.request(method, path, headers, body)
        try:
            return await self._exchange(request, may_send)
        except StaleConnectionError:
            if method != "GET" or body is not None:
                raise
            return await self._exchange(request, may_send, fresh=True)

    def use(self, context: ssl.SSLContext) -> None:
        """Set the TLS context of the connections for further requests."""
        if context is not self._context:
            self._context = context
            self._replace()

    def doubt(self) -> None:
        """Use new connections for further requests, because one has timed out.

        A firewall may have dropped the state of all. Requests under way go on.
        """
        if time.monotonic() >= self._doubted_at + DOUBT_SECONDS:
            self._doubted_at = time.monotonic()
            self._replace()

    def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        self._replace()
        for connection in list(self._all):
            connection.drop()
        if self._sweep is not None:
            self._sweep.cancel()

    def _replace(self) -> None:
        self.generation += 1
        for connection in self._idle:
            connection.drop()
        self._idle.clear()

    async def _exchange(
        self, request: bytes, may_send: Callable[[], bool] | None, *, fresh: bool = False
    ) -> Answer:
        connection = await self._take(fresh=fresh)
        try:
            answer = connection.send(request, may_send)
            await answer.head()
        except BaseException:
            self.give_back(connection)
            raise
        return answer

    async def _take(self, *, fresh: bool) -> PooledConnection:
        await self._slots.acquire()
        try:
            while self._idle and not fresh:
                connection = self._idle.pop()
                if connection.open:
                    return connection
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._open()
        except BaseException:
            self._slots.release()
            raise

    async def _open(self) -> PooledConnection:
        if self._closed:
            raise BrokenConnectionError(CLOSED)
        loop, route, context = asyncio.get_running_loop(), self._route, self._context
        connection = PooledConnection(self)
        opened = await aiohappyeyeballs.start_connection(
            await _addresses(route.host, route.port),
            happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
            socket_factory=impatient,
        )
        await loop.create_connection(lambda: connection, sock=opened)
        self._all[connection] = None
        try:
            if route.tunnel:
                await connection.tunnel(route.tunnel)
            if route.server_name is not None:
                await connection.encrypt(context, route.server_name)
        except BaseException:
            connection.drop()
            self.forget(connection)
            raise
        return connection

    def forget(self, connection: PooledConnection) -> None:
        """Forget a connection that has ended."""
        self._all.pop(connection, None)

    def give_back(self, connection: PooledConnection) -> None:
        """Keep a connection for the next request, if it can carry one."""
        self._slots.release()
        if not connection.reusable or connection.generation != self.generation:
            connection.drop()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(KEEP_ALIVE_SECONDS, self._drop_unused)

    def _drop_unused(self) -> None:
        """Close connections idle for longer than the keep-alive time, and plan the next sweep."""
        loop, self._sweep = asyncio.get_running_loop(), None
        while self._idle:
            due = self._idle[0].idle_since + KEEP_ALIVE_SECONDS
            if due > loop.time():
                self._sweep = loop.call_at(due, self._drop_unused)
                return
            self._idle.pop(0).drop()


async def _addresses(host: str, port: int) -> Sequence[aiohappyeyeballs.AddrInfoType]:
    """Return a host's addresses. Only a name is looked up, in another thread. Raises OSError."""
    kind = socket.SOCK_STREAM
    try:
        return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=kind)


def impatient(address: aiohappyeyeballs.AddrInfoType) -> socket.socket:
    """Return a socket that gives up on bytes which the other side doesn't acknowledge."""
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        milliseconds = round(UNACKNOWLEDGED_SECONDS * 1000)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return opened
