"""The watched kinds, apart from the modules that decode their objects and take long to import."""

from enum import StrEnum


class Kind(StrEnum):
    """The kinds of objects that decisions depend on."""

    POD = "Pod"
    NODE = "Node"
    QUEUE = "Queue"
    POD_GROUP = "PodGroup"
    PRIORITY_CLASS = "PriorityClass"
    BUDGET = "PodDisruptionBudget"
    QUOTA = "ResourceQuota"
    NAMESPACE = "Namespace"
    CLAIM = "PersistentVolumeClaim"
    VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CAPACITY = "CSIStorageCapacity"
    ATTACHMENT = "VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_CLAIM_TEMPLATE = "ResourceClaimTemplate"
    """Read from manifests only: in a cluster, a controller makes claims of templates."""
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"


STORAGE = frozenset(
    {
        *(Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS, Kind.CSI_NODE, Kind.CSI_DRIVER),
        *(Kind.CAPACITY, Kind.ATTACHMENT),
    }
)
"""The kinds about volumes."""

DEVICES = frozenset({Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE, Kind.DEVICE_CLASS})
"""The watched kinds about devices (dynamic resource allocation)."""
