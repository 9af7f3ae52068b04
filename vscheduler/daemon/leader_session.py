"""One tenure: the scheduler names whose Leases are held are served, by objects made for it alone.

Nothing that an earlier tenure has sent or remembered is of use to a later one: somebody else may
have been at work in between.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from vscheduler.cluster.writes import binder, evictor, queue_status_writer, status_writer
from vscheduler.controllers.podgroups import owners, podgroup_controller
from vscheduler.core.config import policy
from vscheduler.core.model import jobs
from vscheduler.daemon import controller_manager, informers, pacing, runtime, scheduling_loop
from vscheduler.daemon.leader_election import api
from vscheduler.mirror import state
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import entries

log = structlog.get_logger(__name__)

OWNED = (events.Kind.POD, events.Kind.QUEUE)
"""Kinds that are read otherwise for other scheduler names."""

QUEUE_SECONDS = 2.0
"""How long the first cycle waits for the default queue, which pods would be told is missing."""
QUEUE_LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class StoredGroups:
    """PodGroups as the Mirror has them, for who writes to them."""

    mirror: state.Mirror

    def stored_group(self, job: jobs.JobId) -> status_writer.StoredGroup | None:
        """The newest version that was seen."""
        reference = self.mirror.reference(events.Kind.POD_GROUP, job)
        stored = self.mirror.group_state(job)
        if reference is None or stored is None:
            return None
        return status_writer.StoredGroup(
            uid=reference.uid, resource_version=reference.resource_version, state=stored
        )


Work = Callable[[Mapping[str, api.Token]], Coroutine[Any, Any, None]]
"""Runs until it is cancelled; it is given the tokens of the Leases that it works under."""


async def run_while_leading(
    leading: api.Leadership, leases: Collection[str], work: Work, *, name: str
) -> None:
    """For ever: do the work for as long as the same ones of these Leases are held.

    When one more is gained, or one is lost, it ends and begins anew. Nothing is done while none is
    held. Raises what the work raises.
    """
    while True:
        held = leading.held(leases)
        if not held:
            await leading.wait_for_change()
            continue
        tenure = asyncio.create_task(work(held), name=name)
        try:
            await _until_other(leading, leases, held, tenure)
        finally:
            tenure.cancel()
            await asyncio.wait({tenure})
        if not tenure.cancelled():
            tenure.result()


async def _until_other(
    leading: api.Leadership,
    leases: Collection[str],
    held: Mapping[str, api.Token],
    tenure: "asyncio.Task[None]",
) -> None:
    """Until other Leases are held, or the work has ended."""
    while leading.held(leases) == held:
        change = asyncio.ensure_future(leading.wait_for_change())
        try:
            await asyncio.wait({change, tenure}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
        if tenure.done():
            tenure.result()
            raise AssertionError("work of a tenure goes on until it is cancelled")


class LeaderSession:
    """Places pods and looks after PodGroups, for the names that are held."""

    def __init__(
        self, around: runtime.Runtime, configured: policy.Policy, known: owners.Owners
    ) -> None:
        self._around = around
        self._policy = configured
        self._owners = known
        self._served = around.given.scheduler_names
        """What the Mirror takes for ours."""
        self._loop: scheduling_loop.SchedulingLoop | None = None
        self._usage_writer: queue_status_writer.UsageWriter | None = None
        self._mandate: api.CompositeToken | None = None
        """Of the tenure that has begun; None while there is none."""
        self._grouping: podgroup_controller.PodGroupController | None = None

    def settling(self) -> bool:
        """Whether the first cycle of a tenure is still to come: nothing else is as urgent, but for
        what it waits for itself.
        """
        cycles = 0 if self._loop is None else self._loop.cycles
        due = self._around.given.schedules and not cycles
        return self._mandate is not None and due and self._has_default_queue()

    def feed(self, batch: Sequence[entries.Event]) -> None:
        """Take in what a watch saw; a standby, too, has it all in its Mirror."""
        most = entries.Change.NONE
        news: set[str] = set()
        for event in batch:
            with self._around.failures.contained("mirror", event.kind):
                change = self._around.mirror.apply(event)
                most = max(most, change)
                if change is entries.Change.OTHER:
                    news.add(entries.waiting_namespace(event) or pacing.ANYBODY)
        if self._loop is not None:
            self._loop.changed(most, news)
        needed = any(event.kind in controller_manager.NEEDED for event in batch)
        if self._grouping is not None and needed:
            self._grouping.changed()

    def feed_owners(self, batch: Sequence[owners.Event]) -> None:
        """Take in what a watch saw of the owners of pods."""
        seen: list[owners.Seen] = []
        for event in batch:
            with self._around.failures.contained("owners", event.kind):
                seen += self._owners.apply(event)
        if self._grouping is not None:
            self._grouping.follow(seen)

    def adopt(self, configured: policy.Policy) -> None:
        """From the next cycle on, decide by this policy."""
        self._policy = configured
        if self._loop is not None:
            self._loop.adopt(configured)

    def close(self) -> None:
        """The daemon stops: write what would be lost, if it is still ours to write."""
        if self._usage_writer is not None and self._mandate is not None:
            self._usage_writer.close(self._mandate.may_act)

    async def work(self, held: Mapping[str, api.Token]) -> None:
        """Serve the names that these Leases are of, until it is cancelled."""
        around, given = self._around, self._around.given
        lease_of = given.election.lease_of
        names = tuple(name for name in given.scheduler_names if lease_of[name] in held)
        await around.followed.wait_for_lists()
        mandate = self._mandate = api.CompositeToken(held.values())
        try:
            await self._look_from(names)
            log.info("serving", schedulers=names)
            async with asyncio.TaskGroup() as group:
                if given.schedules:
                    self._schedule(group, names[0], mandate)
                if given.controls:
                    self._grouping = controller_manager.grouping_for(
                        around, self._owners, names, mandate
                    )
                    group.create_task(self._grouping.run(), name="look after podgroups")
                else:
                    permit = around.permit(mandate)
                    ensured = controller_manager.ensure_queue(
                        around.link, given.default_queue, permit
                    )
                    group.create_task(ensured, name="ensure default queue")
        finally:
            mandate.end()
            self._mandate = self._loop = self._usage_writer = self._grouping = None
            around.observed.stop_serving()

    async def _look_from(self, names: tuple[str, ...]) -> None:
        """See the cluster as whoever serves these names, and not older than their Leases."""
        around = self._around
        if names == self._served:
            if around.given.election.enabled:
                overtake = partial(around.followed.overtake, events.Kind.POD)
                await informers.catch_up(around.link, around.mirror, names, overtake)
            return  # else there is no predecessor who went on after the lists were begun
        around.mirror.serve(names)
        self._served = names
        await around.followed.list_anew(OWNED)

    def _schedule(self, group: asyncio.TaskGroup, name: str, mandate: api.CompositeToken) -> None:
        around = self._around
        outlets = self._outlets(name, mandate)
        self._usage_writer = outlets.usage_writer
        self._loop = scheduling_loop.SchedulingLoop(
            around.mirror,
            self._policy,
            outlets,
            around.observed,
            may_commit=around.permit(mandate),
            pace=pacing.Pace(period_seconds=around.given.schedule_period_seconds),
        )
        group.create_task(self._loop.keep_time(), name="keep time")
        group.create_task(self._run(self._loop), name="schedule")

    async def _run(self, loop: scheduling_loop.SchedulingLoop) -> None:
        """Schedule; in a new cluster not before somebody has made the default queue, or can't."""
        with suppress(TimeoutError):
            async with asyncio.timeout(QUEUE_SECONDS):
                while not self._has_default_queue():  # noqa: ASYNC110 - the Mirror tells nobody
                    await asyncio.sleep(QUEUE_LOOK_SECONDS)
        await loop.run()

    def _has_default_queue(self) -> bool:
        name = self._around.given.default_queue
        return self._around.mirror.reference(events.Kind.QUEUE, name) is not None

    def _outlets(self, name: str, mandate: api.CompositeToken) -> scheduling_loop.Outlets:
        """All who write to the API server what the loop decides and finds out."""
        around = self._around
        link, queue, observe = around.link, around.calls, around.observed.observe_write
        permit, to_finish = around.permit(mandate), around.permit_to_finish(mandate)
        stamp = binder.Stamp(holder=mandate.holder, doubt=mandate.doubt)
        return scheduling_loop.Outlets(
            failures=around.failures,
            committer=binder.Binder(
                link, queue, to_finish, stamp=stamp if mandate.holder else None
            ),
            evictor=evictor.Evictor(link, queue, to_finish),
            reporter=status_writer.StatusWriter(
                link,
                queue,
                StoredGroups(around.mirror),
                around.herald.under(around.permit_to_tell(mandate)),
                may_commit=permit,
                observe=observe,
            ),
            queue_reporter=queue_status_writer.QueueStatusWriter(
                link, queue, name, may_commit=permit, observe=observe
            ),
            usage_writer=queue_status_writer.UsageWriter(
                link, queue, name, may_commit=permit, observe=observe
            ),
            cycles=around.signs.cycles,
        )
