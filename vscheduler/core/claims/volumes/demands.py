"""Demands for volumes by the pods of a gang, for a search that places them all."""

from collections.abc import Callable, Hashable, Sequence
from enum import Enum, auto

import numpy as np
from msgspec.structs import replace

from vscheduler.core.claims.volumes.attach_limits import AttachLimits
from vscheduler.core.claims.volumes.choices import VolumeChoices, VolumeSupply
from vscheduler.core.claims.volumes.claims import Needs
from vscheduler.core.claims.volumes.tables import Ints
from vscheduler.core.claims.volumes.users import VolumeUsers
from vscheduler.model.constraints import DiskUse, PodVolume
from vscheduler.model.jobs import PodClass
from vscheduler.model.nodes import Mask
from vscheduler.model.storage import Storage

SHARED_DISKS = frozenset({"gce-pd", "iscsi", "rbd"})
"""Plugins with disks that several pods may share if all of them only read."""


class Exclusion(Enum):
    """Where two pods can't run together."""

    NOWHERE = auto()
    ON_A_NODE = auto()
    EVERYWHERE = auto()


class VolumeDemands:
    """What volumes pods ask for, and what nodes have."""

    def __init__(  # noqa: PLR0913 - what volumes depend on
        self,
        needs_of: Callable[[tuple[PodVolume, ...]], Needs],
        chosen: VolumeChoices,
        limits: AttachLimits,
        used: VolumeUsers,
        storage: Storage,
        *,
        binds: bool,
        attaches: bool,
    ) -> None:
        """`binds` and `attaches`: whether a plugin looks at claims, and at attach limits."""
        self._needs_of, self._choices, self._limits = needs_of, chosen, limits
        self._users, self._storage = used, storage
        self._binds, self._attaches = binds, attaches

    def class_key(self, pod_class: PodClass) -> Hashable:
        """Return what pods have in common that differ only in claims of their own, for which the
        same volumes can be chosen; the class itself for all other pods.

        Whether other pods use a claim as well is for the caller to know.
        """
        limits = pod_class.constraints
        chosen = self.choosing(pod_class)
        if not chosen or len(chosen) < len(set(limits.volumes)):
            return pod_class
        amounts = (pod_class.counted, pod_class.request, pod_class.hints)
        return (
            *(tuple(sorted(amount.items())) for amount in amounts),
            replace(limits, volumes=()),
            tuple(map(self.demand, chosen)),
        )

    def choosing(self, pod_class: PodClass) -> list[str]:
        """Return the pod's claims for which a volume is still to be chosen; like pods name like
        claims in the same order.
        """
        if not self._binds or not pod_class.constraints.volumes:
            return []
        needs = self._needs_of(pod_class.constraints.volumes)
        keys = [claim.key for claim in self._choices.choosing(needs)]
        return sorted(keys, key=lambda key: (repr(self.demand(key)), key))

    def demand(self, key: str) -> Hashable:
        """Return what a claim asks for: the same volumes satisfy claims that ask for the same."""
        claim = self._storage.claims[key]
        return (
            claim.class_name,
            claim.request,
            claim.access_modes,
            claim.mode,
            claim.selector,
            claim.attributes_class,
        )

    def supply(self, wanted: Sequence[str], most: int) -> VolumeSupply:
        """Return the volumes that could be chosen for these claims, one of each demand.

        Of volumes for the same nodes, only so many are named as `most` claims could need.
        """
        return self._choices.supply([self._storage.claims[key] for key in wanted], most)

    def attached(self, pod_class: PodClass) -> frozenset[tuple[str, str]]:
        """Return the volumes of the pod that count against attach limits: driver and handle."""
        if not self._attaches:
            return frozenset()
        return frozenset(self._limits.handles(pod_class.constraints.volumes))

    def attachable(
        self, driver: str, most: int, shared: Sequence[tuple[str, str]], *, later: bool
    ) -> tuple[Ints, Mask]:
        """Return how many more volumes of a driver each node can have (N,), and which of the
        `shared` volumes (H, N) it has already.

        Nodes that `most` more volumes can't bring beyond the limit have plenty.
        """
        decided = max(map(len, self._users.changes.values()), default=0)
        free, rows = self._limits.free(driver, most + decided)
        there = np.zeros((len(shared), free.size), dtype=np.bool_)
        for row in rows.tolist():
            count, held = self._limits.on(driver, row, self._users.on(row), later=later)
            free[row] -= count
            there[:, row] = [each in held for each in shared]
        return free, there

    def exclude(self, one: PodClass, other: PodClass) -> Exclusion:
        """Return where two pods of these classes can't run together because of their volumes."""
        needs = self._needs_of(one.constraints.volumes)
        others = self._needs_of(other.constraints.volumes)
        if set(needs.single) & set(others.single):
            return Exclusion.EVERYWHERE
        if any(conflict(disk, each) for disk in needs.disks for each in others.disks):
            return Exclusion.ON_A_NODE
        return Exclusion.NOWHERE


def conflict(disk: DiskUse, other: PodVolume) -> bool:
    """Whether two pods can't use these volumes on one node.

    Kubernetes: VolumeRestrictions.isVolumeConflict.
    """
    if not isinstance(other, DiskUse):
        return False
    plugin = disk.plugin.rpartition("/")[2]
    if (disk.plugin, disk.disk) != (other.plugin, other.disk):
        return False
    if plugin == "aws-ebs":
        return True
    if plugin == "rbd" and not set(disk.monitors) & set(other.monitors):
        return False
    return plugin in SHARED_DISKS and not (disk.read_only and other.read_only)
