"""Claims, volumes and other storage objects in wire form, reduced to the fields in use."""

from typing import TypeAlias

import msgspec
from msgspec import field

from vscheduler.mirror.decode.quantities import Quantity
from vscheduler.mirror.decode.wire import (
    Disks,
    LabelSelector,
    Metadata,
    NodeSelector,
    ResourceList,
    ResourceRequirements,
)


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all wire objects about storage; see wire.Struct."""


class ClaimSpec(Struct, frozen=True):
    """core/v1 PersistentVolumeClaimSpec."""

    access_modes: list[str] = []
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_name: str = ""
    volume_attributes_class_name: str = ""


class ClaimStatus(Struct, frozen=True):
    """core/v1 PersistentVolumeClaimStatus."""

    phase: str = ""


class PersistentVolumeClaim(Struct, frozen=True):
    """core/v1 PersistentVolumeClaim."""

    metadata: Metadata = Metadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ClaimReference(Struct, frozen=True):
    """core/v1 ObjectReference of a volume to its claim."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeAffinity(Struct, frozen=True):
    """core/v1 VolumeNodeAffinity."""

    required: NodeSelector | None = None


class CsiSource(Struct, frozen=True):
    """core/v1 CSIPersistentVolumeSource."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Disks, frozen=True):
    """core/v1 PersistentVolumeSpec."""

    access_modes: list[str] = field(default_factory=list)
    capacity: ResourceList = field(default_factory=dict)
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeAffinity | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    csi: CsiSource | None = None


class VolumeStatus(Struct, frozen=True):
    """core/v1 PersistentVolumeStatus."""

    phase: str = ""


class PersistentVolume(Struct, frozen=True):
    """core/v1 PersistentVolume."""

    metadata: Metadata = Metadata()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyRequirement(Struct, frozen=True):
    """core/v1 TopologySelectorLabelRequirement."""

    key: str = ""
    values: list[str] = []


class TopologyTerm(Struct, frozen=True):
    """core/v1 TopologySelectorTerm."""

    match_label_expressions: list[TopologyRequirement] = []


class StorageClass(Struct, frozen=True):
    """storage.k8s.io/v1 StorageClass."""

    metadata: Metadata = Metadata()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] = []


class NodeAllocatable(Struct, frozen=True):
    """storage.k8s.io/v1 VolumeNodeResources."""

    count: int | None = None


class NodeDriver(Struct, frozen=True):
    """storage.k8s.io/v1 CSINodeDriver."""

    name: str = ""
    allocatable: NodeAllocatable | None = None


class CSINodeSpec(Struct, frozen=True):
    """storage.k8s.io/v1 CSINodeSpec."""

    drivers: list[NodeDriver] = []


class CSINode(Struct, frozen=True):
    """storage.k8s.io/v1 CSINode."""

    metadata: Metadata = Metadata()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct, frozen=True):
    """storage.k8s.io/v1 CSIDriverSpec."""

    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class CSIDriver(Struct, frozen=True):
    """storage.k8s.io/v1 CSIDriver."""

    metadata: Metadata = Metadata()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Struct, frozen=True):
    """storage.k8s.io/v1 CSIStorageCapacity."""

    metadata: Metadata = Metadata()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachmentSource(Struct, frozen=True):
    """storage.k8s.io/v1 VolumeAttachmentSource, without inline volumes."""

    persistent_volume_name: str = ""


class AttachmentSpec(Struct, frozen=True):
    """storage.k8s.io/v1 VolumeAttachmentSpec."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = field(default_factory=AttachmentSource)


class VolumeAttachment(Struct, frozen=True):
    """storage.k8s.io/v1 VolumeAttachment."""

    metadata: Metadata = Metadata()
    spec: AttachmentSpec = AttachmentSpec()


Object: TypeAlias = (
    PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)
