"""Answers of an API server: how large they may be, how long they may have us wait, their lines.

A proxy in between, or a server that is broken, may answer anything. What is beyond these bounds is
no answer, as if the connection had broken.
"""

import aiohttp
import msgspec

PAGE_MAX_BYTES = 2**27
"""128 MiB: a page of 500 objects is a few, unless tenants make objects of a megabyte each. Then
smaller pages are asked for."""
LIST_MAX_BYTES = 2**30
"""1 GiB: a list that is asked for in one piece."""
SHRINK = 8
"""By how much pages become smaller that were too large: each one that is costs its bound."""
WRITTEN_MAX_BYTES = 2**24
"""16 MiB: what a write is answered with, one object; etcd takes none above 1.5 MiB."""
LINE_MAX_BYTES = 2**25
"""32 MiB: one change in a watch."""
HEADERS_MAX_BYTES = 2**16
"""64 KiB: status line and headers."""
HEADERS_MAX = 128
HEADER_MAX_BYTES = 8190
"""One of them."""
MESSAGE_MAX = 4096
"""Characters of a message that are kept."""
VERSION_MAX = 256
"""Characters of a resourceVersion: a number."""
TOKEN_MAX = 8192
"""Characters of a continue token: a version and a key."""
RETRY_AFTER_MAX_SECONDS = 60.0
RETRY_AFTER_SECONDS = 1.0
"""Where nothing that makes sense is said."""

TOO_LARGE = "TooLarge"
"""The reason of the connection.Unavailable that an answer beyond its bound comes to."""

GARBAGE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What reading an answer raises that is no JSON, not what was expected, or nested too deeply."""


class TooLargeError(ConnectionError):
    """An answer beyond its bound; it isn't read to its end."""


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - the wire's name


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode_object = msgspec.json.Decoder(_Object).decode


async def body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """An answer's body. Raises TooLargeError where it has more bytes than that."""
    pieces: list[bytes] = []
    size = response.content_length or 0
    if size <= most:
        size = 0
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > most:
                break
            pieces.append(piece)
    if size > most:
        response.close()
        raise TooLargeError(f"an answer of more than {most} bytes")
    return b"".join(pieces)


class Lines:
    """Splits one stream, which comes in pieces, into its lines.

    Each byte is looked at once, however many pieces a line comes in.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.waiting_bytes = 0
        """How much of a line has come that isn't whole yet."""

    def take(self, piece: bytes) -> list[bytes]:
        """The lines that are whole with this piece."""
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
    """For how many seconds to leave a server alone that says so, by header or in its Status."""
    told = details or 0.0
    if header is not None and header.isascii() and header.isdecimal():
        told = float(header[:9])
    return min(told, RETRY_AFTER_MAX_SECONDS) if told > 0 else RETRY_AFTER_SECONDS


def smaller(page: int) -> int:
    """How many objects to ask for where a page of so many was too large; one at least."""
    return max(1, page // SHRINK)


def name_of(item: bytes | msgspec.Raw) -> str:
    """`namespace/name` of an object, for the log; empty where it has none."""
    metadata = _metadata(item)
    return f"{metadata.namespace}/{metadata.name}".lstrip("/")


def version_of(item: bytes) -> str:
    """The resourceVersion of the object that a write was answered with; empty where it has none."""
    return _metadata(item).resourceVersion


def _metadata(item: bytes | msgspec.Raw) -> _Metadata:
    try:
        return _decode_object(item).metadata
    except GARBAGE:
        return _Metadata()
