"""Whether work goes on: what must change while it does, and for how long it hasn't.

Nothing here waits, and nothing asks a clock. Who looks says how much time has passed since the last
look, so that a process that was frozen as a whole isn't taken for one that is stuck.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

DROPPED_LEAST = 3
"""Fewer cycles dropped in a row are no sign of anything."""

FRAMES = 6
"""Places of a stack that are told, the innermost last."""


class Cause(StrEnum):
    """A way of being stuck; the values are for metrics."""

    CYCLE = "cycle"
    DROPPED = "dropped"
    LOOP = "loop"
    KOPF = "kopf"
    ELECTION = "election"
    WATCH = "watch"
    WRITES = "writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must go on."""

    cause: Cause
    mark: Callable[[], Hashable]
    """What changes with each step; None while there is nothing to do. Any thread may ask."""
    bound_seconds: float
    """How long it may stay the same."""
    words: str
    """What it means when it stays the same for longer."""
    details: Callable[[], Mapping[str, object]] = dict
    """More for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """Only a new process can help."""

    cause: Cause
    message: str
    """A sentence without a full stop."""
    details: Mapping[str, object]


class Progress:
    """How long each check has seen no step. Looked at by one thread, read by any."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = tuple(checks)
        self._marks: list[Hashable] = [None for _ in self._checks]
        self._seconds = [0.0 for _ in self._checks]

    def look(self, elapsed_seconds: float) -> Stuck | None:
        """Look at all, so many seconds after the last time; the first that is stuck, if any is."""
        found = None
        for number, check in enumerate(self._checks):
            mark = check.mark()
            same = mark is not None and mark == self._marks[number]
            self._marks[number] = mark
            self._seconds[number] = self._seconds[number] + elapsed_seconds if same else 0.0
            if found is None and self._seconds[number] > check.bound_seconds:
                message = f"{check.words} (longer than {check.bound_seconds:g} s)"
                found = Stuck(cause=check.cause, message=message, details=check.details())
        return found

    def stalled(self) -> Mapping[Cause, float]:
        """For how many seconds the slowest of each cause has seen no step."""
        slowest = dict.fromkeys((check.cause for check in self._checks), 0.0)
        for check, seconds in zip(self._checks, self._seconds, strict=True):
            slowest[check.cause] = max(slowest[check.cause], seconds)
        return slowest


class Cycles:
    """Cycles that run, of whatever tenure, and how many were dropped in a row. Any thread's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, int | None] = {}
        """By number, the identity of the thread that runs it; None before one has begun with it."""
        self._last = 0
        self._dropped = 0

    def handed_on(self) -> int:
        """A cycle is handed to its thread; gives its number."""
        with self._lock:
            self._last += 1
            self._running[self._last] = None
            return self._last

    def begun(self, number: int) -> None:
        """The thread that calls this runs it from now on."""
        with self._lock:
            self._running[number] = threading.get_ident()

    def ended(self, number: int) -> None:
        """It has come to an end, whichever."""
        with self._lock:
            self._running.pop(number, None)

    def dropped(self, in_a_row: int) -> None:
        """So many cycles in a row came to nothing; 0: the last one did not."""
        self._dropped = in_a_row

    def oldest(self) -> int | None:
        """The cycle that has been running for longest; None where none runs."""
        with self._lock:
            return min(self._running, default=None)

    def keeps_dropping(self) -> bool | None:
        """True while cycle after cycle is dropped; None else."""
        return True if self._dropped >= DROPPED_LEAST else None

    def where(self) -> Mapping[str, object]:
        """Where the cycle that has been running for longest is at this moment."""
        with self._lock:
            thread = self._running.get(min(self._running, default=0))
        frame = None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001 - it is documented, and there is no other way
        if frame is None:
            return {"where": "its thread has ended"}
        innermost = traceback.extract_stack(frame)[-FRAMES:]
        return {"where": [f"{each.filename}:{each.lineno} {each.name}" for each in innermost]}


class Heartbeat:
    """Asks another thread's event loop for an answer; one question at a time."""

    def __init__(self) -> None:
        self._asked: _Asked | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on this loop must answer."""
        self._asked = _Asked(loop)

    def end(self) -> None:
        """No loop must."""
        self._asked = None

    def ask(self) -> None:
        """Ask, unless an answer is due still."""
        asked = self._asked
        if asked is not None and asked.answered == asked.questions:
            asked.questions += 1
            with suppress(RuntimeError):  # it is closed, which others see to
                asked.loop.call_soon_threadsafe(asked.answer)

    def mark(self) -> Hashable:
        """How many answers came; None where no loop must answer."""
        asked = self._asked
        if asked is None or asked.loop.is_closed():
            return None
        return id(asked), asked.answered


class _Asked:
    """Questions to one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.questions = 0
        self.answered = 0

    def answer(self) -> None:
        """Called in that loop."""
        self.answered = self.questions
