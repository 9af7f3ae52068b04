"""Server-sent events: which sections of the page have changed.

A stream carries numbers of versions only, and the page asks for what it shows. So a slow reader
gets the latest numbers when it reads again, and nothing piles up.

Each visitor has versions of its own, which change with what the visitor may see. The versions of a
view change with the jobs of all namespaces, and would tell a visitor when others submit, start and
end theirs. Visitors with equal rights have equal versions.
"""

import asyncio
import secrets
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from aiohttp import web
from msgspec.structs import replace

from vscheduler.web import cluster_view, documents
from vscheduler.web.access import ReviewError, TooOftenError, UnknownTokenError
from vscheduler.web.allowances import Allowance, Holders
from vscheduler.web.cluster_view import JobRow, View
from vscheduler.web.documents import Access

STREAMS = Allowance(visitor=8, tenant=24, everybody=100)
TICK_SECONDS = 0.1
"""How often a stream asks for news."""

BEAT_SECONDS = 15.0
"""How often a stream says something at least, so that dead connections are found."""

WRITE_SECONDS = 10.0
"""How long a reader may keep the server from writing."""

ViewOf = Callable[[Access], Awaitable[cluster_view.View]]
"""Returns the latest view, with the versions of a visitor."""

Authorize = Callable[[], Awaitable[Access]]

KINDS_MAX = 200
"""How many kinds of visitors are told apart; versions of others begin anew."""

FIRST_MAX = 2**40
"""Versions begin anywhere, so that they tell nothing of the past. JavaScript counts up to 2^53."""

Rights = tuple[frozenset[str] | None, frozenset[str] | None, bool, bool]
Sections = Mapping[str, object]
Rows = Sequence[JobRow]


class Streams:
    """All open streams."""

    def __init__(self) -> None:
        self._closing = asyncio.Event()
        self._holders = Holders(STREAMS)

    @property
    def count(self) -> int:
        """How many streams are open."""
        return self._holders.count

    def close(self) -> None:
        """End all streams at once."""
        self._closing.set()

    @contextmanager
    def entered(self, visitor: str) -> Iterator[None]:
        """Count a stream during the block. Raises allowances.TooManyError."""
        self._holders.take(visitor)
        try:
            yield
        finally:
            self._holders.give_back(visitor)

    async def serve(self, response: web.StreamResponse, view: ViewOf, authorize: Authorize) -> None:
        """Send versions whenever they change, until the visitor leaves or loses the right to look.

        `authorize` returns what the visitor may see at that moment; its errors end the stream, with
        a sentence.
        """
        sent: dict[str, int] = {}
        before: Access | None = None
        rights, quiet = 0, 0.0
        while not self._closing.is_set():
            try:
                now = await authorize()
            except UnknownTokenError:
                await _send(response, "end", {"message": "Your token isn't valid any more."})
                return
            except (ReviewError, TooOftenError) as error:
                await _send(response, "pause", {"message": str(error)})
                return
            rights += before is not None and now != before
            before = now
            versions = {**documents.versions(await view(now)), "access": rights}
            quiet += TICK_SECONDS
            if versions != sent:
                await _send(response, "versions", versions)
                sent, quiet = versions, 0.0
            elif quiet >= BEAT_SECONDS:
                await _write(response, b": still here\n\n")
                quiet = 0.0
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), TICK_SECONDS)
        await _send(response, "pause", {"message": "This instance of the scheduler ends."})


async def _send(response: web.StreamResponse, event: str, data: dict[str, Any]) -> None:
    text = msgspec.json.encode(data)
    await _write(response, b"event: %s\ndata: %s\n\n" % (event.encode(), text))


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(data)


class _Known(msgspec.Struct, kw_only=True):
    """What visitors with the same rights have seen last."""

    stamp: object
    """Of the view."""
    sections: Sections
    versions: dict[str, int]


class VisitorVersions:
    """Remembers what visitors have seen."""

    def __init__(self) -> None:
        self._known: OrderedDict[Rights, _Known] = OrderedDict()
        self._stamp: object = None
        self._rows: Mapping[str, Rows] = {}
        """Jobs of the view with that stamp, by namespace."""

    def of(self, view: View, access: Access) -> View:
        """Return the view with the versions of this visitor."""
        rights = (access.groups_in, access.native_in, access.queues, access.nodes)
        stamp = (view.time, *view.versions.values())
        known = self._known.get(rights)
        if known is None:
            sections = self._seen(view, access, stamp)
            versions = {name: secrets.randbelow(FIRST_MAX) for name in sections}
            known = _Known(stamp=stamp, sections=sections, versions=versions)
            self._known[rights] = known
        elif known.stamp != stamp:
            sections = self._seen(view, access, stamp)
            changed = [name for name in sections if sections[name] != known.sections[name]]
            for name in changed:
                known.versions[name] += 1
            known.stamp, known.sections = stamp, sections
        self._known.move_to_end(rights)
        while len(self._known) > KINDS_MAX:
            self._known.popitem(last=False)
        return replace(view, versions=dict(known.versions))

    def _seen(self, view: View, access: Access, stamp: object) -> Sections:
        """Return what the visitor may see of each section."""
        rows: Iterable[JobRow] = view.job_rows
        if access.namespaces is not None:
            if self._stamp != stamp:
                self._stamp, self._rows = stamp, _by_namespace(view.job_rows)
            there = sorted(access.namespaces)
            rows = (row for namespace in there for row in self._rows.get(namespace, ()))
        return {
            "instance": view.instance,
            "queues": view.queue_rows if access.queues else (),
            "jobs": tuple(_seen_row(row, access) for row in rows if access.sees(row.key)),
            "decisions": tuple(
                decision for decision in view.decisions if access.sees(decision.job)
            ),
            "fairness": view.samples if access.queues else (),
            "nodes": view.capacity if access.queues or access.nodes else None,
        }


def _by_namespace(rows: Rows) -> Mapping[str, Rows]:
    found: defaultdict[str, list[JobRow]] = defaultdict(list)
    for row in rows:
        found[row.namespace].append(row)
    return found


def _seen_row(row: JobRow, access: Access) -> JobRow:
    if row.place is not None and not access.sees_places:
        row = replace(row, place=None)
    if row.nodes and not access.nodes:
        row = replace(row, nodes=tuple(("", pods) for _, pods in row.nodes))
    return row
