"""Objects as the Mirror keeps them: what each kind is to it, and what is wrong with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

import msgspec
from msgspec import structs

from vscheduler.core.model import jobs, queues, snapshot
from vscheduler.mirror.decode import events, fields, wire
from vscheduler.mirror.translate import bounds, pods, translation, usage_annotation

STARTING = frozenset({jobs.TaskStatus.BINDING, jobs.TaskStatus.BOUND})
STARTED = frozenset({jobs.TaskStatus.BOUND, jobs.TaskStatus.RUNNING})
"""What a pod is that has a node, and then."""

Value: TypeAlias = (
    pods.Pod
    | translation.Node
    | queues.Queue
    | translation.Group
    | translation.PriorityClass
    | translation.Namespace
    | snapshot.Budget
    | snapshot.Quota
)


class Change(IntEnum):
    """What an event changed, as far as decisions depend on it."""

    NONE = 0
    STEP = 1
    """What was decided goes on: a pod starts on the node that it has, a group's status is written.
    Nobody who waits finds room by that."""
    OTHER = 2


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """Which object it is, and in which version it was seen: preconditions of a write."""

    uid: str
    resource_version: str

    def is_before(self, other: "Reference") -> bool:
        """Whether this is an older version of the object, as far as versions are numbers."""
        mine, others = self.resource_version, other.resource_version
        return mine.isdecimal() and others.isdecimal() and int(mine) < int(others)


class Entry(msgspec.Struct, frozen=True):
    """An object as it was last seen."""

    reference: Reference
    value: Value | None
    """None where the object can't be used, or isn't seen on purpose."""
    rejection: events.DecodeError | None = None
    """What is wrong with it, or with a part of it that it can be used without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """All objects of a kind, the result of a list: what isn't among them is gone."""

    kind: events.Kind
    found: Mapping[str, Entry]
    """By key; a pod's is its UID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some objects of a list that goes on: who has nothing yet may take them in already."""

    kind: events.Kind
    found: Mapping[str, Entry]


Event: TypeAlias = events.Event | Replace | Part
"""What a Mirror can be told."""


def waiting_namespace(event: Event) -> str | None:
    """The namespace of the pod that it shows, if that has no node."""
    if not isinstance(event, events.Upsert) or not isinstance(event.object, wire.Pod):
        return None
    return None if event.object.spec.node_name else event.object.metadata.namespace


Told: TypeAlias = Callable[[events.DecodeFailed, Exception], None]
"""Told of an object that is left out because the scheduler failed at it."""


class Reader:
    """From wire objects to entries."""

    def __init__(
        self,
        *,
        scheduler_names: tuple[str, ...],
        default_queue: str,
        node_selector: tuple[tuple[str, str], ...],
        most: bounds.Bounds,
        told: Told | None = None,
    ) -> None:
        """Told of objects at which reading fails unexpectedly, which are left out then; None:
        nobody is, and what fails is raised.
        """
        self._told = told
        self._translator = pods.Translator(scheduler_names, most)
        self._scheduler_names = scheduler_names
        self._default_queue = default_queue
        self._node_selector = frozenset(node_selector)

    def serve(self, scheduler_names: tuple[str, ...]) -> None:
        """Whose pods are ours from now on."""
        self._translator.serve(scheduler_names)
        self._scheduler_names = scheduler_names

    def take(self, event: events.Upsert | events.DecodeFailed) -> tuple[str, Entry]:
        """An object's key (a pod's UID), and what it comes to."""
        if isinstance(event, events.DecodeFailed):
            return refused(event)
        try:
            return self.read(event.kind, event.object)
        except Exception as error:
            if self._told is None:
                raise
            rejected = failed(event)
            self._told(rejected, error)
            return refused(rejected)

    def read(self, kind: events.Kind, found: wire.Object) -> tuple[str, Entry]:
        """The object's key (a pod's UID), and what it means."""
        metadata = found.metadata
        reference = Reference(uid=metadata.uid, resource_version=metadata.resource_version)
        key = events.key_of(metadata.namespace, metadata.name)
        try:
            fields.check_named(metadata.name)
            value = self._value(found)
        except fields.FieldError as error:
            return key, Entry(reference, None, translation.reject(kind, metadata, error))
        if isinstance(value, pods.Pod):
            return value.uid, Entry(reference, value, value.rejection)
        if isinstance(value, queues.Queue) and (
            unread := usage_annotation.problem(metadata.annotations)
        ):
            return key, Entry(reference, value, translation.reject(kind, metadata, unread))
        return key, Entry(reference, value)

    def _value(self, found: wire.Object) -> Value | None:
        value: Value | None
        match found:
            case wire.Pod():
                value = self._translator.pod(found)
            case wire.Node():
                node = translation.node(found)
                value = node if self._sees(node) else None
            case wire.Queue():
                value = translation.queue(found, self._scheduler_names)
            case wire.PodGroup():
                value = translation.pod_group(found, self._default_queue)
            case wire.Namespace():
                value = translation.namespace(found)
            case wire.PriorityClass():
                value = translation.priority_class(found)
            case wire.PodDisruptionBudget():
                value = translation.budget(found)
            case wire.ResourceQuota():
                value = translation.quota(found)
        return value

    def _sees(self, node: translation.Node) -> bool:
        return not self._node_selector or not self._node_selector.isdisjoint(node.spec.labels)


def refused(event: events.DecodeFailed) -> tuple[str, Entry]:
    """The key and the entry of an object that doesn't decode."""
    key = events.key_of(event.namespace, event.name)
    if event.kind is events.Kind.POD:
        key = event.uid or key
    return key, Entry(Reference(uid=event.uid, resource_version=""), None, event.rejection)


def failed(event: events.Upsert) -> events.DecodeFailed:
    """An object that the scheduler itself fails at is left out like one that doesn't decode."""
    metadata = event.object.metadata
    return events.DecodeFailed(
        kind=event.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        field="",
        message="the scheduler failed at it, which is a defect of it: see its log",
    )


def change(before: Value | None, after: Value | None) -> Change:
    """How far one of these is from the other."""
    if before == after:
        return Change.NONE
    match before, after:
        case pods.Pod(), pods.Pod():
            is_step = _starts(before, after)
        case translation.Group(), translation.Group():
            as_after = replace(before.job, state=after.job.state)
            is_step = replace(before, job=as_after) == after
        case _:
            is_step = False
    return Change.STEP if is_step else Change.OTHER


def _starts(before: pods.Pod, after: pods.Pod) -> bool:
    """Whether all that is new is how far the pod is on its node."""
    if before.status not in STARTING or after.status not in STARTED:
        return False
    task = before.task
    if task is not None and after.task is not None:
        at = after.task.scheduled_at
        task = replace(task, status=after.status, scheduled_at=at)
    return structs.replace(before, status=after.status, task=task, answer=after.answer) == after


def resources_of(value: Value | None) -> set[str]:
    """The resources that an object of any kind but pods adds to those that are counted."""
    match value:
        case translation.Node():
            return set(value.allocatable)
        case queues.Queue():
            return {*value.capability, *value.deserved, *value.guarantee}
        case translation.Group():
            return set(value.job.min_resources or ())
    return set()
