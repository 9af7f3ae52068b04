"""Controllers of pods that say how many pods they want: ReplicaSets, StatefulSets, Jobs.

What watches say of them is a hint that something is to be done; what is done depends on what is
then read. An owner of any other kind is known by its UID and kind only, which its pods hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

import msgspec

from vscheduler.controllers.podgroups import auto_groups, deletion
from vscheduler.mirror import paths
from vscheduler.mirror.decode import wire
from vscheduler.mirror.translate import owner_references


class Kind(StrEnum):
    """The kinds that are watched."""

    REPLICA_SET = "ReplicaSet"
    STATEFUL_SET = "StatefulSet"
    JOB = "Job"


API_VERSIONS: Mapping[Kind, str] = {
    Kind.REPLICA_SET: "apps/v1",
    Kind.STATEFUL_SET: "apps/v1",
    Kind.JOB: "batch/v1",
}

COLLECTIONS: Mapping[tuple[str, str], paths.Collection] = {
    (each.api_version, each.kind): each
    for each in (paths.PODS, paths.REPLICA_SETS, paths.STATEFUL_SETS, paths.JOBS)
}
"""Where an owner can be read, by apiVersion and kind."""

WATCHED: Mapping[Kind, paths.Path] = {
    kind: COLLECTIONS[API_VERSIONS[kind], kind].everywhere for kind in Kind
}
"""The collections of all namespaces."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An owner as it was last seen."""

    namespace: str
    owner: auto_groups.Owner


@dataclass(frozen=True, slots=True)
class Listed:
    """All owners of a kind."""

    kind: Kind
    found: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """One is there, and this is how it looks now."""

    kind: Kind
    seen: Seen


@dataclass(frozen=True, slots=True)
class Removed:
    """One is gone."""

    kind: Kind
    uid: str


Event: TypeAlias = Listed | Changed | Removed


class _Spec(wire.Struct, frozen=True):
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None


class _Object(wire.Struct, frozen=True):
    metadata: wire.Metadata = wire.Metadata()
    spec: _Spec = _Spec()


_decode = msgspec.json.Decoder(_Object).decode


class Codec:
    """How owners of one kind become events: what a watch is given."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def read(self, items: Sequence[bytes]) -> list[Seen]:
        """Some of them, as a list holds them."""
        return [self._read(item) for item in items]

    def begin(self, found: Sequence[Seen]) -> list[Event]:
        """Nothing before all of them are there."""
        del found
        return []

    def replace(self, found: Sequence[Seen]) -> list[Event]:
        """All of them."""
        return [Listed(self._kind, tuple(found))]

    def change(self, change: str, item: bytes) -> list[Event]:
        """One that was ADDED, MODIFIED or DELETED."""
        seen = self._read(item)
        if change == "DELETED":
            return [Removed(self._kind, seen.owner.ref.uid)]
        return [Changed(self._kind, seen)]

    def _read(self, item: bytes) -> Seen:
        """Few words are kept of each: clusters are full of old ReplicaSets."""
        found = _decode(item)
        metadata = found.metadata
        body = {
            "apiVersion": API_VERSIONS[self._kind],
            "kind": str(self._kind),
            "metadata": {"name": metadata.name, "uid": metadata.uid},
            "spec": msgspec.structs.asdict(found.spec),
        }
        kept = {
            name: text
            for name, text in metadata.annotations.items()
            if owner_references.DOMAIN in name
        }
        owner = replace(auto_groups.owner(body), annotations=kept)
        return Seen(metadata.namespace, owner)


class Owners:
    """The owners that watches have shown, by UID."""

    def __init__(self) -> None:
        self._known: dict[Kind, dict[str, Seen]] = {}
        """Only kinds whose list is in."""

    def apply(self, event: Event) -> tuple[Seen, ...]:
        """Take in what happened; the owners that are new or not as they were."""
        match event:
            case Listed():
                before = self._known.get(event.kind, {})
                found = {seen.owner.ref.uid: seen for seen in event.found}
                self._known[event.kind] = found
                return tuple(seen for uid, seen in found.items() if before.get(uid) != seen)
            case Changed():
                known = self._known.setdefault(event.kind, {})
                uid = event.seen.owner.ref.uid
                if known.get(uid) == event.seen:
                    return ()
                known[uid] = event.seen
                return (event.seen,)
            case Removed():
                self._known.setdefault(event.kind, {}).pop(event.uid, None)
                return ()

    def all(self) -> tuple[Seen, ...]:
        """Every one of them."""
        return tuple(seen for known in self._known.values() for seen in known.values())

    def get(self, uid: str) -> auto_groups.Owner | None:
        """The owner of this UID, of whatever kind."""
        for known in self._known.values():
            if uid in known:
                return known[uid].owner
        return None

    def state(self, ref: owner_references.Owner) -> deletion.OwnerState:
        """What seems to have become of it; UNKNOWN where nobody watches."""
        try:
            kind = Kind(ref.kind)
        except ValueError:
            return deletion.OwnerState.UNKNOWN
        if API_VERSIONS[kind] != ref.api_version or kind not in self._known:
            return deletion.OwnerState.UNKNOWN
        seen = self._known[kind].get(ref.uid)
        return deletion.owner_state(ref.uid, None if seen is None else seen.owner)


def path_of(ref: auto_groups.OwnerRef, namespace: str) -> paths.Path | None:
    """Where the owner can be read; None for a kind that isn't known.

    Raises paths.UnusableNameError where no object can be called so.
    """
    collection = COLLECTIONS.get((ref.api_version, ref.kind))
    return None if collection is None else collection.at(ref.name, namespace)
