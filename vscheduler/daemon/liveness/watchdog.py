"""What must go on in this process, for how long it may not, and the thread that looks whether it
does and ends the process when it doesn't.

The thread shares nothing with what it watches: no event loop, no lock that is held for long. Where
even this thread can't run, as somebody keeps the interpreter to himself, the kernel ends the
process: see `KillTimer`.
"""

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

from vscheduler.cluster import reflector
from vscheduler.cluster.writes import write_queue
from vscheduler.daemon.liveness import progress
from vscheduler.mirror.index import entries

log = structlog.get_logger(__name__)

STATUS = 70
"""The exit status of a process that gave up: EX_SOFTWARE of sysexits.h."""

TICK_SECONDS = 0.5
"""From one look to the next. What is more than two of these counts as two: then the process, or
its machine, was suspended."""

LAST_WILL_SECONDS = 6.0
"""How long giving up may take in the event loop, before the process ends all the same."""

FLUSH_SECONDS = 1.0
"""How long the log may take to be written."""

LOOP_LEAST_SECONDS = 10.0
LOOP_SHARE = 2 / 3
"""The event loop may be silent for this part of a cycle's deadline: its Lease can't be given back,
as calls may be under way, and has to run out after that."""

WATCH_SECONDS = 300.0
"""How long a watch that reports no trouble may hear nothing: it begins anew by itself long before.
"""

WRITES_SECONDS = 180.0
"""How long no call may end while some wait: one that is sent again and again to a server that is
too busy takes 140 s."""


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs of life, and who gives them. Made before all who do."""

    cycles: progress.Cycles = field(default_factory=progress.Cycles)
    loop: progress.Heartbeat = field(default_factory=progress.Heartbeat)
    """Of the daemon's event loop."""
    kopf: progress.Heartbeat = field(default_factory=progress.Heartbeat)
    election: progress.Heartbeat = field(default_factory=progress.Heartbeat)

    @property
    def pulses(self) -> tuple[progress.Heartbeat, ...]:
        """All who have to be asked."""
        return (self.loop, self.kopf, self.election)


def checks(
    signs: Signs,
    calls: write_queue.WriteQueue,
    watches: Iterable["reflector.Reflector[entries.Event]"],
    *,
    deadline_seconds: float,
) -> list[progress.Check]:
    """Leader or not: who stands by and is stuck must not take over."""
    cause = progress.Cause
    found = [
        progress.Check(
            cause=cause.CYCLE,
            mark=signs.cycles.oldest,
            bound_seconds=deadline_seconds,
            words="a scheduling cycle doesn't end",
            details=signs.cycles.where,
        ),
        progress.Check(
            cause=cause.DROPPED,
            mark=signs.cycles.keeps_dropping,
            bound_seconds=deadline_seconds,
            words="cycle after cycle is dropped",
        ),
        progress.Check(
            cause=cause.LOOP,
            mark=signs.loop.mark,
            bound_seconds=max(LOOP_LEAST_SECONDS, LOOP_SHARE * deadline_seconds),
            words="the event loop doesn't answer",
        ),
        progress.Check(
            cause=cause.KOPF,
            mark=signs.kopf.mark,
            bound_seconds=deadline_seconds,
            words="Kopf's thread doesn't answer",
        ),
        progress.Check(
            cause=cause.ELECTION,
            mark=signs.election.mark,
            bound_seconds=deadline_seconds,
            words="the thread that stands for election doesn't answer",
        ),
        progress.Check(
            cause=cause.WRITES,
            mark=lambda: calls.steps if calls.busy else None,
            bound_seconds=WRITES_SECONDS,
            words="calls to the API server wait, and none ends",
        ),
    ]
    return found + [_check(watch) for watch in watches]


def _check(watch: "reflector.Reflector[entries.Event]") -> progress.Check:
    return progress.Check(
        cause=progress.Cause.WATCH,
        mark=lambda: watch.heard_at if watch.problem is None else None,
        bound_seconds=WATCH_SECONDS,
        words=f"nothing is heard of {watch.path}",
    )


def _do_nothing() -> None:
    """There is no lifeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """What a watchdog does."""

    give_up: Callable[[], Coroutine[Any, Any, None]]
    """Sends nothing more, and gives back what may be given back; run in the event loop."""
    observe: Callable[[progress.Stuck], None]
    """Counts that an instance gave up; any thread may call it."""
    hold: Callable[[], None] = _do_nothing
    """Called at each look: a sign of life of the interpreter."""
    flush: Callable[[], object] = logging.shutdown
    """Writes out what was logged."""
    end: Callable[[int], None] = os._exit
    """Ends the process with this status."""


class Watchdog:
    """Watches from `start` to `stop`."""

    def __init__(
        self,
        checks: Sequence[progress.Check],
        pulses: Sequence[progress.Heartbeat],
        outlets: Outlets,
        *,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self._progress = progress.Progress(checks)
        self._pulses = tuple(pulses)
        self._outlets = outlets
        self._tick_seconds = tick_seconds
        self._stopped = threading.Event()
        self._stuck: progress.Stuck | None = None
        self._giving_up: asyncio.Task[None] | None = None

    @property
    def stuck(self) -> progress.Stuck | None:
        """Why only a new process can help, where that is so."""
        return self._stuck

    def stalled(self) -> dict[str, float]:
        """For how many seconds the slowest of each cause has seen no step."""
        return {cause.value: each for cause, each in self._progress.stalled().items()}

    def start(self) -> None:
        """Begin; called in the event loop in which to give up."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._watch, args=(loop,), name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread."""
        last = time.monotonic()
        while not self._stopped.wait(self._tick_seconds):
            self._outlets.hold()
            now = time.monotonic()
            elapsed, last = min(now - last, 2 * self._tick_seconds), now
            stuck = self._progress.look(elapsed)
            if stuck is not None:
                self._give_up(stuck, loop)
                return
            for pulse in self._pulses:
                pulse.ask()

    def _give_up(self, stuck: progress.Stuck, loop: asyncio.AbstractEventLoop) -> None:
        """Let others take over, say why, and end: within seconds, whoever hangs."""
        self._stuck = stuck
        done = threading.Event()

        def begin() -> None:
            self._giving_up = loop.create_task(self._outlets.give_up(), name="give up")
            self._giving_up.add_done_callback(lambda _: done.set())

        with suppress(RuntimeError):  # the loop is closed: nothing of ours is under way
            loop.call_soon_threadsafe(begin)
        self._outlets.observe(stuck)
        _bounded(lambda: _tell(stuck))
        if stuck.cause is not progress.Cause.LOOP:  # whoever doesn't answer doesn't begin, either
            done.wait(LAST_WILL_SECONDS)
        _bounded(self._outlets.flush)
        self._outlets.end(STATUS)


class KillTimer:
    """Has the kernel end the process when it uses so much CPU time without a look of the watchdog.

    That is what a thread does that never lets go of the interpreter, such as in a regular
    expression. CPU time isn't counted while a process is stopped, or its machine asleep. The stacks
    of all threads go to stderr first.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        with suppress(OSError, RuntimeError, ValueError, AttributeError):  # there is no stderr
            faulthandler.register(signal.SIGPROF, file=sys.stderr, all_threads=True, chain=True)

    def hold(self) -> None:
        """Begin to count anew."""
        signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def let_go(self) -> None:
        """Count no more."""
        signal.setitimer(signal.ITIMER_PROF, 0)


def _tell(stuck: progress.Stuck) -> None:
    """The one line that says why this instance ends."""
    log.critical("instance.stuck", cause=stuck.cause.value, message=stuck.message, **stuck.details)


def _bounded(function: Callable[[], object]) -> None:
    """Call this in a thread of its own, and wait for a moment: it may hang, too."""
    thread = threading.Thread(target=function, name="last words", daemon=True)
    thread.start()
    thread.join(FLUSH_SECONDS)
