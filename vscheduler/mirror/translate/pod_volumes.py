"""Volumes of pods that matter for the choice of a node, and the names of disks.

Kubernetes: component-helpers storage/ephemeral, csi-translation-lib.
"""

from collections.abc import Iterator

from vscheduler.core.model.constraints import ClaimUse, DiskUse, PodVolume
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.wire import Pod
from vscheduler.mirror.decode.wire_volumes import Disk, Disks

RBD = "kubernetes.io/rbd"
ISCSI = "kubernetes.io/iscsi"
NONE: tuple[PodVolume, ...] = ()


def of_pod(pod: Pod) -> tuple[PodVolume, ...]:
    """Return the volumes of a pod that matter for the choice of a node, in their order."""
    for volume in pod.spec.volumes:
        if volume.matters:
            return tuple(_of_volumes(pod))
    return NONE


def disk_of(disks: Disks) -> tuple[str, Disk] | None:
    """Return the in-tree plugin of a volume source and its disk; None for other sources."""
    for plugin, disk in (
        ("kubernetes.io/gce-pd", disks.gce_persistent_disk),
        ("kubernetes.io/aws-ebs", disks.aws_elastic_block_store),
        ("kubernetes.io/azure-disk", disks.azure_disk),
        ("kubernetes.io/cinder", disks.cinder),
        ("kubernetes.io/portworx-volume", disks.portworx_volume),
    ):
        if disk is not None:
            return plugin, disk
    return None


def _of_volumes(pod: Pod) -> Iterator[PodVolume]:
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None:
            claim = events.key_of(namespace, source.claim_name)
            yield ClaimUse(claim, read_only=source.read_only)
        elif volume.ephemeral is not None:
            claim = events.key_of(namespace, f"{pod.metadata.name}-{volume.name}")
            owner = pod.metadata.uid or events.key_of(namespace, pod.metadata.name)
            yield ClaimUse(claim, owner=owner)
        elif (found := disk_of(volume)) is not None:
            plugin, disk = found
            yield DiskUse(plugin, (disk.name,), read_only=disk.read_only)
        elif (image := volume.rbd) is not None:
            yield DiskUse(
                RBD, (image.pool, image.image), image.read_only, tuple(sorted(image.monitors))
            )
        elif (target := volume.iscsi) is not None:
            yield DiskUse(ISCSI, (target.iqn,), target.read_only)
