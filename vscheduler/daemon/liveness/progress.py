"""Progress checks: marks that must change while work goes on, and how long each has not changed.

Nothing here waits or reads a clock. The caller passes the time since the last check, so that a
process frozen as a whole does not count as stuck.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from types import FrameType

import msgspec

DROPPED_LEAST = 3
"""Fewer dropped cycles in a row do not count."""

FRAMES = 6
"""Number of stack frames in the log, the innermost last."""


class Cause(StrEnum):
    """Causes of being stuck. The values are metric labels."""

    CYCLE = "cycle"
    DROPPED = "dropped"
    LOOP = "loop"
    ELECTION = "election"
    WATCH = "watch"
    WRITES = "writes"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A progress check."""

    cause: Cause
    mark: Callable[[], Hashable]
    """Returns a value that changes with each step of the work, or None when there is nothing to do.
    Called from any thread."""
    bound_seconds: float
    """How long the mark may stay the same."""
    words: str
    """The message when the mark stays the same for longer."""
    details: Callable[[], Mapping[str, object]] = dict
    """Further fields for the log."""


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """The process is stuck: only a restart can help."""

    cause: Cause
    message: str
    """A sentence without a full stop."""
    details: Mapping[str, object]


class Progress:
    """The time without progress of each check. One thread looks, any thread may read."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = tuple(checks)
        self._marks: list[Hashable] = [None for _ in self._checks]
        self._seconds = [0.0 for _ in self._checks]

    def look(self, elapsed_seconds: float) -> Stuck | None:
        """Run all checks, the given seconds after the last call.

        Return the first stuck check, or None.
        """
        stuck = None
        for number, check in enumerate(self._checks):
            mark = check.mark()
            same = mark is not None and mark == self._marks[number]
            self._marks[number] = mark
            self._seconds[number] = self._seconds[number] + elapsed_seconds if same else 0.0
            if stuck is None and self._seconds[number] > check.bound_seconds:
                message = f"{check.words} (longer than {check.bound_seconds:g} s)"
                stuck = Stuck(cause=check.cause, message=message, details=check.details())
        return stuck

    def stalled(self) -> Mapping[Cause, float]:
        """Return by cause how many seconds the slowest check has seen no progress."""
        slowest = dict.fromkeys((check.cause for check in self._checks), 0.0)
        for check, seconds in zip(self._checks, self._seconds, strict=True):
            slowest[check.cause] = max(slowest[check.cause], seconds)
        return slowest


class Cycles:
    """The running cycles of all leader sessions, and the number of dropped cycles in a row.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, int | None] = {}
        """By cycle number, the identity of the running thread; None before a thread has started the
        cycle."""
        self._last = 0
        self._dropped = 0

    def handed_on(self) -> int:
        """Record that a cycle was handed to its thread, and return the cycle's number."""
        with self._lock:
            self._last += 1
            self._running[self._last] = None
            return self._last

    def begun(self, number: int) -> None:
        """Record that the calling thread runs the cycle."""
        with self._lock:
            self._running[number] = threading.get_ident()

    def ended(self, number: int) -> None:
        """Record that a cycle ended, with any result."""
        with self._lock:
            self._running.pop(number, None)

    def dropped(self, in_a_row: int) -> None:
        """Record how many cycles in a row were dropped; 0 after a cycle that succeeded."""
        self._dropped = in_a_row

    def oldest(self) -> int | None:
        """Return the number of the longest running cycle, or None."""
        with self._lock:
            return min(self._running, default=None)

    def keeps_dropping(self) -> bool | None:
        """Return True while cycle after cycle is dropped, otherwise None."""
        return True if self._dropped >= DROPPED_LEAST else None

    def frame(self) -> FrameType | None:
        """Return where the longest running cycle is; None if no thread runs one."""
        with self._lock:
            thread = self._running.get(min(self._running, default=0))
        return None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001 - documented, and without alternative

    def where(self) -> Mapping[str, object]:
        """Return the current stack of the longest running cycle, for the log."""
        frame = self.frame()
        if frame is None:
            return {"where": "its thread has ended"}
        innermost = traceback.extract_stack(frame)[-FRAMES:]
        return {"where": [f"{each.filename}:{each.lineno} {each.name}" for each in innermost]}


class Heartbeat:
    """Checks whether another thread's event loop answers, with one question at a time."""

    def __init__(self) -> None:
        self._asked: _Asked | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start checking this event loop."""
        self._asked = _Asked(loop)

    def end(self) -> None:
        """Stop checking."""
        self._asked = None

    def ask(self) -> None:
        """Send a question, unless the last answer is still outstanding."""
        asked = self._asked
        if asked is not None and asked.answered == asked.questions:
            asked.questions += 1
            with suppress(RuntimeError):  # the loop is closed
                asked.loop.call_soon_threadsafe(asked.answer)

    def mark(self) -> Hashable:
        """Return a mark that changes with each answer, or None when no loop is checked."""
        asked = self._asked
        if asked is None or asked.loop.is_closed():
            return None
        return id(asked), asked.answered


class _Asked:
    """The questions to a single event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.questions = 0
        self.answered = 0

    def answer(self) -> None:
        """Record an answer; called in the checked loop."""
        self.answered = self.questions
