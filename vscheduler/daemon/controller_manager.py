"""Controller manager: runs the PodGroup and Queue controllers, and implements their API port.

The controllers' calls have a priority of their own in the write queue.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import structlog

from vscheduler.backoff import Backoff, Growth
from vscheduler.cluster import reflector
from vscheduler.cluster.http import objects
from vscheduler.cluster.http.connection import (
    ApiError,
    Conflict,
    Connection,
    Forbidden,
    Gone,
    NotFound,
    Protected,
    Throttled,
    Unavailable,
)
from vscheduler.cluster.http.send_guard import NotSentError
from vscheduler.cluster.reflector import Reflector
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.controllers import ports
from vscheduler.controllers.podgroups import owners, podgroup_controller
from vscheduler.controllers.podgroups.owners import Codec, Event, Owners
from vscheduler.controllers.podgroups.podgroup_controller import (
    Options,
    Outlets,
    PodGroupController,
)
from vscheduler.controllers.podgroups.podgroup_lister import PodGroupLister, StatusEvidence
from vscheduler.controllers.ports import Object, Preconditions, RefusedError, Trouble
from vscheduler.controllers.queues import gone_schedulers, queue_controller, queue_objects
from vscheduler.controllers.queues.queue_controller import QueueController
from vscheduler.controllers.queues.queue_index import Indices, QueueIndex
from vscheduler.daemon.leader_election.api import CompositeToken, Permit, Token
from vscheduler.daemon.runtime import Runtime
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path

log = structlog.get_logger(__name__)

PAUSES = Growth(first_seconds=1.0, longest_seconds=60.0)
"""Backoff for PodGroups that cannot be created, joined or deleted."""

QUEUE_RETRY_SECONDS = 5.0

Sink = Callable[[Sequence[Event]], None]

FORBIDDEN_SECONDS = 300.0
"""Pause after a refusal before watching a kind is tried again."""

T = TypeVar("T")

ALREADY_EXISTS = "AlreadyExists"
"""The reason in a 409 for a name already taken."""

FAILED = "the scheduler failed at the call"


class ControllerManager:
    """Watches owners of pods all the time, and runs the Queue controller while leading."""

    def __init__(self, runtime: Runtime, sink: Sink) -> None:
        self._runtime = runtime
        self._sink = sink
        self._indices: asyncio.Future[Indices] = asyncio.get_running_loop().create_future()
        self._keeper: QueueController | None = None

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start watching owners, whether leader or not."""
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        failures = self._runtime.failures
        watches = {
            kind: Reflector(
                self._runtime.link,
                path,
                Codec(kind),
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

    async def keep_queues(self, held: Mapping[str, Token]) -> None:
        """Run the Queue controller under these Leases until cancelled."""
        await self._runtime.watches.wait_for_lists()
        indices = await self._indices
        runtime = self._runtime
        port = self.api(runtime.permit(CompositeToken(held.values())))
        keeper = self._keeper = QueueController(
            port,
            index=QueueIndex(
                indices, runtime.given.default_queue, StatusEvidence(runtime.mirror).counter
            ),
            observe=runtime.observed.observe_write,
            pace=queue_controller.Pace(),
            failures=runtime.failures,
        )
        gone = gone_schedulers.GoneSchedulers(port, runtime.given.election.namespace)
        end = runtime.mirror.subscribe(lambda _: keeper.changed())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(keeper.run(), name="keep queues")
                looks = runtime.failures.keep_on("gone schedulers", gone.run)
                group.create_task(looks, name="remove what schedulers have left")
        finally:
            end()
            self._keeper = None

    def api(self, permit: Permit) -> "Api":
        """Return the controllers' way to the API server, for writes while the permit is valid."""
        return Api(self._runtime.link, self._runtime.calls, permit)

    def know(self, indices: Indices) -> None:
        """Use these indices of Kopf's."""
        self._indices.set_result(indices)

    def changed(self, listed: bool) -> None:
        """Notice an event of Kopf's."""
        if self._keeper is not None:
            self._keeper.changed(listed=listed)

    async def _follow(self, watch: Reflector[Event]) -> None:
        """Watch a kind of owner. Without permission, log the refusal once and try again later."""
        warned = False
        while True:
            try:
                await self._runtime.link.call("GET", watch.path.with_query({"limit": "1"}))
            except Forbidden as error:
                if not warned:
                    log.warning("owners.forbidden", path=watch.path, message=str(error))
                warned = True
                await asyncio.sleep(FORBIDDEN_SECONDS)
                continue
            except ApiError:  # the reflector retries
                pass
            await watch.run()


def podgroup_controller_for(
    runtime: Runtime,
    known: Owners,
    scheduler_names: tuple[str, ...],
    token: Token,
) -> PodGroupController:
    """Return the PodGroup controller of these schedulers, active while the token is valid."""
    given = runtime.given
    recorder = runtime.recorder.under(runtime.permit_for_events(token))
    return PodGroupController(
        PodGroupLister(runtime.mirror, known, scheduler_names),
        Api(runtime.link, runtime.calls, runtime.permit(token)),
        Backoff[str](PAUSES),
        Options(
            schedulers=scheduler_names,
            grace_seconds=given.podgroup_grace_seconds,
            inherit_owner_annotations=given.inherit_owner_annotations,
        ),
        outlets=Outlets(
            observe=runtime.observed.observe_group_call,
            notify=recorder.notify,
            failures=runtime.failures,
        ),
        pace=podgroup_controller.Pace(),
    )


async def ensure_queue(connection: Connection, name: str, permit: Permit) -> None:
    """Create the default queue if missing, in an instance without a Queue controller.

    Errors are retried, because a missing CRD may be installed at any moment.
    """
    while True:
        try:
            if await objects.ensure_queue(connection, name, may_send=permit):
                log.info("queue.created", queue=name)
        except NotSentError:  # until the Lease was renewed, or the session ends
            await asyncio.sleep(QUEUE_RETRY_SECONDS)
            continue
        except Forbidden as error:
            log.warning("queue.not_created", message=str(error))
        except ApiError as error:
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
        connection: Connection,
        queue: WriteQueue,
        may_commit: Callable[[], bool],
    ) -> None:
        self._link = connection
        self._queue = queue
        self._may_commit = may_commit

    async def get(self, path: Path) -> Object:
        """Return the object at this path."""
        return await self._take_turn(lambda: objects.get(self._link, path))

    async def list(
        self,
        path: Path,
        params: Mapping[str, str] | None = None,
        *,
        metadata_only: bool = False,
    ) -> list[Object]:
        """Return all objects of a collection; of all PodGroups, only what the controllers read."""
        read = _group if path == paths.POD_GROUPS.everywhere and not metadata_only else None
        return await self._take_turn(
            lambda: objects.list_all(
                self._link, path, params or {}, metadata_only=metadata_only, read=read
            )
        )

    async def create(self, path: Path, body: Object) -> Object:
        """Create an object."""
        return await self._take_turn(
            lambda: objects.create(self._link, path, body, may_send=self._may_commit)
        )

    async def patch(
        self,
        path: Path,
        body: Object,
        content_type: str = ports.MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """Patch an object."""
        return await self._take_turn(
            lambda: objects.patch(
                self._link, path, body, content_type, params, may_send=self._may_commit
            )
        )

    async def delete(self, path: Path, preconditions: Preconditions) -> None:
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
            except RefusedError as refusal:
                if not answer.done():
                    answer.set_exception(refusal)
            else:
                if not answer.done():
                    answer.set_result(given)

        self._queue.put(WritePriority.CONTROL, make)
        return await answer

    async def _made(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the call.

        Every error becomes a RefusedError, so that the caller always gets an answer.
        """
        if not self._may_commit():
            raise RefusedError(Trouble.WITHHELD, "stopping")
        try:
            return await call()
        except NotSentError as error:
            raise RefusedError(Trouble.WITHHELD, "stopping") from error
        except ApiError as error:
            raise refused(error) from error
        except Exception as error:
            self._queue.failures.failed("call", "control", error)
            raise RefusedError(Trouble.UNANSWERED, FAILED) from error


def refused(error: ApiError) -> RefusedError:
    """Return the controllers' error for an error of the connection."""
    trouble = Trouble.INVALID
    match error:
        case Conflict():
            exists = error.reason == ALREADY_EXISTS
            trouble = Trouble.EXISTS if exists else Trouble.CONFLICT
        case NotFound():
            trouble = Trouble.MISSING
        case Forbidden():
            trouble = Trouble.FORBIDDEN
        case Throttled() | Protected():
            trouble = Trouble.THROTTLED
        case Unavailable() | Gone():
            trouble = Trouble.UNANSWERED
    return RefusedError(trouble, str(error))


def _group(item: msgspec.Raw) -> Object:
    """Read a PodGroup of a list: tenants make them as large as the API server lets them."""
    return queue_objects.fields_of_group(item) or objects.whole(item)
