"""Composition root of the daemon: builds all long-lived objects and runs their tasks."""

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial

import structlog

from vscheduler.cluster.writes.event_recorder import EventRecorder, Identity
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.containment import Failures
from vscheduler.controllers.podgroups.owners import Owners
from vscheduler.core.config.policy import Policy
from vscheduler.daemon import (
    configuration_digest,
    controllers_process,
    health,
    informers,
    leader_session,
    startup,
    watched_kinds,
)
from vscheduler.daemon.configuration import Loaded
from vscheduler.daemon.controller_manager import ControllerManager
from vscheduler.daemon.controllers_process import ControllersProcess
from vscheduler.daemon.health import Report
from vscheduler.daemon.informers import Informers
from vscheduler.daemon.leader_election import api, elector, thread
from vscheduler.daemon.leader_election.api import AlwaysLeader, Leadership, LeaseStatus
from vscheduler.daemon.leader_election.elector import Terms
from vscheduler.daemon.leader_election.thread import ElectionThread
from vscheduler.daemon.leader_session import LeaderSession
from vscheduler.daemon.liveness import signals, watchdog
from vscheduler.daemon.liveness.watchdog import KillTimer, Signs, Watchdog
from vscheduler.daemon.observability import logs
from vscheduler.daemon.observability.logs import LineWriter
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.daemon.reloading import Reload, Reloader
from vscheduler.daemon.runtime import Runtime
from vscheduler.daemon.settings import Settings
from vscheduler.daemon.startup import Opened
from vscheduler.mirror import statuses
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.index.entries import Event
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.statuses import EventNotice, ObjectReference
from vscheduler.web.history import History, Observer

log = structlog.get_logger(__name__)

YOUNG_OBJECTS_MAX = 20_000
"""Number of new objects that trigger a garbage collection. After Python's default of 700, nearly
all are still in use."""

ATTEMPTS_MAX = {"serve": 6, "commit": 6}
"""How often the tasks essential for a leader may fail in a row before the process ends: about half
a minute."""

LISTS_SECONDS = 60.0
"""How long garbage collection stays off at most while the first lists arrive."""

WORKERS = 64
"""Maximum number of concurrent calls."""

WAITING_MAX = 20_000
"""Maximum number of waiting events. More events are dropped and counted."""

FINISH_SECONDS = 4.0
"""How long a shutdown still sends binds and evictions already decided, as a gang's last binds."""

DRAIN_SECONDS = 10.0
"""How long a shutdown then waits for calls in progress, before releasing the Leases."""

EVENTS_SECONDS = 2.0
"""How long a shutdown waits for events: about work under the Leases before their release, about the
release after it."""

QUIET_SECONDS = 3.0
"""How long a stuck instance waits for calls in progress before releasing its Leases. If calls go
on, it keeps the Leases."""


class KopfEndedError(Exception):
    """Kopf has ended by itself, and the process with it."""


class Application:
    """The daemon. Creates every object that lives as long as the process."""

    def __init__(
        self,
        settings: Settings,
        loaded: Loaded,
        opened: Opened,
        lines: LineWriter,
        kill_timer: Callable[[], None],
    ) -> None:
        """`kill_timer` is called regularly as long as the interpreter is alive."""
        link = opened.link
        self._settings, self._link, self._signs = settings, link, Signs()
        self._stopping, self._withholding = asyncio.Event(), asyncio.Event()
        self._metrics = Metrics(lambda: lines.dropped)
        self._failures = Failures(self._metrics.observe_failure, self._notify)
        self._write_queue = WriteQueue(
            workers=WORKERS, waiting_max=WAITING_MAX, failures=self._failures
        )
        link.on_throttling(self._write_queue.throttled)
        self._mirror = Mirror(
            Options(
                scheduler_names=settings.scheduler_names,
                default_queue=settings.default_queue,
                node_selector=settings.node_selector,
                claim_unowned=settings.claim_unowned,
                priority_classes=settings.priority_classes,
                most=settings.most,
                reads=loaded.policy.reads,
            ),
            on_error=partial(informers.report_object_error, self._failures),
        )
        self._informers = Informers(
            link,
            watched_kinds.watched(settings),
            self._mirror.read,
            self._feed,
            self._failures,
            opened.lists,
        )
        identity = api.identity()
        self._recorder = EventRecorder(
            link,
            self._write_queue,
            Identity(controller=settings.scheduler_names[0], instance=identity),
            observe=self._metrics.observe_write,
        )
        shared = self._runtime = Runtime(
            given=settings,
            link=link,
            calls=self._write_queue,
            mirror=self._mirror,
            watches=self._informers,
            recorder=self._recorder,
            observed=self._metrics,
            stopping=self._stopping.is_set,
            withholding=self._withholding.is_set,
            observer=Observer() if settings.web is None else History(),
            signs=self._signs,
        )
        self._session = LeaderSession(shared, loaded.policy, Owners())
        self._controllers = ControllerManager(shared, self._session.feed_owners)
        flags = settings.child_flags
        self._child = ControllersProcess(flags, self._failures) if settings.supervises else None
        self._digest = configuration_digest.digest(loaded.policy, settings)
        self._leadership = self._elect(identity)
        for status in self._leadership.lease_statuses():
            self._metrics.observe_lease_status(status)
        self._watchdog = self._guard(lines, kill_timer)
        self._reloader = Reloader(loaded, self._adopt, self._record_reload)
        self._metrics.observe_reload(successful=True, now=time.time())

    def stop(self) -> None:
        """Start the shutdown: begin nothing new, finish work in progress, return from `run`."""
        if self._stopping.is_set():
            return
        log.info("stopping")
        self._stopping.set()
        if self._child is not None:
            self._child.end()

    async def run(self) -> None:
        """Run until `stop` is called, and restart failed tasks; the Queue controller needs `kopf`.

        An error in the election, or too many errors of a task in ATTEMPTS_MAX, ends the process.
        """
        asyncio.get_running_loop().set_exception_handler(
            partial(informers.report_callback_error, self._failures)
        )
        async with AsyncExitStack() as servers, asyncio.TaskGroup() as group:
            await self._serve(servers)
            self._signs.loop.begin(asyncio.get_running_loop())
            self._watchdog.start()
            servers.callback(self._watchdog.stop)
            tasks = [
                group.create_task(
                    self._failures.keep_on(name, work, attempts_max=ATTEMPTS_MAX.get(name, 0)),
                    name=name,
                )
                for name, work in self._work().items()
            ]
            tasks.append(group.create_task(self._leadership.run(), name="stand for election"))
            if self._settings.controls:
                tasks += self._controllers.start(group)
            self._informers.start(group)
            await self._stopping.wait()
            await self._wind_up()
            self._informers.stop()
            for task in tasks:
                task.cancel()

    async def run_with_kopf(self, *, spawned: Callable[[], None]) -> None:
        """Run as above, and Kopf as well; the end of one is the end of both.

        Kopf gets its handlers and its connection; `spawned` is called when it has installed its
        handlers of signals. Raises KopfEndedError.
        """
        from vscheduler.controllers import handlers, operator  # noqa: PLC0415 - only processes of controllers import Kopf, which takes long

        stop = asyncio.Event()
        work = asyncio.create_task(self.run(), name="controllers")
        work.add_done_callback(lambda _: stop.set())

        async def end() -> None:
            self.stop()
            await asyncio.wait({work})

        outlets = handlers.Outlets(
            started=self._controllers.know, changed=self._controllers.changed, ended=end
        )
        api = self._controllers.api(lambda: not self._stopping.is_set())
        try:
            await operator.run(api, self._link, outlets, stop=stop, spawned=spawned)
        except Exception as error:
            self._failures.failed("kopf", "kopf", error)
            raise KopfEndedError(str(error)) from error
        finally:
            await end()
        work.result()

    def _work(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the permanent tasks by name."""
        election = self._settings.election
        work: dict[str, Callable[[], Awaitable[None]]] = {
            "refresh credentials": self._link.refresh_credentials,
            "commit": self._write_queue.run,
            "collect garbage": self._collect_garbage,
            "serve": lambda: leader_session.run_while_leading(
                self._leadership, election.lease_of.values(), self._session.work, name="serve"
            ),
        }
        if self._settings.schedules:
            work["follow configuration"] = self._reloader.run
        if self._child is not None:
            work["controllers"] = self._child.run
        if self._settings.supervised:
            work["answer the parent"] = lambda: controllers_process.answer(
                self._own_exposition, self._own_report, self.stop
            )
        if election.controllers_lease:
            lease = election.controllers_lease
            work["keep queues"] = lambda: leader_session.run_while_leading(
                self._leadership,
                (lease,),
                self._controllers.keep_queues,
                name="keep queues",
            )
        return work

    async def _collect_garbage(self) -> None:
        """Collect garbage from the first lists on, without scanning what was listed by then."""
        gc.disable()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(LISTS_SECONDS):
                    await self._informers.wait_for_lists()
        finally:
            gc.freeze()
            gc.enable()

    async def _wind_up(self) -> None:
        """Finish decided and running calls, then release the Leases."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                await self._write_queue.wait_until_quiet(WritePriority.EVICTION)
        self._withholding.set()
        self._session.close()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._write_queue.wait_until_quiet(WritePriority.CONDITION)
        except TimeoutError:
            log.warning("leases.kept", why="calls are under way still", seconds=DRAIN_SECONDS)
            return
        await self._wait_for_events()
        await self._leadership.release()
        await self._wait_for_events()

    async def _wait_for_events(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(EVENTS_SECONDS):
                await self._write_queue.wait_until_quiet()

    async def _give_up(self) -> None:
        """Stop all writes of a stuck process and let another instance take over.

        A cycle that ends later may not commit. The Leases are kept if a call may still be executed.
        """
        self._withholding.set()
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                await self._write_queue.wait_until_quiet()
        except TimeoutError:
            log.warning("leases.kept", why="calls are under way still", seconds=QUIET_SECONDS)
            return
        await self._leadership.release()

    async def _report(self) -> Report:
        """Return the content of /readyz, that of the child process included."""
        own = self._own_report()
        if self._child is None:
            return own
        told = await self._child.ask()
        return own + (controllers_process.SILENT if told is None else told.report)

    def _own_report(self) -> Report:
        return health.report(self._informers.states(), self._leadership.lease_statuses())

    def _stuck(self) -> str:
        """Return why only a restart can help, or an empty string."""
        stuck = self._watchdog.stuck
        return "" if stuck is None else stuck.message

    async def _exposition(self) -> bytes:
        """Return the current metrics, those of the child process included."""
        told = None if self._child is None else await self._child.ask()
        return self._own_exposition("" if told is None else told.metrics)

    def _own_exposition(self, child: str = "") -> bytes:
        self._metrics.observe_stalled(self._watchdog.stalled())
        return self._metrics.exposition(child)

    def _guard(self, lines: LineWriter, kill_timer: Callable[[], None]) -> Watchdog:
        """Create the watchdog."""
        return Watchdog(
            watchdog.checks(
                self._signs,
                self._write_queue,
                self._informers.watches,
                deadline_seconds=self._settings.cycle_deadline_seconds,
            ),
            self._signs.heartbeats,
            watchdog.Outlets(
                give_up=self._give_up,
                observe=lambda stuck: self._metrics.observe_stuck(stuck.cause.value),
                hold=kill_timer,
                flush=lambda: lines.flush(logs.FLUSH_SECONDS),
            ),
        )

    def _elect(self, identity: str) -> Leadership:
        """Create the leader election according to the flags."""
        election = self._settings.election
        if not election.enabled:
            return AlwaysLeader(election.leases)
        from vscheduler.cluster import leases  # noqa: PLC0415 - the library's models take long

        terms = Terms(
            identity=identity,
            namespace=election.namespace,
            timing=election.timing,
            configuration=self._configuration_for,
            same_configuration=election.same_configuration,
        )
        return ElectionThread(
            election.leases,
            terms,
            partial(
                leases.opened,
                startup.access(self._settings),
                election.namespace,
                call_seconds=election.timing.call_seconds,
                configuration=self._configuration_for,
            ),
            thread.Outlets(
                on_change=partial(self._record_lease_change, identity),
                observe_renewal=self._metrics.observe_renewal,
                failures=self._failures,
                heartbeat=self._signs.election,
            ),
        )

    def _configuration_for(self, lease: str) -> str:
        """Return the digest of the configuration that decides under the Lease, or nothing.

        Called in the election's thread.
        """
        decides = self._settings.schedules and lease in self._settings.election.lease_of.values()
        return self._digest if decides else ""

    def _adopt(self, policy: Policy) -> None:
        """Use this policy from the next cycle on, and tell of it with the next renewal."""
        self._digest = configuration_digest.digest(policy, self._settings)
        self._session.adopt(policy)

    def _record_lease_change(self, identity: str, before: LeaseStatus, after: LeaseStatus) -> None:
        """Count a change of a Lease, and record a gain or release as an event on the Lease.

        Any other loss is reported by the next holder: an instance without the Lease sends nothing.
        """
        self._metrics.observe_lease_status(after)
        token = self._leadership.held((after.lease,)).get(after.lease)
        if before.leads != after.leads and (token is not None or self._stopping.is_set()):
            lease = ObjectReference(
                kind="Lease",
                namespace=self._settings.election.namespace,
                name=after.lease,
                uid=after.uid or before.uid,
            )
            permit = elector.while_new() if token is None else token.may_act
            notices = [statuses.lease_notice(lease, identity, leads=after.leads)]
            if after.leads and before.other_configuration:
                changes = before.other_configuration, self._digest
                notices.append(statuses.configuration_notice(lease, identity, *changes))
            for notice in notices:
                self._recorder.notify(notice, permit)

    def _notify(self, notice: EventNotice) -> None:
        """Record an event about a failure, unless it cannot be sent soon."""
        self._recorder.notify(notice, elector.while_new())

    def _feed(self, batch: Sequence[Event]) -> None:
        """Pass on the events of a watch."""
        self._session.feed(batch)

    def _record_reload(self, reload: Reload) -> None:
        """Count a reload, and record an event on the scheduler's own pod or the default queue.

        The own pod is known from POD_NAMESPACE, POD_NAME and POD_UID; `kubectl describe` finds
        events by the UID.
        """
        self._metrics.observe_reload(successful=not reload.problems, now=time.time())
        subject = self._settings.own_pod
        if subject is None:
            name = self._settings.default_queue
            reference = self._mirror.reference(Kind.QUEUE, name)
            uid = "" if reference is None else reference.uid
            subject = ObjectReference(kind="Queue", namespace="", name=name, uid=uid)
        notice = statuses.reload_notice(subject, reload.path, reload.problems)
        self._recorder.notify(notice, elector.while_new())

    async def _serve(self, servers: AsyncExitStack) -> None:
        """Start the configured HTTP servers; only one if both have the same address."""
        metrics_at, health_at = self._settings.metrics_address, self._settings.health_address
        for address in dict.fromkeys((metrics_at, health_at)):
            if address is not None:
                pages = health.pages(
                    report=self._report,
                    exposition=self._exposition if address == metrics_at else None,
                    stuck=self._stuck,
                )
                await servers.enter_async_context(health.serving(pages, address))
        if self._settings.web is not None:
            from vscheduler.daemon import web_page  # noqa: PLC0415 - only for those who have a page

            statuses, session = self._leadership.lease_statuses, self._session
            page = web_page.Page(self._runtime, statuses, lambda: session.in_force)
            await servers.enter_async_context(page.serving())


async def run(
    settings: Settings,
    loaded: Loaded,
    lines: LineWriter,
    opening: Awaitable[Opened] | None = None,
) -> None:
    """Run the daemon until SIGTERM, SIGINT or SIGHUP; log lines go to `lines`.

    The connection is closed at the end. Raises connection.CredentialsError and health.ListenError
    if the daemon cannot start, and KopfEndedError.
    """
    sys.setswitchinterval(startup.SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    opened = await (opening or startup.open_connection(settings))
    kill_timer = KillTimer(settings.cycle_deadline_seconds)
    try:
        application = Application(settings, loaded, opened, lines, kill_timer.hold)
        listen = partial(
            signals.listen, application.stop, flush=lambda: lines.flush(logs.FLUSH_SECONDS)
        )
        listen()
        log.info("started", schedulers=settings.scheduler_names, server=opened.link.host)
        if settings.controls:
            await application.run_with_kopf(spawned=listen)
        else:
            await application.run()
        log.info("stopped")
        signals.ignore()
    finally:
        kill_timer.let_go()
        await opened.close()
