"""Automatic PodGroups: pods that have none get one, it follows its owner, and goes with it.

What watches show says only what to look at. It is looked at a moment after a change, so that the
pods of one owner are seen together, and when a grace or a pause is over; nothing changed and
nothing due: nothing is done. One piece of work per group is under way at a time. Groups that seem
to be unused are judged together, namespace by namespace, and written to by workers of their own, so
that late deletes hold up neither each other nor pods that wait for a group.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from vscheduler import backoff, containment
from vscheduler.controllers import ports
from vscheduler.controllers.podgroups import (
    auto_groups,
    deletion,
    group_reading,
    owners,
    podgroup_creation,
    podgroup_gc,
    podgroup_lister,
)
from vscheduler.core.model import jobs
from vscheduler.mirror import statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.translate import pods

Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """For whom, and how."""

    schedulers: tuple[str, ...]
    """Only pods of these get groups, and only groups made for these are deleted."""
    grace_seconds: float = 30.0
    """How long a group that nobody uses stays."""
    inherit_owner_annotations: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often to look, and at how much. Seconds."""

    debounce_seconds: float = 0.05
    rest_factor: float = 4.0
    """A look is followed by a rest of so many times the processor time that it took."""
    tick_seconds: float = 0.5
    """How often pauses that are over, and pods that a watch should have shown, are looked for."""
    sent_seconds: float = 10.0
    """How long a watch may take to show a pod in its group, before the pod is told again."""
    shown_seconds: float = 2.0
    """How long another one may then take to show the group, before it is looked for."""
    follow_seconds: float = 30.0
    """How long the watches may take to show a group that was made and its pods, of an owner that
    changes meanwhile."""
    survey_seconds: float = 1.0
    """Between looks at all groups for unused ones."""
    workers: int = 32
    backlog_max: int = 1000
    """Groups that may wait for a worker; the rest is seen when half of them are done."""
    batch_max: int = 500
    """Groups of a namespace that are looked at together when they are to go; and so many may wait
    for a worker then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Who is told what."""

    observe: Callable[[str, str], None]
    """Each call, and what came of it."""
    notify: Callable[[statuses.EventNotice], None]
    """What people are to know of their pods."""
    failures: containment.Failures = field(default_factory=containment.Failures)
    """Work that fails unexpectedly."""


@dataclass(frozen=True, slots=True)
class Follow:
    """An owner has changed: its group may have to, too."""

    until: float
    patient: bool
    """Whether a group that isn't seen is waited for."""


class PodGroupController:
    """The controller of automatic PodGroups, for one tenure; all of it runs in one event loop."""

    def __init__(
        self,
        survey: podgroup_lister.PodGroupLister,
        api: ports.Api,
        pauses: backoff.Backoff[str],
        options: Options,
        *,
        outlets: Outlets,
        pace: Pace,
    ) -> None:
        self._failures = outlets.failures
        notes = group_reading.Notes(outlets.observe, self._failures)
        self._survey = survey
        self._attacher = podgroup_creation.PodGroupCreator(
            api,
            notes,
            podgroup_creation.RefusalEvents(outlets.notify),
            inherit_owner_annotations=options.inherit_owner_annotations,
        )
        self._parter = podgroup_gc.PodGroupGC(
            api, notes, schedulers=options.schedulers, grace_seconds=options.grace_seconds
        )
        self._pauses = pauses
        self._grace_seconds = options.grace_seconds
        self._pace = pace
        self._changed = asyncio.Event()
        self._work: asyncio.Queue[tuple[str, Work]] = asyncio.Queue()
        self._partings: asyncio.Queue[tuple[str, Work]] = asyncio.Queue()
        self._busy: set[str] = set()
        """Groups, and namespaces, of which work waits or is under way."""
        self._sent: dict[str, float] = {}
        """Pods that are in a group, as the watches haven't shown yet, and since when."""
        self._follow: dict[jobs.JobId, Follow] = {}
        self._unused: dict[jobs.JobId, tuple[str, float]] = {}
        """Groups that seem to be unused: their UID, and since when."""
        self._surveyed = False
        """Whether nothing has changed since all groups were looked at."""
        self._survey_at = 0.0
        """When they may be looked at again."""

    def changed(self) -> None:
        """The Mirror has changed."""
        self._changed.set()

    def follow(self, changed: Iterable[owners.Seen]) -> None:
        """Let the groups of these owners have the numbers that they want by now."""
        until = time.monotonic() + self._pace.follow_seconds
        for seen in changed:
            key = _key(seen.namespace, seen.owner.ref.uid)
            self._follow.setdefault(key, Follow(until, patient=False))
        self._changed.set()

    async def run(self) -> None:
        """For ever. The lists of pods and PodGroups must be in."""
        self.follow(self._survey.owners())
        async with asyncio.TaskGroup() as group:
            for number in range(self._pace.workers):
                group.create_task(self._do(self._work), name=f"podgroups {number}")
                group.create_task(self._do(self._partings), name=f"unused podgroups {number}")
            group.create_task(self._look_for_work(), name="look for work on podgroups")

    async def _look_for_work(self) -> None:
        self._changed.set()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._due()):
                    await self._changed.wait()
            await asyncio.sleep(self._pace.debounce_seconds)
            self._surveyed = self._surveyed and not self._changed.is_set()
            self._changed.clear()
            started, began = time.monotonic(), time.thread_time()
            self._pauses.ended(started)
            with self._failures.contained("podgroups", "pods without one"):
                if self._work.qsize() <= self._pace.backlog_max // 2:
                    self._admit(started)
            with self._failures.contained("podgroups", "owners that change"):
                self._follow_owners(started)
            if started >= self._survey_at and self._may_part(started):
                with self._failures.contained("podgroups", "unused ones"):
                    self._find_unused(started)
                self._surveyed = True
                self._survey_at = started + min(self._pace.survey_seconds, self._grace_seconds)
            await asyncio.sleep(self._pace.rest_factor * (time.thread_time() - began))

    def _may_part(self, now: float) -> bool:
        """Whether a look at all groups may find one to be deleted."""
        return not self._surveyed or any(
            since + self._grace_seconds <= now for _, since in self._unused.values()
        )

    def _due(self) -> float | None:
        """Seconds until there is something to look for, without any change; None: never."""
        now, tick = time.monotonic(), self._pace.tick_seconds
        ends = [since + self._grace_seconds - now for _, since in self._unused.values()]
        due = [seconds if seconds > 0 else tick for seconds in ends]
        if not self._surveyed:
            due.append(max(0.0, self._survey_at - now))
        if self._pauses.pausing or self._sent or self._follow:
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

    def _contained(self, key: str, pod: pods.Pod) -> containment.Contained:
        """A block about a group, of which this pod is told when it fails."""
        subject = statuses.ObjectReference(
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
        """Let pods without a group have theirs."""
        waiting: defaultdict[jobs.JobId, list[pods.Pod]] = defaultdict(list)
        sent: dict[str, float] = {}
        pausing, pace = self._pauses.pausing, self._pace
        for key, pod in self._survey.ungrouped():
            since = self._sent.get(pod.uid)
            patience = pace.shown_seconds if pod.group == key else pace.sent_seconds
            if since is not None and now < since + patience:
                sent[pod.uid] = since
            elif key not in self._busy and key not in pausing:
                waiting[key].append(pod)
        self._sent = sent
        for key, found in waiting.items():
            if self._work.qsize() >= pace.backlog_max:
                break
            with self._contained(key, found[0]) as piece:
                crew = self._survey.crew(key, found)
                assert crew is not None, "someone waits"
                self._start(key, partial(self._attach, key, crew))
            if piece.failed:
                self._pauses.failed(key, now)

    async def _attach(self, key: jobs.JobId, crew: podgroup_creation.OwnedPods) -> None:
        settled: list[str] = []
        subject = podgroup_creation.subject_of(crew.spokesman)
        with self._failures.contained("podgroup", key, subject), suppress(ports.RefusedError):
            settled = await self._attacher.attach(crew)
        now = time.monotonic()
        self._sent.update(dict.fromkeys(settled, now))
        if len(settled) < len(crew.joining) + len(crew.named):
            self._pauses.failed(key, now)
        else:
            self._pauses.succeeded(key)
        if crew.spokesman.owner is not None:
            self._follow[key] = Follow(now + self._pace.follow_seconds, patient=True)

    def _follow_owners(self, now: float) -> None:
        """Let groups have the numbers that their owners want by now."""
        for key, follow in list(self._follow.items()):
            if not self._is_free(key):
                continue
            with self._failures.contained("podgroup", key) as piece:
                self._follow_owner(key, follow, now)
            if piece.failed:
                self._follow.pop(key, None)

    def _follow_owner(self, key: jobs.JobId, follow: Follow, now: float) -> None:
        there = self._survey.has(key)
        crew = self._survey.crew(key) if there else None
        if crew is None:
            if now >= follow.until or not (there or follow.patient):
                del self._follow[key]
            return
        del self._follow[key]
        uid = key.partition(f"/{auto_groups.PREFIX}")[2]
        owner = self._survey.owner(uid)
        if owner and self._survey.differs(key, self._attacher.wanted(crew, owner)):
            self._start(key, partial(self._amend, key, crew))

    async def _amend(self, key: jobs.JobId, crew: podgroup_creation.OwnedPods) -> None:
        try:
            await self._attacher.amend(crew)
        except ports.RefusedError:
            now = time.monotonic()
            self._pauses.failed(key, now)
            self._follow[key] = Follow(now + self._pace.follow_seconds, patient=False)

    def _find_unused(self, now: float) -> None:
        """Look at groups that nobody has used for the grace, or that were on their way out."""
        unused: dict[jobs.JobId, tuple[str, float]] = {}
        due: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for key, uid, marked in self._survey.unused():
            before, since = self._unused.get(key, ("", now))
            since = since if before == uid else now
            unused[key] = uid, since
            if (marked or now >= since + self._grace_seconds) and self._is_free(f"part {key}"):
                namespace, _, name = key.partition("/")
                due[namespace][name] = since
        self._unused = unused
        for namespace, names in due.items():
            room = self._pace.batch_max - self._partings.qsize()
            if room > 0 and self._is_free(f"part {namespace}"):
                some = dict(list(names.items())[:room])
                self._start(f"part {namespace}", partial(self._judge_unused, namespace, some))

    async def _judge_unused(self, namespace: str, names: dict[str, float]) -> None:
        try:
            cases = await self._parter.look(namespace, names)
        except ports.RefusedError:
            for name in names:
                self._pauses.failed(f"part {events.key_of(namespace, name)}", time.monotonic())
            return
        for case in cases:
            if case.settled:
                self._looked_at(case)
            else:
                self._busy.add(f"part {case.key}")
                self._partings.put_nowait((f"part {case.key}", partial(self._part, case)))

    async def _part(self, case: podgroup_gc.UnusedPodGroup) -> None:
        await self._parter.write(case)
        self._looked_at(case)

    def _looked_at(self, case: podgroup_gc.UnusedPodGroup) -> None:
        """It pauses, unless it was marked just now, and so is looked at once more."""
        key = f"part {case.key}"
        if not isinstance(case.verdict, deletion.Mark):
            self._pauses.failed(key, time.monotonic())
        if case.verdict is None:  # the watch will show it in a moment
            self._pauses.succeeded(key)


def _key(namespace: str, uid: str) -> jobs.JobId:
    """The key of the automatic group of this owner."""
    return jobs.JobId(events.key_of(namespace, auto_groups.automatic_name(uid)))
