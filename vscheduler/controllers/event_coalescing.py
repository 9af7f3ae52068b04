"""Coalescing of the PodGroup events that Kopf gets: the newest one of each queue.

Kopf takes about a millisecond of CPU for each event, whatever its handlers do, and most events of
PodGroups are writes of our own. The Mirror has every PodGroup, so to the Queue controller an event
of Kopf's only says that PodGroups of a queue have changed. Within a moment once is enough, as in a
work queue, where a key waits once however often it was added.

Kopf gets only the fields that it and the handler read: it decodes whole events to dicts and keeps
the last one of an object for seconds, and tenants make PodGroups of a megabyte.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import aiohttp
import msgspec

from vscheduler.mirror import paths

GATHER_SECONDS = 0.5
"""How long Kopf waits for further events after each look at what has arrived."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of text that is no event or list of PodGroups. Such text is left to Kopf as it is."""

OK = 200

DELETED = "DELETED"
CHANGES = frozenset({"ADDED", "MODIFIED", DELETED})


class _Struct(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What isn't declared is skipped, and what is missing stays missing."""


class _Metadata(_Struct, frozen=True):
    uid: str
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""


class _Spec(_Struct, frozen=True):
    queue: str = ""


class _Status(_Struct, frozen=True):
    phase: str = ""


class _PodGroup(_Struct, frozen=True):
    """The fields that Kopf and queue_objects.group read."""

    metadata: _Metadata
    api_version: str = ""
    kind: str = ""
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Event(_Struct, frozen=True):
    type: str
    object: _PodGroup


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_group = msgspec.json.Decoder(_PodGroup).decode
_decode_list = msgspec.json.Decoder(_List).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def fields_of(item: msgspec.Raw) -> dict[str, Any] | None:
    """Return a PodGroup of a list with the fields that Kopf and the handler read, or None if they
    have other types.
    """
    try:
        found: dict[str, Any] = msgspec.to_builtins(_decode_group(item))
    except UNREADABLE:
        return None
    return found


class EventCoalescing:
    """A middleware for a session with which Kopf lists and watches."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        """UIDs of the PodGroups that Kopf was told of since it listed them, and keeps in memory."""
        self._listed: set[str] = set()
        """Queues of which Kopf's last list had a PodGroup so far."""

    async def __call__(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request; coalesce the answer to a list or a watch of PodGroups."""
        response = await send(request)
        here = request.url.raw_path.endswith(paths.POD_GROUPS.everywhere)
        if here and response.status == OK:
            content: Body
            if "watch" in request.url.query:
                content = Watched(response.content, self)
            else:
                if "continue" not in request.url.query:
                    self._known.clear()
                    self._listed.clear()
                content = Listed(response.content, self)
            response.content = cast("aiohttp.StreamReader", content)
        return response

    def of_list(self, page: bytes) -> bytes:
        """Return a page of a list with one PodGroup of each queue that earlier pages lack, each
        with the fields that are read.
        """
        try:
            items, fields = _decode_list(page).items, _decode_fields(page)
            groups = [_decode_group(item) for item in items]
        except UNREADABLE:
            return page
        kept = []
        for group in groups:
            if group.spec.queue not in self._listed:
                self._listed.add(group.spec.queue)
                self._known.add(group.metadata.uid)
                kept.append(group)
        return msgspec.json.encode(fields | {"items": kept})

    def of_watch(self, lines: Iterable[bytes]) -> list[bytes]:
        """Return the lines of a watch that are the newest ones of a queue, in order, with the
        fields that are read.

        The last line is always among them, so Kopf resumes the watch behind all of them. A deletion
        is passed on if Kopf knows the PodGroup; otherwise Kopf would never forget it. What isn't an
        event of a PodGroup is passed on, too: bookmarks and errors.
        """
        read = [(line, _event(line)) for line in lines]
        newest = {event.object.spec.queue: line for line, event in read if event is not None}
        kept = []
        for line, event in read:
            if event is None:
                kept.append(line)
                continue
            group = event.object
            if newest[group.spec.queue] is line or self._forgets(event):
                kept.append(msgspec.json.encode(event))
                change = self._known.discard if event.type == DELETED else self._known.add
                change(group.metadata.uid)
        return kept

    def _forgets(self, event: _Event) -> bool:
        """Whether Kopf has to forget a PodGroup that it knows."""
        return event.type == DELETED and event.object.metadata.uid in self._known


class Body:
    """The body of an answer. All that isn't defined in a subclass is the body's own."""

    def __init__(self, content: aiohttp.StreamReader, coalescing: EventCoalescing) -> None:
        self._content = content
        self._coalescing = coalescing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)


class Listed(Body):
    """The body of a list."""

    async def read(self, most: int = -1) -> bytes:
        """Return the whole body, with fewer PodGroups."""
        assert most == -1, "Kopf reads lists as a whole"
        return self._coalescing.of_list(await self._content.read())


class Watched(Body):
    """The body of a watch."""

    async def iter_chunked(self, most: int) -> AsyncIterator[bytes]:
        """Iterate over the body with fewer events, and at most one piece in GATHER_SECONDS."""
        rest = b""
        async for chunk in self._content.iter_chunked(most):
            *lines, rest = (rest + chunk).split(b"\n")
            if kept := self._coalescing.of_watch(filter(None, lines)):
                yield b"".join(line + b"\n" for line in kept)
            await asyncio.sleep(GATHER_SECONDS)
        if rest:
            yield rest


def _event(line: bytes) -> _Event | None:
    """Return the event in a line of a watch; None for any other line."""
    try:
        event = _decode_event(line)
    except UNREADABLE:
        return None
    return event if event.type in CHANGES else None
