"""JobState: a Job's working copy inside one cycle, with its sub-groups (spec.subGroupPolicy)."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.config import cycle_rules
from vscheduler.core.config.cycle_rules import CycleRules
from vscheduler.core.session.dispatch import Dispatch
from vscheduler.model import jobs
from vscheduler.model.jobs import (
    HOLDING,
    PLACED,
    READY,
    SCHEDULED,
    VALID,
    Job,
    SubGroup,
    Task,
    TaskId,
    TaskStatus,
)

Key: TypeAlias = tuple[int, tuple[str, ...]]
"""A sub-group: the index of the policy, and the values of the labels that the policy groups by."""


class SubGroups:
    """The sub-groups of one job, with pod counts by status.

    A pod belongs to the first matching policy. A sub-group is whole when the number of placed pods
    reaches the policy's size. Best-effort pods count while waiting (Volcano: SubJobInfo.IsReady).
    """

    __slots__ = ("_counts", "_forgiven", "_gone", "_idlers", "_keys", "_policies")

    def __init__(self, job: Job, rules: CycleRules) -> None:
        self._policies = job.sub_groups
        self._keys: dict[TaskId, Key] = {}
        self._counts: Counter[tuple[Key, TaskStatus]] = Counter()
        self._idlers: Counter[Key] = Counter()
        for task in job.tasks:
            key = self._find(task, rules)
            if key is not None:
                self._keys[task.uid] = key
                self._count(key, task, task.status, 1)
        self._forgiven: dict[Key, int] = {}
        """By sub-group, how many pods less than its policy says it needs."""
        self._gone: Counter[int] = Counter()
        """By policy, the sub-groups of which no pod is left, as all have succeeded."""
        if job.refills and jobs.is_composite(job.id):
            self._refill()
        if job.succeeded_gone:
            self._forgive(job.succeeded_gone)

    def of(self, task: Task) -> Key | None:
        """Return the sub-group of the task; None for a task without a sub-group."""
        return self._keys.get(task.uid)

    def move(self, task: Task, before: TaskStatus, after: TaskStatus) -> None:
        """Update the counts after a status change of the task."""
        key = self.of(task)
        if key is not None:
            self._count(key, task, before, -1)
            self._count(key, task, after, 1)

    def is_whole(self, key: Key, statuses: frozenset[TaskStatus], *, idlers: bool = True) -> bool:
        """Whether enough pods of the sub-group have one of these statuses.

        With `idlers`, waiting best-effort pods count.
        """
        counted = idlers and TaskStatus.PENDING not in statuses
        waiting = self._idlers[key] if counted else 0
        return self._count_in(key, statuses) + waiting >= self._size(key)

    def lacking(
        self, statuses: frozenset[TaskStatus], *, idlers: bool = True
    ) -> tuple[SubGroup, int] | None:
        """Return the first policy with too few whole sub-groups, and the number of whole ones.

        Volcano: JobInfo.checkSubJobCondition.
        """
        whole = self._whole(statuses, idlers=idlers)
        for place, policy in enumerate(self._policies):
            if whole[place] < policy.minimum:
                return policy, whole[place]
        return None

    def missing(self, key: Key) -> int:
        """Return how many ready pods the sub-group lacks; at most 0 if it is whole."""
        return self._size(key) - self._count_in(key, READY)

    def missing_groups(self) -> Mapping[int, int]:
        """Return how many ready sub-groups each policy lacks, by the policy's index."""
        whole = self._whole(READY)
        return {place: policy.minimum - whole[place] for place, policy in enumerate(self._policies)}

    def spares(self, task: Task) -> bool:
        """Whether evicting this task leaves every whole sub-group whole."""
        key = self.of(task)
        if key is None or not self.is_whole(key, READY):
            return True
        return self._count_in(key, READY) > self._size(key)

    def is_complete(self, task: Task) -> bool:
        """Whether the task's sub-group, if it has one, is whole, pipelined pods included. Waiting
        best-effort pods don't count: they need nodes, too.
        """
        key = self.of(task)
        return key is None or self.is_whole(key, PLACED, idlers=False)

    def short(self, tasks: Iterable[Task]) -> tuple[Key, int, int] | None:
        """Return the first sub-group of these tasks that can't become whole.

        The result includes the number of pods that are or could be placed, and the number of gated
        pods.
        """
        for key in dict.fromkeys(map(self.of, tasks)):
            if key is None:
                continue
            gated = self._counts[key, TaskStatus.GATED]
            usable = self._count_in(key, VALID) - gated
            if usable < self._size(key):
                return key, usable, gated
        return None

    def gathered(self, tasks: Iterable[Task]) -> list[Task]:
        """Return the tasks in the given order, but members of a sub-group next to each other.

        Started sub-groups with missing pods come first, then as many sub-groups of each policy as
        the job needs to start, then the rest (Volcano: SubJobOrderFn, minSubGroups first).
        """
        ordered = list(tasks)
        ranks = self._ranks(dict.fromkeys(map(self.of, ordered)))
        first: dict[Key, int] = {}
        places: dict[TaskId, tuple[int, int]] = {}
        for place, task in enumerate(ordered):
            key = self.of(task)
            first_of_group = place if key is None else first.setdefault(key, place)
            places[task.uid] = (ranks.get(key, 2), first_of_group)
        return sorted(ordered, key=lambda task: places[task.uid])

    def _find(self, task: Task, rules: CycleRules) -> Key | None:
        """Return the sub-group of the first matching policy (Volcano: getOrCreateSubJob)."""
        for place, policy in enumerate(self._policies):
            values = rules.sub_group_values(policy, task.labels)
            if values is not None:
                return place, values
        return None

    def _ranks(self, keys: Iterable[Key | None]) -> dict[Key | None, int]:
        """Return the turn of each of these sub-groups, which are given in order."""
        whole, found = self._whole(PLACED), dict[Key | None, int]({None: 1})
        left = [policy.minimum - whole[at] for at, policy in enumerate(self._policies)]
        unfinished = [key for key in keys if key and not self.is_whole(key, PLACED)]
        for key in sorted(unfinished, key=lambda key: not self._count_in(key, PLACED)):
            started = self._count_in(key, PLACED) > 0
            found[key] = 0 if started else 1 if left[key[0]] > 0 else 2
            left[key[0]] -= 1
        return found

    def _whole(self, statuses: frozenset[TaskStatus], *, idlers: bool = True) -> Counter[int]:
        """Count the whole sub-groups of each policy."""
        keys = set(self._keys.values())
        found = Counter(key[0] for key in keys if self.is_whole(key, statuses, idlers=idlers))
        return found + self._gone if self._gone else found

    def _size(self, key: Key) -> int:
        """Return how many pods the sub-group needs."""
        return self._policies[key[0]].size_of(key[1]) - self._forgiven.get(key, 0)

    def _refill(self) -> None:
        """Let sub-groups of which pods hold resources be content with their pods that exist, as the
        others may never be created again.
        """
        for key in set(self._keys.values()):
            if self._count_in(key, HOLDING):
                usable = self._count_in(key, VALID) - self._counts[key, TaskStatus.GATED]
                self._forgiven[key] = max(0, self._size(key) - usable)

    def _forgive(self, gone: int) -> None:
        """Let sub-groups that a policy lacks be content with fewer pods, or none, if so many may
        have succeeded and been deleted: nobody knows the labels of these pods any more.
        """
        whole = self._whole(VALID)
        for place, policy in enumerate(self._policies):
            lacks = max(0, policy.minimum - whole[place])
            keys = {key for key in self._keys.values() if key[0] == place}
            there = sorted((self._size(key) - self._count_in(key, VALID), key) for key in keys)
            some: list[tuple[int, Key | None]] = [each for each in there if each[0] > 0]
            absent = [
                size for value, size in policy.sizes.items() if (place, (value,)) not in keys
            ] or [policy.size] * lacks
            for missing, key in [*some, *((size, None) for size in sorted(absent))][:lacks]:
                if missing > gone:
                    continue
                gone -= missing
                if key is None:
                    self._gone[place] += 1
                else:
                    self._forgiven[key] = self._forgiven.get(key, 0) + missing

    def _count_in(self, key: Key, statuses: frozenset[TaskStatus]) -> int:
        return sum(self._counts[key, status] for status in statuses)

    def _count(self, key: Key, task: Task, status: TaskStatus, step: int) -> None:
        self._counts[key, status] += step
        if task.best_effort and status is TaskStatus.PENDING:
            self._idlers[key] += step


NO_ROLES: Counter[tuple[str, TaskStatus]] = Counter()
"""Shared empty counts of jobs without role minimums; never written to."""

UNCHANGED: dict[TaskId, tuple[TaskStatus, str | None]] = {}
"""Shared empty record of jobs without status changes; never written to."""


class JobState:
    """A Job, and the changes that this cycle has made to its tasks.

    Only Statement changes tasks (through `move`). Actions change `phase`; plugins only read.
    """

    __slots__ = (
        *("_moved", "counts", "job", "minimum", "minimum_of", "owed", "pending_best_effort"),
        *("phase", "protected"),
        "ready_tasks",
        *("role_counts", "scheduled_tasks", "fully_scheduled", "sub_groups", "valid_tasks"),
    )

    def __init__(self, job: Job, rules: CycleRules = cycle_rules.DEFAULT) -> None:
        self.job = job
        self.phase = job.state.phase
        self.minimum, self.minimum_of = rules.minimums(job)
        """How many tasks must have nodes before any is bound, in all and by role: minMember and
        minTaskMember, or less for a PodGroup that is being refilled."""
        self.owed = True
        """Whether anything may be reserved for the group."""
        self.protected = job.protected
        """Whether the PodGroup's annotation forbids evictions. Volcano checks this annotation in
        gangpreempt and gangreclaim only."""
        self.fully_scheduled = job.fully_scheduled
        """Whether the job requests nothing; becomes false when a task moves."""
        self.counts = job.counts
        """Shared with the job until a task moves, since most jobs never change in a cycle."""
        self.ready_tasks = job.ready_tasks
        """Tasks that count towards minMember (Volcano: ReadyTaskNum)."""
        self.valid_tasks = job.valid_tasks
        """Tasks that can still be members of the gang (Volcano: ValidTaskNum)."""
        self.scheduled_tasks = job.scheduled_tasks
        """Tasks that count towards the phase Running."""
        self.role_counts = NO_ROLES
        """Task counts by role and status; only maintained for jobs with role minimums."""
        self._moved = UNCHANGED
        self.pending_best_effort = job.pending_best_effort
        """Pending tasks that request no resources; such tasks count as ready (Volcano: IsReady)."""
        if job.min_task_member:
            self.role_counts = Counter((task.role, task.status) for task in job.tasks)
        self.sub_groups: SubGroups | None = None
        """None if the job has no sub-group policies."""
        if job.sub_groups:
            self.sub_groups = SubGroups(job, rules)

    def status(self, task: Task) -> TaskStatus:
        """Return the task's current status."""
        moved = self._moved.get(task.uid)
        return task.status if moved is None else moved[0]

    def node(self, task: Task) -> str | None:
        """Return the node that the task currently runs on, or is placed on."""
        moved = self._moved.get(task.uid)
        return task.node if moved is None else moved[1]

    def move(self, task: Task, status: TaskStatus, node: str | None) -> None:
        """Record a new status and node. A return to the snapshot's values removes the record."""
        if self._moved is UNCHANGED:
            self._moved = {}
        self.fully_scheduled = False
        before = self.status(task)
        counts = dict(self.counts) if self.counts is self.job.counts else self.counts
        counts[before] -= 1
        counts[status] += 1
        self.counts = counts
        self.ready_tasks += (status in READY) - (before in READY)
        self.valid_tasks += (status in VALID) - (before in VALID)
        self.scheduled_tasks += (status in SCHEDULED) - (before in SCHEDULED)
        if task.best_effort:
            pending = TaskStatus.PENDING
            self.pending_best_effort += (status is pending) - (before is pending)
        if self.job.min_task_member:
            self.role_counts[task.role, before] -= 1
            self.role_counts[task.role, status] += 1
        if self.sub_groups is not None:
            self.sub_groups.move(task, before, status)
        if (status, node) == (task.status, task.node):
            self._moved.pop(task.uid, None)
        else:
            self._moved[task.uid] = (status, node)

    def tasks(self, status: TaskStatus) -> Iterator[Task]:
        """Iterate over the tasks with this current status, by UID."""
        return (task for task in self.job.tasks if self.status(task) is status)

    @property
    def waiting_tasks(self) -> int:
        """Tasks that wait for resources being released (Volcano: WaitingTaskNum)."""
        return self.counts[TaskStatus.PIPELINED]

    @property
    def missing_tasks(self) -> int:
        """How many more tasks the job needs nodes for to start, or to grow by one; at least 1."""
        return max(1, self.minimum - self.ready_tasks - self.waiting_tasks)

    @property
    def has_minimum(self) -> bool:
        """Whether the minimum is reached, regardless of roles (Volcano: JobInfo.IsReady)."""
        return self.ready_tasks + self.pending_best_effort >= self.minimum

    def reaches(self, statuses: frozenset[TaskStatus], *, idlers: bool = True) -> bool:
        """Whether tasks in these statuses, READY or PLACED, reach all minimums: of the job, the
        roles and the sub-groups. With `idlers`, waiting best-effort pods count.
        """
        job = self.job
        placed = self.ready_tasks + (self.pending_best_effort if idlers else 0)
        if statuses is not READY:
            placed += self.waiting_tasks
        if placed < self.minimum:
            return False
        if job.roles_count and not all(
            self._has_role(role, minimum, statuses, idlers=idlers)
            for role, minimum in self.minimum_of.items()
        ):
            return False
        groups = self.sub_groups
        return groups is None or groups.lacking(statuses, idlers=idlers) is None

    def may_become_ready(self, failed_roles: Collection[str]) -> bool:
        """Whether to go on placing tasks after tasks of these roles found no node.

        Volcano: JobInfo.NeedContinueAllocating.
        """
        job = self.job
        if self.minimum == job.task_count:
            return False
        if job.min_member < job.role_minimum:
            left = sum(
                count
                for (role, status), count in self.role_counts.items()
                if status is TaskStatus.PENDING and role not in failed_roles
            )
            return self.ready_tasks + left >= self.minimum
        return all(
            self.role_tasks(role, READY) >= self.minimum_of.get(role, 0) for role in failed_roles
        )

    def lacks_role(self, task: Task) -> bool:
        """Whether the task's role has fewer placed tasks than the role's minimum."""
        least = self.minimum_of.get(task.role, 0) if self.job.roles_count else 0
        return least > 0 and self.role_tasks(task.role, PLACED) < least

    def spares(self, task: Task) -> bool:
        """Whether all minimums hold without this task: of the job, the role and the sub-group. A
        gang that is evicted whole or not at all spares none.
        """
        if self.job.goes_whole:
            return False
        # A pod that is placed in this cycle may still fail to be bound.
        kept = self.ready_tasks - self.counts[TaskStatus.ALLOCATED]
        if kept <= self.job.min_member:
            return False
        if self.sub_groups is not None and not self.sub_groups.spares(task):
            return False
        least = self.job.min_task_member.get(task.role, 0) if self.job.roles_count else 0
        return not least or self.role_tasks(task.role, READY) > least

    def role_tasks(self, role: str, statuses: frozenset[TaskStatus]) -> int:
        """Count the tasks of a role in these statuses."""
        return sum(self.role_counts[role, status] for status in statuses)

    def _has_role(
        self, role: str, minimum: int, statuses: frozenset[TaskStatus], *, idlers: bool
    ) -> bool:
        missing = minimum - self.role_tasks(role, statuses)
        if missing <= 0 or not (idlers and self.pending_best_effort):
            return missing <= 0
        pending = self.tasks(TaskStatus.PENDING)
        return missing <= sum(task.best_effort and task.role == role for task in pending)

    @property
    def starts_singly(self) -> bool:
        """Whether each pod of the job can start without the others."""
        return self.job.min_member <= 1 and not self.job.roles_count and not self.sub_groups

    @property
    def untouched(self) -> bool:
        """Whether every task has the status and node of the snapshot."""
        return not self._moved


def is_ready(dispatch: Dispatch, state: JobState) -> bool:
    """Whether the minimum of the job can start now, including the best-effort members it needs."""
    return dispatch.all_agree(AllHooks.job_ready, state) and not rests(dispatch, state, READY)


def rests(dispatch: Dispatch, state: JobState, statuses: frozenset[TaskStatus]) -> bool:
    """Whether the minimum is reached in these statuses, READY or PLACED, only by counting waiting
    best-effort members. False if no plugin asks for a minimum.
    """
    return (
        state.pending_best_effort > 0
        and not state.reaches(statuses, idlers=False)
        and state.reaches(statuses)
        and dispatch.asks(AllHooks.job_ready)
    )
