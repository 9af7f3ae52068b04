"""The controllers put together: automatic PodGroups, and Queues."""

import asyncio
import importlib
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import structlog

from vscheduler.cluster import reflector
from vscheduler.cluster.http import connection, objects, send_guard
from vscheduler.cluster.writes import write_queue
from vscheduler.controllers.podgroups import (
    group_evidence,
    owners,
    podgroup_controller,
    podgroup_lister,
)
from vscheduler.daemon import controller_api, pauses, runtime
from vscheduler.daemon.leader_election import api
from vscheduler.mirror.decode import events

log = structlog.get_logger(__name__)

NEEDED = frozenset({events.Kind.POD, events.Kind.POD_GROUP, events.Kind.NAMESPACE})
"""What controllers need of what is followed."""

PAUSES = pauses.Growth(first_seconds=1.0, longest_seconds=60.0)
"""For groups that can't be made, joined or deleted."""

QUEUE_RETRY_SECONDS = 5.0

Sink = Callable[[Sequence[owners.Event]], None]

QUEUE_CONTROL = "vscheduler.controllers.queue_control"
"""The module that keeps Queues."""

SETTLE_SECONDS = 15.0
"""How long Queues wait at most for the scheduler's first cycle and what it binds, in a daemon that
does both."""

SETTLE_LOOK_SECONDS = 0.05

FORBIDDEN_SECONDS = 300.0
"""How long after a refusal it is tried again to follow a kind."""


class Controllers:
    """What follows the owners of pods all the time, and keeps Queues while that Lease is held."""

    def __init__(
        self, around: runtime.Surroundings, sink: Sink, settling: Callable[[], bool]
    ) -> None:
        """`settling` says whether the scheduler's first cycle is still to come."""
        self._around = around
        self._sink = sink
        self._settling = settling

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Follow owners, whether we lead or not."""
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        failures = self._around.failures
        watches = {
            kind: reflector.Watch(
                self._around.link,
                path,
                owners.Codec(kind),
                self._sink,
                pace=reflector.Pace(),
                chance=chance,
                failures=failures,
            )
            for kind, path in owners.WATCHED.items()
        }
        return [
            group.create_task(
                failures.keep_on("owners", partial(self._follow, watch)), name=f"watch {kind}"
            )
            for kind, watch in watches.items()
        ]

    async def keep_queues(self, held: Mapping[str, api.Token]) -> None:
        """Keep Queues under these Leases, until it is cancelled.

        Kopf takes long to import, and looks at every PodGroup once when it starts, at about 3 ms
        each. The scheduler's first cycle comes before that, and so do its binds.
        """
        await self._around.followed.wait_for_lists()
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while self._settling():  # noqa: ASYNC110 - a cycle tells nobody
                    await asyncio.sleep(SETTLE_LOOK_SECONDS)
                await self._around.calls.wait_until_quiet(write_queue.Lane.BIND)
        await asyncio.to_thread(importlib.import_module, QUEUE_CONTROL)
        from vscheduler.controllers import operator, queue_control  # noqa: PLC0415 - whoever has no Queues to keep doesn't need Kopf, which takes long to import
        from vscheduler.controllers.queues import queue_controller  # noqa: PLC0415 - whoever has no Queues to keep doesn't need Kopf, which takes long to import

        around = self._around
        permit = around.permit(api.Mandate(held.values()))
        port = controller_api.Api(around.link, around.calls, permit)
        keeper = queue_controller.QueueKeeper(
            port,
            default_queue=around.given.default_queue,
            observe=around.observed.observe_write,
            pace=queue_controller.Pace(),
            witness=group_evidence.Evidence(around.mirror).counter,
            failures=around.failures,
        )
        outlets = operator.Outlets(pulse=around.signs.kopf, failures=around.failures)
        end = around.mirror.subscribe(keeper.moved)
        try:
            async with asyncio.TaskGroup() as group:
                queue_control.start(group, port, around.link, keeper, outlets)
        finally:
            end()

    async def _follow(self, watch: reflector.Watch[owners.Event]) -> None:
        """Follow a kind of owners; where we may not, say so once, and go on without."""
        told = False
        while True:
            try:
                await self._around.link.call("GET", watch.path.with_query({"limit": "1"}))
            except connection.Forbidden as error:
                if not told:
                    log.warning("owners.forbidden", path=watch.path, message=str(error))
                told = True
                await asyncio.sleep(FORBIDDEN_SECONDS)
                continue
            except connection.ApiError:  # the watch waits that out
                pass
            await watch.run()


def grouping_for(
    around: runtime.Surroundings,
    known: owners.Owners,
    scheduler_names: tuple[str, ...],
    token: api.Token,
) -> podgroup_controller.Grouping:
    """Who looks after the PodGroups of pods of these schedulers, while the token is good."""
    given = around.given
    told = around.herald.under(around.permit_to_tell(token))
    return podgroup_controller.Grouping(
        podgroup_lister.Survey(around.mirror, known, scheduler_names),
        controller_api.Api(around.link, around.calls, around.permit(token)),
        pauses.Pauses[str](PAUSES),
        podgroup_controller.Options(
            schedulers=scheduler_names,
            grace_seconds=given.podgroup_grace_seconds,
            inherit_owner_annotations=given.inherit_owner_annotations,
        ),
        outlets=podgroup_controller.Outlets(
            observe=around.observed.observe_group_call,
            notify=told.notify,
            failures=around.failures,
        ),
        pace=podgroup_controller.Pace(),
    )


async def ensure_queue(link: connection.Connection, name: str, permit: api.Permit) -> None:
    """See to it that the default queue is there, where no controller of ours does.

    A missing CRD may come any moment.
    """
    while True:
        try:
            if await objects.ensure_queue(link, name, may_send=permit):
                log.info("queue.created", queue=name)
        except send_guard.WithheldError:  # until the Lease was renewed, or the tenure ends
            await asyncio.sleep(QUEUE_RETRY_SECONDS)
            continue
        except connection.Forbidden as error:
            log.warning("queue.not_created", message=str(error))
        except connection.ApiError as error:
            log.info("queue.not_created", message=str(error), retry=True)
            await asyncio.sleep(QUEUE_RETRY_SECONDS)
            continue
        return
