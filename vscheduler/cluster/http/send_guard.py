"""Request bodies that ask for permission at the last moment before sending, and are sent once."""

from collections.abc import Callable

import aiohttp
from aiohttp import abc


class NotSentError(Exception):
    """The request was not sent, because sending is no longer permitted."""


class Body(aiohttp.BytesPayload):
    """A request body that asks `may_send` when the body is written to a connection.

    All slow steps come before: waiting for a free connection, the TLS handshake.
    Headers are written together with the body. Without permission, no byte is sent and the
    connection is closed.

    aiohttp would send a PUT or DELETE again when a keep-alive connection breaks. The first may have
    been executed; the second would then get a Conflict, as if somebody else had written the object.
    """

    def __init__(self, body: bytes, may_send: Callable[[], bool] | None) -> None:
        super().__init__(body)
        self._may_send = may_send
        self.withheld = False
        """Whether permission was refused. Callers need the flag because aiohttp wraps exceptions
        raised here."""

    async def write_with_length(
        self, writer: abc.AbstractStreamWriter, content_length: int | None
    ) -> None:
        """Write the body, or raise NotSentError."""
        if self._may_send is not None and not self._may_send():
            self.withheld = True
            raise NotSentError
        if self._consumed:
            raise ConnectionError("written before")
        self._consumed = True  # keeps aiohttp from repeating the request
        await super().write_with_length(writer, content_length)
