"""Attach limits of nodes: how many volumes of a CSI driver a node can have.

Kubernetes: kube-scheduler NodeVolumeLimits. Volumes of pods of all schedulers count, and volumes
that are still attached without a pod.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.claims.volumes.users import UsersByVolume
from vscheduler.model import storage
from vscheduler.model.constraints import DiskUse, PodVolume
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.storage import Attachment, CsiNode, Storage

Handle: TypeAlias = tuple[str, str]
"""A driver, and the volume's name for the driver."""

UNLIMITED = np.iinfo(np.int64).max // 2


class _Held(NamedTuple):
    """The volumes of a node."""

    used: Mapping[Handle, bool]
    """Volumes that pods use, and whether any of these pods is going to stay."""
    now: Collection[Handle]
    later: Collection[Handle]
    """The volumes after pods have left."""


class AttachLimits:
    """The limits of all nodes, and what counts against them as the cycle begins."""

    def __init__(self, storage: Storage, layout: NodeLayout) -> None:
        self._storage, self._layout = storage, layout

    def limit(self, driver: str) -> NDArray[np.int64]:
        """Return how many volumes of a driver each node can have, (N,)."""
        stored, layout = self._storage, self._layout

        def compute() -> NDArray[np.int64]:
            found = np.full(layout.size, UNLIMITED, dtype=np.int64)
            for name, node in stored.csi_nodes.items():
                if driver in node.limits and name in layout.rows:
                    found[layout.rows[name]] = node.limits[driver]
            return found

        return stored.memo.get(("limit", driver), (stored.csi_nodes, layout), compute)

    def missing(self, driver: str, *, migrated: bool) -> Mask:
        """Return the nodes without a driver whose volumes need it on the node, (N,).

        Volumes of in-tree plugins (`migrated`) don't need it on nodes without a CSINode.
        Kubernetes: CSIDriver.spec.preventPodSchedulingIfMissing, in force from 1.37 on.
        """
        stored, layout = self._storage, self._layout

        def compute() -> Mask:
            known = stored.drivers.get(driver)
            required = known is not None and known.required
            found = np.full(layout.size, required and not migrated)
            for name, node in stored.csi_nodes.items():
                if name in layout.rows:
                    found[layout.rows[name]] = required and driver not in node.drivers
            return found

        given = (stored.drivers, stored.csi_nodes, layout)
        return stored.memo.get(("missing", driver, migrated), given, compute)

    def needed(self, volumes: Iterable[PodVolume]) -> set[tuple[str, bool]]:
        """Return the drivers of these volumes, and whether for volumes of in-tree plugins."""
        return {
            (handle[0], self._is_migrated(volume))
            for volume in volumes
            if (handle := self._handle(volume)) is not None
        }

    def at_most(self) -> NDArray[np.int64]:
        """Return an upper bound of the volumes that each node has by now, (N,)."""
        stored, layout = self._storage, self._layout

        def compute() -> NDArray[np.int64]:
            found = np.zeros(layout.size, dtype=np.int64)
            for counted in (stored.uses, stored.attachments):
                for name, volumes in counted.items():
                    if name in layout.rows:
                        found[layout.rows[name]] += len(volumes)
            return found

        return stored.memo.get("volumes", (stored.uses, stored.attachments, layout), compute)

    def drivers(self, volumes: Iterable[PodVolume]) -> Counter[str]:
        """Return how many volumes of each driver these are at most, on any node."""
        handles = set(map(self._handle, volumes))
        return Counter(handle[0] for handle in handles if handle is not None)

    def handles(self, volumes: Iterable[PodVolume]) -> set[Handle]:
        """Return the volumes that count, on any node."""
        return {handle for handle in map(self._handle, volumes) if handle is not None}

    def free(self, driver: str, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many volumes of a driver each node can have (N,), plenty where `most` more
        don't matter, and the rows where they may.
        """
        limit = self.limit(driver)
        near = self.at_most() + most > limit
        return np.where(near, limit, UNLIMITED), np.flatnonzero(near)

    def on(
        self, driver: str, row: int, there: UsersByVolume, *, later: bool
    ) -> tuple[int, set[Handle]]:
        """Return how many volumes of a driver a node has, now or after pods have left, and those
        that pods use there, which no other pod has attached once more.
        """
        held = self._held(row, there)
        count = Counter(_drivers(held.later if later else held.now))[driver]
        return count, {each for each, stays in held.used.items() if stays or not later}

    def passes(
        self, volumes: Sequence[PodVolume], row: int, there: UsersByVolume
    ) -> tuple[bool, bool]:
        """Return whether a node can have these volumes as well, now and after pods have left.

        `there` are the pods on the node by volume, after the decisions of the cycle so far.
        """
        name = self._layout.names[row]
        node = self._storage.csi_nodes.get(name, CsiNode(name=name))
        wanted, held = self.handles(volumes), self._held(row, there)
        staying = {handle for handle, stays in held.used.items() if stays}
        return (
            _fit(node.limits, Counter(_drivers(held.now)), wanted - held.used.keys()),
            _fit(node.limits, Counter(_drivers(held.later)), wanted - staying),
        )

    def _held(self, row: int, there: UsersByVolume) -> "_Held":
        """Return the volumes of a node, and of those the ones that pods use."""
        used: dict[Handle, bool] = {}
        for volume, (staying, _, coming) in there.items():
            handle = self._handle(volume)
            if handle is not None:
                used[handle] = used.get(handle, False) or staying + coming > 0
        attachments = self._storage.attachments.get(self._layout.names[row], ())
        now = {*used, *filter(None, map(self._attached, attachments))}
        later = {handle for handle in now if used.get(handle, True)}
        return _Held(used, now, later)

    def _handle(self, volume: PodVolume) -> Handle | None:
        """Return the volume as it counts; None if it doesn't."""
        if isinstance(volume, DiskUse):
            driver = storage.DRIVERS.get(volume.plugin)
            return (driver, volume.disk[0]) if driver else None
        claim = self._storage.claims.get(volume.claim)
        if claim is None:
            return None
        found = self._storage.volumes.get(claim.volume)
        if found is None:
            # Before a volume exists, the claim stands for it.
            storage_class = self._storage.class_of(claim)
            plugin = "" if storage_class is None else storage_class.provisioner
            return (storage.DRIVERS.get(plugin, plugin), claim.key) if plugin else None
        source = found.source
        return None if source is None else (source.driver, source.handle)

    def _is_migrated(self, volume: PodVolume) -> bool:
        """Whether the volume is one of an in-tree plugin that a CSI driver has replaced."""
        if isinstance(volume, DiskUse):
            return True
        claim = self._storage.claims[volume.claim]
        found = self._storage.volumes.get(claim.volume)
        if found is not None:
            return found.source is not None and bool(found.source.plugin)
        storage_class = self._storage.class_of(claim)
        return storage_class is not None and storage_class.provisioner in storage.DRIVERS

    def _attached(self, attachment: Attachment) -> Handle | None:
        """Return the volume of an attachment; only volumes of CSI drivers count."""
        volume = self._storage.volumes.get(attachment.volume)
        if volume is None or volume.source is None or volume.source.plugin:
            return None
        return attachment.driver, volume.source.handle


def _fit(
    limits: Mapping[str, int], counts: Mapping[str, int], more: Iterable[Handle | None]
) -> bool:
    """Whether these volumes fit beside so many of each driver."""
    return all(
        counts.get(driver, 0) + count <= limits.get(driver, UNLIMITED)
        for driver, count in Counter(_drivers(more)).items()
    )


def _drivers(handles: Iterable[Handle | None]) -> Iterable[str]:
    return (handle[0] for handle in handles if handle is not None)
