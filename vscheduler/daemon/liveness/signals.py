"""Signals: which of them end the daemon, and that it does end."""

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
"""Volcano dumps its cache for these."""

END_SECONDS = 25.0
"""How long an end may take after the first signal; Kubernetes kills after 30."""


def end_at_once() -> None:
    """Until `listen`, there is nothing to give back: a signal ends the process with status 0."""
    for number in _wanted():
        signal.signal(number, _leave)


def listen(stop: Callable[[], None], *, flush: Callable[[], object]) -> None:
    """From now on the first of these signals calls `stop`, in this event loop; others do nothing.

    What isn't over END_SECONDS later ends with status 1, though work or a thread is stuck, after
    `flush` was called.
    """
    ending = _Ending(stop, flush)
    loop = asyncio.get_running_loop()
    for number in _wanted():
        loop.add_signal_handler(number, ending.begin, number)
    for number in PASSED_OVER:
        loop.add_signal_handler(number, _pass_over, number)


class _Ending:
    """What the first signal begins."""

    def __init__(self, stop: Callable[[], None], flush: Callable[[], object]) -> None:
        self._stop = stop
        self._flush = flush
        self._begun = False

    def begin(self, number: signal.Signals) -> None:
        """Stop, if that hasn't begun."""
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
        """In a thread that needs nobody: the end is stuck."""
        log.critical("stop.overdue", seconds=END_SECONDS)
        self._flush()
        os._exit(1)


def _wanted() -> list[signal.Signals]:
    """Those that end it: SIGHUP isn't one where whoever started it said so, as `nohup` does."""
    return [
        number
        for number in ENDING
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def _pass_over(number: signal.Signals) -> None:
    log.info("signal.ignored", signal=number.name)
