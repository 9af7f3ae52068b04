"""The thread that runs cycles, and measurement of the delay that cycles cause in the event loop.

Cycles share the interpreter with the event loop. Nobody waits for the thread to end: neither a
cancelled caller while a cycle runs, nor the process at its end. Very small cycles run in the event
loop itself (daemon.small_cycles).
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar, cast

from vscheduler.daemon.liveness.progress import Cycles

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
