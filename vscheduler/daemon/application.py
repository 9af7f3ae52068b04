"""The composition root: settings → objects → one group of named tasks."""

import asyncio
import gc
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import structlog

from vscheduler.cluster import connection, heralding, lanes, leases
from vscheduler.controllers import owners
from vscheduler.daemon import (
    candidates,
    configuration,
    controlling,
    electing,
    following,
    health,
    leadership,
    line_writer,
    logs,
    metrics,
    reloading,
    serving,
    settings,
    signals,
    surroundings,
    tenures,
)
from vscheduler.mirror import entries, events, state, statuses

log = structlog.get_logger(__name__)

SWITCH_INTERVAL_SECONDS = 0.0001
"""How long a cycle's thread may keep the interpreter from the event loop: with Python's own 5 ms
the loop makes 480 round trips a second while a cycle runs, with this 3,400."""

YOUNG_OBJECTS_MAX = 20_000
"""New objects that the garbage collector lets gather before it looks at them; Python's own 700 are
those of a few calls, and what it meets then is all in use."""

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

EVENTS_SECONDS = 5.0
"""How long it then waits for events."""


class Application:
    """One daemon; everything that lives as long is made here."""

    def __init__(
        self,
        given: settings.Settings,
        loaded: configuration.Loaded,
        link: connection.Connection,
        lines: line_writer.LineWriter,
    ) -> None:
        self._given = given
        self._link = link
        self._stopping = asyncio.Event()
        self._withholding = asyncio.Event()
        self._metrics = metrics.Metrics(lambda: lines.dropped)
        self._lanes = lanes.Lanes(workers=WORKERS, waiting_max=WAITING_MAX)
        link.tell_of_throttling(self._lanes.throttled)
        self._mirror = state.Mirror(
            state.Options(
                scheduler_names=given.scheduler_names,
                default_queue=given.default_queue,
                node_selector=given.node_selector,
                claim_unowned=given.claim_unowned,
                priority_classes=given.priority_classes,
            )
        )
        self._followed = following.Following(link, _kinds(given), self._mirror.read, self._feed)
        identity = leadership.identity()
        self._herald = heralding.Herald(
            link,
            self._lanes,
            heralding.Identity(controller=given.scheduler_names[0], instance=identity),
            observe=self._metrics.observe_write,
        )
        around = surroundings.Surroundings(
            given=given,
            link=link,
            calls=self._lanes,
            mirror=self._mirror,
            followed=self._followed,
            herald=self._herald,
            observed=self._metrics,
            stopping=self._stopping.is_set,
            withholding=self._withholding.is_set,
        )
        self._serving = serving.Serving(around, loaded.policy, owners.Owners())
        self._controllers = controlling.Controllers(
            around, self._serving.feed_owners, self._serving.settling
        )
        self._leadership = self._stand(identity)
        for standing in self._leadership.standings():
            self._metrics.observe_standing(standing)
        self._reloader = reloading.Reloader(loaded, self._serving.adopt, self._tell_of_reload)
        self._metrics.observe_reload(successful=True, now=time.time())

    def stop(self) -> None:
        """Begin nothing more, let what has begun end, and return from `run`."""
        log.info("stopping")
        self._stopping.set()

    async def run(self) -> None:
        """Until `stop` is called. A task that fails takes all others, and this, with it."""
        async with AsyncExitStack() as servers, asyncio.TaskGroup() as group:
            await self._serve(servers)
            tasks = [group.create_task(each, name=name) for name, each in self._work().items()]
            if self._given.controls:
                tasks += self._controllers.start(group)
            self._followed.start(group)
            await self._stopping.wait()
            await self._wind_up()
            self._followed.stop()
            for task in tasks:
                task.cancel()

    def _work(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What is done all the time, by name."""
        election = self._given.election
        work = {
            "refresh credentials": self._link.refresh_credentials(),
            "commit": self._lanes.run(),
            "collect garbage": self._collect_garbage(),
            "stand for election": self._leadership.run(),
            "serve": tenures.serve(
                self._leadership, election.lease_of.values(), self._serving.work, name="serve"
            ),
        }
        if self._given.schedules:
            work["follow configuration"] = self._reloader.run()
        if election.controllers_lease:
            work["keep queues"] = tenures.serve(
                self._leadership,
                (election.controllers_lease,),
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
                await self._lanes.wait_until_quiet(lanes.Lane.EVICTION)
        self._withholding.set()
        self._serving.close()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._lanes.wait_until_quiet(lanes.Lane.CONDITION)
        except TimeoutError:
            log.warning("leases.kept", why="calls are under way still", seconds=DRAIN_SECONDS)
            return
        await self._leadership.release()
        with suppress(TimeoutError):
            async with asyncio.timeout(EVENTS_SECONDS):
                await self._lanes.wait_until_quiet()

    def _stand(self, identity: str) -> leadership.Leadership:
        """How it is found out what we may serve."""
        election = self._given.election
        if not election.enabled:
            return leadership.Unopposed(election.leases)
        terms = candidates.Terms(
            identity=identity, namespace=election.namespace, timing=election.timing
        )
        return electing.Elected(
            election.leases,
            terms,
            partial(
                leases.opened,
                self._given.access,
                election.namespace,
                call_seconds=election.timing.call_seconds,
            ),
            on_change=partial(self._tell_of_standing, identity),
            observe_renewal=self._metrics.observe_renewal,
        )

    def _tell_of_standing(
        self, identity: str, before: leadership.Standing, after: leadership.Standing
    ) -> None:
        """Count a change, and record on the Lease that we gained or lost it."""
        self._metrics.observe_standing(after)
        if before.leads != after.leads:
            lease = statuses.Subject(
                kind="Lease",
                namespace=self._given.election.namespace,
                name=after.lease,
                uid=after.uid or before.uid,
            )
            self._herald.notify(statuses.lease_notice(lease, identity, leads=after.leads))

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
            subject = statuses.Subject(kind="Queue", namespace="", name=name, uid=uid)
        self._herald.notify(statuses.reload_notice(subject, reload.path, reload.problems))

    async def _serve(self, servers: AsyncExitStack) -> None:
        """Open the servers that are wanted; one, where both are to listen at one address."""
        metrics_at, health_at = self._given.metrics_address, self._given.health_address
        for address in dict.fromkeys((metrics_at, health_at)):
            if address is not None:
                exposition = self._metrics.exposition if address == metrics_at else None
                pages = health.pages(
                    ready=lambda: self._followed.ready,
                    exposition=exposition,
                    standings=self._leadership.standings,
                )
                await servers.enter_async_context(health.serving(pages, address))


def _kinds(given: settings.Settings) -> list[events.Kind]:
    """What is to be followed: only what something depends on."""
    return [
        kind
        for kind in events.Kind
        if (given.schedules or kind in controlling.NEEDED)
        and (given.priority_classes or kind is not events.Kind.PRIORITY_CLASS)
    ]


async def run(
    given: settings.Settings, loaded: configuration.Loaded, lines: line_writer.LineWriter
) -> None:
    """The daemon, until SIGTERM, SIGINT or SIGHUP; its log goes through `lines`.

    Raises connection.CredentialsError and health.ListenError where it can't start.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    link = await connection.Connection.open(given.access)
    try:
        application = Application(given, loaded, link, lines)
        signals.listen(application.stop, flush=lambda: lines.flush(logs.FLUSH_SECONDS))
        log.info("started", schedulers=given.scheduler_names, server=link.host)
        await application.run()
        log.info("stopped")
    finally:
        await link.close()
