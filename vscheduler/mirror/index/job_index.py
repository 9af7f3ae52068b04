"""Index of PodGroups and pods, as the Jobs of this scheduler."""

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from vscheduler.mirror.decode.events import DecodeError, Kind
from vscheduler.mirror.translate.pods import NEVER, Pod
from vscheduler.mirror.translate.translation import Group, PriorityClass
from vscheduler.mirror.wording import gang_sentences
from vscheduler.model import jobs, jobs_by_id
from vscheduler.model.jobs import InvalidPod, Job, JobId, Phase, Task, TaskId, TaskStatus
from vscheduler.model.jobs_by_id import JobsById

MEMBERSHIP = "spec.schedulingGroup.podGroupName"
"""The field of a pod that names its PodGroup of Kubernetes' own API."""

MANY = 100
"""When more jobs than MANY are new or changed, further jobs are expected, whether gangs are whole
or not.
"""


class JobIndex:
    """Owned jobs sorted by ID; a job is recomputed after changes of PodGroup, pods or priority."""

    def __init__(
        self,
        work: Counter[str],
        *,
        scheduler_names: tuple[str, ...],
        claim_unowned: bool,
        priority_classes: bool,
        refused: Mapping[tuple[Kind, str], DecodeError] = MappingProxyType({}),
    ) -> None:
        """`refused` are the objects that can't be used, as they change."""
        self._work = work
        self._refused = refused
        self._scheduler_names = scheduler_names
        self._claim_unowned = claim_unowned
        self._use_priorities = priority_classes
        self._only_queue = ""
        """The queue of all jobs, while there are no Queues; else empty."""
        self._volcano_served = True
        """Whether Volcano's PodGroups are served."""
        self._groups: dict[JobId, Group] = {}
        self._unqueued: dict[JobId, None] = {}
        """PodGroups of Kubernetes' own API that name no queue."""
        self._members: dict[JobId, dict[TaskId, Pod]] = {}
        """Pods of all schedulers by the named PodGroup, whether the PodGroup exists or not."""
        self._missing_groups: dict[JobId, None] = {}
        """Missing PodGroups that pods name."""
        self._emptied: set[JobId] = set()
        """PodGroups whose last pods are gone and were ours."""
        self._succeeded_gone: dict[JobId, int] = {}
        """By PodGroup, how many of its pods succeeded and were deleted then."""
        self._interrupted: set[TaskId] = set()
        """Pods that succeeded only after their deletion was requested, as pods do that end well on
        SIGTERM: others have to replace them."""
        self._without_group: dict[TaskId, Pod] = {}
        """Our pods that name no PodGroup."""
        self._priorities: dict[str, PriorityClass] = {}
        self._default_priority = 0
        self._listeners: list[Callable[[JobId], object]] = []
        self._dirty: set[JobId] = set()
        self._owned = jobs_by_id.NO_JOBS

    def serve(self, scheduler_names: tuple[str, ...]) -> None:
        """Set the names of schedulers with a claim to PodGroups without pods."""
        self._scheduler_names = scheduler_names
        self._dirty.update(self._groups)

    def put_in(self, only_queue: str) -> None:
        """Let all jobs be in this queue, or if it is empty, in those that their PodGroups name."""
        self._only_queue = only_queue
        self._dirty.update(self._groups)

    def queue_of(self, group: Group) -> str:
        """Return the queue of a PodGroup; empty if the controllers have still to write it."""
        return group.job.queue and (self._only_queue or group.job.queue)

    def serve_volcano(self, *, served: bool) -> None:
        """Say whether Volcano's PodGroups are served; if not, pods that name one are told so."""
        self._volcano_served = served
        self._dirty.update(self._missing_groups)

    def subscribe(self, listener: Callable[[JobId], object]) -> Callable[[], None]:
        """Call `listener` with the PodGroup of each changed pod, until unsubscribed."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _notify(self, key: JobId) -> None:
        for listener in self._listeners:
            listener(key)

    def move_group(self, key: JobId, new: Group | None) -> None:
        """Apply an added, changed or deleted (None) PodGroup."""
        group = self._groups.get(key)
        if new is None or (group is not None and group.job.uid != new.job.uid):
            self._emptied.discard(key)
            self._succeeded_gone.pop(key, None)
        self._unqueued.pop(key, None)
        if new is None:
            del self._groups[key]
        else:
            self._groups[key] = new
            if not new.job.queue:
                self._unqueued[key] = None
        self._touch(key)

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply an added, changed or deleted (None) pod."""
        if old is not None:
            if old.group is None:
                self._without_group.pop(old.uid, None)
            else:
                del self._members[old.group][old.uid]
                self._note_end(old, new)
                if old.ours and old.group in self._groups and not self._members[old.group]:
                    self._emptied.add(old.group)
                self._touch(old.group)
                if new is None or new.group != old.group:
                    self._notify(old.group)
        if new is not None:
            if new.group is not None:
                self._members.setdefault(new.group, {})[new.uid] = new
                self._emptied.discard(new.group)
                self._touch(new.group)
                self._notify(new.group)
            elif new.ours:
                self._without_group[new.uid] = new

    def move_priority(self, name: str, new: PriorityClass | None) -> None:
        """Apply an added, changed or deleted (None) PriorityClass; recompute PodGroups with a new
        priority.
        """
        before = {key: self._priority(group) for key, group in self._groups.items()}
        if new is None:
            del self._priorities[name]
        else:
            self._priorities[name] = new
        defaults = [priority.value for priority in self._priorities.values() if priority.is_default]
        self._default_priority = min(defaults, default=0)
        self._dirty.update(
            key for key, group in self._groups.items() if self._priority(group) != before[key]
        )

    def owned(self) -> JobsById:
        """Return our jobs."""
        self._owned = self._owned.changed({key: self._job(key) for key in self._dirty})
        self._dirty.clear()
        return self._owned

    def more_to_come(self) -> bool:
        """Whether more pods are likely to follow: a new or changed job is below minMember, pods
        wait for a PodGroup, or more than MANY jobs changed.
        """
        return len(self._dirty) > MANY or any(map(self._lacks_pods, self._dirty))

    @property
    def groups(self) -> Mapping[JobId, Group]:
        """All known PodGroups."""
        return MappingProxyType(self._groups)

    @property
    def unqueued(self) -> Collection[JobId]:
        """Known PodGroups without a queue, all of Kubernetes' own API."""
        return self._unqueued.keys()

    def members(self, key: JobId) -> Collection[Pod]:
        """Return the pods of all schedulers that name this PodGroup."""
        return self._members.get(key, {}).values()

    def ungrouped(self) -> Iterable[Pod]:
        """Iterate over our unplaceable pods: the PodGroup is unnamed or missing."""
        yield from self._without_group.values()
        for key in self._missing_groups:
            yield from (pod for pod in self._members[key].values() if pod.ours)

    def _note_end(self, old: Pod, new: Pod | None) -> None:
        """Count a member of a PodGroup that succeeded and is deleted now.

        Pods that are older than the PodGroup were members of another one of its name. Without any
        pod, the PodGroup is free for a new gang.
        """
        assert old.group is not None
        if new is not None:
            if (old.status, new.status) == (TaskStatus.RELEASING, TaskStatus.SUCCEEDED):
                self._interrupted.add(old.uid)
            return
        group, ended = self._groups.get(old.group), self._succeeded_gone.get(old.group)
        if not self._members[old.group]:
            self._succeeded_gone[old.group] = 0
        elif group is not None and ended is not None and self._has_succeeded(old, group):
            self._succeeded_gone[old.group] = ended + 1
        self._interrupted.discard(old.uid)

    def _has_succeeded(self, pod: Pod, group: Group) -> bool:
        task = pod.task
        return (
            task is not None
            and task.status is TaskStatus.SUCCEEDED
            and task.created >= group.job.created
            and pod.uid not in self._interrupted
        )

    def _count_gone(self, group: Group, succeeded: int, *, any_left: bool) -> int:
        """Return how many pods of the PodGroup succeeded and don't exist any more.

        What happened before this process is read from `status.succeeded`, which counts them.
        """
        key = group.job.id
        if key not in self._succeeded_gone:
            goes_on = any_left and group.job.state.phase is not Phase.COMPLETED
            stored = group.job.state.succeeded if goes_on else 0
            self._succeeded_gone[key] = max(0, stored - succeeded)
        return self._succeeded_gone[key]

    def _touch(self, key: JobId) -> None:
        self._dirty.add(key)
        if not self._members.get(key):
            self._members.pop(key, None)
            self._missing_groups.pop(key, None)
        elif key in self._groups:
            self._missing_groups.pop(key, None)
        else:
            self._missing_groups[key] = None

    def _job(self, key: JobId) -> Job | None:
        group, members = self._groups.get(key), self.members(key)
        if group is None:
            tell = jobs.is_native(key) or not self._volcano_served
            why = gang_sentences.no_group(key, self._refused, served=self._volcano_served)
            return _told(key, members, why) if tell else None
        queue = self.queue_of(group)
        if not queue:
            return _told(key, members, group.defect or gang_sentences.no_queue(key))
        if not self._is_ours(group, members):
            return None
        self._work["jobs"] += 1
        defect = self._defect(group, members) if jobs.is_native(key) else group.defect
        tasks = [pod.task for pod in members if pod.task is not None]
        if defect:
            tasks = [task for task in tasks if task.status not in jobs.WAITING]
        tallied: dict[str, Any] = jobs.tally(tasks)
        if len(tasks) < len(members):
            tallied["defect"] = defect
            tallied["rejections"] = _rejections(members, defect)
        counts = tallied["counts"]
        gone = self._count_gone(group, counts[TaskStatus.SUCCEEDED], any_left=bool(members))
        if gone:
            counts[TaskStatus.SUCCEEDED] += gone
            tallied["succeeded_gone"] = gone
        of_class = self._priority(group)
        own = bool(group.priority_class) or group.priority is not None
        priority = of_class if own else self._priority_of_pods(tasks, of_class)
        return replace(
            group.job, queue=queue, priority=priority, class_priority=of_class, **tallied
        )

    def _defect(self, group: Group, members: Iterable[Pod]) -> str:
        """Return in which way the pods contradict their PodGroup; empty if they don't.

        Kubernetes: a PodGroupError of kube-scheduler.
        """
        if group.defect:
            return group.defect
        living = [pod for pod in members if pod.status not in jobs.FINISHED]
        if len({pod.scheduler for pod in living}) > 1:
            return "its pods name several schedulers in spec.schedulerName; all must name one"
        if not self._use_priorities:
            return ""
        contradict = (
            pod.task for pod in living if pod.task is not None and _contradicts(pod.task, group)
        )
        task = min(contradict, key=lambda task: task.name, default=None)
        if task is None:
            return ""
        if task.pod_priority != group.priority:
            return (
                f"pod {task.name} has priority {task.pod_priority}, its PodGroup "
                f"{group.priority}; both must name the same PriorityClass"
            )
        return (
            f"pod {task.name} has another preemptionPolicy than its PodGroup "
            f"({group.preemption_policy}); both must name the same PriorityClass"
        )

    def refresh(self, key: JobId) -> None:
        """Look at a job again: what is known of its PodGroup has changed."""
        self._dirty.add(key)

    def _lacks_pods(self, key: JobId) -> bool:
        group, members = self._groups.get(key), self.members(key)
        return bool(members) if group is None else len(members) < max(1, group.job.min_member)

    def _is_ours(self, group: Group, members: Collection[Pod]) -> bool:
        """Whether the PodGroup is ours.

        The pods decide. Without pods the scheduler annotation decides. Without an annotation the
        PodGroup is ours if we claim all unowned PodGroups, or if our last pods of the group are
        gone while the phase still says Running.

        Nobody can repair a PodGroup with pods of several schedulers: each scheduler owns the
        PodGroup together with the scheduler's own pods.
        """
        if members:
            return any(pod.ours for pod in members)
        if group.scheduler:
            return group.scheduler in self._scheduler_names
        job = group.job
        claimed = self._claim_unowned and not jobs.is_native(job.id)
        return claimed or (job.id in self._emptied and job.state.phase in jobs.STARTED)

    def _priority(self, group: Group) -> int:
        """Return the value of the PodGroup's PriorityClass, else of the default PriorityClass, else
        0.

        Of several defaults the lowest counts, as in Kubernetes' admission.
        """
        if not self._use_priorities:
            return 0
        if group.priority is not None:
            return group.priority
        priority_class = self._priorities.get(group.priority_class)
        return self._default_priority if priority_class is None else priority_class.value

    def _priority_of_pods(self, tasks: Collection[Task], default: int) -> int:
        """Return the lowest spec.priority of the pods, for a PodGroup without a PriorityClass.

        `default` counts for pods without class and priority, and without pods.
        """
        if not self._use_priorities:
            return 0
        return min(
            (
                task.pod_priority if task.priority_class or task.pod_priority else default
                for task in tasks
            ),
            default=default,
        )


def _told(key: JobId, members: Collection[Pod], why: str) -> Job | None:
    """Return a job for pods that wait for their PodGroup, or its queue, and are told so."""
    waiting = _rejections(members, why)
    if not waiting:
        return None
    namespace, name = jobs.names_of(key)
    return Job(
        id=key,
        uid="",
        namespace=namespace,
        name=name,
        queue="",
        created=0.0,
        rejections=waiting,
        defect=why,
    )


def _contradicts(task: Task, group: Group) -> bool:
    """Whether a pod has another priority or preemptionPolicy than its PodGroup."""
    asks = group.preemption_policy
    return task.pod_priority != group.priority or (
        bool(asks) and task.never_preempts is not (asks == NEVER)
    )


def _membership(pod: Pod) -> str:
    """Return the field of a pod that is wrong if its group is; empty for annotations."""
    return MEMBERSHIP if pod.group is not None and jobs.is_native(pod.group) else ""


def _rejections(members: Collection[Pod], defect: str) -> tuple[InvalidPod, ...]:
    """Return our waiting pods that are unusable, by name: all of them if their PodGroup is."""
    rejected = [
        InvalidPod(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.key.partition("/")[2],
            field=pod.rejection.field if pod.rejection else _membership(pod),
            message=pod.rejection.message if pod.rejection else defect,
            gated=pod.status is TaskStatus.GATED,
        )
        for pod in members
        if (pod.rejection is not None or defect) and pod.ours and pod.status in jobs.WAITING
    ]
    return tuple(sorted(rejected, key=operator.attrgetter("name", "uid")))
