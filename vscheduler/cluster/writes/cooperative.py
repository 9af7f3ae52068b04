"""So that no turn of the event loop takes long, however much there is to do at once."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

Piece = TypeVar("Piece", bytes, msgspec.Raw)

SLICE = 10
"""Objects that are read before others have a turn in the event loop: about a millisecond's worth.
"""

SLICE_BYTES = 65_536
"""How large they are together, at most, but for one that is larger by itself."""

TURN_SECONDS = 0.004
"""About how much may be done in one turn."""

TURNS_MAX = 4
"""How many turns somebody gives way at most, so that everybody goes on however busy others are."""


class CooperativeYield:
    """Shared by all whose work together is to take no longer; they ask before each piece of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        """When the first of them asked in this turn."""

    async def give_way(self) -> None:
        """Go on at once in a turn that has just begun, else in one of the next."""
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
    """So much at a time that others don't wait long for their turn."""
    begin = size = 0
    for at, item in enumerate(items):
        more = len(memoryview(item))
        if at - begin == SLICE or (at > begin and size + more > SLICE_BYTES):
            yield items[begin:at]
            begin, size = at, 0
        size += more
    if begin < len(items):
        yield items[begin:]
