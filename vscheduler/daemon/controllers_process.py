"""The controllers' process: keeps PodGroups and Queues while it holds their Leases; runs Kopf."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

import structlog

from vscheduler.backoff import Backoff, Growth
from vscheduler.cluster import reflector
from vscheduler.cluster.http.connection import ApiError, Forbidden
from vscheduler.cluster.reflector import Reflector
from vscheduler.controllers import followed_objects, hyper_node_controller, operator
from vscheduler.controllers.followed_objects import FollowedObjects
from vscheduler.controllers.hyper_node_controller import HyperNodeController, NodeCodec
from vscheduler.controllers.podgroups import owners, podgroup_controller, podgroup_lister
from vscheduler.controllers.podgroups.owners import Codec, Event, Owners, Seen
from vscheduler.controllers.podgroups.podgroup_controller import (
    Options,
    Outlets,
    PodGroupController,
)
from vscheduler.controllers.podgroups.podgroup_lister import PodGroupLister, StatusEvidence
from vscheduler.controllers.queues import gone_schedulers, queue_controller
from vscheduler.controllers.queues.queue_controller import QueueController
from vscheduler.controllers.queues.queue_index import QueueIndex
from vscheduler.controllers.queues.queue_objects import FollowedKind
from vscheduler.daemon import child_process, informers, leader_session, startup
from vscheduler.daemon.configuration import Loaded
from vscheduler.daemon.controllers_api import Api
from vscheduler.daemon.informers import KindAccess
from vscheduler.daemon.leader_election.api import CompositeToken, Permit, Token
from vscheduler.daemon.leader_session import LeaderSession
from vscheduler.daemon.observability.logs import LineWriter
from vscheduler.daemon.process import KopfEndedError, Process, Tasks
from vscheduler.daemon.runtime import Runtime
from vscheduler.daemon.settings import Settings
from vscheduler.daemon.startup import Opened
from vscheduler.mirror import paths
from vscheduler.mirror.index import entries
from vscheduler.mirror.paths import Kind

log = structlog.get_logger(__name__)

PAUSES = Growth(first_seconds=1.0, longest_seconds=60.0)
"""Backoff for PodGroups that cannot be created, joined or deleted."""

SCHEDULERS_SECONDS = 5.0
"""Between two looks for further schedulers that place pods of the Queues."""

SCHEDULERS_MAX = 100
"""Whoever may write statuses of Queues can name schedulers, and each costs a list of all pods."""

FORBIDDEN_SECONDS = 300.0
"""Pause after a refusal before watching a kind is tried again."""


POD_PACE = reflector.Pace(gather_seconds=0.05)
"""Every pod that starts changes several times, and only the first change can need a PodGroup."""


class ControllersProcess(Process):
    """Runs the controllers; often as a child of the scheduler's process."""

    paces: ClassVar = {Kind.POD: POD_PACE}

    def __init__(
        self,
        settings: Settings,
        loaded: Loaded,
        opened: Opened,
        lines: LineWriter,
        kill_timer: Callable[[], None],
    ) -> None:
        """`kill_timer` is called regularly as long as the interpreter is alive."""
        super().__init__(settings, loaded, opened, lines, kill_timer)
        self._controllers = Controllers(self._runtime)

    def feed(self, batch: Sequence[entries.Event]) -> None:
        """Pass on the events of a watch."""
        self._controllers.feed(batch)

    async def serve(self, held: Mapping[str, Token]) -> None:
        """Keep the automatic PodGroups of these Leases' scheduler names until cancelled."""
        await self._controllers.work(held)

    def tasks(self) -> Tasks:
        """Keep Queues, and answer the parent."""
        tasks: Tasks = {}
        if self._settings.supervised:
            tasks["answer the parent"] = lambda: child_process.answer(
                self.own_exposition, self.own_report, self.stop
            )
        lease = self._settings.election.controllers_lease
        if lease:
            tasks["keep queues"] = lambda: leader_session.run_while_leading(
                self._leadership, (lease,), self._controllers.keep_queues, name="keep queues"
            )
        return tasks

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start the tasks, and watches of owners."""
        return super().start(group) + self._controllers.watch_owners(group)

    async def main(self, listen: Callable[[], None]) -> None:
        """Run, and Kopf as well; the end of one is the end of both.

        Kopf gets its handlers and its connection; `listen` is called when it has installed its
        handlers of signals. Raises KopfEndedError.
        """
        stop = asyncio.Event()
        work = asyncio.create_task(self.run(), name="controllers")
        work.add_done_callback(lambda _: stop.set())

        async def end() -> None:
            self.stop()
            await asyncio.wait({work})

        def spawned() -> None:
            listen()
            self._controllers.kopf_runs.set()

        outlets = operator.Outlets(changed=self._controllers.changed, ended=end)
        api = self._controllers.api(lambda: not self._stopping.is_set())
        try:
            await operator.run(api, self._runtime.connection, outlets, stop=stop, spawned=spawned)
        except Exception as error:
            self._failures.failed("kopf", "kopf", error)
            raise KopfEndedError(str(error)) from error
        finally:
            await end()
        work.result()


class Controllers:
    """Runs the PodGroup and the Queue controller while their Leases are held, and watches owners of
    pods all the time.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._session = LeaderSession(runtime, self._serve, narrows=False)
        self._counted = frozenset(runtime.settings.scheduler_names)
        """The schedulers whose pods the Mirror knows as jobs by themselves."""
        self._access = KindAccess(runtime.mirror, runtime.informers.states)
        self._owners = Owners()
        self._refused: set[str] = set()
        """The collections of owners that we may not read."""
        self._followed = FollowedObjects()
        self.kopf_runs = asyncio.Event()
        """Set once Kopf runs, which it does once there are kinds to follow."""
        self._queues: QueueController | None = None
        self._hyper_nodes: HyperNodeController | None = None
        self._podgroups: PodGroupController | None = None

    def feed(self, batch: Sequence[entries.Event]) -> None:
        """Apply the events of a watch to the Mirror, and notify the PodGroup controller.

        It doesn't run on a standby, whose Mirror gets the same events.
        """
        for event in batch:
            with self._runtime.failures.contained("mirror", event.kind):
                self._runtime.mirror.apply(event)
        needed = any(event.kind in startup.NEEDED_BY_CONTROLLERS for event in batch)
        if self._podgroups is not None and needed:
            self._podgroups.changed()

    def feed_owners(self, batch: Sequence[owners.Event]) -> None:
        """Apply the events of the watches of pods' owners."""
        seen: list[Seen] = []
        for event in batch:
            with self._runtime.failures.contained("owners", event.kind):
                seen += self._owners.apply(event)
                if self._runtime.mirror.needs_owners:
                    self._runtime.mirror.apply(owners.mirrored(event))
        if self._podgroups is not None:
            self._podgroups.follow(seen)

    async def work(self, held: Mapping[str, Token]) -> None:
        """Serve the scheduler names of these Leases until cancelled."""
        await self._session.work(held)

    async def _serve(self, names: tuple[str, ...], token: CompositeToken) -> None:
        self._podgroups = self._podgroup_controller(names, token)
        self._access.look()
        try:
            async with asyncio.TaskGroup() as group:
                looks = self._access.follow(self._podgroups.changed)
                group.create_task(looks, name="look for kinds")
                group.create_task(self._podgroups.run(), name="look after podgroups")
        finally:
            self._podgroups = None

    def watch_owners(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start watching owners, whether leader or not."""
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        failures = self._runtime.failures
        watches = {
            kind: Reflector(
                self._runtime.connection,
                path,
                Codec(kind),
                self.feed_owners,
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
        """Run the Queue and the HyperNode controller under these Leases until cancelled."""
        await self._runtime.informers.wait_for_lists()
        await self.kopf_runs.wait()
        runtime = self._runtime
        port = self.api(runtime.permit(CompositeToken(held.values())))
        index = QueueIndex(
            self._followed.indices,
            runtime.settings.default_queue,
            StatusEvidence(runtime.mirror).counter,
            partial(podgroup_lister.lone_counts, runtime.mirror),
        )
        await self._count_pods_of(index.schedulers)
        keeper = self._queues = QueueController(
            port,
            index=index,
            observe=runtime.metrics.observe_write,
            pace=queue_controller.Pace(),
            failures=runtime.failures,
        )
        gone = gone_schedulers.GoneSchedulers(port, runtime.settings.election.namespace)
        counter = self._hyper_nodes = HyperNodeController(
            port,
            self._followed.indices.hypernodes,
            observe=runtime.metrics.observe_write,
            pace=hyper_node_controller.Pace(),
            failures=runtime.failures,
        )
        end = runtime.mirror.subscribe(lambda _: keeper.changed())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(keeper.run(), name="keep queues")
                group.create_task(self._look_for_schedulers(index), name="look for schedulers")
                looks = runtime.failures.keep_on("gone schedulers", gone.run)
                group.create_task(looks, name="remove what schedulers have left")
                group.create_task(counter.run(), name="keep hypernodes")
                group.create_task(self._watch_nodes(counter), name="watch nodes of hypernodes")
        finally:
            end()
            self._queues = self._hyper_nodes = None

    async def _look_for_schedulers(self, index: QueueIndex) -> None:
        """Count the pods of all schedulers that share the Queues, also of those to come."""
        while True:
            await asyncio.sleep(SCHEDULERS_SECONDS)
            await self._count_pods_of(index.schedulers)

    async def _count_pods_of(self, schedulers: frozenset[str]) -> None:
        """Let the Mirror know which pods of these schedulers are jobs by themselves, too."""
        more = sorted(schedulers - self._counted)[: SCHEDULERS_MAX - len(self._counted)]
        if not more:
            return
        self._counted |= frozenset(more)
        log.info("schedulers.found", schedulers=more)
        self._runtime.mirror.serve(tuple(sorted(self._counted)))
        await self._runtime.informers.list_anew([Kind.POD])

    async def _watch_nodes(self, counter: HyperNodeController) -> None:
        """Watch nodes from the first HyperNode on."""
        await counter.needs_nodes.wait()
        watch = Reflector(
            self._runtime.connection,
            paths.NODES.everywhere,
            NodeCodec(),
            counter.feed,
            pace=informers.NODE_PACE,
            chance=random.Random(),  # noqa: S311 - spreads retries; no secret
            failures=self._runtime.failures,
        )
        await watch.run()

    def api(self, permit: Permit) -> Api:
        """Return the controllers' way to the API server, for writes while the permit is valid."""
        return Api(self._runtime.connection, self._runtime.write_queue, permit)

    def changed(self, kind: FollowedKind, event: followed_objects.Event) -> None:
        """Take an event of Kopf's."""
        self._followed.take(kind, event)
        listed = event["type"] is None
        if self._queues is not None:
            self._queues.changed(listed=listed)
        if self._hyper_nodes is not None:
            self._hyper_nodes.changed(listed=listed)

    async def _follow(self, watch: Reflector[Event]) -> None:
        """Watch a kind of owner. Without permission, log the refusal once and try again later."""
        warned = False
        while True:
            try:
                await self._runtime.connection.call("GET", watch.path.with_query({"limit": "1"}))
            except Forbidden as error:
                if not warned:
                    log.warning("owners.forbidden", path=watch.path, message=str(error))
                warned = True
                self._refuse(watch.path, refused=True)
                await asyncio.sleep(FORBIDDEN_SECONDS)
                continue
            except ApiError:  # the reflector retries
                pass
            self._refuse(watch.path, refused=False)
            await watch.run()

    def _refuse(self, path: str, *, refused: bool) -> None:
        """Note whether a kind of owner may be read."""
        (self._refused.add if refused else self._refused.discard)(path)
        self._runtime.mirror.serve_owners(served=not self._refused)
        if self._podgroups is not None:
            self._podgroups.changed()

    def _podgroup_controller(
        self, scheduler_names: tuple[str, ...], token: Token
    ) -> PodGroupController:
        """Return the PodGroup controller of these schedulers, active while the token is valid."""
        runtime, settings = self._runtime, self._runtime.settings
        recorder = runtime.recorder.under(runtime.permit_for_events(token))
        return PodGroupController(
            PodGroupLister(runtime.mirror, self._owners, scheduler_names),
            self.api(runtime.permit(token)),
            Backoff[str](PAUSES),
            Options(
                schedulers=scheduler_names,
                grace_seconds=settings.podgroup_grace_seconds,
                inherit_owner_annotations=settings.inherit_owner_annotations,
            ),
            outlets=Outlets(
                observe=runtime.metrics.observe_group_call,
                notify=recorder.notify,
                failures=runtime.failures,
            ),
            pace=podgroup_controller.Pace(),
        )
