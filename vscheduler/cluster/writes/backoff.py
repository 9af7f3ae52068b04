"""Calls that wait out an API server that is busy, for as long as they may be made at all."""

import asyncio
from collections.abc import Callable

from vscheduler.cluster.http import connection, objects, send_guard
from vscheduler.mirror import paths

ATTEMPTS = 4
"""How often a throttled call is made, and an unanswered one looked after."""

PAUSE_MAX_SECONDS = 5.0


async def post(
    link: connection.Connection, path: str, body: bytes, may_commit: Callable[[], bool]
) -> None:
    """Send this; where the server is too busy, again, as often and as late as is reasonable.

    Whether we may commit is asked before each attempt, and again when its bytes are written.
    Raises connection.ApiError, Throttled after the last attempt, and guarding.WithheldError.
    """
    for left in reversed(range(ATTEMPTS)):
        if not may_commit():
            raise send_guard.WithheldError
        try:
            await link.call("POST", path, body, may_send=may_commit)
        except connection.Throttled as error:
            if not left:
                raise
            await asyncio.sleep(min(error.retry_after_seconds, PAUSE_MAX_SECONDS))
        else:
            return


async def get(link: connection.Connection, path: paths.Path) -> objects.Object:
    """An object, from a server that may need a moment to come back.

    Raises connection.ApiError: Unavailable or Throttled after the last attempt.
    """
    attempt = 0
    while True:
        try:
            return await objects.get(link, path)
        except (connection.Unavailable, connection.Throttled):
            attempt += 1
            if attempt == ATTEMPTS:
                raise
            await asyncio.sleep(min(2.0 ** (attempt - 1), PAUSE_MAX_SECONDS))
