"""Allocations in flight: devices count as used until the result is known.

Otherwise, the next cycle could give a device to two claims while a call is under way: one that
allocates it, or one that gives it back. No pod starts before the call has succeeded
(`devices.ResourceClaim.writing`).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from vscheduler.core.model.claim_decisions import DeallocateClaim, DeviceChange
from vscheduler.core.model.devices import Object, ResourceClaim
from vscheduler.mirror import device_requests
from vscheduler.mirror.device_requests import Target
from vscheduler.mirror.index.devices_index import DeviceIndex
from vscheduler.mirror.index.entries import Entry


class DeviceRequests:
    """Passes objects about devices on to the index, with the requests in flight applied."""

    def __init__(self, index: DeviceIndex, stored: Mapping[str, Entry]) -> None:
        """`stored` has all resource claims as last seen, by `namespace/name`."""
        self._index = index
        self._stored = stored
        self._wanted: dict[str, ResourceClaim] = {}

    def target(self, change: DeviceChange) -> Target | None:
        """Return the claim of a change as last seen, or as it is to be made.

        None if there is none, another one of the same name, one that has changed, or one with a
        request in flight.
        """
        entry = self._stored.get(change.key)
        value = self._index.planned(change.key) if entry is None else entry.value
        if not isinstance(value, ResourceClaim):
            return None
        if change.key in self._wanted or not device_requests.is_about(change, value):
            return None
        version = "" if entry is None else entry.reference.resource_version
        return Target(version=version, value=value)

    def begin(self, target: Target, change: DeviceChange) -> None:
        """Count what the claim gets as written; what it gives back is its own until then."""
        given_back = isinstance(change, DeallocateClaim)
        value = target.value if given_back else device_requests.result(target.value, change)
        wanted = replace(value, writing=True)
        self._index.move(wanted.key, self._as_stored(wanted.key), wanted)
        self._wanted[wanted.key] = wanted

    def end(self, key: str, uid: str) -> None:
        """Show the claim as last seen again."""
        wanted = self._wanted.get(key)
        if wanted is not None and wanted.uid == uid:
            self._end(key)

    def is_under_way(self, key: str, uid: str) -> bool:
        """Whether a request for this claim is in flight, and nobody has deleted it meanwhile."""
        return key in self._wanted and self._wanted[key].uid == uid

    @property
    def idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._wanted

    def clear(self) -> None:
        """End all requests: nobody waits for their results any more."""
        for key in list(self._wanted):
            self._end(key)

    def _end(self, key: str) -> None:
        wanted = self._wanted.pop(key)
        self._index.move(key, wanted, self._as_stored(key))

    def _as_stored(self, key: str) -> ResourceClaim | None:
        """Return the claim as last seen; None before it is made."""
        entry = self._stored.get(key)
        value = None if entry is None else entry.value
        assert isinstance(value, ResourceClaim | None)
        return value

    def move(self, key: str, old: Object | None, new: Object | None) -> bool:
        """Apply an object that came, changed or went; return whether cycles see a difference."""
        wanted = self._wanted.get(key)
        if wanted is None or not isinstance(old or new, ResourceClaim):
            self._index.move(key, old, new)
            return True
        if new is None:
            del self._wanted[key]
            self._index.move(key, wanted, None)
        return new is None
