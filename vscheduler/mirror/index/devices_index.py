"""Devices index: slices, classes and claims of devices, behind Snapshot.devices.

A cluster in which no pod of ours has resource claims has no Devices, and costs nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from vscheduler.core.model import devices, resources
from vscheduler.core.model.constraints import ResourceClaimUse
from vscheduler.core.model.devices import (
    DeviceClass,
    DeviceId,
    Devices,
    Object,
    Pool,
    PoolId,
    ResourceClaim,
    ResourceSlice,
)
from vscheduler.core.model.jobs import WAITING, TaskId
from vscheduler.core.model.storage import Memo
from vscheduler.mirror.index.device_charges import DeviceCharges
from vscheduler.mirror.selectors import Selectors
from vscheduler.mirror.translate import extended_resources
from vscheduler.mirror.translate.pods import Pod

_FIELDS: dict[type, str] = {
    ResourceClaim: "claims",
    DeviceClass: "classes",
    ResourceSlice: "slices",
}


class DeviceIndex:
    """Follows slices, classes, claims and the pods that have claims; freezes what has changed."""

    def __init__(self, charges: DeviceCharges) -> None:
        self.charges = charges
        """For which pods the devices of claims count."""
        self._served = True
        self._objects: dict[type, dict[str, Any]] = {kind: {} for kind in _FIELDS}
        self._changed: set[str] = set()
        """Fields of the last Devices that are out of date."""
        self._pools: dict[PoolId, Pool] = {}
        self._slices: defaultdict[PoolId, dict[str, ResourceSlice]]
        self._slices = defaultdict(dict)
        self._changed_pools: set[PoolId] = set()
        self._planned: dict[str, ResourceClaim] = {}
        """Claims that are to be made for extended resources of waiting pods."""
        self._shown: dict[str, ResourceClaim] = {}
        """All claims as cycles see them."""
        self._holders: dict[DeviceId, tuple[str, ...]] = {}
        """By device, the claims that have it, sorted."""
        self._users = 0
        """Number of our waiting pods with claims."""
        self._named = False
        """Whether anybody names a resource that stands for devices."""
        self.extended_resources: Mapping[str, str] = {}
        """DeviceClasses by the extended resource that stands for their devices. Of several with the
        same resource, the newest, then the first by name (Kubernetes: ExtendedResourceCache)."""
        self._memo = Memo()
        self._selectors = Selectors()
        self._last = devices.NO_DEVICES

    def serve(self, *, served: bool) -> None:
        """Say whether the API server serves these kinds and lets them be read."""
        if served != self._served:
            self._served = served
            self._last = devices.NO_DEVICES

    def move(self, key: str, old: Object | None, new: Object | None) -> None:
        """Apply an object that came (old is None), changed or went (new is None)."""
        kind = type(old if new is None else new)
        if new is None:
            del self._objects[kind][key]
        else:
            self._objects[kind][key] = new
        self._changed.add(_FIELDS[kind])
        if isinstance(old, ResourceSlice):
            self._move_slice(key, old, None)
        if isinstance(new, ResourceSlice):
            self._move_slice(key, new, new)
        for device in _held(old):
            left = tuple(each for each in self._holders.pop(device) if each != key)
            if left:
                self._holders[device] = left
        for device in _held(new):
            self._holders[device] = tuple(sorted({*self._holders.get(device, ()), key}))
        if kind is DeviceClass:
            self.extended_resources = {
                resource: each.name
                for each in sorted(
                    sorted(self._objects[kind].values(), key=lambda each: each.name, reverse=True),
                    key=lambda each: each.created,
                )
                for resource in each.extended_resources
            }
        if kind is ResourceClaim:
            self._show(key)

    @property
    def shown(self) -> Collection[str]:
        """The keys of all claims, those that aren't made yet included."""
        return self._shown.keys()

    def planned(self, key: str) -> ResourceClaim | None:
        """Return a claim that isn't made yet."""
        return self._planned.get(key)

    def _show(self, key: str) -> None:
        """Find out how cycles see a claim."""
        before = self._shown.pop(key, None)
        stored = self._objects[ResourceClaim].get(key)
        now = extended_resources.joined(stored, self._planned.get(key))
        if now is not None:
            self._shown[key] = now
        self._changed.add("claims")
        self.charges.move_claim(key, before, now)

    def _plan(self, old: Pod | None, new: Pod | None) -> None:
        """Plan the claim for the extended resources of a pod that came or changed."""
        before, after = _made_for(old), _made_for(new)
        if after is not None:
            assert new is not None
            claim = extended_resources.claim_of(after, new.extended, self.extended_resources)
            if self._planned.get(after.claim) != claim:
                self._planned[after.claim] = claim
                self._show(after.claim)
        elif before is not None:
            del self._planned[before.claim]
            self._show(before.claim)

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went."""
        self._users += _waits(new) - _waits(old)
        self._plan(old, new)
        self.charges.move_pod(old, new)

    def _move_slice(self, key: str, of: ResourceSlice, new: ResourceSlice | None) -> None:
        pool = PoolId(of.driver, of.pool)
        self._changed_pools.add(pool)
        if new is None:
            del self._slices[pool][key]
        else:
            self._slices[pool][key] = new

    @property
    def in_use(self) -> bool:
        """Whether decisions can depend on devices: a waiting pod of ours has claims, devices count
        for a pod, or a Queue or PodGroup names them.
        """
        return bool(self._users) or self._named or self.charges.anything

    def freeze(self, names: Collection[str], overdue: frozenset[TaskId]) -> Devices:
        """Return the devices; the last object again when nothing changed. `names` are all resources
        that objects name, `overdue` the terminating pods that should have gone long ago.
        """
        self._named = bool(self.extended_resources) and any(
            name in self.extended_resources or name.startswith(resources.DEVICE_CLASS)
            for name in names
        )
        if not self.in_use:
            return devices.NO_DEVICES
        last = self._last
        if last is devices.NO_DEVICES:
            self._changed = set(_FIELDS.values())
        foreign = self.charges.foreign
        if self._changed or foreign is not last.foreign or overdue != last.overdue:
            for pool in self._changed_pools:
                self._freeze_pool(pool)
            self._changed_pools.clear()
            claims, classes = "claims" in self._changed, "classes" in self._changed
            self._last = Devices(
                claims=dict(self._shown) if claims else last.claims,
                classes=dict(self._objects[DeviceClass]) if classes else last.classes,
                pools=dict(sorted(self._pools.items()))
                if "slices" in self._changed
                else last.pools,
                allocated=dict(self._holders) if claims else last.allocated,
                foreign=foreign,
                overdue=overdue,
                served=self._served,
                selectors=self._selectors,
                memo=self._memo,
            )
            self._changed.clear()
        return self._last

    def _freeze_pool(self, pool: PoolId) -> None:
        slices = self._slices[pool]
        if slices:
            self._pools[pool] = devices.pool_of(pool, slices.values())
        else:
            del self._slices[pool]
            self._pools.pop(pool, None)


def _held(found: Object | None) -> Iterator[DeviceId]:
    """Iterate over the devices that nobody else may have."""
    if isinstance(found, ResourceClaim) and found.allocation is not None:
        yield from {device.id for device in found.allocation.devices if not device.admin_access}


def _made_for(pod: Pod | None) -> ResourceClaimUse | None:
    """Return the claim that we make for a waiting pod, if any."""
    if pod is None or not _waits(pod):
        return None
    uses = pod.pod_class.constraints.resource_claims
    return next((use for use in uses if use.resources), None)


def _waits(pod: Pod | None) -> bool:
    return (
        pod is not None
        and pod.ours
        and pod.status in WAITING
        and bool(pod.pod_class.constraints.resource_claims)
    )
