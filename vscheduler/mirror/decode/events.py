"""What the Mirror is told: immutable events about objects of the kinds that are watched."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import msgspec

from vscheduler.mirror.decode import wire


class Kind(StrEnum):
    """The kinds of objects that decisions depend on."""

    POD = "Pod"
    NODE = "Node"
    QUEUE = "Queue"
    POD_GROUP = "PodGroup"
    PRIORITY_CLASS = "PriorityClass"
    BUDGET = "PodDisruptionBudget"
    QUOTA = "ResourceQuota"
    NAMESPACE = "Namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why an object can't be used: people are told, everything else goes on without it."""

    kind: Kind
    key: str
    """`namespace/name`, or the name of an object without a namespace."""
    field: str
    """As in a manifest: spec.containers[0].resources.requests.cpu; empty where it is about all."""
    message: str

    def __str__(self) -> str:
        place = f"{self.field}: " if self.field else ""
        return f"{self.kind} {self.key}: {place}{self.message}"


class Upsert(msgspec.Struct, frozen=True, kw_only=True):
    """The object is there, and this is how it looks now."""

    kind: Kind
    object: wire.Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """The object is gone. One of the same name with another UID isn't."""

    kind: Kind
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """The object is there, and one of its fields isn't what its kind has there."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    field: str
    message: str

    @property
    def rejection(self) -> Rejection:
        """What people are told."""
        key = key_of(self.namespace, self.name)
        return Rejection(kind=self.kind, key=key, field=self.field, message=self.message)


Event: TypeAlias = Upsert | Remove | Reject


def key_of(namespace: str, name: str) -> str:
    """`namespace/name`, or the name alone."""
    return f"{namespace}/{name}" if namespace else name
