"""List + watch: what the API server shows, as events for the Mirror, in order.

One Reflector per kind. It lists, follows from there, and resumes at the last resourceVersion it saw
when the connection ends. When that version is too old (410) it lists anew, and what isn't in the
list is gone. All pods are followed, finished ones too: with a field selector that leaves them out,
a pod that finishes would look deleted, and jobs count their succeeded and failed pods.

Watches are short. A connection that stays open and carries nothing looks like a quiet cluster, but
for the end of the watch and the bookmark before it, which come from the server in time.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec
import structlog

from vscheduler import backoff, containment
from vscheduler.cluster.http import connection, responses
from vscheduler.cluster.writes import cooperative
from vscheduler.mirror import paths

log = structlog.get_logger(__name__)

Event = TypeVar("Event")
Read = TypeVar("Read")

UNAUTHORIZED = 401


class Codec(Protocol[Event, Read]):
    """How objects of one kind become events. Items are JSON, whole and well-formed."""

    def read(self, items: Sequence[msgspec.Raw]) -> list[Read]:
        """Some objects of a list."""

    def begin(self, found: Sequence[Read]) -> list[Event]:
        """Some objects of the first list, as they were read: there is more to come."""

    def replace(self, found: Sequence[Read]) -> list[Event]:
        """A whole list, as it was read: what isn't in it is gone."""

    def change(self, kind: str, item: bytes) -> list[Event]:
        """One object that is ADDED, MODIFIED or DELETED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How patient a watch is. Seconds."""

    page_size: int = 500
    watch_seconds: float = 16.0
    """The server ends a watch after this time, up to a quarter longer, so that not all end at once.
    It sends a bookmark two seconds before."""
    silence_seconds: float = 24.0
    """A connection that is silent for longer than any watch takes is dead."""
    moment_seconds: float = 2.0
    """A watch that was heard of within this time isn't overtaken, but busy."""
    gather_seconds: float = 0.0
    """How long changes may wait after others, to be read with those that come meanwhile: to be
    woken costs more than to read one."""
    retry_seconds: float = 0.25
    """First pause after a failure; it doubles up to retry_max_seconds."""
    retry_max_seconds: float = 30.0
    at_once_seconds: float = 1.0
    """A watch that ends sooner has failed, whatever it says."""
    absent_max_seconds: float = 5.0
    """Longest pause while the API itself is missing: its CRD may be installed any moment."""


Version = Annotated[str, msgspec.Meta(max_length=responses.VERSION_MAX)]
Token = Annotated[str, msgspec.Meta(max_length=responses.TOKEN_MAX)]


class _Meta(msgspec.Struct):
    resourceVersion: Version = ""  # noqa: N815 - the wire's name
    continue_: Token = msgspec.field(default="", name="continue")


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _List(msgspec.Struct):
    metadata: _Meta
    kind: str = ""
    items: list[msgspec.Raw] | None = None


class _Change(msgspec.Struct):
    type: str
    object: _Object
    """Of the object only its version: it is decoded by its codec."""


class _RawChange(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_list = msgspec.json.Decoder(_List).decode
_decode_change = msgspec.json.Decoder(_Change).decode
_decode_raw_change = msgspec.json.Decoder(_RawChange).decode


class Reflector(Generic[Event]):
    """Follows one kind for ever."""

    def __init__(  # noqa: PLR0913 - whom it asks, what about, and whom it tells
        self,
        link: connection.Connection,
        path: paths.Path,
        codec: Codec[Event, Any],
        sink: Callable[[list[Event]], None],
        *,
        pace: Pace,
        chance: random.Random,
        failures: containment.Failures | None = None,
    ) -> None:
        self._contained = failures or containment.Failures()
        self._link = link
        self._path = path
        self._codec = codec
        self._sink = sink
        self._pace = pace
        self._chance = chance
        self._version = ""
        self._failures = 0
        self._size = pace.page_size
        self._open: asyncio.Timeout | None = None
        self.heard_at = time.monotonic()
        """When the API server last said anything of this kind: time.monotonic()."""
        self.listed = asyncio.Event()
        """Set when the first list has been handed on, or the first one after `forget`."""
        self.ever_listed = False
        self.relists = 0
        self.reconnects = 0
        self.problem: connection.ApiError | None = None
        """Why nothing comes in; None: it does, or nobody has tried yet."""
        self.problem_since = 0.0
        """When the first of the failures in a row was, by the monotonic clock."""

    @property
    def path(self) -> paths.Path:
        """The collection that is followed."""
        return self._path

    def _hear(self) -> None:
        """Something came in: a page of a list, a watch that is open, a part of it."""
        self.heard_at = time.monotonic()
        self.problem = None

    def forget(self) -> None:
        """Where it is run next, begin with a list."""
        self._version = ""
        self.listed.clear()

    def overtake(self) -> bool:
        """Something newer is known than this has shown: unless it was heard of a moment ago, go on
        from the last version over another connection. Whether it does.
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
        """List and watch for ever; errors of the API server are logged and waited out."""
        listed_at = 0.0
        while True:
            try:
                if not self._version:
                    await self._list()
                    listed_at = time.monotonic()
                await self._follow()
                self._failures = 0
                self.reconnects += 1
            except connection.Gone as error:
                log.info("watch.expired", path=self._path, message=str(error))
                self._version = ""
                if time.monotonic() - listed_at < self._pace.at_once_seconds:
                    await self._pause(error)
            except connection.ApiError as error:
                await self._pause(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the rest is followed on
                self._version = ""
                self._contained.failed("watch", self._path, error)
                await self._pause(connection.Unavailable(f"{type(error).__name__}: {error}"))

    async def _list(self) -> None:
        """The newest state, in pages.

        No resourceVersion is asked for: any older state could show pods unbound that are bound.
        When the list changes under the continue token for too long, it is taken in one piece.
        Where a page is too large, pages are smaller from then on.
        """
        try:
            version, found = await self._pages(self._size)
        except connection.Gone:
            version, found = await self._pages(0)
        except connection.Unavailable as error:
            if error.reason == responses.TOO_LARGE:
                self._size = responses.smaller(self._size)
            raise
        self._sink(self._codec.replace(found))
        self._version = version
        self.relists += self.listed.is_set()
        self.listed.set()
        self.ever_listed = True
        log.info("watch.listed", path=self._path, objects=len(found), version=version)

    async def _pages(self, size: int) -> tuple[str, list[Any]]:
        """All pages, as the codec reads them; the server makes the next one meanwhile.

        None is kept as it came: of a pod's four thousand bytes few are read.
        """
        found: list[Any] = []
        token = ""
        ahead = asyncio.create_task(self._page(size, ""))
        try:
            while True:
                page = await ahead
                self._hear()
                if page.metadata.continue_ == token != "":
                    raise connection.Unavailable("the list never ends")
                token = page.metadata.continue_
                if token:
                    ahead = asyncio.create_task(self._page(size, token))
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
        """Some objects of a list, without those that the codec fails at."""
        try:
            return self._codec.read(items)
        except UnicodeDecodeError as error:  # no API server writes that
            raise connection.Unavailable(f"not a list: {error}") from error
        except Exception as error:  # noqa: BLE001 - one object hides no other
            if len(items) == 1:
                self._contained.failed(
                    "object", f"{self._path} {responses.name_of(items[0])}", error
                )
                return []
            return [each for item in items for each in self._read_some([item])]

    async def _page(self, size: int, token: str) -> _List:
        query = {"limit": str(size), "continue": token}
        query = {name: value for name, value in query.items() if value not in ("", "0")}
        path = self._path.with_query(query)
        most = responses.PAGE_MAX_BYTES if size else responses.LIST_MAX_BYTES
        try:
            page = _decode_list(await self._link.call("GET", path, most_bytes=most))
        except responses.GARBAGE as error:
            raise connection.Unavailable(f"not a list: {error}") from error
        if self._path.kind and page.kind != f"{self._path.kind}List":
            raise connection.Unavailable(f"not a list of {self._path.kind}, but a {page.kind}")
        if not page.metadata.resourceVersion:
            raise connection.Unavailable("a list without a version")
        return page

    async def _follow(self) -> None:
        """Hand on changes from the last version on, until the server ends the watch."""
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
        except TimeoutError:  # it was overtaken
            return
        finally:
            self._open = None
        if time.monotonic() - started < self._pace.at_once_seconds:
            raise connection.Unavailable("the watch ended at once")

    async def _read_lines(self, path: paths.Path) -> None:
        """Hand on what one watch says, until it ends."""
        pace = self._pace
        async with self._link.stream(
            path, silence_seconds=pace.silence_seconds, gather_seconds=pace.gather_seconds
        ) as chunks:
            self._hear()
            text = responses.Lines()
            async for chunk in chunks:
                self._hear()
                whole = text.take(chunk)
                if text.waiting_bytes > responses.LINE_MAX_BYTES:
                    raise connection.Unavailable("a change without an end")
                for number, some in enumerate(cooperative.slices(whole)):
                    if number:
                        await asyncio.sleep(0)
                    self._hand_on(some)

    def _hand_on(self, some: Sequence[bytes]) -> None:
        """One batch of lines; an error among them ends the watch after those before it."""
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
        """One line of a watch."""
        try:
            change = _decode_change(line)
            if change.type == "ERROR":
                raise connection.error_of(0, bytes(_decode_raw_change(line).object))
            events: list[Event] = []
            if change.type != "BOOKMARK":
                events = self._changed(change.type, _item(change.type, line))
        except responses.GARBAGE as error:
            self._version = ""  # what it said is lost: list anew
            raise connection.Unavailable(f"not a watch event: {error}") from error
        self._version = change.object.metadata.resourceVersion
        return events

    def _changed(self, kind: str, item: bytes) -> list[Event]:
        """One object; none where the codec fails at it."""
        try:
            return self._codec.change(kind, item)
        except UnicodeDecodeError:  # no API server writes that
            raise
        except Exception as error:  # noqa: BLE001 - one object hides no other
            self._contained.failed("object", f"{self._path} {responses.name_of(item)}", error)
            return []

    async def _pause(self, error: connection.ApiError) -> None:
        """Wait before the next attempt."""
        if self.problem is None:
            self.problem_since = time.monotonic()
        self.problem = error
        seconds = pause(self._pace, error, self._failures, self._chance)
        self._failures += 1
        event = "watch.absent" if isinstance(error, connection.NotFound) else "watch.failed"
        log.warning(event, path=self._path, message=str(error), retry_in_seconds=round(seconds, 2))
        if error.status == UNAUTHORIZED:
            await self._link.wait_for_credentials(seconds)
        else:
            await asyncio.sleep(seconds)


def _item(kind: str, line: bytes) -> bytes:
    """The object in a line of a watch.

    It is cut out where the line is written as API servers write it, which saves a second look at
    all of it.
    """
    before = b'{"type":"%s","object":' % kind.encode()
    if line.startswith(before) and line.endswith(b"}"):
        return line[len(before) : -1]
    return _decode_raw_change(line).object


def pause(pace: Pace, error: connection.ApiError, failures: int, chance: random.Random) -> float:
    """Seconds to wait after so many failures in a row: longer each time, with chance in it."""
    longest = pace.retry_max_seconds
    if isinstance(error, connection.NotFound):
        longest = pace.absent_max_seconds
    growth = backoff.Growth(first_seconds=pace.retry_seconds, longest_seconds=longest)
    seconds = growth.after(failures + 1)
    seconds *= 0.5 + chance.random() / 2
    if isinstance(error, connection.Throttled):
        seconds = max(seconds, error.retry_after_seconds)
    return seconds
