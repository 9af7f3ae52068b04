"""Task (a pod) and Job (a PodGroup with its pods)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType, Protocol, TypeVar

from vscheduler.core.model import constraints, resources

Value = TypeVar("Value")

TaskId = NewType("TaskId", str)
"""A pod's UID."""

JobId = NewType("JobId", str)
"""A PodGroup's `namespace/name`."""


class TaskStatus(StrEnum):
    """Where a task stands (Volcano: api.TaskStatus).

    Pending, Allocated and Pipelined come about inside a cycle; Binding is a bind that was sent
    and that the API server hasn't shown yet.
    """

    PENDING = "Pending"
    GATED = "Gated"
    ALLOCATED = "Allocated"
    PIPELINED = "Pipelined"
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


PREEMPTABLE = "volcano.sh/preemptable"
"""An annotation, else a label, of pods and of PodGroups."""

HOLDING = frozenset(
    {TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING}
)
"""Statuses that count as allocated to the queue (Volcano: AllocatedStatus)."""

EVICTABLE = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
"""Statuses of pods that may be asked to go (Volcano: PreemptableStatus)."""

READY = HOLDING | {TaskStatus.SUCCEEDED}
"""Statuses that count towards minMember (Volcano: ReadyTaskNum)."""

PLACED = READY | {TaskStatus.PIPELINED}
"""The same, and room that is being freed counts as well."""

VALID = PLACED | {TaskStatus.PENDING, TaskStatus.GATED}
"""Statuses of pods that can still make up a gang (Volcano: ValidTaskNum)."""

SCHEDULED = frozenset(
    {TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED}
)
"""Statuses that make a PodGroup Running at the end of a cycle (Binding is too early)."""

WAITING = (TaskStatus.PENDING, TaskStatus.GATED)
"""Statuses of pods without a node."""

NOBODY: Mapping[TaskStatus, int] = dict.fromkeys(TaskStatus, 0)
"""The counts of a job without tasks."""


class Phase(StrEnum):
    """A PodGroup's status.phase."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


YOUNG = (Phase.PENDING, Phase.INQUEUE)
"""Phases of groups that haven't started."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class PodClass:
    """What decides where a pod may go and how nodes score; equal pods share one object.

    Compared by identity, so that it is a cheap dictionary key: the Mirror interns classes. Two
    equal ones that aren't interned cost time and change nothing. It knows them by weak reference,
    so that a class is gone with its last pod.
    """

    request: Mapping[str, int]
    """Amounts by resource; `pods: 1` included."""
    constraints: constraints.Constraints = constraints.ANYWHERE
    hints: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the pod that plugins score and filter by (tdm, resource-strategy-fit)."""

    best_effort: bool = field(init=False)
    """Whether it asks for nothing but a pod slot."""

    def __post_init__(self) -> None:
        sizes = [amount for name, amount in self.request.items() if name != resources.PODS]
        object.__setattr__(self, "best_effort", not any(sizes))

    def equals(self, other: PodClass) -> bool:
        """Whether pods of both may go to the same nodes, interned or not."""
        return self is other or (self.request, self.constraints, self.hints) == (
            other.request,
            other.constraints,
            other.hints,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One pod of a job."""

    uid: TaskId
    namespace: str
    name: str
    job: JobId
    pod_class: PodClass
    status: TaskStatus
    created: float
    node: str | None = None
    """The node that it is on, or is being bound to."""
    role: str = ""
    """Volcano: annotation volcano.sh/task-spec."""
    priority: int = 1
    """Among our pods: volcano.sh/task-priority, else spec.priority."""
    pod_priority: int = 0
    """spec.priority, which is all that other schedulers go by."""
    index: int = -1
    """Volcano: the trailing number of a name with at least two dashes; -1 where there is none."""
    preemptable: bool = True
    never_preempts: bool = False
    """spec.preemptionPolicy is Never."""
    nominated_node: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """The pod's own; what budgets and other pods' affinity select by."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those below volcano.sh/ only."""
    priority_class: str = ""
    """spec.priorityClassName."""
    scheduled_at: float | None = None
    """When its node was found: condition PodScheduled, last transition; seconds."""

    @property
    def key(self) -> str:
        """`namespace/name`, as people write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def best_effort(self) -> bool:
        """Whether its pod asks for nothing but a slot."""
        return self.pod_class.best_effort


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidPod:
    """A pod of a job that waits and can't be used: no task, but its owner is told."""

    uid: TaskId
    namespace: str
    name: str
    field: str
    """What is wrong, as in a manifest: spec.resourceClaims."""
    message: str
    gated: bool = False
    """Whether it has scheduling gates, of which its condition tells already."""

    @property
    def key(self) -> str:
        """`namespace/name`, as people write it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGroup:
    """A policy that divides some of a job's pods into gangs of their own (spec.subGroupPolicy).

    Pods with the same values of the keys are one sub-group; without keys, all that the selector
    matches are.
    """

    name: str
    size: int = 1
    """How many pods a sub-group needs."""
    minimum: int = 0
    """How many whole sub-groups the job needs to start."""
    selector: constraints.Selector | None = None
    """None matches every pod."""
    keys: tuple[str, ...] = ()

    def values(self, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """What a pod with these labels has for the keys; None where the policy isn't about it.

        Volcano: getSubJobMatchValues.
        """
        if self.selector is not None and not self.selector.matches(labels):
            return None
        found = tuple(labels.get(key, "") for key in self.keys)
        return found if all(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of a PodGroup as it is stored."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition: str = ""
    """RFC 3339, as stored."""
    transition_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A PodGroup's stored status, which a new one is compared with."""

    phase: Phase = Phase.PENDING
    blank: bool = False
    """Whether no phase is stored that anybody knows: it counts as Pending, and is to be written."""
    conditions: tuple[Condition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One PodGroup and its pods, as they were when the snapshot was taken."""

    id: JobId
    uid: str
    namespace: str
    name: str
    queue: str
    created: float
    min_member: int = 1
    min_task_member: Mapping[str, int] = field(default_factory=dict)
    min_resources: resources.ResourceMap | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    hard_topology: str = ""
    """The field, if any, by which its pods or those of a sub-group must be near together in the
    network."""
    priority: int = 0
    state: GroupState = GroupState()
    tasks: tuple[Task, ...] = ()
    """Sorted by UID."""
    rejections: tuple[InvalidPod, ...] = ()
    """Its pods that aren't tasks. Sorted by name."""
    counts: dict[TaskStatus, int] = field(default_factory=dict)
    """How many tasks there are of each status, of every one."""
    allocated: resources.ResourceMap = field(default_factory=dict)
    """What its tasks in HOLDING have."""
    pending: resources.ResourceMap = field(default_factory=dict)
    """What its Pending tasks ask for."""
    classes: Mapping[PodClass, tuple[int, int]] = field(default_factory=dict)
    """How many tasks of each class are in HOLDING, and how many are Pending; only classes with
    some."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    # What follows from the above, worked out once for all cycles that see this very job.
    ready_tasks: int = field(init=False, compare=False, repr=False)
    """Tasks in READY."""
    valid_tasks: int = field(init=False, compare=False, repr=False)
    """Tasks in VALID."""
    scheduled_tasks: int = field(init=False, compare=False, repr=False)
    """Tasks in SCHEDULED."""
    pending_best_effort: int = field(init=False, compare=False, repr=False)
    """Pending tasks that ask for nothing but a slot."""
    elastic: resources.ResourceMap = field(init=False, compare=False, repr=False)
    """What it has above its minResources; all of it where it names none (Volcano:
    GetElasticResources)."""
    settled: bool = field(init=False, compare=False, repr=False)
    """Whether its group has started, no pod waits, and no minimum lacks anything."""
    protected: bool = field(init=False, compare=False, repr=False)
    """Whether its PodGroup says that nobody may be evicted from it."""
    _memo: dict[str, Any] = field(init=False, compare=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        ready = valid = scheduled = 0
        for status, count in self.counts.items():
            ready += count * (status in READY)
            valid += count * (status in VALID)
            scheduled += count * (status in SCHEDULED)
        waits = 0
        for kind, (_, waiting) in self.classes.items():
            waits += waiting * kind.best_effort
        least, elastic = self.min_resources or {}, {}
        for name, has in self.allocated.items():
            if (surplus := has - least.get(name, 0)) > 0:
                elastic[name] = surplus
        put = object.__setattr__  # no loop: a large cluster's jobs are made all at once
        put(self, "counts", {**NOBODY, **self.counts})
        put(self, "ready_tasks", ready)
        put(self, "valid_tasks", valid)
        put(self, "scheduled_tasks", scheduled)
        put(self, "pending_best_effort", waits)
        put(self, "elastic", elastic)
        waits_for_pods = ready < self.min_member or 0 < scheduled < self.min_member
        settled = not (waits_for_pods or self.state.phase in YOUNG)
        put(self, "settled", settled and not any(self.counts.get(each) for each in WAITING))
        put(self, "protected", self.preemptable.lower() == "false")

    def memo(self, key: str, compute: Callable[[], Value]) -> Value:
        """What is under this key, computed at the first call. It must follow from the job alone,
        so that keeping it changes no decision.
        """
        try:
            known: Value = self._memo[key]
        except KeyError:
            known = self._memo[key] = compute()
        return known

    @property
    def phase(self) -> Phase:
        """The phase that is stored."""
        return self.state.phase

    @property
    def preemptable(self) -> str:
        """What its PodGroup says of PREEMPTABLE, or nothing."""
        return self.annotations.get(PREEMPTABLE, self.labels.get(PREEMPTABLE, ""))

    @property
    def role_minimum(self) -> int:
        """The sum of minTaskMember, which is ignored when minMember is below it."""
        return sum(self.min_task_member.values())

    @property
    def roles_count(self) -> bool:
        """Whether minTaskMember is in force (Volcano: CheckTaskValid)."""
        return bool(self.min_task_member) and self.min_member >= self.role_minimum


def tally(tasks: Iterable[Task]) -> dict[str, object]:
    """The fields of a Job that follow from its tasks."""
    ordered = sorted(tasks, key=operator.attrgetter("uid"))
    counts: dict[TaskStatus, int] = {}
    classes: dict[PodClass, tuple[int, int]] = {}
    for task in ordered:
        status = task.status
        counts[status] = counts.get(status, 0) + 1
        waits = status is TaskStatus.PENDING
        if waits or status in HOLDING:
            holding, waiting = classes.get(task.pod_class, (0, 0))
            classes[task.pod_class] = (holding, waiting + 1) if waits else (holding + 1, waiting)
    allocated: dict[str, int] = {}
    pending: dict[str, int] = {}
    for kind, (holding, waiting) in classes.items():
        for sums, count in ((allocated, holding), (pending, waiting)):
            if count:
                for name, amount in kind.request.items():
                    sums[name] = sums.get(name, 0) + amount * count
    return {
        "tasks": tuple(ordered),
        "counts": counts,
        "allocated": allocated,
        "pending": pending,
        "classes": classes,
    }


class WorkingJob(Protocol):
    """A Job as a cycle has changed it so far: the part that fair shares are computed from."""

    @property
    def job(self) -> Job:
        """The job as the snapshot has it."""

    @property
    def phase(self) -> Phase:
        """The phase of its PodGroup now."""

    @property
    def counts(self) -> Mapping[TaskStatus, int]:
        """How many tasks stand how now."""

    def node(self, task: Task) -> str | None:
        """The node that the task is on, or has room on, now."""
