"""What the scheduler's process and the controllers' have in common: the long-lived objects, their
tasks, the election, the HTTP servers and an orderly shutdown.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import ClassVar

import structlog

from vscheduler.cluster.reflector import Pace
from vscheduler.cluster.writes.event_recorder import EventRecorder, Identity
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.containment import Failures
from vscheduler.daemon import health, informers, leader_session, startup
from vscheduler.daemon.configuration import Loaded
from vscheduler.daemon.health import Report
from vscheduler.daemon.informers import Informers
from vscheduler.daemon.leader_election import api, elector, thread
from vscheduler.daemon.leader_election.api import AlwaysLeader, Leadership, LeaseStatus, Token
from vscheduler.daemon.leader_election.elector import Terms
from vscheduler.daemon.leader_election.thread import ElectionThread
from vscheduler.daemon.liveness import watchdog
from vscheduler.daemon.liveness.hook_samples import HookSamples
from vscheduler.daemon.liveness.watchdog import Signs, Watchdog
from vscheduler.daemon.observability import logs
from vscheduler.daemon.observability.logs import LineWriter
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.daemon.runtime import Runtime
from vscheduler.daemon.settings import Settings
from vscheduler.daemon.startup import Opened
from vscheduler.mirror import statuses
from vscheduler.mirror.index.entries import Event
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.statuses import EventNotice, ObjectReference
from vscheduler.web.history import History, Observer

log = structlog.get_logger(__name__)

METRICS_FLAG, HEALTH_FLAG = "--listen-address", "--healthz-address"
"""The flags with the addresses of servers."""

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


Tasks = dict[str, Callable[[], Awaitable[None]]]
"""Permanent tasks by name; a name is also the area under which failures are counted."""


class KopfEndedError(Exception):
    """Kopf has ended by itself, and the process with it."""


class Process:
    """A process of the daemon. Creates every object that lives as long as the process.

    A subclass for each kind of process defines `feed`, `serve` and `tasks`, and extends the rest.
    """

    paces: ClassVar[Mapping[Kind, Pace]] = {}
    """The paces of watches that differ from the default."""

    def __init__(
        self,
        settings: Settings,
        loaded: Loaded,
        opened: Opened,
        lines: LineWriter,
        kill_timer: Callable[[], None],
    ) -> None:
        """`kill_timer` is called regularly as long as the interpreter is alive."""
        self._settings, link, signs = settings, opened.link, Signs()
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
                spares_groups=settings.spares_groups(loaded.policy.rules),
                inherits=settings.inherit_owner_annotations,
            ),
            on_error=partial(informers.report_object_error, self._failures),
        )
        watched = startup.watched(settings, loaded.policy.rules)
        self._informers = Informers(
            link,
            {kind: self.paces.get(kind, Pace()) for kind in watched},
            self._mirror.read,
            self.feed,
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
        self._runtime = Runtime(
            settings=settings,
            connection=link,
            write_queue=self._write_queue,
            mirror=self._mirror,
            informers=self._informers,
            recorder=self._recorder,
            metrics=self._metrics,
            stopping=self._stopping.is_set,
            withholding=self._withholding.is_set,
            observer=Observer() if settings.web is None else History(),
            signs=signs,
        )
        self._policy = loaded.policy
        self._leadership = self._elect(identity)
        for status in self._leadership.lease_statuses():
            self._metrics.observe_lease_status(status)
        self._watchdog = self._guard(lines, kill_timer)
        self._metrics.observe_reload(successful=True, now=time.time())

    def feed(self, batch: Sequence[Event]) -> None:
        """Pass on the events of a watch."""
        raise NotImplementedError

    async def serve(self, held: Mapping[str, Token]) -> None:
        """Serve the scheduler names of these Leases until cancelled."""
        raise NotImplementedError

    def tasks(self) -> Tasks:
        """Return the permanent tasks of this kind of process."""
        raise NotImplementedError

    def configuration(self, lease: str) -> str:
        """Return the digest of the configuration that decides under the Lease, or nothing.

        Called in the election's thread.
        """
        del lease
        return ""

    def close(self) -> None:
        """Write data that a shutdown would lose, if the Leases are still held."""

    async def report(self) -> Report:
        """Return the content of /readyz."""
        return self.own_report()

    async def exposition(self) -> bytes:
        """Return the current metrics."""
        return self.own_exposition()

    def stop(self) -> None:
        """Start the shutdown: begin nothing new, finish work in progress, return from `run`."""
        if self._stopping.is_set():
            return
        log.info("stopping")
        self._stopping.set()

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start the permanent tasks, each of which is restarted after a failure."""
        return [
            group.create_task(
                self._failures.keep_on(name, work, attempts_max=ATTEMPTS_MAX.get(name, 0)),
                name=name,
            )
            for name, work in (self._shared_tasks() | self.tasks()).items()
        ]

    async def main(self, listen: Callable[[], None]) -> None:
        """Run, with what else needs the main thread.

        `listen` listens for signals again, after a library has installed handlers of its own.
        """
        del listen
        await self.run()

    async def run(self) -> None:
        """Run until `stop` is called, and restart failed tasks.

        An error in the election, or too many errors of a task in ATTEMPTS_MAX, ends the process.
        """
        asyncio.get_running_loop().set_exception_handler(
            partial(informers.report_callback_error, self._failures)
        )
        async with AsyncExitStack() as servers, asyncio.TaskGroup() as group:
            await self._start_servers(servers)
            self._runtime.signs.loop.begin(asyncio.get_running_loop())
            self._watchdog.start()
            servers.callback(self._watchdog.stop)
            tasks = self.start(group)
            tasks.append(group.create_task(self._leadership.run(), name="stand for election"))
            self._informers.start(group)
            await self._stopping.wait()
            await self._wind_up()
            self._informers.stop()
            for task in tasks:
                task.cancel()

    def _shared_tasks(self) -> Tasks:
        """Return the permanent tasks of every process."""
        leases = self._settings.election.lease_of.values()
        return {
            "refresh credentials": self._runtime.connection.refresh_credentials,
            "commit": self._write_queue.run,
            "collect garbage": self._collect_garbage,
            "serve": lambda: leader_session.run_while_leading(
                self._leadership, leases, self.serve, name="serve"
            ),
        }

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
        self.close()
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

    def own_report(self) -> Report:
        """Return the content of /readyz, as far as this process has it."""
        return health.report(self._informers.states(), self._leadership.lease_statuses())

    def _stuck(self) -> str:
        """Return why only a restart can help, or an empty string."""
        stuck = self._watchdog.stuck
        return "" if stuck is None else stuck.message

    def own_exposition(self, child: str = "") -> bytes:
        """Return the metrics of this process, and those of its child."""
        self._metrics.observe_stalled(self._watchdog.stalled())
        return self._metrics.exposition(child)

    def _guard(self, lines: LineWriter, kill_timer: Callable[[], None]) -> Watchdog:
        """Create the watchdog."""
        samples = HookSamples(
            self._runtime.signs.cycles, lambda: self._policy, self._metrics.observe_hook
        )
        return Watchdog(
            watchdog.checks(
                self._runtime.signs,
                self._write_queue,
                self._informers.watches,
                deadline_seconds=self._settings.cycle_deadline_seconds,
            ),
            self._runtime.signs.heartbeats,
            watchdog.Outlets(
                give_up=self._give_up,
                observe=lambda stuck: self._metrics.observe_stuck(stuck.cause.value),
                hold=kill_timer,
                sample=samples.look,
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
            configuration=self.configuration,
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
                configuration=self.configuration,
            ),
            thread.Outlets(
                on_change=partial(self._record_lease_change, identity),
                observe_renewal=self._metrics.observe_renewal,
                failures=self._failures,
                heartbeat=self._runtime.signs.election,
            ),
        )

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
                changes = before.other_configuration, self.configuration(after.lease)
                notices.append(statuses.configuration_notice(lease, identity, *changes))
            for notice in notices:
                self._recorder.notify(notice, permit)

    def _notify(self, notice: EventNotice) -> None:
        """Record an event about a failure, unless it cannot be sent soon."""
        self._recorder.notify(notice, elector.while_new())

    async def _start_servers(self, servers: AsyncExitStack) -> None:
        """Start the configured HTTP servers; only one if both have the same address."""
        metrics_at, health_at = self._settings.metrics_address, self._settings.health_address
        for address in dict.fromkeys((metrics_at, health_at)):
            if address is not None:
                pages = health.pages(
                    report=self.report,
                    exposition=self.exposition if address == metrics_at else None,
                    stuck=self._stuck,
                )
                flags = {METRICS_FLAG: metrics_at, HEALTH_FLAG: health_at}
                named = " and ".join(flag for flag, at in flags.items() if at == address)
                await servers.enter_async_context(health.serving(pages, address, flags=named))
        if self._settings.web is not None:
            from vscheduler.daemon import web_page  # noqa: PLC0415 - only for those who have a page

            page = web_page.Page(
                self._runtime, self._leadership.lease_statuses, lambda: self._policy
            )
            await servers.enter_async_context(page.serving())
