"""Connection pool for writes: HTTP/1.1 with keep-alive, one request at a time on each connection.

Each pod causes a bind and an event. aiohttp spends more time on one of these requests than the
daemon spends on the rest of its work for the pod. Streams, lists and requests through a proxy still
use aiohttp.
"""

import asyncio
import socket
import ssl
import urllib.parse
from collections.abc import Callable
from typing import Self, cast

import httptools
import msgspec
from msgspec.structs import replace

from vscheduler.cluster.http import responses
from vscheduler.cluster.http.responses import TooLargeError
from vscheduler.cluster.http.send_guard import NotSentError

UNACKNOWLEDGED_SECONDS = 4.0
"""How long the kernel keeps sending bytes that the other side doesn't acknowledge.

After a partition, a write would otherwise arrive minutes late, when another instance leads. By
default, a leader acts for 5 s after a renewal, and another may lead 10 s later.
"""

FINAL = 200
"""Smallest status of a final answer; lower statuses are informational."""


class ConnectionBrokenError(ConnectionError):
    """The connection ended without a valid answer; the request may have been executed."""


class Answer(msgspec.Struct, frozen=True):
    """A complete HTTP response."""

    status: int
    body: bytes
    retry_after: str | None = None
    reusable: bool = False
    """Whether the connection can carry another request."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Network address of the API server."""

    host: str
    port: int
    authority: str
    """Value of the Host header."""
    prefix: str
    """Common prefix of all paths."""
    context: ssl.SSLContext | None
    server_name: str | None

    @classmethod
    def of(cls, url: str, context: ssl.SSLContext, server_name: str | None) -> Self | None:
        """Parse http(s)://HOST[:PORT][/PREFIX]. Return None for any other form of URL."""
        parts = urllib.parse.urlsplit(url)
        secure = parts.scheme == "https"
        if not parts.hostname or parts.username or not (secure or parts.scheme == "http"):
            return None
        return cls(
            host=parts.hostname,
            port=parts.port or (443 if secure else 80),
            authority=parts.netloc,
            prefix=parts.path,
            context=context if secure else None,
            server_name=(server_name or parts.hostname) if secure else None,
        )


class HttpPool:
    """A pool of connections. The most recently used connection is used first."""

    def __init__(
        self, address: Address, *, most: int, connect_seconds: float, keep_alive_seconds: float
    ) -> None:
        self._address = address
        self._slots = asyncio.Semaphore(most)
        self._connect_seconds = connect_seconds
        self._keep_alive_seconds = keep_alive_seconds
        self._all: dict[PooledConnection, None] = {}
        """In the order in which they were opened, in which they are closed, too."""
        self._idle: list[PooledConnection] = []
        self._sweep: asyncio.TimerHandle | None = None

    async def send(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        may_send: Callable[[], bool] | None,
    ) -> Answer:
        """Send a request and return the answer.

        `may_send` is asked once a connection is free. When `may_send` returns False, no byte is
        sent and send_guard.NotSentError is raised. Raises OSError and TimeoutError.
        """
        request = self._head(method, path, headers, len(body)) + body
        async with self._slots:
            connection = self._pop_idle() or await self._open()
            reusable = True
            try:
                if may_send is not None and not may_send():
                    raise NotSentError
                reusable = False
                answer = await connection.send(request)
                reusable = answer.reusable
            finally:
                self._give_back(connection, reusable=reusable)
        return answer

    def use(self, context: ssl.SSLContext) -> None:
        """Set the TLS context of new connections.

        Connections with an older context carry no further requests.
        """
        if self._address.context is not None and self._address.context is not context:
            self._address = replace(self._address, context=context)
            self.drop_idle()

    def drop_idle(self) -> None:
        """Close all idle connections, because they may be dead."""
        for connection in self._idle:
            connection.drop()
        self._idle.clear()

    def close(self) -> None:
        """Close all connections; requests in progress fail."""
        for connection in list(self._all):
            connection.drop()
        self._idle.clear()
        if self._sweep is not None:
            self._sweep.cancel()

    def _head(self, method: str, path: str, headers: dict[str, str], length: int) -> bytes:
        lines = [f"{method} {self._address.prefix}{path} HTTP/1.1"]
        lines.append(f"Host: {self._address.authority}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append(f"Content-Length: {length}")
        assert " " not in path, "paths are encoded"
        if not all(map(str.isprintable, lines)):
            raise ConnectionBrokenError("a control character in a request's headers")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _pop_idle(self) -> "PooledConnection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                return connection
        return None

    async def _open(self) -> "PooledConnection":
        loop, at = asyncio.get_running_loop(), self._address
        async with asyncio.timeout(self._connect_seconds):
            _, connection = await loop.create_connection(
                lambda: PooledConnection(loop, self._forget, at.context),
                at.host,
                at.port,
                ssl=at.context,
                server_hostname=at.server_name,
            )
        self._all[connection] = None
        return connection

    def _forget(self, connection: "PooledConnection") -> None:
        self._all.pop(connection, None)

    def _give_back(self, connection: "PooledConnection", *, reusable: bool) -> None:
        if not (reusable and connection.open and connection.context is self._address.context):
            connection.drop()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(self._keep_alive_seconds, self._drop_unused)

    def _drop_unused(self) -> None:
        """Close connections idle for longer than the keep-alive time, and plan the next sweep."""
        loop = asyncio.get_running_loop()
        limit = loop.time() - self._keep_alive_seconds
        unused = [each for each in self._idle if each.idle_since <= limit]
        self._idle = [each for each in self._idle if each.idle_since > limit and each.open]
        for connection in unused:
            connection.drop()
        self._sweep = None
        if self._idle:
            due = self._idle[0].idle_since + self._keep_alive_seconds
            self._sweep = loop.call_at(due, self._drop_unused)


class PooledConnection(asyncio.Protocol):
    """A connection of the pool."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_end: Callable[["PooledConnection"], None],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._loop = loop
        self._on_end = on_end
        self.context = context
        """The TLS context of the connection."""
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._retry_after: str | None = None
        self._bytes_left = 0
        """How many more bytes the answer may have."""
        self._headers = 0
        self.idle_since = 0.0

    @property
    def open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, request: bytes) -> Answer:
        """Send a request and wait for the answer."""
        assert self._waiting is None, "one at a time"
        if self._transport is None:
            raise ConnectionBrokenError("the connection is closed")
        self._waiting = self._loop.create_future()
        self._bytes_left, self._headers = responses.HEADERS_MAX_BYTES, 0
        self._transport.write(request)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def drop(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is established."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass
        opened = transport.get_extra_info("socket")
        if opened is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            milliseconds = round(UNACKNOWLEDGED_SECONDS * 1000)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection ended. A waiting request fails."""
        self._transport = None
        self._on_end(self)
        why = "the server has closed the connection" if exc is None else str(exc)
        self._fail(ConnectionBrokenError(why))

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of an answer arrived, or unexpected bytes, which end the connection."""
        if self._waiting is None or self._waiting.done():
            self.drop()
            return
        self._bytes_left -= len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.drop()
            self._fail(ConnectionBrokenError(f"not an answer: {error}"))
        if self._over_limits():
            self.drop()
            self._fail(TooLargeError("an answer beyond its bounds"))

    def on_message_begin(self) -> None:
        """httptools: an answer begins. A second answer to the same request ends the connection."""
        self._body.clear()
        self._retry_after = None
        if self._waiting is None or self._waiting.done():
            self.drop()

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: a header was parsed."""
        self._headers += 1
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """httptools: all headers were parsed."""
        if self._parser.get_status_code() >= FINAL:
            self._bytes_left += responses.WRITTEN_MAX_BYTES

    def on_body(self, body: bytes) -> None:
        """httptools: a part of the body was parsed."""
        self._body += body

    def on_message_complete(self) -> None:
        """httptools: the answer is complete."""
        status = self._parser.get_status_code()
        if status < FINAL or self._waiting is None or self._waiting.done() or self._over_limits():
            return
        self._waiting.set_result(
            Answer(
                status=status,
                body=bytes(self._body),
                retry_after=self._retry_after,
                reusable=self._parser.should_keep_alive(),
            )
        )

    def _over_limits(self) -> bool:
        """Whether the answer exceeds the limits on size or number of headers."""
        return self._bytes_left < 0 or self._headers > responses.HEADERS_MAX

    def _fail(self, error: ConnectionError) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
