"""What Kopf calls: thin `on.event` handlers, which turn bodies into values and hand them on.

Nothing but events, on a registry of their own: create, update and delete handlers, daemons and
timers would put finalizers and annotations on every object of the users'.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import aiohttp
import kopf

from vscheduler import containment
from vscheduler.controllers.queues import queue_objects
from vscheduler.mirror import paths

COLLECTIONS: Mapping[queue_objects.Kind, paths.Collection] = {
    queue_objects.Kind.QUEUE: paths.QUEUES,
    queue_objects.Kind.POD_GROUP: paths.POD_GROUPS,
    queue_objects.Kind.COMMAND: paths.COMMANDS,
}

LOGIN_SECONDS = 2.0
"""The least time between two logins: a server that refuses each is asked no more often."""

Sink = Callable[[queue_objects.Event], None]
"""Where events go; called in Kopf's thread."""


class Entry(Protocol):
    """A way to the API server with the daemon's own credentials."""

    @property
    def host(self) -> str:
        """The API server's address."""

    def session_elsewhere(self) -> aiohttp.ClientSession:
        """A session for the event loop that runs now, which isn't the daemon's."""


def registry(
    kinds: Collection[queue_objects.Kind],
    entry: Entry,
    sink: Sink,
    failures: containment.Failures | None = None,
) -> kopf.OperatorRegistry:
    """Handlers for these kinds, and the login."""
    contained = failures or containment.Failures()
    made = kopf.OperatorRegistry()
    kopf.on.login(registry=made, id="daemon")(_login(entry))
    for kind in kinds:
        group, _, version = COLLECTIONS[kind].api_version.partition("/")
        kopf.on.event(group, version, str(kind), registry=made, id=str(kind))(
            _handler(kind, sink, contained)
        )
    return made


def event_of(kind: queue_objects.Kind, raw: Mapping[str, Any]) -> queue_objects.Event | None:
    """What Kopf's event says; None where it is nothing to us. Its type is None for listed ones."""
    item = queue_objects.read(kind, raw["object"])
    if item is None:
        return None
    if raw["type"] == "DELETED":
        return queue_objects.Gone(kind=kind, uid=item.uid)
    return queue_objects.Seen(item=item, listed=raw["type"] is None)


def _login(entry: Entry) -> Callable[..., Any]:
    """Kopf's login: a session that asks the daemon for its credentials at each request.

    Kopf calls it at its start, and whenever the server doesn't know us. (It must be a function:
    what is only callable would run in a thread of its own.)
    """
    last = float("-inf")

    async def log_in(**_: Any) -> kopf.AiohttpSession:
        nonlocal last
        await asyncio.sleep(last + LOGIN_SECONDS - time.monotonic())
        last = time.monotonic()
        return kopf.AiohttpSession(server=entry.host, aiohttp_session=entry.session_elsewhere())

    return log_in


def _handler(
    kind: queue_objects.Kind, sink: Sink, failures: containment.Failures
) -> Callable[..., Any]:
    async def hand_on(event: Mapping[str, Any], name: str, **_: Any) -> None:
        with failures.contained("kopf handler", f"{kind} {name}"):
            told = event_of(kind, event)
            if told is not None:
                sink(told)

    return hand_on
