"""Entries of the Mirror: objects translated to the model, with their defects."""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from vscheduler.mirror import paths
from vscheduler.mirror.decode import events, fields, wire, wire_devices, wire_storage
from vscheduler.mirror.decode.events import DecodeError, DecodeFailed, Kind, Upsert
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import CompositePodGroup, NativePodGroup, PodGroup
from vscheduler.mirror.decode.wire_storage import PersistentVolume, PersistentVolumeClaim
from vscheduler.mirror.translate import devices as dra
from vscheduler.mirror.translate import pod_owners, pods, translation, usage_annotation
from vscheduler.mirror.translate import storage as volumes
from vscheduler.mirror.translate.bounds import Bounds
from vscheduler.mirror.translate.pods import Translator
from vscheduler.mirror.translate.translation import Group
from vscheduler.model import devices, pod_texts, queues, storage, topology
from vscheduler.model.constraints import ResourceClaimUse
from vscheduler.model.jobs import TaskStatus
from vscheduler.model.pod_texts import PodReads
from vscheduler.model.snapshot import Budget, Quota

S = TypeVar("S")
V = TypeVar("V", queues.Queue, Budget, Quota, topology.HyperNode)

STARTING = frozenset({TaskStatus.BINDING, TaskStatus.BOUND})
STARTED = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
"""Statuses of a pod with a node, before and after a STEP."""

Value: TypeAlias = (
    pods.Pod
    | translation.Node
    | queues.Queue
    | Group
    | translation.PriorityClass
    | translation.Namespace
    | Budget
    | Quota
    | topology.HyperNode
    | storage.Object
    | devices.Object
    | pod_owners.OwnerTexts
)


class Change(IntEnum):
    """How far an event changed anything that decisions depend on."""

    NONE = 0
    STEP = 1
    """A decision took effect: a pod started on its node, or a group's status was written. No
    waiting job gains room from a STEP.
    """
    OTHER = 2


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """UID and version of an object as last seen: preconditions for writes."""

    uid: str
    resource_version: str

    def is_before(self, other: "Reference") -> bool:
        """Whether this version is older. Versions that are not numbers are never older."""
        mine, others = self.resource_version, other.resource_version
        return mine.isdecimal() and others.isdecimal() and int(mine) < int(others)


class Entry(msgspec.Struct, frozen=True):
    """An object as last seen."""

    reference: Reference
    value: Value | None
    """None where the object is unusable or deliberately ignored."""
    rejection: DecodeError | None = None
    """The defect of an unusable object, or of an ignored part of a usable object."""
    has_reason: bool = False
    """Whether a pod's condition gives a reason for waiting. Not a part of the value, since no
    decision depends on it."""


UNKNOWN = Entry(Reference(uid="", resource_version=""), None)
"""The entry of an object that was never seen."""


class Replace(msgspec.Struct, frozen=True, kw_only=True):
    """All objects of a kind, the result of a list. Known objects missing here are gone."""

    kind: Kind
    found: Mapping[str, Entry]
    """By key; the key of a pod is its UID."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a list in progress: a Mirror without objects may already apply the part."""

    kind: Kind
    found: Mapping[str, Entry]


Event: TypeAlias = events.Event | Replace | Part
"""Everything that Mirror.apply accepts."""


def waiting_namespace(event: Event) -> str | None:
    """Return the namespace of a PodGroup, or of a pod without a node, that came or changed."""
    if not isinstance(event, Upsert):
        return None
    shown = event.object
    if isinstance(shown, PodGroup | NativePodGroup | CompositePodGroup):
        return shown.metadata.namespace
    waits = isinstance(shown, wire.Pod) and not shown.spec.node_name
    return shown.metadata.namespace if waits else None


OnError: TypeAlias = Callable[[DecodeFailed, Exception], None]
"""Called with an object that is left out because the scheduler itself failed on the object."""


class Reader:
    """Translates wire objects to entries."""

    def __init__(
        self,
        *,
        scheduler_names: tuple[str, ...],
        default_queue: str,
        node_selector: tuple[tuple[str, str], ...],
        most: Bounds,
        reads: PodReads = pod_texts.NOTHING,
        on_error: OnError | None = None,
    ) -> None:
        """Create a reader; `on_error` is called with each object on which translation fails
        unexpectedly.

        An object that fails is left out. With `on_error` None, the error is raised instead.
        """
        self._on_error = on_error
        self._most = most
        self._translator = Translator(scheduler_names, most, reads)
        self._reads = reads
        self._scheduler_names = scheduler_names
        self._default_queue = default_queue
        self._node_selector = frozenset(node_selector)
        self._translations = self._table()

    def claiming(self, pod: pods.Pod, use: ResourceClaimUse) -> pods.Pod:
        """Return the pod as one that uses this claim, too."""
        return self._translator.claiming(pod, use)

    def group_texts(self, group: Group) -> Mapping[str, str]:
        """Return what plugins read of a PodGroup, as hints of its pods' classes."""
        return self.texts(group.job.annotations, group.job.labels)

    @property
    def reads_texts(self) -> bool:
        """Whether plugins read annotations or labels."""
        return self._reads != pod_texts.NOTHING

    def texts(self, annotations: Mapping[str, str], labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return what plugins read of annotations and labels of a PodGroup."""
        return self._translator.group_texts(annotations, labels)

    def grouped(self, pod: pods.Pod, texts: Mapping[str, str]) -> pods.Pod:
        """Return the pod as one of a PodGroup with these texts."""
        return self._translator.grouped(pod, texts)

    def charged(self, pod: pods.Pod, devices: Mapping[str, int]) -> pods.Pod:
        """Return the pod with devices that count for it."""
        return self._translator.charged(pod, devices)

    def serve(self, scheduler_names: tuple[str, ...]) -> None:
        """Set the scheduler names whose pods are ours from now on."""
        self._translator.serve(scheduler_names)
        self._scheduler_names = scheduler_names

    def take(self, event: Upsert | DecodeFailed) -> tuple[str, Entry]:
        """Return the key of an object (for a pod, the UID) and its entry, also for an object that
        can't be decoded.
        """
        if isinstance(event, DecodeFailed):
            return refused(event)
        try:
            return self.read(event.kind, event.object)
        except Exception as error:
            if self._on_error is None:
                raise
            rejected = failed(event)
            self._on_error(rejected, error)
            return refused(rejected)

    def read(self, kind: Kind, found: events.Object) -> tuple[str, Entry]:
        """Return the key of a decoded object (for a pod, the UID) and its entry."""
        metadata = found.metadata
        reference = Reference(uid=metadata.uid, resource_version=metadata.resource_version)
        try:
            fields.check_named(metadata.name)
            value = self._translations[kind](found)
        except FieldError as error:
            key = events.key_of(metadata.namespace, metadata.name)
            return key, Entry(reference, None, translation.reject(kind, metadata, error))
        if isinstance(value, pod_owners.OwnerTexts):
            return metadata.uid, Entry(reference, value)
        if isinstance(value, pods.Pod):
            assert isinstance(found, wire.Pod)
            return value.uid, Entry(reference, value, value.rejection, pods.has_reason(found))
        key = events.key_of(metadata.namespace, metadata.name)
        if isinstance(value, queues.Queue) and (
            unread := usage_annotation.problem(metadata.annotations)
        ):
            return key, Entry(reference, value, translation.reject(kind, metadata, unread))
        return key, Entry(reference, value)

    def _table(self) -> Mapping[Kind, Callable[[Any], Value | None]]:
        """Return the translation of each kind of objects."""
        return dict(
            (
                _row(wire.Pod, self._translator.pod),
                _row(PodGroup, self._pod_group),
                _row(NativePodGroup, self._native_pod_group),
                _row(CompositePodGroup, self._composite_pod_group),
                _row(wire.Node, self._node),
                _row(wire.Queue, lambda queue: translation.queue(queue, self._scheduler_names)),
                _row(wire.Namespace, translation.namespace),
                _row(wire.PriorityClass, translation.priority_class),
                _row(wire.PodDisruptionBudget, translation.budget),
                _row(wire.ResourceQuota, translation.quota),
                _row(wire.HyperNode, translation.hyper_node),
                _row(wire.ReplicaSet, lambda owner: pod_owners.texts_of_owner(owner.metadata)),
                _row(wire.StatefulSet, lambda owner: pod_owners.texts_of_owner(owner.metadata)),
                _row(wire.Job, lambda owner: pod_owners.texts_of_owner(owner.metadata)),
                _row(
                    PersistentVolumeClaim, lambda claim: volumes.claim(claim, self._scheduler_names)
                ),
                _row(
                    PersistentVolume, lambda volume: volumes.volume(volume, self._scheduler_names)
                ),
                _row(wire_storage.StorageClass, volumes.storage_class),
                _row(wire_storage.CSINode, volumes.csi_node),
                _row(wire_storage.CSIDriver, volumes.csi_driver),
                _row(wire_storage.CSIStorageCapacity, volumes.capacity),
                _row(wire_storage.VolumeAttachment, volumes.attachment),
                _row(wire_devices.ResourceClaim, dra.resource_claim),
                _row(wire_devices.ResourceSlice, dra.resource_slice),
                _row(wire_devices.DeviceClass, dra.device_class),
                # A controller makes claims of it.
                _row(wire_devices.ResourceClaimTemplate, lambda _: None),
            )
        )

    def _pod_group(self, group: PodGroup) -> Group:
        self._most.check_group(group)
        return translation.pod_group(group, self._default_queue)

    def _native_pod_group(self, group: NativePodGroup) -> Group:
        self._most.check_group(group)
        return translation.native_pod_group(group)

    def _composite_pod_group(self, group: CompositePodGroup) -> Group:
        self._most.check_group(group)
        return translation.composite_pod_group(group)

    def _node(self, node: wire.Node) -> translation.Node | None:
        """Translate a node; None if it has none of the labels that nodes need to be seen."""
        found = translation.node(node, self._reads.annotations)
        if self._node_selector and self._node_selector.isdisjoint(found.spec.labels):
            return None
        return found


def _row(
    struct: type[S], translate: Callable[[S], Value | None]
) -> tuple[Kind, Callable[[Any], Value | None]]:
    """Return a row of a table by kind; mypy checks that both parts are about the same struct."""
    return events.kind_of_struct(struct), translate


def values(stored: Mapping[str, Entry], kind: type[V]) -> Iterator[V]:
    """Iterate over the usable objects of a kind, in the order of their keys."""
    every = (stored[key].value for key in sorted(stored))
    return (value for value in every if isinstance(value, kind))


def refused(event: DecodeFailed) -> tuple[str, Entry]:
    """Return the key and the entry of an object that can't be decoded."""
    key = events.key_of(event.namespace, event.name)
    if event.kind is Kind.POD or event.kind in paths.OWNERS:
        key = event.uid or key
    return key, Entry(Reference(uid=event.uid, resource_version=""), None, event.rejection)


def failed(event: Upsert) -> DecodeFailed:
    """Return the object as undecodable, for the scheduler itself failed on the object."""
    metadata = event.object.metadata
    return DecodeFailed(
        kind=event.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        field="",
        message="the scheduler failed on this object, a defect of the scheduler: see its log",
    )


def change(before: Value | None, after: Value | None) -> Change:
    """Return how far decisions can depend on the difference of two values."""
    if before is None or after is None:
        return Change.NONE if before is after else Change.OTHER
    if before == after:
        return Change.NONE
    match before, after:
        case pods.Pod(), pods.Pod():
            if before.leaves and replace(before, gone_by=after.gone_by) == after:
                return Change.NONE  # it matters at that instant only
            is_step = _starts(before, after)
        case Group(), Group():
            as_after = replace(before.job, state=after.job.state)
            is_step = replace(before, job=as_after) == after
        case _:
            is_step = False
    return Change.STEP if is_step else Change.OTHER


def _starts(before: pods.Pod, after: pods.Pod) -> bool:
    """Whether the pod's progress on its node is the only difference."""
    if before.status not in STARTING or after.status not in STARTED:
        return False
    task = before.task
    if task is not None and after.task is not None:
        at = after.task.scheduled_at
        task = replace(task, status=after.status, scheduled_at=at)
    return replace(before, status=after.status, task=task, answer=after.answer) == after


def resources_of(value: Value | None) -> set[str]:
    """Return the resources named by an object of any kind except pods."""
    match value:
        case translation.Node():
            return set(value.allocatable)
        case queues.Queue():
            return {*value.capability, *value.deserved, *value.guarantee}
        case Group():
            return set(value.job.min_resources or ())
    return set()
