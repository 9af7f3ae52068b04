"""Work that fails takes nothing else with it: it is counted, told of, and tried again.

Whatever isn't expected of one object, one call or one task is a defect of this program, or of
whoever answers it. It ends neither the queue of calls, nor a watch, nor a controller, nor the
process: there is a metric for it, a line in the log and an event on the object. What isn't an
Exception, above all that a task is cancelled, passes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import structlog

from vscheduler import backoff, tracebacks
from vscheduler.mirror import statuses

log = structlog.get_logger(__name__)

TOLD_SECONDS = 60.0
"""After a line about a piece of work, how long there is no other; then twice as long each time."""

TOLD_MAX_SECONDS = 3600.0

KEYS_MAX = 10_000
"""Pieces of work that are remembered; past them all are told of anew."""

LINES_MAX = 100
"""Lines in a minute, whatever fails."""

RETRY_SECONDS = 1.0
"""The first pause of a task that is begun anew; each is twice the one before."""

RETRY_MAX_SECONDS = 60.0


def _ignore(_: object) -> None:
    pass


@dataclass(slots=True)
class _Told:
    """When the log last had a line about a piece of work."""

    next_at: float
    pause: float = TOLD_SECONDS
    untold: int = 0
    """Failures since that line."""


class Failures:
    """Takes in what fails unexpectedly. Threads may share it, where there is no subject."""

    def __init__(
        self,
        observe: Callable[[str], None] = _ignore,
        notify: Callable[[statuses.EventNotice], None] = _ignore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`observe` is told the area of each failure, `notify` what to say on an object."""
        self._observe = observe
        self._notify = notify
        self._clock = clock
        self._told: dict[tuple[str, str], _Told] = {}
        self._places: set[tuple[str, int]] = set()
        """Where in the code it failed, of what was told with a traceback."""
        self._minute = 0
        self._lines = 0

    def failed(
        self, area: str, key: str, error: Exception, subject: statuses.ObjectReference | None = None
    ) -> None:
        """Count it; tell of it once, and then of what goes on failing less and less often.

        area is a few fixed words, which are a label of the metric; key is the piece of work.
        """
        self._observe(area)
        now = self._clock()
        if len(self._told) >= KEYS_MAX:
            self._told.clear()
        told = self._told.get((area, key))
        if told is None or now > told.next_at + told.pause:
            told = self._told[area, key] = _Told(next_at=now)
        if now < told.next_at or not self._may_tell(now):
            told.untold += 1
            return
        self._log(area, key, error, told.untold)
        told.next_at, told.untold = now + told.pause, 0
        told.pause = min(2 * told.pause, TOLD_MAX_SECONDS)
        if subject is not None:
            self._notify(statuses.failure_notice(subject, area))

    def contained(
        self, area: str, key: str, subject: statuses.ObjectReference | None = None
    ) -> "Contained":
        """A block of which an Exception is taken in; what comes after the block goes on."""
        return Contained(self, area, key, subject)

    async def keep_on(
        self,
        area: str,
        work: Callable[[], Awaitable[None]],
        *,
        longest_seconds: float = RETRY_MAX_SECONDS,
        attempts_max: int = 0,
    ) -> None:
        """Do this until it returns; where it fails, again after a pause, longer each time in a row.

        A task that has worked for longer than the longest pause begins with the shortest again.
        After so many attempts in a row (0: never), what the last one raised is raised.
        """
        growth = backoff.Growth(first_seconds=RETRY_SECONDS, longest_seconds=longest_seconds)
        attempts = 0
        while True:
            began = self._clock()
            try:
                return await work()
            except Exception as error:
                self.failed(area, area, error)
                if self._clock() - began > RETRY_MAX_SECONDS:
                    attempts = 0
                attempts += 1
                if attempts == attempts_max:
                    raise
            await asyncio.sleep(growth.after(attempts))

    def _may_tell(self, now: float) -> bool:
        """Whether the log may have one more line in this minute."""
        minute = int(now // 60)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        self._lines += 1
        return self._lines <= LINES_MAX

    def _log(self, area: str, key: str, error: Exception, untold: int) -> None:
        """One line; the first one of each place in the code shows how it came there.

        As text: what writes the log may not be ours, and might show all that the frames hold.
        """
        place = tracebacks.place(error)
        way = {} if place in self._places else {"exception": tracebacks.shown(error)}
        self._places.add(place)
        log.error(
            "work.failed",
            area=area,
            object=key,
            message=tracebacks.said(error),
            failures_since=untold,
            **way,
        )


class Contained:
    """A block that may fail."""

    __slots__ = ("_area", "_failures", "_key", "_subject", "failed")

    def __init__(
        self, failures: Failures, area: str, key: str, subject: statuses.ObjectReference | None
    ) -> None:
        self._failures = failures
        self._area = area
        self._key = key
        self._subject = subject
        self.failed = False
        """Whether it did."""

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
