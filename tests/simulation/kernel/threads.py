"""What `threading` and `queue` offer, on simulated threads."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tests.simulation.kernel import core
from tests.simulation.kernel.core import Kernel
from tests.simulation.kernel.processes import Process


class Machine:
    """Says which thread and which process run now."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @property
    def thread(self) -> core.Thread:
        """The thread that runs now."""
        assert self.kernel.current is not None
        return self.kernel.current

    @property
    def process(self) -> "Process":
        """The process that runs now."""
        owner = self.thread.owner
        assert isinstance(owner, Process)
        return owner


class Event(threading.Event):
    """An event; the base class is there for isinstance only."""

    machine: Machine

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._waiting: list[core.Thread] = []

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set, and wake all who wait."""
        self._is_set = True
        for thread in self._waiting:
            self.machine.kernel.wake(thread)

    def clear(self) -> None:
        """Take back."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until set."""
        thread, kernel = self.machine.thread, self.machine.kernel
        until = None if timeout is None else kernel.moment + timeout
        self._waiting.append(thread)
        try:
            while not self._is_set and (until is None or kernel.moment < until):
                kernel.wait(None if until is None else until - kernel.moment)
        finally:
            self._waiting.remove(thread)
        return self._is_set


class SimpleQueue:
    """A queue between threads."""

    machine: Machine

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: list[core.Thread] = []

    def put(self, item: Any) -> None:
        """Append."""
        self._items.append(item)
        for thread in self._waiting:
            self.machine.kernel.wake(thread)

    def get(self) -> Any:
        """Wait for an item."""
        self._waiting.append(self.machine.thread)
        try:
            while not self._items:
                self.machine.kernel.wait()
        finally:
            self._waiting.remove(self.machine.thread)
        return self._items.popleft()

    @classmethod
    def __class_getitem__(cls, _: object) -> type:
        return cls


class Thread:
    """A thread of the current process."""

    machine: Machine

    def __init__(
        self,
        target: Callable[..., object],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str = "thread",
        daemon: bool | None = None,
    ) -> None:
        del daemon  # none of them keeps its process alive
        self.name = name
        self._target = partial(target, *args, **(kwargs or {}))
        self._thread: core.Thread | None = None

    def start(self) -> None:
        """Start."""
        self._thread = self.machine.process.start_thread(self.name, self._run)

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end."""
        thread, kernel = self._thread, self.machine.kernel
        assert thread is not None
        until = None if timeout is None else kernel.moment + timeout
        thread.joining.append(self.machine.thread)
        while not thread.done and (until is None or kernel.moment < until):
            kernel.wait(None if until is None else until - kernel.moment)
        thread.joining.remove(self.machine.thread)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._thread is not None and not self._thread.done

    def _run(self) -> None:
        self._target()


class Timer(Thread):
    """Calls after a while."""

    def __init__(self, interval: float, function: Callable[[], object]) -> None:
        super().__init__(self._fire, name="timer")
        self._interval = interval
        self._function = function
        self._cancelled = False

    def cancel(self) -> None:
        """Don't call."""
        self._cancelled = True

    def _fire(self) -> None:
        self.machine.kernel.sleep(self._interval)
        if not self._cancelled:
            self._function()


class Threading:
    """In place of the module `threading`."""

    Event = Event
    Thread = Thread
    Timer = Timer
    Lock = threading.Lock
    RLock = threading.RLock

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        for kind in (Event, SimpleQueue, Thread):
            kind.machine = machine

    def get_ident(self) -> int:
        """The number of the current thread."""
        return self._machine.thread.number

    def current_thread(self) -> core.Thread:
        """The current thread."""
        return self._machine.thread

    def main_thread(self) -> None:
        """No simulated thread is the real main thread."""
