"""History of jobs for visitors of the page: what ran in their namespaces, and how much was used.

Queries run in other threads, one at a time, and a tenant may ask for a few a minute: they cost more
than all other answers.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from vscheduler.history import documents
from vscheduler.history.documents import Document
from vscheduler.history.queries import EVERYTHING, STEPS_MAX, By, Filter, Reader, Visible
from vscheduler.history.records import JobState
from vscheduler.history.schema import HistoryError
from vscheduler.web import allowances
from vscheduler.web.access import Populated
from vscheduler.web.allowances import Attempts
from vscheduler.web.cluster_view import View
from vscheduler.web.documents import Access

JOBS_MAX = 1000
"""How many jobs one answer has at most."""

VALUES_MAX = 100
"""How many values a filter names at most."""

QUERY_SECONDS = 5.0
"""How long a query may take."""

KEPT_SECONDS = 60.0
"""How long the namespaces are kept."""

BURST = 60
PER_SECOND = 1.0
"""How many queries a tenant may ask for at once, and how many more each second."""

STEP_LEAST = 10
DAY_SECONDS = 86_400

NONE_KEPT = "This scheduler keeps no history of jobs: --history-file would say where."
TOO_OFTEN = "These are too many questions about the history; try again in a minute."
BUSY = "The history can't be read now; the scheduler's log may tell why."
SLOW = "This takes too long; ask about less time."

T = TypeVar("T")


class NoHistoryError(Exception):
    """No history is kept. The message is a sentence."""


class BadQueryError(Exception):
    """A parameter makes no sense. The message is a sentence."""


class UnreadableError(Exception):
    """The history can't be read now. The message is a sentence."""


class OftenError(Exception):
    """The tenant asks too often. The message is a sentence."""


Parameters = Mapping[str, Sequence[str]]
"""The values of each parameter of a request."""


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
        reader, now = self._for(access), int(self._clock())
        limit = _number(given, "limit", 100, JOBS_MAX)
        states = [_state(text) for text in _several(given, "state")]
        try:
            before = documents.place(_one(given, "before", ""))
        except ValueError as error:
            raise BadQueryError(str(error)) from None
        wanted = Filter(
            visible=_visible(access, given),
            since=self._instant(given, "since", "0"),
            until=self._instant(given, "until", str(now + 1)),
            queues=_several(given, "queue"),
            users=_several(given, "user"),
            owners=_several(given, "owner"),
            names=_several(given, "name"),
            states=states,
        )
        found = await self._ask(lambda: reader.jobs(wanted, now, limit=limit, before=before))
        return documents.jobs_of(found, limit, now)

    async def report(self, access: Access, given: Parameters) -> Document:
        """Return sums over the namespaces that the visitor may see."""
        reader, now, by = self._for(access), int(self._clock()), _by(given)
        wanted = self._part(access, given, now)
        found = await self._ask(lambda: reader.report(by, wanted, now))
        return documents.report(found, by, wanted.since, wanted.until)

    async def usage(self, access: Access, given: Parameters) -> Document:
        """Return use over time. Whoever may list queues sees all of their use, as their status
        tells; all else is about the namespaces that the visitor may see.
        """
        reader, now, by = self._for(access), int(self._clock()), _by(given)
        wanted = self._part(access, given, now)
        if by is By.QUEUE and access.queues and not _several(given, "namespace"):
            wanted = Filter(since=wanted.since, until=wanted.until, queues=wanted.queues)
        span = max(1, wanted.until - wanted.since)
        step = _number(given, "step", max(STEP_LEAST, span // 200), 1 << 40)
        if step < STEP_LEAST or span / step > STEPS_MAX:
            raise BadQueryError(
                f"step is in seconds, at least {STEP_LEAST}, and there are at most {STEPS_MAX}"
            )
        found = await self._ask(lambda: reader.usage(by, wanted, step, now))
        return documents.usage(found, by, step)

    def _for(self, access: Access) -> Reader:
        """Return the reader for a visitor. Raises NoHistoryError and OftenError."""
        if self._reader is None:
            raise NoHistoryError(NONE_KEPT)
        if not self._asked.spend(allowances.tenant_of(access.name)):
            raise OftenError(TOO_OFTEN)
        return self._reader

    def _part(self, access: Access, given: Parameters, now: int) -> Filter:
        since = self._instant(given, "since", "1d")
        until = min(now, self._instant(given, "until", str(now)))
        if since >= until:
            raise BadQueryError("since must be before until, and in the past")
        return Filter(
            visible=_visible(access, given),
            since=since,
            until=until,
            queues=_several(given, "queue"),
            users=_several(given, "user"),
        )

    def _instant(self, given: Parameters, name: str, default: str) -> int:
        try:
            return documents.instant(_one(given, name, default), self._clock())
        except ValueError as error:
            raise BadQueryError(f"{name}: {error}") from None

    async def _ask(self, query: Callable[[], T]) -> T:
        """Run a query in another thread. Raises UnreadableError."""
        async with self._turn:
            try:
                return await asyncio.to_thread(query)
            except TimeoutError:
                raise UnreadableError(SLOW) from None
            except HistoryError:
                raise UnreadableError(BUSY) from None
            except sqlite3.Error:
                raise UnreadableError(BUSY) from None


def _visible(access: Access, given: Parameters) -> Visible:
    """Return the namespaces that are asked for and that the visitor may see."""
    seen = Visible(volcano=access.groups_in, native=access.native_in)
    namespaces = _several(given, "namespace")
    if seen == EVERYTHING and not namespaces:
        return EVERYTHING
    return seen.within(namespaces) if namespaces else seen


def _several(given: Parameters, name: str) -> Sequence[str]:
    found = given.get(name, ())
    if len(found) > VALUES_MAX:
        raise BadQueryError(f"{name} has more than {VALUES_MAX} values")
    return found


def _one(given: Parameters, name: str, default: str) -> str:
    found = given.get(name, ())
    return found[0] if found else default


def _number(given: Parameters, name: str, default: int, most: int) -> int:
    text = _one(given, name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= 12 and int(text)):
        raise BadQueryError(f"{name} is no number above 0")
    return min(int(text), most)


def _by(given: Parameters) -> By:
    text = _one(given, "by", By.QUEUE)
    if text not in set(By):
        raise BadQueryError(f"by is none of {', '.join(By)}")
    return By(text)


def _state(text: str) -> JobState:
    found = {state.lower(): state for state in JobState}.get(text.lower())
    if found is None:
        raise BadQueryError(f"state is none of {', '.join(JobState)}")
    return found
