"""Lists, page by page, and the first pages of lists requested before a reader exists."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated

import msgspec

from vscheduler.cluster.http import connection, responses
from vscheduler.cluster.http.connection import ApiError, Connection, Unavailable
from vscheduler.mirror.paths import METADATA, Path

PAGE_SIZE = 500
"""Objects on a page."""

LARGE_PAGE_SIZE = 4000
"""Objects on a page of a list that was too large for one piece."""

WHOLE_MAX_BYTES = 2**26
"""64 MiB: the largest list that is requested in one piece at first."""

EARLY_BYTES_MAX = 2**25
"""32 MiB: beyond this size of all early pages, no further page is requested early."""

CLOSE_SECONDS = 1.0

Version = Annotated[str, msgspec.Meta(max_length=responses.VERSION_MAX)]
Token = Annotated[str, msgspec.Meta(max_length=responses.TOKEN_MAX)]


class UnexpectedError(Unavailable):
    """The response is not the requested object or list."""


class Meta(msgspec.Struct):
    """The metadata of a list or an object."""

    resourceVersion: Version = ""  # noqa: N815 - the wire's name
    continue_: Token = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """A page of a list, or a whole list. Items are complete JSON, not decoded."""

    items: list[msgspec.Raw] | None
    metadata: Meta = msgspec.field(default_factory=Meta)
    kind: str = ""


_decode = msgspec.json.Decoder(Page).decode


def first_size(path: Path, page_size: int = PAGE_SIZE) -> int:
    """Return the page size to begin a list with: 0, in one piece, for custom resources.

    An API server answers a list in one piece from its cache, and often reads pages from etcd. For
    custom resources that costs it five times as much, since they are stored as JSON.
    """
    return 0 if path.is_custom else page_size


def smaller(size: int) -> int:
    """Return the next page size after an answer that was too large."""
    return responses.smaller(size) if size else LARGE_PAGE_SIZE


def most_bytes(size: int) -> int:
    """Return how large the answer to a request for so many objects may be."""
    return responses.PAGE_MAX_BYTES if size else WHOLE_MAX_BYTES


async def page(
    link: Connection,
    path: Path,
    size: int,
    token: str,
    most: int | None = None,
    *,
    metadata_only: bool = False,
) -> tuple[Page, int]:
    """Request one page of a list, and return it with its size in bytes; size 0 requests the rest in
    one piece.

    Raises connection.ApiError: with reason TOO_LARGE for more than `most` bytes (default:
    `most_bytes`), UnexpectedError if the answer is no such list.
    """
    query = {"limit": str(size), "continue": token}
    query = {name: value for name, value in query.items() if value not in ("", "0")}
    most = most_bytes(size) if most is None else most
    accept, kind = connection.JSON, path.kind
    if metadata_only or kind == METADATA:
        accept, kind = connection.METADATA_LIST, METADATA
    try:
        body = await link.call("GET", path.with_query(query), accept=accept, most_bytes=most)
        found = _decode(body)
    except responses.GARBAGE as error:
        raise UnexpectedError(f"not a list: {error}") from error
    if kind and found.kind != f"{kind}List":
        raise UnexpectedError(f"not a list of {kind}, but a {found.kind}")
    return found, len(body)


class EarlyPages:
    """First pages of lists, requested while the modules that read them are still imported.

    Every page is handed out once. Without an early page, or after a failed request, the reader
    requests the page itself.
    """

    def __init__(self, connection: Connection, wanted: Iterable[Path] = ()) -> None:
        """Request the first pages of these collections."""
        self._link = connection
        self._bytes = 0
        self._closed = False
        self._pages: Mapping[Path, dict[str, asyncio.Task[Page]]] = {path: {} for path in wanted}
        for path in self._pages:
            self._request(path, "")

    async def take(self, path: Path, size: int, token: str, most: int | None = None) -> Page:
        """Return the early page if there is one, else request the page.

        Raises connection.ApiError, as `page` does.
        """
        early = self._pages.get(path, {}).pop(token, None)
        if early is not None and size == first_size(path):
            try:
                with suppress(ApiError):
                    return await early
            finally:
                early.cancel()
        found, _ = await page(self._link, path, size, token, most)
        return found

    async def close(self) -> None:
        """Drop all pages that nobody took.

        Requests under way may take a moment to end: TLS reports an error of the event loop when a
        connection is closed during its handshake.
        """
        self._closed = True
        under_way = [task for early in self._pages.values() for task in early.values()]
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSE_SECONDS)
        for task in under_way:
            task.cancel()

    def _request(self, path: Path, token: str) -> None:
        task = asyncio.create_task(self._fetch(path, token), name=f"list {path} early")
        # Also retrieves the error of a page that nobody takes.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pages[path][token] = task

    async def _fetch(self, path: Path, token: str) -> Page:
        """Request a page, and then the next page, unless the early pages are too large."""
        found, size = await page(self._link, path, first_size(path), token)
        self._bytes += size
        following = found.metadata.continue_
        wanted = following not in ("", token) and not self._closed
        if wanted and self._bytes < EARLY_BYTES_MAX:
            self._request(path, following)
        return found
