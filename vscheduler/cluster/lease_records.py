"""Leases (coordination.k8s.io/v1) decoded to plain values, and encoded again."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from vscheduler.cluster.http import responses

INT32_MAX = 2**31 - 1
"""Largest value of the API's int32 fields."""

CONFIGURATION = "vscheduler/configuration"
"""Annotation with the digest of the configuration with which the holder decides."""

Object: TypeAlias = dict[str, Any]

Configuration: TypeAlias = Callable[[str], str]
"""Returns the digest of this process' configuration for a Lease; empty where it doesn't count."""


def configuration(lease: Mapping[str, Any]) -> str:
    """Return the digest that the leader wrote into a Lease; empty if it wrote none."""
    return str((lease["metadata"].get("annotations") or {}).get(CONFIGURATION, ""))


def no_configuration(lease: str) -> str:
    """Return that the configuration doesn't count for the Lease."""
    del lease
    return ""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a Lease's spec used by leader election, as stored.

    When two reads return equal records, nobody renewed the Lease in between.
    """

    holder: str = ""
    """Identity of the leader. Empty when the Lease was released."""
    duration_seconds: float = 0.0
    """0 when the field is missing or not a number."""
    acquired: str = ""
    renewed: str = ""
    """`acquired` and `renewed` keep the stored text. The times come from another machine's clock,
    so they are only compared for equality, never used in arithmetic."""
    transitions: int = 0


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A Lease as read, or as returned by a write."""

    record: Record
    uid: str
    version: str
    """The resourceVersion, sent as the precondition of the next write."""
    whole: Mapping[str, Any]
    """The complete decoded object. A write keeps all fields unknown to this module."""

    @property
    def name(self) -> str:
        """The Lease's `metadata.name`."""
        return str(self.whole["metadata"]["name"])

    @property
    def configuration(self) -> str:
        """Digest of the last holder's configuration; empty if unknown."""
        annotations = _mapping(self.whole["metadata"].get("annotations"))
        return _text(annotations.get(CONFIGURATION))


def read(body: bytes) -> Stored | None:
    """Decode the Lease in a response body, or return None when the body is not a Lease.

    Fields of the spec with wrong types do not make the Lease unreadable.
    """
    try:
        whole = msgspec.json.decode(body)
    except responses.GARBAGE:
        return None
    metadata = _mapping(_mapping(whole).get("metadata"))
    needed = [metadata.get(each) for each in ("name", "uid", "resourceVersion")]
    if not all(isinstance(each, str) and each for each in needed):
        return None
    spec = _mapping(whole.get("spec"))
    record = Record(
        holder=_text(spec.get("holderIdentity")),
        duration_seconds=_number(spec.get("leaseDurationSeconds")),
        acquired=_text(spec.get("acquireTime")),
        renewed=_text(spec.get("renewTime")),
        transitions=_count(spec.get("leaseTransitions")),
    )
    return Stored(
        record=record, uid=metadata["uid"], version=metadata["resourceVersion"], whole=whole
    )


def made(namespace: str, name: str, record: Record, configuration: str = "") -> Object:
    """Return the body of a new Lease, with the digest of a configuration, if there is one."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": _annotated({"namespace": namespace, "name": name}, configuration),
        "spec": _fields(record),
    }


def changed(over: Stored, record: Record, configuration: str = "") -> Object:
    """Return the body of an update with a new record; fields written by others are kept.

    Without a digest, that of the last holder is kept, too.
    """
    spec = {**_mapping(over.whole.get("spec")), **_fields(record)}
    metadata = _annotated(over.whole["metadata"], configuration)
    return {**over.whole, "metadata": metadata, "spec": spec}


def _annotated(metadata: Mapping[str, Any], configuration: str) -> Object:
    if not configuration:
        return dict(metadata)
    annotations = {**_mapping(metadata.get("annotations")), CONFIGURATION: configuration}
    return {**metadata, "annotations": annotations}


def _fields(record: Record) -> Object:
    """Return the fields of the spec owned by leader election. An absent time is written as null."""
    times = {"acquireTime": record.acquired, "renewTime": record.renewed}
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": max(1, math.ceil(record.duration_seconds)),
        "leaseTransitions": record.transitions,
        **{field: time or None for field, time in times.items()},
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """Return a string field.

    A value of another type becomes its repr, since the Lease has a holder in any case.
    """
    return value if isinstance(value, str) else "" if value is None else repr(value)


def _number(value: Any) -> float:
    sound = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if sound and abs(value) <= INT32_MAX else 0.0


def _count(value: Any) -> int:
    """Return a counter with room for an increment. Any value out of range starts again at 0."""
    return value if type(value) is int and 0 <= value < INT32_MAX else 0
