"""Keep-alive connections for writes: HTTP/1.1, one request at a time on each.

There is a bind and an event for every pod, and aiohttp takes more time for one than all else that
the daemon does about the pod. Streams, lists, and whatever goes through a proxy are aiohttp's.
"""

import asyncio
import ssl
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, cast

import httptools

from vscheduler.cluster.http import responses, send_guard

FINAL = 200
"""Statuses below it come before an answer."""


class ConnectionBrokenError(ConnectionError):
    """The connection ended without an answer, or what came is none: the request may be done."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes
    retry_after: str | None = None
    reusable: bool = False
    """Whether another request may follow on its connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the API server is."""

    host: str
    port: int
    authority: str
    """What the Host header says."""
    prefix: str
    """What all paths begin with."""
    context: ssl.SSLContext | None
    server_name: str | None

    @classmethod
    def of(cls, url: str, context: ssl.SSLContext, server_name: str | None) -> Self | None:
        """Of http://HOST[:PORT][/PREFIX], or https; None where there is more to it."""
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
    """The connections; the one that was used last is used first."""

    def __init__(
        self, address: Address, *, most: int, connect_seconds: float, keep_alive_seconds: float
    ) -> None:
        self._address = address
        self._room = asyncio.Semaphore(most)
        self._connect_seconds = connect_seconds
        self._keep_alive_seconds = keep_alive_seconds
        self._all: set[PooledConnection] = set()
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
        """Send a request; its answer.

        Whether it may be sent is asked when there is a connection; without leave not a byte is,
        and this is a send_guard.NotSentError. Raises OSError and TimeoutError.
        """
        request = self._head(method, path, headers, len(body)) + body
        async with self._room:
            channel = self._taken() or await self._open()
            reusable = True
            try:
                if may_send is not None and not may_send():
                    raise send_guard.NotSentError
                reusable = False
                answer = await channel.send(request)
                reusable = answer.reusable
            finally:
                self._give_back(channel, reusable=reusable)
        return answer

    def use(self, context: ssl.SSLContext) -> None:
        """From now on connect so; connections that were made in another way carry nothing more."""
        if self._address.context is not None and self._address.context is not context:
            self._address = replace(self._address, context=context)
            self.drop_idle()

    def drop_idle(self) -> None:
        """Connections that carry nothing now, and may be dead, aren't used again."""
        for channel in self._idle:
            channel.drop()
        self._idle.clear()

    def close(self) -> None:
        """Drop all of them; requests under way fail."""
        for channel in list(self._all):
            channel.drop()
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

    def _taken(self) -> "PooledConnection | None":
        while self._idle:
            channel = self._idle.pop()
            if channel.open:
                return channel
        return None

    async def _open(self) -> "PooledConnection":
        loop, at = asyncio.get_running_loop(), self._address
        async with asyncio.timeout(self._connect_seconds):
            _, channel = await loop.create_connection(
                lambda: PooledConnection(loop, self._all.discard, at.context),
                at.host,
                at.port,
                ssl=at.context,
                server_hostname=at.server_name,
            )
        self._all.add(channel)
        return channel

    def _give_back(self, channel: "PooledConnection", *, reusable: bool) -> None:
        if not (reusable and channel.open and channel.context is self._address.context):
            channel.drop()
            return
        loop = asyncio.get_running_loop()
        channel.idle_since = loop.time()
        self._idle.append(channel)
        if self._sweep is None:
            self._sweep = loop.call_later(self._keep_alive_seconds, self._drop_unused)

    def _drop_unused(self) -> None:
        """Close those that nobody has needed for long, and look again while there are others."""
        loop = asyncio.get_running_loop()
        limit = loop.time() - self._keep_alive_seconds
        unused = [each for each in self._idle if each.idle_since <= limit]
        self._idle = [each for each in self._idle if each.idle_since > limit and each.open]
        for channel in unused:
            channel.drop()
        self._sweep = None
        if self._idle:
            due = self._idle[0].idle_since + self._keep_alive_seconds
            self._sweep = loop.call_at(due, self._drop_unused)


class PooledConnection(asyncio.Protocol):
    """One connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_end: Callable[["PooledConnection"], None],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._loop = loop
        self._on_end = on_end
        self.context = context
        """How it was connected."""
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._retry_after: str | None = None
        self._left = 0
        """How many more bytes may come."""
        self._headers = 0
        self.idle_since = 0.0

    @property
    def open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, request: bytes) -> Answer:
        """Send a request, and wait for its answer."""
        assert self._waiting is None, "one at a time"
        if self._transport is None:
            raise ConnectionBrokenError("the connection is closed")
        self._waiting = self._loop.create_future()
        self._left, self._headers = responses.HEADERS_MAX_BYTES, 0
        self._transport.write(request)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def drop(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's isn't one by its class

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended: an answer that isn't whole never will be."""
        self._transport = None
        self._on_end(self)
        why = "the server has closed the connection" if exc is None else str(exc)
        self._fail(ConnectionBrokenError(why))

    def data_received(self, data: bytes) -> None:
        """A piece of an answer; what nobody has asked for ends the connection."""
        if self._waiting is None or self._waiting.done():
            self.drop()
            return
        self._left -= len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.drop()
            self._fail(ConnectionBrokenError(f"not an answer: {error}"))
        if self._beyond():
            self.drop()
            self._fail(responses.TooLargeError("an answer beyond its bounds"))

    def on_message_begin(self) -> None:
        """httptools: an answer, or what comes before it. More than one ends the connection."""
        self._body.clear()
        self._retry_after = None
        if self._waiting is None or self._waiting.done():
            self.drop()

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: one of its headers."""
        self._headers += 1
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """httptools: those were all."""
        if self._parser.get_status_code() >= FINAL:
            self._left += responses.WRITTEN_MAX_BYTES

    def on_body(self, body: bytes) -> None:
        """httptools: a piece of its body."""
        self._body += body

    def on_message_complete(self) -> None:
        """httptools: it is whole."""
        status = self._parser.get_status_code()
        if status < FINAL or self._waiting is None or self._waiting.done() or self._beyond():
            return
        self._waiting.set_result(
            Answer(
                status=status,
                body=bytes(self._body),
                retry_after=self._retry_after,
                reusable=self._parser.should_keep_alive(),
            )
        )

    def _beyond(self) -> bool:
        """Whether it is more than an answer may be."""
        return self._left < 0 or self._headers > responses.HEADERS_MAX

    def _fail(self, error: ConnectionError) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
