"""Wait, take a snapshot, decide in a thread, hand the decisions on; and again."""

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from vscheduler import backoff, containment
from vscheduler.cluster.writes import (
    binder,
    cooperative,
    evictor,
    queue_status_writer,
    status_writer,
)
from vscheduler.core import cycle
from vscheduler.core.config import policy
from vscheduler.core.model import decisions, jobs, nodes, snapshot
from vscheduler.daemon import cycle_thread, pacing
from vscheduler.daemon.liveness import progress
from vscheduler.daemon.observability import cycle_log, metrics
from vscheduler.mirror import state
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import entries

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Who is handed what a cycle decided and found out."""

    committer: binder.Binder
    evictor: evictor.Evictor
    reporter: status_writer.StatusWriter
    queue_reporter: queue_status_writer.QueueStatusWriter
    usage_writer: queue_status_writer.UsageWriter
    cycles: progress.Cycles = field(default_factory=progress.Cycles)
    """Notes which cycles run, for who watches from another thread."""
    failures: containment.Failures = field(default_factory=containment.Failures)
    """Who is told of work that fails unexpectedly."""


class SchedulingLoop:
    """The heart of the daemon; everything but the cycle itself runs in the event loop.

    It lives for one tenure. Whatever it decides while it may not commit is thrown away.
    """

    def __init__(
        self,
        mirror: state.Mirror,
        configured: policy.Policy,
        outlets: Outlets,
        observed: metrics.Metrics,
        *,
        may_commit: Callable[[], bool],
        pace: pacing.Pace,
    ) -> None:
        self._running = outlets.cycles
        self._failures = outlets.failures
        self._mirror = mirror
        self._policy = configured
        self._may_commit = may_commit
        self._committer = outlets.committer
        self._evictor = outlets.evictor
        self._reporter = outlets.reporter
        self._queue_reporter = outlets.queue_reporter
        self._usage_writer = outlets.usage_writer
        self._metrics = observed
        self._pace = pace
        self._turns = cooperative.CooperativeYield()
        self._pacing = pacing.Pacing(pace, mirror.more_to_come)
        self._carried = snapshot.FRESH
        self._dropped = 0
        self._cycles = 0
        self._teller = cycle_log.CycleLog()
        self._rejected: set[events.DecodeError] = set()
        self._ungrouped = 0
        self._unbound: backoff.Backoff[jobs.TaskId] = backoff.Backoff(pace.growth(free=1))
        self._denied: backoff.Backoff[jobs.JobId] = backoff.Backoff(pace.growth(free=1))
        self._spared: backoff.Backoff[jobs.TaskId] = backoff.Backoff(pace.growth())

    @property
    def cycles(self) -> int:
        """Cycles since the start, those that were dropped left out."""
        return self._cycles

    def changed(self, change: entries.Change, news: Collection[str]) -> None:
        """The Mirror changed in a way that can change a decision; news as pacing has them."""
        self._pacing.changed(change, news)

    def adopt(self, configured: policy.Policy) -> None:
        """From the next cycle on, decide by this policy."""
        self._policy = configured
        self._pacing.changed()

    async def run(self) -> None:
        """Cycle after cycle, for ever; the first at once."""
        self._pacing.changed()
        self._running.dropped(0)
        thread = cycle_thread.CycleThread(self._running)
        thread.start()
        try:
            while True:
                await self._wait()
                try:
                    await self._cycle(thread)
                except cycle_thread.FailedError as failed:
                    self._drop(failed.error)
                except Exception as error:  # noqa: BLE001 - a defect, like that of a cycle itself
                    self._failures.failed("schedule", "what is around a cycle", error)
                    self._drop(error)
                else:
                    self._dropped = 0
                    self._running.dropped(0)
        finally:
            thread.stop()
            self._running.dropped(0)

    async def keep_time(self) -> None:
        """For ever: end pauses, and assumptions that were never confirmed; tell of objects that
        are left out.
        """
        while True:
            with self._failures.contained("schedule", "pauses"):
                self._release()
            with self._failures.contained("schedule", "objects that are left out"):
                self._tell_of_strays()
            with self._failures.contained("schedule", "what was never confirmed"):
                if expired := self._mirror.expire(time.time()):
                    log.warning("call.unconfirmed", pods=len(expired))
                    self._pacing.changed()
            await asyncio.sleep(self._pace.tick_seconds)

    def _tell_of_strays(self) -> None:
        """Log each object that can't be used once, and pods that nobody will place."""
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
        ungrouped = sum(1 for _ in self._mirror.ungrouped())
        if ungrouped != self._ungrouped:
            self._ungrouped = ungrouped
            log.info("pods.ungrouped", pods=ungrouped)
        self._metrics.observe_strays(rejected=len(rejected), ungrouped=ungrouped)

    def take(self, outcome: binder.Outcome) -> None:
        """Note what came of a bind.

        The room of a pod that couldn't be bound is kept for it for a while, longer after each
        failure in a row, so that a pod that is always refused doesn't busy the API server. After
        UNKNOWN it is kept until the watch says, or the assumption expires; after OVERTAKEN, which
        cost nothing, another node is looked for at once.
        """
        task, verdict = outcome.bind.task, outcome.verdict
        bound = verdict is binder.BindResult.BOUND
        age = max(0.0, time.time() - task.created)
        self._metrics.observe_bind(verdict, bound=bound, seconds=age)
        if bound:
            self._unbound.succeeded(task.uid)
            self._reporter.bound(outcome.bind)
            return
        log.info(
            "bind.failed",
            pod=task.key,
            node=outcome.bind.node,
            outcome=verdict.value,
            message=outcome.message,
        )
        if verdict is binder.BindResult.UNKNOWN:
            return
        if verdict is binder.BindResult.OVERTAKEN:
            self._mirror.forget(task.uid)
            self._pacing.changed()
            return
        self._unbound.failed(task.uid, time.monotonic())
        self._release()

    def settle(self, outcome: evictor.Outcome) -> None:
        """Note what came of a plan of evictions.

        The job of one that was refused plans anew, without the pod that may not go, at once the
        first time and then later and later; the next cycle sees that what was promised to it
        isn't being freed. Others aren't held up by it.
        """
        plan, obstacle = outcome.plan, outcome.obstacle
        for step in outcome.steps:
            self._metrics.observe_eviction(step.verdict)
            if step.verdict not in (evictor.EvictionResult.EVICTED, evictor.EvictionResult.UNKNOWN):
                self._mirror.forget_eviction(step.evict.task.uid)
        if outcome.evicted:
            self._reporter.lost(outcome.evicted)
        if obstacle is None:
            self._metrics.observe_plan(plan.action)
            self._reporter.nominate(plan.claims)
            if plan.beneficiary is not None:
                self._denied.succeeded(plan.beneficiary)
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
        self._spared.failed(obstacle.evict.task.uid, time.monotonic())
        if plan.beneficiary is not None:
            self._denied.failed(plan.beneficiary, time.monotonic())
        self._release()
        self._pacing.changed()

    def _release(self) -> None:
        """End the pauses that are over, and give back the room of pods that couldn't be bound."""
        now = time.monotonic()
        unbound = self._unbound.ended(now)
        for uid in unbound:
            self._mirror.forget(uid)
        # No shortcut: each must be asked.
        if any([unbound, self._denied.ended(now), self._spared.ended(now)]):
            self._pacing.changed()

    async def _wait(self) -> None:
        """Until a cycle is due, and can be carried out."""
        await self._pacing.wait()
        await self._committer.wait_for_room(self._pace.backlog_max)
        # Until the Lease was renewed, or the tenure ends.
        while not self._may_commit():  # noqa: ASYNC110 - the thread of the Leases tells nobody
            await asyncio.sleep(self._pace.doubt_seconds)
        self._pacing.begin()

    async def _cycle(self, thread: cycle_thread.CycleThread) -> None:
        """One cycle. Raises what fails around it, and cycle_thread.FailedError."""
        started, began = time.monotonic(), time.thread_time()
        carried = replace(
            self._carried,
            eviction_refused_pods=self._spared.pausing,
            eviction_refused_jobs=self._denied.pausing,
        )
        taken = self._mirror.snapshot(time.time(), carried)
        self._teller.tell_of_refusals(taken.refused)
        opened, worked = time.monotonic(), time.thread_time() - began
        run = partial(cycle.run_cycle, taken, self._policy, self._pace.budget)
        with cycle_thread.noting_loop_lag(self._metrics.observe_lag):
            result = await thread.run(run)
        if not self._may_commit():
            log.info("cycle.withheld", binds=len(result.binds), evictions=len(result.evicts))
            self._pacing.changed()
            return
        decided, began = time.monotonic(), time.thread_time()
        bound = await self._obey(taken, result)
        handed_on = time.monotonic()
        worked += thread.worked_seconds + time.thread_time() - began
        parts = {
            "snapshot": opened - started,
            "decide": decided - opened,
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
        self._teller.tell(result, cycle=self._cycles, bound=bound, parts=parts)

    def _drop(self, error: BaseException) -> None:
        """A mistake of ours drops a cycle whole, and the next one waits longer; the process lives
        on.
        """
        self._dropped += 1
        self._running.dropped(self._dropped)
        pause = self._pace.growth().after(self._dropped)
        self._metrics.observe_dropped_cycle()
        log.error("cycle.dropped", retry_in_seconds=pause, exc_info=error)
        self._pacing.fail(pause)

    async def _obey(self, taken: snapshot.Snapshot, result: decisions.CycleResult) -> int:
        """Hand on what was decided; gives the number of binds.

        Where a pod or node of a job's binds changed while the cycle ran, or others came onto the
        node, none of that job's binds is sent: a gang starts whole or not at all, and the next
        cycle decides anew. A bind to a node that is gone or full would be taken by the API server.
        """
        now = time.time()
        still = partial(self._still_fits, taken.nodes.layout)
        right = await self._right(result.binds, still, now)
        self._committer.bind(right, self.take, still)
        self._carried = result.carried
        with self._failures.contained("schedule", "evictions"):
            self._evict(taken, result, now)
        with self._failures.contained("schedule", "statuses of jobs"):
            self._reporter.report(result, {job.id: job for job in taken.jobs}, str(uuid.uuid4()))
        with self._failures.contained("schedule", "statuses of queues"):
            self._queue_reporter.report(result, taken.queues)
        with self._failures.contained("schedule", "usage of queues"):
            self._usage_writer.report(result.queues, taken.queues)
        return len(right)

    async def _right(
        self, decided: Iterable[decisions.Bind], still: binder.Still, now: float
    ) -> list[decisions.Bind]:
        """Those that are right still, job by job; they count as being bound by now."""
        by_job: defaultdict[jobs.JobId, list[decisions.Bind]] = defaultdict(list)
        for bind in decided:
            by_job[bind.task.job].append(bind)
        right: list[decisions.Bind] = []
        try:
            for job, binds in by_job.items():
                if await self._assume(binds, still, now):
                    right += binds
                else:
                    log.info("job.changed", job=job, binds=len(binds))
                    self._pacing.changed()
        except asyncio.CancelledError:  # nobody will send them
            for bind in right:
                self._mirror.forget(bind.task.uid)
            raise
        return right

    def _evict(self, taken: snapshot.Snapshot, result: decisions.CycleResult, now: float) -> None:
        """Hand on the evictions, but for jobs of which a pod went while the cycle ran."""
        plans = evictor.plans(result, taken.budgets)
        gangs = {job.id: job for job in taken.jobs} if plans else {}
        claimed = victims = 0
        for plan in plans:
            if not all(self._is_there(claim.task) for claim in plan.claims):
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
                self.settle,
            )
        if victims:
            self._metrics.observe_plans(claimed=claimed, victims=victims)

    def _is_there(self, task: jobs.Task) -> bool:
        return self._mirror.reference(events.Kind.POD, task.uid) is not None

    async def _assume(
        self, binds: Sequence[decisions.Bind], still: binder.Still, now: float
    ) -> bool:
        """Count all of these as being bound; False, and none counts, where one can't be. Others
        have their turn in between: what they change is seen in the end.
        """
        complete = False
        try:
            for bind in binds:
                await self._turns.give_way()
                if not self._mirror.assume(bind.task.uid, bind.node, now):
                    return False
            complete = all(map(still, binds))
        finally:
            if not complete:
                for bind in binds:
                    self._mirror.forget(bind.task.uid)
        return complete

    def _still_fits(self, layout: nodes.NodeLayout, bind: decisions.Bind) -> bool:
        """Whether a bind that was decided on these nodes is still right."""
        return self._mirror.still_fits(bind.task.uid, layout.specs[layout.rows[bind.node]])
