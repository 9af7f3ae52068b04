"""Evictions → calls: all that make room for one job are one plan, rehearsed whole and then done.

The Eviction API is asked, so that PodDisruptionBudgets and admission hold. A plan of which it would
refuse a part isn't begun: nobody loses a pod for a job that can't start. Each eviction carries the
pod's UID, so that a pod of the same name that was made since doesn't go in its place.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import msgspec

from vscheduler.cluster.http import connection, send_guard
from vscheduler.cluster.writes import retries, write_queue
from vscheduler.core.model import decisions, jobs, snapshot
from vscheduler.mirror import paths


class EvictionResult(StrEnum):
    """What came of an eviction; the values are for metrics."""

    EVICTED = "evicted"
    GONE = "gone"
    """The pod has gone by itself."""
    PROTECTED = "protected"
    """A PodDisruptionBudget forbids it."""
    REFUSED = "refused"
    """Admission or RBAC refuses it: 403, 422 and the like."""
    THROTTLED = "throttled"
    """The API server was too busy, several times over."""
    FAILED = "failed"
    """An error, such as 500 for a pod under two budgets; the pod is there as before."""
    UNKNOWN = "unknown"
    """No answer, and the pod couldn't be read afterwards: it may be going."""
    WITHHELD = "withheld"
    """Not sent: we may not commit any more."""
    SPARED = "spared"
    """Not sent: another eviction of the plan was refused."""


FREED = frozenset({EvictionResult.EVICTED, EvictionResult.GONE})
"""Verdicts after which the pod's room is free, or is being freed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Evictions that are worth making together only."""

    evicts: tuple[decisions.Evict, ...]
    """In the order in which they are sent; all of one action and one beneficiary."""
    claims: tuple[decisions.Pipeline, ...] = ()
    """The waiting pods that the room is made for."""

    @property
    def action(self) -> str:
        """The action that decided it."""
        return self.evicts[0].action

    @property
    def beneficiary(self) -> jobs.JobId | None:
        """The job that it makes room for, if any."""
        return self.evicts[0].beneficiary


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What came of one eviction."""

    evict: decisions.Evict
    verdict: EvictionResult
    message: str = ""
    """The server's, where it refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a plan: a step for each of its evictions."""

    plan: Plan
    steps: tuple[Step, ...]

    @property
    def obstacle(self) -> Step | None:
        """The step at which the plan stopped; None where all of it was done."""
        stopped = (
            step for step in self.steps if step.verdict not in FREED | {EvictionResult.SPARED}
        )
        return next(stopped, None)

    @property
    def evicted(self) -> tuple[decisions.Evict, ...]:
        """Those that were really done."""
        return tuple(step.evict for step in self.steps if step.verdict is EvictionResult.EVICTED)


Report = Callable[[Outcome], None]
Tell = Callable[[decisions.Evict], None]


def plans(result: decisions.CycleResult, budgets: Sequence[snapshot.Budget]) -> list[Plan]:
    """What a cycle wants evicted, by beneficiary and action; pods under a budget go first.

    Without a beneficiary a whole gang is one plan, and any other pod is a plan of its own.
    """
    kept = result.carried.nominations
    claims: defaultdict[jobs.JobId, list[decisions.Pipeline]] = defaultdict(list)
    for pipeline in result.pipelined:
        if pipeline.task.uid in kept:
            claims[pipeline.task.job].append(pipeline)
    parts: defaultdict[Hashable, list[decisions.Evict]] = defaultdict(list)
    for evict in result.evicts:
        parts[_plan_of(evict)].append(evict)
    return [
        Plan(
            evicts=tuple(sorted(evicts, key=lambda evict: not _is_covered(evict, budgets))),
            claims=tuple(claims.get(evicts[0].beneficiary or jobs.JobId(""), ())),
        )
        for evicts in parts.values()
    ]


def _plan_of(evict: decisions.Evict) -> Hashable:
    if evict.beneficiary is not None:
        return (evict.action, evict.beneficiary)
    return (evict.action, None, evict.task.job if evict.whole else evict.task.uid)


def _is_covered(evict: decisions.Evict, budgets: Iterable[snapshot.Budget]) -> bool:
    return any(budget.covers(evict.task) for budget in budgets)


class Evictor:
    """Carries plans out."""

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.WriteQueue,
        may_commit: Callable[[], bool],
    ) -> None:
        self._link = link
        self._lanes = queue
        self._may_commit = may_commit

    def carry_out(self, plan: Plan, tell: Tell, report: Report) -> None:
        """Do this after the binds that wait; tell of each eviction at once, of the plan at its end.

        Whether we may commit is asked just before each call, and when it is written to its
        connection. Nothing else fences evictions: docs/fencing.md.
        """
        self._lanes.put(
            write_queue.WritePriority.EVICTION, partial(self._carry_out, plan, tell, report)
        )

    async def _carry_out(self, plan: Plan, tell: Tell, report: Report) -> None:
        steps = await self._take(plan, None)
        if all(step.verdict in FREED for step in steps):
            steps = await self._take(plan, tell)
        else:
            steps = [_unsent(step) for step in steps]
        report(Outcome(plan=plan, steps=tuple(steps)))

    async def _take(self, plan: Plan, tell: Tell | None) -> list[Step]:
        """Each eviction in turn, up to the first that is refused; a rehearsal tells nobody."""
        steps: list[Step] = []
        for evict in plan.evicts:
            if steps and steps[-1].verdict not in FREED:
                steps.append(Step(evict=evict, verdict=EvictionResult.SPARED))
                continue
            step = Step(
                evict=evict, verdict=EvictionResult.UNKNOWN, message="the scheduler failed at it"
            )
            with self._lanes.failures.contained("eviction", evict.task.key):
                step = await self._evict(evict, rehearsal=tell is None)
            steps.append(step)
            self._lanes.went_on()
            if tell is not None and steps[-1].verdict is EvictionResult.EVICTED:
                tell(evict)
        return steps

    async def _evict(self, evict: decisions.Evict, *, rehearsal: bool) -> Step:
        body = eviction_body(evict, rehearsal=rehearsal)
        try:
            await retries.post(self._link, eviction_path(evict), body, self._may_commit)
        except send_guard.NotSentError:
            return Step(evict=evict, verdict=EvictionResult.WITHHELD)
        except connection.Unavailable as error:
            if rehearsal:
                return Step(evict=evict, verdict=EvictionResult.FAILED, message=str(error))
            return await self._look_after(evict, str(error))
        except connection.Conflict as error:  # another pod of this name, or a race with somebody
            return await self._look_after(evict, str(error))
        except connection.ApiError as error:
            return Step(evict=evict, verdict=_verdict(error), message=str(error))
        return Step(evict=evict, verdict=EvictionResult.EVICTED)

    async def _look_after(self, evict: decisions.Evict, message: str) -> Step:
        """What became of a pod after an answer that doesn't say."""
        task = evict.task
        path = paths.PODS.at(task.name, task.namespace)
        verdict = EvictionResult.FAILED
        try:
            pod = await retries.get(self._link, path)
        except connection.NotFound:
            verdict = EvictionResult.GONE
        except connection.ApiError:
            verdict = EvictionResult.UNKNOWN
        else:
            metadata = pod["metadata"]
            if metadata["uid"] != task.uid:
                verdict = EvictionResult.GONE
            elif metadata.get("deletionTimestamp"):
                verdict = EvictionResult.EVICTED
        return Step(evict=evict, verdict=verdict, message=message)


def eviction_path(evict: decisions.Evict) -> paths.Path:
    """Where a pod's eviction is asked for."""
    return paths.PODS.part(evict.task.name, evict.task.namespace, "eviction")


def eviction_body(evict: decisions.Evict, *, rehearsal: bool) -> bytes:
    """The policy/v1 Eviction; a rehearsal goes through admission and budgets, and changes nothing.

    The pod's own grace period holds.
    """
    task = evict.task
    options: dict[str, object] = {"preconditions": {"uid": task.uid}}
    if rehearsal:
        options["dryRun"] = ["All"]
    return msgspec.json.encode(
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": task.name, "namespace": task.namespace},
            "deleteOptions": options,
        }
    )


def _unsent(step: Step) -> Step:
    """A step of a rehearsal that went wrong: what went well there wasn't done."""
    return Step(evict=step.evict, verdict=EvictionResult.SPARED) if step.verdict in FREED else step


def _verdict(error: connection.ApiError) -> EvictionResult:
    match error:
        case connection.NotFound() | connection.Gone():
            return EvictionResult.GONE
        case connection.Protected():
            return EvictionResult.PROTECTED
        case connection.Throttled():
            return EvictionResult.THROTTLED
        case _:
            return EvictionResult.REFUSED
