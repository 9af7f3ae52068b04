"""Watched kinds: which kinds an instance follows, and where they are served.

Needed for the first lists, which are requested before most modules are imported.
"""

from collections.abc import Mapping

from vscheduler.daemon import settings
from vscheduler.mirror import paths
from vscheduler.mirror.decode import kinds

PATHS: Mapping[kinds.Kind, paths.Path] = {
    kinds.Kind.NODE: paths.NODES.everywhere,
    kinds.Kind.POD: paths.PODS.everywhere,
    kinds.Kind.POD_GROUP: paths.POD_GROUPS.everywhere,
    kinds.Kind.QUEUE: paths.QUEUES.everywhere,
    kinds.Kind.PRIORITY_CLASS: paths.PRIORITY_CLASSES.everywhere,
    kinds.Kind.BUDGET: paths.BUDGETS.everywhere,
    kinds.Kind.QUOTA: paths.QUOTAS.everywhere,
    kinds.Kind.NAMESPACE: paths.NAMESPACES.everywhere,
    kinds.Kind.CLAIM: paths.CLAIMS.everywhere,
    kinds.Kind.VOLUME: paths.VOLUMES.everywhere,
    kinds.Kind.STORAGE_CLASS: paths.STORAGE_CLASSES.everywhere,
    kinds.Kind.CSI_NODE: paths.CSI_NODES.everywhere,
    kinds.Kind.CSI_DRIVER: paths.CSI_DRIVERS.everywhere,
    kinds.Kind.CAPACITY: paths.CAPACITIES.everywhere,
    kinds.Kind.ATTACHMENT: paths.ATTACHMENTS.everywhere,
    kinds.Kind.RESOURCE_CLAIM: paths.RESOURCE_CLAIMS.everywhere,
    kinds.Kind.RESOURCE_SLICE: paths.RESOURCE_SLICES.everywhere,
    kinds.Kind.DEVICE_CLASS: paths.DEVICE_CLASSES.everywhere,
}
"""The collection of each kind."""

NEEDED_BY_CONTROLLERS = frozenset({kinds.Kind.POD, kinds.Kind.POD_GROUP, kinds.Kind.NAMESPACE})


def watched(given: settings.Settings) -> list[kinds.Kind]:
    """Return the kinds to watch: only kinds that some part of this instance needs."""
    return [
        kind
        for kind in PATHS
        if (given.schedules or kind in NEEDED_BY_CONTROLLERS)
        and (given.priority_classes or kind is not kinds.Kind.PRIORITY_CLASS)
    ]
