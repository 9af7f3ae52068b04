"""Handlers that Kopf calls: thin `on.event` functions, which turn bodies into values and pass them
on.

Only event handlers are used, in a registry of their own. Create, update and delete handlers,
daemons and timers would add finalizers and annotations to every user object.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import aiohttp
import kopf

from vscheduler.containment import Failures
from vscheduler.controllers.event_coalescing import EventCoalescing
from vscheduler.controllers.queues import queue_objects
from vscheduler.controllers.queues.queue_objects import Event, Gone, Kind, Seen
from vscheduler.mirror import paths

COLLECTIONS: Mapping[Kind, paths.Collection] = {
    Kind.QUEUE: paths.QUEUES,
    Kind.POD_GROUP: paths.POD_GROUPS,
    Kind.COMMAND: paths.COMMANDS,
}

LOGIN_SECONDS = 2.0
"""Minimal time between two logins, so a server that refuses every login isn't flooded."""

Sink = Callable[[Event], None]
"""Receives events; called in Kopf's thread."""


class Entry(Protocol):
    """A connection to the API server with the daemon's own credentials."""

    @property
    def host(self) -> str:
        """The API server's address."""

    def session_elsewhere(
        self, *middlewares: aiohttp.ClientMiddlewareType
    ) -> aiohttp.ClientSession:
        """Return a session for the running event loop, which isn't the daemon's."""


class OpenedSessions:
    """A connection that knows the sessions it has returned, so that none outlives Kopf's loop.

    Kopf forgets the session of a login that is cancelled.
    """

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._opened: list[aiohttp.ClientSession] = []

    @property
    def host(self) -> str:
        """The API server's address."""
        return self._entry.host

    def session_elsewhere(
        self, *middlewares: aiohttp.ClientMiddlewareType
    ) -> aiohttp.ClientSession:
        """Return a session for the running event loop, which isn't the daemon's."""
        made = self._entry.session_elsewhere(*middlewares)
        self._opened = [*(each for each in self._opened if not each.closed), made]
        return made

    async def close(self) -> None:
        """Close the sessions that are still open."""
        for each in self._opened:
            await each.close()


def registry(
    kinds: Collection[Kind],
    entry: Entry,
    sink: Sink,
    failures: Failures | None = None,
) -> kopf.OperatorRegistry:
    """Return a registry with handlers for these kinds, and with the login."""
    contained = failures or Failures()
    made = kopf.OperatorRegistry()
    kopf.on.login(registry=made, id="daemon")(_login(entry))
    for kind in kinds:
        group, _, version = COLLECTIONS[kind].api_version.partition("/")
        kopf.on.event(group, version, str(kind), registry=made, id=str(kind))(
            _handler(kind, sink, contained)
        )
    return made


def event_of(kind: Kind, raw: Mapping[str, Any]) -> Event | None:
    """Return the value of Kopf's event, or None for an object that doesn't concern us.

    Kopf's event type is None for listed objects.
    """
    item = queue_objects.read(kind, raw["object"])
    if item is None:
        return None
    if raw["type"] == "DELETED":
        return Gone(kind=kind, uid=item.uid)
    return Seen(item=item, listed=raw["type"] is None)


def _login(entry: Entry) -> Callable[..., Any]:
    """Return Kopf's login handler, whose session asks the daemon for credentials with each request.

    Kopf logs in at startup, and after every 401 response. The handler must be a function: Kopf
    would run any other callable in a separate thread.
    """
    last = float("-inf")

    async def log_in(**_: Any) -> kopf.AiohttpSession:
        nonlocal last
        await asyncio.sleep(last + LOGIN_SECONDS - time.monotonic())
        last = time.monotonic()
        session = entry.session_elsewhere(EventCoalescing())
        return kopf.AiohttpSession(server=entry.host, aiohttp_session=session)

    return log_in


def _handler(kind: Kind, sink: Sink, failures: Failures) -> Callable[..., Any]:
    async def pass_on(event: Mapping[str, Any], name: str, **_: Any) -> None:
        with failures.contained("kopf handler", f"{kind} {name}"):
            known = event_of(kind, event)
            if known is not None:
                sink(known)

    return pass_on
