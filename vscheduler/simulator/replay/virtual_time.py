"""The replay of a trace: its jobs come, start, run and end in virtual time.

There is a cycle at each instant at which something changes: jobs come or end, evicted pods are
gone, or a cycle asked to be called (`wake_at`). The Mirror is shown pods and PodGroups that are
translated already, which costs a fraction of decoding them; from there on, all is as in the daemon.
"""

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import IntEnum

import msgspec
from msgspec.structs import replace

from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate.pods import Pod
from vscheduler.mirror.translate.translation import Group
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import Bind, CycleResult, Evict
from vscheduler.model.jobs import GroupState, Job, JobId, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.resources import PODS
from vscheduler.model.run_times import PAST_DAYS
from vscheduler.model.snapshot import FRESH, Carried, Reservation
from vscheduler.simulator import pod_changes
from vscheduler.simulator.forecast import BudgetError, forecast
from vscheduler.simulator.past_runs import PastRun, PastRuns
from vscheduler.simulator.replay import clusters
from vscheduler.simulator.replay.traces import Trace, TraceJob

AT_ONCE_MAX = 100
"""Cycles at one instant, each after binds of the one before."""

IDLE_MAX = 1000
"""Cycles in a row that were called by `wake_at` alone and decided nothing, after the last job came
or ended: jobs that still wait by then never start."""

APART_SECONDS = 1e-6
"""How much younger a job counts than the one before it in the trace, if both are submitted at the
same instant: jobs of one age come in the order of their names."""

DAY_SECONDS = 86400

Progress = Callable[[int, int], None]
"""Called with the number of jobs that have ended, and of all jobs."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs of a trace behave."""

    keep_limits: bool = False
    """Whether jobs end at their limit, even if they ran longer in the trace."""
    resume: bool = False
    """Whether an evicted job goes on where it was, instead of starting anew."""
    termination_seconds: float = 30.0
    """How long the pods of an evicted job take to end."""
    forecast_every: int = 0
    """Of how many jobs that have to wait the start of one is forecast; 0: of none."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which all pods of a job ran."""

    job: int
    """The place of the job in the trace."""
    start: float
    end: float
    evicted: bool
    """Whether it ended by an eviction."""


class Promised(msgspec.Struct, frozen=True, kw_only=True):
    """Starts that a job was promised before it ran."""

    first: float
    """When it was to start at the latest, as it was told first."""
    least: float
    """The earliest of all that it was told."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """Between which times a job was likely to start, when it was submitted. Infinite: unknown."""

    earliest: float
    latest: float


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the jobs of a trace. Times are on the clock of the trace."""

    runs: tuple[Run, ...]
    """In the order of their ends."""
    unstarted: dict[int, str]
    """Jobs that never started, by place in the trace, with the reason."""
    cycles: int
    evicted_pods: int
    promised: dict[int, Promised] = msgspec.field(default_factory=dict)
    """Jobs that were promised a start, by place in the trace."""
    expected: dict[int, Expected] = msgspec.field(default_factory=dict)
    """Jobs whose start was forecast, by place in the trace."""


class _Moment(IntEnum):
    """What happens at an instant, in this order."""

    END = 0
    GONE = 1


class _Live:
    """A job between its submission and its end."""

    __slots__ = ("at", "group", "left", "pods", "run", "running", "start")

    def __init__(self, at: int, group: Group, left: float) -> None:
        self.at = at
        self.group = group
        self.pods: dict[TaskId, Pod] = {}
        self.running = 0
        """How many of its pods run."""
        self.start: float | None = None
        """Since when all of them run."""
        self.run = 0
        """How often they have been started all together."""
        self.left = left
        """How long it still has to run."""


def replay(
    trace: Trace,
    mirror: Mirror,
    policy: Policy,
    options: Options,
    progress: Progress = lambda _ended, _all: None,
) -> History:
    """Run the jobs of a trace on the cluster of a Mirror until all have ended or none can start."""
    world = _World(trace, mirror, options)
    carried, wake_at, idle, cycles = FRESH, None, 0, 0
    while (now := world.next(wake_at)) is not None:
        moved = world.advance(now)
        for _ in range(AT_ONCE_MAX):
            result = _decide(mirror, policy, now, carried)
            carried, wake_at = result.carried, result.wake_at
            world.obey(result, now)
            cycles += 1
            moved = moved or bool(result.binds or result.evicts)
            if not (result.binds and world.waiting):
                break
        world.forecast_starts(policy, now)
        idle = 0 if moved else idle + 1
        if idle > IDLE_MAX and not world.is_busy:
            break
        progress(world.ended, len(trace.jobs))
    return world.history(cycles)


def _decide(mirror: Mirror, policy: Policy, now: float, carried: Carried) -> CycleResult:
    return cycle.run_cycle(mirror.snapshot(now, carried), policy)


class _World:
    """The jobs of a trace between two cycles."""

    def __init__(self, trace: Trace, mirror: Mirror, options: Options) -> None:
        self._trace, self._mirror, self._options = trace, mirror, options
        self._coming = 0
        """The place of the next job in the trace."""
        self._moments: list[tuple[float, _Moment, int, _Live, int | TaskId]] = []
        """A heap: when, what, a number, of which job, and which run or pod."""
        self._numbers = itertools.count()
        self._youngest = -math.inf
        """When the last job was created."""
        self._live: dict[JobId, _Live] = {}
        self._classes: dict[tuple[tuple[str, int], ...], PodClass] = {}
        """By request."""
        self._runs: list[Run] = []
        self._reasons: dict[JobId, str] = {}
        self._last: CycleResult | None = None
        self._evicted_pods = 0
        self._promised: dict[int, Promised] = {}
        self._expected: dict[int, Expected] = {}
        self._came: list[JobId] = []
        """Jobs that were submitted since forecasts were made."""
        self._waited = 0
        """How many jobs had to wait when they were submitted."""
        self.waiting = 0
        """How many jobs don't run."""
        self.ended = 0

    @property
    def is_busy(self) -> bool:
        """Whether jobs are to come or to end."""
        return bool(self._moments) or self._coming < len(self._trace.jobs)

    def next(self, wake_at: float | None) -> float | None:
        """Return the next instant at which anything happens, or None."""
        known = [self._moments[0][0]] if self._moments else []
        if self._coming < len(self._trace.jobs):
            known.append(self._trace.epoch + self._trace.jobs[self._coming].submit)
        if wake_at is not None and self.waiting:
            known.append(wake_at)
        return min(known, default=None)

    def advance(self, now: float) -> bool:
        """Let jobs end, evicted pods go, and new jobs come; return whether any did."""
        before = (self.ended, self._coming, len(self._moments))
        gone: list[tuple[_Live, TaskId]] = []
        while self._moments and self._moments[0][0] <= now:
            *_, live, what = heapq.heappop(self._moments)
            if isinstance(what, int):
                if live.run == what and live.start is not None:
                    self._end(live, now)
            else:
                gone.append((live, what))
        self._replace(gone, now)
        jobs, came = self._trace.jobs, list[_Live]()
        while self._coming < len(jobs) and self._trace.epoch + jobs[self._coming].submit <= now:
            came.append(self._new(self._coming, jobs[self._coming]))
            self._coming += 1
        self._show(came)
        return before != (self.ended, self._coming, len(self._moments))

    def obey(self, result: CycleResult, now: float) -> None:
        """Carry out the decisions of a cycle."""
        self._last = result
        self._note_promises(result.carried.reservations)
        self._bind(result.binds, now)
        self._evict(result.evicts, now)
        changed = {}
        for status in result.changeable:
            live = self._live.get(status.job)
            if live is not None and live.group.job.state.phase is not status.phase:
                state = GroupState(phase=status.phase, running=status.running)
                live.group = replace(live.group, job=replace(live.group.job, state=state))
                changed[str(status.job)] = live.group
        if changed:
            clusters.show(self._mirror, Kind.POD_GROUP, changed)

    def history(self, cycles: int) -> History:
        """Return what became of all jobs."""
        told = {} if self._last is None else {each.job: each.reason for each in self._last.groups}
        unstarted = {}
        for job, live in self._live.items():
            reason = told.get(job)
            unstarted[live.at] = sentences.sentence(reason) if reason else "it had no turn"
        return History(
            runs=tuple(self._runs),
            unstarted=dict(sorted(unstarted.items())),
            cycles=cycles,
            evicted_pods=self._evicted_pods,
            promised=self._promised,
            expected=self._expected,
        )

    def forecast_starts(self, policy: Policy, now: float) -> None:
        """Remember when new jobs that wait are likely to start, of each nth."""
        clock = now - self._trace.epoch
        for job in self._to_forecast():
            earliest = latest = math.inf
            with suppress(BudgetError):
                found = forecast(self._mirror, now, policy, job, self._past(now))
                earliest, latest = found.earliest, found.latest
            self._expected[self._live[job].at] = Expected(
                earliest=clock + earliest, latest=clock + latest
            )

    def _to_forecast(self) -> list[JobId]:
        """Return the new jobs that wait and whose start is to be forecast."""
        every = self._options.forecast_every
        found = []
        for job in self._came:
            live = self._live.get(job)
            if every and live is not None and live.start is None:
                self._waited += 1
                if self._waited % every == 0:
                    found.append(job)
        self._came.clear()
        return found

    def _past(self, now: float) -> PastRuns:
        """Return how long jobs have run that ended lately, and those that run."""
        jobs, clock = self._trace.jobs, now - self._trace.epoch
        made = PastRuns()
        for run in reversed(self._runs):
            if run.end < clock - PAST_DAYS * DAY_SECONDS:
                break
            if not run.evicted:
                made.add(_past_run(jobs[run.job], run.end - run.start))
        for live in self._live.values():
            if live.start is not None:
                made.add(_past_run(jobs[live.at], now - live.start, ended=False))
        return made

    def _note_promises(self, reservations: Iterable[Reservation]) -> None:
        """Remember what jobs are told that haven't run yet."""
        for each in reservations:
            live, start = self._live[each.job], each.start - self._trace.epoch
            if not live.run:
                known = self._promised.get(live.at, Promised(first=start, least=start))
                self._promised[live.at] = replace(known, least=min(known.least, start))

    def _new(self, at: int, job: TraceJob) -> _Live:
        """Return a job that is submitted, with its pods."""
        name = _name(job)
        key = JobId(f"{job.user}/{name}")
        created = max(self._trace.epoch + job.submit, self._youngest + APART_SECONDS)
        self._youngest = created
        uid = f"{at:08}"
        made = Job(
            id=key,
            uid=uid,
            namespace=job.user,
            name=name,
            queue=job.queue,
            created=created,
            min_member=job.pods,
            priority=job.priority,
            max_run_time=job.limit,
        )
        left = job.duration
        if self._options.keep_limits and job.limit is not None:
            left = min(left, job.limit)
        group = Group(
            job=made, priority_class="", scheduler=clusters.SCHEDULER, priority=job.priority
        )
        live = _Live(at, group, left)
        pod_class = self._class_of(job)
        width = len(str(job.pods - 1))
        for index in range(job.pods):
            uid_of_pod = TaskId(f"{uid}-{index:0{width}}")
            live.pods[uid_of_pod] = _pod(made, pod_class, uid_of_pod, index)
        self._live[key] = live
        self._came.append(key)
        self.waiting += 1
        return live

    def _class_of(self, job: TraceJob) -> PodClass:
        request = tuple(sorted(job.request.items()))
        if request not in self._classes:
            self._classes[request] = PodClass(request={**job.request, PODS: 1})
        return self._classes[request]

    def _show(self, came: Iterable[_Live]) -> None:
        groups = {str(live.group.job.id): live.group for live in came}
        if groups:
            clusters.show(self._mirror, Kind.POD_GROUP, groups)
            pods = {str(uid): pod for live in came for uid, pod in live.pods.items()}
            clusters.show(self._mirror, Kind.POD, pods)

    def _bind(self, binds: Iterable[Bind], now: float) -> None:
        """Let pods run, and jobs whose pods all do."""
        bound: defaultdict[JobId, list[Pod]] = defaultdict(list)
        for bind in binds:
            pod = self._live[bind.task.job].pods[bind.task.uid]
            bound[bind.task.job].append(pod_changes.running(pod, bind.node, now))
        for job, pods in bound.items():
            live = self._live[job]
            live.running += len(pods)
            self._take(live, pods)
            if live.running == len(live.pods):
                live.start, live.run = now, live.run + 1
                self.waiting -= 1
                self._later(now + live.left, _Moment.END, live, live.run)

    def _evict(self, evicts: Iterable[Evict], now: float) -> None:
        """Let pods end, and with the first of them the run of their job."""
        until = now + self._options.termination_seconds
        evicted: defaultdict[JobId, list[Pod]] = defaultdict(list)
        for evict in evicts:
            pod = self._live[evict.task.job].pods[evict.task.uid]
            evicted[evict.task.job].append(pod.leaving(until))
        for job, pods in evicted.items():
            live = self._live[job]
            self._evicted_pods += len(pods)
            live.running -= len(pods)
            if live.start is not None:
                self._runs.append(self._run(live, live.start, now, evicted=True))
                live.left -= (now - live.start) if self._options.resume else 0.0
                live.start = None
                self.waiting += 1
            self._take(live, pods)
            for pod in pods:
                self._later(until, _Moment.GONE, live, pod.uid)

    def _end(self, live: _Live, now: float) -> None:
        """Let a job be done, and gone."""
        assert live.start is not None
        self._runs.append(self._run(live, live.start, now, evicted=False))
        self.ended += 1
        job = live.group.job.id
        del self._live[job]
        clusters.hide(self._mirror, Kind.POD, live.pods)
        clusters.hide(self._mirror, Kind.POD_GROUP, [job])

    def _replace(self, gone: Iterable[tuple[_Live, TaskId]], now: float) -> None:
        """Let evicted pods be gone, and others wait in their place."""
        made: dict[str, Pod] = {}
        for live, uid in gone:
            clusters.hide(self._mirror, Kind.POD, [uid])
            old = live.pods.pop(uid)
            first = str(uid).partition("+")[0]
            pod = pod_changes.created_again(old, TaskId(f"{first}+{next(self._numbers)}"), now)
            live.pods[pod.uid] = made[str(pod.uid)] = pod
        if made:
            clusters.show(self._mirror, Kind.POD, made)

    def _take(self, live: _Live, pods: Iterable[Pod]) -> None:
        live.pods.update((pod.uid, pod) for pod in pods)
        clusters.show(self._mirror, Kind.POD, {str(pod.uid): pod for pod in pods})

    def _later(self, at: float, moment: _Moment, live: _Live, what: int | TaskId) -> None:
        heapq.heappush(self._moments, (at, moment, next(self._numbers), live, what))

    def _run(self, live: _Live, start: float, end: float, *, evicted: bool) -> Run:
        epoch = self._trace.epoch
        return Run(job=live.at, start=start - epoch, end=end - epoch, evicted=evicted)


def _pod(job: Job, pod_class: PodClass, uid: TaskId, index: int) -> Pod:
    """Return a waiting pod of a job, as the Mirror translates it."""
    priority = job.priority
    task = Task(
        uid=uid,
        namespace=job.namespace,
        name=f"{job.name}-{index}",
        job=job.id,
        pod_class=pod_class,
        status=TaskStatus.PENDING,
        created=job.created,
        priority=priority or 1,
        pod_priority=priority,
        index=index,
    )
    return Pod(
        uid=uid,
        key=task.key,
        group=job.id,
        ours=True,
        scheduler=clusters.SCHEDULER,
        node=None,
        status=task.status,
        pod_class=pod_class,
        labels=task.labels,
        task=task,
    )


def _name(job: TraceJob) -> str:
    return f"job-{job.id}"


def _past_run(job: TraceJob, seconds: float, *, ended: bool = True) -> PastRun:
    return PastRun(
        queue=job.queue, namespace=job.user, name=_name(job), seconds=seconds, ended=ended
    )
