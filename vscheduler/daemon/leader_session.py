"""Leader session: work under the Leases that are held, on a Mirror that is as new as they are.

All objects of a session are created for the session. Nothing sent or remembered by an earlier
session is reused, because another instance may have worked in between.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any

import structlog

from vscheduler.daemon import informers
from vscheduler.daemon.leader_election.api import CompositeToken, Leadership, Token
from vscheduler.daemon.runtime import Runtime
from vscheduler.mirror.decode.events import Kind

log = structlog.get_logger(__name__)

OWNED = (Kind.POD, Kind.QUEUE, Kind.CLAIM, Kind.VOLUME)
"""Kinds whose translation depends on the served scheduler names."""

CONFIRMED_SECONDS = 60.0
"""After so long, a standby's Mirror forgets the calls of its last session that no watch showed."""


Work = Callable[[Mapping[str, Token]], Coroutine[Any, Any, None]]
"""A coroutine that runs until cancelled, under the given tokens by Lease."""


async def run_while_leading(
    leading: Leadership, leases: Collection[str], work: Work, *, name: str
) -> None:
    """Run the work for ever, whenever any of these Leases is held.

    The work is cancelled and started again when the set of held Leases changes. While no Lease is
    held, nothing runs. Raises the work's errors.
    """
    while True:
        held = leading.held(leases)
        if not held:
            await leading.wait_for_change()
            continue
        running = asyncio.create_task(work(held), name=name)
        try:
            await _until_other(leading, leases, held, running)
        finally:
            running.cancel()
            await asyncio.wait({running})
        if not running.cancelled():
            running.result()


async def _until_other(
    leading: Leadership,
    leases: Collection[str],
    held: Mapping[str, Token],
    running: "asyncio.Task[None]",
) -> None:
    """Wait until the set of held Leases changes, or the work ends."""
    while leading.held(leases) == held:
        change = asyncio.ensure_future(leading.wait_for_change())
        try:
            await asyncio.wait({change, running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
        if running.done():
            running.result()
            raise AssertionError("work under a Lease runs until it is cancelled")


Serve = Callable[[tuple[str, ...], CompositeToken], Coroutine[Any, Any, None]]
"""A coroutine that serves these scheduler names under the token until cancelled."""


class LeaderSession:
    """Serves the scheduler names whose Leases are held."""

    def __init__(self, runtime: Runtime, serve: Serve, *, narrows: bool = True) -> None:
        """`narrows`: whether pods of names that aren't held are those of others for the Mirror."""
        self._runtime = runtime
        self._serve = serve
        self._narrows = narrows
        self._served = runtime.settings.scheduler_names
        """The scheduler names for which the Mirror translates objects."""
        self.token: CompositeToken | None = None
        """The token of the current session, or None."""
        self._forgetting: asyncio.TimerHandle | None = None
        """Ends calls of the last session that nothing has confirmed by then."""

    async def work(self, held: Mapping[str, Token]) -> None:
        """Serve the scheduler names of these Leases until cancelled."""
        runtime, settings = self._runtime, self._runtime.settings
        lease_of = settings.election.lease_of
        names = tuple(name for name in settings.scheduler_names if lease_of[name] in held)
        await runtime.informers.wait_for_lists()
        token = self.token = CompositeToken(held.values())
        try:
            await self._prepare_mirror(names)
            log.info("serving", schedulers=names)
            await self._serve(names, token)
        finally:
            token.end()
            self.token = None
            runtime.metrics.forget_figures()
            runtime.observer.forget()
            self._forget_calls_later()

    async def _prepare_mirror(self, names: tuple[str, ...]) -> None:
        """Make the Mirror show the cluster for these names, and no older than the Leases."""
        runtime = self._runtime
        if names == self._served or not self._narrows:
            if runtime.settings.election.enabled:
                overtake = partial(runtime.informers.overtake, Kind.POD)
                await informers.catch_up(runtime.connection, runtime.mirror, names, overtake)
            return  # without election, no predecessor can have written after the first lists
        runtime.mirror.serve(names)
        self._served = names
        await runtime.informers.list_anew(OWNED)

    def _forget_calls_later(self) -> None:
        """Let the Mirror of a standby forget calls of this session that are never confirmed.

        A call may still be executed, so that a session that follows soon counts it. That session
        then forgets it by itself.
        """
        if self._forgetting is not None:
            self._forgetting.cancel()
        later = asyncio.get_running_loop().call_later
        self._forgetting = later(CONFIRMED_SECONDS, self._forget_calls)

    def _forget_calls(self) -> None:
        if self.token is None:
            self._runtime.mirror.expire(time.time(), every=True)
