"""Bounds on connections: their number, and how long one may take.

aiohttp limits the sizes of headers and bodies, but waits for the first header for ever, and for a
reader who doesn't read. A Guard stands between a transport and aiohttp's protocol.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import cast

CONNECTIONS_MAX = 256
PER_ADDRESS_MAX = 128
"""Behind a proxy all visitors have one address."""

FIRST_REQUEST_SECONDS = 10.0
"""How long after its start a connection must have sent a request."""

REQUEST_SECONDS = 30.0
"""How long after a request its answer must have been read, and the next request have come."""


class Limits:
    """Knows the connections, and bounds their number."""

    def __init__(self) -> None:
        self._open: set[asyncio.Transport] = set()
        self._by_address: Counter[str] = Counter()
        self._ended = False
        self._nobody = asyncio.Event()
        self._nobody.set()

    def enter(self, address: str, transport: asyncio.Transport) -> bool:
        """Count a connection, unless there are too many."""
        mine = self._by_address[address]
        if self._ended or len(self._open) >= CONNECTIONS_MAX or mine >= PER_ADDRESS_MAX:
            return False
        self._open.add(transport)
        self._by_address[address] += 1
        self._nobody.clear()
        return True

    def leave(self, address: str, transport: asyncio.Transport) -> None:
        """Count the end of a connection."""
        self._open.remove(transport)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        if not self._open:
            self._nobody.set()

    async def abort(self) -> None:
        """End all connections, whatever they still had to send, and allow no more."""
        self._ended = True
        for each in tuple(self._open):
            each.abort()
        await self._nobody.wait()


class Guard(asyncio.Protocol):
    """Aborts a connection that takes too long, or is one too many."""

    def __init__(self, serve: Callable[[], asyncio.Protocol], limits: Limits) -> None:
        self._serve = serve
        self._limits = limits
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.address = ""

    def begin(self, seconds: float | None = REQUEST_SECONDS) -> None:
        """Set how long the connection may go on from now; None: no limit, for streams."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None and self._transport is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(seconds, self._transport.abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: a connection was accepted."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        if not self._limits.enter(self.address, self._transport):
            self._transport.abort()
            return
        self._inner = self._serve()
        self.begin(FIRST_REQUEST_SECONDS)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection has ended."""
        self.begin(None)
        transport, self._transport = self._transport, None
        inner, self._inner = self._inner, None
        if inner is not None and transport is not None:
            self._limits.leave(self.address, transport)
            inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of a request."""
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """asyncio: the visitor sends nothing more."""
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        """asyncio: the visitor reads too slowly."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """asyncio: the visitor has read."""
        if self._inner is not None:
            self._inner.resume_writing()
