"""Trials: does the job start after a change? The simulator's cycles on the changed cluster.

The cluster is kept in a Mirror. A trial applies the edited objects, runs cycles, carries their
decisions out in a simulated world whose owners recreate evicted pods, and puts everything back.
Equal objects give equal snapshots, so a trial leaves no trace.

A job without any pod can't start. If it isn't admitted yet, its admission is looked for instead:
its owner creates the pods then.

`starts` is the proof: up to CYCLES cycles, as `vscheduler simulate --evicted-return` runs them.
`may_start` is a cheap forecast for large clusters: a single cycle, on the cluster as those CYCLES
leave it without the change, in which no other waiting job has a turn, though all of them count for
shares.
"""

import dataclasses
from collections.abc import Collection, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.explain import edits
from vscheduler.explain.changes import Change, Nothing
from vscheduler.explain.edits import Event, Key, Objects
from vscheduler.mirror import statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Remove, Upsert
from vscheduler.mirror.index.entries import Part
from vscheduler.model.decisions import CycleResult, Evict, GroupStatus, QueueFigures
from vscheduler.model.jobs import WAITING, GroupState, JobId, Phase, TaskId
from vscheduler.model.snapshot import FRESH, NO_MEMOS, Reservation, Snapshot
from vscheduler.simulator import run
from vscheduler.simulator.run import Given
from vscheduler.simulator.world import World

CYCLES = 5
"""Within so many cycles the job must start: evicted pods leave in the second, and the room that
they leave is used in the third.
"""

PODS_PER_UNIT = 4
"""Objects whose share of a cycle in which nothing is decided is about a microsecond."""

LARGE = 5_000
ALIKE_MAX = 6
"""In a large cluster, a cycle in which nothing is decided costs at least LARGE, and a trial without
a change at most ALIKE_MAX of these.
"""

EVENT_COST = 100
"""Approximate microseconds for an edited object, there and back."""

ADMITS = "enqueue"
SKIPPED_ACTIONS = ("preempt", "reclaim")


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a trial."""

    cycle: int
    """The cycle in which the whole minimum of the job is bound; 0 if it never is."""
    evicts: tuple[Evict, ...] = ()
    """The evictions of earlier cycles, apart from those that happen without a change."""
    known: bool = True
    """False if the budget ended the trial before the outcome was known."""
    first: GroupStatus | None = None
    """The job's status after the first cycle."""
    queue: QueueFigures | None = None
    """The figures of the job's queue after the first cycle."""

    def __bool__(self) -> bool:
        return self.cycle > 0


NEVER = Start(cycle=0)
UNKNOWN = Start(cycle=0, known=False)


class Trials:
    """Trials of changes for one job, within a budget."""

    def __init__(self, given: Given, policy: Policy, job: JobId, budget: int) -> None:
        """The budget is in units of work of core.cycle, about a microsecond each."""
        self.objects = Objects(given.events, given.mirror, job)
        self.policy = policy
        self.job = job
        self.left = budget
        self._floor = 0
        """What is left for later trials."""
        self.count = 0
        """Number of trials so far."""
        self.cut = False
        """Whether any trial could not be made, or not be ended, within the budget."""
        self._mirror = given.mirror
        self._now = given.now
        self._world = World(self.objects.all, pods_return=True)
        self.snapshot = given.mirror.snapshot(given.now)
        """The unchanged cluster."""
        waiting = next(each for each in self.snapshot.jobs if each.id == job)
        self.queue = waiting.queue
        self.for_admission = (
            not (waiting.tasks or waiting.rejections)
            and waiting.phase is Phase.PENDING
            and policy.has_action(ADMITS)
        )
        """Whether the job starts, for these trials, as soon as it is admitted."""
        self._cost = run.opening_cost(self.snapshot) + len(self.objects.all) // PODS_PER_UNIT
        """Units of work of a cycle in which nothing is decided."""
        self.are_alike = False
        """Whether the cluster is so large that looking at it is most of what a trial costs."""
        self._proofs: dict[type[Change], int] = {}
        """By kind of change, the cost of the dearest full trial so far."""
        self._others = frozenset(
            each.id
            for each in self.snapshot.jobs
            if each.id != job and any(each.counts[status] for status in WAITING)
        )
        self._moved: dict[Key, Event] = {}
        """What cycles without a change do: the last event of each object."""
        self._later = False
        """Whether the Mirror shows the cluster after these events."""
        self._evicted: frozenset[TaskId] = frozenset()
        """The pods that cycles without a change evict."""
        self._memos = NO_MEMOS
        """What the last cycle learnt."""
        self._reservations: tuple[Reservation, ...] = ()
        """The starts that the first cycle of the last trial promises."""
        self._fresh = FRESH
        """What is carried into the first cycle of a trial: starts that are promised already, and
        findings about jobs that stay as they are, which have no influence on decisions."""
        self._known: dict[tuple[bool, Change], Start] = {}
        self._edited: dict[Change, Sequence[Event]] = {}
        self._parts: dict[int, tuple[Upsert, Part]] = {}
        """By identity, events with what the Mirror reads in them."""

    def close(self) -> None:
        """Bring the Mirror back to the cluster as given."""
        self._switch(later=False)

    def limit(self, parts: int) -> None:
        """Let the next trials use one of so many parts of what is left, until the next call."""
        self.cut = False
        self._floor = self.left - self.left // parts

    def starts(self, change: Change) -> Start:
        """Return when the job starts after the change."""
        return self._trial(change, alone=False)

    def may_start(self, change: Change) -> Start:
        """Return whether the job would find a place at once, if no other job had a turn before."""
        return self._trial(change, alone=True)

    def _trial(self, change: Change, *, alone: bool) -> Start:
        found = self._known.get((alone, change))
        if found is None:
            found = UNKNOWN
            if self._usable > (self._cost if alone else self._expected(change)):
                found = self._made(change, alone=alone)
            self.cut = self.cut or not found.known
            if found.known:
                self._known[alone, change] = found
        return found

    def _made(self, change: Change, *, alone: bool) -> Start:
        self.count += 1
        before = self.left
        self._switch(later=alone)
        changed = self._edited.get(change)
        if changed is None:
            changed = self._edited[change] = edits.objects(change, self.objects)
        touched = {edits.key(event): event for event in changed}
        self._apply(changed)
        policy = edits.policy(change, self.policy)
        try:
            found = self._forecast(policy) if alone else self._proof(policy, changed, touched)
            if isinstance(change, Nothing):
                self._moved = dict(touched)
                self._evicted = frozenset(evict.task.uid for evict in found.evicts)
                self._fresh = dataclasses.replace(
                    FRESH, memos=self._memos, reservations=self._reservations
                )
                self.are_alike = self._cost >= LARGE and (
                    before - self.left <= ALIKE_MAX * self._cost
                )
            return found
        finally:
            self._put_back(touched)
            if not alone:
                dearest = max(before - self.left, self._proofs.get(type(change), 0))
                self._proofs[type(change)] = dearest

    def _expected(self, change: Change) -> int:
        """Return what a full trial costs at least by experience. With less, it isn't begun, since
        it would hardly come to its end.
        """
        if not self.are_alike:
            return self._cost
        kinds = Nothing, type(change)
        return max(self._proofs.get(kind, 0) for kind in kinds)

    def _switch(self, *, later: bool) -> None:
        """Bring the Mirror to the cluster as given, or as it is after cycles without a change."""
        if later == self._later:
            return
        self._later = later
        if later:
            self._apply(self._moved.values())
        else:
            self._put_back(self._moved)

    def _apply(self, changed: Collection[Event]) -> None:
        for event in changed:
            self._take(event)
        self.left -= EVENT_COST * len(changed)

    def _take(self, event: Event) -> None:
        """Apply an event to the Mirror; one that was applied before isn't read again."""
        if isinstance(event, Remove):
            self._mirror.apply(event)
            return
        if id(event) not in self._parts:
            key, entry = self._mirror.read(event)
            self._parts[id(event)] = event, Part(kind=event.kind, found={key: entry})
        self._mirror.apply(self._parts[id(event)][1])

    def _forecast(self, policy: Policy) -> Start:
        skipped = frozenset((action, job) for action in SKIPPED_ACTIONS for job in self._others)
        carried = dataclasses.replace(self._fresh, attempted=self._others, reclaim_failed=skipped)
        taken = self._mirror.snapshot(self._now, carried)
        result = self._cycle(taken, policy)
        waits = sum(each.task.job == self.job for each in result.pipelined)
        found = self._lacks(taken, result) <= waits
        known = result.finished and not result.cut_lending
        return Start(cycle=int(found), known=found or known)

    def _proof(
        self,
        policy: Policy,
        changed: Iterable[Event],
        touched: dict[Key, Event],
    ) -> Start:
        simulated, carried = self._world.fork(), self._fresh
        simulated.change(changed)
        evicts: list[Evict] = []
        first: GroupStatus | None = None
        queue: QueueFigures | None = None
        for number in range(1, CYCLES + 1):
            now = self._now + (number - 1) * run.CYCLE_SECONDS
            taken = self._mirror.snapshot(now, carried)
            result = self._cycle(taken, policy)
            if number == 1:
                self._reservations = result.carried.reservations
            first = first or self._status(result)
            queue = queue or self._queue(result)
            if self._lacks(taken, result) <= 0:
                more = tuple(evict for evict in evicts if evict.task.uid not in self._evicted)
                return Start(cycle=number, evicts=more, first=first, queue=queue)
            evicts += result.evicts
            written = _new_phases(taken, result, now)
            if number == CYCLES or not (
                written or simulated.moving or self._may_change(result, now)
            ):
                break
            if not result.finished or self._usable <= self._cost:
                return replace(UNKNOWN, evicts=tuple(evicts), first=first, queue=queue)
            for event in simulated.obey(result, written, now):
                assert isinstance(event, Upsert | Remove)
                touched[edits.key(event)] = event
                self._mirror.apply(event)
            carried = result.carried
        known = not result.cut_lending
        return Start(cycle=0, evicts=tuple(evicts), known=known, first=first, queue=queue)

    def _cycle(self, snapshot: Snapshot, policy: Policy) -> CycleResult:
        result = cycle.run_cycle(snapshot, policy, max(1, self._usable - self._cost))
        self.left -= self._cost + result.spent
        self._memos = result.carried.memos
        return result

    def _put_back(self, touched: Iterable[Key]) -> None:
        for kind, name in touched:
            before: Event | None = self.objects.original(kind, name)
            if self._later:
                before = self._moved.get((kind, name), before)
            self._take(before or events.removal_of(kind, name))

    def _lacks(self, snapshot: Snapshot, result: CycleResult) -> int:
        """Return how many pods of the minimum have no node after this cycle; 1 for a job that isn't
        admitted, if that is what trials are for.
        """
        if self.for_admission:
            status = self._status(result)
            return int(status is None or status.phase is Phase.PENDING)
        job = next((job for job in snapshot.jobs if job.id == self.job), None)
        if job is None:
            return 1
        bound = sum(bind.task.job == self.job for bind in result.binds)
        return max(1, job.min_member) - job.ready_tasks - bound

    def _may_change(self, result: CycleResult, now: float) -> bool:
        """Whether the next cycles may decide differently although nothing in the cluster moves.

        Searches for nodes for other gangs go on, too, but can only take what this job needs.
        """
        end = now + CYCLES * run.CYCLE_SECONDS
        searches = result.carried.gang_searches.items()
        return bool(
            result.binds
            or result.evicts
            or not result.finished
            or (result.wake_at is not None and result.wake_at <= end)
            or any(job == self.job and not each.finished for (job, _), each in searches)
        )

    @property
    def _usable(self) -> int:
        return self.left - self._floor

    def _status(self, result: CycleResult) -> GroupStatus | None:
        return next((group for group in result.groups if group.job == self.job), None)

    def _queue(self, result: CycleResult) -> QueueFigures | None:
        return next((queue for queue in result.queues if queue.name == self.queue), None)


def _new_phases(snapshot: Snapshot, result: CycleResult, now: float) -> dict[JobId, GroupState]:
    """Return the new status of each PodGroup whose phase changes: the core reads nothing else."""
    stored = {job.id: job.state for job in snapshot.jobs}
    return {
        status.job: statuses.group_state(status, stored[status.job], now=now, transition="1")
        for status in result.groups
        if status.phase is not stored[status.job].phase
    }
