"""The controllers put together: automatic PodGroups, and Queues; and their port to the API server,
which makes their calls in a lane of their own.
"""

import asyncio
import importlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import structlog

from vscheduler import backoff
from vscheduler.cluster import reflector
from vscheduler.cluster.http import connection, objects, send_guard
from vscheduler.cluster.writes import write_queue
from vscheduler.controllers import ports
from vscheduler.controllers.podgroups import owners, podgroup_controller, podgroup_lister
from vscheduler.daemon import runtime
from vscheduler.daemon.leader_election import api
from vscheduler.mirror import paths
from vscheduler.mirror.decode import events

log = structlog.get_logger(__name__)

NEEDED = frozenset({events.Kind.POD, events.Kind.POD_GROUP, events.Kind.NAMESPACE})
"""What controllers need of what is followed."""

PAUSES = backoff.Growth(first_seconds=1.0, longest_seconds=60.0)
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

T = TypeVar("T")

ALREADY_EXISTS = "AlreadyExists"
"""The reason of the 409 that says that a name is taken."""

FAILED = "the scheduler failed at the call"


class ControllerManager:
    """What follows the owners of pods all the time, and keeps Queues while that Lease is held."""

    def __init__(self, around: runtime.Runtime, sink: Sink, settling: Callable[[], bool]) -> None:
        """`settling` says whether the scheduler's first cycle is still to come."""
        self._around = around
        self._sink = sink
        self._settling = settling

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Follow owners, whether we lead or not."""
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        failures = self._around.failures
        watches = {
            kind: reflector.Reflector(
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
                await self._around.calls.wait_until_quiet(write_queue.WritePriority.BIND)
        await asyncio.to_thread(importlib.import_module, QUEUE_CONTROL)
        from vscheduler.controllers import operator, queue_control  # noqa: PLC0415 - whoever has no Queues to keep doesn't need Kopf, which takes long to import
        from vscheduler.controllers.queues import queue_controller  # noqa: PLC0415 - whoever has no Queues to keep doesn't need Kopf, which takes long to import

        around = self._around
        permit = around.permit(api.CompositeToken(held.values()))
        port = Api(around.link, around.calls, permit)
        keeper = queue_controller.QueueController(
            port,
            default_queue=around.given.default_queue,
            observe=around.observed.observe_write,
            pace=queue_controller.Pace(),
            witness=podgroup_lister.StatusEvidence(around.mirror).counter,
            failures=around.failures,
        )
        outlets = operator.Outlets(pulse=around.signs.kopf, failures=around.failures)
        end = around.mirror.subscribe(keeper.moved)
        try:
            async with asyncio.TaskGroup() as group:
                queue_control.start(group, port, around.link, keeper, outlets)
        finally:
            end()

    async def _follow(self, watch: reflector.Reflector[owners.Event]) -> None:
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
    around: runtime.Runtime,
    known: owners.Owners,
    scheduler_names: tuple[str, ...],
    token: api.Token,
) -> podgroup_controller.PodGroupController:
    """Who looks after the PodGroups of pods of these schedulers, while the token is good."""
    given = around.given
    told = around.herald.under(around.permit_to_tell(token))
    return podgroup_controller.PodGroupController(
        podgroup_lister.PodGroupLister(around.mirror, known, scheduler_names),
        Api(around.link, around.calls, around.permit(token)),
        backoff.Backoff[str](PAUSES),
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
        except send_guard.NotSentError:  # until the Lease was renewed, or the tenure ends
            await asyncio.sleep(QUEUE_RETRY_SECONDS)
            continue
        except connection.Forbidden as error:
            log.warning("queue.not_created", message=str(error))
        except connection.ApiError as error:
            log.info("queue.not_created", message=str(error), retry=True)
            await asyncio.sleep(QUEUE_RETRY_SECONDS)
            continue
        return


class Api:
    """`ports.Api` over a connection. Calls wait for their turn behind binds and evictions."""

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.WriteQueue,
        may_commit: Callable[[], bool],
    ) -> None:
        self._link = link
        self._lanes = queue
        self._may_commit = may_commit

    async def get(self, path: paths.Path) -> ports.Object:
        """The object at this path."""
        return await self._take_turn(lambda: objects.get(self._link, path))

    async def list(
        self,
        path: paths.Path,
        params: Mapping[str, str] | None = None,
        *,
        metadata_only: bool = False,
    ) -> list[ports.Object]:
        """All objects of a collection."""
        return await self._take_turn(
            lambda: objects.list_all(self._link, path, params or {}, metadata_only=metadata_only)
        )

    async def create(self, path: paths.Path, body: ports.Object) -> ports.Object:
        """Create an object."""
        return await self._take_turn(
            lambda: objects.create(self._link, path, body, may_send=self._may_commit)
        )

    async def patch(
        self,
        path: paths.Path,
        body: ports.Object,
        content_type: str = ports.MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> ports.Object:
        """Change an object."""
        return await self._take_turn(
            lambda: objects.patch(
                self._link, path, body, content_type, params, may_send=self._may_commit
            )
        )

    async def delete(self, path: paths.Path, preconditions: ports.Preconditions) -> None:
        """Delete an object, that one only."""
        await self._take_turn(
            lambda: objects.delete(
                self._link,
                path,
                uid=preconditions.uid,
                resource_version=preconditions.resource_version,
                may_send=self._may_commit,
            )
        )

    async def _take_turn(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call when a worker is free; whether we may commit is asked just before."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def make() -> None:
            if answer.done():  # who asked has gone
                return
            try:
                given = await self._made(call)
            except ports.RefusedError as refusal:
                if not answer.done():
                    answer.set_exception(refusal)
            else:
                if not answer.done():
                    answer.set_result(given)

        self._lanes.put(write_queue.WritePriority.CONTROL, make)
        return await answer

    async def _made(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call gives; whatever it raises is a RefusedError, so that who asked has one."""
        if not self._may_commit():
            raise ports.RefusedError(ports.Trouble.WITHHELD, "stopping")
        try:
            return await call()
        except send_guard.NotSentError as error:
            raise ports.RefusedError(ports.Trouble.WITHHELD, "stopping") from error
        except connection.ApiError as error:
            raise refused(error) from error
        except Exception as error:
            self._lanes.failures.failed("call", "control", error)
            raise ports.RefusedError(ports.Trouble.UNANSWERED, FAILED) from error


def refused(error: connection.ApiError) -> ports.RefusedError:
    """What an error of the connection is to controllers."""
    trouble = ports.Trouble.INVALID
    match error:
        case connection.Conflict():
            exists = error.reason == ALREADY_EXISTS
            trouble = ports.Trouble.EXISTS if exists else ports.Trouble.CONFLICT
        case connection.NotFound():
            trouble = ports.Trouble.MISSING
        case connection.Forbidden():
            trouble = ports.Trouble.FORBIDDEN
        case connection.Throttled() | connection.Protected():
            trouble = ports.Trouble.THROTTLED
        case connection.Unavailable() | connection.Gone():
            trouble = ports.Trouble.UNANSWERED
    return ports.RefusedError(trouble, str(error))
