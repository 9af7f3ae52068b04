"""Volumes of pods and PersistentVolumes in wire form, as far as they decide about nodes."""

import msgspec
from msgspec import field


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all volumes of pods; see wire.Struct."""


class ClaimSource(Struct, frozen=True):
    """core/v1 PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""
    read_only: bool = False


class Disk(Struct, frozen=True):
    """A disk of an in-tree plugin, in a pod or a PersistentVolume: what identifies the disk.

    Kubernetes: core/v1 GCEPersistentDiskVolumeSource, AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource, CinderVolumeSource, PortworxVolumeSource.
    """

    pd_name: str = ""
    volume_id: str = field(default="", name="volumeID")
    disk_uri: str = field(default="", name="diskURI")
    read_only: bool = False

    @property
    def name(self) -> str:
        """The name of the disk for its plugin."""
        return self.pd_name or self.volume_id or self.disk_uri


class CephImage(Struct, frozen=True):
    """core/v1 RBDVolumeSource."""

    monitors: list[str] = []
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class Target(Struct, frozen=True):
    """core/v1 ISCSIVolumeSource."""

    iqn: str = ""
    read_only: bool = False


class Disks(Struct, frozen=True):
    """Volume sources with a disk, in a pod or a PersistentVolume."""

    gce_persistent_disk: Disk | None = None
    aws_elastic_block_store: Disk | None = None
    azure_disk: Disk | None = None
    cinder: Disk | None = None
    portworx_volume: Disk | None = None


class Volume(Disks, frozen=True):
    """core/v1 Volume, only sources that matter for the choice of a node."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: object = None
    rbd: CephImage | None = None
    iscsi: Target | None = None

    @property
    def matters(self) -> bool:
        """Whether any such source is given."""
        return (
            self.persistent_volume_claim is not None
            or self.ephemeral is not None
            or self.gce_persistent_disk is not None
            or self.aws_elastic_block_store is not None
            or self.azure_disk is not None
            or self.cinder is not None
            or self.portworx_volume is not None
            or self.rbd is not None
            or self.iscsi is not None
        )
