"""Checks of waiting pods whose volumes keep them from every node."""

from collections.abc import Iterator

import numpy as np

from vscheduler.cli.checks.findings import FindingText
from vscheduler.core.claims.volumes import claims, tables
from vscheduler.model import nodes
from vscheduler.model.constraints import ClaimUse, PodVolume
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.snapshot import Snapshot
from vscheduler.model.storage import Claim, Storage

NO_CLASS = "StorageClass {} isn't among those given; the claim is never bound"
NO_CLAIM = "there is no PersistentVolumeClaim {} among the given objects; without it the pod waits"
DELETED = "PersistentVolumeClaim {} is lost or being deleted; the pod never starts"
APART = "exclude each other: no given node can use {}"


def of_pods(snapshot: Snapshot) -> Iterator[FindingText]:
    """Iterate over waiting pods with missing claims, or with volumes that no node has in common.

    A claim is only missing if the input has claims, or nodes, as that of a whole cluster.
    """
    seen: set[tuple[PodVolume, ...]] = set()
    for job in snapshot.jobs:
        for task in job.tasks:
            if task.status is TaskStatus.PENDING and task.volumes not in seen:
                seen.add(task.volumes)
                yield from _of_pod(task, snapshot.storage, snapshot.nodes.layout)


def of_claims(storage: Storage) -> Iterator[FindingText]:
    """Iterate over unbound claims of a class that isn't among those given, if any are given."""
    for claim in storage.claims.values() if storage.classes else ():
        name = claim.class_name
        # A volume made by hand may have a class that exists in name only.
        known = name in storage.classes or name in storage.available
        if name and not (known or claim.bound or claim.volume):
            yield FindingText(claim.key, "spec.storageClassName", NO_CLASS.format(name))


def _of_pod(task: Task, storage: Storage, layout: NodeLayout) -> Iterator[FindingText]:
    used: dict[str, Mask] = {}
    for volume in task.volumes:
        if not isinstance(volume, ClaimUse) or volume.owner:
            continue
        claim = storage.claims.get(volume.claim)
        name = volume.claim.partition("/")[2]
        if claim is None:
            if storage.claims or layout.size:
                yield FindingText(task.key, "spec.volumes", NO_CLAIM.format(name))
        elif claim.lost or claim.deleting:
            yield FindingText(task.key, "spec.volumes", DELETED.format(name))
        else:
            used[name] = _usable(claim, storage, layout)
    if not layout.size or not all(mask.any() for mask in used.values()):
        return
    if len(used) > 1 and not np.logical_and.reduce(list(used.values())).any():
        message = APART.format(" and ".join(sorted(used)))
        yield FindingText(task.key, "spec.volumes", message)


def _usable(claim: Claim, storage: Storage, layout: NodeLayout) -> Mask:
    """Return the nodes (N,) on which the claim has a volume, or can get one."""
    if claim.bound:
        needs = claims.needs_of((ClaimUse(claim.key),), storage, layout)
        usable = np.ones(layout.size, dtype=np.bool_)
        for each in (*needs.binding, *needs.zones):
            usable &= each.passes
        return usable
    mask = np.zeros(layout.size, dtype=np.bool_)
    for volume in (
        *storage.available.get(claim.class_name, ()),
        *storage.reserved.get(claim.key, ()),
    ):
        if volume.capacity >= claim.request:
            mask |= tables.usable(volume.affinity, layout)
    storage_class = storage.class_of(claim)
    if storage_class is not None and storage_class.provisions:
        if not storage_class.topologies:
            return np.ones(layout.size, dtype=np.bool_)
        mask |= nodes.matches_any(layout, storage_class.topologies)
    return mask
