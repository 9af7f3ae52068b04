"""Leader session: serves the scheduler names whose Leases are held.

All objects of a session are created for the session. Nothing sent or remembered by an earlier
session is reused, because another instance may have worked in between.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import structlog

from vscheduler.cluster.writes.binder import Binder, Stamp
from vscheduler.cluster.writes.claim_allocator import ClaimAllocator
from vscheduler.cluster.writes.claim_binder import ClaimBinder
from vscheduler.cluster.writes.evictor import Evictor
from vscheduler.cluster.writes.queue_status_writer import QueueStatusWriter, UsageWriter
from vscheduler.cluster.writes.status_writer import StatusWriter, StoredGroup
from vscheduler.controllers.podgroups import owners
from vscheduler.controllers.podgroups.owners import Owners, Seen
from vscheduler.controllers.podgroups.podgroup_controller import PodGroupController
from vscheduler.core.config.policy import Policy
from vscheduler.core.model.jobs import JobId, TaskId
from vscheduler.daemon import controller_manager, informers, pacing, watched_kinds
from vscheduler.daemon.kind_access import KindAccess
from vscheduler.daemon.leader_election.api import CompositeToken, Leadership, Token
from vscheduler.daemon.outlets import Outlets
from vscheduler.daemon.pacing import Pace
from vscheduler.daemon.runtime import Runtime
from vscheduler.daemon.scheduling_loop import SchedulingLoop
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.index import entries
from vscheduler.mirror.index.entries import Change
from vscheduler.mirror.state import Mirror

log = structlog.get_logger(__name__)

OWNED = (Kind.POD, Kind.QUEUE, Kind.CLAIM, Kind.VOLUME)
"""Kinds whose translation depends on the served scheduler names."""

QUEUE_SECONDS = 2.0
"""How long the first cycle waits for the default queue. Without the wait, pods would be told that
the queue is missing."""
QUEUE_LOOK_SECONDS = 0.02

CONFIRMED_SECONDS = 60.0
"""After so long, a standby's Mirror forgets the calls of its last session that no watch showed."""


class StoredGroups(msgspec.Struct, frozen=True):
    """Gives the status writer access to the PodGroups in the Mirror."""

    mirror: Mirror

    def stored_group(self, job: JobId) -> StoredGroup | None:
        """Return the newest version seen, or None."""
        reference = self.mirror.reference(Kind.POD_GROUP, job)
        stored = self.mirror.group_state(job)
        if reference is None or stored is None:
            return None
        return StoredGroup(
            uid=reference.uid, resource_version=reference.resource_version, state=stored
        )

    def has_reason(self, task: TaskId) -> bool:
        """Whether the pod's condition, as last seen, gives a reason for waiting."""
        return self.mirror.has_reason(task)

    def waiting_version(self, task: TaskId) -> str | None:
        """Return the resourceVersion of a pod that has no node, as last seen; None of others."""
        return self.mirror.waiting_version(task)


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


class LeaderSession:
    """Runs the scheduling loop and the PodGroup controller while Leases are held."""

    def __init__(self, runtime: Runtime, policy: Policy, known: Owners) -> None:
        self._runtime = runtime
        self._policy = policy
        self._owners = known
        self._served = runtime.given.scheduler_names
        """The scheduler names for which the Mirror translates objects."""
        self._loop: SchedulingLoop | None = None
        self._outlets: Outlets | None = None
        self._token: CompositeToken | None = None
        """The token of the current session, or None."""
        self._podgroup_controller: PodGroupController | None = None
        self._forgetting: asyncio.TimerHandle | None = None
        """Ends calls of the last session that nothing has confirmed by then."""

    @property
    def in_force(self) -> Policy:
        """The policy of the next cycle."""
        return self._policy

    def feed(self, batch: Sequence[entries.Event]) -> None:
        """Apply the events of a watch to the Mirror, and notify the loop and the controller.

        Neither runs on a standby, whose Mirror gets the same events.
        """
        most = Change.NONE
        news: set[str] = set()
        for event in batch:
            with self._runtime.failures.contained("mirror", event.kind):
                change = self._runtime.mirror.apply(event)
                most = max(most, change)
                if change is Change.OTHER:
                    news.add(entries.waiting_namespace(event) or pacing.ANYBODY)
        if self._loop is not None:
            self._loop.changed(most, news)
        needed = any(event.kind in watched_kinds.NEEDED_BY_CONTROLLERS for event in batch)
        if self._podgroup_controller is not None and needed:
            self._podgroup_controller.changed()

    def feed_owners(self, batch: Sequence[owners.Event]) -> None:
        """Apply the events of the watches of pods' owners."""
        seen: list[Seen] = []
        for event in batch:
            with self._runtime.failures.contained("owners", event.kind):
                seen += self._owners.apply(event)
        if self._podgroup_controller is not None:
            self._podgroup_controller.follow(seen)

    def adopt(self, policy: Policy) -> None:
        """Use this policy from the next cycle on."""
        self._policy = policy
        if self._loop is not None:
            self._loop.adopt(policy)

    def close(self) -> None:
        """Write data that a shutdown would lose, if the Leases are still held."""
        if self._outlets is not None and self._token is not None:
            self._outlets.usage_writer.close(self._token.may_act)

    async def work(self, held: Mapping[str, Token]) -> None:
        """Serve the scheduler names of these Leases until cancelled."""
        runtime, given = self._runtime, self._runtime.given
        lease_of = given.election.lease_of
        names = tuple(name for name in given.scheduler_names if lease_of[name] in held)
        await runtime.watches.wait_for_lists()
        token = self._token = CompositeToken(held.values())
        try:
            await self._prepare_mirror(names)
            log.info("serving", schedulers=names)
            async with asyncio.TaskGroup() as group:
                if given.schedules:
                    self._schedule(group, names, token)
                if given.controls:
                    self._podgroup_controller = controller_manager.podgroup_controller_for(
                        runtime, self._owners, names, token
                    )
                    group.create_task(self._podgroup_controller.run(), name="look after podgroups")
                else:
                    permit = runtime.permit(token)
                    ensured = controller_manager.ensure_queue(
                        runtime.link, given.default_queue, permit
                    )
                    group.create_task(ensured, name="ensure default queue")
        finally:
            token.end()
            self._stop_writing()
            self._token = self._loop = self._podgroup_controller = None
            runtime.observed.forget_figures()
            runtime.observer.forget()
            self._forget_calls_later()

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
        if self._token is None:
            self._runtime.mirror.expire(time.time(), every=True)

    async def _prepare_mirror(self, names: tuple[str, ...]) -> None:
        """Make the Mirror show the cluster for these names, and no older than the Leases."""
        runtime = self._runtime
        if names == self._served:
            if runtime.given.election.enabled:
                overtake = partial(runtime.watches.overtake, Kind.POD)
                await informers.catch_up(runtime.link, runtime.mirror, names, overtake)
            return  # without election, no predecessor can have written after the first lists
        runtime.mirror.serve(names)
        self._served = names
        await runtime.watches.list_anew(OWNED)

    def _schedule(
        self, group: asyncio.TaskGroup, names: Sequence[str], token: CompositeToken
    ) -> None:
        runtime = self._runtime
        opened = self._outlets = self._open_outlets(names, token)
        self._loop = SchedulingLoop(
            runtime.mirror,
            self._policy,
            opened,
            runtime.observed,
            may_commit=runtime.permit(token),
            pace=Pace(period_seconds=runtime.given.schedule_period_seconds),
        )
        access = KindAccess(runtime.mirror, runtime.watches.states)
        access.look()
        group.create_task(access.follow(self._loop.reconsider), name="look for kinds")
        group.create_task(self._loop.keep_time(), name="keep time")
        group.create_task(self._run(self._loop), name="schedule")

    async def _run(self, loop: SchedulingLoop) -> None:
        """Run the scheduling loop. In a new cluster, first wait a moment for the default queue."""
        with suppress(TimeoutError):
            async with asyncio.timeout(QUEUE_SECONDS):
                while not self._has_default_queue():  # noqa: ASYNC110 - the Mirror has no events
                    await asyncio.sleep(QUEUE_LOOK_SECONDS)
        await loop.run()

    def _has_default_queue(self) -> bool:
        name = self._runtime.given.default_queue
        return self._runtime.mirror.reference(Kind.QUEUE, name) is not None

    def _stop_writing(self) -> None:
        """Drop the states that wait to be written: the next leader writes its own."""
        opened, self._outlets = self._outlets, None
        if opened is not None:
            opened.reporter.stop()
            opened.queue_reporter.stop()
            opened.usage_writer.stop()

    def _open_outlets(self, names: Sequence[str], token: CompositeToken) -> Outlets:
        """Create all writers for the decisions and findings of the loop.

        Reports about queues bear the first of the names.
        """
        runtime, name = self._runtime, names[0]
        link, queue, observe = runtime.link, runtime.calls, runtime.observed.observe_write
        permit, to_finish = runtime.permit(token), runtime.permit_to_finish(token)
        stamp = Stamp(holder=token.holder, doubt=token.doubt)
        return Outlets(
            failures=runtime.failures,
            committer=Binder(link, queue, to_finish, stamp=stamp if token.holder else None),
            claim_binder=ClaimBinder(link, queue, to_finish, schedulers=names),
            claim_allocator=ClaimAllocator(link, queue, to_finish),
            evictor=Evictor(link, queue, to_finish),
            reporter=StatusWriter(
                link,
                queue,
                StoredGroups(runtime.mirror),
                runtime.recorder.under(runtime.permit_for_events(token)),
                may_commit=permit,
                observe=observe,
            ),
            queue_reporter=QueueStatusWriter(link, queue, name, may_commit=permit, observe=observe),
            usage_writer=UsageWriter(link, queue, name, may_commit=permit, observe=observe),
            cycles=runtime.signs.cycles,
            observer=runtime.observer,
        )
