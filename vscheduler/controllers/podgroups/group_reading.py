"""Live reads of PodGroups and their owners, and metrics and logs of calls about them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from vscheduler.containment import Failures
from vscheduler.controllers.podgroups import auto_groups, deletion, owners
from vscheduler.controllers.podgroups.auto_groups import Owner, OwnerRef
from vscheduler.controllers.podgroups.deletion import OwnerState, Pod
from vscheduler.controllers.ports import Api, Object, RefusedError, Trouble
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection, UnusableNameError

log = structlog.get_logger(__name__)

T = TypeVar("T")

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector for pods that may be alive: a metadata-only list doesn't contain the phase."""

WIDTH = 32
"""How many calls about the pods or groups of a work item run concurrently."""

EXPECTED = (
    Trouble.CONFLICT,
    Trouble.EXISTS,
    Trouble.MISSING,
    Trouble.WITHHELD,
)
"""Refusals that aren't worth a log line: concurrent writers, and the end of our leadership."""


class Notes:
    """Counts calls, and logs each kind of trouble once until a call of the same action succeeds."""

    def __init__(
        self, observe: Callable[[str, str], None], failures: Failures | None = None
    ) -> None:
        self.failures = failures or Failures()
        self._observe = observe
        self._logged: set[tuple[str, Trouble]] = set()

    def done(self, action: str) -> None:
        """Record a successful call."""
        self._observe(action, "done")
        self._logged = {each for each in self._logged if each[0] != action}

    def refused(self, action: str, key: str, error: RefusedError) -> None:
        """Record a failed call."""
        self._observe(action, error.trouble)
        kind = (action, error.trouble)
        if kind not in self._logged and error.trouble not in EXPECTED:
            self._logged.add(kind)
            log.warning(
                "podgroup.failed",
                action=action,
                object=key,
                outcome=error.trouble.value,
                message=str(error),
            )


class Reader:
    """Reads single objects; a missing object is a value, not an error."""

    def __init__(self, api: Api, notes: Notes) -> None:
        self._api = api
        self._notes = notes

    async def group(
        self, namespace: str, name: str, collection: Collection = paths.POD_GROUPS
    ) -> Object | None:
        """Return the PodGroup as stored at present, or None. Raises RefusedError."""
        try:
            return await self._api.get(collection.at(name, namespace))
        except RefusedError as error:
            if error.trouble is Trouble.MISSING:
                return None
            self._notes.refused("read", f"{namespace}/{name}", error)
            raise

    async def owner(self, ref: OwnerRef, namespace: str) -> tuple[OwnerState, Owner | None]:
        """Return the state of an owner, and the owner itself if the owner exists and its kind is
        known.

        An owner that we may not read is treated like an owner of unknown kind. Raises RefusedError.
        """
        try:
            path = owners.path_of(ref, namespace)
        except UnusableNameError:
            return OwnerState.GONE, None
        if path is None:
            return OwnerState.UNKNOWN, None
        try:
            owner = auto_groups.owner(await self._api.get(path))
        except RefusedError as error:
            if error.trouble is Trouble.MISSING:
                return OwnerState.GONE, None
            self._notes.refused("read", f"{ref.kind} {namespace}/{ref.name}", error)
            if error.trouble is Trouble.FORBIDDEN:
                return OwnerState.UNKNOWN, None
            raise
        state = deletion.owner_state(ref.uid, owner)
        return state, None if state is OwnerState.GONE else owner

    async def pods(self, namespace: str) -> list[Pod]:
        """Return the unfinished pods of a namespace. Raises RefusedError."""
        path, query = paths.PODS.within(namespace), {"fieldSelector": UNFINISHED}
        try:
            pods = await self._api.list(path, query, metadata_only=True)
        except RefusedError as error:
            self._notes.refused("read", f"pods of {namespace}", error)
            raise
        return [deletion.pod(body) for body in pods]


async def each(call: Callable[[T], Awaitable[None]], items: Sequence[T]) -> None:
    """Call a function for every item, with a limited number of calls in parallel.

    The first error stops the remaining calls, and is raised after all calls have ended.
    """
    left = iter(items)

    async def pull() -> None:
        for item in left:
            await call(item)

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(min(WIDTH, len(items))):
                group.create_task(pull(), name=f"podgroups {number}")
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
