"""Who goes first to the API server: binds, evictions, what controllers do, statuses, events.

Workers share the connections, fewer of them while the API server is too busy; each takes the most
urgent call that waits, so that what is only said about a bind never delays one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import IntEnum

from vscheduler import containment
from vscheduler.cluster.http import send_guard
from vscheduler.cluster.writes import cooperative, windows

Call = Callable[[], Awaitable[None]]
"""One call; what comes of it is its own business, and what it raises ends nothing but itself.
guarding.WithheldError says that it isn't sent any more."""


class Lane(IntEnum):
    """Kinds of calls, most urgent first."""

    BIND = 0
    EVICTION = 1
    CONTROL = 2
    """Controllers' calls: without its PodGroup nobody places a pod."""
    STATUS = 3
    CONDITION = 4
    EVENT = 5


NAMES = tuple(lane.name.lower() for lane in Lane)
"""What calls of each lane are called in logs."""

UNBOUNDED = (Lane.BIND, Lane.EVICTION, Lane.CONTROL)
"""Always taken: there are no more of them than pods."""


class Lanes:
    """Calls that wait, and the workers that make them; all in one event loop."""

    def __init__(
        self, *, workers: int, waiting_max: int, failures: containment.Failures | None = None
    ) -> None:
        self.failures = failures or containment.Failures()
        """Who is told of calls that raise, and of what goes wrong around them."""
        self._workers = workers
        self._waiting_max = waiting_max
        self._waiting: tuple[deque[Call], ...] = tuple(deque() for _ in Lane)
        self._window = windows.Window(workers)
        self._idle: deque[asyncio.Future[None]] = deque()
        """One for each worker that has nothing to do, or isn't to."""
        self._taken = asyncio.Event()
        self._done = asyncio.Event()
        """Neither stays set: setting them wakes those who wait for room, or for quiet."""
        self._under_way = [0 for _ in Lane]
        self.steps = 0
        """Calls that have ended, whatever came of them, and parts of those that are long."""
        self._turns = cooperative.Turns()

    def put(self, lane: Lane, call: Call) -> bool:
        """Let a call wait for its turn; False, and it is dropped, where its lane is full."""
        waiting = self._waiting[lane]
        if lane not in UNBOUNDED and len(waiting) >= self._waiting_max:
            return False
        waiting.append(call)
        self._wake()
        return True

    @property
    def busy(self) -> bool:
        """Whether any call waits or is under way. Any thread may ask."""
        return any(self._waiting) or any(self._under_way)

    def went_on(self) -> None:
        """A call that is long has done a part."""
        self.steps += 1

    def throttled(self) -> None:
        """The API server was too busy: make fewer calls at once."""
        self._window.throttled()

    async def wait_for_room(self, lane: Lane, most: int) -> None:
        """Until no more than so many calls of this lane wait."""
        while len(self._waiting[lane]) > most:
            await self._taken.wait()

    async def wait_until_quiet(self, last: Lane = Lane.EVENT) -> None:
        """Until no call waits or is under way that is as urgent as this, or more."""
        while any(self._waiting[lane] or self._under_way[lane] for lane in Lane if lane <= last):
            await self._done.wait()

    async def run(self) -> None:
        """Make calls for ever."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"commit {number}")

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._turns.give_way()
            while not self._may_start() or not any(self._waiting):
                self._idle.append(idle := loop.create_future())
                await idle
            lane, waiting = next(each for each in enumerate(self._waiting) if each[1])
            call = waiting.popleft()
            self._taken.set()
            self._taken.clear()
            self._under_way[lane] += 1
            if any(self._waiting):
                self._wake()
            try:
                # What isn't sent any more is over.
                with (
                    self.failures.contained("call", NAMES[lane]),
                    suppress(send_guard.WithheldError),
                ):
                    await call()
            finally:
                self._under_way[lane] -= 1
                self.steps += 1
                self._window.answered()
                self._done.set()
                self._done.clear()

    def _may_start(self) -> bool:
        return sum(self._under_way) < self._window.size

    def _wake(self) -> None:
        """Let one more worker look for a call."""
        while self._idle and self._may_start():
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return
