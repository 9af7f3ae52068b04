"""Requests that ask for leave at the last moment."""

from collections.abc import Callable

import aiohttp
from aiohttp import abc


class NotSentError(Exception):
    """Not sent: it may not be sent any more."""


class Body(aiohttp.BytesPayload):
    """A request's body that asks for leave when it is written to a connection.

    All that takes long lies before: a token from a file, a free connection, TLS. The headers are
    written with the body: without leave not a byte is sent, and the connection is closed.
    """

    def __init__(self, body: bytes, may_send: Callable[[], bool]) -> None:
        super().__init__(body)
        self._may_send = may_send
        self.withheld = False
        """Whether there was no leave. The client wraps what is raised here."""

    async def write_with_length(
        self, writer: abc.AbstractStreamWriter, content_length: int | None
    ) -> None:
        """Write it, or raise NotSentError."""
        if not self._may_send():
            self.withheld = True
            raise NotSentError
        await super().write_with_length(writer, content_length)
