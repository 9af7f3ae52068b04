"""History of jobs for visitors of the page: what ran in their namespaces, and how much was used.

Queries run in other threads, one at a time, and a tenant may ask for a few a minute: they cost more
than all other answers.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from vscheduler.history import answers
from vscheduler.history.answers import Parameters
from vscheduler.history.documents import Document
from vscheduler.history.queries import Reader, Visible
from vscheduler.history.schema import HistoryError
from vscheduler.web import allowances
from vscheduler.web.access import Populated
from vscheduler.web.allowances import Attempts
from vscheduler.web.cluster_view import View
from vscheduler.web.documents import Access

QUERY_SECONDS = 5.0
"""How long a query may take."""

KEPT_SECONDS = 60.0
"""How long the namespaces are kept."""

BURST = 60
PER_SECOND = 1.0
"""How many queries a tenant may ask for at once, and how many more each second."""

NONE_KEPT = "This scheduler keeps no history of jobs: it runs without --history-file."
TOO_OFTEN = "These are too many questions about the history; try again in a minute."
BUSY = "The history can't be read now; the scheduler's log may tell why."
SLOW = "This takes too long; ask about less time."

T = TypeVar("T")


class NoHistoryError(Exception):
    """No history is kept. The message is a sentence."""


class UnreadableError(Exception):
    """The history can't be read now. The message is a sentence."""


class OftenError(Exception):
    """The tenant asks too often. The message is a sentence."""


class JobHistory:
    """Answers about the history. Belongs to the page's event loop."""

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        """`path` is the file of the history; None: none is kept."""
        self._reader = None if path is None else Reader(path, seconds=QUERY_SECONDS)
        self._clock = clock
        self._turn = asyncio.Semaphore(1)
        self._asked = Attempts(burst=BURST, per_second=PER_SECOND)
        self._there = Populated(all=frozenset())
        self._there_until = 0.0

    async def populated(self, view: View) -> Populated:
        """Return the namespaces that have or had jobs: about them, rights are asked."""
        before = await self._namespaces()
        return Populated(
            all={*view.namespaces, *before.all},
            native={*view.native_namespaces, *before.native},
        )

    async def _namespaces(self) -> Populated:
        if self._reader is not None and time.monotonic() > self._there_until:
            self._there_until = time.monotonic() + KEPT_SECONDS
            try:
                every, native = await self._ask(self._reader.namespaces)
                self._there = Populated(all=every, native=native)
            except UnreadableError:
                pass  # as before; whoever asks for more is told
        return self._there

    async def jobs(self, access: Access, given: Parameters) -> Document:
        """Return jobs that the visitor may see, the latest first."""
        reader = self._for(access)
        return await self._ask(lambda: answers.jobs(reader, _seen(access), given, self._clock()))

    async def report(self, access: Access, given: Parameters) -> Document:
        """Return sums over the namespaces that the visitor may see."""
        reader = self._for(access)
        return await self._ask(lambda: answers.report(reader, _seen(access), given, self._clock()))

    async def usage(self, access: Access, given: Parameters) -> Document:
        """Return use over time. Whoever may list queues sees all of their use, as their status
        tells; all else is about the namespaces that the visitor may see.
        """
        reader, seen = self._for(access), _seen(access)
        return await self._ask(
            lambda: answers.usage(reader, seen, given, self._clock(), queues=access.queues)
        )

    def _for(self, access: Access) -> Reader:
        """Return the reader for a visitor. Raises NoHistoryError and OftenError."""
        if self._reader is None:
            raise NoHistoryError(NONE_KEPT)
        if not self._asked.spend(allowances.tenant_of(access.name)):
            raise OftenError(TOO_OFTEN)
        return self._reader

    async def _ask(self, query: Callable[[], T]) -> T:
        """Run a query in another thread. Raises UnreadableError."""
        async with self._turn:
            try:
                return await asyncio.to_thread(query)
            except TimeoutError:
                raise UnreadableError(SLOW) from None
            except (HistoryError, sqlite3.Error):
                raise UnreadableError(BUSY) from None


def _seen(access: Access) -> Visible:
    return Visible(volcano=access.groups_in, native=access.native_in)
