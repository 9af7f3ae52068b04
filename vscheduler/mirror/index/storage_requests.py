"""Requests for volumes in flight: claims and volumes count as written until the result is known.

Otherwise, the next cycle could choose another volume for a claim while the first call is under way.
"""

from collections.abc import Mapping

from vscheduler.core.model.claim_decisions import VolumeChange
from vscheduler.core.model.jobs import TaskId
from vscheduler.core.model.storage import Claim, Object, Volume
from vscheduler.mirror import claim_requests
from vscheduler.mirror.claim_requests import Target, Wanted
from vscheduler.mirror.index.entries import Entry
from vscheduler.mirror.index.storage_index import StorageIndex
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.translate.pods import Pod

KIND: Mapping[type, Kind] = {
    Claim: Kind.CLAIM,
    Volume: Kind.VOLUME,
}


class StorageRequests:
    """Passes storage objects on to the index, with the requests in flight applied."""

    def __init__(
        self,
        index: StorageIndex,
        stored: Mapping[Kind, Mapping[str, Entry]],
    ) -> None:
        """`stored` has all objects as last seen."""
        self._index = index
        self._stored = stored
        self._wanted: dict[tuple[Kind, str], Wanted] = {}

    def target(self, change: VolumeChange) -> Target | None:
        """Return the object of a change as last seen.

        None if there is none, another one of the same name, or one with a request in flight.
        """
        if self.is_in_flight(change):
            return None
        kind, key = claim_requests.place(change)
        entry = self._stored[kind].get(key)
        value = None if entry is None else entry.value
        if entry is None or not isinstance(value, Claim | Volume):
            return None
        reference = entry.reference
        target = Target(
            kind=kind,
            key=key,
            uid=reference.uid,
            version=reference.resource_version,
            value=value,
        )
        return target if claim_requests.is_about(change, target) else None

    def is_in_flight(self, change: VolumeChange) -> bool:
        """Whether the object of a change has a request in flight."""
        return claim_requests.place(change) in self._wanted

    def scheduler_of(self, task: TaskId) -> str:
        """Return the scheduler name of a pod of ours, or "" for a pod that is gone."""
        entry = self._stored[Kind.POD].get(task)
        value = None if entry is None else entry.value
        return value.scheduler if isinstance(value, Pod) else ""

    def begin(self, target: Target, wanted: Wanted) -> None:
        """Count the object as written."""
        self._index.move(target.key, target.value, wanted)
        self._wanted[target.kind, target.key] = wanted

    def end(self, target: Target, wanted: Wanted) -> bool:
        """Show the object as last seen again, unless a newer request is in flight.

        Return whether cycles see a difference: what came during the call was hidden from them.
        """
        if self._wanted.get((target.kind, target.key)) is not wanted:
            return False
        return self._end(target.kind, target.key)

    @property
    def idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._wanted

    def clear(self) -> None:
        """End all requests: nobody waits for their results any more."""
        for kind, key in list(self._wanted):
            self._end(kind, key)

    def _end(self, kind: Kind, key: str) -> bool:
        wanted = self._wanted.pop((kind, key))
        value = self._stored[kind][key].value
        assert isinstance(value, Object), "a request ends with its object"
        self._index.move(key, wanted, value)
        return value != wanted

    def move(self, key: str, old: Object | None, new: Object | None) -> bool:
        """Apply an object that came, changed or went; return whether cycles see a difference."""
        kind = KIND.get(type(old if new is None else new))
        wanted = None if kind is None else self._wanted.get((kind, key))
        if kind is None or wanted is None:
            self._index.move(key, old, new)
            return True
        if new is None:
            del self._wanted[kind, key]
            self._index.move(key, wanted, None)
        return new is None
