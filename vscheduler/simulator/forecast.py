"""When a waiting job is likely to start: the policy itself, run on the cluster as it may become.

Cycles are run in virtual time until the job has its minimum: once as if all jobs ran as briefly as
few jobs of the past that are like them, and once as long as few of them; up to their limits. Jobs
that are yet to come aren't known, nor pods that owners create once others have succeeded.
"""

import heapq
import itertools
import math
from collections.abc import Collection, Iterable
from enum import IntEnum

import msgspec
from msgspec.structs import replace

from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.index import entries
from vscheduler.mirror.index.entries import Entry, Part, Value
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate.pods import Pod
from vscheduler.mirror.translate.translation import Group
from vscheduler.model import jobs, run_times
from vscheduler.model.decisions import CycleResult, Evict, GroupStatus
from vscheduler.model.jobs import HOLDING, JobId, TaskId, TaskStatus
from vscheduler.model.snapshot import FRESH, Snapshot
from vscheduler.simulator import past_runs, pod_changes, run
from vscheduler.simulator.past_runs import Likeness, PastRuns

BUDGET = 5_000_000
"""Units of work of core.cycle, about a microsecond each."""

BRIEFLY, LONG = 0.05, 0.9
"""The parts of jobs that run no longer than all are taken to run."""

HORIZON = 30 * 86400.0
"""So far it is looked ahead, in seconds."""

STEP = 0.3
"""Cycles are at least so far apart, in parts of the time since the first."""

STEP_SECONDS = 10.0
CYCLES_MAX = 1000
IDLE_MAX = 20
"""Cycles in a row that were called by `wake_at` alone."""

TERMINATION_SECONDS = 30.0
"""How long evicted pods take to end."""

Key = tuple[Kind, str]


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """When a job starts, in seconds from now. Infinite: not within HORIZON."""

    earliest: float
    """If jobs run briefly."""
    latest: float
    """If they run long."""
    by_past: bool
    """Whether run times of the past count. Otherwise all pods run for as long as they may."""
    unknown: int
    """Of how many pods on nodes nothing tells how long they run."""
    pods: int
    """How many pods there are on nodes."""


class BudgetError(Exception):
    """The budget is too small for a forecast."""


def forecast(
    mirror: Mirror,
    now: float,
    policy: Policy,
    job: JobId,
    past: PastRuns,
    budget: int = BUDGET,
) -> Forecast:
    """Return when a job that waits in the Mirror is likely to start. Raises BudgetError.

    The Mirror is as before when this is over. Equal input gives equal results.
    """
    future = _Future(mirror, now, policy, past, budget)
    starts = [future.start_of(job, LONG)]
    if future.by_past:
        starts.append(future.start_of(job, BRIEFLY))
    return Forecast(
        earliest=min(starts),
        latest=max(starts),
        by_past=future.by_past,
        unknown=future.unknown,
        pods=future.pods,
    )


class _Moment(IntEnum):
    """What happens to a pod at an instant, in this order."""

    SUCCEEDS = 0
    FAILS = 1


class _Future:
    """What may become of a cluster."""

    def __init__(
        self, mirror: Mirror, now: float, policy: Policy, past: PastRuns, budget: int
    ) -> None:
        self._mirror, self._began, self._policy = mirror, now, policy
        self._past, self._left = past, budget
        self.by_past = False
        self.unknown = 0
        self.pods = 0
        self._before: dict[Key, Entry | None] = {}
        """Of each object that is changed, the entry before."""
        self._moments: list[tuple[float, _Moment, TaskId]] = []
        """A heap."""
        self._replaced: frozenset[TaskId] = frozenset()
        """Evicted pods: their owners create others."""
        self._uids = itertools.count()
        self._part = LONG
        self._moved = now
        """When, on average, pods ended that have ended since the last cycle."""

    def start_of(self, job: JobId, part: float) -> float:
        """Return in how many seconds the job has its minimum, if all jobs run so long that this
        part of them would have ended; infinite: not within HORIZON. Raises BudgetError.
        """
        self._part, self._moments, self._replaced = part, [], frozenset()
        self.unknown = self.pods = 0
        try:
            self._expect_ends()
            return self._start(job)
        finally:
            self._put_back()

    def _start(self, job: JobId) -> float:
        now, carried, idle = self._began, FRESH, 0
        for _ in range(CYCLES_MAX):
            self._advance(now)
            taken = self._mirror.snapshot(now, carried)
            cost = run.opening_cost(taken)
            if self._left <= cost:
                raise BudgetError
            result = cycle.run_cycle(taken, self._policy, self._left - cost)
            self._left -= cost + result.spent
            if _has_minimum(job, taken, result):
                return self._moved - self._began
            self._obey(result, taken, now)
            carried = result.carried
            idle = 0 if self._moments else idle + 1
            after = self._next(now, result)
            if after is None or after > self._began + HORIZON or idle > IDLE_MAX:
                return math.inf
            now = after
        return math.inf

    def _next(self, now: float, result: CycleResult) -> float | None:
        """Return when the next cycle is."""
        known = [self._moments[0][0]] if self._moments else []
        if result.wake_at is not None:
            known.append(result.wake_at)
        if not result.finished:
            known.append(now)
        step = max(STEP_SECONDS, STEP * (now - self._began))
        return max(min(known), now + step) if known else None

    def _expect_ends(self) -> None:
        """Note when pods end that run now."""
        taken = self._mirror.snapshot(self._began)
        for job in taken.jobs:
            queue, kind = taken.queues.get(job.queue), past_runs.kind_of(job)
            for task in job.tasks:
                if task.status is TaskStatus.RELEASING:
                    self._later(self._began + TERMINATION_SECONDS, _Moment.FAILS, task.uid)
                elif task.status in HOLDING and queue is not None:
                    since = task.created if task.scheduled_at is None else task.scheduled_at
                    ran = max(0.0, self._began - since)
                    limit = run_times.of(job, task, queue)
                    self.pods += 1
                    self.unknown += not self._expect_end(task.uid, kind, limit, ran, self._began)

    def _expect_end(
        self, uid: TaskId, kind: Likeness, limit: float | None, ran: float, now: float
    ) -> bool:
        """Note when a pod ends that has run for so long; return whether anything tells."""
        past = self._past.left(kind, ran, self._part)
        self.by_past = self.by_past or past is not None
        known = [] if past is None else [past]
        if limit is not None:
            known.append(run_times.end(0.0, limit, ran) - ran)
        left = min(known, default=math.inf)
        if left < math.inf:
            self._later(now + left, _Moment.SUCCEEDS, uid)
        return bool(known)

    def _later(self, at: float, moment: _Moment, uid: TaskId) -> None:
        heapq.heappush(self._moments, (at, moment, uid))

    def _advance(self, now: float) -> None:
        """Let pods end, and be replaced."""
        ended = [now]
        while self._moments and self._moments[0][0] <= now:
            at, moment, uid = heapq.heappop(self._moments)
            ended.append(at)
            pod = self._pod(uid)
            if moment is _Moment.FAILS:
                self._change((Kind.POD, uid), pod_changes.finished(pod, TaskStatus.FAILED))
                if uid in self._replaced:
                    fresh = TaskId(f"{uid}+{next(self._uids)}")
                    again = pod_changes.created_again(pod, fresh, now)
                    self._change((Kind.POD, fresh), again)
            elif pod.status in HOLDING:  # it may have been evicted
                self._change((Kind.POD, uid), pod_changes.finished(pod, TaskStatus.SUCCEEDED))
        self._moved = (ended[1] + ended[-1]) / 2.0 if len(ended) > 1 else now

    def _obey(self, result: CycleResult, taken: Snapshot, now: float) -> None:
        """Carry out the decisions of a cycle."""
        owners = {job.id: job for job in taken.jobs}
        for bind in result.binds:
            uid, job = bind.task.uid, owners[bind.task.job]
            self._change((Kind.POD, uid), pod_changes.running(self._pod(uid), bind.node, now))
            limit = run_times.of(job, bind.task, taken.queues[job.queue])
            self._expect_end(uid, past_runs.kind_of(job), limit, 0.0, now)
        self._evict(result.evicts, now)
        self._note_phases(result.changeable)

    def _evict(self, evicts: Collection[Evict], now: float) -> None:
        until = now + TERMINATION_SECONDS
        self._replaced |= {evict.task.uid for evict in evicts}
        for evict in evicts:
            uid = evict.task.uid
            self._change((Kind.POD, uid), self._pod(uid).leaving(until))
            self._later(until, _Moment.FAILS, uid)

    def _note_phases(self, statuses: Iterable[GroupStatus]) -> None:
        for status in statuses:
            if jobs.is_lone_pod(status.job):
                continue
            key = events.kind_of_job(status.job), events.key_of(*jobs.names_of(status.job))
            entry = self._mirror.entry(*key)
            group = None if entry is None else entry.value
            if isinstance(group, Group) and group.job.state.phase is not status.phase:
                state = replace(group.job.state, phase=status.phase, running=status.running)
                self._change(key, replace(group, job=replace(group.job, state=state)))

    def _pod(self, uid: TaskId) -> Pod:
        entry = self._mirror.entry(Kind.POD, uid)
        assert entry is not None
        assert isinstance(entry.value, Pod)
        return entry.value

    def _change(self, key: Key, value: Value) -> None:
        """Show another value of an object, or a new one."""
        before = self._mirror.entry(*key)
        self._before.setdefault(key, before)
        reference = entries.UNKNOWN.reference if before is None else before.reference
        self._show(key, Entry(reference, value))

    def _put_back(self) -> None:
        """Show what there was. A pod that was made up mustn't be remembered as one that succeeded
        and was deleted then.
        """
        for key, before in self._before.items():
            made = self._mirror.entry(*key)
            if before is None and made is not None and isinstance(made.value, Pod):
                again = pod_changes.created_again(made.value, made.value.uid, self._began)
                self._show(key, Entry(made.reference, again))
            self._show(key, before)
        self._before.clear()

    def _show(self, key: Key, entry: Entry | None) -> None:
        kind, name = key
        if entry is not None:
            self._mirror.apply(Part(kind=kind, found={name: entry}))
            return
        self._mirror.apply(events.removal_of(kind, name))


def _has_minimum(job: JobId, taken: Snapshot, result: CycleResult) -> bool:
    found = next((each for each in taken.jobs if each.id == job), None)
    bound = sum(bind.task.job == job for bind in result.binds)
    return found is not None and found.ready_tasks + bound >= max(1, found.min_member)
