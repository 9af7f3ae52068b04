"""The kinds of objects that interactive commands read, and the pykube classes that read them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pykube

from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection


class Kind(StrEnum):
    """Kinds of objects to read."""

    QUEUE = "Queue"
    POD_GROUP = "PodGroup"
    POD = "Pod"
    NODE = "Node"
    PRIORITY_CLASS = "PriorityClass"
    EVENT = "Event"
    NAMESPACE = "Namespace"
    BUDGET = "PodDisruptionBudget"
    QUOTA = "ResourceQuota"
    CLAIM = "PersistentVolumeClaim"
    VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"


COLLECTIONS: Mapping[Kind, Collection] = {
    Kind.QUEUE: paths.QUEUES,
    Kind.POD_GROUP: paths.POD_GROUPS,
    Kind.POD: paths.PODS,
    Kind.NODE: paths.NODES,
    Kind.PRIORITY_CLASS: paths.PRIORITY_CLASSES,
    Kind.EVENT: paths.CORE_EVENTS,
    Kind.NAMESPACE: paths.NAMESPACES,
    Kind.BUDGET: paths.BUDGETS,
    Kind.QUOTA: paths.QUOTAS,
    Kind.CLAIM: paths.CLAIMS,
    Kind.VOLUME: paths.VOLUMES,
    Kind.STORAGE_CLASS: paths.STORAGE_CLASSES,
    Kind.CSI_NODE: paths.CSI_NODES,
    Kind.CSI_DRIVER: paths.CSI_DRIVERS,
    Kind.STORAGE_CAPACITY: paths.CAPACITIES,
    Kind.VOLUME_ATTACHMENT: paths.ATTACHMENTS,
}
NAMESPACED = frozenset(kind for kind, each in COLLECTIONS.items() if each.namespaced)


def _served(collection: Collection) -> Any:
    """Return the class with which pykube reads a collection."""
    base = pykube.objects.NamespacedAPIObject if collection.namespaced else pykube.objects.APIObject
    words = {"version": collection.api_version, "endpoint": collection.plural}
    return type(collection.kind, (base,), {**words, "kind": collection.kind})


CLASSES: Mapping[Kind, Any] = {kind: _served(each) for kind, each in COLLECTIONS.items()}
