"""Devices: what drivers offer, what claims ask for and what is allocated, as values.

Kubernetes: resource.k8s.io/v1 ResourceSlice, DeviceClass and ResourceClaim (dynamic resource
allocation). Which claims a pod uses is part of its PodClass
(`constraints.Constraints.resource_claims`).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from vscheduler.model import extended_resources, jobs, resources
from vscheduler.model.constraints import Term
from vscheduler.model.extended_resources import ExtendedResource
from vscheduler.model.jobs import JobId, Task, TaskStatus
from vscheduler.model.resources import ResourceMap
from vscheduler.model.storage import Memo

RESERVATIONS_MAX = 256
"""How many consumers a claim can have (Kubernetes: ResourceClaimReservedForMaxSize)."""

RESULTS_MAX = 32
"""How many devices a claim can have (Kubernetes: AllocationResultsMaxSize)."""


class Version(msgspec.Struct, frozen=True):
    """A semantic version, as the value of an attribute (Kubernetes: DeviceAttribute.version)."""

    text: str


AttributeValue: TypeAlias = bool | int | str | Version


class DeviceId(NamedTuple):
    """What identifies a device in the cluster."""

    driver: str
    pool: str
    device: str


class PoolId(NamedTuple):
    """What identifies a pool."""

    driver: str
    pool: str


class TaintEffect(StrEnum):
    """The effect of a device's taint (Kubernetes: DeviceTaintEffect). Other effects are ignored."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class DeviceTaint(msgspec.Struct, frozen=True, kw_only=True):
    """A taint of a device, which keeps away claims without a matching toleration."""

    key: str
    value: str = ""
    effect: str = TaintEffect.NO_SCHEDULE


class DeviceToleration(msgspec.Struct, frozen=True, kw_only=True):
    """A toleration of a request for taints of devices."""

    key: str = ""
    """Empty: every key."""
    operator: str = "Equal"
    """Equal or Exists."""
    value: str = ""
    effect: str = ""
    """Empty: every effect."""
    seconds: int | None = None
    """For how long NoExecute is tolerated; doesn't matter for the allocation."""

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Whether the taint is tolerated (Kubernetes: resourceclaim.ToleratesTaint)."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or self.value == taint.value


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that can use a device."""

    node: str = ""
    """The name of the only node, or empty."""
    every_node: bool = False
    selector: Term | None = None
    """What the labels of nodes must be, if neither of the above is given. None: no node."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a pool."""

    name: str
    attributes: Mapping[str, AttributeValue] = msgspec.field(default_factory=dict)
    """By `domain/name`; names without a domain have that of the driver."""
    capacity: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By `domain/name`, quantities."""
    taints: tuple[DeviceTaint, ...] = ()
    access: Access | None = None
    """Only if the slice leaves it to its devices (perDeviceNodeSelection)."""
    unsupported: str = ""
    """The field that can't be taken into account, such as consumesCounters. Such a device is never
    allocated."""


class ResourceSlice(msgspec.Struct, frozen=True, kw_only=True):
    """A ResourceSlice: some of the devices of a pool."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    """Only slices of the highest generation of a pool count."""
    slices: int = 1
    """How many slices the pool has in all, in this generation."""
    access: Access | None = None
    """None: each device says itself which nodes can use it."""
    devices: tuple[Device, ...] = ()


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a driver that belong together, in their newest generation."""

    driver: str
    name: str
    slices: tuple[ResourceSlice, ...] = ()
    """Sorted by name."""
    complete: bool = True
    """Whether all slices are there. No device of an incomplete pool is allocated."""
    duplicate: str = ""
    """A name that two devices have. No device of such a pool is allocated."""

    @property
    def id(self) -> PoolId:
        """What identifies the pool."""
        return PoolId(self.driver, self.name)


def pool_of(pool: PoolId, slices: Iterable[ResourceSlice]) -> Pool:
    """Return the pool made of these slices, which may be of several generations."""
    found = sorted(slices, key=lambda each: each.name)
    newest = max(each.generation for each in found)
    current = tuple(each for each in found if each.generation == newest)
    names = Counter(device.name for each in current for device in each.devices)
    return Pool(
        driver=pool.driver,
        name=pool.pool,
        slices=current,
        complete=all(len(current) == each.slices for each in current),
        duplicate=next((name for name, count in names.items() if count > 1), ""),
    )


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters for a driver, which an allocation copies from the claim and its classes."""

    driver: str
    parameters: str
    """JSON."""
    requests: tuple[str, ...] = ()
    """Names of the requests they are for; empty: for all. In the form `request/subrequest` for an
    entry of firstAvailable."""
    from_class: bool = False
    """Whether a class has them, and not the claim."""


class DeviceClass(msgspec.Struct, frozen=True, kw_only=True):
    """A DeviceClass."""

    name: str
    selectors: tuple[str, ...] = ()
    """CEL expressions that must all be true of a device."""
    configurations: tuple[Configuration, ...] = ()
    extended_resource: str = ""
    """The resource of containers that stands for devices of this class, if it has a name of its
    own."""
    created: float = 0.0
    """Seconds since the epoch. Of two classes with the same extended resource, the newer counts."""

    @property
    def extended_resources(self) -> tuple[str, ...]:
        """All resources of containers that stand for devices of this class."""
        implicit = extended_resources.IMPLICIT + self.name
        return (implicit, *filter(None, (self.extended_resource,)))


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that a request asks for: `exactly`, or an entry of `firstAvailable`."""

    device_class: str
    name: str = ""
    """The name of the entry of firstAvailable, or empty."""
    selectors: tuple[str, ...] = ()
    """CEL expressions that must all be true of a device, beside those of the class."""
    count: int | None = 1
    """None: all devices that match (allocationMode All)."""
    admin_access: bool = False
    """Whether the devices may be used by others at the same time."""
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a claim, with what satisfies it, best first."""

    name: str
    alternatives: tuple[Wanted, ...]

    def path(self, wanted: Wanted) -> str:
        """Return the name under which results show an alternative."""
        return f"{self.name}/{wanted.name}" if wanted.name else self.name


class MatchAttribute(msgspec.Struct, frozen=True, kw_only=True):
    """A constraint of a claim: all devices of these requests have the same value."""

    attribute: str
    """As `domain/name`."""
    requests: tuple[str, ...] = ()
    """Empty: all requests. In the form `request/subrequest` for an entry of firstAvailable."""


PODS, POD_GROUPS = "pods", "podgroups"
SCHEDULING = "scheduling.k8s.io"
"""Resources and API group of consumers."""


class Consumer(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use a claim's devices (status.reservedFor)."""

    name: str
    uid: str
    resource: str = PODS
    api_group: str = ""


class AllocatedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device that a claim has (Kubernetes: DeviceRequestAllocationResult)."""

    request: str
    """In the form `request/subrequest` for an entry of firstAvailable."""
    id: DeviceId
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that a claim has (Kubernetes: AllocationResult)."""

    devices: tuple[AllocatedDevice, ...] = ()
    configurations: tuple[Configuration, ...] = ()
    nodes: tuple[Term, ...] | None = None
    """Alternative terms: the nodes that can use the devices. None: every node."""


class ResourceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A ResourceClaim."""

    namespace: str
    name: str
    uid: str
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[MatchAttribute, ...] = ()
    configurations: tuple[Configuration, ...] = ()
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    finalizers: tuple[str, ...] = ()
    deallocating: bool = False
    """Whether it has the label without which no devices are taken back (device_requests)."""
    deleting: bool = False
    writing: bool = False
    """Whether this scheduler is writing the allocation or the reservations, which count as written,
    or is giving the devices back, which count as used. No pod may start on their strength."""
    owner: str = ""
    """UID of the pod that controls the claim, if it is made for this pod."""
    group: JobId | None = None
    """The PodGroup that controls the claim, if it is made for all of its pods."""
    for_extended: bool = False
    """Whether it is made by a scheduler, for extended resources of its pod."""
    extended: tuple[ExtendedResource, ...] = ()
    """What these are, as long as the pod waits. Before the claim is made, its UID is empty."""
    unsupported: str = ""
    """What can't be satisfied, with its field: `spec.devices.constraints[0]: only matchAttribute is
    supported`. Such a claim is never allocated here, but can be used once it is allocated."""

    @property
    def key(self) -> str:
        """The claim as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def counted(self) -> ResourceMap:
        """The devices that the claim has, or asks for if it isn't allocated, as resources of
        queues.

        Until then, the first of several alternatives counts, and a request for all devices that
        match counts as one. Devices for an administrator don't count.
        """
        found: Counter[str] = Counter()
        if self.allocation is None:
            for request in self.requests:
                wanted = request.alternatives[0]
                if not wanted.admin_access:
                    found[wanted.device_class] += wanted.count or 1
        else:
            classes = {
                request.path(wanted): wanted.device_class
                for request in self.requests
                for wanted in request.alternatives
            }
            found.update(
                classes[device.request]
                for device in self.allocation.devices
                if not device.admin_access and device.request in classes
            )
        return {f"{resources.DEVICE_CLASS}{name}": count for name, count in sorted(found.items())}

    @property
    def users(self) -> Iterator[str]:
        """Whom it is reserved for: UIDs of pods, and ids of PodGroups of Kubernetes' own API."""
        for each in self.reserved_for:
            if (each.api_group, each.resource) == (SCHEDULING, POD_GROUPS):
                yield jobs.native_id(self.namespace, each.name)
            else:
                yield each.uid

    def is_reserved_for(self, uid: str, group: str) -> bool:
        """Whether a pod of this PodGroup may use the devices."""
        return any(user in (uid, group) for user in self.users)


class SelectorError(ValueError):
    """A CEL expression that doesn't compile, or fails for a device."""


Answer: TypeAlias = bool | SelectorError
"""What an expression says of a device: whether it is selected, or how the expression failed."""


class Selectors(Protocol):
    """The evaluation of CEL expressions about devices, which is pure.

    The Mirror hands in an implementation, since the core knows no CEL.
    """

    def answers(
        self, expression: str, driver: str, found: Iterable[Device], most: float = math.inf
    ) -> tuple[Sequence[Answer], int]:
        """Return what the expression says of each device, and about how many microseconds that
        took. Raises nothing, whatever a tenant has written.

        Once it has taken `most` microseconds, the answers for the rest are left out.
        """

    def problem(self, expression: str) -> tuple[SelectorError | None, int]:
        """Return why an expression can't be used at all, if so, and about how many microseconds it
        took to find out.
        """


Object: TypeAlias = ResourceClaim | DeviceClass | ResourceSlice
"""An object of dynamic resource allocation, of any watched kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInventory:
    """All devices of a cluster, and the claims for them.

    The Mirror gives the same mappings again as long as nothing in them changes.
    """

    claims: Mapping[str, ResourceClaim] = field(default_factory=dict)
    """By `namespace/name`."""
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    pools: Mapping[PoolId, Pool] = field(default_factory=dict)
    """Sorted."""
    allocated: Mapping[DeviceId, tuple[str, ...]] = field(default_factory=dict)
    """By device, the claims that have it, sorted; without admin access. More than one only if two
    schedulers have allocated the device at once."""
    foreign: frozenset[str] = frozenset()
    """Claims that living pods of other schedulers use, and no pod of ours."""
    shared: Mapping[JobId, tuple[str, ...]] = field(default_factory=dict)
    """By job, the claims without devices that several of its waiting pods use, sorted. Each counts
    for the first of these pods in `start_order`."""
    overdue: frozenset[str] = frozenset()
    """UIDs of terminating pods that should have gone long ago: they keep their devices."""
    served: bool = True
    """Whether the API server serves these kinds and lets them be read. Otherwise no pod with claims
    can start."""
    selectors: Selectors | None = field(default=None, compare=False, repr=False)
    """None: no CEL expression can be evaluated."""
    memo: Memo = field(default_factory=Memo, compare=False, repr=False)
    """Shared by the DeviceInventory of one Mirror."""

    def has_same_objects(self, other: "DeviceInventory") -> bool:
        """Whether all objects are known to be the same."""
        return self is other or all(
            getattr(self, name) is getattr(other, name) for name in ("claims", "classes", "pools")
        )


def start_order(task: Task) -> tuple[bool, int, float, str]:
    """Return the place of a waiting pod among those of its job: about in the order of starts."""
    return task.status is TaskStatus.GATED, -task.priority, task.created, task.uid


NO_DEVICES = DeviceInventory()
"""A cluster whose pods have no resource claims."""
