"""Controller manager: runs the PodGroup and Queue controllers, and implements their API port.

The controllers' calls have a priority of their own in the write queue.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec
import structlog

from vscheduler import backoff
from vscheduler.cluster import reflector
from vscheduler.cluster.http import connection, objects, send_guard
from vscheduler.cluster.writes import write_queue
from vscheduler.controllers import event_coalescing, kopf_import, ports
from vscheduler.controllers.podgroups import owners, podgroup_controller, podgroup_lister
from vscheduler.daemon import runtime
from vscheduler.daemon.leader_election import api
from vscheduler.mirror import paths

log = structlog.get_logger(__name__)

PAUSES = backoff.Growth(first_seconds=1.0, longest_seconds=60.0)
"""Backoff for PodGroups that cannot be created, joined or deleted."""

QUEUE_RETRY_SECONDS = 5.0

Sink = Callable[[Sequence[owners.Event]], None]

SETTLE_SECONDS = 15.0
"""How long the Queue controller waits at most for the scheduler's first cycle and its binds, in a
daemon that runs both."""

SETTLE_LOOK_SECONDS = 0.05

FORBIDDEN_SECONDS = 300.0
"""Pause after a refusal before watching a kind is tried again."""

T = TypeVar("T")

ALREADY_EXISTS = "AlreadyExists"
"""The reason in a 409 for a name already taken."""

FAILED = "the scheduler failed at the call"


class ControllerManager:
    """Watches owners of pods all the time, and runs the Queue controller while leading."""

    def __init__(
        self, runtime: runtime.Runtime, sink: Sink, before_first_cycle: Callable[[], bool]
    ) -> None:
        """`before_first_cycle` returns whether the scheduler's first cycle is still to come."""
        self._runtime = runtime
        self._sink = sink
        self._before_first_cycle = before_first_cycle

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start watching owners, whether leader or not."""
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        failures = self._runtime.failures
        watches = {
            kind: reflector.Reflector(
                self._runtime.link,
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
        """Run the Queue controller under these Leases until cancelled.

        Importing Kopf and the first lists take long. The scheduler's first cycle and its binds
        therefore come first.
        """
        await self._runtime.watches.wait_for_lists()
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while self._before_first_cycle():  # noqa: ASYNC110 - no event reports the first cycle
                    await asyncio.sleep(SETTLE_LOOK_SECONDS)
                await self._runtime.calls.wait_until_quiet(write_queue.WritePriority.BIND)
        await asyncio.to_thread(kopf_import.load)
        from vscheduler.controllers import operator  # noqa: PLC0415 - only instances with a Queue controller import Kopf, which takes long
        from vscheduler.controllers.queues import queue_controller  # noqa: PLC0415 - only instances with a Queue controller import Kopf, which takes long

        runtime = self._runtime
        permit = runtime.permit(api.CompositeToken(held.values()))
        port = Api(runtime.link, runtime.calls, permit)
        keeper = queue_controller.QueueController(
            port,
            default_queue=runtime.given.default_queue,
            observe=runtime.observed.observe_write,
            pace=queue_controller.Pace(),
            groups=podgroup_lister.StatusEvidence(runtime.mirror),
            failures=runtime.failures,
        )
        outlets = operator.Outlets(heartbeat=runtime.signs.kopf, failures=runtime.failures)
        end = runtime.mirror.subscribe(keeper.moved)
        try:
            async with asyncio.TaskGroup() as group:
                operator.start(group, port, runtime.link, keeper, outlets)
        finally:
            end()

    async def _follow(self, watch: reflector.Reflector[owners.Event]) -> None:
        """Watch a kind of owner. Without permission, log the refusal once and try again later."""
        warned = False
        while True:
            try:
                await self._runtime.link.call("GET", watch.path.with_query({"limit": "1"}))
            except connection.Forbidden as error:
                if not warned:
                    log.warning("owners.forbidden", path=watch.path, message=str(error))
                warned = True
                await asyncio.sleep(FORBIDDEN_SECONDS)
                continue
            except connection.ApiError:  # the reflector retries
                pass
            await watch.run()


def podgroup_controller_for(
    runtime: runtime.Runtime,
    known: owners.Owners,
    scheduler_names: tuple[str, ...],
    token: api.Token,
) -> podgroup_controller.PodGroupController:
    """Return the PodGroup controller of these schedulers, active while the token is valid."""
    given = runtime.given
    recorder = runtime.recorder.under(runtime.permit_for_events(token))
    return podgroup_controller.PodGroupController(
        podgroup_lister.PodGroupLister(runtime.mirror, known, scheduler_names),
        Api(runtime.link, runtime.calls, runtime.permit(token)),
        backoff.Backoff[str](PAUSES),
        podgroup_controller.Options(
            schedulers=scheduler_names,
            grace_seconds=given.podgroup_grace_seconds,
            inherit_owner_annotations=given.inherit_owner_annotations,
        ),
        outlets=podgroup_controller.Outlets(
            observe=runtime.observed.observe_group_call,
            notify=recorder.notify,
            failures=runtime.failures,
        ),
        pace=podgroup_controller.Pace(),
    )


async def ensure_queue(link: connection.Connection, name: str, permit: api.Permit) -> None:
    """Create the default queue if missing, in an instance without a Queue controller.

    Errors are retried, because a missing CRD may be installed at any moment.
    """
    while True:
        try:
            if await objects.ensure_queue(link, name, may_send=permit):
                log.info("queue.created", queue=name)
        except send_guard.NotSentError:  # until the Lease was renewed, or the session ends
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
    """Implements `ports.Api` over a connection.

    Calls have lower priority than binds and evictions.
    """

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.WriteQueue,
        may_commit: Callable[[], bool],
    ) -> None:
        self._link = link
        self._queue = queue
        self._may_commit = may_commit

    async def get(self, path: paths.Path) -> ports.Object:
        """Return the object at this path."""
        return await self._take_turn(lambda: objects.get(self._link, path))

    async def list(
        self,
        path: paths.Path,
        params: Mapping[str, str] | None = None,
        *,
        metadata_only: bool = False,
    ) -> list[ports.Object]:
        """Return all objects of a collection; of all PodGroups, only what the controllers read."""
        read = _group if path == paths.POD_GROUPS.everywhere and not metadata_only else None
        return await self._take_turn(
            lambda: objects.list_all(
                self._link, path, params or {}, metadata_only=metadata_only, read=read
            )
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
        """Patch an object."""
        return await self._take_turn(
            lambda: objects.patch(
                self._link, path, body, content_type, params, may_send=self._may_commit
            )
        )

    async def delete(self, path: paths.Path, preconditions: ports.Preconditions) -> None:
        """Delete an object, if the preconditions hold."""
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
        """Make the call when a worker is free. `may_commit` is asked right before."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def make() -> None:
            if answer.done():  # the caller was cancelled
                return
            try:
                given = await self._made(call)
            except ports.RefusedError as refusal:
                if not answer.done():
                    answer.set_exception(refusal)
            else:
                if not answer.done():
                    answer.set_result(given)

        self._queue.put(write_queue.WritePriority.CONTROL, make)
        return await answer

    async def _made(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the call.

        Every error becomes a RefusedError, so that the caller always gets an answer.
        """
        if not self._may_commit():
            raise ports.RefusedError(ports.Trouble.WITHHELD, "stopping")
        try:
            return await call()
        except send_guard.NotSentError as error:
            raise ports.RefusedError(ports.Trouble.WITHHELD, "stopping") from error
        except connection.ApiError as error:
            raise refused(error) from error
        except Exception as error:
            self._queue.failures.failed("call", "control", error)
            raise ports.RefusedError(ports.Trouble.UNANSWERED, FAILED) from error


def refused(error: connection.ApiError) -> ports.RefusedError:
    """Return the controllers' error for an error of the connection."""
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


def _group(item: msgspec.Raw) -> ports.Object:
    """Read a PodGroup of a list: tenants make them as large as the API server lets them."""
    return event_coalescing.fields_of(item) or objects.whole(item)
