"""Pods of all schedulers, translated to Tasks and to room held on nodes.

Volcano: api.NewTaskInfo, getTaskStatus.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from vscheduler.core.model import pod_texts
from vscheduler.core.model.constraints import PodVolume, ResourceClaimUse
from vscheduler.core.model.jobs import (
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
from vscheduler.core.model.pod_texts import Annotations, PodReads
from vscheduler.core.model.snapshot import Nominated
from vscheduler.mirror.decode import events, fields, wire
from vscheduler.mirror.decode.events import DecodeError, Kind
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import Metadata, PodSpec
from vscheduler.mirror.translate import (
    bounds,
    extended_resources,
    kubelet_refusals,
    owner_references,
    pod_claims,
    pod_conditions,
    pod_volumes,
    translation,
)
from vscheduler.mirror.translate.bounds import Bounds
from vscheduler.mirror.translate.extended_resources import Container
from vscheduler.mirror.translate.kubelet_refusals import Answer
from vscheduler.mirror.translate.owner_references import OwnerTemplate
from vscheduler.mirror.translate.pod_classes import Classes

GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Annotations that name a pod's PodGroup. The second is a newer alias."""

NEVER = "Never"
"""The preemptionPolicy of pods for which nobody is evicted."""

REVOCABLE_ZONE = "volcano.sh/revocable-zone"
ANY_ZONE = "*"
"""The only value with a meaning (Volcano: GetPodRevocableZone)."""

SCORING = ("volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight")
"""Annotations about scoring nodes for a pod (Volcano: resource-strategy-fit)."""

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
    """Only for pods of ours without a PodGroup, or with an automatic PodGroup."""
    answer: Answer | None = None
    """Only for pods of ours."""
    nominated: Nominated | None = None
    """Only for pods of foreign schedulers with a nominated node."""
    gone_by: float | None = None
    """Only for pods that are being deleted: when their grace period is over, in seconds since the
    epoch."""

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
        known = pod.pod_class.constraints
        claims = (*known.resource_claims, use)
        return pod.of_class(self._classes.with_claims(pod.pod_class, known.volumes, claims))

    def charged(self, pod: Pod, devices: Mapping[str, int]) -> Pod:
        """Return the pod with devices that count for it."""
        return pod.of_class(self._classes.with_devices(pod.pod_class, devices))

    @property
    def classes(self) -> int:
        """How many distinct pod classes exist."""
        return len(self._classes)

    def pod(self, pod: wire.Pod) -> Pod:
        """Translate a pod. A defective pod has a rejection instead of a task.

        Even a defective pod with a node keeps its room there; with unreadable requests, a pod slot.
        """
        metadata, spec = pod.metadata, pod.spec
        key = events.key_of(metadata.namespace, metadata.name)
        uid = uid_of(metadata)
        named = _group(metadata)
        group = None if named is None else JobId(events.key_of(metadata.namespace, named))
        status = _status(pod)
        scheduler = self._ours.get(spec.scheduler_name or DEFAULT_SCHEDULER, "")
        if not scheduler:
            return self._foreign(pod, uid, key, group, status)
        labels = _shared(metadata.labels) if metadata.labels else NONE
        kept = _kept(metadata.annotations, self._reads.annotations)
        created, scheduled, answered = pod_conditions.times(pod)
        volumes = pod_volumes.of_pod(pod) if spec.volumes else pod_volumes.NONE
        extended, task, rejection = extended_resources.NONE, None, None
        try:
            waits = status in WAITING
            hints = _hints(metadata, self._reads) if kept or self._reads.labels else NONE
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
                annotations=kept,
                priority_class=spec.priority_class_name,
                scheduled_at=scheduled,
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
            origin=owner_references.of_pod(pod, named),
            answer=kubelet_refusals.answer_of(pod, answered),
            gone_by=_gone_by(pod),
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
            volumes=pod_volumes.of_pod(pod),
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
    _check_native_group(pod.spec)
    fields.check_pod_numbers(pod.metadata)


def _check_native_group(spec: PodSpec) -> None:
    """Raise FieldError for a pod of a group of Kubernetes' own API: alone it might be useless."""
    group, workload = spec.scheduling_group, spec.workload_ref
    if group is not None:
        place, named = "spec.schedulingGroup", f"PodGroup {group.pod_group_name}"
    elif workload is not None:
        place, named = "spec.workloadRef", f"Workload {workload.name}"
    else:
        return
    says = (
        f"names the scheduling.k8s.io {named}, which vscheduler doesn't read yet; leave "
        f"{place.rpartition('.')[2]} out of the pod template, and say in a scheduling.volcano.sh "
        f"PodGroup how many pods must start together"
    )
    raise FieldError(place, says)


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


def _group(metadata: Metadata) -> str | None:
    """Return the name of the PodGroup in the pod's annotations, or None."""
    for key in GROUPS:
        if name := metadata.annotations.get(key):
            return name
    return None


def _preemptable(metadata: Metadata) -> bool:
    """Whether the pod is preemptable (Volcano: GetPodPreemptable). Unreadable text means False."""
    text = metadata.annotations.get(PREEMPTABLE)
    if text is None:
        text = metadata.labels.get(PREEMPTABLE, "true")
    return text in TRUE


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
    declared = _declared(metadata, reads)
    if not annotations:
        return declared
    found = {key: annotations[key] for key in SCORING if annotations.get(key)}
    preemptable = annotations.get(PREEMPTABLE) in TRUE
    if annotations.get(REVOCABLE_ZONE, ANY_ZONE if preemptable else "") == ANY_ZONE:
        found[REVOCABLE_ZONE] = ANY_ZONE
    found |= declared
    return dict(sorted(found.items())) if found else NONE


def _declared(metadata: Metadata, reads: PodReads) -> Mapping[str, str]:
    """Return the texts that plugins of other packages declare, sorted; labels are marked."""
    if reads == pod_texts.NOTHING:
        return NONE
    found = {
        key: metadata.annotations[key] for key in reads.annotations if key in metadata.annotations
    }
    found |= {
        f"{LABEL} {key}": metadata.labels[key] for key in reads.labels if key in metadata.labels
    }
    return dict(sorted(found.items())) if found else NONE


def _shared(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the same object for equal labels: pods of a job mostly have equal labels."""
    return _shared_items(tuple(sorted(texts.items()))) if texts else NONE


@lru_cache(maxsize=4096)
def _shared_items(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)
