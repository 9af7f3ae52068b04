"""Reflector: list and watch of the API server, as an ordered stream of events for the Mirror.

Each watched kind has its own Reflector. A Reflector lists the objects, watches from the list's
resourceVersion, and resumes at the last resourceVersion seen when the connection ends. When the
resourceVersion is too old (410 Gone), the Reflector lists again, and objects missing from the new
list count as deleted. The watch covers all pods, including finished pods: under a field selector
without finished pods, a pod would appear deleted as soon as the pod finishes, and jobs count their
succeeded and failed pods.

Watches are short. A dead connection looks like a quiet cluster, except for the bookmark and the end
of the watch, both of which the server sends on time.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import structlog

from vscheduler.backoff import Growth
from vscheduler.cluster import cooperative
from vscheduler.cluster.http import connection, lists, responses
from vscheduler.cluster.http.connection import (
    ApiError,
    Connection,
    Gone,
    NotFound,
    Throttled,
    Unavailable,
)
from vscheduler.cluster.http.lists import EarlyPages, Meta
from vscheduler.cluster.http.responses import Lines
from vscheduler.containment import Failures
from vscheduler.mirror import paths
from vscheduler.mirror.paths import METADATA, Path

log = structlog.get_logger(__name__)

Event = TypeVar("Event")
Read = TypeVar("Read")


class Codec(Protocol[Event, Read]):
    """Turns objects of one kind into events. Items are complete, well-formed JSON."""

    def read(self, items: Sequence[msgspec.Raw]) -> list[Read]:
        """Decode some objects of a list."""

    def begin(self, found: Sequence[Read]) -> list[Event]:
        """Return the events for a part of the first list, before the list is complete."""

    def replace(self, found: Sequence[Read]) -> list[Event]:
        """Return the events for a complete list: objects missing from the list are deleted."""

    def change(self, kind: str, item: bytes) -> list[Event]:
        """Return the events for one object that was ADDED, MODIFIED or DELETED."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Timing of lists and watches, in seconds."""

    page_size: int = lists.PAGE_SIZE
    watch_seconds: float = 16.0
    """Timeout of a watch, set by the server. Up to a quarter is added at random, so that not all
    watches end at the same time. A quiet watch may get nothing at all, not even a bookmark."""
    silence_seconds: float = 24.0
    """A connection silent for longer than the longest watch is dead."""
    moment_seconds: float = 2.0
    """A watch with data within this time is busy rather than stalled, and is not restarted."""
    gather_seconds: float = 0.0
    """How long received changes may wait, so that several are read together: waking the event loop
    costs more than decoding one change."""
    retry_seconds: float = 0.25
    """First pause after a failure; the pause doubles up to retry_max_seconds."""
    retry_max_seconds: float = 30.0
    at_once_seconds: float = 1.0
    """A watch that ends sooner than this counts as failed, even without an error."""
    absent_max_seconds: float = 5.0
    """Longest pause while the API itself is missing: its CRD may be installed at any moment."""


class _Object(msgspec.Struct):
    metadata: Meta = msgspec.field(default_factory=Meta)


class _Change(msgspec.Struct):
    type: str
    object: _Object
    """Only the version of the object is decoded here. The codec decodes the rest."""


class _RawChange(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_change = msgspec.json.Decoder(_Change).decode
_decode_raw_change = msgspec.json.Decoder(_RawChange).decode


class Reflector(Generic[Event]):
    """Lists and watches one kind for ever."""

    def __init__(  # noqa: PLR0913 - the connection, the collection, and the receiver of events
        self,
        connection: Connection,
        path: Path,
        codec: Codec[Event, Any],
        sink: Callable[[list[Event]], None],
        *,
        pace: Pace,
        chance: random.Random,
        failures: Failures | None = None,
        early: EarlyPages | None = None,
    ) -> None:
        """`early` may have pages of the first list."""
        self._contained = failures or Failures()
        self._link = connection
        self._early = early or EarlyPages(connection)
        self._path = path
        self._codec = codec
        self._sink = sink
        self._pace = pace
        self._chance = chance
        self._version = ""
        self._failures = 0
        self._size = lists.first_size(path, pace.page_size)
        self._open: asyncio.Timeout | None = None
        self.heard_at = time.monotonic()
        """When the API server last sent anything about this kind, by time.monotonic()."""
        self.current_at = self.heard_at
        """The same, but for watches that were only opened: nothing may ever come through them."""
        self.listed = asyncio.Event()
        """Set once the first list was passed on to the sink; `forget` clears the event."""
        self.ever_listed = False
        self.relists = 0
        self.reconnects = 0
        self.problem: ApiError | None = None
        """The error of the last failed attempt. None while data comes in, and before the first
        attempt."""
        self.unserved = False
        """Whether the API server doesn't serve the kind, as far as it has answered."""
        self.problem_since = 0.0
        """When the current row of failures began, by time.monotonic()."""

    @property
    def path(self) -> Path:
        """The watched collection."""
        return self._path

    def _mark_alive(self) -> None:
        """Record a sign of life: a page of a list, an opened watch, or a chunk of a watch."""
        self.heard_at = time.monotonic()
        self.problem = None

    def _mark_current(self) -> None:
        """Record a sign of life that an opened watch alone isn't."""
        self._mark_alive()
        self.unserved = False
        self.current_at = self.heard_at

    def forget(self) -> None:
        """Start the next run with a list."""
        self._version = ""
        self.listed.clear()

    def overtake(self) -> bool:
        """Restart a watch that lags behind a newer version known to the caller.

        A watch with data within the last `moment_seconds` is left alone. Otherwise the watch
        resumes from the last version over a new connection. Return whether the watch was restarted.
        """
        silent = time.monotonic() - self.heard_at
        if self._open is None or silent < self._pace.moment_seconds:
            return False
        log.info("watch.overtaken", path=self._path, silent_seconds=round(silent, 1))
        self._link.doubt()
        self._open.reschedule(asyncio.get_running_loop().time())
        self._open = None
        return True

    async def run(self) -> None:
        """List and watch for ever.

        Errors of the API server are logged and retried after a pause.
        """
        listed_at = 0.0
        while True:
            try:
                if not self._version:
                    await self._list()
                    listed_at = time.monotonic()
                await self._follow()
                self._failures = 0
                self.reconnects += 1
            except Gone as error:
                log.info("watch.expired", path=self._path, message=str(error))
                self._version = ""
                if time.monotonic() - listed_at < self._pace.at_once_seconds:
                    await self._pause(error)
            except ApiError as error:
                if isinstance(error, NotFound):  # once the kind is served again, all may differ
                    self._version = ""
                await self._pause(error)
            except Exception as error:  # noqa: BLE001 - a defect must not end the watch
                self._version = ""
                self._contained.failed("watch", self._path, error)
                await self._pause(Unavailable(f"{type(error).__name__}: {error}"))

    async def _list(self) -> None:
        """List the newest state, in pages, and pass the objects on.

        The request names no resourceVersion, because an older state could show bound pods as
        unbound. When the continue token expires, the list is repeated in one piece. When a page is
        too large, or a list in one piece, later pages are smaller.
        """
        try:
            version, found = await self._pages(self._size)
        except Gone:
            version, found = await self._pages(0, responses.LIST_MAX_BYTES)
        except Unavailable as error:
            if error.reason == responses.TOO_LARGE:
                self._size = lists.smaller(self._size)
            raise
        self._sink(self._codec.replace(found))
        self._version = version
        self.relists += self.listed.is_set()
        self.listed.set()
        self.ever_listed = True
        log.info("watch.listed", path=self._path, objects=len(found), version=version)

    async def _pages(self, size: int, most: int | None = None) -> tuple[str, list[Any]]:
        """Return the list's version and all objects, as decoded by the codec.

        The next page is requested while the current page is decoded. No raw page is kept: the codec
        needs only a few of a pod's four thousand bytes.
        """
        found: list[Any] = []
        token = ""
        ahead = asyncio.create_task(self._early.take(self._path, size, "", most))
        try:
            while True:
                page = await ahead
                self._mark_current()
                if not page.metadata.resourceVersion:
                    raise Unavailable("a list without a version")
                if page.metadata.continue_ == token != "":
                    raise Unavailable("the list never ends")
                token = page.metadata.continue_
                if token:
                    ahead = asyncio.create_task(self._early.take(self._path, size, token, most))
                items = page.items or []
                for some in cooperative.slices(items):
                    read = self._read_some(some)
                    if not self.ever_listed and (begun := self._codec.begin(read)):
                        self._sink(begun)
                    found += read
                    await asyncio.sleep(0)
                if not token:
                    return page.metadata.resourceVersion, found
        finally:
            ahead.cancel()

    def _read_some(self, items: Sequence[msgspec.Raw]) -> list[Any]:
        """Decode some objects of a list, leaving out objects on which the codec fails."""
        try:
            return self._codec.read(items)
        except UnicodeDecodeError as error:  # no API server sends invalid UTF-8
            raise Unavailable(f"not a list: {error}") from error
        except Exception as error:  # noqa: BLE001 - one bad object must not hide the others
            if len(items) == 1:
                self._contained.failed(
                    "object", f"{self._path} {responses.name_of(items[0])}", error
                )
                return []
            return [each for item in items for each in self._read_some([item])]

    async def _follow(self) -> None:
        """Pass on changes since the last version until the server ends the watch."""
        seconds = self._pace.watch_seconds * (1 + self._chance.random() / 4)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(round(seconds)),
        }
        started = time.monotonic()
        try:
            async with asyncio.timeout(None) as self._open:
                await self._read_lines(self._path.with_query(query))
                self.current_at = time.monotonic()  # the server has ended a quiet watch in time
        except TimeoutError:  # `overtake` restarts the watch
            return
        finally:
            self._open = None
        if time.monotonic() - started < self._pace.at_once_seconds:
            raise Unavailable("the watch ended at once")

    async def _read_lines(self, path: Path) -> None:
        """Pass on the changes of one watch until the watch ends."""
        pace = self._pace
        async with self._link.stream(
            path,
            accept=connection.METADATA_WATCH if path.kind == METADATA else connection.JSON,
            silence_seconds=pace.silence_seconds,
            gather_seconds=pace.gather_seconds,
        ) as chunks:
            self._mark_alive()
            text = Lines()
            async for chunk in chunks:
                self._mark_current()
                whole = text.take(chunk)
                if text.waiting_bytes > responses.LINE_MAX_BYTES:
                    raise Unavailable("a change without an end")
                for number, some in enumerate(cooperative.slices(whole)):
                    if number:
                        await asyncio.sleep(0)
                    self._hand_on(some)

    def _hand_on(self, some: Sequence[bytes]) -> None:
        """Pass on one batch of lines.

        After an error, the lines before the error are still passed on.
        """
        events: list[Event] = []
        try:
            for line in some:
                if line:
                    events += self._read(line)
        finally:
            if events:
                self._sink(events)
        self._failures = 0

    def _read(self, line: bytes) -> list[Event]:
        """Return the events of one line of a watch."""
        try:
            change = _decode_change(line)
            if change.type == "ERROR":
                raise connection.error_of(0, bytes(_decode_raw_change(line).object))
            events: list[Event] = []
            if change.type != "BOOKMARK":
                events = self._changed(change.type, _item(change.type, line))
        except responses.GARBAGE as error:
            self._version = ""  # the change is lost, so only a new list is complete
            raise Unavailable(f"not a watch event: {error}") from error
        self._version = change.object.metadata.resourceVersion
        return events

    def _changed(self, kind: str, item: bytes) -> list[Event]:
        """Return the events of one object; no events when the codec fails on the object."""
        try:
            return self._codec.change(kind, item)
        except UnicodeDecodeError:  # no API server sends invalid UTF-8
            raise
        except Exception as error:  # noqa: BLE001 - one bad object must not hide the others
            self._contained.failed("object", f"{self._path} {responses.name_of(item)}", error)
            return []

    async def _pause(self, error: ApiError) -> None:
        """Wait before the next attempt. That a kind isn't served is logged once: many never are."""
        if self.problem is None:
            self.problem_since = time.monotonic()
        absent = isinstance(error, NotFound)
        known = absent and isinstance(self.problem, NotFound)
        self.problem = error
        if not isinstance(error, Unavailable | Throttled):  # they say nothing of the kind
            self.unserved = absent
        seconds = pause(self._pace, error, self._failures, self._chance)
        self._failures += 1
        if not known:
            event = "watch.absent" if absent else "watch.failed"
            pause_seconds = round(seconds, 2)
            message = str(error)
            if absent and f"/{paths.VOLCANO}/" in self._path:
                message = f"{message}: {paths.CRDS}"
            log_it = log.warning
            if absent and self._path in paths.OPTIONAL_PATHS:  # nothing is wrong with the cluster
                log_it, message = log.info, f"{message}: clusters needn't serve it"
            log_it(event, path=self._path, message=message, retry_in_seconds=pause_seconds)
        if error.status == responses.UNAUTHORIZED:
            await self._link.wait_for_credentials(seconds)
        else:
            await asyncio.sleep(seconds)


def _item(kind: str, line: bytes) -> bytes:
    """Return the object in a line of a watch.

    A line in the API server's usual form is sliced, which saves decoding the line a second time.
    """
    before = b'{"type":"%s","object":' % kind.encode()
    if line.startswith(before) and line.endswith(b"}"):
        return line[len(before) : -1]
    return _decode_raw_change(line).object


def pause(pace: Pace, error: ApiError, failures: int, chance: random.Random) -> float:
    """Return the pause in seconds after this many failures in a row: growing, with jitter."""
    absent = isinstance(error, NotFound)
    longest = pace.absent_max_seconds if absent else pace.retry_max_seconds
    growth = Growth(first_seconds=pace.retry_seconds, longest_seconds=longest)
    seconds = growth.after(failures + 1) * (0.5 + chance.random() / 2)
    if isinstance(error, Throttled):
        seconds = max(seconds, error.retry_after_seconds)
    return seconds
