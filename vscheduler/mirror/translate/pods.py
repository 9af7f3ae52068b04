"""Pods of all schedulers, translated to Tasks and to room held on nodes, and their classes: equal
pods share a PodClass for as long as any of them exists.

Volcano: api.NewTaskInfo, getTaskStatus.
"""

import datetime as dt
import hashlib
import weakref
from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from vscheduler.mirror.decode import events, fields, wire
from vscheduler.mirror.decode.events import DecodeError, DecodeFailed, Kind, LargePod
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import Metadata, PodSpec
from vscheduler.mirror.translate import (
    bounds,
    extended_resources,
    kubelet_refusals,
    pod_claims,
    pod_constraints,
    pod_owners,
    pod_requests,
    storage,
    translation,
)
from vscheduler.mirror.translate.bounds import Bounds
from vscheduler.mirror.translate.extended_resources import Container
from vscheduler.mirror.translate.kubelet_refusals import Answer
from vscheduler.mirror.translate.pod_owners import OwnerTemplate
from vscheduler.model import jobs, pod_texts, resources, run_times
from vscheduler.model.constraints import Constraints, PodVolume, ResourceClaimUse
from vscheduler.model.jobs import (
    EVICTABLE,
    PREEMPTABLE,
    ROLE,
    WAITING,
    JobId,
    PodClass,
    Task,
    TaskId,
    TaskStatus,
)
from vscheduler.model.pod_texts import Annotations, PodReads
from vscheduler.model.snapshot import Nominated

GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Annotations that name a pod's PodGroup. The second is a newer alias."""

NEVER = "Never"
"""The preemptionPolicy of pods for which nobody is evicted."""

REVOCABLE_ZONE = "volcano.sh/revocable-zone"
ANY_ZONE = "*"
"""The only value with a meaning (Volcano: GetPodRevocableZone)."""

SCORING = ("volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight")
"""Annotations about scoring nodes for a pod (Volcano: resource-strategy-fit)."""

CHECKPOINTED_AT = "vscheduler.io/checkpointed-at"
"""Annotation: when the pod last saved its work, as in RFC 3339."""

LABEL = "label"
"""Marks a label among the hints of a class: an annotation may have the same name."""

NONE: Mapping[str, str] = {}
"""Shared by all pods without labels, annotations or hints."""

TRUE = ("1", "t", "T", "true", "TRUE", "True")
"""Values that Go's ParseBool accepts as true."""

DEFAULT_SCHEDULER = "default-scheduler"
FINISHED = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of any scheduler, reduced to the fields that decisions depend on.

    A Struct, like Entry, for speed: before the first cycle all pods of a large cluster are created.
    """

    uid: TaskId
    key: str
    group: JobId | None
    """The PodGroup named by the pod, whether the PodGroup exists or not."""
    part: JobId | None = None
    """The PodGroup that the pod names, if its job is that of a CompositePodGroup."""
    ours: bool
    scheduler: str = ""
    """Name of the scheduler, only for pods of ours."""
    node: str | None
    status: TaskStatus
    pod_class: PodClass
    labels: Mapping[str, str]
    volumes: tuple[PodVolume, ...] = ()
    """Volumes that matter for the choice of a node."""
    extended: tuple[Container, ...] = ()
    """Extended resources by container, only for waiting pods of ours."""
    task: Task | None = None
    """Only for pods of ours without defects."""
    rejection: DecodeError | None = None
    origin: OwnerTemplate | None = None
    """Only for pods of ours without a PodGroup, or with an automatic one or Kubernetes' own."""
    asks_for_group: bool = False
    """Whether the scheduler says in the pod's condition that it waits for a PodGroup."""
    answer: Answer | None = None
    """Only for pods of ours."""
    nominated: Nominated | None = None
    """Only for pods of foreign schedulers with a nominated node."""
    gone_by: float | None = None
    """Only for pods that are being deleted: when their grace period is over, in seconds since the
    epoch."""
    ended_at: float | None = None
    """Only for finished pods of ours: when their last container ended, in seconds since the epoch.
    None if nothing tells."""

    @property
    def holds_resources(self) -> bool:
        """Whether the pod counts on its node: until the pod has finished, even while being
        deleted.
        """
        return self.node is not None and self.status not in FINISHED

    @property
    def waits(self) -> bool:
        """Whether we have to find a node for the pod."""
        return self.task is not None and self.status is TaskStatus.PENDING

    @property
    def stays(self) -> bool:
        """Whether the pod can still be evicted."""
        return self.task is not None and self.status in EVICTABLE

    @property
    def leaves(self) -> bool:
        """Whether the pod is being deleted."""
        return self.status is TaskStatus.RELEASING

    @property
    def lives(self) -> bool:
        """Whether the pod has neither finished nor is being deleted."""
        return self.status not in FINISHED and not self.leaves

    @property
    def namespace(self) -> str:
        """The namespace in the pod's key."""
        return self.key.partition("/")[0]

    def bound_to(self, node: str) -> "Pod":
        """Return the pod as Binding to a node, while its bind is in flight."""
        assert self.task is not None
        status = TaskStatus.BINDING
        task = replace(self.task, status=status, node=node)
        return replace(self, status=status, node=node, task=task)

    def leaving(self, since: float) -> "Pod":
        """Return the pod as Releasing, while its eviction is in flight: its grace period is unknown
        until the watch shows it.
        """
        assert self.task is not None
        status = TaskStatus.RELEASING
        task = replace(self.task, status=status)
        return replace(self, status=status, task=task, gone_by=since)

    @property
    def named_group(self) -> JobId | None:
        """The PodGroup that the pod names, whatever is above it."""
        return self.part or self.group

    def below(self, root: JobId) -> "Pod":
        """Return the pod as one of the job of a CompositePodGroup."""
        assert self.group is not None
        _, name = jobs.names_of(self.group)
        task = self.task
        if task is not None:
            task = replace(task, job=root, labels={**task.labels, jobs.POD_GROUP_LABEL: name})
        return replace(self, group=root, part=self.group, task=task)

    def held_back(self) -> "Pod":
        """Return a waiting pod as Gated, while no bind of it is tried."""
        assert self.task is not None
        status = TaskStatus.GATED
        return replace(self, status=status, task=replace(self.task, status=status))

    def of_class(self, pod_class: PodClass) -> "Pod":
        """Return the pod as one of another class."""
        task = self.task and replace(self.task, pod_class=pod_class)
        return replace(self, pod_class=pod_class, task=task)


class Translator:
    """Translates pods. Equal pods share a PodClass for as long as any of the pods exists."""

    def __init__(
        self,
        scheduler_names: tuple[str, ...],
        most: Bounds = bounds.DEFAULT,
        reads: PodReads = pod_texts.NOTHING,
    ) -> None:
        """Create a translator; `most` holds the bounds of a pod, `reads` what plugins declare."""
        self._reads = reads
        self._ours = {name: name for name in scheduler_names}
        self._classes = Classes(most)

    def serve(self, scheduler_names: tuple[str, ...]) -> None:
        """Set the scheduler names whose pods are ours from now on."""
        self._ours = {name: name for name in scheduler_names}

    def claiming(self, pod: Pod, use: ResourceClaimUse) -> Pod:
        """Return the pod as one that uses this claim, too."""
        constraints = pod.pod_class.constraints
        claims = (*constraints.resource_claims, use)
        return pod.of_class(self._classes.with_claims(pod.pod_class, constraints.volumes, claims))

    def group_texts(
        self, annotations: Mapping[str, str], labels: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Return what plugins read of a PodGroup, as hints of its pods' classes."""
        declared = _declared(annotations, labels, self._reads)
        return {f"{pod_texts.GROUP} {name}": text for name, text in declared.items()}

    def grouped(self, pod: Pod, texts: Mapping[str, str]) -> Pod:
        """Return the pod as one of a PodGroup with these texts."""
        return pod.of_class(self._classes.with_hints(pod.pod_class, texts))

    def charged(self, pod: Pod, devices: Mapping[str, int]) -> Pod:
        """Return the pod with devices that count for it."""
        return pod.of_class(self._classes.with_devices(pod.pod_class, devices))

    @property
    def classes(self) -> int:
        """How many distinct pod classes exist."""
        return len(self._classes)

    def pod(self, pod: wire.Pod) -> Pod:
        """Translate a pod. A defective one has a rejection instead of a task, and keeps its room on
        its node; with unreadable requests, a pod slot.
        """
        metadata, spec = pod.metadata, pod.spec
        key = events.key_of(metadata.namespace, metadata.name)
        uid, group, status = uid_of(metadata), group_of(pod), _status(pod)
        scheduler = self._ours.get(spec.scheduler_name or DEFAULT_SCHEDULER, "")
        if not scheduler:
            return self._foreign(pod, uid, key, group, status)
        labels = _shared(metadata.labels) if metadata.labels else NONE
        annotations = _kept(metadata.annotations, self._reads.annotations)
        created, scheduled, answered = times(pod)
        volumes = storage.volumes_of_pod(pod) if spec.volumes else storage.NO_VOLUMES
        extended, task, rejection = extended_resources.NONE, None, None
        try:
            waits = status in WAITING
            hints = _hints(metadata, self._reads) if annotations or self._reads.labels else NONE
            pod_class = self._classes.pod_class(pod, hints, ours=True, waits=waits)
            if waits:
                pod_class = self._with_claims(pod, pod_class, volumes)
                extended = extended_resources.of_pod(spec)
                check_supported(pod)
            task = Task(
                uid=uid,
                namespace=metadata.namespace,
                name=metadata.name,
                job=group or JobId(""),
                pod_class=pod_class,
                status=status,
                created=created,
                node=spec.node_name or None,
                role=metadata.annotations.get(ROLE) or metadata.labels.get(ROLE, ""),
                priority=fields.pod_priority(pod),
                index=fields.pod_index(metadata.name),
                preemptable=_preemptable(metadata),
                never_preempts=spec.preemption_policy == NEVER,
                pod_priority=spec.priority or 0,
                nominated_node=pod.status.nominated_node_name or None,
                labels=labels,
                annotations=annotations,
                priority_class=spec.priority_class_name,
                scheduled_at=scheduled,
                checkpointed_at=checkpoint(metadata.annotations),
                max_run_time=_max_run_time(pod),
                volumes=volumes,
            )
        except FieldError as error:
            pod_class = self._classes.held(pod)
            rejection = translation.reject(Kind.POD, metadata, error)
        return Pod(
            uid=uid,
            key=key,
            group=group,
            ours=True,
            scheduler=scheduler,
            node=spec.node_name or None,
            status=status,
            pod_class=pod_class,
            labels=labels,
            volumes=volumes,
            extended=extended,
            task=task,
            rejection=rejection,
            origin=pod_owners.template_of(pod, _volcano_group(pod)),
            asks_for_group=status in WAITING and _asks_for_group(pod),
            answer=kubelet_refusals.answer_of(pod, answered),
            gone_by=_gone_by(pod),
            ended_at=_ended_at(pod) if status in FINISHED else None,
        )

    def _foreign(
        self,
        pod: wire.Pod,
        uid: TaskId,
        key: str,
        group: JobId | None,
        status: TaskStatus,
    ) -> Pod:
        """Translate a pod of another scheduler."""
        labels, rejection = _shared(pod.metadata.labels), None
        try:
            pod_class = self._classes.pod_class(pod, NONE, ours=False, waits=False)
        except FieldError as error:
            pod_class = self._classes.held(pod)
            rejection = translation.reject(Kind.POD, pod.metadata, error)
        return Pod(
            uid=uid,
            key=key,
            group=group,
            ours=False,
            node=pod.spec.node_name or None,
            status=status,
            pod_class=pod_class,
            labels=labels,
            volumes=storage.volumes_of_pod(pod),
            rejection=rejection,
            nominated=kubelet_refusals.nomination_of(pod, key, pod_class, status, labels),
            gone_by=_gone_by(pod),
        )

    def _with_claims(
        self,
        pod: wire.Pod,
        pod_class: PodClass,
        volumes: tuple[PodVolume, ...],
    ) -> PodClass:
        """Return the class of a waiting pod with its volumes and claims."""
        if not (volumes or pod.spec.resource_claims):
            return pod_class
        return self._classes.with_claims(pod_class, volumes, pod_claims.of_pod(pod))


def uid_of(metadata: Metadata) -> TaskId:
    """Return the pod's UID. Manifests have no UID, so their `namespace/name` stands in."""
    return TaskId(metadata.uid or events.key_of(metadata.namespace, metadata.name))


def check_supported(pod: wire.Pod) -> None:
    """Raise FieldError for a requirement that isn't supported, or a number that is out of range, so
    users learn why the pod waits.
    """
    for at, volume in enumerate(pod.spec.volumes):
        source = volume.persistent_volume_claim
        if source is not None and not source.claim_name:
            place = f"spec.volumes[{at}].persistentVolumeClaim.claimName"
            raise FieldError(place, "is missing")
    _check_workload(pod.spec)
    fields.check_pod_numbers(pod.metadata)


def _check_workload(spec: PodSpec) -> None:
    """Raise FieldError for a pod of a gang as in Kubernetes 1.35: alone it might be useless."""
    if spec.workload_ref is not None:
        says = (
            f"names Workload {spec.workload_ref.name} as Kubernetes 1.35 did; "
            f"use spec.schedulingGroup, which needs scheduling.k8s.io/v1beta1 (Kubernetes 1.37)"
        )
        raise FieldError("spec.workloadRef", says)


def _status(pod: wire.Pod) -> TaskStatus:
    """Return the status of a pod (Volcano: getTaskStatus). Unknown phases count as Running or
    Pending.
    """
    match pod.status.phase:
        case "Succeeded":
            return TaskStatus.SUCCEEDED
        case "Failed":
            return TaskStatus.FAILED
    if pod.metadata.deletion_timestamp is not None:
        return TaskStatus.RELEASING
    if pod.spec.node_name:
        waits = pod.status.phase in ("", "Pending")
        return TaskStatus.BOUND if waits else TaskStatus.RUNNING
    return TaskStatus.GATED if pod.spec.scheduling_gates else TaskStatus.PENDING


def _gone_by(pod: wire.Pod) -> float | None:
    """Return when the pod's grace period is over: its deletionTimestamp includes that period."""
    deleted = pod.metadata.deletion_timestamp
    return None if deleted is None else deleted.timestamp()


def _ended_at(pod: wire.Pod) -> float | None:
    """Return when the last container of a finished pod ended, else when it stopped being ready."""
    status = pod.status
    ends = [
        each.state.terminated.finished_at
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.state.terminated is not None
    ]
    ends = ends or [each.last_transition_time for each in status.conditions if each.type in READY]
    return max((each.timestamp() for each in ends if each is not None), default=None)


def group_of(pod: wire.Pod) -> JobId | None:
    """Return the PodGroup that the pod names. Kubernetes' own comes first: it can't be changed.

    Annotations may have any text, but no id of the other API.
    """
    namespace, native = pod.metadata.namespace, pod.spec.scheduling_group
    if native is not None:
        return jobs.native_id(namespace, native.pod_group_name)
    named = _named_group(pod.metadata)
    if named is None or jobs.MARK in named:
        return None
    return JobId(events.key_of(namespace, named))


def _named_group(metadata: Metadata) -> str | None:
    """Return the name of the PodGroup in the pod's annotations, or None."""
    for key in GROUPS:
        if name := metadata.annotations.get(key):
            return name
    return None


def _volcano_group(pod: wire.Pod) -> str | None:
    """Return the name of the pod's Volcano PodGroup, or None."""
    return None if pod.spec.scheduling_group is not None else _named_group(pod.metadata)


def _preemptable(metadata: Metadata) -> bool:
    """Whether the pod is preemptable (Volcano: GetPodPreemptable). Unreadable text means False."""
    text = metadata.annotations.get(PREEMPTABLE)
    if text is None:
        text = metadata.labels.get(PREEMPTABLE, "true")
    return text in TRUE


def checkpoint(annotations: Mapping[str, str]) -> float | None:
    """Return when a pod last saved its work, in seconds since the epoch; None if it doesn't say, or
    not as in RFC 3339: then an eviction undoes all its work, as far as known.
    """
    text = annotations.get(CHECKPOINTED_AT, "")
    try:
        found = dt.datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else found.timestamp()


def _max_run_time(pod: wire.Pod) -> float | None:
    """Return how long the pod says that it runs: by its annotation, else until its deadline."""
    deadline = pod.spec.active_deadline_seconds
    told = run_times.parse(pod.metadata.annotations.get(run_times.MAX_RUN_TIME))
    return float(deadline) if told is None and deadline is not None and deadline > 0 else told


def _kept(annotations: Mapping[str, str], declared: tuple[str, ...]) -> Mapping[str, str]:
    """Return the annotations that tasks keep: the same object for equal ones."""
    own = pod_texts.OWN
    items = [item for item in annotations.items() if item[0].startswith(own) or item[0] in declared]
    return _kept_items(tuple(sorted(items)) if items else (), declared)


@lru_cache(maxsize=4096)
def _kept_items(items: tuple[tuple[str, str], ...], declared: tuple[str, ...]) -> Annotations:
    return Annotations(dict(items), declared)


def _hints(metadata: Metadata, reads: PodReads) -> Mapping[str, str]:
    """Return the texts that plugins filter and score by, sorted by name.

    Of the annotations that our own plugins read, without empty values.

    A pod that declares itself preemptable and names no zone may use any revocable zone (Volcano:
    GetPodRevocableZone).
    """
    annotations = metadata.annotations
    declared = _declared(annotations, metadata.labels, reads)
    if not annotations:
        return declared
    hints = {key: annotations[key] for key in SCORING if annotations.get(key)}
    preemptable = annotations.get(PREEMPTABLE) in TRUE
    if annotations.get(REVOCABLE_ZONE, ANY_ZONE if preemptable else "") == ANY_ZONE:
        hints[REVOCABLE_ZONE] = ANY_ZONE
    hints |= declared
    return dict(sorted(hints.items())) if hints else NONE


def _declared(
    annotations: Mapping[str, str], labels: Mapping[str, str], reads: PodReads
) -> Mapping[str, str]:
    """Return the texts that plugins of other packages declare, sorted; labels are marked."""
    if reads == pod_texts.NOTHING:
        return NONE
    texts = {key: annotations[key] for key in reads.annotations if key in annotations}
    texts |= {f"{LABEL} {key}": labels[key] for key in reads.labels if key in labels}
    return dict(sorted(texts.items())) if texts else NONE


def _shared(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the same object for equal labels: pods of a job mostly have equal labels."""
    return _shared_items(tuple(sorted(texts.items()))) if texts else NONE


@lru_cache(maxsize=4096)
def _shared_items(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


READY = ("ContainersReady", "Ready")
"""Types of the conditions that turn False when containers end."""

SCHEDULED = "PodScheduled"
"""Type of the condition whether a pod has a node."""


def has_reason(pod: wire.Pod) -> bool:
    """Whether the pod's condition says that it isn't scheduled, and why."""
    return "False" in [  # no generator: every pod is looked at with every change
        condition.status for condition in pod.status.conditions if condition.type == SCHEDULED
    ]


def _asks_for_group(pod: wire.Pod) -> bool:
    return jobs.POD_GROUP_NEEDED in [condition.reason for condition in pod.status.conditions]


def times(pod: wire.Pod) -> tuple[float, float | None, float]:
    """Return when the pod was created and when it was scheduled, and the last instant known of
    both and of its start.

    If nothing says when the pod was scheduled, the time is that of its start on the node, or None.
    """
    started = pod.status.start_time
    created = fields.seconds(pod.metadata.creation_timestamp)
    scheduled = None if started is None else fields.seconds(started)
    last = max(created, scheduled or 0.0)
    for condition in pod.status.conditions:
        if condition.type == SCHEDULED:
            at = fields.seconds(condition.last_transition_time)
            last = max(last, at)
            if condition.status == "True" and condition.last_transition_time is not None:
                scheduled = at
    return created, scheduled, last


NOTHING: Mapping[str, int] = {}
"""No devices."""

LONG = 4096
"""Longest cache key in bytes. A longer key is replaced by its digest."""

REFUSED_MAX = 4096
"""How many errors of unusable large pods are cached."""

MESSAGE_MAX = 512
"""Longer errors aren't cached, for they may quote text from tenants."""

_encode = msgspec.json.Encoder().encode


class Classes:
    """All pod classes in use."""

    def __init__(self, most: Bounds) -> None:
        """Create an empty cache; `most` holds the bounds of a pod."""
        self._most = most
        self._classes: weakref.WeakValueDictionary[object, PodClass] = weakref.WeakValueDictionary()
        self._known: weakref.WeakValueDictionary[bytes, PodClass] = weakref.WeakValueDictionary()
        """Classes by the pod fields they were built from: most pods equal earlier pods of their
        job.
        """
        self._large_known: weakref.WeakValueDictionary[bytes, PodClass] = (
            weakref.WeakValueDictionary()
        )
        """For large pods: a class with the same constraints, by the fields that constraints depend
        on.
        """
        self._refused: dict[bytes, tuple[str, str]] = {}
        """Errors of large pods by the same key as `_large_known`: field and message, latest
        last.
        """

    def __len__(self) -> int:
        return len(self._classes)

    def with_claims(
        self,
        pod_class: PodClass,
        volumes: tuple[PodVolume, ...],
        claims: tuple[ResourceClaimUse, ...],
    ) -> PodClass:
        """Return the class of pods that are like these, and use these volumes and resource claims.

        Only waiting pods have such a class, since many pods have a claim of their own.
        """
        conditions = replace(pod_class.constraints, volumes=volumes, resource_claims=claims)
        return self._intern(dict(pod_class.request), conditions, pod_class.hints)

    def with_hints(self, pod_class: PodClass, hints: Mapping[str, str]) -> PodClass:
        """Return the class of pods that are like these, and have these hints, too."""
        every = dict(sorted({**pod_class.hints, **hints}.items()))
        request, devices = dict(pod_class.request), pod_class.devices
        return self._intern(request, pod_class.constraints, every, devices)

    def with_devices(self, pod_class: PodClass, devices: Mapping[str, int]) -> PodClass:
        """Return the class of pods that are like these, and for which these devices count."""
        request = dict(pod_class.request)
        return self._intern(request, pod_class.constraints, pod_class.hints, devices)

    def pod_class(
        self, pod: wire.Pod, hints: Mapping[str, str], *, ours: bool, waits: bool
    ) -> PodClass:
        """Return the class of a pod: its request, constraints and hints, but for its volumes.

        Of foreign pods only constraints with an effect on their node count. Raises FieldError for a
        defect in the pod, and for a waiting pod of ours beyond a bound.
        """
        if isinstance(pod, LargePod):
            return self._large(pod, hints, ours=ours, waits=waits)
        excess = self._most.excess(pod.spec)
        if excess is not None and waits:
            raise excess
        key = _basis(pod, hints, ours=ours)
        if waits:
            self._most.check_size(len(key), pod.metadata.labels)
        if len(key) > LONG:
            key = hashlib.blake2b(key).digest()
        pod_class = self._known.get(key)
        if pod_class is None:
            request = pod_requests.of_pod(pod)
            conditions = self._conditions(pod, excess, ours=ours)
            pod_class = self._known[key] = self._intern(request, conditions, hints)
        if waits:
            self._most.check_resources(pod_class.request)
        return pod_class

    def _large(
        self, pod: LargePod, hints: Mapping[str, str], *, ours: bool, waits: bool
    ) -> PodClass:
        """Return the class of a large pod, as `pod_class` does.

        The pod's affinity is decoded only if its constraints aren't known yet.
        """
        stands_for = (pod.digest, waits)
        key = hashlib.blake2b(_basis(pod, hints, ours=ours, stands_for=stands_for)).digest()
        request = {} if waits else pod_requests.of_pod(pod)
        if key in self._refused:
            raise FieldError(*self._refused[key])
        like = self._large_known.get(key)
        if like is not None:
            conditions = like.constraints
        else:
            try:
                whole = _whole(pod)
                if waits:
                    return self.pod_class(whole, hints, ours=ours, waits=True)
                conditions = self._conditions(whole, self._most.excess(whole.spec), ours=ours)
            except FieldError as error:
                self._refuse(key, error)
                raise
        pod_class = self._large_known[key] = self._intern(request, conditions, hints)
        return pod_class

    def _refuse(self, key: bytes, error: FieldError) -> None:
        """Cache the error of a large pod for the next time."""
        if len(error.field) + len(error.message) > MESSAGE_MAX:
            return
        self._refused[key] = (error.field, error.message)
        if len(self._refused) > REFUSED_MAX:
            del self._refused[next(iter(self._refused))]

    def _conditions(self, pod: wire.Pod, excess: FieldError | None, *, ours: bool) -> Constraints:
        """Return the constraints of a pod; reduced ones where the pod exceeds a bound."""
        if excess is not None:
            return pod_constraints.in_short(pod.spec, pod.metadata, self._most, ours=ours)
        terms = pod_constraints.of_pod if ours else pod_constraints.of_resident
        return terms(pod.spec, pod.metadata)

    def held(self, pod: wire.Pod) -> PodClass:
        """Return a class for a defective pod: the request that the pod holds on its node, if
        readable.
        """
        try:
            request = pod_requests.of_pod(pod)
            self._most.check_resources(request)
        except FieldError:
            request = {resources.PODS: 1}
        return self._intern(request, pod_constraints.of_ports(pod.spec))

    def _intern(
        self,
        request: dict[str, int],
        conditions: Constraints,
        hints: Mapping[str, str] = NONE,
        devices: Mapping[str, int] = NOTHING,
    ) -> PodClass:
        key = (tuple(request.items()), conditions, tuple(hints.items()), tuple(devices.items()))
        pod_class = self._classes.get(key)
        if pod_class is None:
            pod_class = PodClass(
                request=request, constraints=conditions, hints=hints, devices=devices
            )
            self._classes[key] = pod_class
        return pod_class


def _whole(pod: LargePod) -> wire.Pod:
    """Return the pod with its affinity decoded; raises FieldError for an invalid affinity."""
    event = events.whole(pod)
    if isinstance(event, DecodeFailed):
        raise FieldError(event.field, event.message)
    assert isinstance(event.object, wire.Pod)
    return event.object


def _basis(
    pod: wire.Pod, hints: Mapping[str, str], *, ours: bool, stands_for: object = None
) -> bytes:
    """Return all fields that the class of a pod depends on, encoded as bytes for fast comparison.

    With `stands_for`, the digest of a large pod's affinity, only fields that constraints depend on
    are included: resources granted on the node change while the pod starts.
    """
    spec, status, metadata = pod.spec, pod.status, pod.metadata
    given: object = None
    own: object = None
    if not stands_for and spec.node_name and pod_requests.has_grants(pod):
        whole = (status.resources, status.allocated_resources)
        infeasible = pod_requests.resize_is_infeasible(pod)
        granted = [
            (each.name, each.resources, each.allocated_resources)
            for each in (*status.container_statuses, *status.init_container_statuses)
        ]
        given = (granted, whole, infeasible)
    if spec.affinity or spec.topology_spread_constraints or stands_for:
        own = (metadata.namespace, metadata.labels)
    return _encode(
        (
            ours,
            hints,
            stands_for,
            given,
            own,
            spec.containers,
            spec.init_containers,
            spec.resources,
            spec.overhead,
            spec.host_network,
            spec.host_users,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
        )
    )
