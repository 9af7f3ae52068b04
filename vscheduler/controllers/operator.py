"""Operator: runs Kopf in a thread with an event loop of its own, for the Queue controller.

In a shared event loop Kopf's shutdown would cancel foreign tasks, and in the main thread Kopf would
replace the signal handlers. Kopf is started once the kinds it follows are served. Kopf is restarted
when a further kind is served, and after Kopf has died.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import kopf
import msgspec
import structlog
from msgspec.structs import replace

from vscheduler.containment import Failures
from vscheduler.controllers import handlers
from vscheduler.controllers.handlers import Entry, OpenedSessions, Sink
from vscheduler.controllers.ports import Api, Heartbeat, Object, RefusedError, Trouble
from vscheduler.controllers.queues.queue_controller import QueueController
from vscheduler.controllers.queues.queue_objects import Event, Kind
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path

log = structlog.get_logger(__name__)

Kinds = frozenset[Kind]

ALL: Kinds = frozenset(Kind)
NEEDED: Kinds = frozenset({Kind.QUEUE, Kind.POD_GROUP})
"""Without these kinds the controller has no work. Commands are followed where their CRD is
installed.
"""

END_SECONDS = 2.0
"""How long Kopf's tasks may take to end after cancellation, in seconds."""

LOGIN = "credentials retriever"
"""Kopf's name of its login task, the only task that Kopf doesn't supervise. If the login task dies,
all remaining tasks wait forever.
"""

BACKOFFS = (0.5, 1, 2, 4, 8, 15)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals between checks for kinds, and time limits. Seconds."""

    absent_seconds: float = 2.0
    """Between two checks for required kinds that are missing."""
    look_seconds: float = 30.0
    """Between two checks for an optional kind."""
    gone_seconds: float = 8.0
    """After Kopf's death, how long to wait for evidence that a kind is gone."""
    stop_seconds: float = 10.0
    """How long Kopf may take to stop."""


def _ignore() -> None:
    pass


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """Callbacks of the operator, in addition to the sink of events."""

    heartbeat: Heartbeat
    """Monitors whether Kopf's event loop responds."""
    absent: Callable[[], None] = _ignore
    """Called repeatedly while required kinds are missing."""
    failures: Failures = msgspec.field(default_factory=Failures)


class OperatorError(Exception):
    """Kopf has ended on its own."""


class EndlessBackoffs:
    """Endless pauses between Kopf's attempts. With Kopf's own finite list Kopf would give up and
    die.
    """

    def __iter__(self) -> Iterator[float]:
        yield from BACKOFFS
        while True:
            yield BACKOFFS[-1]


class Operator:
    """Runs Kopf, and passes events to the daemon's event loop."""

    def __init__(
        self,
        api: Api,
        entry: Entry,
        sink: Sink,
        pace: Pace,
        outlets: Outlets,
    ) -> None:
        self._heartbeat = outlets.heartbeat
        self._failures = outlets.failures
        self._on_absent = outlets.absent
        self._api = api
        self._pace = pace
        self._entry = entry
        self._sink = sink
        self._missed: Kinds = frozenset()

    async def run(self) -> None:
        """Run forever. A death of Kopf counts as a failure unless a followed kind is gone."""
        await self._failures.keep_on("kopf", self._run)

    async def _run(self) -> None:
        """Run until Kopf dies without a followed kind being gone; raises OperatorError then."""
        while True:
            kinds = await self._wait_for_kinds()
            died = await self._serve(kinds)
            if died is None or await self._lost(kinds):
                log.info("kopf.again", message="" if died is None else str(died))
                continue
            raise OperatorError(f"Kopf has ended: {type(died).__name__}: {died}") from died

    async def _lost(self, kinds: Kinds) -> bool:
        """Whether any of these kinds is gone, or is found gone within a few seconds."""
        looks = 8
        for _ in range(looks):
            now = await self._kinds()
            if now is not None and not now >= kinds:
                return True
            await asyncio.sleep(self._pace.gone_seconds / looks)
        return False

    async def _wait_for_kinds(self) -> Kinds:
        """Wait for the required kinds; return all kinds served by then."""
        while True:
            kinds = await self._kinds()
            if kinds is not None and kinds >= NEEDED:
                self._missed = frozenset()
                return kinds
            if kinds is not None:
                self._on_absent()
            missed = NEEDED if kinds is None else NEEDED - kinds
            if kinds is not None and missed != self._missed:
                self._missed = missed
                log.warning("kinds.absent", kinds=sorted(missed), retry=True)
            await asyncio.sleep(self._pace.absent_seconds)

    async def _kinds(self, among: Kinds = ALL) -> Kinds | None:
        """Return the kinds that are served and that we may follow; None if the server gives no
        answer.

        The permission to watch is checked by a write (SelfSubjectAccessReview). So watch
        permissions are checked last, and not while a required kind is missing: an idle daemon must
        write nothing.
        """
        found = set()
        try:
            wanted = {kind: handlers.COLLECTIONS[kind] for kind in sorted(ALL)}
            for version in dict.fromkeys(each.api_version for each in wanted.values()):
                served = await self._served(paths.version(version))
                for kind, collection in wanted.items():
                    here = kind in among and collection.api_version == version
                    if here and kind in served and await self._listed(collection.everywhere):
                        found.add(kind)
            if found >= NEEDED & among:
                found = {kind for kind in found if await self._watchable(kind)}
        except RefusedError as error:
            log.info("kinds.unknown", message=str(error))
            return None
        return frozenset(found)

    async def _served(self, path: Path) -> frozenset[str]:
        try:
            listed = await self._api.get(path)
        except RefusedError as error:
            if error.trouble is not Trouble.MISSING:
                raise
            return frozenset()
        return frozenset(each["name"] for each in listed.get("resources") or ())

    async def _listed(self, path: Path) -> bool:
        """Whether we may list this kind. Without the permission Kopf would give up."""
        try:
            await self._api.get(path.with_query({"limit": "1"}))
        except RefusedError as error:
            if error.trouble not in (Trouble.MISSING, Trouble.FORBIDDEN):
                raise
            return False
        return True

    async def _watchable(self, kind: Kind) -> bool:
        """Whether we may watch this kind."""
        group = handlers.COLLECTIONS[kind].api_version.partition("/")[0]
        spec = {"resourceAttributes": {"group": group, "resource": str(kind), "verb": "watch"}}
        review: Object = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": spec,
        }
        answer = await self._api.create(paths.REVIEWS.everywhere, review)
        return bool(answer.get("status", {}).get("allowed"))

    async def _serve(self, kinds: Kinds) -> BaseException | None:
        """Run Kopf until the kinds change, and return None; or until Kopf dies, and return the
        cause.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException] = loop.create_future()
        stop = threading.Event()

        def pass_on(event: Event) -> None:
            with suppress(RuntimeError):  # the daemon's loop is closed already
                loop.call_soon_threadsafe(self._sink, event)

        def tell_end(outcome: BaseException) -> None:
            if not ended.done():
                ended.set_result(outcome)

        def tell_from_thread(outcome: BaseException) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(tell_end, outcome)

        log.info("kopf.started", kinds=sorted(kinds))
        kopf_loop = asyncio.new_event_loop()
        opened = OpenedSessions(self._entry)
        self._heartbeat.begin(kopf_loop)
        threading.Thread(
            target=_operate,
            args=(
                handlers.registry(kinds, opened, pass_on, self._failures),
                opened,
                stop,
                tell_from_thread,
                kopf_loop,
            ),
            name="kopf",
            daemon=True,
        ).start()
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=self._pace.look_seconds)
                if not ended.done() and await self._grown(kinds):
                    return None
            return ended.result()
        finally:
            self._heartbeat.end()
            stop.set()
            done, _ = await asyncio.wait({ended}, timeout=self._pace.stop_seconds)
            if not done:
                log.warning("kopf.lingers", seconds=self._pace.stop_seconds)

    async def _grown(self, kinds: Kinds) -> bool:
        """Whether a further kind can be followed by now."""
        return kinds != ALL and bool(await self._kinds(ALL - kinds))


def start(
    group: asyncio.TaskGroup,
    api: Api,
    entry: Entry,
    controller: QueueController,
    outlets: Outlets,
) -> list[asyncio.Task[None]]:
    """Start the tasks of the Queue controller; each task ends when cancelled.

    `entry` is Kopf's connection to the API server. The QueueController is notified of missing
    kinds.
    """
    outlets = replace(outlets, absent=controller.miss)
    runner = Operator(api, entry, controller.feed, Pace(), outlets)
    return [
        group.create_task(controller.run(), name="keep queues"),
        group.create_task(runner.run(), name="kopf"),
    ]


class NoDiffs(kopf.DiffBaseStorage):
    """Disables Kopf's diffs, which only matter for handlers that we don't use. The copies of whole
    objects would take a third of Kopf's time.
    """

    def fetch(self, *, body: kopf.Body) -> None:
        """Return no earlier state."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Return an empty essence."""
        del body, extra_fields
        return kopf.BodyEssence()

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Store nothing."""


def settings() -> kopf.OperatorSettings:
    """Return Kopf's settings. Every setting that matters is explicit, whatever its default."""
    made = kopf.OperatorSettings()
    made.persistence.diffbase_storage = NoDiffs()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.process.ultimate_exiting_timeout = None
    made.networking.error_backoffs = EndlessBackoffs()
    made.networking.request_timeout = 30.0
    made.networking.connect_timeout = 10.0
    made.watching.server_timeout = 20
    made.watching.inactivity_timeout = 24.0  # longer than any watch lasts: the connection is dead
    made.watching.chunk_size = 500
    made.queueing.idle_timeout = 1.0
    return made


def _operate(
    registry: kopf.OperatorRegistry,
    opened: OpenedSessions,
    stop: threading.Event,
    tell_end: Callable[[BaseException], None],
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Run Kopf in the current thread until stopped or dead; `tell_end` learns the cause at once.

    Waiting for Kopf's own shutdown needs a time limit: a watch that dies during a login would wait
    forever for credentials that no task fetches any longer.
    """
    try:
        loop.run_until_complete(_live(registry, opened, stop, tell_end))
    except BaseException as error:  # noqa: BLE001 - the daemon learns of every error
        tell_end(error)
    finally:
        stop.set()
        loop.close()


async def _live(
    registry: kopf.OperatorRegistry,
    opened: OpenedSessions,
    stop: threading.Event,
    tell_end: Callable[[BaseException], None],
) -> None:
    """Run Kopf's tasks until the first task ends; normally all tasks run forever."""
    arguments: Mapping[str, Any] = {"identity": "vscheduler", "stop_flag": stop}
    roots = await kopf.spawn_tasks(
        registry=registry, settings=settings(), standalone=True, clusterwide=True, **arguments
    )
    own_task = asyncio.current_task()
    login = {task for task in asyncio.all_tasks() if task.get_name() == LOGIN}
    ended, _ = await asyncio.wait({*roots} | login, return_when=asyncio.FIRST_COMPLETED)
    errors = [each.exception() for each in ended if not each.cancelled()]
    outcome = next((error for error in errors if error is not None), None)
    tell_end(outcome or OperatorError("one of its tasks is done, which it never is by itself"))
    stop.set()  # otherwise the thread waiting for the flag would outlive this loop
    await _end({*roots} - ended)
    await _end({task for task in asyncio.all_tasks() if task is not own_task})
    loop = asyncio.get_running_loop()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await opened.close()
            await loop.shutdown_asyncgens()
            await loop.shutdown_default_executor()


async def _end(tasks: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel tasks and wait for them briefly; their errors are ignored."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=END_SECONDS)
        for task in done:
            task.cancelled() or task.exception()
