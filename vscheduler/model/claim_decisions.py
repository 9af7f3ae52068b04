"""Decisions about claims: what pods need before they can start, and what is given back.

Pods of a job are bound only when all their claims are bound, or allocated and reserved for them. A
cycle that has nodes for a job therefore first asks for its claims (PrepareClaims), and binds the
pods in a later cycle. What was asked for in vain is given back (Release).
"""

from enum import StrEnum
from typing import ClassVar, Self, TypeAlias

import msgspec
from msgspec.structs import replace

from vscheduler.model.devices import Allocation, Consumer, DeviceRequest
from vscheduler.model.extended_resources import RequestMapping
from vscheduler.model.jobs import JobId, Task


class ClaimKind(StrEnum):
    """What a claim is for."""

    VOLUMES = "volumes"
    DEVICES = "devices"


class OfClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Which claim a change is about."""

    namespace: str
    name: str
    uid: str
    """Empty: the claim is to be made first, for extended resources of its pod."""

    @property
    def key(self) -> str:
        """The claim as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class ClaimBinding(OfClaim, frozen=True, kw_only=True):
    """A claim that must be bound before a pod may start on a node."""

    volume: str | None
    """The existing volume chosen for the claim; None: a volume is to be provisioned."""
    node: str
    """Name of the pod's node."""
    requested: bool = False
    """Whether the API server shows this choice already: the volume's spec.claimRef, or the claim's
    annotation volume.kubernetes.io/selected-node."""


class ClaimAllocation(OfClaim, frozen=True, kw_only=True):
    """What a resource claim lacks before pods may use it: an allocation, or to be reserved."""

    allocation: Allocation | None
    """The devices chosen for the claim; None: it is allocated already."""
    existing: Allocation | None = None
    """The devices that it has already, with which the nodes of the pods were chosen."""
    reserved_for: tuple[Consumer, ...]
    """The pods to add to those that may use the claim, sorted by name."""
    requests: tuple[DeviceRequest, ...] = ()
    """What a claim for extended resources asks for on the node of its pod."""
    mappings: tuple[RequestMapping, ...] = ()
    """For which containers these requests are. They are written to the pod before the claim is
    allocated."""
    requested: ClassVar[bool] = False

    def joined(self, other: Self) -> Self:
        """Return what two pods that share the claim ask for: to be reserved for both."""
        consumers = sorted(
            {*self.reserved_for, *other.reserved_for}, key=lambda each: (each.name, each.uid)
        )
        return replace(
            self, allocation=self.allocation or other.allocation, reserved_for=tuple(consumers)
        )


Request: TypeAlias = ClaimBinding | ClaimAllocation
"""What is to be written so that a claim gets what it lacks."""


class PrepareClaims(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to ask for the claims of pods that wait on their nodes until they have them."""

    job: JobId
    pods: tuple[Task, ...]
    """The pods of the job that wait for claims of this kind, asked for now or before."""
    requests: tuple[Request, ...]
    """What the API server doesn't show yet, all of one kind, sorted by claim. A claim that several
    pods share is there once."""


class ReleaseClaim(OfClaim, frozen=True, kw_only=True):
    """Decision to withdraw the selected node of a claim that isn't bound and that no pod waits for.

    Kubernetes: the annotation volume.kubernetes.io/selected-node.
    """

    node: str
    """The selected node; empty if a provisioner has removed it already."""


class ReleaseVolume(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to withdraw a volume from a claim that isn't bound to it and has no waiting pod.

    Kubernetes: spec.claimRef.
    """

    name: str
    uid: str
    key: str
    """The claim as `namespace/name`."""
    reserved: bool
    """Whether the volume was reserved for this claim by name before, and stays so."""


class DeallocateClaim(OfClaim, frozen=True, kw_only=True):
    """Decision to take back the devices of a claim whose pods wait and don't use it any more.

    All its consumers are waiting pods of this scheduler. The allocation and the reservations go at
    once, so the API server never shows an allocation of ours without its pods.
    """

    allocation: Allocation
    """The devices that are taken back, and no others."""
    reserved_for: tuple[Consumer, ...]
    """The waiting pods. If the claim is reserved for others by now, it keeps its devices."""


Release: TypeAlias = ReleaseClaim | ReleaseVolume | DeallocateClaim

VolumeChange: TypeAlias = ClaimBinding | ReleaseClaim | ReleaseVolume
"""What is to be written to one claim or volume."""

DeviceChange: TypeAlias = ClaimAllocation | DeallocateClaim
"""What is to be written to one resource claim."""


class ClaimWait(msgspec.Struct, frozen=True, kw_only=True):
    """How far the claims of a job are, as part of a reason."""

    kind: ClaimKind
    ready: int
    """How many of the claims of the waiting pods are bound, or allocated and reserved for them."""
    claims: int
    """How many claims the waiting pods have."""
    claim: str
    """One that isn't, as `namespace/name`: first those that the API server refused to write, then
    the one that has been waited for the longest."""
    node: str = ""
    source: str = ""
    """The provisioner, or the volume that is to be bound."""
    since: float = 0.0
    """Since when a volume has been asked for, in seconds since the epoch."""
    refusal: str = ""
    """What the API server said when it refused to write the request."""
    pause: int = 0
    """How long no volume is asked for after attempts that failed, in seconds. 0 while an attempt
    runs; then node and time are those of the attempt."""


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for to have a claim bound."""

    node: str
    volume: str | None
    """The existing volume; None: a volume is to be provisioned."""
    since: float
    """Seconds since the epoch."""


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """For how long a claim is not asked for on a node again, or on any node."""

    node: str
    """Empty: any node."""
    until: float
    """Seconds since the epoch."""
    seconds: int
    """How long the pause is in all."""


class ClaimAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the attempts to have a claim bound, until it is."""

    uid: str
    """UID of the claim."""
    request: ClaimRequest | None = None
    """The attempt under way."""
    failed: ClaimRequest | None = None
    """The last attempt that failed, as the API server shows it."""
    failures: int = 0
    pauses: tuple[Pause, ...] = ()
