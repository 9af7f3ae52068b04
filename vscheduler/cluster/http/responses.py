"""Limits on API server responses (sizes, Retry-After), and splitting of streams into lines.

A proxy in between, or a broken server, may send anything. A response beyond these limits is treated
like a broken connection.
"""

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
MESSAGE_MAX = 4096
"""Maximum length of an error message, in characters."""
UNAUTHORIZED = 401
VERSION_MAX = 256
"""Maximum length of a resourceVersion, a number, in characters."""
TOKEN_MAX = 8192
"""Maximum length of a continue token (a version and a key), in characters."""
RETRY_AFTER_MAX_SECONDS = 60.0
RETRY_AFTER_SECONDS = 1.0
"""Used when the server names no valid time."""

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
