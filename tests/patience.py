"""Waiting in tests: until something is so, never for a duration that a slow machine would need
longer than. Whoever waits for what never becomes so fails after `SECONDS`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

SECONDS = 90.0
"""Many times what anything takes on an idle machine: only a test that fails waits so long."""
TURNS = 30
"""What stays the same in so many turns of the event loop is at rest."""

Found = TypeVar("Found")


def nothing() -> str:
    """What there is to tell, or to check, where nobody says."""
    return ""


def late(told: Callable[[], object]) -> str:
    """What a test says that has waited in vain."""
    return f"not so after {SECONDS:.0f} s: {told()}"


async def until(
    done: Callable[[], Found],
    *,
    told: Callable[[], object] = nothing,
    every_seconds: float = 0.005,
) -> Found:
    """Wait until something is so, while the event loop goes on. Gives what was found."""
    deadline = time.monotonic() + SECONDS
    while not (found := done()):
        assert time.monotonic() < deadline, late(told)
        await asyncio.sleep(every_seconds)
    return found


async def until_at_rest(seen: Callable[[], object], seconds: float = 0.15) -> None:
    """Wait until what is seen has been the same for so long, and for many turns of the event loop.

    A duration alone doesn't tell: a process that was held up finds that it is over before anybody
    had a turn.
    """
    deadline = time.monotonic() + SECONDS
    before, same = seen(), 0
    while same < TURNS:
        assert time.monotonic() < deadline, late(seen)
        await asyncio.sleep(seconds / TURNS)
        now = seen()
        before, same = now, same + 1 if now == before else 0


def wait_until(
    done: Callable[[], Found],
    *,
    check: Callable[[], object] = nothing,
    told: Callable[[], object] = nothing,
    every_seconds: float = 0.05,
) -> Found:
    """Wait until something is so, with a check before each look. Gives what was found."""
    deadline = time.monotonic() + SECONDS
    while not (found := done()):
        check()
        assert time.monotonic() < deadline, late(told)
        time.sleep(every_seconds)
    return found
