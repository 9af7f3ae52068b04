"""Makes views while somebody looks: at most one a second, and never for a tenth of the time."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from vscheduler.containment import Failures
from vscheduler.web.cluster_view import Look, View, ViewMaker

LEAST_SECONDS = 1.0
"""The least time between two views."""

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
    ) -> None:
        self._look = look
        self._maker = maker
        self._failures = failures
        self._lock = asyncio.Lock()
        self._due_at = 0.0

    @property
    def latest(self) -> View:
        """The last view, however old."""
        return self._maker.view

    async def view(self) -> View:
        """Return a view that is as new as may be. Of several callers at once, one makes it."""
        if time.monotonic() >= self._due_at:
            async with self._lock:
                if time.monotonic() >= self._due_at:
                    await self._make()
        return self._maker.view

    async def _make(self) -> None:
        pause = AGAIN_SECONDS
        with self._failures.contained("web", "view"):
            look = await self._look()
            began = time.thread_time()
            self._maker.make(look)
            pause = max(LEAST_SECONDS, REST * (time.thread_time() - began))
        self._due_at = time.monotonic() + pause
