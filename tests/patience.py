"""Waiting in tests: until something is so, never for a time that a slow machine would exceed."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

SECONDS = 50.0
"""Many times what anything takes within a process on an idle machine: only a test that fails waits
so long. Less than the minute after which much is tried again."""
PROCESSES_SECONDS = 120.0
"""The same for daemons and control planes, which take seconds to start."""
TURNS = 30
"""What stays the same in so many turns of the event loop is at rest."""
POLLS_SECONDS = 0.5
"""Between two looks at what is expected to stay the same."""

Found = TypeVar("Found")


def nothing() -> str:
    """What there is to tell, or to check, where nobody says."""
    return ""


async def until(
    done: Callable[[], Found],
    *,
    seconds: float = SECONDS,
    told: Callable[[], object] = nothing,
    every_seconds: float = 0.005,
) -> Found:
    """Wait until something is so, while the event loop goes on. Gives what was found."""
    deadline = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < deadline, _late(seconds, told)
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
        assert time.monotonic() < deadline, _late(SECONDS, seen)
        await asyncio.sleep(seconds / TURNS)
        now = seen()
        before, same = now, same + 1 if now == before else 0


def wait_until(
    done: Callable[[], Found],
    *,
    check: Callable[[], object] = nothing,
    told: Callable[[], object] = nothing,
    longest_seconds: float = 0.15,
) -> Found:
    """Wait until other processes make something so, with a check before each further look.

    Looks cost these processes time, so what takes long is looked at less often. Gives what was
    found.
    """
    deadline, pause = time.monotonic() + PROCESSES_SECONDS, 0.02
    while not (found := done()):
        check()
        assert time.monotonic() < deadline, _late(PROCESSES_SECONDS, told)
        time.sleep(pause)
        pause = min(1.3 * pause, longest_seconds)
    return found


def wait_until_at_rest(
    seen: Callable[[], object], seconds: float, *, check: Callable[[], object] = nothing
) -> None:
    """Wait until what is seen has been the same for so long."""
    deadline = time.monotonic() + PROCESSES_SECONDS
    before, since = seen(), time.monotonic()
    while time.monotonic() - since < seconds:
        check()
        assert time.monotonic() < deadline, _late(PROCESSES_SECONDS, seen)
        time.sleep(min(POLLS_SECONDS, seconds))
        if (now := seen()) != before:
            before, since = now, time.monotonic()


def _late(seconds: float, told: Callable[[], object]) -> str:
    return f"not so after {seconds:.0f} s: {told()}"
