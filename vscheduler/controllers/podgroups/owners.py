"""Controllers of pods with a known number of replicas: ReplicaSets, StatefulSets, Jobs.

Watches of owners only hint at work to do; decisions depend on live reads. Of owners of any further
kind only UID and kind are known, from the references in their pods.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from vscheduler.controllers.podgroups import auto_groups, deletion
from vscheduler.controllers.podgroups.auto_groups import OwnerRef
from vscheduler.controllers.podgroups.deletion import OwnerState
from vscheduler.mirror import paths
from vscheduler.mirror.decode.events import Remove
from vscheduler.mirror.decode.wire import Metadata, Struct
from vscheduler.mirror.index import entries
from vscheduler.mirror.index.entries import Entry, Part, Replace
from vscheduler.mirror.paths import Collection, Kind, Path
from vscheduler.mirror.translate import pod_owners
from vscheduler.mirror.translate.pod_owners import OwnerTexts


class OwnerKind(StrEnum):
    """The watched kinds."""

    REPLICA_SET = "ReplicaSet"
    STATEFUL_SET = "StatefulSet"
    JOB = "Job"


API_VERSIONS: Mapping[OwnerKind, str] = {
    OwnerKind.REPLICA_SET: "apps/v1",
    OwnerKind.STATEFUL_SET: "apps/v1",
    OwnerKind.JOB: "batch/v1",
}

COLLECTIONS: Mapping[tuple[str, str], Collection] = {
    (each.api_version, each.kind): each
    for each in (paths.PODS, paths.REPLICA_SETS, paths.STATEFUL_SETS, paths.JOBS)
}
"""Collections of readable owners, by apiVersion and kind."""

WATCHED: Mapping[OwnerKind, Path] = {
    kind: COLLECTIONS[API_VERSIONS[kind], kind].everywhere for kind in OwnerKind
}
"""The watched collections, over all namespaces."""


class Seen(msgspec.Struct, frozen=True):
    """An owner as last seen."""

    namespace: str
    owner: auto_groups.Owner


class Listed(msgspec.Struct, frozen=True):
    """All owners of a kind."""

    kind: OwnerKind
    found: tuple[Seen, ...]


class Changed(msgspec.Struct, frozen=True):
    """The owner exists and has the given content."""

    kind: OwnerKind
    seen: Seen


class Removed(msgspec.Struct, frozen=True):
    """The owner is gone."""

    kind: OwnerKind
    uid: str


Event: TypeAlias = Listed | Changed | Removed


class _Spec(Struct, frozen=True):
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None


class _Status(Struct, frozen=True):
    succeeded: int | None = None


class _Object(Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Object).decode


class Codec:
    """Decodes owners of a kind into events; handed to a reflector."""

    def __init__(self, kind: OwnerKind) -> None:
        self._kind = kind

    def read(self, items: Sequence[bytes]) -> list[Seen]:
        """Decode some owners of a list."""
        return [self._read(item) for item in items]

    def begin(self, owners: Sequence[Seen]) -> list[Event]:
        """Return no events: part of a list isn't applied."""
        del owners
        return []

    def replace(self, owners: Sequence[Seen]) -> list[Event]:
        """Return the event for a complete list."""
        return [Listed(self._kind, tuple(owners))]

    def change(self, change: str, item: bytes) -> list[Event]:
        """Return the event for an owner that was ADDED, MODIFIED or DELETED."""
        seen = self._read(item)
        if change == "DELETED":
            return [Removed(self._kind, seen.owner.ref.uid)]
        return [Changed(self._kind, seen)]

    def _read(self, item: bytes) -> Seen:
        """Decode an owner, without unneeded text: clusters are full of old ReplicaSets."""
        found = _decode(item)
        metadata = found.metadata
        body = {
            "apiVersion": API_VERSIONS[self._kind],
            "kind": str(self._kind),
            "metadata": {"name": metadata.name, "uid": metadata.uid},
            "spec": msgspec.structs.asdict(found.spec),
            "status": msgspec.structs.asdict(found.status),
        }
        texts = pod_owners.texts_of_owner(metadata)
        owner = replace(auto_groups.owner(body), annotations=texts.annotations)
        return Seen(metadata.namespace, owner)


class Owners:
    """The owners shown by watches, by UID."""

    def __init__(self) -> None:
        self._known: dict[OwnerKind, dict[str, Seen]] = {}
        """Only kinds with a complete list."""

    def apply(self, event: Event) -> tuple[Seen, ...]:
        """Apply an event; return new and changed owners."""
        match event:
            case Listed():
                before = self._known.get(event.kind, {})
                by_uid = {seen.owner.ref.uid: seen for seen in event.found}
                self._known[event.kind] = by_uid
                return tuple(seen for uid, seen in by_uid.items() if before.get(uid) != seen)
            case Changed():
                of_kind = self._known.setdefault(event.kind, {})
                uid = event.seen.owner.ref.uid
                if of_kind.get(uid) == event.seen:
                    return ()
                of_kind[uid] = event.seen
                return (event.seen,)
            case Removed():
                self._known.setdefault(event.kind, {}).pop(event.uid, None)
                return ()

    def all(self) -> tuple[Seen, ...]:
        """Return all known owners."""
        return tuple(seen for of_kind in self._known.values() for seen in of_kind.values())

    def get(self, uid: str) -> auto_groups.Owner | None:
        """Return the owner with this UID, of any kind."""
        for of_kind in self._known.values():
            if uid in of_kind:
                return of_kind[uid].owner
        return None

    def state(self, ref: pod_owners.Owner) -> OwnerState:
        """Return the owner's state as the watches show; UNKNOWN for kinds without a watch."""
        try:
            kind = OwnerKind(ref.kind)
        except ValueError:
            return OwnerState.UNKNOWN
        if API_VERSIONS[kind] != ref.api_version or kind not in self._known:
            return OwnerState.UNKNOWN
        seen = self._known[kind].get(ref.uid)
        return deletion.owner_state(ref.uid, None if seen is None else seen.owner)


def mirrored(event: Event) -> entries.Event:
    """Return the same event for the Mirror, which has the annotations of owners only."""
    kind = Kind(event.kind)
    match event:
        case Listed():
            return Replace(kind=kind, found=dict(map(_entry, event.found)))
        case Changed():
            return Part(kind=kind, found=dict([_entry(event.seen)]))
        case Removed():
            return Remove(kind=kind, namespace="", name="", uid=event.uid)


def _entry(seen: Seen) -> tuple[str, Entry]:
    texts = OwnerTexts(seen.owner.annotations)
    return seen.owner.ref.uid, Entry(entries.UNKNOWN.reference, texts)


def path_of(ref: OwnerRef, namespace: str) -> Path | None:
    """Return the path of an owner; None for unknown kinds.

    Raises paths.UnusableNameError if no object can have the name.
    """
    collection = COLLECTIONS.get((ref.api_version, ref.kind))
    return None if collection is None else collection.at(ref.name, namespace)
