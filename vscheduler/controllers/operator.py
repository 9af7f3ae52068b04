"""Kopf, in a thread with an event loop of its own.

In one loop with others its stop would cancel tasks that aren't its own, and in the main thread it
would take over the signal handlers. It starts when the kinds that it follows are there, and anew
when another of them is, or when it has died.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import kopf
import structlog

from vscheduler import containment
from vscheduler.controllers import handlers, ports
from vscheduler.controllers.queues import queue_objects
from vscheduler.mirror import paths

log = structlog.get_logger(__name__)

Kinds = frozenset[queue_objects.Kind]

ALL: Kinds = frozenset(queue_objects.Kind)
NEEDED: Kinds = frozenset({queue_objects.Kind.QUEUE, queue_objects.Kind.POD_GROUP})
"""Without these there is nothing to do; Commands are followed where their CRD is installed."""

END_SECONDS = 2.0
"""How long Kopf's tasks may take to end after they are cancelled."""

LOGIN = "credentials retriever"
"""Kopf's name of the one task that it doesn't look after: without it, all others wait for ever."""

BACKOFFS = (0.5, 1, 2, 4, 8, 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often it looks for kinds, and how long it waits. Seconds."""

    absent_seconds: float = 2.0
    """Between two looks for kinds that are needed and missing."""
    look_seconds: float = 30.0
    """Between two looks for one that may come."""
    gone_seconds: float = 8.0
    """After Kopf's death, how long a kind's end may take to show."""
    stop_seconds: float = 10.0
    """How long Kopf may take to end."""


def _ignore() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Whom it tells, beside the sink."""

    pulse: ports.Pulse
    """Who asks whether Kopf's event loop still answers."""
    absent: Callable[[], None] = _ignore
    """Called again and again while kinds are missing."""
    failures: containment.Failures = field(default_factory=containment.Failures)


class OperatorError(Exception):
    """Kopf has ended by itself."""


class Patience:
    """Kopf's pauses between attempts: without end, where its own would make it give up and die."""

    def __iter__(self) -> Iterator[float]:
        yield from BACKOFFS
        while True:
            yield BACKOFFS[-1]


class Operator:
    """Runs Kopf, and hands what it hears to the daemon's event loop."""

    def __init__(
        self,
        api: ports.Api,
        entry: handlers.Entry,
        sink: handlers.Sink,
        pace: Pace,
        outlets: Outlets,
    ) -> None:
        self._pulse = outlets.pulse
        self._failures = outlets.failures
        self._on_absent = outlets.absent
        self._api = api
        self._pace = pace
        self._entry = entry
        self._sink = sink
        self._missed: Kinds = frozenset()

    async def run(self) -> None:
        """For ever. A Kopf that dies of anything but a kind that has gone is one that failed."""
        await self._failures.keep_on("kopf", self._run)

    async def _run(self) -> None:
        """Until Kopf dies of anything but a kind that has gone: that is an OperatorError."""
        while True:
            kinds = await self._wait_for_kinds()
            died = await self._serve(kinds)
            if died is None or await self._lost(kinds):
                log.info("kopf.again", message="" if died is None else str(died))
                continue
            raise OperatorError(f"Kopf has ended: {type(died).__name__}: {died}") from died

    async def _lost(self, kinds: Kinds) -> bool:
        """Whether one of these kinds is gone, or will be seen to be in a moment."""
        looks = 8
        for _ in range(looks):
            now = await self._kinds()
            if now is not None and not now >= kinds:
                return True
            await asyncio.sleep(self._pace.gone_seconds / looks)
        return False

    async def _wait_for_kinds(self) -> Kinds:
        """The kinds that there are, as soon as those that are needed are among them."""
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
        """Which of these kinds are served, and may be followed; None where the server doesn't say.

        Whether we may watch is asked by a write. So it is asked last, and not while a kind is
        missing without which there is nothing to do: at rest nothing is written.
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
        except ports.RefusedError as error:
            log.info("kinds.unknown", message=str(error))
            return None
        return frozenset(found)

    async def _served(self, path: paths.Path) -> frozenset[str]:
        try:
            listed = await self._api.get(path)
        except ports.RefusedError as error:
            if error.trouble is not ports.Trouble.MISSING:
                raise
            return frozenset()
        return frozenset(each["name"] for each in listed.get("resources") or ())

    async def _listed(self, path: paths.Path) -> bool:
        """Whether we may list this kind: a Kopf that may not gives up."""
        try:
            await self._api.get(path.with_query({"limit": "1"}))
        except ports.RefusedError as error:
            if error.trouble not in (ports.Trouble.MISSING, ports.Trouble.FORBIDDEN):
                raise
            return False
        return True

    async def _watchable(self, kind: queue_objects.Kind) -> bool:
        """Whether we may watch it, too."""
        group = handlers.COLLECTIONS[kind].api_version.partition("/")[0]
        spec = {"resourceAttributes": {"group": group, "resource": str(kind), "verb": "watch"}}
        review: ports.Object = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": spec,
        }
        answer = await self._api.create(paths.REVIEWS.everywhere, review)
        return bool(answer.get("status", {}).get("allowed"))

    async def _serve(self, kinds: Kinds) -> BaseException | None:
        """Run Kopf until the kinds change (None), or until it dies, and what of."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException] = loop.create_future()
        stop = threading.Event()

        def hand_on(event: queue_objects.Event) -> None:
            with suppress(RuntimeError):  # the daemon's loop is closed: nobody listens any more
                loop.call_soon_threadsafe(self._sink, event)

        def tell_end(outcome: BaseException) -> None:
            if not ended.done():
                ended.set_result(outcome)

        def tell_from_thread(outcome: BaseException) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(tell_end, outcome)

        log.info("kopf.started", kinds=sorted(kinds))
        there = asyncio.new_event_loop()
        self._pulse.begin(there)
        threading.Thread(
            target=_operate,
            args=(
                handlers.registry(kinds, self._entry, hand_on, self._failures),
                stop,
                tell_from_thread,
                there,
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
            self._pulse.end()
            stop.set()
            done, _ = await asyncio.wait({ended}, timeout=self._pace.stop_seconds)
            if not done:
                log.warning("kopf.lingers", seconds=self._pace.stop_seconds)

    async def _grown(self, kinds: Kinds) -> bool:
        """Whether there is one more kind to follow."""
        return kinds != ALL and bool(await self._kinds(ALL - kinds))


class NoDiffs(kopf.DiffBaseStorage):
    """Kopf works out what has changed in an object for handlers that we have none of; to copy all
    of it for that takes a third of its time.
    """

    def fetch(self, *, body: kopf.Body) -> None:
        """There is no earlier state."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Nothing of the object."""
        del body, extra_fields
        return kopf.BodyEssence()

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is kept."""


def settings() -> kopf.OperatorSettings:
    """How Kopf is to behave; what matters is said, whatever its defaults are."""
    made = kopf.OperatorSettings()
    made.persistence.diffbase_storage = NoDiffs()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.process.ultimate_exiting_timeout = None
    made.networking.error_backoffs = Patience()
    made.networking.request_timeout = 30.0
    made.networking.connect_timeout = 10.0
    made.watching.server_timeout = 20
    made.watching.inactivity_timeout = 24.0  # silent for longer than any watch takes: it is dead
    made.watching.chunk_size = 500
    made.queueing.idle_timeout = 1.0
    return made


def _operate(
    registry: kopf.OperatorRegistry,
    stop: threading.Event,
    tell_end: Callable[[BaseException], None],
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Run Kopf in this thread until it is told to stop, or dies; why it ended is told at once.

    Its own end is not waited for without a bound: a watch that dies while others log in anew waits
    for ever for credentials that nobody fetches any more.
    """
    try:
        loop.run_until_complete(_live(registry, stop, tell_end))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the daemon is told
        tell_end(error)
    finally:
        stop.set()
        loop.close()


async def _live(
    registry: kopf.OperatorRegistry,
    stop: threading.Event,
    tell_end: Callable[[BaseException], None],
) -> None:
    """Kopf's tasks, until the first of them ends: all of them are to run for ever."""
    arguments: Mapping[str, Any] = {"identity": "vscheduler", "stop_flag": stop}
    roots = await kopf.spawn_tasks(
        registry=registry, settings=settings(), standalone=True, clusterwide=True, **arguments
    )
    ours = asyncio.current_task()
    login = {each for each in asyncio.all_tasks() if each.get_name() == LOGIN}
    ended, _ = await asyncio.wait({*roots} | login, return_when=asyncio.FIRST_COMPLETED)
    errors = [each.exception() for each in ended if not each.cancelled()]
    outcome = next((each for each in errors if each is not None), None)
    tell_end(outcome or OperatorError("one of its tasks is done, which it never is by itself"))
    stop.set()  # else the thread that waits for it would outlive this loop
    await _end({*roots} - ended)
    await _end({each for each in asyncio.all_tasks() if each is not ours})
    loop = asyncio.get_running_loop()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await loop.shutdown_asyncgens()
            await loop.shutdown_default_executor()


async def _end(tasks: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel these, and give them a moment; what they die of now is of no interest."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=END_SECONDS)
        for task in done:
            task.cancelled() or task.exception()
