"""Containment of unexpected failures: a failure is counted, logged and retried, and affects nothing
else.

An unexpected error about an object, a call or a task is a defect of this program or of a peer. The
error must not end the write queue, a watch, a controller or the process. Instead a metric is
counted, a line is logged, and an event is recorded on the object. BaseExceptions that aren't
Exceptions pass through, above all cancellation.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import msgspec
import structlog

from vscheduler import tracebacks
from vscheduler.backoff import Growth, Restarts
from vscheduler.mirror import statuses
from vscheduler.mirror.statuses import EventNotice, ObjectReference

log = structlog.get_logger(__name__)

LOG_SECONDS = 60.0
"""The first interval between two log lines about a work item; doubled each time."""

LOG_MAX_SECONDS = 3600.0

KEYS_MAX = 10_000
"""How many work items are remembered; beyond the limit all are logged again."""

LINES_MAX = 100
"""Log lines per minute, over all failures."""

RETRY_SECONDS = 1.0
"""The first pause before a task is restarted; each further pause is twice as long."""

RETRY_MAX_SECONDS = 60.0


def _ignore(_: object) -> None:
    pass


class _Throttle(msgspec.Struct):
    """When a work item was last logged."""

    next_at: float
    pause: float = LOG_SECONDS
    suppressed: int = 0
    """Failures since the last log line."""


class Failures:
    """Records unexpected failures. Threads may share an instance for failures without a subject."""

    def __init__(
        self,
        observe: Callable[[str], None] = _ignore,
        notify: Callable[[EventNotice], None] = _ignore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`observe` is called with the area of each failure, `notify` with an event about the
        object.
        """
        self._observe = observe
        self._notify = notify
        self._clock = clock
        self._throttles: dict[tuple[str, str], _Throttle] = {}
        self._places: set[tuple[str, int]] = set()
        """Code locations that were logged with a traceback."""
        self._minute = 0
        self._lines = 0

    def failed(
        self, area: str, key: str, error: Exception, subject: ObjectReference | None = None
    ) -> None:
        """Count a failure; log the first failure of a work item, and repeated ones less and less
        often.

        `area` is a fixed phrase, used as a metric label; `key` is the work item.
        """
        self._observe(area)
        now = self._clock()
        if len(self._throttles) >= KEYS_MAX:
            self._throttles.clear()
        throttle = self._throttles.get((area, key))
        if throttle is None or now > throttle.next_at + throttle.pause:
            throttle = self._throttles[area, key] = _Throttle(next_at=now)
        if now < throttle.next_at or not self._may_log(now):
            throttle.suppressed += 1
            return
        self._log(area, key, error, throttle.suppressed)
        throttle.next_at, throttle.suppressed = now + throttle.pause, 0
        throttle.pause = min(2 * throttle.pause, LOG_MAX_SECONDS)
        if subject is not None:
            self._notify(statuses.failure_notice(subject, area))

    def contained(self, area: str, key: str, subject: ObjectReference | None = None) -> "Contained":
        """Return a context that contains an Exception; the code after the block continues."""
        return Contained(self, area, key, subject)

    async def keep_on(
        self,
        area: str,
        work: Callable[[], Awaitable[None]],
        *,
        longest_seconds: float = RETRY_MAX_SECONDS,
        attempts_max: int = 0,
    ) -> None:
        """Run `work` until it returns; after a failure run it again, after a growing pause.

        Work that lasted longer than a minute starts over with the shortest pause. After
        `attempts_max` failures in a row (0: never) the last error is raised.
        """
        growth = Growth(first_seconds=RETRY_SECONDS, longest_seconds=longest_seconds)
        restarts = Restarts(growth, RETRY_MAX_SECONDS)
        while True:
            began = self._clock()
            try:
                return await work()
            except Exception as error:
                self.failed(area, area, error)
                pause = restarts.pause(self._clock() - began)
                if restarts.in_a_row == attempts_max:
                    raise
            await asyncio.sleep(pause)

    def _may_log(self, now: float) -> bool:
        """Whether another line may be logged in the present minute."""
        minute = int(now // 60)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        self._lines += 1
        return self._lines <= LINES_MAX

    def _log(self, area: str, key: str, error: Exception, suppressed: int) -> None:
        """Log a failure; the first failure at each code location includes a traceback.

        The traceback is rendered to text here: a foreign log renderer might print the values in
        frames.
        """
        place = tracebacks.place(error)
        way = {} if place in self._places else {"exception": tracebacks.shown(error)}
        self._places.add(place)
        log.error(
            "work.failed",
            area=area,
            object=key,
            message=tracebacks.said(error),
            failures_since=suppressed,
            **way,
        )


class Contained:
    """A block that may fail."""

    __slots__ = ("_area", "_failures", "_key", "_subject", "failed")

    def __init__(
        self, failures: Failures, area: str, key: str, subject: ObjectReference | None
    ) -> None:
        self._failures = failures
        self._area = area
        self._key = key
        self._subject = subject
        self.failed = False
        """Whether the block failed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed = True
        self._failures.failed(self._area, self._key, error, self._subject)
        return True
