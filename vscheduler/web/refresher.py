"""Makes views while somebody looks: at most one a second, and never for a tenth of the time.

A cycle is shown at once if the view before had no news.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from vscheduler.containment import Failures
from vscheduler.web.cluster_view import Look, View, ViewMaker

LEAST_SECONDS = 1.0
"""The least time between two views with news, and the longest without looking for any."""

REST = 9.0
"""How many times as long as a view took no other is made: cycles share the interpreter with it."""

AGAIN_SECONDS = 5.0
"""The pause after a failure."""


class Refresher:
    """The latest view. Only the event loop of the page uses it."""

    def __init__(
        self,
        look: Callable[[], Awaitable[Look]],
        maker: ViewMaker,
        failures: Failures,
        version: Callable[[], object],
    ) -> None:
        """`version` is another one after each cycle and decision; it is asked for often."""
        self._look = look
        self._maker = maker
        self._failures = failures
        self._lock = asyncio.Lock()
        self._version = version
        self._seen: object = None
        self._rested_at = 0.0
        """Since when a view may be made if there is news."""
        self._due_at = 0.0
        """Since when one is made in any case."""

    @property
    def latest(self) -> View:
        """The last view, however old."""
        return self._maker.view

    async def view(self) -> View:
        """Return a view that is as new as may be. Of several callers at once, one makes it."""
        if self._due():
            async with self._lock:
                if self._due():
                    await self._make()
        return self._maker.view

    def _due(self) -> bool:
        now = time.monotonic()
        return now >= self._due_at or (now >= self._rested_at and self._version() != self._seen)

    async def _make(self) -> None:
        rest = pause = AGAIN_SECONDS
        with self._failures.contained("web", "view"):
            before, self._seen = self._seen, self._version()
            look = await self._look()
            began = time.thread_time()
            self._maker.make(look)
            pause = max(LEAST_SECONDS, REST * (time.thread_time() - began))
            rest = 0.0 if self._seen == before else pause
        now = time.monotonic()
        self._rested_at, self._due_at = now + rest, now + pause
