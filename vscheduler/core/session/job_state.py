"""Gang: a Job's working copy inside one cycle, with its sub-groups (spec.subGroupPolicy)."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

from vscheduler.core.model import jobs
from vscheduler.core.session import dispatch

Key: TypeAlias = tuple[int, tuple[str, ...]]
"""A sub-group: the place of its policy, and the values of the labels that it goes by."""


class SubGroups:
    """The sub-groups of one job, with how many of their pods stand how.

    A pod is in the first policy that it matches. A sub-group is whole when as many of its pods as
    its policy's size have a place; pods that ask for nothing count while they wait (Volcano:
    SubJobInfo.IsReady).
    """

    __slots__ = ("_counts", "_idlers", "_keys", "_policies")

    def __init__(self, job: jobs.Job, *, as_volcano: bool = False) -> None:
        self._policies = job.sub_groups
        self._keys: dict[jobs.TaskId, Key] = {}
        self._counts: Counter[tuple[Key, jobs.TaskStatus]] = Counter()
        self._idlers: Counter[Key] = Counter()
        for task in job.tasks:
            key = self._find(task, as_volcano=as_volcano)
            if key is not None:
                self._keys[task.uid] = key
                self._count(key, task, task.status, 1)

    def of(self, task: jobs.Task) -> Key | None:
        """The sub-group that the task is in; None where it is in none, and stands by itself."""
        return self._keys.get(task.uid)

    def move(self, task: jobs.Task, before: jobs.TaskStatus, after: jobs.TaskStatus) -> None:
        """The task's status has changed."""
        key = self.of(task)
        if key is not None:
            self._count(key, task, before, -1)
            self._count(key, task, after, 1)

    def is_whole(
        self, key: Key, statuses: frozenset[jobs.TaskStatus], *, idlers: bool = True
    ) -> bool:
        """Whether enough of its pods stand in one of these statuses; idlers: pods that ask for
        nothing count while they wait.
        """
        counted = idlers and jobs.TaskStatus.PENDING not in statuses
        waiting = self._idlers[key] if counted else 0
        return self._standing(key, statuses) + waiting >= self._policies[key[0]].size

    def lacking(
        self, statuses: frozenset[jobs.TaskStatus], *, idlers: bool = True
    ) -> tuple[jobs.SubGroup, int] | None:
        """The first policy with fewer whole sub-groups than it needs, and how many it has.

        Volcano: JobInfo.checkSubJobCondition.
        """
        whole = self._whole(statuses, idlers=idlers)
        for place, policy in enumerate(self._policies):
            if whole[place] < policy.minimum:
                return policy, whole[place]
        return None

    def spares(self, task: jobs.Task) -> bool:
        """Whether this task may go and no sub-group that is whole loses what it needs."""
        key = self.of(task)
        if key is None or not self.is_whole(key, jobs.READY):
            return True
        return self._standing(key, jobs.READY) > self._policies[key[0]].size

    def completes(self, placed: Iterable[jobs.Task]) -> bool:
        """Whether every sub-group that one of these tasks is in is whole now, or will be."""
        keys = {self.of(task) for task in placed}
        return all(key is None or self.is_whole(key, jobs.PLACED) for key in keys)

    def short(self, tasks: Iterable[jobs.Task]) -> tuple[Key, int, int] | None:
        """The first sub-group of one of these tasks that can't become whole, how many of its pods
        are placed or could be, and how many are behind gates.
        """
        for key in dict.fromkeys(map(self.of, tasks)):
            if key is None:
                continue
            gated = self._counts[key, jobs.TaskStatus.GATED]
            usable = self._standing(key, jobs.VALID) - gated
            if usable < self._policies[key[0]].size:
                return key, usable, gated
        return None

    def gathered(self, tasks: Iterable[jobs.Task]) -> list[jobs.Task]:
        """These tasks with those of a sub-group side by side, in their order otherwise.

        Sub-groups that have lost pods come first, then those that the job can't start without,
        then the others (Volcano: SubJobOrderFn, minSubGroups first).
        """
        ordered = list(tasks)
        whole = self._whole(jobs.PLACED)
        first: dict[Key, int] = {}
        ranks: dict[jobs.TaskId, tuple[int, int]] = {}
        for place, task in enumerate(ordered):
            key = self.of(task)
            if key is None:
                ranks[task.uid] = (1, place)
            else:
                ranks[task.uid] = (self._rank(key, whole), first.setdefault(key, place))
        return sorted(ordered, key=lambda task: ranks[task.uid])

    def _find(self, task: jobs.Task, *, as_volcano: bool) -> Key | None:
        """Volcano: getOrCreateSubJob; there, pods of a policy without keys stand by themselves,
        so that its minSubGroups can't be met. Here they are one sub-group.
        """
        for place, policy in enumerate(self._policies):
            if as_volcano and not policy.keys:
                continue
            values = policy.values(task.labels)
            if values is not None:
                return place, values
        return None

    def _rank(self, key: Key, whole: Counter[int]) -> int:
        if self.is_whole(key, jobs.PLACED):
            return 2
        if self._standing(key, jobs.PLACED):
            return 0
        return 1 if whole[key[0]] < self._policies[key[0]].minimum else 2

    def _whole(self, statuses: frozenset[jobs.TaskStatus], *, idlers: bool = True) -> Counter[int]:
        """How many sub-groups of each policy are whole."""
        keys = set(self._keys.values())
        return Counter(key[0] for key in keys if self.is_whole(key, statuses, idlers=idlers))

    def _standing(self, key: Key, statuses: frozenset[jobs.TaskStatus]) -> int:
        return sum(self._counts[key, status] for status in statuses)

    def _count(self, key: Key, task: jobs.Task, status: jobs.TaskStatus, step: int) -> None:
        self._counts[key, status] += step
        if task.best_effort and status is jobs.TaskStatus.PENDING:
            self._idlers[key] += step


NO_ROLES: Counter[tuple[str, jobs.TaskStatus]] = Counter()
"""What jobs without role minima count; never written to."""

NOBODY: dict[jobs.TaskId, tuple[jobs.TaskStatus, str | None]] = {}
"""Who has moved in a job of which nobody has; never written to."""


class JobState:
    """A Job, and what this cycle has done with its tasks so far.

    Only Statement moves tasks (through `move`); actions change `phase` and `unplaced`; plugins
    only read.
    """

    __slots__ = (
        *("_moved", "counts", "job", "pending_best_effort", "phase", "protected", "ready_tasks"),
        *("role_counts", "scheduled_tasks", "settled", "sub_groups", "valid_tasks"),
    )

    def __init__(self, job: jobs.Job, *, as_volcano: bool = False) -> None:
        self.job = job
        self.phase = job.state.phase
        self.protected = job.protected and not as_volcano
        """Whether its PodGroup says that nobody may be evicted from it. Volcano asks for that in
        gangpreempt and gangreclaim only."""
        self.settled = job.settled
        """Whether there is nothing that it could ask for: until a task moves, no more."""
        self.counts = job.counts
        """The job's own until a task moves: most never do."""
        self.ready_tasks = job.ready_tasks
        """Tasks that count towards minMember (Volcano: ReadyTaskNum)."""
        self.valid_tasks = job.valid_tasks
        """Tasks that can still make up the gang (Volcano: ValidTaskNum)."""
        self.scheduled_tasks = job.scheduled_tasks
        """Tasks that make up a running group."""
        self.role_counts = NO_ROLES
        """By role and status; only kept where the job has role minima."""
        self._moved = NOBODY
        self.pending_best_effort = job.pending_best_effort
        """Pending tasks that ask for nothing: they count as ready (Volcano: IsReady)."""
        if job.min_task_member:
            self.role_counts = Counter((task.role, task.status) for task in job.tasks)
        self.sub_groups: SubGroups | None = None
        """Only of a job that has policies for them."""
        if job.sub_groups:
            self.sub_groups = SubGroups(job, as_volcano=as_volcano)

    def status(self, task: jobs.Task) -> jobs.TaskStatus:
        """Where the task stands now."""
        moved = self._moved.get(task.uid)
        return task.status if moved is None else moved[0]

    def node(self, task: jobs.Task) -> str | None:
        """The node that the task is on, or has room on, now."""
        moved = self._moved.get(task.uid)
        return task.node if moved is None else moved[1]

    def move(self, task: jobs.Task, status: jobs.TaskStatus, node: str | None) -> None:
        """Note a new status and node; back to what the snapshot says leaves no trace."""
        if self._moved is NOBODY:
            self._moved = {}
        self.settled = False
        before = self.status(task)
        counts = dict(self.counts) if self.counts is self.job.counts else self.counts
        counts[before] -= 1
        counts[status] += 1
        self.counts = counts
        self.ready_tasks += (status in jobs.READY) - (before in jobs.READY)
        self.valid_tasks += (status in jobs.VALID) - (before in jobs.VALID)
        self.scheduled_tasks += (status in jobs.SCHEDULED) - (before in jobs.SCHEDULED)
        if task.best_effort:
            pending = jobs.TaskStatus.PENDING
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

    def tasks(self, status: jobs.TaskStatus) -> Iterator[jobs.Task]:
        """The tasks that stand so now, by UID."""
        return (task for task in self.job.tasks if self.status(task) is status)

    @property
    def waiting_tasks(self) -> int:
        """Tasks that wait for room that is being freed (Volcano: WaitingTaskNum)."""
        return self.counts[jobs.TaskStatus.PIPELINED]

    @property
    def has_minimum(self) -> bool:
        """Whether minMember is reached, roles aside (Volcano: JobInfo.IsReady)."""
        return self.ready_tasks + self.pending_best_effort >= self.job.min_member

    def reaches(self, statuses: frozenset[jobs.TaskStatus], *, idlers: bool = True) -> bool:
        """Whether all minima are reached in these statuses, READY or PLACED: of the job, its
        roles, its sub-groups; idlers: pods that ask for nothing count while they wait.
        """
        job = self.job
        placed = self.ready_tasks + (self.pending_best_effort if idlers else 0)
        if statuses is not jobs.READY:
            placed += self.waiting_tasks
        if placed < job.min_member:
            return False
        if job.roles_count and not all(
            self._has_role(role, minimum, statuses, idlers=idlers)
            for role, minimum in job.min_task_member.items()
        ):
            return False
        groups = self.sub_groups
        return groups is None or groups.lacking(statuses, idlers=idlers) is None

    def may_become_ready(self, failed_roles: Collection[str]) -> bool:
        """After tasks of these roles found no node, whether the others are worth trying.

        Volcano: JobInfo.NeedContinueAllocating.
        """
        job = self.job
        if job.min_member == len(job.tasks):
            return False
        if job.min_member < job.role_minimum:
            left = sum(
                count
                for (role, status), count in self.role_counts.items()
                if status is jobs.TaskStatus.PENDING and role not in failed_roles
            )
            return self.ready_tasks + left >= job.min_member
        return all(
            self.role_tasks(role, jobs.READY) >= job.min_task_member.get(role, 0)
            for role in failed_roles
        )

    def lacks_role(self, task: jobs.Task) -> bool:
        """Whether the task's role has less than its minimum placed."""
        least = self.job.min_task_member.get(task.role, 0) if self.job.roles_count else 0
        return least > 0 and self.role_tasks(task.role, jobs.PLACED) < least

    def spares(self, task: jobs.Task) -> bool:
        """Whether this task may go and all minima stay: of the job, its roles, its sub-groups."""
        # A pod that is placed in this cycle may still fail to be bound.
        settled = self.ready_tasks - self.counts[jobs.TaskStatus.ALLOCATED]
        if settled <= self.job.min_member:
            return False
        if self.sub_groups is not None and not self.sub_groups.spares(task):
            return False
        least = self.job.min_task_member.get(task.role, 0) if self.job.roles_count else 0
        return not least or self.role_tasks(task.role, jobs.READY) > least

    def role_tasks(self, role: str, statuses: frozenset[jobs.TaskStatus]) -> int:
        """Tasks of a role that stand in one of these statuses."""
        return sum(self.role_counts[role, status] for status in statuses)

    def _has_role(
        self, role: str, minimum: int, statuses: frozenset[jobs.TaskStatus], *, idlers: bool
    ) -> bool:
        missing = minimum - self.role_tasks(role, statuses)
        if missing <= 0 or not (idlers and self.pending_best_effort):
            return missing <= 0
        pending = self.tasks(jobs.TaskStatus.PENDING)
        return missing <= sum(task.best_effort and task.role == role for task in pending)

    @property
    def untouched(self) -> bool:
        """Whether every task stands where the snapshot has it."""
        return not self._moved


def is_ready(asked: dispatch.Dispatch, gang: JobState) -> bool:
    """Whether the minimum has room now, best-effort members that it needs included."""
    return asked.all_agree("job_ready", gang) and not rests(asked, gang, jobs.READY)


def rests(asked: dispatch.Dispatch, gang: JobState, statuses: frozenset[jobs.TaskStatus]) -> bool:
    """Whether the minimum is reached in these statuses, READY or PLACED, only as best-effort
    members that wait are counted. Where no plugin asks for a minimum it never is.
    """
    return (
        gang.pending_best_effort > 0
        and not gang.reaches(statuses, idlers=False)
        and gang.reaches(statuses)
        and asked.asks("job_ready")
    )
