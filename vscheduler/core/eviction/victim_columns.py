"""VictimColumns: what may be evicted on which node, in columns that follow the cycle's statements.

Pods with equal queue, class and priorities on nodes of one kind form a group. For most plugins, all
pods of a group are equal victims, so the plugins are asked once for a group. Where that makes too
many groups, pods of a queue that request the same resources on nodes of one kind form a group: they
may cost different amounts, but for some plugins a queue may take all of them or none.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.depends import EQUAL_CLASSES, EQUAL_RESOURCES
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction.rules import Limits, Scope
from vscheduler.core.memo import evictable_pods
from vscheduler.core.session.hook_calls import HookRef
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.model.jobs import Task
from vscheduler.model.queues import Queue

GROUPS_MAX = 256
"""With more groups, pods are grouped by what they request, if plugins tell these apart."""

COARSE_GROUPS_MAX = 1024
"""With more groups even then, or of gangs than GROUPS_MAX, nothing is asked about groups."""

CHUNK = 1024
"""How many pods of a group are looked at in one go."""

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Grouping(Enum):
    """What pods of a group have in common."""

    CLASS = "queue, class, priorities and kind of node"
    RESOURCES = "queue, requested resources and kind of node"
    QUEUE = "queue"


class VictimColumns:
    """The pods (P) that an action may evict, sorted by row, and their jobs (J)."""

    def __init__(self, session: Session, limits: Limits, *, by_resources: bool) -> None:
        """Read the pods as they are now. Those that `limits` protect for their short run are left
        out, and a cycle is due when the first of them has run for long enough.

        `by_resources` tells whether groups by requested resources are worth asking about.
        """
        self._session, self._by_resources = session, by_resources
        self.pods = session.cluster.evictable
        owners = self.pods.owners
        self.queue_names = self.pods.queue_names
        """The queues (Q) with pods."""
        self._queues, self._levels = self.pods.owner_queues, self.pods.owner_priorities
        self.queues: Rows = self._queues[owners]
        """The places of the pods' queues in `queue_names`, (P,)."""
        self.levels: NDArray[np.float64] = self._levels[owners]
        """The priorities of the pods' jobs, (P,)."""
        requests = [session.space.vector(each.request) for each in self.pods.classes]
        none = np.zeros((0, session.space.size), dtype=np.int64)
        self.requests = np.array(requests) if requests else none
        """The request of each class in `pods.classes`, (C, R)."""
        young, protected = self._young(limits), self.pods.protected[owners]
        self.steady: Flags = self.pods.preemptable & ~young & ~protected
        """Whether anything at all may evict the pod, (P,)."""
        self._leave_out_spent_budgets()
        self.there: Flags = np.ones(len(owners), dtype=np.bool_)
        """Whether the pod hasn't been evicted, (P,)."""
        self._spare = self.pods.spare.copy()
        self.spare: Flags = self._spare[owners]
        """Whether the pod's job could lose a single pod, regardless of roles, (P,)."""
        self.changed: list[int] = []
        """Rows on which room or pods have changed, in order; rows may occur repeatedly."""
        self._torn: set[int] = set()
        """Jobs that have lost pods in this cycle, or got them back, and still have some."""
        self._seen = 0
        self._in_scope: dict[Scope, Flags] = {}
        self.refresh()

    def _young(self, limits: Limits) -> Flags:
        """Return which pods haven't had their nodes for long enough, (P,)."""
        queues = map(self._session.queues.__getitem__, self.queue_names)
        least = np.fromiter(map(limits.of_queue, queues), np.float64, len(self.queue_names))
        ends = self.pods.starts + least[self.queues]
        young: Flags = ends > limits.now
        first = float(ends[young].min(initial=np.inf))
        if first < np.inf:
            self._session.wake(first)
        return young

    def refresh(self) -> None:
        """Follow the statements since the last call."""
        touched = self._session.cluster.touched
        if self._seen == len(touched):
            return
        rows = sorted(set(touched[self._seen :]))
        self._seen = len(touched)
        owners: set[int] = set()
        bounds = self.pods.bounds
        for row in rows:
            for place in range(bounds[row], bounds[row + 1]):
                owner = int(self.pods.owners[place])
                task = self.pods.task(place)
                there = self.state(owner).status(task) is task.status
                if there != self.there[place]:
                    self.there[place] = there
                    owners.add(owner)
        self.changed += rows
        for owner in sorted(owners):
            state = self.state(owner)
            spare = evictable_pods.may_lose_one(
                state.counts, state.ready_tasks, state.job.min_member
            )
            if spare != self._spare[owner]:
                self._spare[owner] = spare
                places = np.flatnonzero(self.pods.owners == owner)
                self.spare[places] = spare
                self.changed += np.unique(self.pods.rows[places]).tolist()
        self._leave_groups(owners)

    def _leave_groups(self, owners: Collection[int]) -> None:
        """Take gangs that have lost pods, or got them back, out of their groups."""
        for owner in sorted(owners):
            places = np.flatnonzero(self.pods.owners == owner)
            self._torn.discard(owner)
            if self.there[places].any():
                self._torn.add(owner)
            if "gang_groups" in self.__dict__ and self.gang_groups[owner]:
                self.gang_groups[owner] = 0
                self.changed += np.unique(self.pods.rows[places]).tolist()

    def state(self, owner: int) -> JobState:
        """Return the state of one of the jobs."""
        return self._session.job_states[self.pods.owner_jobs[owner].id]

    @property
    def has_unknown_gangs(self) -> bool:
        """Whether group 0 has any pods."""
        return self._too_many_gangs or bool(self._torn)

    def in_scope(self, scope: Scope) -> Flags:
        """Return which pods the scope includes, (P,)."""
        found = self._in_scope.get(scope)
        if found is None:
            chosen = np.array([name in scope.queues for name in self.queue_names], dtype=np.bool_)
            jobs_in = chosen[self._queues]
            for place, job in (
                enumerate(self.pods.owner_jobs) if scope.only or scope.without else ()
            ):
                if scope.only not in (None, job.id) or job.id == scope.without:
                    jobs_in[place] = False
            found = self._in_scope[scope] = jobs_in[self.pods.owners]
        return found

    def candidates(self, scope: Scope, pods: Rows) -> Flags:
        """Return which of these pods may be considered as victims now."""
        return self.steady[pods] & self.there[pods] & self.in_scope(scope)[pods]

    def turns(self, pods: Rows, eligible: Flags) -> Rows:
        """Return how many eligible pods of the same group come before each pod on its node.

        `pods` are all pods of some rows.
        """
        chosen = np.zeros(len(self.queues), dtype=np.bool_)
        chosen[pods] = eligible
        ordered = self.by_group[pods]  # the same rows at the same places
        here = self.pods.rows[ordered] * len(self.representatives) + self.groups[ordered]
        before: Rows = np.cumsum(chosen[ordered]) - chosen[ordered]
        begins = np.flatnonzero(np.diff(here, prepend=-1))
        found = np.zeros(len(self.queues), dtype=np.int64)
        found[ordered] = before - np.repeat(before[begins], np.diff(begins, append=len(here)))
        return found[pods]

    def first_of(self, group: int, scope: Scope, count: int) -> Sequence[int]:
        """Return the first pods of the group that may be evicted alone, at most so many."""
        members = self._members[group]
        found: list[int] = []
        for begin in range(0, len(members), CHUNK):
            some = members[begin : begin + CHUNK]
            found += some[self.candidates(scope, some) & self.spare[some]].tolist()
            if len(found) >= count:
                break
        return found[:count]

    @cached_property
    def _members(self) -> Sequence[Rows]:
        """The pods of each group."""
        order = np.argsort(self.groups, kind="stable")
        ends = np.cumsum(np.bincount(self.groups, minlength=len(self.representatives)))
        return np.split(order, ends[:-1])

    def amounts(self, used: Rows, pods: Rows) -> Rows:
        """Return what these pods (p,) request of these resources, (p, r)."""
        found: Rows = self.requests[:, used][self.pods.class_numbers[pods]]
        return found

    def most(self, queues: Collection[str]) -> NDArray[np.int64]:
        """Return what evictions could free at most, (N, R), if the pods of these queues went."""
        chosen = np.array([name in queues for name in self.queue_names], dtype=np.bool_)
        return self.freed_by(chosen[self.queues] & self.pods.preemptable)

    def freed_by(self, leaving: Flags) -> NDArray[np.int64]:
        """Return what these pods (P,) hold on each node, (N, R)."""
        amounts = self.requests[self.pods.class_numbers] * leaving[:, None]
        sums = np.zeros((len(leaving) + 1, amounts.shape[1]), dtype=np.int64)
        np.cumsum(amounts, axis=0, out=sums[1:])
        total: Rows = sums[self.pods.bounds[1:]] - sums[self.pods.bounds[:-1]]
        return total

    @property
    def grouping(self) -> Grouping:
        """What pods of a group have in common."""
        return self._grouping[2]

    @cached_property
    def _grouping(self) -> tuple[Rows, list[int], Grouping]:
        kinds = self._session.pools.kinds[self.pods.rows]
        of_pods = (_numbered(self.levels), _numbered(self.pods.priorities))
        parts: dict[Grouping, tuple[Rows, ...]] = {
            Grouping.CLASS: (self.pods.class_numbers, *of_pods, kinds)
        }
        limits = {Grouping.CLASS: GROUPS_MAX, Grouping.RESOURCES: COARSE_GROUPS_MAX}
        if self._by_resources:
            requested = np.unique(self.requests > 0, axis=0, return_inverse=True)[1].ravel()
            parts[Grouping.RESOURCES] = (requested[self.pods.class_numbers], kinds)
        for grouping, each in parts.items():
            first, groups = _grouped(self.queues, *each)
            if len(first) <= limits[grouping]:
                return groups, first.tolist(), grouping
        first, groups = _grouped(self.queues)
        return groups, first.tolist(), Grouping.QUEUE

    @property
    def groups(self) -> Rows:
        """The group of each pod, (P,)."""
        return self._grouping[0]

    @cached_property
    def representatives(self) -> Sequence[int]:
        """The first pod of each group (T)."""
        return self._grouping[1]

    @cached_property
    def gang_groups(self) -> Rows:
        """The group of each job's gang, (J,): equal queues, priorities, minimums and pods. 0: not
        known.
        """
        return self._gangs[0]

    @property
    def _too_many_gangs(self) -> bool:
        return not self._gangs[1]

    @property
    def gang_groups_max(self) -> int:
        """The highest number of a group of gangs."""
        return self._gangs[1]

    @cached_property
    def _gangs(self) -> tuple[Rows, int]:
        numbers: dict[object, int] = {}
        groups = np.zeros(len(self.pods.owner_jobs), dtype=np.int64)
        moved = {state.job.id for state in self._session.job_states.moved()}
        for place, job in enumerate(self.pods.owner_jobs):
            if job.id not in moved:
                key = (job.queue, job.priority, job.min_member, tuple(job.classes.items()))
                groups[place] = numbers.setdefault(key, len(numbers) + 1)
            else:
                self._torn.add(place)
        if len(numbers) > GROUPS_MAX:
            groups[:] = 0
        return groups, int(groups.max(initial=0))

    @cached_property
    def by_group(self) -> Rows:
        """The pods in the order of row and group, (P,)."""
        return np.lexsort((self.groups, self.pods.rows))

    def queue_of(self, group: int) -> int:
        """Return the place of the group's queue in `queue_names`."""
        return int(self.queues[self.representatives[group]])

    @cached_property
    def by_priority(self) -> Rows:
        """The pods in the order of row and job priority, (P,)."""
        return np.lexsort((self.levels, self.pods.rows))

    @cached_property
    def by_loss(self) -> Rows:
        """The pods in the order of row and of the work they would lose, the least first, (P,)."""
        return np.lexsort((-self.pods.unsaved_since, self.pods.rows))

    @cached_property
    def gang_unsaved_since(self) -> NDArray[np.float64]:
        """Per pod, an upper bound of the earliest `unsaved_since` of the pods of its gang, (P,)."""
        count, since = len(self.pods.owner_jobs), self.pods.unsaved_since
        first, last = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(first, self.pods.owners, since)
        np.maximum.at(last, self.pods.owners, since)
        return np.where(self.pods.spare, last, first)[self.pods.owners]

    @cached_property
    def gang_sizes(self) -> Rows:
        """Per pod, a lower bound of the number of pods evicted with its gang, (P,)."""
        sizes = np.bincount(self.pods.owners, minlength=len(self.pods.owner_jobs))
        return np.where(self.pods.spare, 1, sizes)[self.pods.owners]

    def _leave_out_spent_budgets(self) -> None:
        """Leave out pods whose PodDisruptionBudget allows no eviction."""
        spent: dict[str, list[Callable[[Task], bool]]] = {}
        for budget in self._session.snapshot.budgets:
            if budget.allowed <= 0:
                spent.setdefault(budget.namespace, []).append(budget.covers)
        if not spent:
            return
        inside = [job.namespace in spent for job in self.pods.owner_jobs]
        chosen = np.array(inside, dtype=np.bool_)[self.pods.owners]
        for place in np.flatnonzero(chosen & self.steady).tolist():
            task = self.pods.task(place)
            self.steady[place] = not any(covers(task) for covers in spent[task.namespace])


def _grouped(*parts: Rows) -> tuple[Rows, Rows]:
    """Return the first place of each group of equal places, and the group of each place."""
    codes = np.zeros(len(parts[0]), dtype=np.int64)
    for part in parts:
        codes = codes * (int(part.max(initial=0)) + 1) + part
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    return first, groups


def _numbered(values: NDArray[np.float64]) -> Rows:
    """Return the place of each value among all values."""
    if not values.size or values.min() == values.max():
        return np.zeros(len(values), dtype=np.int64)
    numbers: Rows = np.unique(values, return_inverse=True)[1]
    return numbers


ENTITLED_COST = 10
"""Approximate microseconds for one question about a group."""


class Entitled(msgspec.Struct, frozen=True, eq=False):
    """The answers for equal preemptors."""

    groups: Flags
    """Whether the queue may take any pod of the group, (T,): False is certain."""
    owners: Flags
    """Whether the queue may take any pod of the job, (J,): False is certain."""


class EntitledGroups:
    """The answers of one action, by the preemptor's queue and the requested resources."""

    def __init__(self, session: Session, columns: VictimColumns, hook: HookRef) -> None:
        """`hook` is asked; answers about `preemptable` depend on more than queue and resources."""
        self._session, self._columns, self._hook = session, columns, hook
        self._known: dict[tuple[str, bytes], Entitled] = {}

    def ask(self, queue: Queue, scope: Scope, tasks: Iterable[Task]) -> None:
        """Ask on behalf of these tasks; no attempt may be under way."""
        if self._hook is not AllHooks.reclaimable:
            return
        for task in tasks:
            key = self._key(queue, task)
            if key not in self._known:
                self._known[key] = self._asked(scope, task)

    def of(self, queue: Queue, task: Task) -> Entitled:
        """Return the answers for a task; anything might be taken if nobody has asked."""
        return self._known.get(self._key(queue, task)) or self._anything()

    def forget(self) -> None:
        """Forget all answers: a plan has changed the session."""
        self._known.clear()

    def _key(self, queue: Queue, task: Task) -> tuple[str, bytes]:
        return queue.name, (self._session.request(task) > 0).tobytes()

    def _anything(self) -> Entitled:
        columns = self._columns
        groups = np.ones(len(columns.representatives), dtype=np.bool_)
        return Entitled(groups, np.ones(len(columns.pods.owner_jobs), dtype=np.bool_))

    def _asked(self, scope: Scope, task: Task) -> Entitled:
        columns = self._columns
        if columns.grouping is Grouping.QUEUE:
            return self._anything()
        columns.refresh()
        found = np.zeros(len(columns.representatives), dtype=np.bool_)
        candidates = np.flatnonzero(columns.candidates(scope, np.arange(len(columns.groups))))
        groups, first = np.unique(columns.groups[candidates], return_index=True)
        self._session.spend("entitled", ENTITLED_COST * len(groups))
        is_coarse = columns.grouping is Grouping.RESOURCES
        within = EQUAL_RESOURCES if is_coarse else EQUAL_CLASSES
        for group, place in zip(groups.tolist(), candidates[first].tolist(), strict=True):
            found[group] = self._session.dispatch.may_be_entitled(
                self._hook, task, columns.pods.task(place), within
            )
        owners = np.zeros(len(columns.pods.owner_jobs), dtype=np.bool_)
        owners[columns.pods.owners[found[columns.groups]]] = True
        return Entitled(found, owners)
