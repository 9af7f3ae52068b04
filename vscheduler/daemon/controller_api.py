"""The controllers' port to the API server: their calls, in a lane of their own."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from vscheduler.cluster.http import connection, objects, send_guard
from vscheduler.cluster.writes import write_queue
from vscheduler.controllers import ports
from vscheduler.mirror import paths

T = TypeVar("T")

ALREADY_EXISTS = "AlreadyExists"
"""The reason of the 409 that says that a name is taken."""

FAILED = "the scheduler failed at the call"


class Api:
    """`ports.Api` over a connection. Calls wait for their turn behind binds and evictions."""

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.Lanes,
        may_commit: Callable[[], bool],
    ) -> None:
        self._link = link
        self._lanes = queue
        self._may_commit = may_commit

    async def get(self, path: paths.Path) -> ports.Object:
        """The object at this path."""
        return await self._take_turn(lambda: objects.get(self._link, path))

    async def list(
        self,
        path: paths.Path,
        params: Mapping[str, str] | None = None,
        *,
        metadata_only: bool = False,
    ) -> list[ports.Object]:
        """All objects of a collection."""
        return await self._take_turn(
            lambda: objects.list_all(self._link, path, params or {}, metadata_only=metadata_only)
        )

    async def create(self, path: paths.Path, body: ports.Object) -> ports.Object:
        """Create an object."""
        return await self._take_turn(
            lambda: objects.create(self._link, path, body, may_send=self._may_commit)
        )

    async def patch(
        self,
        path: paths.Path,
        body: ports.Object,
        content_type: str = ports.MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> ports.Object:
        """Change an object."""
        return await self._take_turn(
            lambda: objects.patch(
                self._link, path, body, content_type, params, may_send=self._may_commit
            )
        )

    async def delete(self, path: paths.Path, preconditions: ports.Preconditions) -> None:
        """Delete an object, that one only."""
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
        """Make the call when a worker is free; whether we may commit is asked just before."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def make() -> None:
            if answer.done():  # who asked has gone
                return
            try:
                given = await self._made(call)
            except ports.RefusedError as refusal:
                if not answer.done():
                    answer.set_exception(refusal)
            else:
                if not answer.done():
                    answer.set_result(given)

        self._lanes.put(write_queue.Lane.CONTROL, make)
        return await answer

    async def _made(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call gives; whatever it raises is a RefusedError, so that who asked has one."""
        if not self._may_commit():
            raise ports.RefusedError(ports.Trouble.WITHHELD, "stopping")
        try:
            return await call()
        except send_guard.WithheldError as error:
            raise ports.RefusedError(ports.Trouble.WITHHELD, "stopping") from error
        except connection.ApiError as error:
            raise refused(error) from error
        except Exception as error:
            self._lanes.failures.failed("call", "control", error)
            raise ports.RefusedError(ports.Trouble.UNANSWERED, FAILED) from error


def refused(error: connection.ApiError) -> ports.RefusedError:
    """What an error of the connection is to controllers."""
    trouble = ports.Trouble.INVALID
    match error:
        case connection.Conflict():
            exists = error.reason == ALREADY_EXISTS
            trouble = ports.Trouble.EXISTS if exists else ports.Trouble.CONFLICT
        case connection.NotFound():
            trouble = ports.Trouble.MISSING
        case connection.Forbidden():
            trouble = ports.Trouble.FORBIDDEN
        case connection.Throttled() | connection.Protected():
            trouble = ports.Trouble.THROTTLED
        case connection.Unavailable() | connection.Gone():
            trouble = ports.Trouble.UNANSWERED
    return ports.RefusedError(trouble, str(error))
