"""Tasks (pods) and jobs (a PodGroup with its pods)."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NewType, Protocol, TypeVar

import msgspec
from msgspec.structs import force_setattr

from vscheduler.model import constraints, resources
from vscheduler.model.constraints import ClaimUse, Constraints, PodVolume, Selector
from vscheduler.model.resources import ResourceMap
from vscheduler.model.topology import TopologyRequest

Value = TypeVar("Value")

TaskId = NewType("TaskId", str)
"""A pod's UID."""

JobId = NewType("JobId", str)
"""A PodGroup's `namespace/name`, with NATIVE behind it for Kubernetes' own PodGroups."""

QUEUE_NAME = "scheduling.volcano.sh/queue-name"
"""Annotation of Kubernetes' own PodGroups, pods, their owners and namespaces: the queue."""

MIN_COUNT = "spec.schedulingPolicy.gang.minCount"
"""The minimum of Kubernetes' own PodGroups."""

MARK = "@"
"""No name of an object contains it."""

NATIVE = "@scheduling.k8s.io"
"""Tells Kubernetes' own PodGroup from Volcano's of the same name."""

COMPOSITE = "@composite.scheduling.k8s.io"
"""Marks a CompositePodGroup, which is a job with all PodGroups below it."""

LONE_POD = "@pod"
"""Marks a pod that is a job by itself: none of Volcano's PodGroups can be made for it."""

POD_GROUP_NEEDED = "PodGroupNeeded"
"""The reason of condition PodScheduled of pods that wait for an automatic PodGroup. The controllers
make one then, even if they know of no need.
"""

POD_GROUP_LABEL = "@PodGroup"
"""Label of tasks below a CompositePodGroup: the name of their PodGroup. Objects can't have such a
label."""


def native_id(namespace: str, name: str) -> JobId:
    """Return the id of a scheduling.k8s.io PodGroup."""
    return JobId(f"{namespace}/{name}{NATIVE}")


def composite_id(namespace: str, name: str) -> JobId:
    """Return the id of a CompositePodGroup."""
    return JobId(f"{namespace}/{name}{COMPOSITE}")


def is_native(job: JobId) -> bool:
    """Whether the PodGroup is of Kubernetes' own API, or a CompositePodGroup of it."""
    return job.endswith((NATIVE, COMPOSITE))


def pod_id(namespace: str, name: str) -> JobId:
    """Return the id of a pod that is a job by itself."""
    return JobId(f"{namespace}/{name}{LONE_POD}")


def is_lone_pod(job: JobId) -> bool:
    """Whether the job is a pod without a PodGroup."""
    return job.endswith(LONE_POD)


def is_composite(job: JobId) -> bool:
    """Whether the job is a CompositePodGroup."""
    return job.endswith(COMPOSITE)


def names_of(job: JobId) -> tuple[str, str]:
    """Return namespace and name of a PodGroup, or of a lone pod."""
    namespace, _, name = job.partition("@")[0].partition("/")
    return namespace, name


class TaskStatus(StrEnum):
    """Status of a task (Volcano: api.TaskStatus).

    Allocated and Pipelined exist only within a cycle, and a task may become Pending again within a
    cycle. Binding: the bind was sent, but the watch has not shown the result yet.
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
"""An annotation or, without the annotation, a label of pods and PodGroups."""

ROLE = "volcano.sh/task-spec"
"""Volcano: the annotation or, without the annotation, the label of pods with their role."""

HOLDING = frozenset(
    {TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING}
)
"""Statuses that count as allocated to the queue (Volcano: AllocatedStatus)."""

EVICTABLE = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
"""Statuses of pods that may be evicted (Volcano: PreemptableStatus)."""

READY = HOLDING | {TaskStatus.SUCCEEDED}
"""Statuses that count towards minMember (Volcano: ReadyTaskNum)."""

PLACED = READY | {TaskStatus.PIPELINED}
"""Like READY, plus tasks that wait for resources being freed."""

VALID = PLACED | {TaskStatus.PENDING, TaskStatus.GATED}
"""Statuses of pods that can still become part of a gang (Volcano: ValidTaskNum)."""

SCHEDULED = frozenset(
    {TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED}
)
"""Statuses that make a PodGroup Running at the end of a cycle. Binding is not among them."""

FINISHED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
"""Statuses of pods that have come to an end."""

WAITING = (TaskStatus.PENDING, TaskStatus.GATED)
"""Statuses of pods without a node."""

NO_TASKS: Mapping[TaskStatus, int] = dict.fromkeys(TaskStatus, 0)
"""The status counts of a job without tasks."""


class Phase(StrEnum):
    """The status.phase of a PodGroup."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


YOUNG = (Phase.PENDING, Phase.INQUEUE)
"""Phases of PodGroups that have not started."""

STARTED = (Phase.RUNNING, Phase.UNKNOWN)
"""Phases of PodGroups that have had their minimum and still have pods."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class PodClass:
    """Everything about a pod that determines feasible nodes and scores.

    Equal pods share one PodClass. Classes are compared by identity, which makes them cheap
    dictionary keys. The Mirror interns classes. Two equal classes that are not interned cost time,
    but do not change results. The Mirror holds weak references, so a class disappears with its last
    pod.
    """

    request: Mapping[str, int]
    """Amounts by resource, including `pods: 1`."""
    constraints: Constraints = constraints.ANYWHERE
    hints: Mapping[str, str] = field(default_factory=dict)
    """Annotations used by plugins for scores and filters (tdm, resource-strategy-fit)."""
    devices: Mapping[str, int] = field(default_factory=dict)
    """Devices of claims that count for the queue, by resources.DEVICE_CLASS and class name."""
    best_effort: bool = field(init=False)
    """Whether the pod requests nothing but a pod slot."""
    counted: Mapping[str, int] = field(init=False)
    """What counts for the pod's queue: the request, and the devices."""

    def __post_init__(self) -> None:
        sizes = [amount for name, amount in self.request.items() if name != resources.PODS]
        whole = {**self.request, **self.devices} if self.devices else self.request
        object.__setattr__(self, "best_effort", not any(sizes))
        object.__setattr__(self, "counted", whole)

    def equals(self, other: PodClass) -> bool:
        """Whether two classes have equal contents, interned or not."""
        contents = operator.attrgetter("request", "constraints", "hints", "devices")
        return self is other or bool(contents(self) == contents(other))


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a job."""

    uid: TaskId
    namespace: str
    name: str
    job: JobId
    pod_class: PodClass
    status: TaskStatus
    created: float
    node: str | None = None
    """The pod's node, or the node of a bind in progress."""
    role: str = ""
    """Volcano: annotation volcano.sh/task-spec."""
    priority: int = 1
    """Priority among pods of this scheduler: volcano.sh/task-priority, else spec.priority."""
    pod_priority: int = 0
    """The pod's spec.priority, the only priority known to other schedulers."""
    index: int = -1
    """Volcano: the trailing number of a name with at least two dashes, or -1."""
    preemptable: bool = True
    never_preempts: bool = False
    """Whether spec.preemptionPolicy is Never."""
    nominated_node: str | None = None
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The pod's labels, used by selectors of budgets and of other pods' affinity."""
    annotations: Mapping[str, str] = msgspec.field(
        default_factory=dict
    )  # only those of volcano.sh/
    priority_class: str = ""  # the pod's spec.priorityClassName
    scheduled_at: float | None = None
    """Last transition of the condition PodScheduled, in seconds since the epoch."""
    checkpointed_at: float | None = None
    """When the pod last saved its work, as its annotation says, in seconds since the epoch."""
    max_run_time: float | None = None
    """How many seconds the pod runs at most, as it says itself."""
    volumes: tuple[PodVolume, ...] = ()  # part of the class while the pod waits

    @property
    def key(self) -> str:
        """The pod as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def best_effort(self) -> bool:
        """Whether the pod requests nothing but a pod slot."""
        return self.pod_class.best_effort

    @property
    def volume_claims(self) -> tuple[str, ...]:
        """The PersistentVolumeClaims that the pod uses, as `namespace/name`."""
        return tuple(each.claim for each in self.volumes if isinstance(each, ClaimUse))


class InvalidPod(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting pod with an unusable spec.

    Such a pod is no task, but the pod's condition tells its owner why.
    """

    uid: TaskId
    namespace: str
    name: str
    field: str
    """The invalid field as in a manifest, for example spec.resourceClaims."""
    message: str
    gated: bool = False
    """Whether its condition already reports scheduling gates."""

    @property
    def key(self) -> str:
        """The pod as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class SubGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A sub-group policy (spec.subGroupPolicy), which divides some of a job's pods into gangs.

    Pods with equal values of the label keys form a sub-group. Without keys, all pods that match the
    selector form a single sub-group.
    """

    name: str
    size: int = 1
    """How many pods a sub-group needs, at least."""
    sizes: Mapping[str, int] = {}
    """How many each needs by its value of the only label key, unless all need the same."""
    minimum: int = 0
    """How many complete sub-groups the job needs to start."""
    selector: Selector | None = None
    """Selects the pods of the policy. None matches every pod."""
    keys: tuple[str, ...] = ()
    topology: TopologyRequest | None = None
    """How near to each other the pods of one sub-group have to be. None: as those of the job."""

    def values(self, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return a pod's values for the label keys, or None when the policy does not cover the pod.

        Volcano: getSubJobMatchValues.
        """
        if self.selector is not None and not self.selector.matches(labels):
            return None
        found = tuple(labels.get(key, "") for key in self.keys)
        return found if all(found) else None

    def size_of(self, values: tuple[str, ...]) -> int:
        """Return how many pods the sub-group with these values needs."""
        return self.sizes.get(values[0], self.size) if self.sizes and values else self.size


PHASE = "vscheduler.io/Phase"
"""Condition of Kubernetes' own PodGroups with our phase and queue."""

SUCCEEDED_PODS = "vscheduler.io/Succeeded"
"""Condition of Kubernetes' own PodGroups whose message begins with the number of pods that have
succeeded: some may be deleted."""

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
"""Kubernetes' condition of its own PodGroups: once True, it stays so."""

TREE_SCHEDULED = f"Composite{INITIALLY_SCHEDULED}"
"""The same of CompositePodGroups."""


def initially_scheduled(job: JobId) -> str:
    """Return the type of this condition for a PodGroup or a CompositePodGroup."""
    return TREE_SCHEDULED if is_composite(job) else INITIALLY_SCHEDULED


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A stored condition of a PodGroup."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition: str = ""  # RFC 3339, as stored
    transition_id: str = ""


class ClaimGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup of Kubernetes' own API with resource claims for all of its pods together."""

    id: JobId
    uid: str
    claims: frozenset[tuple[str, str]] = frozenset()
    """Those that exist by name: entries of spec.resourceClaims, and claims as `namespace/name`."""


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """The stored status of a PodGroup, for comparison with a new status."""

    phase: Phase = Phase.PENDING
    blank: bool = False
    """Whether no known phase is stored, which counts as Pending and needs to be written."""
    conditions: tuple[Condition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    generation: int = 0
    """Of Kubernetes' own PodGroups: the generation of the spec."""


class Job(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A PodGroup with its pods, at the time of the snapshot.

    What is derived from the fields is computed once, and is no part of comparisons.
    """

    id: JobId
    uid: str
    namespace: str
    name: str
    queue: str
    created: float
    min_member: int = 1
    min_task_member: Mapping[str, int] = {}
    min_resources: ResourceMap | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    topology: TopologyRequest | None = None
    """How near to each other the pods have to be. None: anywhere."""
    priority: int = 0
    """The value of the PodGroup's PriorityClass. Without one, the lowest priority of its pods."""
    class_priority: int = 0
    """The value of the PodGroup's PriorityClass. Without one, that of the default PriorityClass.
    Volcano's priority of a job."""
    state: GroupState = GroupState()
    tasks: tuple[Task, ...] = ()
    """Sorted by UID."""
    rejections: tuple[InvalidPod, ...] = ()
    """Invalid pods, which are no tasks. Sorted by name."""
    counts: dict[TaskStatus, int] = {}
    """Number of tasks by status, with an entry for every status. Those that have succeeded count
    when their pods are deleted, too."""
    succeeded_gone: int = 0
    """How many of the succeeded tasks aren't among `tasks`, as their pods are deleted."""
    allocated: ResourceMap = {}
    """Amounts held by tasks in HOLDING."""
    pending: ResourceMap = {}
    """Amounts requested by Pending tasks."""
    classes: Mapping[PodClass, tuple[int, int]] = {}
    """Number of tasks in HOLDING, and number of Pending tasks, by class. Classes without any are
    left out."""
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    owner: str = ""
    """What creates the pods, such as `job/train`; empty if nobody is known to."""
    minimum_field: str = "minMember"
    """The field, or the annotation, of its PodGroup with the minimum."""
    goes_whole: bool = False
    """Whether evictions take all of its pods or none (disruptionMode `all`)."""
    max_run_time: float | None = None
    """How many seconds each pod runs at most, as the PodGroup says."""
    claim_groups: tuple[ClaimGroup, ...] = ()
    """What reserves claims in place of its pods."""
    defect: str = ""
    """Why no waiting pod may start: its PodGroup doesn't exist, or they contradict it. All of them
    are among `rejections` then."""

    ready_tasks: ClassVar[int]
    """Number of tasks in READY."""
    valid_tasks: ClassVar[int]
    """Number of tasks in VALID."""
    scheduled_tasks: ClassVar[int]
    """Number of tasks in SCHEDULED."""
    pending_best_effort: ClassVar[int]
    """Number of Pending tasks that request nothing but a pod slot."""
    elastic: ClassVar[ResourceMap]
    """Amounts held above minResources; all without these (Volcano: GetElasticResources)."""
    refills: ClassVar[bool]
    """Whether it has had its minimum, and pods of it wait beside others that hold resources."""
    still_needed: ClassVar[int]
    """Number of tasks that must have nodes before another one is bound: minMember, or less if the
    PodGroup is being refilled."""
    still_needed_of: ClassVar[Mapping[str, int]]
    """The same by role, for minTaskMember."""
    has_all: ClassVar[bool]
    """Whether no pod waits, and all minimums are met, whatever phase is stored."""
    finished: ClassVar[bool]
    """Whether all pods have come to an end, or are gone since. Such a job waits for nothing,
    however many of its pods failed: if more are created, it isn't finished any more."""
    fully_scheduled: ClassVar[bool]
    """Whether the PodGroup is finished, or has started, no pod waits, and all minimums are met."""
    asks_topology: ClassVar[bool]
    """Whether pods, or those of a sub-group, ask to be near to each other in the network."""
    hard_topology: ClassVar[str]
    """The first field that requires it; empty if none does."""
    protected: ClassVar[bool]
    """Whether the PodGroup forbids eviction of its pods."""
    _memo: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        if len(self.counts) < len(NO_TASKS):
            force_setattr(self, "counts", {**NO_TASKS, **self.counts})
        ready = valid = scheduled = 0
        for status, count in self.counts.items():
            if count:
                ready += count * (status in READY)
                valid += count * (status in VALID)
                scheduled += count * (status in SCHEDULED)
        waits = sum([each.best_effort * n for each, (_, n) in self.classes.items()])
        least = self.min_resources or {}
        surplus = [(name, has - least.get(name, 0)) for name, has in self.allocated.items()]
        waits_for_pods = ready < self.min_member or 0 < scheduled < self.min_member
        has_all = not (waits_for_pods or any(self.counts[each] for each in WAITING))
        finished = self._is_finished()
        refills = (
            self.state.phase in STARTED
            and self.counts[TaskStatus.PENDING] > 0
            and any(self.counts[status] for status in HOLDING)
        )
        needed, of_roles = self._still_needed(valid, refills=refills)
        self.__dict__.update(
            refills=refills,
            still_needed=needed,
            still_needed_of=of_roles,
            ready_tasks=ready,
            valid_tasks=valid,
            scheduled_tasks=scheduled,
            pending_best_effort=waits,
            elastic={name: amount for name, amount in surplus if amount > 0},
            has_all=has_all,
            finished=finished,
            fully_scheduled=finished or (has_all and self.state.phase not in YOUNG),
            protected=self.preemptable.lower() == "false",
            asks_topology=any(self._topologies()),
            hard_topology=next((each.field for each in self._topologies() if each.hard), ""),
            _memo={},
        )

    def _topologies(self) -> Iterator[TopologyRequest]:
        """Iterate over what the job and its sub-groups ask for."""
        every = (self.topology, *(policy.topology for policy in self.sub_groups))
        return (each for each in every if each is not None)

    def _is_finished(self) -> bool:
        total = sum(self.counts.values())
        if self.rejections or not total:
            return not self.rejections and self.state.phase is Phase.COMPLETED
        return sum(self.counts[each] for each in FINISHED) == total

    def _still_needed(self, valid: int, *, refills: bool) -> tuple[int, Mapping[str, int]]:
        """Return `still_needed` and `still_needed_of`.

        A PodGroup that has had its minimum, and of which pods still hold resources, is refilled:
        the replacements that exist needn't wait for others, which may never be created. The phase
        tells, so that a restart changes nothing; once no pod is left, a new gang begins.
        Volcano's sub-groups are gangs of their own, and stay whole; a PodGroup of a tree is
        refilled, too.
        """
        usable = valid - self.counts[TaskStatus.GATED]
        if not refills or (self.sub_groups and not is_composite(self.id)):
            return self.min_member, self._roles_without_gone()
        of_roles = self.min_task_member
        if of_roles:
            present = self._present_of(VALID - {TaskStatus.GATED})
            of_roles = {role: min(least, present[role]) for role, least in of_roles.items()}
        return min(self.min_member, usable), of_roles

    def _roles_without_gone(self) -> Mapping[str, int]:
        """Return minTaskMember less the succeeded pods that are deleted, for roles that lack pods.

        Nobody knows the roles of these pods after a restart, so they may have had any.
        """
        gone = self.succeeded_gone
        if not (gone and self.min_task_member):
            return self.min_task_member
        present, found = self._present_of(VALID), {}
        for role, least in sorted(self.min_task_member.items()):
            forgiven = min(gone, max(0, least - present[role]))
            gone -= forgiven
            found[role] = least - forgiven
        return found

    def _present_of(self, statuses: Collection[TaskStatus]) -> Counter[str]:
        """Return the number of tasks in these statuses by role."""
        return Counter(task.role for task in self.tasks if task.status in statuses)

    def least(self, resource: str, count: int) -> int:
        """Return the least that so many waiting pods request of a resource, each for itself."""
        total = 0
        sizes = [(each.counted.get(resource, 0), n) for each, (_, n) in self.classes.items()]
        for size, waiting in sorted(sizes):
            taken = min(count, waiting)
            total += size * taken
            count -= taken
        return total

    def memo(self, key: str, compute: Callable[[], Value]) -> Value:
        """Return the value under this key, computed on first use, from the job alone."""
        if key not in self._memo:
            self._memo[key] = compute()
        known: Value = self._memo[key]
        return known

    def recall(self, key: str) -> Any:
        """Return the value under this key if it is computed by now, or None."""
        return self._memo.get(key)

    @property
    def phase(self) -> Phase:
        """The stored phase."""
        return self.state.phase

    @property
    def preemptable(self) -> str:
        """The PodGroup's value of PREEMPTABLE, or an empty string."""
        return self.annotations.get(PREEMPTABLE, self.labels.get(PREEMPTABLE, ""))

    @property
    def task_count(self) -> int:
        """The number of all tasks, with those that have succeeded and whose pods are deleted."""
        return len(self.tasks) + self.succeeded_gone

    @property
    def role_minimum(self) -> int:
        """Sum of minTaskMember. When minMember is below this sum, minTaskMember is ignored."""
        return sum(self.min_task_member.values())

    @property
    def roles_count(self) -> bool:
        """Whether minTaskMember is in effect (Volcano: CheckTaskValid)."""
        return bool(self.min_task_member) and self.min_member >= self.role_minimum


def stand_in(job: Job, request: ResourceMap) -> Task:
    """Return a waiting pod of the job with this request, to ask plugins about pods that may not
    exist yet, or about several at once.
    """
    return Task(
        uid=TaskId(""),
        namespace=job.namespace,
        name=job.name,
        job=job.id,
        pod_class=PodClass(request=request),
        status=TaskStatus.PENDING,
        created=job.created,
    )


def group_of(task: Task) -> JobId:
    """Return the PodGroup that the pod names, which may be below the CompositePodGroup of its
    job.
    """
    below = task.labels.get(POD_GROUP_LABEL) if is_composite(task.job) else None
    return task.job if below is None else native_id(task.namespace, below)


def tally(tasks: Iterable[Task]) -> dict[str, object]:
    """Return the fields of a Job derived from its tasks."""
    ordered = sorted(tasks, key=operator.attrgetter("uid"))
    counts = dict(NO_TASKS)
    classes: dict[PodClass, tuple[int, int]] = {}
    for task in ordered:
        status = task.status
        counts[status] += 1
        waits = status is TaskStatus.PENDING
        if waits or status in HOLDING:
            holding, waiting = classes.get(task.pod_class, (0, 0))
            classes[task.pod_class] = (holding, waiting + 1) if waits else (holding + 1, waiting)
    allocated, pending = dict[str, int](), dict[str, int]()
    for pod_class, (holding, waiting) in classes.items():
        for sums, count in ((allocated, holding), (pending, waiting)):
            if count:
                for name, amount in pod_class.counted.items():
                    sums[name] = sums.get(name, 0) + amount * count
    return {
        "tasks": tuple(ordered),
        "counts": counts,
        "allocated": allocated,
        "pending": pending,
        "classes": classes,
    }


def without_gone(job: Job) -> Job:
    """Return the job without the tasks that succeeded and don't exist any more."""
    if not job.succeeded_gone:
        return job
    succeeded = job.counts[TaskStatus.SUCCEEDED] - job.succeeded_gone
    counts = {**job.counts, TaskStatus.SUCCEEDED: succeeded}
    return msgspec.structs.replace(job, counts=counts, succeeded_gone=0)


class WorkingJob(Protocol):
    """A Job with the changes of the current cycle: the part used to compute fair shares."""

    @property
    def job(self) -> Job:
        """The job in the snapshot."""

    @property
    def phase(self) -> Phase:
        """The current phase of the PodGroup."""

    @property
    def counts(self) -> Mapping[TaskStatus, int]:
        """Current number of tasks by status."""

    @property
    def owed(self) -> bool:
        """Whether anything may be reserved for the group."""

    def node(self, task: Task) -> str | None:
        """Return the node of the task, or the node with resources reserved for the task."""
