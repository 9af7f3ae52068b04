"""Work queue for all writes to the API server: priorities, concurrency limit and coalescing.

Calls are made in order of priority: binds, requests for volumes, evictions, controllers' calls,
statuses, events. All workers share the connections, and fewer workers are active while the API
server is too busy. Each worker takes the most urgent waiting call, so that reports about a bind
never delay another bind. Of the writes that report a state, only the newest waits for each object,
with a minimum interval between two writes.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from enum import IntEnum
from functools import partial

from vscheduler.backoff import Growth
from vscheduler.cluster.cooperative import CooperativeYield
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes.concurrency_limit import ConcurrencyLimit
from vscheduler.containment import Failures

Call = Callable[[], Awaitable[None]]
"""A call to make. The call handles its own errors; an unexpected exception is logged and ends only
this call. pool.NotSentError means that the call is no longer permitted."""


class WritePriority(IntEnum):
    """Priorities of calls, most urgent first."""

    BIND = 0
    CLAIM = 1
    """Requests for volumes, without which pods cannot be bound."""
    EVICTION = 2
    CONTROL = 3
    """Calls of the controllers: a pod without its PodGroup cannot be placed."""
    STATUS = 4
    CONDITION = 5
    EVENT = 6


NAMES = tuple(priority.name.lower() for priority in WritePriority)
"""Name of each priority in logs."""

UNBOUNDED = (
    *(WritePriority.BIND, WritePriority.CLAIM, WritePriority.EVICTION, WritePriority.CONTROL),
)
"""Priorities whose calls are always accepted: there are never more than pods and their claims."""

REPORTS_FEW = 16
REPORTS_WAITING = 8
"""How many statuses, conditions and events may be in progress: REPORTS_FEW, or more while
REPORTS_WAITING times as many wait. Each call at once needs a connection, and opening one costs both
sides as much CPU as several calls."""

PAUSES_MAX = 64
"""Longest pause of a key whose writes keep failing unexpectedly, as a multiple of the spacing."""


QUIET_SECONDS = 0.5
"""How long without a new bind counts as quiet."""

QUIET_MAX_SECONDS = 15.0
"""How long a write that tells nobody anything new waits for quiet at most. Pods that end sooner
cost a write less."""

REFUSED_SECONDS = 30.0
"""Pause after a refusal for want of permission, which may be granted meanwhile."""


class WriteQueue:
    """Waiting calls, and the workers that make the calls. All run in one event loop."""

    def __init__(self, *, workers: int, waiting_max: int, failures: Failures | None = None) -> None:
        self.failures = failures or Failures()
        """Receives unexpected exceptions of calls."""
        self._workers = workers
        self._waiting_max = waiting_max
        self._waiting: tuple[deque[Call], ...] = tuple(deque() for _ in WritePriority)
        self._limit = ConcurrencyLimit(workers)
        self._idle: deque[asyncio.Future[None]] = deque()
        """A future for each worker without work, or beyond the concurrency limit."""
        self._call_taken = asyncio.Event()
        self._call_ended = asyncio.Event()
        """Both events are cleared right after being set: setting an event wakes the tasks in
        wait_for_room or wait_until_quiet."""
        self._under_way = [0 for _ in WritePriority]
        self._reports_under_way = 0
        self._all_under_way = 0
        self.steps = 0
        """Number of calls that ended, with any result."""
        self._yielder = CooperativeYield()
        self._bind_put_at = float("-inf")

    @property
    def is_quiet(self) -> bool:
        """Whether no bind waits or is in progress, and none was added for QUIET_SECONDS."""
        if self._waiting[WritePriority.BIND] or self._under_way[WritePriority.BIND]:
            return False
        return time.monotonic() - self._bind_put_at >= QUIET_SECONDS

    def put(self, priority: WritePriority, call: Call, *, ahead: bool = False) -> bool:
        """Add a call; `ahead` of all waiting calls of its priority if it continues another one.

        Return False, and drop the call, when too many calls of this priority wait.
        """
        waiting = self._waiting[priority]
        if priority not in UNBOUNDED and len(waiting) >= self._waiting_max:
            return False
        if ahead:
            waiting.appendleft(call)
        else:
            waiting.append(call)
        if priority is WritePriority.BIND:
            self._bind_put_at = time.monotonic()
        self._wake()
        return True

    @property
    def busy(self) -> bool:
        """Whether any call waits or is in progress. Safe to call from any thread."""
        return any(self._waiting) or any(self._under_way)

    def throttled(self) -> None:
        """Lower the concurrency limit after a 429 of the API server."""
        self._limit.throttled()

    async def wait_for_room(self, priority: WritePriority, most: int) -> None:
        """Wait until at most this many calls of the priority are waiting."""
        while len(self._waiting[priority]) > most:
            await self._call_taken.wait()

    async def wait_until_quiet(self, last: WritePriority = WritePriority.EVENT) -> None:
        """Wait until no call of this priority, or of a more urgent one, waits or is in progress."""
        while any(
            self._waiting[priority] or self._under_way[priority]
            for priority in WritePriority
            if priority <= last
        ):
            await self._call_ended.wait()

    async def run(self) -> None:
        """Make calls for ever."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"commit {number}")

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._yielder.give_way()
            while (priority := self._next()) is None:
                self._idle.append(idle := loop.create_future())
                await idle
            call = self._waiting[priority].popleft()
            self._call_taken.set()
            self._call_taken.clear()
            self._count(priority, 1)
            self._wake()
            try:
                # A call that is no longer permitted needs no retry.
                with (
                    self.failures.contained("call", NAMES[priority]),
                    suppress(NotSentError),
                ):
                    await call()
            finally:
                self._count(priority, -1)
                self.steps += 1
                self._limit.answered()
                self._call_ended.set()
                self._call_ended.clear()

    def _next(self) -> int | None:
        """Return the priority of the call to make next; None while none waits or may start."""
        if self._all_under_way >= self._limit.size:
            return None
        for priority, waiting in enumerate(self._waiting):
            if waiting:
                may_start = priority < WritePriority.STATUS or self._may_report()
                return priority if may_start else None
        return None

    def _may_report(self) -> bool:
        """Whether one more status, condition or event may be sent meanwhile."""
        if self._reports_under_way < REPORTS_FEW:
            return True
        waiting = sum(map(len, self._waiting[WritePriority.STATUS :]))
        return self._reports_under_way < waiting // REPORTS_WAITING

    def _count(self, priority: int, step: int) -> None:
        """Count a call that begins or ends."""
        self._under_way[priority] += step
        self._all_under_way += step
        if priority >= WritePriority.STATUS:
            self._reports_under_way += step

    def _wake(self) -> None:
        """Wake an idle worker, if a call waits that may start."""
        while self._idle and self._next() is not None:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return


class CoalescingQueue:
    """Writes that report a state, by key (for example, the status of a PodGroup).

    Only the newest of each key waits. A waiting write is replaced by a newer write of the same key.
    After each write, the key pauses for `spacing_seconds`, so that a counter raised twenty times in
    a row is written once or twice. A write that isn't permitted (pool.NotSentError) waits and
    tries again until `stop`: a leader that pauses for a few seconds must not lose the write.
    """

    def __init__(
        self, queue: WriteQueue, priority: WritePriority, *, spacing_seconds: float
    ) -> None:
        self._write_queue = queue
        self._priority = priority
        self._spacing = Growth(
            first_seconds=spacing_seconds, longest_seconds=PAUSES_MAX * spacing_seconds
        )
        self._waiting: dict[Hashable, Call] = {}
        self._busy: set[Hashable] = set()
        """Keys that wait for a worker, are being written, or pause."""
        self._failures: dict[Hashable, int] = {}
        """How often in a row a key's write raised an unexpected exception, or wasn't permitted."""
        self._refused: dict[Hashable, Call] = {}
        """Writes refused for want of permission, until a newer write of the key."""
        self._patient: dict[Hashable, float] = {}
        """Until when, by time.monotonic(), the writes of these keys let binds go first."""
        self._resting: set[Hashable] = set()
        """Those whose pause is over, but that still let binds go first."""
        self._stopped = False

    def offer(self, key: Hashable, write: Call) -> None:
        """Write as soon as the key's pause permits."""
        self._refused.pop(key, None)
        self._waiting[key] = write
        self._enqueue(key)

    def offer_later(self, key: Hashable, write: Call) -> None:
        """Write after a pause of the key, unless a newer write replaces this write by then."""
        self._refused.pop(key, None)
        self._waiting[key] = write
        if key not in self._busy:
            self._busy.add(key)
            self._pause(key)

    def offer_when_quiet(self, key: Hashable, write: Call) -> None:
        """Write once no bind was added for QUIET_SECONDS, at the latest after QUIET_MAX_SECONDS.

        For a state that tells nobody anything new. Newer writes of the key wait, too.
        """
        self._patient.setdefault(key, time.monotonic() + QUIET_MAX_SECONDS)
        self.offer_later(key, write)

    def offer_again(self, key: Hashable, write: Call) -> None:
        """Write after the key's pause, unless a newer write is already waiting."""
        self._waiting.setdefault(key, write)

    def offer_after_refusal(self, key: Hashable, write: Call) -> None:
        """Write after REFUSED_SECONDS, unless a newer write waits or is offered by then.

        Credentials and permissions may be missing for a short time only; without another attempt,
        the stored state would stay wrong until the next change.
        """
        if not self._stopped and key not in self._waiting:
            self._refused[key] = write
            asyncio.get_running_loop().call_later(REFUSED_SECONDS, self._offer_refused, key, write)

    def stop(self) -> None:
        """Drop all waiting writes, and retry none from now on."""
        self._stopped = True
        self._patient.clear()
        self._waiting.clear()
        self._refused.clear()

    def is_busy(self, key: Hashable) -> bool:
        """Whether a write of the key waits, is under way, or was refused for now.

        Then the stored state may still change, so a caller that wants the state as it was last
        written must offer it once more. True also while the key pauses.
        """
        return key in self._busy or key in self._waiting or key in self._refused

    def withdraw(self, key: Hashable) -> None:
        """Drop the key's waiting write."""
        self._waiting.pop(key, None)
        self._refused.pop(key, None)
        self._failures.pop(key, None)

    def _offer_refused(self, key: Hashable, write: Call) -> None:
        if self._refused.get(key) is write:
            self.offer(key, write)

    def _enqueue(self, key: Hashable) -> None:
        # When the queue is full, the key tries again after its pause.
        if key in self._busy:
            return
        self._busy.add(key)
        if not self._write_queue.put(self._priority, partial(self._write, key)):
            self._pause(key)

    async def _write(self, key: Hashable) -> None:
        write = self._waiting.pop(key, None)
        if write is None:
            self._busy.discard(key)
            self._patient.pop(key, None)
            return
        piece = self._write_queue.failures.contained("write", str(key))
        withheld = False
        try:
            with piece:
                try:
                    await write()
                except NotSentError:
                    withheld = True
        finally:
            if (piece.failed or withheld) and not self._stopped:
                self._failures[key] = self._failures.get(key, 0) + 1
                self._waiting.setdefault(key, write)
            else:
                self._failures.pop(key, None)
            self._pause(key)

    def _pause(self, key: Hashable) -> None:
        seconds = self._spacing.after(self._failures.get(key, 0) + 1)
        asyncio.get_running_loop().call_later(seconds, self._resume, key)

    def _resume(self, key: Hashable) -> None:
        if key in self._patient and not self._write_queue.is_quiet:
            if not self._resting:
                asyncio.get_running_loop().call_later(QUIET_SECONDS, self._end_rests)
            self._resting.add(key)
            return
        self._patient.pop(key, None)
        self._busy.discard(key)
        if key in self._waiting:
            self._enqueue(key)

    def _end_rests(self) -> None:
        """Let writes go on that have let binds go first: all of them, or those that may wait no
        longer. One timer is for all keys, of which there may be thousands.
        """
        now, resting = time.monotonic(), self._resting
        self._resting = set()
        for key in resting:
            if self._patient.get(key, now) <= now:
                self._patient.pop(key, None)
            self._resume(key)
