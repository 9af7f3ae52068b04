"""What a Lease says: coordination.k8s.io/v1 as plain values, and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOUR_SECONDS = 3600.0


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
