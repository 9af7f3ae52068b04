"""Handlers that Kopf calls: indices, events, login, startup and cleanup.

Create, update and delete handlers, daemons and timers would add finalizers and annotations to every
user's object.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

import aiohttp
import kopf
import msgspec

from vscheduler.controllers.queues import queue_index, queue_objects
from vscheduler.controllers.queues.queue_index import Indices
from vscheduler.controllers.queues.queue_objects import Kind
from vscheduler.mirror import paths

COLLECTIONS: Mapping[Kind, paths.Collection] = {
    **queue_index.KINDS,
    Kind.COMMAND: paths.COMMANDS,
}

LOGIN_SECONDS = 2.0
"""Minimal time between two logins, so a server that refuses every login isn't flooded."""


class Entry(Protocol):
    """A connection to the API server with the daemon's own credentials."""

    @property
    def host(self) -> str:
        """The API server's address."""

    def session(self) -> aiohttp.ClientSession:
        """Return a session of its own."""


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """What Kopf's handlers call."""

    started: Callable[[Indices], object]
    """Called before Kopf watches anything."""
    changed: Callable[[bool], object]
    """Called after each event, once all indices are complete; with whether the object was
    listed."""
    ended: Callable[[], Awaitable[object]]
    """Kopf has ended, by itself or as it was told, and waits for the end of this."""


def registry(kinds: Collection[Kind], entry: Entry, outlets: Outlets) -> kopf.OperatorRegistry:
    """Return a registry with the handlers for these kinds."""
    made = kopf.OperatorRegistry()

    async def start(**given: Any) -> None:
        outlets.started(Indices(**{str(kind): given.get(str(kind), {}) for kind in Kind}))

    async def clean_up(**_: Any) -> None:
        await outlets.ended()

    async def notice(event: Mapping[str, Any], **_: Any) -> None:
        outlets.changed(event["type"] is None)

    kopf.on.login(registry=made, id="daemon")(_login(entry))
    kopf.on.startup(registry=made)(start)
    kopf.on.cleanup(registry=made)(clean_up)
    for kind in kinds:
        group, _, version = COLLECTIONS[kind].api_version.partition("/")
        kopf.index(group, version, str(kind), id=str(kind), registry=made)(INDEXING[kind])
        kopf.on.event(group, version, str(kind), id=str(kind), registry=made)(notice)
    return made


async def _index_queue(body: kopf.Body, **_: Any) -> Mapping[str, queue_objects.Queue]:
    queue = queue_objects.queue(body)
    return {queue.name: queue}


async def _index_group(body: kopf.Body, **_: Any) -> Mapping[str, queue_objects.Group]:
    group = queue_objects.group(body)
    return {group.queue: group}


async def _index_command(body: kopf.Body, **_: Any) -> Mapping[str, queue_objects.Command]:
    command = queue_objects.command(body)
    return {} if command is None else {command.uid: command}


INDEXING: Mapping[Kind, Callable[..., Any]] = {
    Kind.QUEUE: _index_queue,
    Kind.POD_GROUP: _index_group,
    Kind.COMMAND: _index_command,
}


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
        return kopf.AiohttpSession(server=entry.host, aiohttp_session=entry.session())

    return log_in
