"""The work queue of all writes: who goes first, how many at once, and how often for one object.

Who goes first to the API server: binds, evictions, what controllers do, statuses, events. Workers
share the connections, fewer of them while the API server is too busy; each takes the most urgent
call that waits, so that what is only said about a bind never delays one. Of writes that say how
things are only the newest waits for each object, and not too often.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from enum import IntEnum
from functools import partial

from vscheduler import backoff, containment
from vscheduler.cluster.http import send_guard
from vscheduler.cluster.writes import cooperative

Call = Callable[[], Awaitable[None]]
"""One call; what comes of it is its own business, and what it raises ends nothing but itself.
send_guard.NotSentError says that it isn't sent any more."""


class WritePriority(IntEnum):
    """Kinds of calls, most urgent first."""

    BIND = 0
    EVICTION = 1
    CONTROL = 2
    """Controllers' calls: without its PodGroup nobody places a pod."""
    STATUS = 3
    CONDITION = 4
    EVENT = 5


NAMES = tuple(lane.name.lower() for lane in WritePriority)
"""What calls of each lane are called in logs."""

UNBOUNDED = (WritePriority.BIND, WritePriority.EVICTION, WritePriority.CONTROL)
"""Always taken: there are no more of them than pods."""

CALLS_MIN = 8
"""Never fewer, so that a few calls that are stuck don't hold up all others."""

LIMIT_SHRINK = 0.75

RESTS_MAX = 64
"""How many rests the longest is, while a key's writes raise what nobody expects."""


class WriteQueue:
    """Calls that wait, and the workers that make them; all in one event loop."""

    def __init__(
        self, *, workers: int, waiting_max: int, failures: containment.Failures | None = None
    ) -> None:
        self.failures = failures or containment.Failures()
        """Who is told of calls that raise, and of what goes wrong around them."""
        self._workers = workers
        self._waiting_max = waiting_max
        self._waiting: tuple[deque[Call], ...] = tuple(deque() for _ in WritePriority)
        self._limit = ConcurrencyLimit(workers)
        self._idle: deque[asyncio.Future[None]] = deque()
        """One for each worker that has nothing to do, or isn't to."""
        self._taken = asyncio.Event()
        self._done = asyncio.Event()
        """Neither stays set: setting them wakes those who wait for room, or for quiet."""
        self._under_way = [0 for _ in WritePriority]
        self.steps = 0
        """Calls that have ended, whatever came of them, and parts of those that are long."""
        self._turns = cooperative.CooperativeYield()

    def put(self, lane: WritePriority, call: Call) -> bool:
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
        self._limit.throttled()

    async def wait_for_room(self, lane: WritePriority, most: int) -> None:
        """Until no more than so many calls of this lane wait."""
        while len(self._waiting[lane]) > most:
            await self._taken.wait()

    async def wait_until_quiet(self, last: WritePriority = WritePriority.EVENT) -> None:
        """Until no call waits or is under way that is as urgent as this, or more."""
        while any(
            self._waiting[lane] or self._under_way[lane] for lane in WritePriority if lane <= last
        ):
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
                    suppress(send_guard.NotSentError),
                ):
                    await call()
            finally:
                self._under_way[lane] -= 1
                self.steps += 1
                self._limit.answered()
                self._done.set()
                self._done.clear()

    def _may_start(self) -> bool:
        return sum(self._under_way) < self._limit.size

    def _wake(self) -> None:
        """Let one more worker look for a call."""
        while self._idle and self._may_start():
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return


class ConcurrencyLimit:
    """How many calls are under way at once: all workers' calls, fewer while the API server is too
    busy (429).

    Additive increase, multiplicative decrease, as in TCP: the limit grows by one after each round,
    one answer for each call that may be under way. Latency isn't a sign: on two busy cores 8, 16
    and 64 binds at once made as many a second, and fewer at once made the client's own work dearer.
    """

    def __init__(self, most: int) -> None:
        self._most = self._size = most
        self._least = min(CALLS_MIN, most)
        self._answers = 0
        """Of this round."""
        self._stale = 0
        """Answers to come to calls that were made when the window was wider."""

    @property
    def size(self) -> int:
        """How many calls may be under way."""
        return self._size

    def answered(self) -> None:
        """A call has ended."""
        if self._stale:
            self._stale -= 1
            return
        self._answers += 1
        if self._answers >= self._size:
            self._answers = 0
            self._size = min(self._most, self._size + 1)

    def throttled(self) -> None:
        """The server was too busy; what it says to calls of the same moment counts once."""
        if self._stale or self._size == self._least:
            return
        self._stale = self._size
        self._answers = 0
        self._size = max(self._least, int(self._size * LIMIT_SHRINK))


class CoalescingQueue:
    """Writes that say how things are, by key (say, one PodGroup's status): the newest of each.

    A write that waits is replaced by a newer one of its key. After a write the key rests for
    `spacing_seconds`, so that a count that goes up by one twenty times is written once or twice.
    """

    def __init__(self, queue: WriteQueue, lane: WritePriority, *, spacing_seconds: float) -> None:
        self._lanes = queue
        self._lane = lane
        self._rests = backoff.Growth(
            first_seconds=spacing_seconds, longest_seconds=RESTS_MAX * spacing_seconds
        )
        self._waiting: dict[Hashable, Call] = {}
        self._busy: set[Hashable] = set()
        """Keys in their lane, under way, or at rest."""
        self._failures: dict[Hashable, int] = {}
        """How often in a row a key's write has raised."""

    def offer(self, key: Hashable, write: Call) -> None:
        """Write this as soon as it is the key's turn."""
        self._waiting[key] = write
        self._queue(key)

    def offer_later(self, key: Hashable, write: Call) -> None:
        """Write this after a rest of the key, unless something newer is to be written by then."""
        self._waiting[key] = write
        if key not in self._busy:
            self._busy.add(key)
            self._rest(key)

    def offer_again(self, key: Hashable, write: Call) -> None:
        """Write this after the key's rest, unless something newer waits."""
        self._waiting.setdefault(key, write)

    def withdraw(self, key: Hashable) -> None:
        """There is nothing to write any more."""
        self._waiting.pop(key, None)
        self._failures.pop(key, None)

    def _queue(self, key: Hashable) -> None:
        # A lane that is full is tried again after the rest.
        if key in self._busy:
            return
        self._busy.add(key)
        if not self._lanes.put(self._lane, partial(self._write, key)):
            self._rest(key)

    async def _write(self, key: Hashable) -> None:
        write = self._waiting.pop(key, None)
        if write is None:
            self._busy.discard(key)
            return
        piece = self._lanes.failures.contained("write", str(key))
        try:
            with piece, suppress(send_guard.NotSentError):  # what isn't sent any more is over
                await write()
        finally:
            if piece.failed:
                self._failures[key] = self._failures.get(key, 0) + 1
                self._waiting.setdefault(key, write)
            else:
                self._failures.pop(key, None)
            self._rest(key)

    def _rest(self, key: Hashable) -> None:
        seconds = self._rests.after(self._failures.get(key, 0) + 1)
        asyncio.get_running_loop().call_later(seconds, self._rested, key)

    def _rested(self, key: Hashable) -> None:
        self._busy.discard(key)
        if key in self._waiting:
            self._queue(key)
