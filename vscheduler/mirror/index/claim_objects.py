"""Claim objects: volumes and devices, which claims of pods are about, with requests in flight.

An object counts as written from a decision until the result of its call: otherwise the next cycle
could choose another volume for a claim, or give a device to two claims, while the first call is
under way. Devices that are given back are used until then. No pod starts with a claim that is being
written (`devices.ResourceClaim.writing`).
"""

from collections.abc import Callable, Collection, Mapping

from vscheduler.mirror import claim_requests
from vscheduler.mirror.claim_requests import Change, Target, Wanted
from vscheduler.mirror.index.devices_index import DeviceCharges, DeviceIndex
from vscheduler.mirror.index.entries import Entry, Value
from vscheduler.mirror.index.storage_index import StorageIndex
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.translate.pods import Pod
from vscheduler.model import devices, storage
from vscheduler.model.jobs import JobId, TaskId

CLAIM_OBJECTS = (
    *(Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS, Kind.CSI_NODE, Kind.CSI_DRIVER),
    *(Kind.CAPACITY, Kind.ATTACHMENT, Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE, Kind.DEVICE_CLASS),
)
"""The kinds of objects about volumes and devices."""


class ClaimObjects:
    """The indexes of both kinds of claims, and what is being written."""

    def __init__(
        self,
        stored: Mapping[Kind, Mapping[str, Entry]],
        pod_of: Callable[[TaskId], Pod | None],
        members: Callable[[JobId], Collection[Pod]],
        charge: Callable[[TaskId, Mapping[str, int]], None],
    ) -> None:
        """`stored` has all objects as last seen, and `members` returns the pods of a PodGroup.
        `charge` is told which devices count for a pod.
        """
        self.storage = StorageIndex()
        self.devices = DeviceIndex(DeviceCharges(pod_of, members, charge))
        self._stored = stored
        self._in_flight: dict[tuple[Kind, str], Wanted] = {}

    def target(self, change: Change) -> Target | None:
        """Return the object of a change as last seen, or as it is to be made.

        None if there is none, another one of the same name, one that has changed, or one with a
        request in flight.
        """
        kind, key = claim_requests.place(change)
        entry = self._stored[kind].get(key)
        value = entry.value if entry is not None else None
        if entry is None and kind is Kind.RESOURCE_CLAIM:
            value = self.devices.planned(key)
        if not isinstance(value, Wanted) or self.is_in_flight(change):
            return None
        if not claim_requests.is_about(change, value):
            return None
        version = "" if entry is None else entry.reference.resource_version
        return Target(kind=kind, key=key, version=version, value=value)

    def is_in_flight(self, change: Change) -> bool:
        """Whether the object of a change has a request in flight."""
        return claim_requests.place(change) in self._in_flight

    def scheduler_of(self, task: TaskId) -> str:
        """Return the scheduler name of a pod of ours, or "" for a pod that is gone."""
        entry = self._stored[Kind.POD].get(task)
        value = None if entry is None else entry.value
        return value.scheduler if isinstance(value, Pod) else ""

    def begin(self, target: Target, change: Change, *, since: float) -> Wanted:
        """Count the object as written, and return it."""
        wanted = claim_requests.in_flight(change, target.value, since=since)
        place = target.kind, target.key
        self._show(target.key, self._as_stored(*place), wanted)
        self._in_flight[place] = wanted
        return wanted

    def holds(self, target: Target, wanted: Wanted) -> bool:
        """Whether this request is in flight, and nobody has deleted its object meanwhile."""
        return self._in_flight.get((target.kind, target.key)) is wanted

    def end(self, target: Target, wanted: Wanted) -> bool:
        """Show the object as last seen again, unless a newer request is in flight.

        Return whether cycles see a difference: what came during the call was hidden from them.
        """
        return self.holds(target, wanted) and self._end(target.kind, target.key)

    @property
    def idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._in_flight

    def clear(self) -> None:
        """End all requests: nobody waits for their results any more."""
        for place in list(self._in_flight):
            self._end(*place)

    def _end(self, kind: Kind, key: str) -> bool:
        wanted, value = self._in_flight.pop((kind, key)), self._as_stored(kind, key)
        self._show(key, wanted, value)
        return value != wanted

    def _as_stored(self, kind: Kind, key: str) -> Wanted | None:
        """Return the object as last seen; None before it is made."""
        entry = self._stored[kind].get(key)
        value = None if entry is None else entry.value
        assert isinstance(value, Wanted | None)
        return value

    def _show(self, key: str, old: Value | None, new: Value | None) -> bool:
        """Let cycles see an object; return whether any pod of ours uses volumes, or devices."""
        if isinstance(old if new is None else new, devices.Object):
            assert isinstance(old, devices.Object | None)
            assert isinstance(new, devices.Object | None)
            self.devices.move(key, old, new)
            return self.devices.in_use
        assert isinstance(old, storage.Object | None)
        assert isinstance(new, storage.Object | None)
        self.storage.move(key, old, new)
        return self.storage.in_use

    def move(self, kind: Kind, key: str, old: Value | None, new: Value | None) -> bool:
        """Apply an object that came, changed or went; return whether decisions can depend on it.

        They can't where no pod of ours uses volumes, or devices.
        """
        wanted = self._in_flight.get((kind, key))
        if wanted is None:
            return self._show(key, old, new)
        if new is not None:
            return False
        del self._in_flight[kind, key]
        return self._show(key, wanted, None)

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went."""
        if (old is not None and old.volumes) or (new is not None and new.volumes):
            self.storage.move_pod(old, new)
        known = old or new
        if (
            (old is not None and old.pod_class.constraints.resource_claims)
            or (new is not None and new.pod_class.constraints.resource_claims)
            or (known is not None and self.devices.charges.concerns(known))
        ):
            self.devices.move_pod(old, new)
