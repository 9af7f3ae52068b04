"""Ports of the controllers: the calls they make to the API server, implemented by the daemon.

Controllers know no connections. Every call goes through `Api`, and every refusal comes back as a
RefusedError with the kind of trouble.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import msgspec

from vscheduler.mirror.paths import Path

Object: TypeAlias = dict[str, Any]
"""An object as plain JSON data."""

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply. The content is JSON, which is valid YAML."""


class Trouble(StrEnum):
    """Why a call failed. The values are metric labels."""

    CONFLICT = "conflict"
    """A precondition (UID, resourceVersion) doesn't hold."""
    EXISTS = "exists"
    """The name is taken."""
    MISSING = "missing"
    """The object or the API doesn't exist."""
    FORBIDDEN = "forbidden"
    """We lack the permission."""
    INVALID = "invalid"
    """The request is invalid, or refused by admission: repeating the request is useless."""
    THROTTLED = "throttled"
    """The server is too busy."""
    UNANSWERED = "unanswered"
    """No clear answer: the request may have been executed or not."""
    WITHHELD = "withheld"
    """Not sent: we have lost the right to write."""


LASTING = frozenset({Trouble.FORBIDDEN, Trouble.INVALID})
"""Refused by a quota, a policy or a webhook, and likely to be refused again."""


class RefusedError(Exception):
    """The call failed. The message is the server's."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble = trouble


class Preconditions(msgspec.Struct, frozen=True, kw_only=True):
    """The object and version that a delete is meant for."""

    uid: str
    resource_version: str | None = None
    """None: any version of the object."""


class Api(Protocol):
    """Calls to the API server. Every method raises RefusedError, and no other error."""

    async def get(self, path: Path) -> Object:
        """Return the object at this path as stored at present."""

    async def list(
        self,
        path: Path,
        params: Mapping[str, str] | None = None,
        *,
        metadata_only: bool = False,
    ) -> list[Object]:
        """Return all objects of a collection as stored at present, or only the metadata of each."""

    async def create(self, path: Path, body: Object) -> Object:
        """Create an object in a collection; return the object as stored."""

    async def patch(
        self,
        path: Path,
        body: Object,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """Change an object; return the object as stored afterwards."""

    async def delete(self, path: Path, preconditions: Preconditions) -> None:
        """Delete exactly the given object. Raises CONFLICT if its UID or version differs."""
