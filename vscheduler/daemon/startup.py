"""Startup: opens the connection and requests the first lists while most modules are still imported.

Of the time until the first bind, imports take more than half. The API server needs its own time to
answer the first lists, so both happen together. The modules imported here are the few that the
requests need.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from vscheduler.cluster.http.connection import Access, Connection
from vscheduler.cluster.http.lists import EarlyPages
from vscheduler.daemon.liveness import signals
from vscheduler.daemon.settings import Settings
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Kind

if TYPE_CHECKING:
    from vscheduler.core.config.cycle_rules import CycleRules

SWITCH_INTERVAL_SECONDS = 0.0001
"""How long the cycle's thread may keep the interpreter. With Python's 5 ms, the event loop makes
480 round trips a second during a cycle; with this value, 3,400."""

NEEDED_BY_CONTROLLERS = frozenset({Kind.POD, Kind.POD_GROUP, Kind.NATIVE_POD_GROUP, Kind.NAMESPACE})
"""Kinds that the controllers' process watches."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The connection to the API server, and the pages of lists requested so far."""

    link: Connection
    lists: EarlyPages

    async def close(self) -> None:
        """Drop the pages that nobody read, and close the connection."""
        await self.lists.close()
        await self.link.close()


def watched(settings: Settings, rules: CycleRules | None = None) -> list[Kind]:
    """Return the kinds to watch: only kinds that some part of this instance needs.

    `rules` are those of the configuration, None while it isn't read yet.
    """
    owners = settings.inherit_owner_annotations and settings.spares_groups(rules)
    return [
        kind
        for kind in paths.WATCHED
        if (settings.schedules or kind in NEEDED_BY_CONTROLLERS)
        and (settings.priority_classes or kind is not Kind.PRIORITY_CLASS)
        and (owners or kind not in paths.OWNERS)
    ]


def access(settings: Settings) -> Access:
    """Return how to reach the API server."""
    return Access(kubeconfig=settings.kubeconfig, context=settings.context, master=settings.master)


async def open_connection(settings: Settings) -> Opened:
    """Open a connection and request the first pages of all watched kinds.

    Raises connection.CredentialsError.
    """
    link = await Connection.open(access(settings))
    wanted = [paths.WATCHED[kind] for kind in watched(settings)]
    return Opened(link=link, lists=EarlyPages(link, wanted))


async def open_while(settings: Settings, work: Callable[[], object]) -> Awaitable[Opened]:
    """Begin to open the connection as above, and do the work in a thread meanwhile.

    Return the awaitable connection when the work is done. Signals end the process at once: nothing
    is to be released yet.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    signals.leave_at_once()
    opening = asyncio.create_task(open_connection(settings), name="open the connection")
    await asyncio.to_thread(work)
    return opening
