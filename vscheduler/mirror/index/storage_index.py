"""Storage index: claims, volumes and their use by pods, behind Snapshot.storage.

A cluster in which no pod of ours uses volumes that matter has no Storage, and costs nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from vscheduler.mirror.translate import pods
from vscheduler.mirror.translate.pods import Pod
from vscheduler.model import storage
from vscheduler.model.constraints import ClaimUse, PodVolume
from vscheduler.model.jobs import TaskId
from vscheduler.model.storage import (
    Attachment,
    Capacity,
    Claim,
    CsiDriver,
    CsiNode,
    Memo,
    Object,
    Storage,
    StorageClass,
    Volume,
)

V = TypeVar("V")

Grouped = dict[str, dict[str, V]]
"""Objects by group (class or node), then by key."""


class StorageIndex:
    """Follows storage objects and pods; freezes what has changed.

    Uses of volumes are counted for pods of all schedulers that hold resources on a node.
    """

    def __init__(self) -> None:
        self._served = True
        self._objects: dict[type, dict[str, Any]] = {kind: {} for kind in _FIELDS}
        self._frozen: dict[str, Any] = {}
        """Frozen fields of Storage that are up to date, by name."""
        self._uses: dict[str, dict[PodVolume, tuple[int, int]]] = {}
        self._claim_uses: dict[str, tuple[int, int]] = {}
        self._users = 0
        """Number of our pods with volumes that haven't finished, waiting pods included."""
        self._leaving: dict[TaskId, Pod] = {}
        self._overdue: frozenset[TaskId] = frozenset()
        """Terminating pods that should have gone long ago, and are counted as pods that stay."""
        self._selected: dict[type, set[str]] = {Claim: set(), Volume: set()}
        self._memo = Memo()
        self._changed_groups: dict[str, set[str]] = {name: set() for name in _GROUPS}
        self._groups: dict[str, Grouped[Any]] = {name: {} for name in _GROUPS}
        self._sorted: dict[str, dict[str, tuple[Any, ...]]] = {name: {} for name in _GROUPS}
        """The same, sorted; groups that changed lag behind."""
        self._last = storage.NO_STORAGE

    def serve(self, *, served: bool) -> None:
        """Say whether the API server serves these kinds and lets them be read."""
        if served != self._served:
            self._served = served
            self._last = storage.NO_STORAGE
            self._frozen.pop("served", None)

    def move(self, key: str, old: Object | None, new: Object | None) -> None:
        """Apply an object that came (old is None), changed or went (new is None)."""
        kind = type(old if new is None else new)
        self._frozen.pop(_FIELDS[kind], None)
        if new is None:
            del self._objects[kind][key]
        else:
            self._objects[kind][key] = new
        for name, group_of in _GROUPS.items():
            self._regroup(name, key, group_of(old), old, -1)
            self._regroup(name, key, group_of(new), new, 1)
        if _is_selected(old):
            self._selected[kind].discard(key)
            self._frozen.pop(_SELECTED[kind], None)
        if _is_selected(new):
            self._selected[kind].add(key)
            self._frozen.pop(_SELECTED[kind], None)

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went; only for pods with volumes."""
        if old is not None and old.volumes:
            self._count(old, -1)
            self._leaving.pop(old.uid, None)
        if new is not None and new.volumes:
            self._count(new, 1)
            if new.leaves:
                self._leaving[new.uid] = new

    def expire(self, overdue: frozenset[TaskId]) -> None:
        """Count these terminating pods, and no others, as pods that stay."""
        changed = [
            self._leaving[uid] for uid in sorted(overdue ^ self._overdue) if uid in self._leaving
        ]
        for pod in changed:
            self._count(pod, -1)
        self._overdue = overdue
        for pod in changed:
            self._count(pod, 1)

    @property
    def in_use(self) -> bool:
        """Whether decisions can depend on storage: a pod of ours uses volumes, or a claim or volume
        bears our note.
        """
        return bool(self._users) or any(self._selected.values())

    def freeze(self) -> Storage:
        """Return the storage; the last object again when nothing changed."""
        if not self.in_use:
            return storage.NO_STORAGE
        if self._last is storage.NO_STORAGE or len(self._frozen) < len(_EVERY):
            for name in _EVERY:
                if name not in self._frozen:
                    self._frozen[name] = self._freeze(name)
            self._last = Storage(**self._frozen, memo=self._memo)
        return self._last

    def _freeze(self, name: str) -> object:
        """Return one field of Storage, anew."""
        if name in _GROUPS:
            return self._freeze_groups(name)
        plain: Mapping[str, Callable[[], object]] = {
            "served": lambda: self._served,
            "uses": lambda: dict(self._uses),
            "claim_uses": lambda: dict(self._claim_uses),
            "selected_claims": lambda: tuple(sorted(self._selected[Claim])),
            "selected_volumes": lambda: tuple(sorted(self._selected[Volume])),
        }
        if name in plain:
            return plain[name]()
        kind = next(kind for kind, field in _FIELDS.items() if field == name)
        return dict(self._objects[kind])

    def _regroup(
        self, name: str, key: str, group: str | None, value: Object | None, step: int
    ) -> None:
        if group is None:
            return
        self._frozen.pop(name, None)
        self._changed_groups[name].add(group)
        members = self._groups[name].setdefault(group, {})
        if step > 0:
            members[key] = value
        else:
            del members[key]

    def _freeze_groups(self, name: str) -> Mapping[str, tuple[Any, ...]]:
        """Return objects by group; groups without changes keep their tuple."""
        found = self._sorted[name]
        for group in self._changed_groups[name]:
            members = self._groups[name].get(group)
            if members:
                found[group] = tuple(sorted(members.values(), key=_ORDER[name]))
            else:
                self._groups[name].pop(group, None)
                found.pop(group, None)
        self._changed_groups[name].clear()
        return dict(found)

    def _count(self, pod: Pod, step: int) -> None:
        if pod.ours and pod.status not in pods.FINISHED:
            self._users += step
        if not pod.holds_resources:
            return
        assert pod.node is not None
        self._frozen.pop("uses", None)
        staying, leaving = (0, step) if pod.leaves and pod.uid not in self._overdue else (step, 0)
        used = dict(self._uses.get(pod.node, ()))  # the last one may be in use by a Storage
        for volume in dict.fromkeys(pod.volumes):
            _add(used, volume, staying, leaving)
            if isinstance(volume, ClaimUse):
                self._frozen.pop("claim_uses", None)
                _add(self._claim_uses, volume.claim, staying, leaving)
        if used:
            self._uses[pod.node] = used
        else:
            self._uses.pop(pod.node, None)


def _add(counts: dict[V, tuple[int, int]], key: V, staying: int, leaving: int) -> None:
    """Count users of a volume; a volume without users leaves the table."""
    before = counts.get(key, (0, 0))
    after = (before[0] + staying, before[1] + leaving)
    assert min(after) >= 0, "a pod can't leave twice"
    if any(after):
        counts[key] = after
    else:
        counts.pop(key, None)


def _is_selected(claim: Object | None) -> bool:
    """Whether a claim or volume bears our note, and isn't bound yet: notes stay for ever."""
    match claim:
        case Claim():
            return claim.selection is not None and not claim.bound
        case Volume():
            return claim.selection is not None and not claim.bound
    return False


def _class_of_volume(volume: Object | None) -> str | None:
    """Return the class of a volume that any claim could get."""
    if isinstance(volume, Volume) and volume.available and volume.claim is None:
        return None if volume.deleting else volume.storage_class
    return None


def _claim_of_volume(volume: Object | None) -> str | None:
    of = volume.claim if isinstance(volume, Volume) else None
    return None if of is None else f"{of.namespace}/{of.name}"


def _class_of_capacity(capacity: Object | None) -> str | None:
    return capacity.storage_class if isinstance(capacity, Capacity) else None


def _node_of_attachment(attachment: Object | None) -> str | None:
    return attachment.node if isinstance(attachment, Attachment) else None


_FIELDS: Mapping[type, str] = {
    Claim: "claims",
    Volume: "volumes",
    StorageClass: "classes",
    CsiNode: "csi_nodes",
    CsiDriver: "drivers",
    Capacity: "all_capacities",
    Attachment: "all_attachments",
}
"""The field of Storage for the objects of a kind by key; the last two exist only in groups."""

_GROUPS: Mapping[str, Callable[[Object | None], str | None]] = {
    "available": _class_of_volume,
    "reserved": _claim_of_volume,
    "capacities": _class_of_capacity,
    "attachments": _node_of_attachment,
}

_ORDER: Mapping[str, Callable[[Any], Any]] = {
    "available": lambda volume: (volume.capacity, volume.name),
    "reserved": lambda volume: (volume.capacity, volume.name),
    "capacities": lambda capacity: (capacity.namespace, capacity.name),
    "attachments": lambda attachment: attachment.name,
}

_SELECTED: Mapping[type, str] = {
    Claim: "selected_claims",
    Volume: "selected_volumes",
}

_EVERY = (
    *("claims", "volumes", "classes", "csi_nodes", "drivers", "available", "reserved"),
    *("capacities", "attachments", "uses", "claim_uses"),
    *("selected_claims", "selected_volumes", "served"),
)
"""All fields of Storage."""
