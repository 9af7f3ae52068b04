"""Slices, classes and claims of devices in wire form, reduced to the fields in use.

What isn't supported yet is decoded as `object`: only whether it is there matters.
"""

from typing import TypeAlias

import msgspec
from msgspec import field

from vscheduler.mirror.decode.quantities import Quantity
from vscheduler.mirror.decode.wire import Metadata, NodeSelector


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all wire objects about devices; see wire.Struct."""


class Attribute(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceAttribute: one of these values."""

    number: int | None = field(default=None, name="int")
    flag: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class DeviceCapacity(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceCapacity."""

    value: Quantity = 0


class Taint(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceTaint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceToleration."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Device(Struct, frozen=True):
    """resource.k8s.io/v1 Device."""

    name: str = ""
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    taints: list[Taint] = []
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    consumes_counters: list[object] = []
    allow_multiple_allocations: bool | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] = []
    node_allocatable_resource_mappings: dict[str, object] = {}


class Pool(Struct, frozen=True):
    """resource.k8s.io/v1 ResourcePool."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(Struct, frozen=True):
    """resource.k8s.io/v1 ResourceSliceSpec."""

    driver: str = ""
    pool: Pool = Pool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] = []


class ResourceSlice(Struct, frozen=True):
    """resource.k8s.io/v1 ResourceSlice."""

    metadata: Metadata = Metadata()
    spec: SliceSpec = SliceSpec()


class CelSelector(Struct, frozen=True):
    """resource.k8s.io/v1 CELDeviceSelector."""

    expression: str = ""


class Selector(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceSelector."""

    cel: CelSelector | None = None


class Opaque(Struct, frozen=True):
    """resource.k8s.io/v1 OpaqueDeviceConfiguration."""

    driver: str = ""
    parameters: object = None


class Configuration(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceClassConfiguration and its like: with requests in a claim, and with
    a source in an allocation.
    """

    source: str = ""
    requests: list[str] = []
    opaque: Opaque | None = None


class ClassSpec(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceClassSpec."""

    selectors: list[Selector] = []
    config: list[Configuration] = []
    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceClass."""

    metadata: Metadata = Metadata()
    spec: ClassSpec = ClassSpec()


class Wanted(Struct, frozen=True):
    """resource.k8s.io/v1 ExactDeviceRequest and DeviceSubRequest."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[Selector] = []
    allocation_mode: str = "ExactCount"
    count: int = 0
    """0: not given, which means 1."""
    admin_access: bool | None = None
    tolerations: list[Toleration] = []
    capacity: object = None


class Request(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceRequest."""

    name: str = ""
    exactly: Wanted | None = None
    first_available: list[Wanted] = []


class Constraint(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceConstraint."""

    requests: list[str] = []
    match_attribute: str | None = None


class DeviceClaim(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceClaim."""

    requests: list[Request] = []
    constraints: list[Constraint] = []
    config: list[Configuration] = []


class ClaimSpec(Struct, frozen=True):
    """resource.k8s.io/v1 ResourceClaimSpec."""

    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceRequestAllocationResult."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[Toleration] = []
    share_id: str | None = field(default=None, name="shareID")


class AllocatedDevices(Struct, frozen=True):
    """resource.k8s.io/v1 DeviceAllocationResult."""

    results: list[AllocatedDevice] = []
    config: list[Configuration] = []


class Allocation(Struct, frozen=True):
    """resource.k8s.io/v1 AllocationResult."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class Consumer(Struct, frozen=True):
    """resource.k8s.io/v1 ResourceClaimConsumerReference."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(Struct, frozen=True):
    """resource.k8s.io/v1 ResourceClaimStatus."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] = []


class ClaimMetadata(Metadata, frozen=True):
    """meta/v1 ObjectMeta with finalizers."""

    finalizers: list[str] = field(default_factory=list)


class ResourceClaim(Struct, frozen=True):
    """resource.k8s.io/v1 ResourceClaim."""

    metadata: ClaimMetadata = ClaimMetadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class TemplateSpec(Struct, frozen=True):
    """resource.k8s.io/v1 ResourceClaimTemplateSpec."""

    spec: ClaimSpec = ClaimSpec()


class ResourceClaimTemplate(Struct, frozen=True):
    """resource.k8s.io/v1 ResourceClaimTemplate."""

    metadata: Metadata = Metadata()
    spec: TemplateSpec = TemplateSpec()


Object: TypeAlias = ResourceClaim | ResourceClaimTemplate | DeviceClass | ResourceSlice
"""An object about devices."""
