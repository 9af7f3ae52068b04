"""Virtual time for event loops that wait for nothing but timers: tests of asynchronous code with
neither sockets nor threads. What lasts for minutes takes no time, and a slow machine is not late.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def running_on(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let the clock stand still while the loop has work, and jump to the next timer when not."""
    now = time.monotonic()
    selector: Any = loop._selector  # type: ignore[attr-defined]  # asyncio's own loops have one
    select = selector.select

    def jump(timeout: float | None) -> object:
        nonlocal now
        if timeout is None:  # nothing is due: only another thread or a signal can go on
            return select(None)
        found = select(0)
        if not found:
            now += max(0.0, timeout)
        return found

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(selector, "select", jump)
        patches.setattr(time, "monotonic", lambda: now)
        yield
