"""Signals that end the daemon, and a time limit for the shutdown."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import structlog

log = structlog.get_logger(__name__)

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

PASSED_OVER = (signal.SIGUSR1, signal.SIGUSR2)
"""Ignored signals. Volcano dumps its cache on them."""

END_SECONDS = 25.0
"""Time limit of a shutdown after the first signal. Kubernetes kills the container after 30
seconds."""


def end_at_once() -> None:
    """End the process with status 0 on a signal.

    In force until `listen`, while there is nothing to release.
    """
    for number in _wanted():
        signal.signal(number, _leave)


def leave_at_once() -> None:
    """End the process with status 0 on a signal, in this event loop until `listen`."""
    for number in _wanted():
        asyncio.get_running_loop().add_signal_handler(number, os._exit, 0)


def listen(stop: Callable[[], None], *, flush: Callable[[], object]) -> None:
    """Call `stop` in this event loop on the first ending signal, and ignore later signals.

    A shutdown not finished after END_SECONDS ends with status 1, after a call of `flush`, even if
    work or threads are stuck.
    """
    ending = _Ending(stop, flush)
    loop = asyncio.get_running_loop()
    for number in _wanted():
        loop.add_signal_handler(number, ending.begin, number)
    for number in PASSED_OVER:
        loop.add_signal_handler(number, _pass_over, number)


def ignore() -> None:
    """Ignore all these signals, after the end of a shutdown.

    An event loop restores the default handlers when the loop is closed. A signal between that
    moment and the end of the process would change the exit status.
    """
    loop = asyncio.get_running_loop()
    for number in (*_wanted(), *PASSED_OVER):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def end(flush: Callable[[], object]) -> NoReturn:
    """End the process with status 0, after a call of `flush`, without Python's finalization.

    Threads of the election and of the watchdog may still run, and Python's finalization
    can crash beside running threads.
    """
    flush()
    os._exit(0)


class _Ending:
    """The shutdown started by the first signal."""

    def __init__(self, stop: Callable[[], None], flush: Callable[[], object]) -> None:
        self._stop = stop
        self._flush = flush
        self._begun = False

    def begin(self, number: signal.Signals) -> None:
        """Start the shutdown, unless already started."""
        if self._begun:
            _pass_over(number)
            return
        self._begun = True
        log.info("signal.received", signal=number.name)
        timer = threading.Timer(END_SECONDS, self._give_up)
        timer.daemon = True
        timer.start()
        self._stop()

    def _give_up(self) -> NoReturn:
        """End the process. Runs in a separate thread when the shutdown is stuck."""
        log.critical("stop.overdue", seconds=END_SECONDS)
        self._flush()
        os._exit(1)


def _wanted() -> list[signal.Signals]:
    """Return the ending signals.

    SIGHUP is left out if the parent process ignores SIGHUP, as `nohup` does.
    """
    return [
        number
        for number in ENDING
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def _pass_over(number: signal.Signals) -> None:
    log.info("signal.ignored", signal=number.name)
