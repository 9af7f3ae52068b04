"""Server-sent events: which sections of the page have changed.

A stream carries numbers of versions only, and the page asks for what it shows. So a slow reader
gets the latest numbers when it reads again, and nothing piles up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from aiohttp import web

from vscheduler.web import cluster_view, documents
from vscheduler.web.access import ReviewError, TooOftenError, UnknownTokenError
from vscheduler.web.allowances import Allowance, Holders
from vscheduler.web.documents import Access

STREAMS = Allowance(visitor=8, tenant=24, everybody=100)
TICK_SECONDS = 1.0
BEAT_SECONDS = 15.0
"""How often a stream says something at least, so that dead connections are found."""

WRITE_SECONDS = 10.0
"""How long a reader may keep the server from writing."""

View = Callable[[Access], Awaitable[cluster_view.View]]
"""Returns the latest view, with the versions of a visitor."""

Authorize = Callable[[], Awaitable[Access]]


class Streams:
    """All open streams."""

    def __init__(self) -> None:
        self._closing = asyncio.Event()
        self._holders = Holders(STREAMS)

    @property
    def count(self) -> int:
        """How many streams are open."""
        return self._holders.count

    def close(self) -> None:
        """End all streams at once."""
        self._closing.set()

    @contextmanager
    def entered(self, visitor: str) -> Iterator[None]:
        """Count a stream during the block. Raises allowances.TooManyError."""
        self._holders.take(visitor)
        try:
            yield
        finally:
            self._holders.give_back(visitor)

    async def serve(self, response: web.StreamResponse, view: View, authorize: Authorize) -> None:
        """Send versions whenever they change, until the visitor leaves or loses the right to look.

        `authorize` returns what the visitor may see at that moment; its errors end the stream, with
        a sentence.
        """
        sent: dict[str, int] = {}
        before: Access | None = None
        rights, quiet = 0, 0.0
        while not self._closing.is_set():
            try:
                now = await authorize()
            except UnknownTokenError:
                await _send(response, "end", {"message": "Your token isn't valid any more."})
                return
            except (ReviewError, TooOftenError) as error:
                await _send(response, "pause", {"message": str(error)})
                return
            rights += before is not None and now != before
            before = now
            versions = {**documents.versions(await view(now)), "access": rights}
            quiet += TICK_SECONDS
            if versions != sent:
                await _send(response, "versions", versions)
                sent, quiet = versions, 0.0
            elif quiet >= BEAT_SECONDS:
                await _write(response, b": still here\n\n")
                quiet = 0.0
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), TICK_SECONDS)
        await _send(response, "pause", {"message": "This instance of the scheduler ends."})


async def _send(response: web.StreamResponse, event: str, data: dict[str, Any]) -> None:
    text = msgspec.json.encode(data)
    await _write(response, b"event: %s\ndata: %s\n\n" % (event.encode(), text))


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(data)
