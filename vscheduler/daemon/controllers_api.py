"""The controllers' way to the API server: `controllers.ports.Api` over the daemon's connection.

The controllers' calls have a priority of their own in the write queue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from vscheduler.cluster.http import objects
from vscheduler.cluster.http.connection import (
    ApiError,
    Conflict,
    Connection,
    Forbidden,
    Gone,
    NotFound,
    Protected,
    Throttled,
    Unavailable,
)
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.controllers import ports
from vscheduler.controllers.ports import Object, Preconditions, RefusedError, Trouble
from vscheduler.controllers.queues import queue_objects
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path

T = TypeVar("T")

ALREADY_EXISTS = "AlreadyExists"
"""The reason in a 409 for a name already taken."""

FAILED = "the scheduler failed at the call"


class Api:
    """Implements `ports.Api` over a connection.

    Calls have lower priority than binds and evictions.
    """

    def __init__(
        self,
        connection: Connection,
        queue: WriteQueue,
        may_commit: Callable[[], bool],
    ) -> None:
        self._link = connection
        self._queue = queue
        self._may_commit = may_commit

    async def get(self, path: Path) -> Object:
        """Return the object at this path."""
        return await self._take_turn(lambda: objects.get(self._link, path))

    async def list(
        self,
        path: Path,
        params: Mapping[str, str] | None = None,
        *,
        metadata_only: bool = False,
    ) -> list[Object]:
        """Return all objects of a collection; of all PodGroups, only what the controllers read."""
        read = _group if path == paths.POD_GROUPS.everywhere and not metadata_only else None
        return await self._take_turn(
            lambda: objects.list_all(
                self._link, path, params or {}, metadata_only=metadata_only, read=read
            )
        )

    async def create(self, path: Path, body: Object) -> Object:
        """Create an object."""
        return await self._take_turn(
            lambda: objects.create(self._link, path, body, may_send=self._may_commit)
        )

    async def patch(
        self,
        path: Path,
        body: Object,
        content_type: str = ports.MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """Patch an object."""
        return await self._take_turn(
            lambda: objects.patch(
                self._link, path, body, content_type, params, may_send=self._may_commit
            )
        )

    async def delete(self, path: Path, preconditions: Preconditions) -> None:
        """Delete an object, if the preconditions hold."""
        await self._take_turn(
            lambda: objects.delete(
                self._link,
                path,
                uid=preconditions.uid,
                resource_version=preconditions.resource_version,
                may_send=self._may_commit,
            )
        )

    async def _take_turn(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call when a worker is free. `may_commit` is asked right before."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def make() -> None:
            if answer.done():  # the caller was cancelled
                return
            try:
                result = await self._made(call)
            except RefusedError as refusal:
                if not answer.done():
                    answer.set_exception(refusal)
            else:
                if not answer.done():
                    answer.set_result(result)

        self._queue.put(WritePriority.CONTROL, make)
        return await answer

    async def _made(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the call.

        Every error becomes a RefusedError, so that the caller always gets an answer.
        """
        if not self._may_commit():
            raise RefusedError(Trouble.WITHHELD, "stopping")
        try:
            return await call()
        except NotSentError as error:
            raise RefusedError(Trouble.WITHHELD, "stopping") from error
        except ApiError as error:
            raise refused(error) from error
        except Exception as error:
            self._queue.failures.failed("call", "control", error)
            raise RefusedError(Trouble.UNANSWERED, FAILED) from error


def refused(error: ApiError) -> RefusedError:
    """Return the controllers' error for an error of the connection."""
    trouble = Trouble.INVALID
    match error:
        case Conflict():
            exists = error.reason == ALREADY_EXISTS
            trouble = Trouble.EXISTS if exists else Trouble.CONFLICT
        case NotFound():
            trouble = Trouble.MISSING
        case Forbidden():
            trouble = Trouble.FORBIDDEN
        case Throttled() | Protected():
            trouble = Trouble.THROTTLED
        case Unavailable() | Gone():
            trouble = Trouble.UNANSWERED
    return RefusedError(trouble, str(error))


def _group(item: msgspec.Raw) -> Object:
    """Read a PodGroup of a list: tenants make them as large as the API server lets them."""
    return queue_objects.fields_of_group(item) or objects.whole(item)
