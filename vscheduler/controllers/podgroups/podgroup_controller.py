"""The controller of automatic PodGroups: creates them, updates them with their owner, deletes
unused ones. It also writes the queue of PodGroups of Kubernetes' own API.

Watches only tell where to look. The controller looks shortly after a change, so that the pods of an
owner are handled together, and when a grace period or a pause ends. Without changes and due times
the controller is idle. Each group has at most a single work item in progress. Groups that seem
unused are judged together per namespace, and written by separate workers, so that slow deletes
delay neither each other nor pods that wait for a group.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

import msgspec

from vscheduler.backoff import Backoff
from vscheduler.containment import Contained, Failures
from vscheduler.controllers.podgroups import podgroup_creation
from vscheduler.controllers.podgroups.adoption import PodGroupAdopter, UnqueuedGroup
from vscheduler.controllers.podgroups.deletion import Mark
from vscheduler.controllers.podgroups.group_reading import Notes
from vscheduler.controllers.podgroups.owners import Seen
from vscheduler.controllers.podgroups.podgroup_creation import (
    OwnedPods,
    PodGroupCreator,
    RefusalEvents,
)
from vscheduler.controllers.podgroups.podgroup_gc import PodGroupGC, UnusedPodGroup
from vscheduler.controllers.podgroups.podgroup_lister import PodGroupLister
from vscheduler.controllers.ports import Api, RefusedError
from vscheduler.mirror.decode import events
from vscheduler.mirror.statuses import EventNotice, ObjectReference
from vscheduler.mirror.translate import pod_owners
from vscheduler.mirror.translate.pods import Pod
from vscheduler.model.jobs import JobId

Work = Callable[[], Awaitable[None]]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Scope and behaviour of the controller."""

    schedulers: tuple[str, ...]
    """Only pods of these schedulers get groups, and only groups created for them are deleted."""
    grace_seconds: float = 30.0
    """How long an unused group is kept, in seconds."""
    inherit_owner_annotations: bool = True


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals and limits of the controller. Times are in seconds."""

    debounce_seconds: float = 0.05
    rest_factor: float = 4.0
    """A look is followed by a rest of `rest_factor` times the CPU time of the look."""
    tick_seconds: float = 0.5
    """How often to check for pauses that are over, and for pods that a watch should have shown."""
    sent_seconds: float = 10.0
    """How long a watch may take to show a pod in its group before the pod is patched again."""
    shown_seconds: float = 2.0
    """How long a watch may then take to show the group before the group is read live."""
    follow_seconds: float = 30.0
    """How long watches may take to show a new group and its pods when the owner changes
    meanwhile.
    """
    scan_seconds: float = 1.0
    """Between two scans of all groups for unused ones."""
    workers: int = 32
    backlog_max: int = 1000
    """Groups that may wait for a worker. Further groups are admitted when half of them are done."""
    batch_max: int = 500
    """How many groups of a namespace are judged together for deletion, and how many may then wait
    for a worker.
    """


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """Receivers of the controller's reports."""

    observe: Callable[[str, str], None]
    """Called with each API call and its outcome."""
    notify: Callable[[EventNotice], None]
    """Called with events for users about their pods."""
    failures: Failures = msgspec.field(default_factory=Failures)
    """Work that fails unexpectedly."""


class Follow(msgspec.Struct, frozen=True):
    """A changed owner, whose group may have to follow."""

    owner: str
    """UID of the owner."""
    until: float
    patient: bool
    """Whether to wait for a group that no watch has shown yet."""


class PodGroupController:
    """The controller of automatic PodGroups for a leader session, in a single event loop."""

    def __init__(
        self,
        lister: PodGroupLister,
        api: Api,
        pauses: Backoff[str],
        options: Options,
        *,
        outlets: Outlets,
        pace: Pace,
    ) -> None:
        self._failures = outlets.failures
        notes = Notes(outlets.observe, self._failures)
        self._lister = lister
        events_of_refusals = RefusalEvents(outlets.notify)
        inherit = options.inherit_owner_annotations
        self._creator = PodGroupCreator(
            api, notes, events_of_refusals, inherit_owner_annotations=inherit
        )
        self._adopter = PodGroupAdopter(
            api, notes, events_of_refusals, inherit_owner_annotations=inherit
        )
        self._gc = PodGroupGC(
            api,
            notes,
            schedulers=options.schedulers,
            grace_seconds=options.grace_seconds,
            spares=lister.spares,
        )
        self._pauses = pauses
        self._grace_seconds = options.grace_seconds
        self._scan_seconds = min(pace.scan_seconds, options.grace_seconds)
        self._pace = pace
        self._changed = asyncio.Event()
        self._work: asyncio.Queue[tuple[str, Work]] = asyncio.Queue()
        self._gc_work: asyncio.Queue[tuple[str, Work]] = asyncio.Queue()
        self._busy: set[str] = set()
        """Keys of groups and namespaces with work waiting or in progress."""
        self._sent: dict[str, float] = {}
        """When a pod was put into its group, by UID, until the watches show the pod there."""
        self._adopted: dict[str, float] = {}
        """When the queue of a PodGroup was written, by UID, until the watch shows it."""
        self._rooted: set[str] = set()
        """UIDs of PodGroups with a queue of which the CompositePodGroup needs none any more."""
        self._follow: dict[JobId, Follow] = {}
        self._unused: dict[JobId, tuple[str, float]] = {}
        """Groups that seem unused: their UID, and since when."""
        self._scanned = False
        """Whether nothing changed since the last scan of all groups."""
        self._scan_at = 0.0
        """Earliest time of the next scan."""

    def changed(self) -> None:
        """Notice a change of the Mirror."""
        self._changed.set()

    def follow(self, changed: Iterable[Seen]) -> None:
        """Update the groups of these owners to their current number of pods."""
        until = time.monotonic() + self._pace.follow_seconds
        for seen in changed:
            ref = seen.owner.ref
            for name in (
                pod_owners.short_name(ref.name, ref.uid),
                pod_owners.volcano_name(ref.uid),
            ):
                key = JobId(events.key_of(seen.namespace, name))
                self._follow.setdefault(key, Follow(ref.uid, until, patient=False))
        self._changed.set()

    async def run(self) -> None:
        """Run forever. The lists of pods and PodGroups must be complete."""
        self.follow(self._lister.owners())
        self._scan_at = time.monotonic() + self._scan_seconds
        async with asyncio.TaskGroup() as group:
            for number in range(self._pace.workers):
                group.create_task(self._do(self._work), name=f"podgroups {number}")
                group.create_task(self._do(self._gc_work), name=f"unused podgroups {number}")
            group.create_task(self._look_for_work(), name="look for work on podgroups")

    async def _look_for_work(self) -> None:
        self._changed.set()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._due()):
                    await self._changed.wait()
            await asyncio.sleep(self._pace.debounce_seconds)
            self._scanned = self._scanned and not self._changed.is_set()
            self._changed.clear()
            started, began = time.monotonic(), time.thread_time()
            self._pauses.ended(started)
            with self._failures.contained("podgroups", "pods without one"):
                if self._work.qsize() <= self._pace.backlog_max // 2:
                    self._adopt(started)
                    self._admit(started)
            with self._failures.contained("podgroups", "owners that change"):
                self._follow_owners(started)
            if started >= self._scan_at and self._may_delete(started):
                with self._failures.contained("podgroups", "unused ones"):
                    self._find_unused(started)
                self._scanned = True
                self._scan_at = started + self._scan_seconds
            await asyncio.sleep(self._pace.rest_factor * (time.thread_time() - began))

    def _may_delete(self, now: float) -> bool:
        """Whether a scan of all groups might find a group to delete."""
        return not self._scanned or any(
            since + self._grace_seconds <= now for _, since in self._unused.values()
        )

    def _due(self) -> float | None:
        """Return the seconds until the next look without any change; None: never."""
        now, tick = time.monotonic(), self._pace.tick_seconds
        ends = [since + self._grace_seconds - now for _, since in self._unused.values()]
        due = [seconds if seconds > 0 else tick for seconds in ends]
        if not self._scanned:
            due.append(max(0.0, self._scan_at - now))
        if self._pauses.pausing or self._sent or self._adopted or self._follow:
            due.append(tick)
        return min(due, default=None)

    async def _do(self, waiting: "asyncio.Queue[tuple[str, Work]]") -> None:
        while True:
            key, work = await waiting.get()
            piece = self._failures.contained("podgroup", key)
            try:
                with piece:
                    await work()
            finally:
                if piece.failed:
                    self._pauses.failed(key, time.monotonic())
                self._busy.discard(key)
                self._changed.set()

    def _contained(self, key: str, pod: Pod) -> Contained:
        """Return a context for work on a group; the pod gets an event if the work fails."""
        subject = ObjectReference(
            kind="Pod",
            namespace=pod.namespace,
            name=pod.key.removeprefix(f"{pod.namespace}/"),
            uid=pod.uid,
        )
        return self._failures.contained("podgroup", key, subject)

    def _start(self, key: str, work: Work) -> None:
        self._busy.add(key)
        self._work.put_nowait((key, work))

    def _is_free(self, key: str) -> bool:
        return key not in self._busy and key not in self._pauses.pausing

    def _admit(self, now: float) -> None:
        """Create groups for pods without a group."""
        waiting: defaultdict[JobId, list[Pod]] = defaultdict(list)
        sent: dict[str, float] = {}
        pausing, pace = self._pauses.pausing, self._pace
        for key, pod in self._lister.ungrouped():
            since = self._sent.get(pod.uid)
            patience = pace.shown_seconds if pod.group == key else pace.sent_seconds
            if since is not None and now < since + patience:
                sent[pod.uid] = since
            elif key not in self._busy and key not in pausing:
                waiting[key].append(pod)
        self._sent = sent
        for key, pods in waiting.items():
            if self._work.qsize() >= pace.backlog_max:
                break
            with self._contained(key, pods[0]) as piece:
                owned = self._lister.owned_pods(key, pods)
                assert owned is not None, "at least one pod waits"
                self._start(key, partial(self._attach, key, owned))
            if piece.failed:
                self._pauses.failed(key, now)

    def _adopt(self, now: float) -> None:
        """Write the queues of Kubernetes' own PodGroups with pods of ours."""
        adopted: dict[str, float] = {}
        for key, uid in self._lister.unqueued():
            since = self._adopted.get(uid)
            if since is not None and now < since + self._pace.sent_seconds:
                adopted[uid] = since
            else:
                self._start_adoption(key, now)
        self._adopted = adopted
        queued = dict(self._lister.queued_below())
        self._rooted.intersection_update(queued.values())
        for key, uid in queued.items():
            if uid not in self._rooted and self._lister.is_ours(key):
                self._start_adoption(key, now)

    def _start_adoption(self, key: JobId, now: float) -> None:
        if not self._is_free(key) or self._work.qsize() >= self._pace.backlog_max:
            return
        with self._failures.contained("podgroup", key) as piece:
            group = self._lister.unqueued_group(key)
            self._start(key, partial(self._write_queue, key, group))
        if piece.failed:
            self._pauses.failed(key, now)

    async def _write_queue(self, key: JobId, group: UnqueuedGroup) -> None:
        has_queue = False
        with self._failures.contained("podgroup", key, group.subject), suppress(RefusedError):
            has_queue = await self._adopter.adopt(group)
        if not has_queue:
            self._pauses.failed(key, time.monotonic())
            return
        self._pauses.succeeded(key)
        if group.queue:
            self._rooted.add(group.uid)
        else:
            self._adopted[group.uid] = time.monotonic()

    async def _attach(self, key: JobId, owned: OwnedPods) -> None:
        resolved: list[str] = []
        subject = podgroup_creation.subject_of(owned.representative)
        with self._failures.contained("podgroup", key, subject), suppress(RefusedError):
            resolved = await self._creator.attach(owned)
        now = time.monotonic()
        self._sent.update(dict.fromkeys(resolved, now))
        if len(resolved) < len(owned.joining) + len(owned.named):
            self._pauses.failed(key, now)
        else:
            self._pauses.succeeded(key)
        owner = owned.representative.owner
        if owner is not None:
            self._follow[key] = Follow(owner.uid, now + self._pace.follow_seconds, patient=True)

    def _follow_owners(self, now: float) -> None:
        """Start updates of groups to the pod numbers of their owners."""
        for key, follow in list(self._follow.items()):
            if not self._is_free(key):
                continue
            with self._failures.contained("podgroup", key) as piece:
                self._follow_owner(key, follow, now)
            if piece.failed:
                self._follow.pop(key, None)

    def _follow_owner(self, key: JobId, follow: Follow, now: float) -> None:
        there = self._lister.has(key)
        owned = self._lister.owned_pods(key) if there else None
        if owned is None:
            if now >= follow.until or not (there or follow.patient):
                del self._follow[key]
            return
        del self._follow[key]
        owner = self._lister.owner(follow.owner)
        if owner and self._lister.differs(key, self._creator.wanted(owned, owner)):
            self._start(key, partial(self._amend, key, owned, owner.ref.uid))

    async def _amend(self, key: JobId, owned: OwnedPods, owner: str) -> None:
        try:
            await self._creator.amend(owned)
        except RefusedError:
            now = time.monotonic()
            self._pauses.failed(key, now)
            self._follow[key] = Follow(owner, now + self._pace.follow_seconds, patient=False)

    def _find_unused(self, now: float) -> None:
        """Start to judge groups that are marked, or unused for the grace period."""
        unused: dict[JobId, tuple[str, float]] = {}
        due: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for key, uid, marked in self._lister.unused():
            before, since = self._unused.get(key, ("", now))
            since = since if before == uid else now
            unused[key] = uid, since
            if (marked or now >= since + self._grace_seconds) and self._is_free(f"part {key}"):
                namespace, _, name = key.partition("/")
                due[namespace][name] = since
        self._unused = unused
        for namespace, names in due.items():
            room = self._pace.batch_max - self._gc_work.qsize()
            if room > 0 and self._is_free(f"part {namespace}"):
                some = dict(list(names.items())[:room])
                self._start(f"part {namespace}", partial(self._judge_unused, namespace, some))

    async def _judge_unused(self, namespace: str, names: dict[str, float]) -> None:
        try:
            cases = await self._gc.look(namespace, names)
        except RefusedError:
            for name in names:
                self._pauses.failed(f"part {events.key_of(namespace, name)}", time.monotonic())
            return
        for case in cases:
            if case.unchanged:
                self._judged(case)
            else:
                self._busy.add(f"part {case.key}")
                self._gc_work.put_nowait((f"part {case.key}", partial(self._write, case)))

    async def _write(self, case: UnusedPodGroup) -> None:
        await self._gc.write(case)
        self._judged(case)

    def _judged(self, case: UnusedPodGroup) -> None:
        """Pause a judged group; a group marked just now is judged again without a pause."""
        key = f"part {case.key}"
        if not isinstance(case.verdict, Mark):
            self._pauses.failed(key, time.monotonic())
        if case.verdict is None:  # deleted: the watch will show the deletion in a moment
            self._pauses.succeeded(key)
