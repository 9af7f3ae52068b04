"""Claim objects: volumes and devices, which claims of pods are about, with requests in flight."""

from collections.abc import Callable, Mapping

from vscheduler.core.model import devices, jobs, storage
from vscheduler.mirror.decode import kinds
from vscheduler.mirror.index import (
    device_charges,
    device_requests,
    devices_index,
    entries,
    storage_index,
    storage_requests,
)
from vscheduler.mirror.translate import pods


class ClaimObjects:
    """The indexes of both, and what is being written."""

    def __init__(
        self,
        stored: Mapping[kinds.Kind, Mapping[str, entries.Entry]],
        pod_of: Callable[[jobs.TaskId], pods.Pod | None],
        charge: Callable[[jobs.TaskId, Mapping[str, int]], None],
    ) -> None:
        """`stored` has all objects as last seen. `charge` is told which devices count for a pod."""
        self.storage = storage_index.StorageIndex()
        self.requests = storage_requests.StorageRequests(self.storage, stored)
        self.devices = devices_index.DeviceIndex(device_charges.DeviceCharges(pod_of, charge))
        self.allocations = device_requests.DeviceRequests(
            self.devices, stored[kinds.Kind.RESOURCE_CLAIM]
        )

    def move(self, key: str, old: entries.Value | None, new: entries.Value | None) -> bool:
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

    def move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
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
