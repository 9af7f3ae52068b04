"""How late the event loop is while a cycle runs, which shares the interpreter with it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TICK_SECONDS = 0.01


@contextmanager
def noted(note: Callable[[float], None]) -> Iterator[None]:
    """Note, every hundredth of a second of the block, how many seconds late that was.

    What is late still when the block ends is noted, too. Outside it nothing ticks.
    """
    loop = asyncio.get_running_loop()
    due: float
    handle: asyncio.TimerHandle

    def begin() -> tuple[float, asyncio.TimerHandle]:
        return time.monotonic() + TICK_SECONDS, loop.call_later(TICK_SECONDS, tick)

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
