"""Checks of waiting pods whose volumes keep them from every node."""

from collections.abc import Iterator

import numpy as np

from vscheduler.cli.checks import findings
from vscheduler.core.model import constraints, jobs, nodes, snapshot, storage
from vscheduler.core.placement.volumes import claims, tables

NO_CLASS = "StorageClass {} isn't among those given; the claim is never bound"
NO_CLAIM = "PersistentVolumeClaim {} isn't among those given; the pod waits for it"
DELETED = "PersistentVolumeClaim {} is lost or being deleted; the pod never starts"
APART = "exclude each other: no given node can use {}"


def of_pods(taken: snapshot.Snapshot) -> Iterator[findings.FindingText]:
    """Iterate over waiting pods with missing claims, or with volumes that no node has in common.

    A claim is only missing if the input has claims.
    """
    seen: set[tuple[constraints.PodVolume, ...]] = set()
    for job in taken.jobs:
        for task in job.tasks:
            if task.status is jobs.TaskStatus.PENDING and task.volumes not in seen:
                seen.add(task.volumes)
                yield from _of_pod(task, taken.storage, taken.nodes.layout)


def of_claims(stored: storage.Storage) -> Iterator[findings.FindingText]:
    """Iterate over unbound claims of a class that isn't among those given, if any are given."""
    for claim in stored.claims.values() if stored.classes else ():
        name = claim.class_name
        # A volume made by hand may have a class that exists in name only.
        known = name in stored.classes or name in stored.available
        if name and not (known or claim.bound or claim.volume):
            yield findings.FindingText(claim.key, "spec.storageClassName", NO_CLASS.format(name))


def _of_pod(
    task: jobs.Task, stored: storage.Storage, layout: nodes.NodeLayout
) -> Iterator[findings.FindingText]:
    used: dict[str, nodes.Mask] = {}
    for volume in task.volumes:
        if not isinstance(volume, constraints.ClaimUse) or volume.owner:
            continue
        claim = stored.claims.get(volume.claim)
        name = volume.claim.partition("/")[2]
        if claim is None:
            if stored.claims:
                yield findings.FindingText(task.key, "spec.volumes", NO_CLAIM.format(name))
        elif claim.lost or claim.deleting:
            yield findings.FindingText(task.key, "spec.volumes", DELETED.format(name))
        else:
            used[name] = _usable(claim, stored, layout)
    if not layout.size or not all(mask.any() for mask in used.values()):
        return
    if len(used) > 1 and not np.logical_and.reduce(list(used.values())).any():
        message = APART.format(" and ".join(sorted(used)))
        yield findings.FindingText(task.key, "spec.volumes", message)


def _usable(claim: storage.Claim, stored: storage.Storage, layout: nodes.NodeLayout) -> nodes.Mask:
    """Return the nodes (N,) on which the claim has a volume, or can get one."""
    if claim.bound:
        needs = claims.needs_of((constraints.ClaimUse(claim.key),), stored, layout)
        usable = np.ones(layout.size, dtype=np.bool_)
        for each in (*needs.binding, *needs.zones):
            usable &= each.passes
        return usable
    mask = np.zeros(layout.size, dtype=np.bool_)
    for volume in (
        *stored.available.get(claim.class_name, ()),
        *stored.reserved.get(claim.key, ()),
    ):
        if volume.capacity >= claim.request:
            mask |= tables.usable(volume.affinity, layout)
    storage_class = stored.class_of(claim)
    if storage_class is not None and storage_class.provisions:
        if not storage_class.topologies:
            return np.ones(layout.size, dtype=np.bool_)
        mask |= tables.any_of(storage_class.topologies, layout)
    return mask
