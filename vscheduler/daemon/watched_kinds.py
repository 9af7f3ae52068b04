"""Watched kinds: which kinds an instance follows, and where they are served.

Needed for the first lists, which are requested before most modules are imported.
"""

from collections.abc import Mapping

from vscheduler.daemon.settings import Settings
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Kind, Path

PATHS: Mapping[Kind, Path] = {
    Kind.NODE: paths.NODES.everywhere,
    Kind.POD: paths.PODS.everywhere,
    Kind.POD_GROUP: paths.POD_GROUPS.everywhere,
    Kind.QUEUE: paths.QUEUES.everywhere,
    Kind.PRIORITY_CLASS: paths.PRIORITY_CLASSES.everywhere,
    Kind.BUDGET: paths.BUDGETS.everywhere,
    Kind.QUOTA: paths.QUOTAS.everywhere,
    Kind.NAMESPACE: paths.NAMESPACES.everywhere,
    Kind.CLAIM: paths.CLAIMS.everywhere,
    Kind.VOLUME: paths.VOLUMES.everywhere,
    Kind.STORAGE_CLASS: paths.STORAGE_CLASSES.everywhere,
    Kind.CSI_NODE: paths.CSI_NODES.everywhere,
    Kind.CSI_DRIVER: paths.CSI_DRIVERS.everywhere,
    Kind.CAPACITY: paths.CAPACITIES.everywhere,
    Kind.ATTACHMENT: paths.ATTACHMENTS.everywhere,
    Kind.RESOURCE_CLAIM: paths.RESOURCE_CLAIMS.everywhere,
    Kind.RESOURCE_SLICE: paths.RESOURCE_SLICES.everywhere,
    Kind.DEVICE_CLASS: paths.DEVICE_CLASSES.everywhere,
}
"""The collection of each kind."""

NEEDED_BY_CONTROLLERS = frozenset({Kind.POD, Kind.POD_GROUP, Kind.NAMESPACE})


def watched(settings: Settings) -> list[Kind]:
    """Return the kinds to watch: only kinds that some part of this instance needs."""
    return [
        kind
        for kind in PATHS
        if (settings.schedules or kind in NEEDED_BY_CONTROLLERS)
        and (settings.priority_classes or kind is not Kind.PRIORITY_CLASS)
    ]
