"""Writes that say how things are: one waits per object, the newest, and not too often."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from functools import partial

from vscheduler.cluster.http import send_guard
from vscheduler.cluster.writes import write_queue

Write = Callable[[], Awaitable[None]]

DOUBLINGS_MAX = 6
"""How often a key's rest doubles, while its writes raise what nobody expects."""


class Outbox:
    """What is to be written, by key (say, one PodGroup's status).

    A write that waits is replaced by a newer one of its key. After a write the key rests for
    `spacing_seconds`, so that a count that goes up by one twenty times is written once or twice.
    """

    def __init__(
        self, queue: write_queue.Lanes, lane: write_queue.Lane, *, spacing_seconds: float
    ) -> None:
        self._lanes = queue
        self._lane = lane
        self._spacing_seconds = spacing_seconds
        self._waiting: dict[Hashable, Write] = {}
        self._busy: set[Hashable] = set()
        """Keys in their lane, under way, or at rest."""
        self._failures: dict[Hashable, int] = {}
        """How often in a row a key's write has raised."""

    def offer(self, key: Hashable, write: Write) -> None:
        """Write this as soon as it is the key's turn."""
        self._waiting[key] = write
        self._queue(key)

    def offer_later(self, key: Hashable, write: Write) -> None:
        """Write this after a rest of the key, unless something newer is to be written by then."""
        self._waiting[key] = write
        if key not in self._busy:
            self._busy.add(key)
            self._rest(key)

    def offer_again(self, key: Hashable, write: Write) -> None:
        """Write this after the key's rest, unless something newer waits."""
        self._waiting.setdefault(key, write)

    def withdraw(self, key: Hashable) -> None:
        """There is nothing to write any more."""
        self._waiting.pop(key, None)
        self._failures.pop(key, None)

    def _queue(self, key: Hashable) -> None:
        # A lane that is full is tried again after the rest.
        if key in self._busy:
            return
        self._busy.add(key)
        if not self._lanes.put(self._lane, partial(self._write, key)):
            self._rest(key)

    async def _write(self, key: Hashable) -> None:
        write = self._waiting.pop(key, None)
        if write is None:
            self._busy.discard(key)
            return
        piece = self._lanes.failures.contained("write", str(key))
        try:
            with piece, suppress(send_guard.WithheldError):  # what isn't sent any more is over
                await write()
        finally:
            if piece.failed:
                self._failures[key] = self._failures.get(key, 0) + 1
                self._waiting.setdefault(key, write)
            else:
                self._failures.pop(key, None)
            self._rest(key)

    def _rest(self, key: Hashable) -> None:
        doubled = 2.0 ** min(self._failures.get(key, 0), DOUBLINGS_MAX)
        seconds = self._spacing_seconds * doubled
        asyncio.get_running_loop().call_later(seconds, self._rested, key)

    def _rested(self, key: Hashable) -> None:
        self._busy.discard(key)
        if key in self._waiting:
            self._queue(key)
