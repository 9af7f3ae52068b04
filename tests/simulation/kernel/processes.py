"""Processes: threads with a clock of their own that live, stand still and end together."""

import random
from collections.abc import Callable
from typing import Any

from tests.simulation.kernel.core import EndedError, Kernel, Owner, Thread
from tests.simulation.kernel.network import Network
from vscheduler.mirror.state import Mirror

BOOT_SECONDS = 1000.0
"""How long each machine has been up at the beginning."""


class Clock:
    """How a machine sees time."""

    def __init__(self, kernel: Kernel, *, skew_seconds: float = 0.0) -> None:
        self._kernel = kernel
        self.skew_seconds = skew_seconds
        """How far the wall clock is ahead."""
        self.asleep_seconds = 0.0
        """For how long the machine has been suspended."""

    def monotonic(self) -> float:
        """Seconds since the machine was started, without those in which it was suspended."""
        return self.boot() - self.asleep_seconds

    def boot(self) -> float:
        """Seconds since the machine was started (CLOCK_BOOTTIME)."""
        return BOOT_SECONDS + self._kernel.moment

    def wall(self) -> float:
        """Seconds since 1970, as the machine believes."""
        return self._kernel.now() + self.skew_seconds


class Process(Owner):
    """A simulated process."""

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        net: Network,
        clock: Clock,
        *,
        host: str,
        seed: str,
        on_end: Callable[["Process", int], None],
    ) -> None:
        self.kernel = kernel
        self.name = name
        self.host = host
        """The machine: its link to the network stays when one process follows another."""
        self.network = net
        self.clock = clock
        self.chance = random.Random(f"{seed}/{name}")
        self.handlers: dict[int, tuple[Any, Callable[..., object], tuple[Any, ...]]] = {}
        self._on_end = on_end
        self._main: Thread | None = None
        self._threads: list[Thread] = []
        self._ignored: set[int] = set()
        self.mirror: Mirror | None = None
        """What the daemon in it knows of the cluster."""
        self.errors: list[BaseException] = []
        """What ended a thread unexpectedly."""
        self.went_on_at = 0.0
        """When it last went on after it had stood still."""

    def start(self, main: Callable[[], None]) -> None:
        """Start the main thread."""
        self._main = self.start_thread("main", main)

    def start_thread(self, name: str, target: Callable[[], None]) -> Thread:
        """Start a thread."""
        thread = self.kernel.spawn(self, f"{self.name}/{name}", target)
        self._threads.append(thread)
        return thread

    def thread_ended(self, thread: Thread) -> None:
        """The end of the main thread is the end of the process."""
        self._threads.remove(thread)
        error = thread.error
        if error is not None and not isinstance(error, SystemExit | EndedError):
            self.errors.append(error)
        if thread is self._main:
            self.end(0 if error is None else 1)

    def end(self, status: int) -> None:
        """End at once; what was sent is sent."""
        if self.ended:
            return
        self.ended = True
        self.kernel.bury(self._threads)
        self.network.abandon(self)
        self._on_end(self, status)

    def exit(self, status: int) -> None:
        """As os._exit."""
        self.end(status)
        self.kernel.leave()

    def stop(self) -> None:
        """As SIGSTOP."""
        self.frozen = True

    def go_on(self) -> None:
        """As SIGCONT."""
        self.frozen = False
        self.went_on_at = self.kernel.moment
        for thread in self._threads:
            self.kernel.thaw(thread)

    def ignore(self, number: int) -> None:
        """As signal.SIG_IGN."""
        self._ignored.add(number)

    def signal(self, number: int) -> None:
        """Deliver a signal; without a handler it ends the process."""
        if number in self._ignored:
            return
        handler = self.handlers.get(number)
        if handler is None:
            self.end(128 + number)
            return
        loop, callback, arguments = handler
        loop.call_soon_threadsafe(callback, *arguments)
