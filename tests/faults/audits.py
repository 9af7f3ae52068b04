"""Who bound which pod, and who held which Lease: counted from an API server's audit log.

It is the server's word, not a scheduler's. Each instance that is to be told apart has a user of
its own. Times are the server's, in seconds since 1970.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

CREATED = 201
ENDED = "ResponseComplete"
MARKS = (b'"leases"', b'"binding"', b'"pods"', b'"podgroups"', b'"queues"', b'"events"')
"""Lines without any of them are of no interest."""
WRITES = ("create", "update", "patch")
CHANGES = (*WRITES, "delete", "deletecollection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One request, as far as the log tells."""

    user: str
    verb: str
    resource: str
    """`pods`, or `pods/binding`."""
    namespace: str
    name: str
    uid: str = ""
    code: int
    received: float
    answered: float
    """Of a watch: when it began."""

    @property
    def done(self) -> bool:
        """Whether the server did what it was asked."""
        return 200 <= self.code < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Reign:
    """The time of one user's holding a Lease: until the next Reign begins."""

    user: str
    began: float
    """When the write that won the Lease was answered."""
    renewed: float
    """When the last write to it was received."""


class Log:
    """An audit log from its present end on, read on as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._entries: list[Entry] = []

    def entries(self) -> Sequence[Entry]:
        """All so far, in the order of their answers."""
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                if any(mark in line for mark in MARKS):
                    self._entries += parse(json.loads(line))
        return tuple(self._entries)


def parse(event: dict[str, Any]) -> Iterable[Entry]:
    """The entry of an audit.k8s.io/v1 Event; none of what has no answer yet, or no object."""
    target, verb = event.get("objectRef", {}), event["verb"]
    begun = "ResponseStarted" if verb == "watch" else ENDED
    if event["stage"] != begun or "responseStatus" not in event:
        return
    parts = (target.get("resource", ""), target.get("subresource", ""))
    yield Entry(
        user=event["user"]["username"],
        verb=verb,
        resource="/".join(part for part in parts if part),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        uid=target.get("uid", ""),
        code=event["responseStatus"]["code"],
        received=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
        answered=datetime.fromisoformat(event["stageTimestamp"]).timestamp(),
    )


def attempts(entries: Iterable[Entry]) -> list[Entry]:
    """Requests to bind a pod, whatever came of them."""
    return [
        entry for entry in entries if entry.resource == "pods/binding" and entry.verb == "create"
    ]


def changes(entries: Iterable[Entry]) -> list[Entry]:
    """Requests to write anything but a Lease, whatever came of them: events, too."""
    return [entry for entry in entries if entry.verb in CHANGES and entry.resource != "leases"]


def binds(entries: Iterable[Entry]) -> list[Entry]:
    """Pods that were bound."""
    return [attempt for attempt in attempts(entries) if attempt.code == CREATED]


def bound_twice(entries: Iterable[Entry]) -> list[str]:
    """Pods that were bound more than once; one of the same name that was made anew is another."""
    times = Counter((bind.namespace, bind.name, bind.uid) for bind in binds(entries))
    return sorted(f"{space}/{name}" for (space, name, _), count in times.items() if count > 1)


def lease_writes(entries: Iterable[Entry], lease: str, users: Collection[str]) -> list[Entry]:
    """What these users wrote to a Lease, by name, and the server took."""
    return [
        entry
        for entry in entries
        if entry.resource == "leases"
        and entry.verb in WRITES
        and entry.done
        and entry.user in users
        and entry.name == lease
    ]


def reigns(entries: Iterable[Entry], lease: str, users: Collection[str]) -> list[Reign]:
    """Who of these users held a Lease, one after another.

    Only its holder writes to a Lease, so that a write by another is a takeover.
    """
    found: list[Reign] = []
    for write in sorted(lease_writes(entries, lease, users), key=lambda entry: entry.answered):
        began = write.answered
        if found and found[-1].user == write.user:
            began = found.pop().began
        found.append(Reign(user=write.user, began=began, renewed=write.received))
    return found


def out_of_turn(
    entries: Sequence[Entry], namespace: str, lease: str, users: Collection[str]
) -> list[Entry]:
    """Attempts to bind pods of a namespace that came in while another user held the Lease."""
    held = reigns(entries, lease, users)
    wrong = []
    for attempt in attempts(entries):
        before = [reign for reign in held if reign.began < attempt.received]
        turn = before[-1].user if before else None
        if attempt.namespace == namespace and attempt.user in users and attempt.user != turn:
            wrong.append(attempt)
    return wrong


def first(entries: Iterable[Entry], user: str, after: float) -> Entry | None:
    """The first of these by a user that was answered after a moment."""
    return min(
        (entry for entry in entries if entry.user == user and entry.answered > after),
        key=lambda entry: entry.answered,
        default=None,
    )
