"""The composition root: settings → objects → one group of named tasks."""

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial

import structlog

from vscheduler import containment
from vscheduler.cluster import leases
from vscheduler.cluster.http import connection
from vscheduler.cluster.writes import event_recorder, write_queue
from vscheduler.controllers.podgroups import owners
from vscheduler.daemon import (
    configuration,
    controller_manager,
    health,
    informers,
    leader_session,
    reloading,
    runtime,
    settings,
)
from vscheduler.daemon.leader_election import api, elector, thread
from vscheduler.daemon.liveness import signals, watchdog
from vscheduler.daemon.observability import logs, metrics
from vscheduler.mirror import state, statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import entries

log = structlog.get_logger(__name__)

SWITCH_INTERVAL_SECONDS = 0.0001
"""How long a cycle's thread may keep the interpreter from the event loop: with Python's own 5 ms
the loop makes 480 round trips a second while a cycle runs, with this 3,400."""

YOUNG_OBJECTS_MAX = 20_000
"""New objects that the garbage collector lets gather before it looks at them; Python's own 700 are
those of a few calls, and what it meets then is all in use."""

ATTEMPTS_MAX = {"serve": 6, "commit": 6}
"""Tasks without which nobody can lead, and how often they may fail in a row: for half a minute."""

LISTS_SECONDS = 60.0
"""How long nothing is collected at most, while the first lists come in."""

WORKERS = 64
"""Calls under way at once, at most."""

WAITING_MAX = 20_000
"""Events that may wait; more are dropped and counted."""

FINISH_SECONDS = 4.0
"""How long a stop goes on sending binds and evictions that were decided: a gang's last ones."""

DRAIN_SECONDS = 10.0
"""How long it then waits for calls that are under way, before it gives its Leases back."""

EVENTS_SECONDS = 2.0
"""How long it then waits for events: of those that tell what was done under its Leases before it
gives them back, and of one that tells of that after it."""

QUIET_SECONDS = 3.0
"""How long an instance that is stuck waits for calls that are under way, before it gives its Leases
back; if they go on, it keeps them."""


class Application:
    """One daemon; everything that lives as long is made here."""

    def __init__(
        self,
        given: settings.Settings,
        loaded: configuration.Loaded,
        link: connection.Connection,
        lines: logs.LineWriter,
        lifeline: Callable[[], None],
    ) -> None:
        """`lifeline` is called again and again for as long as the interpreter does anything."""
        self._given = given
        self._signs = watchdog.Signs()
        self._link = link
        self._stopping = asyncio.Event()
        self._withholding = asyncio.Event()
        self._metrics = metrics.Metrics(lambda: lines.dropped)
        self._failures = containment.Failures(self._metrics.observe_failure, self._notify)
        self._lanes = write_queue.WriteQueue(
            workers=WORKERS, waiting_max=WAITING_MAX, failures=self._failures
        )
        link.tell_of_throttling(self._lanes.throttled)
        self._mirror = state.Mirror(
            state.Options(
                scheduler_names=given.scheduler_names,
                default_queue=given.default_queue,
                node_selector=given.node_selector,
                claim_unowned=given.claim_unowned,
                priority_classes=given.priority_classes,
                most=given.most,
            ),
            told=partial(informers.tell_of_object, self._failures),
        )
        self._followed = informers.Informers(
            link, _kinds(given), self._mirror.read, self._feed, self._failures
        )
        identity = api.identity()
        self._herald = event_recorder.EventRecorder(
            link,
            self._lanes,
            event_recorder.Identity(controller=given.scheduler_names[0], instance=identity),
            observe=self._metrics.observe_write,
        )
        around = runtime.Runtime(
            given=given,
            link=link,
            calls=self._lanes,
            mirror=self._mirror,
            followed=self._followed,
            herald=self._herald,
            observed=self._metrics,
            stopping=self._stopping.is_set,
            withholding=self._withholding.is_set,
            signs=self._signs,
        )
        self._serving = leader_session.LeaderSession(around, loaded.policy, owners.Owners())
        self._controllers = controller_manager.ControllerManager(
            around, self._serving.feed_owners, self._serving.settling
        )
        self._leadership = self._stand(identity)
        for standing in self._leadership.standings():
            self._metrics.observe_standing(standing)
        self._watchdog = self._guarded(lines, lifeline)
        self._reloader = reloading.Reloader(loaded, self._serving.adopt, self._tell_of_reload)
        self._metrics.observe_reload(successful=True, now=time.time())

    def stop(self) -> None:
        """Begin nothing more, let what has begun end, and return from `run`."""
        log.info("stopping")
        self._stopping.set()

    async def run(self) -> None:
        """Until `stop` is called. A task that fails is begun anew; the election's, and those of
        ATTEMPTS_MAX that go on failing, take all with them.
        """
        asyncio.get_running_loop().set_exception_handler(
            partial(informers.tell_of_callback, self._failures)
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
            if self._given.controls:
                tasks += self._controllers.start(group)
            self._followed.start(group)
            await self._stopping.wait()
            await self._wind_up()
            self._followed.stop()
            for task in tasks:
                task.cancel()

    def _work(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """What is done all the time, by name."""
        election = self._given.election
        work: dict[str, Callable[[], Awaitable[None]]] = {
            "refresh credentials": self._link.refresh_credentials,
            "commit": self._lanes.run,
            "collect garbage": self._collect_garbage,
            "serve": lambda: leader_session.run_while_leading(
                self._leadership, election.lease_of.values(), self._serving.work, name="serve"
            ),
        }
        if self._given.schedules:
            work["follow configuration"] = self._reloader.run
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
        """From the first lists on; what was imported and listed stays, and isn't looked through."""
        gc.disable()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(LISTS_SECONDS):
                    await self._followed.wait_for_lists()
        finally:
            gc.freeze()
            gc.enable()

    async def _wind_up(self) -> None:
        """Let what was decided be done and what is under way end, and then others take over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                await self._lanes.wait_until_quiet(write_queue.WritePriority.EVICTION)
        self._withholding.set()
        self._serving.close()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._lanes.wait_until_quiet(write_queue.WritePriority.CONDITION)
        except TimeoutError:
            log.warning("leases.kept", why="calls are under way still", seconds=DRAIN_SECONDS)
            return
        await self._wait_for_events()
        await self._leadership.release()
        await self._wait_for_events()

    async def _wait_for_events(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(EVENTS_SECONDS):
                await self._lanes.wait_until_quiet()

    async def _give_up(self) -> None:
        """Only a new process can help: send nothing more, and let others take over.

        A cycle that comes back later finds that it may not commit. The Leases are kept where a call
        may be done yet.
        """
        self._withholding.set()
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                await self._lanes.wait_until_quiet()
        except TimeoutError:
            log.warning("leases.kept", why="calls are under way still", seconds=QUIET_SECONDS)
            return
        await self._leadership.release()

    def _report(self) -> health.Report:
        """What /readyz says."""
        return health.report(self._followed.states(), self._leadership.standings())

    def _stuck(self) -> str:
        """Why only a new process can help; empty where that isn't so."""
        stuck = self._watchdog.stuck
        return "" if stuck is None else stuck.message

    def _exposition(self) -> bytes:
        """The metrics as they are now."""
        self._metrics.observe_stalled(self._watchdog.stalled())
        return self._metrics.exposition()

    def _guarded(self, lines: logs.LineWriter, lifeline: Callable[[], None]) -> watchdog.Watchdog:
        """Who sees to it that what works goes on, or ends the process."""
        return watchdog.Watchdog(
            watchdog.checks(
                self._signs,
                self._lanes,
                self._followed.watches,
                deadline_seconds=self._given.cycle_deadline_seconds,
            ),
            self._signs.pulses,
            watchdog.Outlets(
                give_up=self._give_up,
                observe=lambda stuck: self._metrics.observe_stuck(stuck.cause.value),
                hold=lifeline,
                flush=lambda: lines.flush(logs.FLUSH_SECONDS),
            ),
        )

    def _stand(self, identity: str) -> api.Leadership:
        """How it is found out what we may serve."""
        election = self._given.election
        if not election.enabled:
            return api.AlwaysLeader(election.leases)
        terms = elector.Terms(
            identity=identity, namespace=election.namespace, timing=election.timing
        )
        return thread.ElectionThread(
            election.leases,
            terms,
            partial(
                leases.opened,
                _access(self._given),
                election.namespace,
                call_seconds=election.timing.call_seconds,
            ),
            thread.Outlets(
                on_change=partial(self._tell_of_standing, identity),
                observe_renewal=self._metrics.observe_renewal,
                failures=self._failures,
                pulse=self._signs.election,
            ),
        )

    def _tell_of_standing(
        self, identity: str, before: api.LeaseStatus, after: api.LeaseStatus
    ) -> None:
        """Count a change, and record on the Lease that we gained it, or have given it back.

        That it was lost in another way its next holder tells: nothing is sent by who has lost it.
        """
        self._metrics.observe_standing(after)
        token = self._leadership.held((after.lease,)).get(after.lease)
        if before.leads != after.leads and (token is not None or self._stopping.is_set()):
            lease = statuses.ObjectReference(
                kind="Lease",
                namespace=self._given.election.namespace,
                name=after.lease,
                uid=after.uid or before.uid,
            )
            self._herald.notify(
                statuses.lease_notice(lease, identity, leads=after.leads),
                elector.while_new() if token is None else token.may_act,
            )

    def _notify(self, notice: statuses.EventNotice) -> None:
        """Record an event of something that failed, soon or not at all."""
        self._herald.notify(notice, elector.while_new())

    def _feed(self, batch: Sequence[entries.Event]) -> None:
        """Hand on what a watch saw."""
        self._serving.feed(batch)

    def _tell_of_reload(self, reload: reloading.Reload) -> None:
        """Count it, and record it on what stands for this scheduler in the cluster.

        That is its own pod where it knows that (POD_NAMESPACE, POD_NAME, and POD_UID, which
        `kubectl describe` looks for), else the default queue.
        """
        self._metrics.observe_reload(successful=not reload.problems, now=time.time())
        subject = self._given.own_pod
        if subject is None:
            name = self._given.default_queue
            reference = self._mirror.reference(events.Kind.QUEUE, name)
            uid = "" if reference is None else reference.uid
            subject = statuses.ObjectReference(kind="Queue", namespace="", name=name, uid=uid)
        notice = statuses.reload_notice(subject, reload.path, reload.problems)
        self._herald.notify(notice, elector.while_new())

    async def _serve(self, servers: AsyncExitStack) -> None:
        """Open the servers that are wanted; one, where both are to listen at one address."""
        metrics_at, health_at = self._given.metrics_address, self._given.health_address
        for address in dict.fromkeys((metrics_at, health_at)):
            if address is not None:
                pages = health.pages(
                    report=self._report,
                    exposition=self._exposition if address == metrics_at else None,
                    standings=self._leadership.standings,
                    stuck=self._stuck,
                )
                await servers.enter_async_context(health.serving(pages, address))


def _kinds(given: settings.Settings) -> list[events.Kind]:
    """What is to be followed: only what something depends on."""
    return [
        kind
        for kind in events.Kind
        if (given.schedules or kind in controller_manager.NEEDED)
        and (given.priority_classes or kind is not events.Kind.PRIORITY_CLASS)
    ]


async def run(
    given: settings.Settings, loaded: configuration.Loaded, lines: logs.LineWriter
) -> None:
    """The daemon, until SIGTERM, SIGINT or SIGHUP; its log goes through `lines`.

    Raises connection.CredentialsError and health.ListenError where it can't start.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    link = await connection.Connection.open(_access(given))
    lifeline = watchdog.KillTimer(given.cycle_deadline_seconds)
    try:
        application = Application(given, loaded, link, lines, lifeline.hold)
        signals.listen(application.stop, flush=lambda: lines.flush(logs.FLUSH_SECONDS))
        log.info("started", schedulers=given.scheduler_names, server=link.host)
        await application.run()
        log.info("stopped")
    finally:
        lifeline.let_go()
        await link.close()


def _access(given: settings.Settings) -> connection.Access:
    """How to reach the API server."""
    return connection.Access(
        kubeconfig=given.kubeconfig, context=given.context, master=given.master
    )
