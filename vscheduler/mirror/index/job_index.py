"""PodGroups and their pods, as the Jobs that this scheduler owns."""

import bisect
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vscheduler.core.model import jobs
from vscheduler.mirror.translate import pods, translation

MANY = 100
"""Jobs that came or changed: more of them are let come together, whole or not."""


STARTED = (jobs.Phase.RUNNING, jobs.Phase.UNKNOWN)
"""Phases that say that pods run."""


class JobIndex:
    """Jobs sorted by id; only jobs whose group, pods or priority changed are made anew."""

    def __init__(
        self,
        work: Counter[str],
        *,
        scheduler_names: tuple[str, ...],
        claim_unowned: bool,
        priority_classes: bool,
    ) -> None:
        self._work = work
        self._scheduler_names = scheduler_names
        self._claim_unowned = claim_unowned
        self._use_priorities = priority_classes
        self._groups: dict[jobs.JobId, translation.Group] = {}
        self._members: dict[jobs.JobId, dict[jobs.TaskId, pods.Pod]] = {}
        """Pods of all schedulers by the group that they name, there or not."""
        self._stray: dict[jobs.JobId, None] = {}
        """Groups that pods name and that aren't there."""
        self._left: set[jobs.JobId] = set()
        """Groups of which the last pods went, and were ours."""
        self._loners: dict[jobs.TaskId, pods.Pod] = {}
        """Pods of ours that name no group."""
        self._priorities: dict[str, translation.PriorityClass] = {}
        self._default_priority = 0
        self._told: list[Callable[[jobs.JobId], object]] = []
        self._dirty: set[jobs.JobId] = set()
        self._ids: list[jobs.JobId] = []
        self._jobs: list[jobs.Job] = []
        """The owned jobs, in the order of _ids."""
        self._frozen: tuple[jobs.Job, ...] | None = ()

    def serve(self, scheduler_names: tuple[str, ...]) -> None:
        """Whose PodGroups are ours, of those without pods."""
        self._scheduler_names = scheduler_names
        self._dirty.update(self._groups)

    def subscribe(self, told: Callable[[jobs.JobId], object]) -> Callable[[], None]:
        """Name each group whose pods come, change or go, until what is given is called."""
        self._told.append(told)
        return lambda: self._told.remove(told)

    def move_group(self, key: jobs.JobId, new: translation.Group | None) -> None:
        """The PodGroup came, changed or went (None)."""
        known = self._groups.get(key)
        if new is None or (known is not None and known.job.uid != new.job.uid):
            self._left.discard(key)
        if new is None:
            del self._groups[key]
        else:
            self._groups[key] = new
        self._touch(key)

    def move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
        """The pod came, changed or went."""
        if old is not None:
            if old.group is None:
                self._loners.pop(old.uid, None)
            else:
                del self._members[old.group][old.uid]
                if old.ours and old.group in self._groups and not self._members[old.group]:
                    self._left.add(old.group)
                self._touch(old.group)
                self._tell(old.group)
        if new is not None:
            if new.group is not None:
                self._members.setdefault(new.group, {})[new.uid] = new
                self._left.discard(new.group)
                self._touch(new.group)
                self._tell(new.group)
            elif new.ours:
                self._loners[new.uid] = new

    def move_priority(self, name: str, new: translation.PriorityClass | None) -> None:
        """The PriorityClass came, changed or went: groups whose priority it changes are dirty."""
        before = {key: self._priority(group) for key, group in self._groups.items()}
        if new is None:
            del self._priorities[name]
        else:
            self._priorities[name] = new
        defaults = [each.value for each in self._priorities.values() if each.is_default]
        self._default_priority = min(defaults, default=0)
        self._dirty.update(
            key for key, group in self._groups.items() if self._priority(group) != before[key]
        )

    def owned(self) -> tuple[jobs.Job, ...]:
        """The jobs that are ours, sorted by id."""
        for key in self._dirty:
            self._place(key, self._job(key))
        if self._dirty or self._frozen is None:
            self._frozen = tuple(self._jobs)
            self._dirty.clear()
        return self._frozen

    def more_to_come(self) -> bool:
        """Whether a job that came or changed has fewer pods than its minimum, or pods have no
        group yet; also where a great many came.
        """
        return len(self._dirty) > MANY or any(map(self._lacks_pods, self._dirty))

    @property
    def groups(self) -> Mapping[jobs.JobId, translation.Group]:
        """The PodGroups that are there."""
        return MappingProxyType(self._groups)

    def members(self, key: jobs.JobId) -> Collection[pods.Pod]:
        """All pods that name this PodGroup, of whatever scheduler."""
        return self._members.get(key, {}).values()

    def ungrouped(self) -> Iterable[pods.Pod]:
        """Pods of ours that can't be placed, as they name no PodGroup or one that isn't there."""
        yield from self._loners.values()
        for key in self._stray:
            yield from (pod for pod in self._members[key].values() if pod.ours)

    def _touch(self, key: jobs.JobId) -> None:
        self._dirty.add(key)
        if not self._members.get(key):
            self._members.pop(key, None)
            self._stray.pop(key, None)
        elif key in self._groups:
            self._stray.pop(key, None)
        else:
            self._stray[key] = None

    def _tell(self, key: jobs.JobId) -> None:
        for told in self._told:
            told(key)

    def _place(self, key: jobs.JobId, job: jobs.Job | None) -> None:
        at = bisect.bisect_left(self._ids, key)
        known = at < len(self._ids) and self._ids[at] == key
        if job is None:
            if known:
                del self._ids[at], self._jobs[at]
        elif known:
            self._jobs[at] = job
        else:
            self._ids.insert(at, key)
            self._jobs.insert(at, job)

    def _job(self, key: jobs.JobId) -> jobs.Job | None:
        group = self._groups.get(key)
        if group is None:
            return None
        members = self.members(key)
        if not self._is_ours(group, members):
            return None
        self._work["jobs"] += 1
        tasks = [pod.task for pod in members if pod.task is not None]
        tallied: dict[str, Any] = jobs.tally(tasks)
        if len(tasks) < len(members):
            tallied["rejections"] = _rejections(members)
        return replace(group.job, priority=self._priority(group), **tallied)

    def _lacks_pods(self, key: jobs.JobId) -> bool:
        group, members = self._groups.get(key), self.members(key)
        return bool(members) if group is None else len(members) < max(1, group.job.min_member)

    def _is_ours(self, group: translation.Group, members: Collection[pods.Pod]) -> bool:
        """Whether the group is ours: by its pods, else by its annotation, else if we claim all,
        else until its status says no more that pods run which have gone.

        A group with pods of several schedulers is a mistake that nobody can make good: each of
        them owns it with its own pods.
        """
        if members:
            return any(pod.ours for pod in members)
        if group.scheduler:
            return group.scheduler in self._scheduler_names
        job = group.job
        return self._claim_unowned or (job.id in self._left and job.state.phase in STARTED)

    def _priority(self, group: translation.Group) -> int:
        """The value of the group's PriorityClass, else of the default one, else 0.

        Of several default ones the lowest counts, as in Kubernetes' admission.
        """
        if not self._use_priorities:
            return 0
        found = self._priorities.get(group.priority_class)
        return self._default_priority if found is None else found.value


def _rejections(members: Collection[pods.Pod]) -> tuple[jobs.InvalidPod, ...]:
    """Pods of ours that wait and can't be used, by name."""
    found = [
        jobs.InvalidPod(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.key.partition("/")[2],
            field=pod.rejection.field,
            message=pod.rejection.message,
            gated=pod.status is jobs.TaskStatus.GATED,
        )
        for pod in members
        if pod.rejection is not None and pod.ours and pod.status in jobs.WAITING
    ]
    return tuple(sorted(found, key=operator.attrgetter("name", "uid")))
