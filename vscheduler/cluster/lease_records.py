"""What a Lease says: coordination.k8s.io/v1 as plain values, and back."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from vscheduler.cluster.http import responses

INT32_MAX = 2**31 - 1
"""What the wire's numbers may be."""

Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The fields of a Lease's spec that an election is about, as they are stored.

    Two equal records mean that nobody has renewed in between.
    """

    holder: str = ""
    """Empty: nobody, it was given back."""
    duration_seconds: float = 0.0
    """0 where it is missing or no number."""
    acquired: str = ""
    renewed: str = ""
    """Times as they are stored: another's clock, so they are compared and never reckoned with."""
    transitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A Lease as it was read, or as a write was answered."""

    record: Record
    uid: str
    version: str
    """resourceVersion: the precondition of the next write."""
    whole: Mapping[str, Any]
    """The object as it came; a write keeps what it doesn't know of it."""

    @property
    def name(self) -> str:
        """Its name in its namespace."""
        return str(self.whole["metadata"]["name"])


def read(body: bytes) -> Stored | None:
    """The Lease in an answer, whatever its fields say; None where there is none in it."""
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


def made(namespace: str, name: str, record: Record) -> Object:
    """A new Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
        "spec": _fields(record),
    }


def changed(over: Stored, record: Record) -> Object:
    """A Lease with this record in it; what others keep there stays."""
    spec = {**_mapping(over.whole.get("spec")), **_fields(record)}
    return {**over.whole, "spec": spec}


def _fields(record: Record) -> Object:
    """The part of a Lease's spec that we write; a time that is missing can't be written."""
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
    """Text; what is something else is nobody we know, and not nobody."""
    return value if isinstance(value, str) else "" if value is None else repr(value)


def _number(value: Any) -> float:
    sound = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if sound and abs(value) <= INT32_MAX else 0.0


def _count(value: Any) -> int:
    """A count that can be counted up; else it begins anew."""
    return value if type(value) is int and 0 <= value < INT32_MAX else 0
