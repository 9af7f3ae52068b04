"""Decisions about devices: which claims get which devices for which pods, and what is given back.

Pods are bound only when all their resource claims are allocated and reserved for them. A cycle that
has nodes for a job therefore first allocates its claims (AllocateClaims), and binds the pods in a
later cycle. What pods don't use after all is given back (DeallocateClaim).
"""

import msgspec

from vscheduler.core.model.devices import Allocation, Consumer, DeviceRequest
from vscheduler.core.model.extended_resources import RequestMapping
from vscheduler.core.model.jobs import JobId, Task


class ClaimAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """What a resource claim lacks before pods may use it: an allocation, or to be reserved."""

    namespace: str
    name: str
    uid: str
    """Empty: the claim is to be made first, for extended resources of its pod."""
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

    @property
    def key(self) -> str:
        """The claim as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class AllocateClaims(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to allocate and reserve the claims of pods that wait on their nodes for that."""

    job: JobId
    pods: tuple[Task, ...]
    """The pods of the job that wait for claims, whether these are written now or before."""
    claims: tuple[ClaimAllocation, ...]
    """Sorted by claim. A claim that several pods share is there once."""


class DeallocateClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to take back the devices of a claim whose pods wait and don't use it any more.

    All its consumers are waiting pods of this scheduler. The allocation and the reservations go at
    once, so the API server never shows an allocation of ours without its pods.
    """

    namespace: str
    name: str
    uid: str
    allocation: Allocation
    """The devices that are taken back, and no others."""
    reserved_for: tuple[Consumer, ...]
    """The waiting pods. If the claim is reserved for others by now, it keeps its devices."""

    @property
    def key(self) -> str:
        """The claim as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class DeviceWait(msgspec.Struct, frozen=True, kw_only=True):
    """How far the resource claims of a job are, as part of a reason."""

    allocated: int
    """How many of the claims of the waiting pods are allocated and reserved for them."""
    claims: int
    """How many claims the waiting pods have."""
    claim: str
    """One that isn't, as `namespace/name`: first those that the API server refused to write."""
    node: str = ""
    refusal: str = ""
    """What the API server said when it refused to write the allocation."""
