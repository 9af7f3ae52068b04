"""Index of pods' owners: which of their annotations count, and which pods they have."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from vscheduler.mirror.decode.events import DecodeFailed, Kind, Remove, Upsert
from vscheduler.mirror.index.entries import Entry, Event, Part, Replace
from vscheduler.mirror.translate import lone_pods
from vscheduler.mirror.translate.pod_owners import Owner, OwnerTexts
from vscheduler.mirror.translate.pods import Pod
from vscheduler.model.jobs import TaskId

Changed = Mapping[str, OwnerTexts | None]
"""By UID, the owners that came, changed or went (None)."""


class OwnerIndex:
    """Owners by UID. Clusters are full of old ReplicaSets, and hardly any of them says something:
    owners with equal annotations share one value.
    """

    def __init__(self, read: Callable[[Upsert | DecodeFailed], tuple[str, Entry]]) -> None:
        """`read` returns the UID of an owner and its entry."""
        self._read = read
        self._known: dict[Kind, dict[str, OwnerTexts]] = {}
        self._pods: dict[str, dict[TaskId, None]] = {}
        """Pods of ours that a PodGroup might have to be made for, by the UID of their owner."""

    def annotations(self, owner: Owner | None) -> Mapping[str, str] | None:
        """Return the annotations of an owner; None if it isn't known, or they don't count."""
        kind = None if owner is None else lone_pods.kind_of(owner)
        if owner is None or kind is None:
            return None
        found = self._known.get(kind, {}).get(owner.uid)
        return None if found is None else found.annotations

    def changed(self, event: Event) -> Changed:
        """Return which owners an event changes. Nothing changes yet."""
        known = self._known.get(event.kind, {})
        found: dict[str, OwnerTexts | None] = {}
        match event:
            case Upsert() | DecodeFailed():
                found = dict(_texts([self._read(event)]))
            case Remove():
                found = {event.uid: None}
            case Replace():
                listed = dict(_texts(event.found.items()))
                found = dict.fromkeys(known.keys() - listed.keys()) | listed
            case Part():
                found = dict(_texts(event.found.items()))
        return {uid: texts for uid, texts in found.items() if known.get(uid) != texts}

    def take(self, kind: Kind, changed: Changed) -> None:
        """Know these owners from now on."""
        known = self._known.setdefault(kind, {})
        for uid, texts in changed.items():
            if texts is None:
                known.pop(uid, None)
            else:
                known[uid] = texts

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went."""
        before, after = _owner(old), _owner(new)
        if before == after:
            return
        if old is not None and before is not None:
            pods = self._pods[before]
            del pods[old.uid]
            if not pods:
                del self._pods[before]
        if new is not None and after is not None:
            self._pods.setdefault(after, {})[new.uid] = None

    def pods(self, owners: Iterable[str]) -> Collection[TaskId]:
        """Return the pods of these owners."""
        return [uid for owner in owners for uid in self._pods.get(owner, ())]


def _texts(found: Iterable[tuple[str, Entry]]) -> Iterator[tuple[str, OwnerTexts | None]]:
    """Iterate over owners by UID; one that can't be read isn't known."""
    for uid, entry in found:
        assert isinstance(entry.value, OwnerTexts | None)
        yield uid, entry.value


def _owner(pod: Pod | None) -> str | None:
    """Return the UID of the owner of a pod that may be alone."""
    origin = None if pod is None else pod.origin
    return None if origin is None or origin.owner is None else origin.owner.uid
