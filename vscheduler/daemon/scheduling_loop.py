"""Scheduling loop: wait, take a snapshot, run a cycle in a thread, pass the decisions on."""

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import structlog

from vscheduler.backoff import Backoff
from vscheduler.cluster.cooperative import CooperativeYield
from vscheduler.cluster.writes import binder, evictor
from vscheduler.cluster.writes.binder import Binder, BindResult, Outcome, Still
from vscheduler.cluster.writes.claim_writer import ClaimWriter
from vscheduler.cluster.writes.evictor import EvictionResult, Evictor
from vscheduler.cluster.writes.queue_status_writer import QueueStatusWriter, UsageWriter
from vscheduler.cluster.writes.status_writer import StatusWriter
from vscheduler.containment import Failures
from vscheduler.core.config.policy import Policy
from vscheduler.daemon.claim_writes import ClaimWrites
from vscheduler.daemon.cycle_thread import CycleThread, FailedError, SmallCycles
from vscheduler.daemon.liveness.progress import Cycles
from vscheduler.daemon.observability.cycle_log import CycleLog
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.daemon.pacing import Pace, Pacing
from vscheduler.mirror import paths
from vscheduler.mirror.decode.events import DecodeError, Kind
from vscheduler.mirror.index.entries import Change, Reference
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.wording import plain_text
from vscheduler.model.decisions import Bind, CycleResult
from vscheduler.model.jobs import JobId, TaskId
from vscheduler.model.nodes import NodeLayout
from vscheduler.model.snapshot import FRESH, BindRefusal, Reported, Snapshot, without_memos
from vscheduler.web.history import Observer

log = structlog.get_logger(__name__)


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """The writers for a cycle's decisions and findings."""

    committer: Binder
    claim_writer: ClaimWriter
    evictor: Evictor
    reporter: StatusWriter
    queue_reporter: QueueStatusWriter
    usage_writer: UsageWriter
    cycles: Cycles = msgspec.field(default_factory=Cycles)
    """Records running cycles for the watchdog."""
    observer: Observer = msgspec.field(default_factory=Observer)
    """Is told what was decided, and what became of it."""
    failures: Failures = msgspec.field(default_factory=Failures)
    """Receives unexpected exceptions."""


class SchedulingLoop:
    """Runs cycle after cycle for one leader session.

    Everything except the cycle itself runs in the event loop. Decisions made while commits are not
    permitted are discarded.
    """

    def __init__(
        self,
        mirror: Mirror,
        policy: Policy,
        outlets: Outlets,
        observed: Metrics,
        *,
        may_commit: Callable[[], bool],
        pace: Pace,
    ) -> None:
        self._running = outlets.cycles
        self._failures = outlets.failures
        self._mirror = mirror
        self._policy = policy
        self._may_commit = may_commit
        self._committer = outlets.committer
        self._evictor = outlets.evictor
        self._reporter = outlets.reporter
        self._queue_reporter = outlets.queue_reporter
        self._usage_writer = outlets.usage_writer
        self._metrics = observed
        self._observer = outlets.observer
        self._pace = pace
        self._yielder = CooperativeYield()
        self._pacing = Pacing(pace, mirror.more_to_come)
        self._small_cycles = SmallCycles(observed.observe_lag)
        self._carried = FRESH
        self._dropped = 0
        self._cycles = 0
        self._cycle_log = CycleLog()
        self._rejected: set[DecodeError] = set()
        self._invalid_groups: set[tuple[Reference, DecodeError]] = set()
        self._ungrouped = 0
        self._failed_binds: Backoff[TaskId] = Backoff(pace.growth(free=1))
        self._refused_binds = RefusedBinds()
        self._refused_jobs: Backoff[JobId] = Backoff(pace.growth(free=1))
        growth, changed = pace.growth(free=1), self._pacing.changed
        self._claims = ClaimWrites(
            mirror,
            outlets.claim_writer,
            observed,
            failures=outlets.failures,
            growth=growth,
            changed=changed,
        )
        self._refused_victims: Backoff[TaskId] = Backoff(pace.growth())

    @property
    def cycles(self) -> int:
        """Number of cycles since the start, not counting dropped cycles."""
        return self._cycles

    def changed(self, change: Change, news: Collection[str]) -> None:
        """Record a change that can change a decision; `news` as in pacing.Pacing.changed."""
        self._pacing.changed(change, news)

    def reconsider(self) -> None:
        """Run a cycle soon, as decisions may be different from now on."""
        self._pacing.changed()

    def adopt(self, policy: Policy) -> None:
        """Use this policy from the next cycle on."""
        self._policy = policy
        self.reconsider()

    async def run(self) -> None:
        """Run cycles for ever, the first at once."""
        self._pacing.changed()
        self._running.dropped(0)
        thread = CycleThread(self._running)
        thread.start()
        try:
            while True:
                await self._wait()
                try:
                    await self._cycle(thread)
                except FailedError as failed:
                    self._drop(failed.error)
                except Exception as error:  # noqa: BLE001 - handled like a defect in the cycle
                    self._failures.failed("schedule", "what is around a cycle", error)
                    self._drop(error)
                else:
                    self._dropped = 0
                    self._running.dropped(0)
        finally:
            thread.stop()
            self._cycle_log.flush(at_once=True)
            self._mirror.release_all()
            self._running.dropped(0)

    async def keep_time(self) -> None:
        """Run housekeeping for ever: pauses, unconfirmed calls, objects left out."""
        while True:
            with self._failures.contained("schedule", "pauses"):
                self._release()
            with self._failures.contained("schedule", "log"):
                self._cycle_log.flush()
            with self._failures.contained("schedule", "objects that are left out"):
                self._log_objects_left_out()
                self._warn_of_invalid_groups()
                self._tell_ungrouped(time.time())
            with self._failures.contained("schedule", "what was never confirmed"):
                if expired := self._mirror.expire(time.time()):
                    log.warning("call.unconfirmed", pods=len(expired))
                    self._pacing.changed()
            await asyncio.sleep(self._pace.tick_seconds)

    def _log_objects_left_out(self) -> None:
        """Log each invalid object once, and how many live pods have no PodGroup.

        Nobody places a pod without a PodGroup. Finished pods often outlive theirs.
        """
        rejected = set(self._mirror.rejections.values())
        for rejection in sorted(rejected - self._rejected, key=str):
            log.warning(
                "object.rejected",
                kind=rejection.kind.value,
                object=rejection.key,
                field=rejection.field,
                message=rejection.message,
            )
        self._rejected = rejected
        ungrouped = sum(pod.lives for pod in self._mirror.ungrouped())
        if ungrouped != self._ungrouped:
            self._ungrouped = ungrouped
            log.info("pods.ungrouped", pods=ungrouped)
        self._metrics.observe_rejected(rejected=len(rejected), ungrouped=ungrouped)

    def _tell_ungrouped(self, now: float) -> None:
        """Record on pods that have waited long enough that they need a PodGroup, and why."""
        for pod in self._mirror.ungrouped():
            task = pod.task
            if task is None or not pod.waits or now < task.created + GROUP_SECONDS:
                continue
            if why := self._mirror.why_ungrouped(pod):
                self._reporter.without_group(task, why)

    def _warn_of_invalid_groups(self) -> None:
        """Record an event on each PodGroup that can't be used, once per version."""
        invalid = set()
        for (kind, key), rejection in self._mirror.rejections.items():
            reference = self._mirror.reference(kind, key)
            is_group = kind in paths.GROUPS
            if is_group and reference is not None:
                invalid.add((reference, rejection))
                if (reference, rejection) not in self._invalid_groups:
                    self._reporter.invalid(reference.uid, rejection)
        self._invalid_groups = invalid

    def take(self, outcome: binder.Outcome) -> None:
        """Process the result of a bind.

        After a failed bind, the pod keeps its place on the node for a pause, longer after each
        failure in a row. A pod that is always refused therefore does not flood the API server. If
        the API server has refused several binds in a row, others may have the place meanwhile.
        After UNKNOWN, the place is kept until the watch shows the result or the assumption expires.
        After OVERTAKEN, which cost nothing, another node is searched at once.
        """
        task, verdict = outcome.bind.task, outcome.verdict
        bound = verdict is BindResult.BOUND
        age = max(0.0, time.time() - task.created)
        self._metrics.observe_bind(verdict, bound=bound, seconds=age)
        if self._refused_binds.take(outcome):
            self._pacing.changed()
        if bound:
            self._failed_binds.succeeded(task.uid)
            self._reporter.bound(outcome.bind)
            self._observer.bound(outcome.bind, time.time())
            return
        log.info(
            "bind.failed",
            pod=task.key,
            node=outcome.bind.node,
            outcome=verdict.value,
            message=outcome.message,
        )
        if verdict is BindResult.UNKNOWN:
            return
        if verdict is BindResult.OVERTAKEN:
            self._mirror.forget(task.uid)
            self._pacing.changed()
            return
        self._observer.bind_refused(outcome.bind, outcome.message, time.time())
        self._failed_binds.failed(task.uid, time.monotonic())
        if self._refused_binds.lasts(task.uid):
            self._mirror.hold_back(task.uid)
            self._pacing.changed()
        self._release()

    def handle_eviction(self, outcome: evictor.Outcome) -> None:
        """Process the result of an eviction plan.

        After a refusal, the job plans again without the protected pod: at once the first time, then
        after growing pauses. The next cycle sees that the promised resources are not being freed.
        Other jobs are not held up.
        """
        plan, obstacle = outcome.plan, outcome.obstacle
        for step in outcome.steps:
            self._metrics.observe_eviction(step.verdict)
            if step.verdict not in (EvictionResult.EVICTED, EvictionResult.UNKNOWN):
                self._mirror.forget_eviction(step.evict.task.uid)
        if outcome.evicted:
            self._reporter.lost(outcome.evicted)
            self._observer.evicted(outcome.evicted, time.time())
        if obstacle is None:
            self._metrics.observe_plan(plan.action)
            self._reporter.nominate(plan.nominations)
            if plan.beneficiary is not None:
                self._refused_jobs.succeeded(plan.beneficiary)
            return
        log.info(
            "eviction.failed",
            pod=obstacle.evict.task.key,
            node=obstacle.evict.node,
            action=plan.action,
            beneficiary=plan.beneficiary,
            outcome=obstacle.verdict.value,
            message=obstacle.message,
            evicted=len(outcome.evicted),
        )
        self._observer.eviction_refused(obstacle.evict, obstacle.message, time.time())
        self._refused_victims.failed(obstacle.evict.task.uid, time.monotonic())
        if plan.beneficiary is not None:
            self._refused_jobs.failed(plan.beneficiary, time.monotonic())
        self._release()
        self._pacing.changed()

    def _release(self) -> None:
        """End pauses that are over, and free the places of pods that could not be bound."""
        now = time.monotonic()
        unbound = self._failed_binds.ended(now)
        for uid in unbound:
            self._mirror.forget(uid)
            self._mirror.release(uid)
        claims, victims = self._claims.ended(now), self._refused_victims.ended(now)
        # A list, so that all are evaluated: `ended` removes pauses.
        if any([unbound, claims, self._refused_jobs.ended(now), victims]):
            self._pacing.changed()

    async def _wait(self) -> None:
        """Wait until a cycle is due and its decisions can be committed."""
        await self._pacing.wait()
        await self._committer.wait_for_room(self._pace.backlog_max)
        # Until the Lease was renewed, or the session ends.
        while not self._may_commit():  # noqa: ASYNC110 - the election's thread sends no event
            await asyncio.sleep(self._pace.doubt_seconds)
        self._pacing.begin()

    async def _cycle(self, thread: CycleThread) -> None:
        """Run a cycle and pass on its decisions.

        Raises cycle_thread.FailedError, and errors around the cycle.
        """
        started, began = time.monotonic(), time.thread_time()
        reported = Reported(
            refused_binds=self._refused_binds.current(self._is_there),
            eviction_refused_pods=self._refused_victims.pausing,
            eviction_refused_jobs=self._refused_jobs.pausing | self._refused_binds.lasting_jobs,
        )
        carried = replace(self._carried, reported=self._claims.noted(reported))
        snapshot = self._mirror.snapshot(time.time(), carried)
        self._cycle_log.log_refusals(snapshot.refused)
        finished, worked = time.monotonic(), time.thread_time() - began
        result = await self._small_cycles.run(thread, snapshot, self._policy, self._pace.budget)
        if not self._may_commit():
            log.info("cycle.withheld", binds=len(result.binds), evictions=len(result.evicts))
            self._pacing.changed()
            return
        decided, began = time.monotonic(), time.thread_time()
        bound = await self._commit(snapshot, result)
        handed_on = time.monotonic()
        worked += thread.worked_seconds + time.thread_time() - began
        parts = {
            "snapshot": finished - started,
            "decide": decided - finished,
            "commit": handed_on - decided,
        }
        self._cycles += 1
        self._pacing.end(
            seconds=worked,
            bound=bound > 0,
            finished=result.finished,
            wake_at=result.wake_at,
            costs=result.costs,
        )
        self._metrics.observe_cycle(result, parts)
        self._observer.cycle(snapshot, result)
        self._cycle_log.log_cycle(result, cycle=self._cycles, bound=bound, parts=parts)

    def _drop(self, error: BaseException) -> None:
        """Drop a cycle after a defect, as a whole, and wait longer before the next cycle."""
        self._dropped += 1
        self._running.dropped(self._dropped)
        pause = self._pace.growth().after(self._dropped)
        self._metrics.observe_dropped_cycle()
        log.error("cycle.dropped", retry_in_seconds=pause, exc_info=error)
        self._pacing.fail(pause)

    async def _commit(self, snapshot: Snapshot, result: CycleResult) -> int:
        """Pass on a cycle's decisions and return the number of binds.

        If a pod or node of a job's binds changed during the cycle, or the node got other pods, none
        of the job's binds is sent: a gang starts as a whole or not at all, and the next cycle
        decides again. The API server would accept a bind to a deleted or full node.
        """
        now = time.time()
        still = partial(self._still_fits, snapshot.nodes.layout)
        bound = await self._bind(result.binds, still, now)
        self._carried = result.carried
        self._claims.carry_out(result, self._is_there)
        with self._failures.contained("schedule", "evictions"):
            self._evict(snapshot, result, now)
        with self._failures.contained("schedule", "statuses of jobs") as reporting:
            self._reporter.report(result, snapshot.job, str(uuid.uuid4()))
        if reporting.failed:  # the next result has the statuses of all jobs to report again
            self._carried = without_memos(result.carried)
        with self._failures.contained("schedule", "statuses of queues"):
            self._queue_reporter.report(result, snapshot.queues)
        with self._failures.contained("schedule", "usage of queues"):
            self._usage_writer.report(result.queues, snapshot.queues)
        return bound

    async def _bind(self, decided: Iterable[Bind], still: Still, now: float) -> int:
        """Assume in the Mirror and send the binds that are still correct; return their number.

        A job's binds are sent together, and not later than they are known to be correct: the first
        binds are under way while the last of thousands are assumed, and all before anything is
        reported.
        """
        by_job: defaultdict[JobId, list[Bind]] = defaultdict(list)
        for bind in decided:
            by_job[bind.task.job].append(bind)
        sent = 0
        for job, binds in by_job.items():
            if await self._assume(binds, still, now):
                self._committer.bind(binds, self.take, still)
                sent += len(binds)
            else:
                log.info("job.changed", job=job, binds=len(binds))
                self._pacing.changed()
        await asyncio.sleep(0)
        return sent

    def _evict(self, snapshot: Snapshot, result: CycleResult, now: float) -> None:
        """Pass on the eviction plans, except for jobs with a pod deleted during the cycle."""
        plans = evictor.plans(result, snapshot.budgets)
        gangs = {job.id: job for job in snapshot.jobs} if plans else {}
        claimed = victims = 0
        for plan in plans:
            if not all(self._is_there(pipeline.task.uid) for pipeline in plan.nominations):
                log.info("job.changed", job=plan.beneficiary, evictions=len(plan.evicts))
                self._pacing.changed()
                continue
            claimed += plan.beneficiary is not None
            victims += len(plan.evicts)
            for evict in plan.evicts:
                self._mirror.evicting(evict.task.uid, now)
            self._evictor.carry_out(
                plan,
                lambda evict: self._reporter.evicted(evict, gangs[evict.task.job]),
                self.handle_eviction,
            )
        if victims:
            self._metrics.observe_plans(claimed=claimed, victims=victims)

    def _is_there(self, task: TaskId) -> bool:
        return self._mirror.reference(Kind.POD, task) is not None

    async def _assume(self, binds: Sequence[Bind], still: Still, now: float) -> bool:
        """Assume all of these binds, or none: return False when any cannot be assumed.

        Other tasks run in between; their changes are checked at the end.
        """
        complete = False
        try:
            for bind in binds:
                await self._yielder.give_way()
                if not self._mirror.assume(bind.task.uid, bind.node, now):
                    return False
            complete = all(map(still, binds))
        finally:
            if not complete:
                for bind in binds:
                    self._mirror.forget(bind.task.uid)
        return complete

    def _still_fits(self, layout: NodeLayout, bind: Bind) -> bool:
        """Whether a bind decided on this node layout is still correct."""
        return self._mirror.still_fits(bind.task.uid, layout.specs[layout.rows[bind.node]])


GROUP_SECONDS = 10.0
"""How long a pod waits for its PodGroup before it is told so."""

LENGTH_MAX = 500
"""Longest message in characters: an admission webhook may answer at any length."""
PODS_MAX = 10_000
"""How many pods are known; beyond the limit all are forgotten, until their next attempts."""
LASTING = 3
"""After so many refusals in a row, the pod has no place during its pauses."""


class _Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The refusals of one pod in a row."""

    job: JobId
    last: BindRefusal
    times: int


class RefusedBinds:
    """Binds that the API server refused: what it said, until the pod is bound or gone.

    The refusal of an admission policy, or for want of permission, concerns one pod and may last.
    The pod keeps its place on the node between two attempts, so it looks bound to a cycle. With
    these messages, a cycle knows better, and tells users. After several refusals in a row, the pod
    no longer keeps its place: others that fit must not wait for what may never be allowed.
    """

    def __init__(self) -> None:
        self._found: dict[TaskId, _Refused] = {}

    def take(self, outcome: Outcome) -> bool:
        """Take in the result of a bind; return whether a cycle has to report something new."""
        task = outcome.bind.task
        if outcome.verdict is not BindResult.REFUSED:
            # The watch shows a bound pod; after any other result nothing is known any more.
            self._found.pop(task.uid, None)
            return False
        if len(self._found) >= PODS_MAX:
            self._found.clear()
        message = plain_text.shown(outcome.message[:LENGTH_MAX])[:LENGTH_MAX]
        refusal = BindRefusal(node=outcome.bind.node, message=message)
        before = self._found.get(task.uid)
        times = 1 if before is None else before.times + 1
        self._found[task.uid] = _Refused(job=task.job, last=refusal, times=times)
        return before is None or before.last != refusal

    def lasts(self, task: TaskId) -> bool:
        """Whether the last binds of the pod were refused one after the other."""
        refused = self._found.get(task)
        return refused is not None and refused.times >= LASTING

    @property
    def lasting_jobs(self) -> frozenset[JobId]:
        """The jobs of such pods. To evict pods for these jobs might be in vain."""
        return frozenset(each.job for each in self._found.values() if each.times >= LASTING)

    def current(self, is_there: Callable[[TaskId], bool]) -> dict[JobId, dict[TaskId, BindRefusal]]:
        """Return the refusals of all pods that still exist, by job, and forget the others."""
        self._found = {uid: refused for uid, refused in self._found.items() if is_there(uid)}
        by_job: dict[JobId, dict[TaskId, BindRefusal]] = {}
        for uid, refused in self._found.items():
            by_job.setdefault(refused.job, {})[uid] = refused.last
        return by_job
