"""Users of volumes: how many pods use a volume on each node, with the changes of a cycle."""

from collections.abc import Hashable, Mapping
from typing import TypeAlias

from vscheduler.model.constraints import ClaimUse, PodVolume
from vscheduler.model.jobs import Task
from vscheduler.model.nodes import NodeLayout
from vscheduler.model.pod_affinity import PodPresence
from vscheduler.model.storage import Storage

Users: TypeAlias = tuple[int, int, int]
"""Numbers of pods that stay, leave and come."""

UsersByVolume: TypeAlias = Mapping[PodVolume, Users]


class VolumeUsers:
    """The users of all volumes, after the decisions of the cycle so far."""

    def __init__(self, storage: Storage, layout: NodeLayout) -> None:
        self._storage, self._layout = storage, layout
        self.changes: dict[int, dict[PodVolume, list[int]]] = {}
        """By row, how the numbers of users have changed; rows without changes are left out."""
        self._of_claims: dict[str, list[int]] = {}

    def move(self, task: Task, row: int, presence: PodPresence, step: int) -> None:
        """Count the task as a user of its volumes (step 1), or no longer (step -1)."""
        changes = self.changes.setdefault(row, {})
        for volume in dict.fromkeys(task.volumes):
            counts = changes.setdefault(volume, [0, 0, 0])
            counts[presence] += step
            if not any(counts):
                del changes[volume]
            if isinstance(volume, ClaimUse):
                self._of_claims.setdefault(volume.claim, [0, 0, 0])[presence] += step
        if not changes:
            del self.changes[row]

    def on(self, row: int) -> UsersByVolume:
        """Return the users on a node by volume."""
        before = self._storage.uses.get(self._layout.names[row], {})
        users = {volume: (*counts, 0) for volume, counts in before.items()}
        for volume, (staying, leaving, coming) in self.changes.get(row, {}).items():
            counts = users.get(volume, (0, 0, 0))
            users[volume] = (counts[0] + staying, counts[1] + leaving, counts[2] + coming)
        return users

    def of_claim(self, key: str) -> Users:
        """Return the users of a claim on all nodes."""
        before = self._storage.claim_uses.get(key, (0, 0))
        staying, leaving, coming = self._of_claims.get(key, (0, 0, 0))
        return before[0] + staying, before[1] + leaving, coming

    def fingerprint(self, row: int) -> Hashable:
        """Return what stands for the users on a node, with equal values for equal users."""
        changes = self.changes.get(row)
        if changes is None:
            return None
        return frozenset((volume, *counts) for volume, counts in changes.items())
