"""The thread that runs cycles, and measurement of the delay that cycles cause in the event loop.

Cycles share the interpreter with the event loop. Nobody waits for the thread to end: neither a
cancelled caller while a cycle runs, nor the process at its end. Very small cycles run in the event
loop itself: see SmallCycles.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Generic, TypeVar, cast

from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.daemon.liveness.progress import Cycles
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import Snapshot

T = TypeVar("T")

LAG_TICK_SECONDS = 0.01


class FailedError(Exception):
    """The function raised an exception of any kind, even SystemExit or CancelledError."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error


class CycleThread:
    """Runs one function at a time, from `start` to `stop`."""

    def __init__(self, cycles: Cycles) -> None:
        self._cycles = cycles
        self._waiting: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        self.worked_seconds = 0.0
        """CPU time of the last function that returned, not counting other threads."""

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._live, name="cycle", daemon=True).start()

    def stop(self) -> None:
        """Run nothing more, without waiting for a running function."""
        self._waiting.put(None)

    async def run(self, function: Callable[[], T]) -> T:
        """Run the function in the thread and return its result. Raises FailedError."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Outcome[T]] = loop.create_future()

        def take(outcome: _Outcome[T]) -> None:
            if not answer.done():  # otherwise the caller was cancelled
                answer.set_result(outcome)

        def piece() -> None:
            outcome = self._called(number, function)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(take, outcome)

        number = self._cycles.handed_on()
        self._waiting.put(piece)
        return self._answer(await answer)

    def run_here(self, function: Callable[[], T]) -> T:
        """Run the function in the calling thread, with all else as in `run`."""
        return self._answer(self._called(self._cycles.handed_on(), function))

    def _called(self, number: int, function: Callable[[], T]) -> "_Outcome[T]":
        """Call the function as the cycle of this number."""
        self._cycles.begun(number)
        began = time.thread_time()
        try:
            value = function()
            return _Outcome(value=value, worked_seconds=time.thread_time() - began)
        except BaseException as error:  # noqa: BLE001 - SystemExit must not end the thread
            return _Outcome(error=error)
        finally:
            self._cycles.ended(number)

    def _answer(self, outcome: "_Outcome[T]") -> T:
        if outcome.error is not None:
            raise FailedError(outcome.error) from outcome.error
        self.worked_seconds = outcome.worked_seconds
        return cast("T", outcome.value)

    def _live(self) -> None:
        while (piece := self._waiting.get()) is not None:
            piece()


_Piece = Callable[[], None]


class _Outcome(Generic[T]):
    """Result of a function: a value or an error."""

    def __init__(
        self,
        *,
        value: T | None = None,
        error: BaseException | None = None,
        worked_seconds: float = 0.0,
    ) -> None:
        self.value = value
        self.error = error
        self.worked_seconds = worked_seconds


@contextmanager
def noting_loop_lag(note: Callable[[float], None]) -> Iterator[None]:
    """Measure the delay of the event loop during the block, a hundred times a second, in seconds.

    A delay still present at the end of the block is reported, too. Outside of the block nothing
    runs.
    """
    loop = asyncio.get_running_loop()
    due: float
    handle: asyncio.TimerHandle

    def begin() -> tuple[float, asyncio.TimerHandle]:
        return time.monotonic() + LAG_TICK_SECONDS, loop.call_later(LAG_TICK_SECONDS, tick)

    def tick() -> None:
        nonlocal due, handle
        note(max(0.0, time.monotonic() - due))
        due, handle = begin()

    due, handle = begin()
    try:
        yield
    finally:
        handle.cancel()
        late = time.monotonic() - due
        if late > 0:
            note(late)


UNITS_MAX = 2_000
"""About as long as other tasks may keep the event loop busy, with the cost of an empty cycle, which
is not counted."""

SECONDS_MAX = 0.008
"""After a cycle with more CPU time, whatever was counted, the next one runs in the thread."""

OURS = "vscheduler."
"""Modules of the built-in plugins and actions."""


class SmallCycles:
    """Predicts for each cycle whether it is small, and runs it where it belongs.

    A cycle in a thread of its own leaves the event loop free, but both share one interpreter.
    Handing it over costs several times what a cycle costs that starts a single pod, most of all on
    a busy machine. So a cycle that is expected to be as cheap as the last one runs in the event
    loop, within a fixed number of counted units. A cycle that turns out to cost more is given up,
    and decided anew in the thread: the decisions are the same. Plugins and actions of other
    packages may wait or never end, so with any of them all cycles run in the thread.
    """

    def __init__(self, observe_lag: Callable[[float], None]) -> None:
        """`observe_lag` receives the delays of the event loop while cycles run in the thread."""
        self._observe_lag = observe_lag
        self._last_was_small = False

    async def run(
        self,
        thread: CycleThread,
        snapshot: Snapshot,
        policy: Policy,
        budget: int | None,
    ) -> CycleResult:
        """Run a cycle: here if it is small, else in the thread. Raises cycle_thread.FailedError."""
        result = None
        arguments = snapshot, policy, budget
        if self.expects(policy):
            result = thread.run_here(partial(cycle.run_small_cycle, *arguments, most=UNITS_MAX))
        if result is None:
            with noting_loop_lag(self._observe_lag):
                result = await thread.run(partial(cycle.run_cycle, *arguments))
        self.ended(result.spent, thread.worked_seconds)
        return result

    def expects(self, policy: Policy) -> bool:
        """Whether the next cycle, with this policy, is to run in the event loop."""
        return self._last_was_small and policy.memo("is ours", partial(_is_ours, policy))

    def ended(self, units: int, cpu_seconds: float) -> None:
        """Record what a cycle has cost."""
        self._last_was_small = units <= UNITS_MAX and cpu_seconds <= SECONDS_MAX


def _is_ours(policy: Policy) -> bool:
    plugins = [setting.plugin for setting in policy.settings]
    actions = [setting.action for setting in policy.actions]
    return all(each.__module__.startswith(OURS) for each in (*plugins, *actions))
