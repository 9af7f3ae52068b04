"""Limits on API server responses (sizes, Retry-After), and splitting of streams into lines.

A proxy in between, or a broken server, may send anything. A response beyond these limits is treated
like a broken connection.
"""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import msgspec

PAGE_MAX_BYTES = 2**27
"""128 MiB. A page of 500 objects usually has a few MiB. When tenants create objects of a megabyte
each, smaller pages are requested."""
LIST_MAX_BYTES = 2**30
"""1 GiB: a list requested in one piece."""
SHRINK = 8
"""Factor by which the page size shrinks after a page beyond its limit. A large factor, because
every failed attempt reads up to the limit."""
WRITTEN_MAX_BYTES = 2**24
"""16 MiB: the answer to a write, a single object. etcd stores no object above 1.5 MiB."""
LINE_MAX_BYTES = 2**25
"""32 MiB: a single event of a watch."""
HEADERS_MAX = 128
HEADER_MAX_BYTES = 8190
"""A single header."""
MESSAGE_MAX = 4096
"""Maximum length of an error message, in characters."""
VERSION_MAX = 256
"""Maximum length of a resourceVersion, a number, in characters."""
TOKEN_MAX = 8192
"""Maximum length of a continue token (a version and a key), in characters."""
RETRY_AFTER_MAX_SECONDS = 60.0
RETRY_AFTER_SECONDS = 1.0
"""Used when the server names no valid time."""

SLACK_SECONDS = 1.0
"""How much later than the session a reader notices that nothing comes."""

TOO_LARGE = "TooLarge"
"""The reason of a connection.Unavailable raised for a response beyond its limit."""

GARBAGE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""Errors raised when decoding a body of invalid JSON, of unexpected structure, or nested too
deeply."""


class TooLargeError(ConnectionError):
    """A response exceeds its limit. The rest is not read."""


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - the wire's name


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode_object = msgspec.json.Decoder(_Object).decode


async def body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return a response's body.

    Raises TooLargeError above `most` bytes, and ConnectionError if the session is closed meanwhile.
    """
    pieces: list[bytes] = []
    size = response.content_length or 0
    if size <= most:
        size = 0
        while size <= most and (piece := await _piece(response)):
            size += len(piece)
            pieces.append(piece)
    if size > most:
        response.close()
        raise TooLargeError(f"an answer of more than {most} bytes")
    return b"".join(pieces)


async def chunks(
    response: aiohttp.ClientResponse, silence_seconds: float, gather_seconds: float
) -> AsyncIterator[bytes]:
    """Yield a response's chunks of bytes. After each chunk, reading pauses for `gather_seconds`.

    Raises ConnectionError if the session is closed meanwhile, as after the process was stopped for
    a while, and TimeoutError if nothing comes for much longer than `silence_seconds`. That is the
    read time-out of the session, which ends with its connections: aiohttp doesn't tell a reader
    who waits while they are closed.
    """
    while True:
        async with asyncio.timeout(silence_seconds + SLACK_SECONDS):
            chunk = await _piece(response)
        if not chunk:
            return
        yield chunk
        transport = response.connection and response.connection.transport
        if gather_seconds and transport:
            transport.pause_reading()  # without this, every packet would wake the event loop
            try:
                await asyncio.sleep(gather_seconds)
            finally:
                if not transport.is_closing():
                    transport.resume_reading()


async def _piece(response: aiohttp.ClientResponse) -> bytes:
    """Return what has come of a response meanwhile; nothing at its end.

    Raises ConnectionError if the session is closed.
    """
    try:
        return await response.content.readany()
    except RuntimeError as error:  # aiohttp: the connection is closed
        raise ConnectionError(str(error)) from error


class Lines:
    """Splits a stream of chunks into lines.

    Every byte is scanned once, however many chunks a line spans.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.waiting_bytes = 0
        """Bytes received of the incomplete last line."""

    def take(self, piece: bytes) -> list[bytes]:
        """Add a chunk and return all lines completed by the chunk."""
        end, *more = piece.split(b"\n")
        self._pieces.append(end)
        if not more:
            self.waiting_bytes += len(end)
            return []
        *lines, rest = b"".join(self._pieces), *more
        self._pieces = [rest]
        self.waiting_bytes = len(rest)
        return lines


def patience(header: str | None, details: float | None) -> float:
    """Return how many seconds to wait after a 429, from the Retry-After header or the Status."""
    seconds = details or 0.0
    if header is not None and header.isascii() and header.isdecimal():
        seconds = float(header[:9])
    return min(seconds, RETRY_AFTER_MAX_SECONDS) if seconds > 0 else RETRY_AFTER_SECONDS


def smaller(page: int) -> int:
    """Return the next page size after a page beyond its limit; at least 1."""
    return max(1, page // SHRINK)


def name_of(item: bytes | msgspec.Raw) -> str:
    """Return `namespace/name` of an object, for the log; empty when the object has no name."""
    metadata = _metadata(item)
    return f"{metadata.namespace}/{metadata.name}".lstrip("/")


def version_of(item: bytes) -> str:
    """Return the resourceVersion in the answer to a write; empty when the answer has none."""
    return _metadata(item).resourceVersion


def _metadata(item: bytes | msgspec.Raw) -> _Metadata:
    try:
        return _decode_object(item).metadata
    except GARBAGE:
        return _Metadata()
