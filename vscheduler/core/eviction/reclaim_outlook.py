"""Why reclaim takes nothing for a queue below its share: facts about queues that could lose pods.

The answer is a figure of the queue, not part of the reasons of its jobs: it changes with every
other queue, and thousands of jobs would have to be told.
"""

import bisect
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.config.policy import Policy
from vscheduler.core.eviction import preemptors, rules
from vscheduler.core.eviction.rules import Limits, WholeGangs
from vscheduler.core.session import reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.model import reclaim_outlooks, resources
from vscheduler.model.decisions import (
    CycleResult,
    GroupStatus,
    QueueFigures,
    ReasonCode,
)
from vscheduler.model.jobs import EVICTABLE, WAITING, Job, JobId, Task
from vscheduler.model.reclaim_outlooks import Protection, ReclaimOutlook
from vscheduler.model.resources import ResourceMap, ResourceSpace, Vector

NO_ROOM = ReasonCode.NO_ROOM

RECLAIM = "reclaim"
HOOK = AllHooks.reclaimable

PODS_MAX = 500
"""So many pods that could be evicted are looked at in a cycle."""

POD_COST = 8
"""Approximate microseconds for one of them."""


def told(session: Session, result: CycleResult) -> CycleResult:
    """Return the result with an outlook for each queue below its share with a job that lacks
    room.
    """
    if session.dispatch.evictions_off or not (session.reasons.by_job or session.unschedulable):
        return result
    waiting = _waiting(session, result.changeable)
    if not waiting:
        return result
    finder = _Finder(session, {queue.name: queue for queue in result.queues})
    figures = tuple(
        replace(queue, reclaim=finder.outlook(queue, waiting[queue.name]))
        if queue.name in waiting
        else queue
        for queue in result.queues
    )
    spent, work = session.work_budget.spent, dict(session.work)
    return replace(result, queues=figures, spent=spent, work=work)


def _waiting(session: Session, groups: Sequence[GroupStatus]) -> Mapping[str, JobId]:
    """Return by queue the first job whose status, of these by job, says that it lacks room.

    Only reasons of this cycle and those of unschedulable jobs can say so.
    """
    found = dict(session.unschedulable.now().first_without_room)
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

    def __init__(self, session: Session, figures: Mapping[str, QueueFigures]) -> None:
        self._session = session
        self._figures = figures
        self._left = PODS_MAX
        self._limits = _limits(session.policy, session.snapshot.now)
        held = session.demands.held
        self._holding = [name for name in sorted(held) if any(held[name]) and name in figures]

    def outlook(self, queue: QueueFigures, job: JobId) -> ReclaimOutlook | None:
        """Return why nothing is reclaimed; None if that isn't to be expected, or isn't known."""
        session = self._session
        state = session.job_states[job]
        task = next(iter(_waiting_tasks(state.job)), None)
        others = [name for name in self._holding if name != queue.name]
        if queue.entitlement is None or task is None or not others:
            return None
        if session.dispatch.any_says(AllHooks.overused, session.queues[queue.name]):
            return None
        asked = [
            name for name in _asked(task) if _surplus(queue, name) < -reclaim_outlooks.SURPLUS_LEAST
        ]
        if not asked:
            return None
        needed = _needed(session, state, task)
        beyond = self._beyond_share(queue, state, needed)
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
        resource = beyond or max(
            asked, key=lambda name: over[name] > reclaim_outlooks.SURPLUS_LEAST
        )
        made = ReclaimOutlook(
            resource=resource,
            allocated=queue.allocated.get(resource, 0.0),
            deserved=queue.entitlement.deserved.get(resource, 0.0),
            needed=needed[resource],
            configured=self._limits is not None,
            others=len(others),
            reclaimable=len(open_),
            above=tuple(above),
            surplus=over.get(resource, 0.0),
        )
        due = preemptors.eviction_due(session, state)
        if due > session.snapshot.now:
            made = replace(made, waits_until=due)
        if self._limits is None or not above or made.exceeds_share or made.waits_until is not None:
            return made
        if (RECLAIM, job) not in session.eviction_history.failed:
            return None  # it had no turn, or makes room now
        return self._with_pods(made, self._limits, state, task)

    def _beyond_share(
        self,
        queue: QueueFigures,
        state: JobState,
        needed: ResourceMap,
    ) -> str | None:
        """Return the resource for which the queue may not reclaim for the job, or None.

        Plugins decide; the figures only tell which resource it is.
        """
        tasks = _waiting_tasks(state.job)[: _lacking(state)]
        own = self._session.queues[queue.name]
        if self._session.dispatch.all_agree(AllHooks.preemptive, own, tasks):
            return None
        room = reclaim_outlooks.SURPLUS_LEAST
        beyond = [name for name, amount in needed.items() if _surplus(queue, name) + amount > room]
        return max(beyond, key=lambda name: name in queue.deserved, default=None)

    def _with_pods(
        self,
        made: ReclaimOutlook,
        limits: Limits,
        state: JobState,
        task: Task,
    ) -> ReclaimOutlook:
        """Return the outlook with the pods of queues above their shares, by what protects them."""
        session = self._session
        needed = _needed(session, state, task)
        own = _waiting_tasks(state.job)[: _lacking(state)]
        others = rules.lack_of_others(session, session.queues[state.job.queue], own)
        lack = needed[made.resource] + int(others[session.space.columns[made.resource]])
        limit = rules.PROPORTION * lack
        requested = session.space.vector(needed)
        counted: Counter[Protection] = Counter()
        room = np.maximum(session.cluster.allocatable - session.cluster.future_used, 0)
        for owner, each in self._pods(frozenset(made.above)):
            found = self._protection(limits, owner, each, task)
            if found is None:
                whole = self._is_kept_whole(limits, owner, each, made.resource, limit)
                found = self._kept_for(limits, owner, each, (task, requested), whole=whole)
            counted[found or Protection.NONE] += 1
            if found is None and each.node in session.layout.rows:
                room[session.layout.rows[each.node]] += session.cluster.request(each)
        pods = tuple((each, counted[each]) for each in Protection if counted[each])
        enough = self._left == 0 or self._holds(room, state, task)
        return replace(made, pods=pods, enough=enough)

    def _holds(self, room: Vector, state: JobState, task: Task) -> bool:
        """Whether so much room by node, (N, R), is enough for the pods that the job lacks.

        Pods of several kinds are taken to fit.
        """
        if len(state.job.classes) > 1:
            return True
        request = self._session.cluster.request(task)
        return int(resources.copies(request, room).sum()) >= _lacking(state)

    def _pods(self, names: frozenset[str]) -> Iterator[tuple[JobState, Task]]:
        """Iterate over running pods of these queues, within the limit of the cycle."""
        for job in self._session.cluster.evictable.owner_jobs:
            if job.queue not in names:
                continue
            for task in job.tasks:
                if not self._left:
                    return
                if task.status in EVICTABLE:
                    self._left -= 1
                    self._session.spend("outlooks", POD_COST)
                    yield self._session.job_states[job.id], task

    def _protection(
        self, limits: Limits, owner: JobState, pod: Task, preemptor: Task
    ) -> Protection | None:
        """Return what protects the pod alone, or None."""
        session = self._session
        if owner.protected or not pod.preemptable:
            return Protection.ANNOTATION
        if limits.protects(pod, session.queues[owner.job.queue]):
            return Protection.YOUNG
        if not session.cluster.budgets.spare((pod,)):
            return Protection.BUDGET
        if not session.dispatch.unprotected(HOOK, preemptor, (pod,)):
            return Protection.PLUGIN
        return None

    def _is_kept_whole(
        self,
        limits: Limits,
        owner: JobState,
        pod: Task,
        resource: str,
        limit: float,
    ) -> bool:
        """Whether the pod belongs to a gang's minimum, and the gang mustn't be evicted."""
        if rules.surplus_pod(owner, pod) is not None:
            return False
        if limits.whole_gangs is WholeGangs.ALWAYS:
            return False
        if limits.whole_gangs is WholeGangs.NEVER:
            return True
        return owner.job.allocated.get(resource, 0) > limit

    def _kept_for(
        self,
        limits: Limits,
        owner: JobState,
        pod: Task,
        asked: tuple[Task, Vector],
        *,
        whole: bool,
    ) -> Protection | None:
        """Return what protects a pod that may be evicted by itself, or None.

        It may belong to a gang that is kept `whole`, unless the gang is borrowed; or the pod, or
        else its whole gang, is more than its queue has to give back.
        """
        unit = rules.surplus_pod(owner, pod) or rules.whole(owner)
        gang = Protection.GANG if whole else None
        if unit is None:
            return gang
        dispatch, (preemptor, requested) = self._session.dispatch, asked
        if not dispatch.entitled(HOOK, preemptor, unit.tasks):
            return gang or Protection.SHARE
        after = dispatch.first(AllHooks.share_after, None, preemptor, requested, unit.tasks)
        if after is not None and after.borrowed:
            return gang if limits.whole_gangs is WholeGangs.NEVER else None
        if gang or after is None or after.within or after.fair:
            return gang
        always = unit.whole and limits.whole_gangs is WholeGangs.ALWAYS
        return None if always else Protection.SHARE


def _limits(policy: Policy, now: float) -> Limits | None:
    """Return the limits of action reclaim; None if it isn't configured."""
    for action in policy.actions:
        if action.action.name == RECLAIM:
            return Limits.of(action.action(action.arguments), now)
    return None


def _lacking(state: JobState) -> int:
    return max(1, state.minimum - state.ready_tasks)


def _waiting_tasks(job: Job) -> list[Task]:
    return [task for task in job.tasks if task.status in WAITING and not task.best_effort]


def _needed(session: Session, state: JobState, task: Task) -> dict[str, int]:
    """Return the least that the pods that the job lacks request of each resource of this one."""
    lacking = _lacking(state)
    return {name: reasons.smallest(session, state.job, name, lacking) for name in _asked(task)}


def _asked(task: Task) -> Iterable[str]:
    """Return the requested resources, cpu and memory first."""
    names = ResourceSpace.of(task.pod_class.request).names
    return [name for name in names if name != resources.PODS and task.pod_class.request.get(name)]


def _surplus(queue: QueueFigures, resource: str) -> float:
    """Return how much more of a resource the queue has than it deserves; negative if less."""
    if queue.entitlement is None:
        return 0.0
    return queue.allocated.get(resource, 0.0) - queue.entitlement.deserved.get(resource, 0.0)
