"""Watchdog: a thread that checks the process for progress and ends a stuck process.

The thread shares nothing with the watched work: no event loop, and no lock held for long. If some
thread never releases the interpreter, even the watchdog cannot run. Then the kernel ends the
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
from typing import Any

import msgspec
import structlog

from vscheduler.cluster.reflector import Reflector
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.daemon.liveness.progress import Cause, Check, Cycles, Heartbeat, Progress, Stuck
from vscheduler.mirror.index.entries import Event

log = structlog.get_logger(__name__)

STATUS = 70
"""Exit status of a process that gave up: EX_SOFTWARE of sysexits.h."""

TICK_SECONDS = 0.5
"""Interval between checks. A longer gap counts as at most two intervals, because the process or the
machine was suspended then."""

LAST_WILL_SECONDS = 6.0
"""Time limit of `give_up` in the event loop; afterwards the process ends in any case."""

FLUSH_SECONDS = 1.0
"""Time limit for writing the log."""

LOOP_LEAST_SECONDS = 10.0
LOOP_SHARE = 2 / 3
"""How long the event loop may be silent, as a part of a cycle's deadline. With a stuck event loop,
the Lease cannot be released, because calls may be in progress. The Lease then has to expire after
the process ends."""

WATCH_SECONDS = 300.0
"""How long a watch without a reported problem may receive nothing. A working watch restarts long
before."""

WRITES_SECONDS = 180.0
"""How long no call may end while calls are waiting. A call repeated to a busy server takes up to
140 s."""


class Signs(msgspec.Struct, frozen=True):
    """The signs of life of all parts of the daemon. Created before the parts."""

    cycles: Cycles = msgspec.field(default_factory=Cycles)
    loop: Heartbeat = msgspec.field(default_factory=Heartbeat)
    """Heartbeat of the daemon's main event loop."""
    election: Heartbeat = msgspec.field(default_factory=Heartbeat)

    @property
    def heartbeats(self) -> tuple[Heartbeat, ...]:
        """All heartbeats, which need regular questions."""
        return (self.loop, self.election)


def checks(
    signs: Signs,
    calls: WriteQueue,
    watches: Iterable["Reflector[Event]"],
    *,
    deadline_seconds: float,
) -> list[Check]:
    """Return the checks of the daemon.

    Leaders and standbys are checked alike: a stuck standby must not take over.
    """
    cause = Cause
    all_checks = [
        Check(
            cause=cause.CYCLE,
            mark=signs.cycles.oldest,
            bound_seconds=deadline_seconds,
            words="a scheduling cycle doesn't end",
            details=signs.cycles.where,
        ),
        Check(
            cause=cause.DROPPED,
            mark=signs.cycles.keeps_dropping,
            bound_seconds=deadline_seconds,
            words="cycle after cycle is dropped",
        ),
        Check(
            cause=cause.LOOP,
            mark=signs.loop.mark,
            bound_seconds=max(LOOP_LEAST_SECONDS, LOOP_SHARE * deadline_seconds),
            words="the event loop doesn't answer",
        ),
        Check(
            cause=cause.ELECTION,
            mark=signs.election.mark,
            bound_seconds=deadline_seconds,
            words="the thread that stands for election doesn't answer",
        ),
        Check(
            cause=cause.WRITES,
            mark=lambda: calls.steps if calls.busy else None,
            bound_seconds=WRITES_SECONDS,
            words="calls to the API server wait, and none ends",
        ),
    ]
    return all_checks + [_check(watch) for watch in watches]


def _check(watch: "Reflector[Event]") -> Check:
    return Check(
        cause=Cause.WATCH,
        mark=lambda: watch.heard_at if watch.problem is None else None,
        bound_seconds=WATCH_SECONDS,
        words=f"nothing is heard of {watch.path}",
    )


def _do_nothing(*_: object) -> None:
    """Placeholder for a missing outlet."""


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """The watchdog's actions."""

    give_up: Callable[[], Coroutine[Any, Any, None]]
    """Stops all writes and releases the Leases if possible. Runs in the event loop."""
    observe: Callable[[Stuck], None]
    """Counts that this instance gave up. Safe to call from any thread."""
    hold: Callable[[], None] = _do_nothing
    """Called at each check, as a sign that the interpreter is alive."""
    sample: Callable[[float], None] = _do_nothing
    """Called at each check, with the seconds since the last one, to see what runs."""
    flush: Callable[[], object] = logging.shutdown
    """Writes out buffered log lines."""
    end: Callable[[int], None] = os._exit
    """Ends the process with this exit status."""


class Watchdog:
    """Checks for progress from `start` to `stop`."""

    def __init__(
        self,
        checks: Sequence[Check],
        heartbeats: Sequence[Heartbeat],
        outlets: Outlets,
        *,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self._progress = Progress(checks)
        self._heartbeats = tuple(heartbeats)
        self._outlets = outlets
        self._tick_seconds = tick_seconds
        self._stopped = threading.Event()
        self._stuck: Stuck | None = None
        self._giving_up: asyncio.Task[None] | None = None

    @property
    def stuck(self) -> Stuck | None:
        """Why the process is stuck, or None."""
        return self._stuck

    def stalled(self) -> dict[str, float]:
        """Return by cause how many seconds the slowest check has seen no progress."""
        return {cause.value: each for cause, each in self._progress.stalled().items()}

    def start(self) -> None:
        """Start the thread. To be called in the event loop in which `give_up` shall run."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._watch, args=(loop,), name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop checking."""
        self._stopped.set()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the thread."""
        last = time.monotonic()
        while not self._stopped.wait(self._tick_seconds):
            self._outlets.hold()
            now = time.monotonic()
            elapsed, last = min(now - last, 2 * self._tick_seconds), now
            self._outlets.sample(elapsed)
            stuck = self._progress.look(elapsed)
            if stuck is not None:
                self._give_up(stuck, loop)
                return
            for heartbeat in self._heartbeats:
                heartbeat.ask()

    def _give_up(self, stuck: Stuck, loop: asyncio.AbstractEventLoop) -> None:
        """Let another instance take over, log why, and end the process, even if parts hang."""
        self._stuck = stuck
        done = threading.Event()

        def begin() -> None:
            self._giving_up = loop.create_task(self._outlets.give_up(), name="give up")
            self._giving_up.add_done_callback(lambda _: done.set())

        with suppress(RuntimeError):  # the loop is closed, so no calls are in progress
            loop.call_soon_threadsafe(begin)
        self._outlets.observe(stuck)
        _bounded(lambda: _log_stuck(stuck))
        if stuck.cause is not Cause.LOOP:  # a stuck loop would not run `give_up`
            done.wait(LAST_WILL_SECONDS)
        _bounded(self._outlets.flush)
        self._outlets.end(STATUS)


class KillTimer:
    """Lets the kernel end the process after this much CPU time without a check.

    The watchdog's checks restart the timer. A thread that never releases the interpreter keeps the
    watchdog from running, for example in a regular expression. CPU time is not counted while the
    process is stopped or the machine is asleep. The stacks of all threads are printed to stderr
    first.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        with suppress(OSError, RuntimeError, ValueError, AttributeError):  # without a stderr
            faulthandler.register(signal.SIGPROF, file=sys.stderr, all_threads=True, chain=True)

    def hold(self) -> None:
        """Restart the timer."""
        signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def let_go(self) -> None:
        """Stop the timer."""
        signal.setitimer(signal.ITIMER_PROF, 0)


def _log_stuck(stuck: Stuck) -> None:
    """Log why this instance ends."""
    log.critical("instance.stuck", cause=stuck.cause.value, message=stuck.message, **stuck.details)


def _bounded(function: Callable[[], object]) -> None:
    """Call a function that may hang in a separate thread, and wait at most FLUSH_SECONDS."""
    thread = threading.Thread(target=function, name="last words", daemon=True)
    thread.start()
    thread.join(FLUSH_SECONDS)
