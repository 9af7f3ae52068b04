"""The scheduler's process: schedules pods while Leases are held, follows the configuration file and
supervises the controllers' process.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec
import structlog
import watchfiles

from vscheduler.cluster.http import objects
from vscheduler.cluster.http.connection import ApiError, Connection, Forbidden
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes.binder import Binder, Stamp
from vscheduler.cluster.writes.claim_writer import ClaimWriter
from vscheduler.cluster.writes.evictor import Evictor
from vscheduler.cluster.writes.queue_status_writer import QueueStatusWriter, UsageWriter
from vscheduler.cluster.writes.status_writer import StatusWriter, StoredGroup
from vscheduler.core.config.policy import Policy
from vscheduler.daemon import child_process, configuration, informers, pacing
from vscheduler.daemon.child_process import ChildProcess
from vscheduler.daemon.configuration import ConfigurationError, Loaded
from vscheduler.daemon.health import Report
from vscheduler.daemon.informers import KindAccess
from vscheduler.daemon.leader_election import elector
from vscheduler.daemon.leader_election.api import CompositeToken, Permit, Token
from vscheduler.daemon.leader_session import LeaderSession
from vscheduler.daemon.observability.logs import LineWriter
from vscheduler.daemon.pacing import Pace
from vscheduler.daemon.process import Process, Tasks
from vscheduler.daemon.runtime import Runtime
from vscheduler.daemon.scheduling_loop import Outlets, SchedulingLoop
from vscheduler.daemon.settings import Settings
from vscheduler.daemon.startup import Opened
from vscheduler.mirror import statuses
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.index import entries
from vscheduler.mirror.index.entries import Change, Event
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.statuses import ObjectReference
from vscheduler.model.jobs import JobId, TaskId
from vscheduler.web.history import Observer, Observers

if TYPE_CHECKING:
    from vscheduler.daemon.history_recording import Recording

log = structlog.get_logger(__name__)

QUEUE_RETRY_SECONDS = 5.0
"""How long the default queue is left alone after an error."""

QUEUE_SECONDS = 2.0
"""How long the first cycle waits for the default queue. Without the wait, pods would be told that
the queue is missing."""
LOOK_SECONDS = 0.02

FIRST_BINDS_SECONDS = 5.0
"""How long the controllers wait for the first binds; a standby has none."""


class SchedulerProcess(Process):
    """Schedules pods, and supervises the controllers unless they run elsewhere."""

    paces: ClassVar = {Kind.NODE: informers.NODE_PACE}

    def __init__(
        self,
        settings: Settings,
        loaded: Loaded,
        opened: Opened,
        lines: LineWriter,
        kill_timer: Callable[[], None],
    ) -> None:
        """`kill_timer` is called regularly as long as the interpreter is alive."""
        self._digest = configuration.digest(loaded.policy, settings)
        super().__init__(settings, loaded, opened, lines, kill_timer)
        self._scheduler = Scheduler(self._runtime, loaded.policy)
        self._reloader = Reloader(loaded, self._adopt, self._record_reload)
        self._child: ChildProcess | None = None
        if settings.supervises:
            self._child = ChildProcess(child_process.command(settings.child_flags))

    def feed(self, batch: Sequence[Event]) -> None:
        """Pass on the events of a watch."""
        self._scheduler.feed(batch)

    async def serve(self, held: Mapping[str, Token]) -> None:
        """Schedule the pods of these Leases' scheduler names until cancelled."""
        await self._scheduler.work(held)

    def tasks(self) -> Tasks:
        """Follow the configuration, and run the child."""
        tasks: Tasks = {"follow configuration": self._reloader.run}
        if self._child is not None:
            tasks["controllers"] = partial(self._run_controllers, self._child)
        return tasks

    async def _run_controllers(self, child: ChildProcess) -> None:
        """Run the controllers after the first binds.

        Their start takes a core and long lists of the API server, and no pod that is bound by then
        needs them.
        """
        await self._scheduler.wait_for_first_binds()
        await child.run(self._failures)

    def configuration(self, lease: str) -> str:
        """Return the digest of the configuration, for Leases of scheduler names."""
        return self._digest if lease in self._settings.election.lease_of.values() else ""

    def close(self) -> None:
        """Write data that a shutdown would lose, if the Leases are still held."""
        self._scheduler.close()

    def stop(self) -> None:
        """Start the shutdown of both processes."""
        super().stop()
        if self._child is not None:
            self._child.end()

    async def report(self) -> Report:
        """Return the content of /readyz, that of the child process included."""
        if self._child is None:
            return self.own_report()
        answer = await self._child.ask()
        return self.own_report() + (child_process.SILENT if answer is None else answer.report)

    async def exposition(self) -> bytes:
        """Return the current metrics, those of the child process included."""
        answer = None if self._child is None else await self._child.ask()
        self._scheduler.observe()
        return self.own_exposition("" if answer is None else answer.metrics)

    def _adopt(self, policy: Policy) -> None:
        """Use this policy from the next cycle on, and tell of it with the next renewal."""
        self._digest = configuration.digest(policy, self._settings)
        self._policy = policy
        self._scheduler.adopt(policy)

    def _record_reload(self, reload: "Reload") -> None:
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


class Scheduler:
    """Runs the scheduling loop while Leases are held."""

    def __init__(self, runtime: Runtime, policy: Policy) -> None:
        self._runtime = runtime
        self._policy = policy
        self._session = LeaderSession(runtime, self._serve)
        self._access = KindAccess(runtime.mirror, runtime.informers.states)
        self._loop: SchedulingLoop | None = None
        self._outlets: Outlets | None = None
        self._recording: Recording | None = None
        if runtime.settings.history is not None:
            from vscheduler.daemon import history_recording  # noqa: PLC0415 - only for those who keep one

            self._recording = history_recording.Recording(
                runtime.settings.history, runtime.mirror, runtime.failures, runtime.metrics
            )

    async def wait_for_first_binds(self) -> None:
        """Wait until a first cycle's binds are sent and no more follow; FIRST_BINDS_SECONDS at
        most.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_BINDS_SECONDS):
                while not (self._has_decided and self._runtime.write_queue.is_quiet):  # noqa: ASYNC110 - there are no events
                    await asyncio.sleep(LOOK_SECONDS)

    @property
    def _has_decided(self) -> bool:
        """Whether this session has had a cycle."""
        return self._loop is not None and self._loop.cycles > 0

    def feed(self, batch: Sequence[entries.Event]) -> None:
        """Apply the events of a watch to the Mirror, and notify the loop.

        It doesn't run on a standby, whose Mirror gets the same events.
        """
        most = Change.NONE
        news: set[str] = set()
        for event in batch:
            with self._runtime.failures.contained("mirror", event.kind):
                change = self._runtime.mirror.apply(event)
                most = max(most, change)
                if change is Change.OTHER:
                    news.add(entries.waiting_namespace(event) or pacing.ANYBODY)
        if self._loop is not None:
            self._loop.changed(most, news)

    def adopt(self, policy: Policy) -> None:
        """Use this policy from the next cycle on."""
        self._policy = policy
        if self._loop is not None:
            self._loop.adopt(policy)

    def close(self) -> None:
        """Write data that a shutdown would lose, if the Leases are still held."""
        if self._outlets is not None and self._session.token is not None:
            self._outlets.usage_writer.close(self._session.token.may_act)
        if self._recording is not None:
            self._recording.close()

    def observe(self) -> None:
        """Update the metrics of what runs beside cycles."""
        if self._recording is not None:
            self._recording.observe()

    async def work(self, held: Mapping[str, Token]) -> None:
        """Serve the scheduler names of these Leases until cancelled."""
        await self._session.work(held)

    async def _serve(self, names: tuple[str, ...], token: CompositeToken) -> None:
        runtime = self._runtime
        if self._recording is not None:
            self._recording.begin(names)
        try:
            async with asyncio.TaskGroup() as group:
                self._schedule(group, names, token)
                ensured = ensure_queue(
                    runtime.connection, runtime.settings.default_queue, runtime.permit(token)
                )
                group.create_task(ensured, name="ensure default queue")
        finally:
            self._stop_writing()
            self._loop = None
            if self._recording is not None:
                self._recording.end()

    def _schedule(
        self, group: asyncio.TaskGroup, names: Sequence[str], token: CompositeToken
    ) -> None:
        runtime = self._runtime
        outlets = self._outlets = self._open_outlets(names, token)
        self._loop = SchedulingLoop(
            runtime.mirror,
            self._policy,
            outlets,
            runtime.metrics,
            may_commit=runtime.permit(token),
            pace=Pace(period_seconds=runtime.settings.schedule_period_seconds),
        )
        self._access.look()
        group.create_task(self._access.follow(self._loop.reconsider), name="look for kinds")
        group.create_task(self._loop.keep_time(), name="keep time")
        group.create_task(self._run(self._loop), name="schedule")

    async def _run(self, loop: SchedulingLoop) -> None:
        """Run the scheduling loop. In a new cluster, first wait a moment for the default queue."""
        with suppress(TimeoutError):
            async with asyncio.timeout(QUEUE_SECONDS):
                while not self._has_default_queue():  # noqa: ASYNC110 - the Mirror has no events
                    await asyncio.sleep(LOOK_SECONDS)
        await loop.run()

    def _has_default_queue(self) -> bool:
        name = self._runtime.settings.default_queue
        return self._runtime.mirror.has_queue(name)

    def _stop_writing(self) -> None:
        """Drop the states that wait to be written: the next leader writes its own."""
        outlets, self._outlets = self._outlets, None
        if outlets is not None:
            outlets.reporter.stop()
            outlets.queue_reporter.stop()
            outlets.usage_writer.stop()

    def _observer(self) -> Observer:
        observer = self._runtime.observer
        return observer if self._recording is None else Observers(observer, self._recording)

    def _open_outlets(self, names: Sequence[str], token: CompositeToken) -> Outlets:
        """Create all writers for the decisions and findings of the loop.

        Reports about queues bear the first of the names.
        """
        runtime, name = self._runtime, names[0]
        link, queue, observe = (
            runtime.connection,
            runtime.write_queue,
            runtime.metrics.observe_write,
        )
        permit, to_finish = runtime.permit(token), runtime.permit_to_finish(token)
        stamp = Stamp(holder=token.holder, doubt=token.doubt)
        return Outlets(
            failures=runtime.failures,
            committer=Binder(link, queue, to_finish, stamp=stamp if token.holder else None),
            claim_writer=ClaimWriter(link, queue, to_finish, schedulers=names),
            evictor=Evictor(link, queue, to_finish),
            reporter=StatusWriter(
                link,
                queue,
                StoredGroups(runtime.mirror),
                runtime.recorder.under(runtime.permit_for_events(token)),
                may_commit=permit,
                observe=observe,
            ),
            queue_reporter=QueueStatusWriter(link, queue, name, may_commit=permit, observe=observe),
            usage_writer=UsageWriter(link, queue, name, may_commit=permit, observe=observe),
            cycles=runtime.signs.cycles,
            observer=self._observer(),
        )


class StoredGroups(msgspec.Struct, frozen=True):
    """Gives the status writer access to the PodGroups in the Mirror."""

    mirror: Mirror

    def stored_group(self, job: JobId) -> StoredGroup | None:
        """Return the newest version seen, or None."""
        reference = self.mirror.group_reference(job)
        stored = self.mirror.group_state(job)
        if reference is None or stored is None:
            return None
        return StoredGroup(
            uid=reference.uid, resource_version=reference.resource_version, state=stored
        )

    def has_reason(self, task: TaskId) -> bool:
        """Whether the pod's condition, as last seen, gives a reason for waiting."""
        return self.mirror.has_reason(task)

    def waiting_version(self, task: TaskId) -> str | None:
        """Return the resourceVersion of a pod that has no node, as last seen; None of others."""
        return self.mirror.waiting_version(task)


async def ensure_queue(connection: Connection, name: str, permit: Permit) -> None:
    """Create the default queue if missing.

    Errors are retried, because a missing CRD may be installed at any moment.
    """
    said = ""
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
            if str(error) != said:
                said = str(error)
                log.info("queue.not_created", message=said, retry=True)
            await asyncio.sleep(QUEUE_RETRY_SECONDS)
            continue
        return


DEBOUNCE_MILLISECONDS = 400
"""Changes within this time count as a single change. The file is read 50 ms after the last
change."""

POLL_MILLISECONDS = 500
"""Interval for polling the directory where the system cannot report changes."""

LOOK_MILLISECONDS = 5000
"""Interval for reading the file without a reported change. A file behind a link to another
directory changes unnoticed."""

RETRY_SECONDS = 1.0


class Reload(msgspec.Struct, frozen=True):
    """The result of reading the file again."""

    path: str
    problems: tuple[str, ...] = ()
    """All problems of the file. None: the file is in effect."""


class Reloader:
    """Follows a configuration file.

    An invalid file leaves the last valid configuration in effect. The file's directory is watched,
    not the file: a ConfigMap is updated by switching a symbolic link in the directory, and many
    editors replace the file by a new one.
    """

    def __init__(
        self,
        loaded: Loaded,
        adopt: Callable[[Policy], None],
        on_reload: Callable[[Reload], None],
    ) -> None:
        self._path = loaded.path
        self._adopt = adopt
        self._on_reload = on_reload
        self._seen: str | None = loaded.text
        """The text last read, valid or not. None if the file could not be read."""

    async def run(self) -> None:
        """Watch for ever, whatever happens to the file. Without a file, return at once."""
        polls = False
        while self._path:
            try:
                await self._follow(polls=polls)
            except (OSError, RuntimeError) as error:  # no directory, no inotify, too many watches
                log.warning("configuration.unwatched", path=self._path, message=str(error))
                polls = True
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self, *, polls: bool) -> None:
        await self.look()
        async for _ in watchfiles.awatch(
            Path(self._path).parent,
            watch_filter=self._concerns,
            recursive=False,
            debounce=DEBOUNCE_MILLISECONDS,
            rust_timeout=LOOK_MILLISECONDS,
            yield_on_timeout=True,
            force_polling=polls,
            poll_delay_ms=POLL_MILLISECONDS,
        ):
            await self.look()

    def _concerns(self, _: watchfiles.Change, changed: str) -> bool:
        """Whether a change in the directory may affect the file.

        A ConfigMap's own link is called ..data. Changes of other files, such as a log in the same
        directory, are ignored.
        """
        name = Path(changed).name
        return name == Path(self._path).name or name.startswith("..")

    async def look(self) -> None:
        """Read the file, and put a changed and valid configuration into effect."""
        problems: tuple[str, ...] = ()
        text = None
        try:
            text = await asyncio.to_thread(configuration.read, self._path)
        except ConfigurationError as error:
            problems = error.problems
        if text == self._seen:
            return
        self._seen = text
        if text is not None:
            problems = self._try(text)
        if problems:
            log.error("configuration.rejected", path=self._path, problems=problems)
        self._on_reload(Reload(self._path, problems))

    def _try(self, text: str) -> tuple[str, ...]:
        """Put the text into effect, or return its problems."""
        try:
            loaded = configuration.parse(text, self._path)
        except ConfigurationError as error:
            return error.problems
        log.info("configuration.reloaded", path=self._path, warnings=loaded.warnings)
        self._adopt(loaded.policy)
        return ()
