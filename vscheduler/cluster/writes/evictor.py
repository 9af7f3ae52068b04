"""Evictor: carries out eviction plans.

All evictions for one job form a plan: dry run first, then the real run; one eviction alone needs no
dry run. The Eviction API enforces PodDisruptionBudgets and admission. When the API server would
refuse any part of a plan, nothing of the plan is done, so no pod is lost for a job that cannot
start. Each eviction carries the pod's UID, so that a newer pod of the same name is not evicted
instead.

Pods go one by one until one is refused. In long plans, several that no budget protects go at the
same time: one by one, 2,000 pods take longer than evictions may go unconfirmed.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial

import msgspec

from vscheduler.cluster.http.connection import (
    ApiError,
    Conflict,
    Connection,
    Gone,
    NotFound,
    Protected,
    Throttled,
    Unavailable,
)
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes import retries
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path
from vscheduler.model.decisions import OVERDUE, CycleResult, Evict, Pipeline
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import Budget

AT_ONCE_MAX = 16
"""Evictions under way at the same time, of one plan."""
AT_ONCE_PART = 8
"""And at most one in so many of the plan: in a short one, a refusal comes before most are sent."""


class EvictionResult(StrEnum):
    """Result of an eviction. The values are metric labels."""

    EVICTED = "evicted"
    GONE = "gone"
    """The pod ended without an eviction."""
    PROTECTED = "protected"
    """A PodDisruptionBudget forbids it."""
    REFUSED = "refused"
    """Refused by admission or RBAC: 403, 422 and similar."""
    THROTTLED = "throttled"
    """The API server was too busy, in several attempts."""
    FAILED = "failed"
    """An error, such as 500 for a pod under two budgets. The pod is unchanged."""
    UNKNOWN = "unknown"
    """No answer, and the pod could not be read afterwards. The pod may be terminating."""
    WITHHELD = "withheld"
    """Not sent: this instance may no longer write."""
    SPARED = "spared"
    """Not sent: another eviction of the plan was refused."""


FREED = frozenset({EvictionResult.EVICTED, EvictionResult.GONE})
"""Results after which the pod's resources are free, or are being freed."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Evictions that make sense only together."""

    evicts: tuple[Evict, ...]
    """In sending order. All have the same action and beneficiary."""
    covered: int = 0
    """How many of them, the first ones, are of pods under a budget."""
    nominations: tuple[Pipeline, ...] = ()
    """The waiting pods that need the freed resources."""

    @property
    def action(self) -> str:
        """The action that decided the plan."""
        return self.evicts[0].action

    @property
    def beneficiary(self) -> JobId | None:
        """The job that gets the freed resources, if any."""
        return self.evicts[0].beneficiary


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one eviction."""

    evict: Evict
    verdict: EvictionResult
    message: str = ""
    """The API server's message, if the eviction was refused."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a plan, with a step for each eviction."""

    plan: Plan
    steps: tuple[Step, ...]

    @property
    def obstacle(self) -> Step | None:
        """The step at which the plan stopped, or None when the whole plan was done."""
        stopped = (
            step for step in self.steps if step.verdict not in FREED | {EvictionResult.SPARED}
        )
        return next(stopped, None)

    @property
    def evicted(self) -> tuple[Evict, ...]:
        """The evictions that were really carried out."""
        return tuple(step.evict for step in self.steps if step.verdict is EvictionResult.EVICTED)


Report = Callable[[Outcome], None]
OnEvicted = Callable[[Evict], None]


def plans(result: CycleResult, budgets: Sequence[Budget]) -> list[Plan]:
    """Group a cycle's evictions into plans by beneficiary and action.

    Pods under a budget come first in a plan. Without a beneficiary, a gang evicted as a whole is
    one plan, and any other pod is a plan of its own.
    """
    kept = result.carried.nominations
    nominations: defaultdict[JobId, list[Pipeline]] = defaultdict(list)
    for pipeline in result.pipelined:
        if pipeline.task.uid in kept:
            nominations[pipeline.task.job].append(pipeline)
    parts: defaultdict[Hashable, list[Evict]] = defaultdict(list)
    for evict in result.evicts:
        parts[_plan_of(evict)].append(evict)
    found = []
    for evicts in parts.values():
        protected = {evict.task.uid for evict in evicts if _is_covered(evict, budgets)}
        plan = Plan(
            evicts=tuple(sorted(evicts, key=lambda evict: evict.task.uid not in protected)),
            covered=len(protected),
            nominations=tuple(nominations.get(evicts[0].beneficiary or JobId(""), ())),
        )
        found.append(plan)
    return found


def _batches(plan: Plan) -> Iterator[range]:
    """Yield evictions that are sent at the same time: one of a pod under a budget, or several."""
    for number in range(plan.covered):
        yield range(number, number + 1)
    count = len(plan.evicts)
    size = max(1, min(AT_ONCE_MAX, count // AT_ONCE_PART))
    for first in range(plan.covered, count, size):
        yield range(first, min(first + size, count))


def _plan_of(evict: Evict) -> Hashable:
    if evict.beneficiary is not None:
        return (evict.action, evict.beneficiary)
    return (evict.action, None, evict.task.job if evict.whole else evict.task.uid)


def _is_covered(evict: Evict, budgets: Iterable[Budget]) -> bool:
    return any(budget.covers(evict.task) for budget in budgets)


class _Round:
    """The evictions of a plan once, as a dry run or for real, each a call of its own in the queue.

    The next batch is queued by the last call of the batch before, so that the queue is never quiet
    in between.
    """

    def __init__(
        self,
        plan: Plan,
        step: Callable[[Evict], Awaitable[Step]],
        queue: WriteQueue,
        end: Callable[[Sequence[Step]], None],
    ) -> None:
        """`end` is called with a step for each eviction."""
        self._step = step
        self._queue = queue
        self._end = end
        self._batches = _batches(plan)
        self._steps = [Step(evict=evict, verdict=EvictionResult.SPARED) for evict in plan.evicts]
        self._left = 0
        """Calls of the current batch that haven't ended."""
        self._refused = False

    def begin(self) -> None:
        """Queue the first batch."""
        self._put(next(self._batches), ahead=False)

    def go_on(self) -> None:
        """Queue the next batch, unless an eviction was refused or none is left.

        It goes ahead of plans that haven't begun: if all took as long as the last one, their
        evictions would expire unconfirmed.
        """
        batch = range(0) if self._refused else next(self._batches, range(0))
        if batch:
            self._put(batch, ahead=True)
        else:
            self._end(self._steps)

    def _put(self, batch: range, *, ahead: bool) -> None:
        self._left = len(batch)
        for number in batch:
            self._queue.put(WritePriority.EVICTION, partial(self._call, number), ahead=ahead)

    async def _call(self, number: int) -> None:
        step = await self._step(self._steps[number].evict)
        self._steps[number] = step
        self._refused |= step.verdict not in FREED
        self._left -= 1
        if not self._left:
            self.go_on()


class Evictor:
    """Carries out eviction plans."""

    def __init__(
        self,
        connection: Connection,
        queue: WriteQueue,
        may_commit: Callable[[], bool],
    ) -> None:
        self._link = connection
        self._queue = queue
        self._may_commit = may_commit

    def carry_out(self, plan: Plan, on_evicted: OnEvicted, report: Report) -> None:
        """Queue a plan behind the waiting binds.

        `on_evicted` is called after each eviction, `report` at the end of the plan. `may_commit` is
        asked right before each call, and again when the request is written to the connection.
        Evictions have no other fencing: docs/fencing.md.
        """

        def end(steps: Sequence[Step]) -> None:
            report(Outcome(plan=plan, steps=tuple(steps)))

        def end_dry_run(steps: Sequence[Step]) -> None:
            if all(step.verdict in FREED for step in steps):
                real.go_on()
            else:
                end([_unsent(step) for step in steps])

        real = _Round(plan, partial(self._step, on_evicted), self._queue, end)
        if len(plan.evicts) == 1:
            real.begin()
        else:
            _Round(plan, partial(self._step, None), self._queue, end_dry_run).begin()

    async def _step(self, on_evicted: OnEvicted | None, evict: Evict) -> Step:
        """Evict one pod, and tell of it. Without `on_evicted`, this is a dry run."""
        step = Step(
            evict=evict, verdict=EvictionResult.UNKNOWN, message="the scheduler failed at it"
        )
        with self._queue.failures.contained("eviction", evict.task.key):
            step = await self._evict(evict, rehearsal=on_evicted is None)
        if on_evicted is not None and step.verdict is EvictionResult.EVICTED:
            on_evicted(evict)
        return step

    async def _evict(self, evict: Evict, *, rehearsal: bool) -> Step:
        try:
            await self._send(evict, rehearsal=rehearsal)
        except NotSentError:
            return Step(evict=evict, verdict=EvictionResult.WITHHELD)
        except Unavailable as error:
            if rehearsal:
                return Step(evict=evict, verdict=EvictionResult.FAILED, message=str(error))
            return await self._look_after(evict, str(error))
        except Conflict as error:  # a newer pod of this name, or a concurrent change
            return await self._look_after(evict, str(error))
        except ApiError as error:
            return Step(evict=evict, verdict=_verdict(error), message=str(error))
        return Step(evict=evict, verdict=EvictionResult.EVICTED)

    async def _send(self, evict: Evict, *, rehearsal: bool) -> None:
        """Evict the pod; delete it if its time is up, since no budget may let it run on."""
        if evict.action == OVERDUE:
            path = paths.PODS.at(evict.task.name, evict.task.namespace)
            body = msgspec.json.encode(_options(evict, rehearsal=rehearsal))
            await retries.delete(self._link, path, body, self._may_commit)
        else:
            body = eviction_body(evict, rehearsal=rehearsal)
            await retries.post(self._link, eviction_path(evict), body, self._may_commit)

    async def _look_after(self, evict: Evict, message: str) -> Step:
        """Find out the result of an eviction without a clear answer by reading the pod."""
        task = evict.task
        path = paths.PODS.at(task.name, task.namespace)
        verdict = EvictionResult.FAILED
        try:
            pod = await retries.get(self._link, path)
        except NotFound:
            verdict = EvictionResult.GONE
        except ApiError:
            verdict = EvictionResult.UNKNOWN
        else:
            metadata = pod["metadata"]
            if metadata["uid"] != task.uid:
                verdict = EvictionResult.GONE
            elif metadata.get("deletionTimestamp"):
                verdict = EvictionResult.EVICTED
        return Step(evict=evict, verdict=verdict, message=message)


def eviction_path(evict: Evict) -> Path:
    """Return the path of a pod's eviction subresource."""
    return paths.PODS.part(evict.task.name, evict.task.namespace, "eviction")


def eviction_body(evict: Evict, *, rehearsal: bool) -> bytes:
    """Return the policy/v1 Eviction.

    A rehearsal is a dry run: admission and budgets are checked, nothing changes. The pod's own
    grace period applies.
    """
    task = evict.task
    return msgspec.json.encode(
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": task.name, "namespace": task.namespace},
            "deleteOptions": _options(evict, rehearsal=rehearsal),
        }
    )


def _options(evict: Evict, *, rehearsal: bool) -> dict[str, object]:
    """Return the v1 DeleteOptions of this pod, and of no newer one of its name."""
    options: dict[str, object] = {"preconditions": {"uid": evict.task.uid}}
    if rehearsal:
        options["dryRun"] = ["All"]
    return options


def _unsent(step: Step) -> Step:
    """Return the final step for a step of a failed dry run.

    Evictions that would have succeeded were not sent.
    """
    return Step(evict=step.evict, verdict=EvictionResult.SPARED) if step.verdict in FREED else step


def _verdict(error: ApiError) -> EvictionResult:
    match error:
        case NotFound() | Gone():
            return EvictionResult.GONE
        case Protected():
            return EvictionResult.PROTECTED
        case Throttled():
            return EvictionResult.THROTTLED
        case _:
            return EvictionResult.REFUSED
