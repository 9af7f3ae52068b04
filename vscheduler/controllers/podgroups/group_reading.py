"""What is read of PodGroups and their owners, live, and what is told of calls about them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from vscheduler import containment
from vscheduler.controllers import ports
from vscheduler.controllers.podgroups import auto_groups, deletion, owners
from vscheduler.mirror import paths

log = structlog.get_logger(__name__)

T = TypeVar("T")

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector: pods that can be alive; of metadata alone the phase can't be read."""

WIDTH = 32
"""How many calls about the pods or groups of one piece of work are made at once."""

EXPECTED = (
    ports.Trouble.CONFLICT,
    ports.Trouble.EXISTS,
    ports.Trouble.MISSING,
    ports.Trouble.WITHHELD,
)
"""What nobody needs to hear of: others are at work, too, and we stop some day."""


class Notes:
    """Counts calls, and logs of each kind of trouble once until such a call succeeds again."""

    def __init__(
        self, observe: Callable[[str, str], None], failures: containment.Failures | None = None
    ) -> None:
        self.failures = failures or containment.Failures()
        self._observe = observe
        self._told: set[tuple[str, ports.Trouble]] = set()

    def done(self, action: str) -> None:
        """A call did what it was for."""
        self._observe(action, "done")
        self._told = {each for each in self._told if each[0] != action}

    def refused(self, action: str, key: str, error: ports.RefusedError) -> None:
        """A call came to nothing."""
        self._observe(action, error.trouble)
        kind = (action, error.trouble)
        if kind not in self._told and error.trouble not in EXPECTED:
            self._told.add(kind)
            log.warning(
                "podgroup.failed",
                action=action,
                object=key,
                outcome=error.trouble.value,
                message=str(error),
            )


class Reader:
    """Reads one object at a time; what isn't there is a value."""

    def __init__(self, api: ports.Api, notes: Notes) -> None:
        self._api = api
        self._notes = notes

    async def group(self, namespace: str, name: str) -> ports.Object | None:
        """The PodGroup as it is stored now. Raises RefusedError."""
        try:
            return await self._api.get(paths.POD_GROUPS.at(name, namespace))
        except ports.RefusedError as error:
            if error.trouble is ports.Trouble.MISSING:
                return None
            self._notes.refused("read", f"{namespace}/{name}", error)
            raise

    async def owner(
        self, ref: auto_groups.OwnerRef, namespace: str
    ) -> tuple[deletion.OwnerState, auto_groups.Owner | None]:
        """What became of an owner; the owner itself where it is there and of a known kind.

        One that we may not read is of no known kind. Raises RefusedError.
        """
        try:
            path = owners.path_of(ref, namespace)
        except paths.UnusableNameError:
            return deletion.OwnerState.GONE, None
        if path is None:
            return deletion.OwnerState.UNKNOWN, None
        try:
            found = auto_groups.owner(await self._api.get(path))
        except ports.RefusedError as error:
            if error.trouble is ports.Trouble.MISSING:
                return deletion.OwnerState.GONE, None
            self._notes.refused("read", f"{ref.kind} {namespace}/{ref.name}", error)
            if error.trouble is ports.Trouble.FORBIDDEN:
                return deletion.OwnerState.UNKNOWN, None
            raise
        state = deletion.owner_state(ref.uid, found)
        return state, None if state is deletion.OwnerState.GONE else found

    async def pods(self, namespace: str) -> list[deletion.Pod]:
        """The pods of a namespace that haven't finished. Raises RefusedError."""
        path, query = paths.PODS.within(namespace), {"fieldSelector": UNFINISHED}
        try:
            found = await self._api.list(path, query, metadata_only=True)
        except ports.RefusedError as error:
            self._notes.refused("read", f"pods of {namespace}", error)
            raise
        return [deletion.pod(body) for body in found]


async def each(call: Callable[[T], Awaitable[None]], items: Sequence[T]) -> None:
    """Make a call for every item, a number of them at once; all end before an error is raised.

    One that raises stops the rest.
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
