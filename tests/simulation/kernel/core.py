"""The kernel: virtual time, timers, and which thread runs next."""

import asyncio
import heapq
import itertools
import random
import sys
from collections.abc import Callable, Iterable
from typing import Any

import greenlet

EPOCH = 1_800_000_000.0
"""When each simulation begins, in seconds since 1970."""
STEP_SECONDS = 5e-6
"""What each step of a thread takes, so that a loop that looks at the clock sees it move."""
STEPS_MAX = 100_000
"""More steps than this within a second are a loop that never waits."""

Call = Callable[[], None]


class LivelockError(Exception):
    """Threads go on and on, and time doesn't."""


class EndedError(BaseException):
    """Raised in a thread that goes on although its process has ended."""


class Timer:
    """A call at a later moment."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call: Call | None = call

    def cancel(self) -> None:
        """Don't call."""
        self.call = None


class Thread:
    """A simulated thread: runs until it waits."""

    def __init__(self, kernel: "Kernel", owner: "Owner", name: str, target: Call) -> None:
        self.owner = owner
        self.name = name
        self.number = next(kernel.numbers)
        self.cpu_seconds = 0.0
        self.done = False
        self.joining: list[Thread] = []
        self.error: BaseException | None = None
        self.is_woken = False
        """A wake came that no wait has taken yet."""
        self.is_waiting = True
        self._target = target
        self._running_loop: Any = None
        self._hooks: Any = (None, None)
        self.greenlet = greenlet.greenlet(self._run)

    def go_on(self) -> None:
        """Run until the next wait. To be called by the kernel only."""
        self.greenlet.parent = greenlet.getcurrent()  # where its end leads, not to its creator
        asyncio._set_running_loop(self._running_loop)
        sys.set_asyncgen_hooks(*self._hooks)
        try:
            self.greenlet.switch()
        finally:
            self._running_loop = asyncio._get_running_loop()
            self._hooks = tuple(sys.get_asyncgen_hooks())
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(None, None)

    def _run(self) -> None:
        try:
            self._target()
        except BaseException as error:  # noqa: BLE001 - the owner judges any error
            self.error = error
        self.done = True


class Owner:
    """What threads belong to. A frozen or ended owner's threads don't run."""

    frozen = False
    ended = False

    def thread_ended(self, thread: Thread) -> None:
        """A thread has returned, or raised `thread.error`."""


class Kernel:
    """Virtual time and its threads."""

    def __init__(self, seed: str) -> None:
        self.numbers = itertools.count(1)
        self.current: Thread | None = None
        self.steps = 0
        self._chance = random.Random(f"{seed}/kernel")
        self._moment = 0.0
        self._second = 0.0
        self._steps_before = 0
        self._timers: list[tuple[float, int, Timer]] = []
        self._ready: list[Thread] = []
        self._until = 0.0
        self._hub: greenlet.greenlet | None = None
        self._graves: list[Thread] = []

    @property
    def moment(self) -> float:
        """Seconds since the beginning."""
        return self._moment

    def now(self) -> float:
        """Seconds since 1970."""
        return EPOCH + self._moment

    def after(self, seconds: float, call: Call) -> Call:
        """Call later; gives the function that cancels."""
        timer = Timer(call)
        due = self._moment + max(0.0, seconds)
        heapq.heappush(self._timers, (due, next(self.numbers), timer))
        return timer.cancel

    def spawn(self, owner: Owner, name: str, target: Call) -> Thread:
        """Start a thread."""
        thread = Thread(self, owner, name, target)
        self.wake(thread)
        return thread

    def bury(self, threads: Iterable[Thread]) -> None:
        """Keep threads that will never go on.

        The end of a greenlet object runs its finally blocks, in the middle of another thread.
        """
        self._graves += threads

    def wake(self, thread: Thread) -> None:
        """Let a thread go on that waits, or will wait."""
        if thread.is_woken or thread.done:
            return
        thread.is_woken = True
        if thread.is_waiting and not thread.owner.frozen:
            self._ready.append(thread)

    def thaw(self, thread: Thread) -> None:
        """Take up a thread whose owner was frozen."""
        if thread.is_waiting and thread.is_woken and not thread.done and thread not in self._ready:
            self._ready.append(thread)

    def wait(self, seconds: float | None = None) -> None:
        """Let the current thread wait for a wake, or at most so long."""
        thread = self.current
        assert thread is not None
        assert self._hub is not None
        if self._goes_on(thread, seconds):
            return
        cancel = None
        if not thread.is_woken and seconds is not None:
            cancel = self.after(seconds, lambda: self.wake(thread))
        thread.is_waiting = True
        if thread.is_woken and not thread.owner.frozen:
            self._ready.append(thread)
        self._hub.switch()
        if cancel is not None:
            cancel()
        if thread.owner.ended:
            raise EndedError

    def _goes_on(self, thread: Thread, seconds: float | None) -> bool:
        """Whether the current thread is the next one to run, after what its wait takes.

        Then nothing happens meanwhile, and time moves as if another thread had had the choice.
        """
        woken = thread.is_woken
        if self._ready or thread.owner.frozen or thread.owner.ended:
            return False
        if (seconds is None and not woken) or self.steps - self._steps_before >= STEPS_MAX:
            return False
        due = self._moment if woken or seconds is None else self._moment + max(0.0, seconds)
        timers = self._timers
        while timers and timers[0][2].call is None:
            heapq.heappop(timers)
        if (timers and timers[0][0] <= due) or due > self._until:
            return False
        if not woken:
            next(self.numbers)  # as a timer has
        self._moment, thread.is_woken = due, False
        self._count(thread)
        return True

    def give_way(self) -> None:
        """Let other ready threads of this moment have a turn."""
        assert self.current is not None
        self.wake(self.current)
        self.wait()

    def sleep(self, seconds: float) -> None:
        """Let the current thread wait, whatever wakes it."""
        until = self._moment + seconds
        while self._moment < until:
            self.wait(until - self._moment)

    def leave(self) -> None:
        """Never go on with the current thread."""
        assert self._hub is not None
        while True:
            self._hub.switch()

    def run(self, seconds: float) -> None:
        """Run for so long. Raises LivelockError, and what a timer's call raises."""
        self._hub = greenlet.getcurrent()
        until = self._until = self._moment + seconds
        while True:
            if self._timers and self._timers[0][0] <= self._moment:
                self._fire()
            elif self._ready:
                self._step()
            elif not self._timers or self._timers[0][0] > until:
                self._moment = max(self._moment, until)
                return
            else:
                self._moment = self._timers[0][0]

    def _fire(self) -> None:
        """Call all timers of this moment, so that chance decides among the threads they wake."""
        while self._timers and self._timers[0][0] <= self._moment:
            _, _, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                timer.call()

    def _count(self, thread: Thread) -> None:
        """Let a step take its time. Raises LivelockError."""
        self.steps += 1
        self._moment += STEP_SECONDS
        thread.cpu_seconds += STEP_SECONDS
        if self._moment > self._second + 1.0:
            self._second, self._steps_before = self._moment, self.steps
        if self.steps - self._steps_before > STEPS_MAX:
            raise LivelockError(f"{thread.name} at {self._moment:.3f}")

    def _step(self) -> None:
        ready = self._ready
        thread = ready.pop(int(self._chance.random() * len(ready)) if len(ready) > 1 else 0)
        if thread.owner.frozen or thread.owner.ended:
            return
        self._count(thread)
        thread.is_woken = thread.is_waiting = False
        self.current = thread
        try:
            thread.go_on()
        finally:
            self.current = None
        if thread.done:
            for other in thread.joining:
                self.wake(other)
            thread.owner.thread_ended(thread)
