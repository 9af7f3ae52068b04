"""What controllers ask of the API server; the daemon answers for it.

They know no connection: every call goes through `Api`, and what the server refuses comes back as
one RefusedError that says what kind of trouble it is.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from vscheduler.mirror import paths

Object: TypeAlias = dict[str, Any]
"""An object as plain data, as JSON has it."""

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML."""


class Trouble(StrEnum):
    """Why a call came to nothing; the values are for metrics."""

    CONFLICT = "conflict"
    """A precondition (UID, resourceVersion) doesn't hold."""
    EXISTS = "exists"
    """The name is taken."""
    MISSING = "missing"
    """There is no such object, or no such API."""
    FORBIDDEN = "forbidden"
    """We may not."""
    INVALID = "invalid"
    """The request can't be right, however often it is sent; or admission refuses it."""
    THROTTLED = "throttled"
    """The server is too busy."""
    UNANSWERED = "unanswered"
    """No clear answer: what was asked may have been done or not."""
    WITHHELD = "withheld"
    """Not sent: we may not write any more."""


LASTING = frozenset({Trouble.FORBIDDEN, Trouble.INVALID})
"""A quota, a policy or a webhook has refused it, and will again."""


class RefusedError(Exception):
    """The call came to nothing; the message is the server's."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble = trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """Which object, in which version, a delete is meant for."""

    uid: str
    resource_version: str | None = None
    """None: any version of that object."""


class Api(Protocol):
    """Calls to the API server. Each raises RefusedError, and nothing else."""

    async def get(self, path: paths.Path) -> Object:
        """The object at this path, as it is stored now."""

    async def list(
        self,
        path: paths.Path,
        params: Mapping[str, str] | None = None,
        *,
        metadata_only: bool = False,
    ) -> list[Object]:
        """All objects of a collection as they are stored now; or of each only its metadata."""

    async def create(self, path: paths.Path, body: Object) -> Object:
        """Create an object in a collection; as it is stored."""

    async def patch(
        self,
        path: paths.Path,
        body: Object,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """Change an object; as it is stored then."""

    async def delete(self, path: paths.Path, preconditions: Preconditions) -> None:
        """Delete that very object: CONFLICT where another, or another version, is there."""


class Pulse(Protocol):
    """Who sees to it that an event loop answers. Any thread may call it."""

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on this loop must answer."""

    def end(self) -> None:
        """No loop must."""
