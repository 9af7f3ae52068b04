"""The composition root: settings → objects → one group of named tasks."""

import asyncio
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import structlog

from vscheduler.cluster import (
    committing,
    connection,
    evicting,
    lanes,
    queue_reporting,
    reporting,
    usage_writing,
    watching,
)
from vscheduler.core.model import jobs
from vscheduler.daemon import (
    configuration,
    controlling,
    health,
    metrics,
    reloading,
    scheduling_loop,
    settings,
)
from vscheduler.mirror import decoding, events, state, statuses

log = structlog.get_logger(__name__)

SWITCH_INTERVAL_SECONDS = 0.0001
"""How long a cycle's thread may keep the interpreter from the event loop: with Python's own 5 ms
the loop makes 480 round trips a second while a cycle runs, with this 3,400."""

WORKERS = 64
"""Calls under way at once."""

WAITING_MAX = 20_000
"""Events that may wait; more are dropped and counted."""

DRAIN_SECONDS = 10.0
"""How long a stop waits for calls that are under way."""

PATHS = {
    events.Kind.NODE: "/api/v1/nodes",
    events.Kind.POD: "/api/v1/pods",
    events.Kind.POD_GROUP: "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    events.Kind.QUEUE: "/apis/scheduling.volcano.sh/v1beta1/queues",
    events.Kind.PRIORITY_CLASS: "/apis/scheduling.k8s.io/v1/priorityclasses",
    events.Kind.BUDGET: "/apis/policy/v1/poddisruptionbudgets",
    events.Kind.QUOTA: "/api/v1/resourcequotas",
    events.Kind.NAMESPACE: "/api/v1/namespaces",
}
"""What is watched."""

CONTROLLED = (events.Kind.POD, events.Kind.POD_GROUP, events.Kind.NAMESPACE)
"""What controllers need of that, alone."""


@dataclass(frozen=True, slots=True)
class StoredGroups:
    """PodGroups as the Mirror has them, for who writes to them."""

    mirror: state.Mirror

    def stored_group(self, job: jobs.JobId) -> reporting.StoredGroup | None:
        """The newest version that was seen."""
        reference = self.mirror.reference(events.Kind.POD_GROUP, job)
        stored = self.mirror.group_state(job)
        if reference is None or stored is None:
            return None
        return reporting.StoredGroup(
            uid=reference.uid, resource_version=reference.resource_version, state=stored
        )


class Application:
    """One daemon; everything that lives long is made here."""

    def __init__(
        self,
        given: settings.Settings,
        loaded: configuration.Loaded,
        link: connection.Connection,
    ) -> None:
        self._settings = given
        self._link = link
        self._stopping = asyncio.Event()
        self._metrics = metrics.Metrics()
        self._lanes = lanes.Lanes(workers=WORKERS, waiting_max=WAITING_MAX)
        mirror = state.Mirror(
            state.Options(
                scheduler_names=given.scheduler_names,
                default_queue=given.default_queue,
                node_selector=given.node_selector,
                claim_unowned=given.claim_unowned,
                priority_classes=given.priority_classes,
            )
        )
        outlets = self._outlets(mirror)
        self._reporter, self._usage_writer = outlets.reporter, outlets.usage_writer
        self._loop = scheduling_loop.SchedulingLoop(
            mirror,
            loaded.policy,
            outlets,
            self._metrics,
            pace=scheduling_loop.Pace(period_seconds=given.schedule_period_seconds),
        )
        self._mirror = mirror
        self._reloader = reloading.Reloader(loaded, self._loop.adopt, self._tell_of_reload)
        self._metrics.observe_reload(successful=True, now=time.time())
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        self._watches = {
            kind: watching.Watch(
                link,
                path,
                decoding.Codec(kind),
                self._feed,
                pace=watching.Pace(),
                chance=chance,
            )
            for kind, path in PATHS.items()
            if self._follows(kind)
        }
        self._controllers = (
            controlling.Controllers(
                given,
                link,
                self._lanes,
                mirror,
                self._metrics,
                may_commit=self._may_commit,
            )
            if given.controls
            else None
        )

    def _outlets(self, mirror: state.Mirror) -> scheduling_loop.Outlets:
        """All who write to the API server what the loop decides and finds out."""
        link, queue, name = self._link, self._lanes, self._settings.scheduler_names[0]
        may_commit, observe = self._may_commit, self._metrics.observe_write
        instance = f"{socket.gethostname()}-{os.getpid()}"
        return scheduling_loop.Outlets(
            committer=committing.Committer(link, queue, may_commit),
            evictor=evicting.Evictor(link, queue, may_commit),
            reporter=reporting.Reporter(
                link,
                queue,
                StoredGroups(mirror),
                reporting.Identity(controller=name, instance=instance),
                may_commit=may_commit,
                observe=observe,
            ),
            queue_reporter=queue_reporting.QueueReporter(
                link, queue, name, may_commit=may_commit, observe=observe
            ),
            usage_writer=usage_writing.UsageWriter(
                link, queue, name, may_commit=may_commit, observe=observe
            ),
        )

    def stop(self) -> None:
        """Send nothing more, let what is under way end, and return from `run`."""
        log.info("stopping")
        self._stopping.set()

    async def run(self) -> None:
        """Until `stop` is called. A task that fails takes all others, and this, with it."""
        async with AsyncExitStack() as servers, asyncio.TaskGroup() as group:
            await self._serve(servers)
            tasks = [
                group.create_task(self._link.refresh_credentials(), name="refresh credentials"),
                group.create_task(self._lanes.run(), name="commit"),
            ]
            if self._settings.schedules:
                tasks += [
                    group.create_task(self._loop.keep_time(), name="keep time"),
                    group.create_task(self._reloader.run(), name="follow configuration"),
                    group.create_task(self._loop.run(self._wait_for_lists), name="schedule"),
                ]
            if self._controllers is None:
                ensured = controlling.ensure_queue(self._link, self._settings.default_queue)
                tasks.append(group.create_task(ensured, name="ensure default queue"))
            else:
                tasks += self._controllers.start(group, self._wait_for_lists)
            for kind, watch in self._watches.items():
                tasks.append(group.create_task(watch.run(), name=f"watch {kind}"))
            await self._stopping.wait()
            self._usage_writer.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self._lanes.wait_until_quiet()
            for task in tasks:
                task.cancel()

    @property
    def ready(self) -> bool:
        """Whether all first lists are in."""
        return all(watch.listed.is_set() for watch in self._watches.values())

    def _follows(self, kind: events.Kind) -> bool:
        """Whether anything depends on objects of this kind."""
        if kind is events.Kind.PRIORITY_CLASS and not self._settings.priority_classes:
            return False
        return self._settings.schedules or kind in CONTROLLED

    def _feed(self, batch: Sequence[events.Event]) -> None:
        """Hand on what a watch saw."""
        self._loop.feed(batch)
        if self._controllers is not None:
            self._controllers.changed()

    def _may_commit(self) -> bool:
        return not self._stopping.is_set()

    def _tell_of_reload(self, reload: reloading.Reload) -> None:
        """Count it, and record it on what stands for this scheduler in the cluster.

        That is its own pod where it knows that (POD_NAMESPACE, POD_NAME, and POD_UID, which
        `kubectl describe` looks for), else the default queue.
        """
        self._metrics.observe_reload(successful=not reload.problems, now=time.time())
        subject = self._settings.own_pod
        if subject is None:
            name = self._settings.default_queue
            reference = self._mirror.reference(events.Kind.QUEUE, name)
            uid = "" if reference is None else reference.uid
            subject = statuses.Subject(kind="Queue", namespace="", name=name, uid=uid)
        self._reporter.notify(statuses.reload_notice(subject, reload.path, reload.problems))

    async def _wait_for_lists(self) -> None:
        for watch in self._watches.values():
            await watch.listed.wait()

    async def _serve(self, servers: AsyncExitStack) -> None:
        """Open the servers that are wanted; one, where both are to listen at one address."""
        metrics_at, health_at = self._settings.metrics_address, self._settings.health_address
        for address in dict.fromkeys((metrics_at, health_at)):
            if address is not None:
                exposition = self._metrics.exposition if address == metrics_at else None
                pages = health.pages(ready=lambda: self.ready, exposition=exposition)
                await servers.enter_async_context(health.serving(pages, address))


async def run(given: settings.Settings, loaded: configuration.Loaded) -> None:
    """The daemon, until SIGTERM or SIGINT.

    Raises connection.CredentialsError and health.ListenError where it can't start.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    link = await connection.Connection.open(given.access)
    try:
        application = Application(given, loaded, link)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, application.stop)
        for number in (signal.SIGUSR1, signal.SIGUSR2):  # Volcano dumps its cache
            loop.add_signal_handler(number, log.info, "signal.ignored")
        log.info("started", schedulers=given.scheduler_names, server=link.host)
        await application.run()
        log.info("stopped")
    finally:
        await link.close()
