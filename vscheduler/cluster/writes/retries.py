"""Retries while the API server is busy or unreachable, and the logging of failed writes."""

import asyncio
from collections.abc import Callable

import structlog

from vscheduler.backoff import Growth
from vscheduler.cluster.http import connection, objects
from vscheduler.cluster.http.connection import (
    ApiError,
    Conflict,
    Connection,
    NotFound,
    Throttled,
    Unavailable,
)
from vscheduler.cluster.http.objects import Object
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.mirror.paths import Path

log = structlog.get_logger(__name__)

ATTEMPTS = 4
"""How often a throttled call, or a read after an unanswered call, is tried."""

PAUSE_MAX_SECONDS = 5.0

LOOKS = Growth(first_seconds=1.0, longest_seconds=PAUSE_MAX_SECONDS)
"""Pauses between attempts to read an object."""


async def post(link: Connection, path: str, body: bytes, may_commit: Callable[[], bool]) -> bytes:
    """Send a POST, and send again while the API server is too busy (429), up to ATTEMPTS times.
    Return the body of the answer.

    `may_commit` is asked before each attempt, and again when the bytes are written. Raises
    connection.ApiError, Throttled after the last attempt, and pool.NotSentError.
    """
    return await _send(link, ("POST", path, connection.JSON), body, may_commit)


async def merge(link: Connection, path: str, body: bytes, may_commit: Callable[[], bool]) -> bytes:
    """Send a merge patch like `post`, and return the body of the answer."""
    return await _send(link, ("PATCH", path, connection.MERGE_PATCH), body, may_commit)


async def delete(link: Connection, path: str, body: bytes, may_commit: Callable[[], bool]) -> bytes:
    """Send a DELETE like `post`, and return the body of the answer."""
    return await _send(link, ("DELETE", path, connection.JSON), body, may_commit)


async def _send(
    connection: Connection,
    call: tuple[str, str, str],
    body: bytes,
    may_commit: Callable[[], bool],
) -> bytes:
    method, path, content_type = call
    for left in reversed(range(ATTEMPTS)):
        if not may_commit():
            raise NotSentError
        try:
            return await connection.call(
                method, path, body, content_type=content_type, may_send=may_commit
            )
        except Throttled as error:
            if not left:
                raise
            await asyncio.sleep(min(error.retry_after_seconds, PAUSE_MAX_SECONDS))
    raise AssertionError("the last attempt returns or raises")


async def get(connection: Connection, path: Path) -> Object:
    """Read an object, with retries while the API server does not answer.

    Raises connection.ApiError: Unavailable or Throttled after the last attempt.
    """
    attempt = 0
    while True:
        try:
            return await objects.get(connection, path)
        except (Unavailable, Throttled):
            attempt += 1
            if attempt == ATTEMPTS:
                raise
            await asyncio.sleep(LOOKS.after(attempt))


class WriteErrors:
    """Counts failed writes that only report a state, and logs each kind of failure once.

    Scheduling continues without such writes.
    """

    def __init__(self, observe: Callable[[str, str], None]) -> None:
        self._observe = observe
        self._logged: set[tuple[str, str]] = set()

    def failed(self, written: str, error: ApiError, about: str) -> bool:
        """Count a failed write, log the first of each kind, and return whether a retry makes sense.

        `written` is the kind of write, `about` the object's key. A deleted object, or a namespace
        being deleted, is not logged: nobody made a mistake.
        """
        kind = type(error).__name__
        self._observe(written, kind.lower())
        again = isinstance(error, Conflict | Throttled | Unavailable)
        if not again and not isinstance(error, NotFound):
            if (written, kind) not in self._logged:
                log.warning("write.failed", write=written, object=about, message=str(error))
            self._logged.add((written, kind))
        return again
