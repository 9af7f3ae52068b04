"""Requests about claims of both kinds: which object a change is about, and what is written to it.

What is written to volumes and their claims is in `volume_requests`, what is written to resource
claims in `device_requests`. Each patch names the UID and the version of the object as last seen, so
that the API server refuses it once anything has changed (409).
"""

from collections.abc import Collection
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from vscheduler.mirror import device_requests, volume_requests
from vscheduler.mirror.paths import Kind, Path
from vscheduler.model.claim_decisions import (
    ClaimAllocation,
    ClaimKind,
    DeallocateClaim,
    DeviceChange,
    VolumeChange,
)
from vscheduler.model.devices import ResourceClaim
from vscheduler.model.storage import Claim, Volume

Body: TypeAlias = dict[str, Any]

Change: TypeAlias = VolumeChange | DeviceChange

Wanted: TypeAlias = Claim | Volume | ResourceClaim
"""An object as it will be once a change is written."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The object of a change, as last seen, or as it is to be made (then its UID is empty)."""

    kind: Kind
    key: str
    """`namespace/name` of a claim, the name of a volume."""
    version: str
    """The resourceVersion."""
    value: Wanted

    @property
    def path(self) -> Path:
        """The path of the object."""
        if isinstance(self.value, ResourceClaim):
            return device_requests.path(self.value)
        return volume_requests.path(self.value)


def kind_of(change: Change) -> ClaimKind:
    """Return what the claim of a change is for."""
    return ClaimKind.DEVICES if isinstance(change, DeviceChange) else ClaimKind.VOLUMES


def place(change: Change) -> tuple[Kind, str]:
    """Return the kind and the key of the object that is to be written."""
    if isinstance(change, DeviceChange):
        return Kind.RESOURCE_CLAIM, change.key
    return volume_requests.place(change)


def is_about(change: Change, value: Wanted) -> bool:
    """Whether the object is still the one that was decided on, and may get the change."""
    if isinstance(change, DeviceChange):
        return isinstance(value, ResourceClaim) and device_requests.is_about(change, value)
    return not isinstance(value, ResourceClaim) and volume_requests.is_about(change, value)


def in_flight(change: Change, value: Wanted, *, since: float) -> Wanted:
    """Return the object as cycles see it while the change is being written: as written, but for
    devices that are given back, which are used until then.
    """
    match change, value:
        case DeallocateClaim(), ResourceClaim():
            return replace(value, writing=True)
        case ClaimAllocation(), ResourceClaim():
            return replace(device_requests.result(value, change), writing=True)
    assert not isinstance(change, DeviceChange)
    assert not isinstance(value, ResourceClaim)
    return volume_requests.result(value, change, since=since)


def patches(
    target: Target, change: Change, *, schedulers: Collection[str], since: float
) -> list[tuple[Path, Body]]:
    """Return the merge patches of a change, in order; each is for the version that the one before
    has made. The last one says all that matters.
    """
    value, version = target.value, target.version
    if isinstance(value, ResourceClaim):
        assert isinstance(change, DeviceChange)
        before = device_requests.metadata_patch(value, change, version)
        last = device_requests.status_patch(value, change, version)
        first = [] if before is None else [(device_requests.path(value), before)]
        return [*first, (device_requests.path(value, status=True), last)]
    assert not isinstance(change, DeviceChange)
    patch = volume_requests.patch(
        value, change, version=version, schedulers=schedulers, since=since
    )
    return [(target.path, patch)]


def is_shown(target: Target, patch: Body, found: Body) -> bool:
    """Whether the API server's object shows the last patch of a change."""
    if target.kind is Kind.RESOURCE_CLAIM:
        return device_requests.is_shown(patch, found)
    return volume_requests.is_shown(patch, found)
