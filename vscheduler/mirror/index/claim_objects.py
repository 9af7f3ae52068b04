"""Claim objects: volumes and devices, which claims of pods are about, with requests in flight."""

from collections.abc import Callable, Mapping

from vscheduler.core.model import devices, storage
from vscheduler.core.model.jobs import TaskId
from vscheduler.mirror.index.device_requests import DeviceRequests
from vscheduler.mirror.index.devices_index import DeviceCharges, DeviceIndex
from vscheduler.mirror.index.entries import Entry, Value
from vscheduler.mirror.index.storage_index import StorageIndex
from vscheduler.mirror.index.storage_requests import StorageRequests
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.translate.pods import Pod


class ClaimObjects:
    """The indexes of both, and what is being written."""

    def __init__(
        self,
        stored: Mapping[Kind, Mapping[str, Entry]],
        pod_of: Callable[[TaskId], Pod | None],
        charge: Callable[[TaskId, Mapping[str, int]], None],
    ) -> None:
        """`stored` has all objects as last seen. `charge` is told which devices count for a pod."""
        self.storage = StorageIndex()
        self.requests = StorageRequests(self.storage, stored)
        self.devices = DeviceIndex(DeviceCharges(pod_of, charge))
        self.allocations = DeviceRequests(self.devices, stored[Kind.RESOURCE_CLAIM])

    def move(self, key: str, old: Value | None, new: Value | None) -> bool:
        """Apply an object that came, changed or went; return whether decisions can depend on it.

        They can't where no pod of ours uses volumes, or devices.
        """
        if isinstance(old if new is None else new, devices.Object):
            assert isinstance(old, devices.Object | None)
            assert isinstance(new, devices.Object | None)
            return self.allocations.move(key, old, new) and self.devices.in_use
        assert isinstance(old, storage.Object | None)
        assert isinstance(new, storage.Object | None)
        return self.requests.move(key, old, new) and self.storage.in_use

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
