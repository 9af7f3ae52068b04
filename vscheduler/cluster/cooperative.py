"""Cooperative multitasking: keeps iterations of the event loop short under load."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

Piece = TypeVar("Piece", bytes, msgspec.Raw)

SLICE = 10
"""How many objects are decoded before other tasks get a turn: about a millisecond of work."""

SLICE_BYTES = 65_536
"""Maximum size of a slice, unless a single object is larger."""

TURN_SECONDS = 0.004
"""Roughly how much work may be done in one iteration of the event loop."""

TURNS_MAX = 4
"""How many iterations a task gives way at most, so that every task makes progress under load."""


class CooperativeYield:
    """A time budget for each iteration of the event loop, shared by several tasks.

    Tasks call give_way before each piece of work.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        """When the first task asked in the current iteration."""

    async def give_way(self) -> None:
        """Return at once if the iteration has time left, else wait for a later iteration."""
        for _ in range(TURNS_MAX):
            now = self._clock()
            if self._began is None:
                self._began = now
                asyncio.get_running_loop().call_soon(self._end)
            if now - self._began < TURN_SECONDS:
                return
            await asyncio.sleep(0)

    def _end(self) -> None:
        self._began = None


def slices(items: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """Split items into parts small enough that other tasks get their turn soon."""
    begin = size = 0
    for at, item in enumerate(items):
        more = len(memoryview(item))
        if at - begin == SLICE or (at > begin and size + more > SLICE_BYTES):
            yield items[begin:at]
            begin, size = at, 0
        size += more
    if begin < len(items):
        yield items[begin:]
