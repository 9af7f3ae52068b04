"""Relief: whether what refuses a group's admission could be released for it.

A limit of admission counts what runs and what was promised. Promises to groups of lower priority
give way, to a group that may reclaim, those to other queues, and to a group that could start now,
those to groups that can't use the nodes where it would. What runs gives way to the
configured actions: `preempt` takes from the queue's jobs, `reclaim` from other queues. Which pods
may go is asked of the same plugins as in these actions, with amounts added up for jobs that are
alike, so that thousands of waiting groups cost few questions. The answer is about amounts only: on
which nodes pods could go, the actions find out once the group is admitted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction.rules import Limits, WholeGangs
from vscheduler.core.eviction.victim_columns import VictimColumns
from vscheduler.core.session.hook_calls import HookRef
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.shares import inqueue_resources
from vscheduler.core.shares.reachable_nodes import ReachableNodes
from vscheduler.model import computed, jobs, nodes, queues, resources
from vscheduler.model.decisions import AdmissionFailure, LimitExcess
from vscheduler.model.jobs import Job, PodClass, Task, TaskStatus
from vscheduler.model.nodes import Mask

GROUPS_MAX = 256
"""With more kinds of jobs in a queue, jobs of equal priority count as alike."""

ASK_COST = 10
"""Approximate microseconds for one question about victims, without their number."""

ASKED_MAX = 2000
"""So many questions are asked in a cycle about jobs of the preemptor's own priority."""

Amounts = NDArray[np.float64]

PREEMPT, RECLAIM = "preempt", "reclaim"


class AlikeJobs(msgspec.Struct, eq=False):
    """Jobs of one queue with equal pods and priorities."""

    priority: int
    first: Sequence[Task]
    """The pods of the first job that may be evicted."""
    every: list[Task]
    """Those of all jobs."""


class Evictable:
    """The pods that one action may evict at all, by queue."""

    def __init__(self, session: Session, limits: Limits, hook: HookRef) -> None:
        """`hook` is `preemptable` or `reclaimable`."""
        self._session, self._hook = session, hook
        self.asked = 0
        """How many questions were asked in this cycle."""
        columns = VictimColumns(session, limits, by_resources=False)
        leaving = columns.steady & columns.there
        if limits.whole_gangs is WholeGangs.NEVER:
            leaving &= columns.spare
        self._columns, self._leaving = columns, np.flatnonzero(leaving)
        self._groups: dict[str, Sequence[AlikeJobs]] = {}

    @computed.once
    def _by_owner(self) -> Mapping[str, Mapping[int, Sequence[int]]]:
        """The places of the pods, by queue and by job."""
        found: defaultdict[str, defaultdict[int, list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )
        owners = self._columns.pods.owners[self._leaving].tolist()
        names, numbers = self._columns.queue_names, self._columns.queues[self._leaving].tolist()
        for place, owner, number in zip(self._leaving.tolist(), owners, numbers, strict=True):
            found[names[number]][owner].append(place)
        return found

    def groups(self, queue: str) -> Sequence[AlikeJobs]:
        """Return the queue's jobs that have such pods, alike ones together."""
        found = self._groups.get(queue)
        if found is None:
            places = self._by_owner.get(queue, {})
            found = self._alike(places, by_pods=True)
            if len(found) > GROUPS_MAX:
                found = self._alike(places, by_pods=False)
            self._groups[queue] = found
        return found

    def _alike(self, places: Mapping[int, Sequence[int]], *, by_pods: bool) -> Sequence[AlikeJobs]:
        pods = self._columns.pods
        found: dict[object, AlikeJobs] = {}
        for owner, mine in places.items():
            job, tasks = pods.owner_jobs[owner], [pods.task(place) for place in mine]
            classes = tuple(pods.class_numbers[list(mine)].tolist()) if by_pods else ()
            key = (job.priority, job.namespace, classes)
            if key in found:
                found[key].every += tasks
            else:
                found[key] = AlikeJobs(job.priority, tasks, list(tasks))
        return list(found.values())

    def part_of(self, preemptor: Task, group: AlikeJobs) -> Amounts:
        """Return what the preemptor may take of these jobs, (R,), by what it may take of one."""
        part = len(self.legal(preemptor, group.first)) / len(group.first)
        return part * self.amounts(group.every) if part else self.amounts(())

    def legal(self, preemptor: Task, tasks: Sequence[Task]) -> Sequence[Task]:
        """Return which of these pods of one queue the preemptor may take together."""
        self.asked += 1
        self._session.spend("relief", ASK_COST + len(tasks))
        dispatch = self._session.dispatch
        left = dispatch.unprotected(self._hook, preemptor, tasks)
        return dispatch.entitled(self._hook, preemptor, left) if left else ()

    def amounts(self, tasks: Iterable[Task]) -> Amounts:
        """Return what these pods hold together, (R,)."""
        counted: defaultdict[PodClass, int] = defaultdict(int)
        first: dict[PodClass, Task] = {}
        for task in tasks:
            counted[task.pod_class] += 1
            first.setdefault(task.pod_class, task)
        total = np.zeros(self._session.space.size)
        for pod_class, count in counted.items():
            total += count * self._session.counted(first[pod_class])
        return total


class Promises:
    """What admitted groups were promised and don't have yet, by queue, priority and nodes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._columns, self._size = session.space.columns, session.space.size
        self._rows: dict[tuple[str, int, int], list[float]] = {}
        """By queue, priority and the set of nodes that the pods may use."""
        self._known: dict[object, float] = {}
        self._reachable = ReachableNodes(session.reachable)
        self._every = nodes.row_set(session.layout.ready & session.layout.schedulable)
        for state in session.promised_jobs:
            if inqueue_resources.holds(state):
                self.add(state)

    def add(self, state: JobState) -> None:
        """Count the promise to a group."""
        key = (state.job.queue, state.job.priority, self._reach(state))
        row = self._rows.setdefault(key, [0.0] * self._size)
        for name, amount in inqueue_resources.outstanding(state).items():
            if name in self._columns:
                row[self._columns[name]] += amount
        self._known.clear()

    def giving_way(
        self, job: Job, below: frozenset[str], excess: LimitExcess, *, reclaims: bool
    ) -> float:
        """Return how much of what exceeds the limit was promised in these queues to groups of lower
        priority, and, for a job that may reclaim, to groups of other queues.
        """
        key = (job.queue, job.priority, below, excess.resource, excess.nodes, reclaims)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = sum(
                amount
                for queue, priority, _, amount in self._counted(below, excess)
                if _gives_way(job, queue, priority, reclaims=reclaims)
            )
        return found

    def elsewhere(
        self,
        job: Job,
        below: frozenset[str],
        excess: LimitExcess,
        rows: Mask,
        *,
        reclaims: bool,
    ) -> float:
        """Return how much of it was promised in these queues to further groups, none of whose pods
        can use these nodes, (N,).
        """
        free = nodes.row_set(rows)
        self._session.spend("relief", len(self._rows))
        return sum(
            amount
            for queue, priority, reach, amount in self._counted(below, excess)
            if not _gives_way(job, queue, priority, reclaims=reclaims) and not reach & free
        )

    def _counted(
        self, below: frozenset[str], excess: LimitExcess
    ) -> Iterator[tuple[str, int, int, float]]:
        """Yield queue, priority, nodes and amount of the promises that the limit counts."""
        column = self._columns[excess.resource]
        for (queue, priority, reach), row in self._rows.items():
            if queue in below and (excess.nodes is None or not reach & ~excess.nodes):
                yield queue, priority, reach, row[column]

    def _reach(self, state: JobState) -> int:
        """Return the nodes that pods of the group may use, as a set; all, for one without pods."""
        waiting = _waiting(state)
        return self._reachable.of(waiting) if waiting else self._every


class Relief:
    """What could be released in this cycle for groups that admission refuses."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._limits = {
            action.action.name: Limits.of(action.action(action.arguments), session.snapshot.now)
            for action in session.policy.actions
            if action.action.name in (PREEMPT, RECLAIM)
        }
        self._below: dict[str, frozenset[str]] = {}
        self._own: dict[object, Amounts] = {}
        """By preemptor's queue and priority: what may be taken of less important jobs there."""
        self._equals: dict[object, Amounts] = {}
        self._others: dict[object, Mapping[str, Amounts]] = {}
        """By preemptor's queue and resources: what may be taken of each other queue."""
        self._verdicts: dict[object, bool] = {}
        """Answers, until the next admission."""

    def covers(self, state: JobState, refusal: AdmissionFailure) -> bool:
        """Whether all that the group would exceed could be released for it."""
        if not refusal.exceeded:
            return False
        key = (self._class_key(state), refusal.exceeded)
        found = self._verdicts.get(key)
        if found is None:
            found = all(self._is_released(state, each) for each in refusal.exceeded)
            self._verdicts[key] = found
        return found

    def is_waived(self, state: JobState, refusal: AdmissionFailure) -> bool:
        """Whether preemptionPolicy Never alone keeps evictions from being considered."""
        return bool(self._limits and refusal.exceeded) and self._never_preempts(state)

    def admitted(self, state: JobState) -> None:
        """Count the promise to a group that is admitted now."""
        if state.job.min_resources is None:
            return
        if "_promises" in self.__dict__:
            self._promises.add(state)
        self._verdicts.clear()

    def _class_key(self, state: JobState) -> object:
        """Return a key that is equal for groups for which the same is released."""
        job = state.job
        return job.memo("relief", lambda: self._traits(state))

    def _traits(self, state: JobState) -> object:
        job = state.job
        classes = tuple(job.classes.items())
        asked = tuple(inqueue_resources.outstanding(state).items())
        never = self._never_preempts(state)
        return (job.queue, job.priority, state.minimum, state.ready_tasks, asked, classes, never)

    def _is_released(self, state: JobState, excess: LimitExcess) -> bool:
        column = self._session.space.columns.get(excess.resource)
        if column is None:
            return False
        left = excess.amount
        if excess.promised > 0:
            below, reclaims = self._queues_below(excess.queue), self._may_reclaim(state)
            given = self._promises.giving_way(state.job, below, excess, reclaims=reclaims)
            rows = None if given >= min(left, excess.promised) else self._free_rows(state)
            if rows is not None:
                given += self._promises.elsewhere(state.job, below, excess, rows, reclaims=reclaims)
            left -= min(excess.promised, given)
        return left <= 0 or left <= self._evictable(state, excess.queue, column)

    def _free_rows(self, state: JobState) -> Mask | None:
        """Return the nodes (N,) where pods of the group fit now; None if not all that it needs do,
        by amounts, or if it has no pods yet.
        """
        session, waiting = self._session, _waiting(state)
        if len(waiting) < max(1, state.job.min_member - state.ready_tasks):
            return None
        free = np.maximum(session.cluster.allocatable - session.cluster.used, 0)
        rows = np.zeros(session.layout.size, dtype=np.bool_)
        counts = Counter(task.pod_class for task in waiting)
        for task in {task.pod_class: task for task in waiting}.values():
            request = session.request(task)
            able = session.placement.reachable(task)
            slots = np.where(able, resources.copies(request, free), 0)
            if slots.sum() < min(counts[task.pod_class], max(1, state.job.min_member)):
                return None
            rows |= slots > 0
        return rows

    def _evictable(self, state: JobState, queue: str, column: int) -> float:
        """Return how much of a resource evictions could release below the queue."""
        if self._never_preempts(state) or self._is_refused(state):
            return 0.0
        below, found = self._queues_below(queue), 0.0
        if PREEMPT in self._limits and state.job.queue in below:
            found += float(self._preemptable(state)[column])
        if self._may_reclaim(state):
            lent = self._reclaimable(state)
            found += sum(float(lent[name][column]) for name in lent.keys() & below)
        return found

    def _is_refused(self, state: JobState) -> bool:
        return state.job.id in self._session.snapshot.carried.reported.eviction_refused_jobs

    def _preemptable(self, state: JobState) -> Amounts:
        """Return what `preempt` may take of other jobs of the queue, (R,)."""
        job, victims_ = state.job, self._evictables[PREEMPT]
        key = (job.queue, job.priority)
        groups = victims_.groups(job.queue)
        if key not in self._own:
            preemptor = _preemptor(state)
            less = [group for group in groups if group.priority < job.priority]
            parts = [victims_.part_of(preemptor, each) for each in less]
            self._own[key] = sum(parts, start=victims_.amounts(()))
        found = self._own[key]
        equals = [group for group in groups if group.priority == job.priority]
        if not equals or victims_.asked > ASKED_MAX:
            return found
        request = (*key, tuple(inqueue_resources.outstanding(state).items()))
        if request not in self._equals:
            preemptor = _preemptor(state)
            parts = [victims_.part_of(preemptor, equal) for equal in equals]
            self._equals[request] = sum(parts, start=found)
        return self._equals[request]

    def _may_reclaim(self, state: JobState) -> bool:
        """Whether the group's queue deserves what the group asks for.

        Plugins are asked about a single pod with the minimum request of the whole group, since pods
        may not exist yet.
        """
        dispatch, queue = self._session.dispatch, self._session.queues[state.job.queue]
        return (
            RECLAIM in self._limits
            and dispatch.asks(AllHooks.preemptive)
            and not dispatch.any_says(AllHooks.overused, queue)
            and dispatch.all_agree(AllHooks.preemptive, queue, [_preemptor(state)])
        )

    def _reclaimable(self, state: JobState) -> Mapping[str, Amounts]:
        """Return what `reclaim` may take of other queues, (R,) each."""
        asked = inqueue_resources.outstanding(state)
        key = (state.job.queue, tuple(sorted(name for name, amount in asked.items() if amount)))
        found = self._others.get(key)
        if found is None:
            preemptor, victims_ = _preemptor(state), self._evictables[RECLAIM]
            found = self._others[key] = {
                queue.name: self._taken(victims_, preemptor, queue.name)
                for queue in self._session.queues.values()
                if queue.reclaimable and queue.name != state.job.queue
            }
        return found

    @staticmethod
    def _taken(evictable: Evictable, preemptor: Task, queue: str) -> Amounts:
        """Return what may be taken of a queue, (R,): all its pods that go are asked about at once,
        for a queue gives no more than it has above its share.
        """
        some = [
            task
            for group in evictable.groups(queue)
            if evictable.legal(preemptor, group.first[:1])
            for task in group.every
        ]
        return evictable.amounts(evictable.legal(preemptor, some) if some else ())

    def _queues_below(self, name: str) -> frozenset[str]:
        """Return the queue and all below it; all queues for `root` and the whole cluster."""
        found = self._below.get(name)
        if found is None:
            every = self._session.queues
            if name in ("", queues.ROOT):
                found = frozenset(every)
            else:
                found = frozenset((name, *queues.tree(every, {}).leaves(name)))
            self._below[name] = found
        return found

    @staticmethod
    def _never_preempts(state: JobState) -> bool:
        """Whether all pods that wait have preemptionPolicy Never."""
        waiting = _waiting(state)
        return bool(waiting) and all(task.never_preempts for task in waiting)

    @computed.once
    def _promises(self) -> Promises:
        return Promises(self._session)

    @computed.once
    def _evictables(self) -> "EvictableByAction":
        return EvictableByAction(self._session, self._limits)


class EvictableByAction(dict[str, Evictable]):
    """The evictable pods of each configured action, read when first asked for."""

    def __init__(self, session: Session, limits: Mapping[str, Limits]) -> None:
        super().__init__()
        self._session, self._limits = session, limits

    def __missing__(self, action: str) -> Evictable:
        hook = {PREEMPT: AllHooks.preemptable, RECLAIM: AllHooks.reclaimable}[action]
        self[action] = Evictable(self._session, self._limits[action], hook)
        return self[action]


def _gives_way(job: Job, queue: str, priority: int, *, reclaims: bool) -> bool:
    """Whether a promise in this queue, to a group of this priority, gives way to the job."""
    return priority < job.priority or (reclaims and queue != job.queue)


def _waiting(state: JobState) -> Sequence[Task]:
    """Return the pods of a group that wait for a node."""
    return [task for task in state.job.tasks if task.status is TaskStatus.PENDING]


def _preemptor(state: JobState) -> Task:
    """Return a single pod with the minimum request of the whole group."""
    job = state.job
    return job.memo(
        "whole minimum", lambda: jobs.stand_in(job, inqueue_resources.outstanding(state))
    )
