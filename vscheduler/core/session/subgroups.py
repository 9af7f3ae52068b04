"""Gangs within a gang: which of a job's pods start together (spec.subGroupPolicy)."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from vscheduler.core.model import jobs

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
