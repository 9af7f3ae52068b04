"""Why reclaim takes nothing for a queue below its share: facts about queues that could lose pods.

The answer is a figure of the queue, not part of the reasons of its jobs: it changes with every
other queue, and thousands of jobs would have to be told.
"""

import bisect
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from vscheduler.core.config import policy as policies
from vscheduler.core.model import decisions, jobs, reclaim_outlooks, resources
from vscheduler.core.preemption import search, victims
from vscheduler.core.session import evictable_pods, job_state
from vscheduler.core.session import session as working

NO_ROOM = decisions.ReasonCode.NO_ROOM

RECLAIM = "reclaim"
HOOK = "reclaimable"

PODS_MAX = 500
"""So many pods that could be evicted are looked at in a cycle."""

POD_COST = 8
"""Approximate microseconds for one of them."""


def told(session: working.Session, result: decisions.CycleResult) -> decisions.CycleResult:
    """Return the result with an outlook for each queue below its share with a job that lacks
    room.
    """
    if session.dispatch.evictions_off or not (session.reasons.by_job or session.parking):
        return result
    waiting = _waiting(session, result.groups)
    if not waiting:
        return result
    finder = _Finder(session, {each.name: each for each in result.queues})
    figures = tuple(
        replace(each, reclaim=finder.outlook(each, waiting[each.name]))
        if each.name in waiting
        else each
        for each in result.queues
    )
    spent, work = session.work_budget.spent, dict(session.work)
    return replace(result, queues=figures, spent=spent, work=work)


def _waiting(
    session: working.Session, groups: Sequence[decisions.GroupStatus]
) -> Mapping[str, jobs.JobId]:
    """Return by queue the first job whose status, of all by job, says that it lacks room.

    Only reasons of this cycle and those of parked jobs can say so.
    """
    found = dict(session.parking.now().first_without_room)
    for job, reason in session.reasons.by_job.items():
        if reason.code is not NO_ROOM:
            continue
        queue = session.job_states[job].job.queue
        if job > found.get(queue, job):
            continue
        place = bisect.bisect_left(groups, job, key=operator.attrgetter("job"))
        status = groups[place] if place < len(groups) else None
        told = None if status is None or status.job != job else status.reason
        if told is not None and told.code is NO_ROOM:
            found[queue] = job
    return found


class _Finder:
    """Finds outlooks in one cycle."""

    def __init__(
        self, session: working.Session, figures: Mapping[str, decisions.QueueFigures]
    ) -> None:
        self._session = session
        self._figures = figures
        self._left = PODS_MAX
        self._limits = _limits(session.policy, session.snapshot.now)
        held = session.demands.held
        self._holding = [name for name in sorted(held) if any(held[name]) and name in figures]

    def outlook(
        self, queue: decisions.QueueFigures, job: jobs.JobId
    ) -> reclaim_outlooks.ReclaimOutlook | None:
        """Return why nothing is reclaimed; None if that isn't to be expected, or isn't known."""
        session = self._session
        state = session.job_states[job]
        task = _first_waiting(state.job)
        others = [name for name in self._holding if name != queue.name]
        if queue.entitlement is None or task is None or not others:
            return None
        if session.dispatch.any_says("overused", session.queues[queue.name]):
            return None
        asked = [
            name for name in _asked(task) if _surplus(queue, name) < -reclaim_outlooks.SURPLUS_LEAST
        ]
        if not asked:
            return None
        open_ = [name for name in others if session.queues[name].reclaimable]
        above = [
            name
            for name in open_
            if any(
                _surplus(self._figures[name], each) > reclaim_outlooks.SURPLUS_LEAST
                for each in asked
            )
        ]
        over = {
            each: sum(max(0.0, _surplus(self._figures[name], each)) for name in above)
            for each in asked
        }
        resource = max(asked, key=lambda name: over[name] > reclaim_outlooks.SURPLUS_LEAST)
        made = reclaim_outlooks.ReclaimOutlook(
            resource=resource,
            allocated=queue.allocated.get(resource, 0.0),
            deserved=queue.entitlement.deserved.get(resource, 0.0),
            needed=_lacking(state) * task.pod_class.request.get(resource, 0),
            configured=self._limits is not None,
            others=len(others),
            reclaimable=len(open_),
            above=tuple(above),
            surplus=over[resource],
        )
        if self._limits is None or not above or made.exceeds_share:
            return made
        if (RECLAIM, job) not in session.eviction_history.failed:
            return None  # it had no turn, or makes room now
        return self._with_pods(made, self._limits, state, task)

    def _with_pods(
        self,
        made: reclaim_outlooks.ReclaimOutlook,
        limits: victims.Limits,
        state: job_state.JobState,
        task: jobs.Task,
    ) -> reclaim_outlooks.ReclaimOutlook:
        """Return the outlook with the pods of queues above their shares, by what protects them."""
        limit = search.PROPORTION * _lacking(state) * task.pod_class.request.get(made.resource, 0)
        counted: Counter[reclaim_outlooks.Protection] = Counter()
        for owner, each in self._pods(frozenset(made.above)):
            found = self._protection(limits, owner, each, task)
            if found is None and self._is_kept_whole(limits, owner, each, made.resource, limit):
                found = reclaim_outlooks.Protection.GANG
            counted[found or reclaim_outlooks.Protection.NONE] += 1
        pods = tuple((each, counted[each]) for each in reclaim_outlooks.Protection if counted[each])
        return replace(made, pods=pods)

    def _pods(self, names: frozenset[str]) -> Iterator[tuple[job_state.JobState, jobs.Task]]:
        """Iterate over running pods of these queues, within the limit of the cycle."""
        for job in self._session.cluster.evictable.owner_jobs:
            if job.queue not in names:
                continue
            for task in job.tasks:
                if not self._left:
                    return
                if task.status in jobs.EVICTABLE:
                    self._left -= 1
                    self._session.spend("outlooks", POD_COST)
                    yield self._session.job_states[job.id], task

    def _protection(
        self, limits: victims.Limits, owner: job_state.JobState, pod: jobs.Task, claimant: jobs.Task
    ) -> reclaim_outlooks.Protection | None:
        """Return what protects the pod alone, or None."""
        session = self._session
        if owner.protected or not pod.preemptable:
            return reclaim_outlooks.Protection.ANNOTATION
        if evictable_pods.start(pod) > limits.oldest:
            return reclaim_outlooks.Protection.YOUNG
        if not session.cluster.budgets.spare((pod,)):
            return reclaim_outlooks.Protection.BUDGET
        if not session.dispatch.unprotected(HOOK, claimant, (pod,)):
            return reclaim_outlooks.Protection.PLUGIN
        return None

    def _is_kept_whole(
        self,
        limits: victims.Limits,
        owner: job_state.JobState,
        pod: jobs.Task,
        resource: str,
        limit: float,
    ) -> bool:
        """Whether the pod belongs to a gang's minimum, and the gang mustn't be evicted."""
        if victims.surplus_pod(owner, pod) is not None:
            return False
        if limits.whole_gangs is victims.WholeGangs.ALWAYS:
            return False
        if limits.whole_gangs is victims.WholeGangs.NEVER:
            return True
        return owner.job.allocated.get(resource, 0) > limit


def _limits(policy: policies.Policy, now: float) -> victims.Limits | None:
    """Return the limits of action reclaim; None if it isn't configured."""
    for each in policy.actions:
        if each.action.name == RECLAIM:
            return victims.Limits.of(each.action(each.arguments), now)
    return None


def _lacking(state: job_state.JobState) -> int:
    return max(1, state.job.min_member - state.ready_tasks)


def _first_waiting(job: jobs.Job) -> jobs.Task | None:
    waiting = (task for task in job.tasks if task.status in jobs.WAITING and not task.best_effort)
    return next(waiting, None)


def _asked(task: jobs.Task) -> Iterable[str]:
    """Return the requested resources, cpu and memory first."""
    names = resources.ResourceSpace.of(task.pod_class.request).names
    return [name for name in names if name != resources.PODS and task.pod_class.request.get(name)]


def _surplus(queue: decisions.QueueFigures, resource: str) -> float:
    """Return how much more of a resource the queue has than it deserves; negative if less."""
    if queue.entitlement is None:
        return 0.0
    return queue.allocated.get(resource, 0.0) - queue.entitlement.deserved.get(resource, 0.0)
