"""Storage: claims, volumes and what limits them, as values.

Kubernetes: core/v1 PersistentVolumeClaim and PersistentVolume, storage.k8s.io/v1 StorageClass,
CSINode, CSIDriver, CSIStorageCapacity and VolumeAttachment. Which volumes a pod uses is part of its
PodClass (`constraints.Constraints.volumes`).
"""

import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, TypeVar, cast

import msgspec

from vscheduler.model.constraints import PodVolume, Selector, Term

T = TypeVar("T")

MEMO_MAX = 1024
"""How many tables are kept. When full, all are dropped at once."""

NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of a StorageClass whose volumes are made by people."""


DRIVERS = {
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""The CSI driver that has replaced an in-tree plugin."""


class AccessMode(StrEnum):
    """How a volume may be mounted (core/v1 PersistentVolumeAccessMode)."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """This scheduler's own choice for a claim, as noted on the claim or its volume.

    The note stays when a provisioner gives the node back, so a restarted instance knows.
    """

    node: str
    since: float
    """Seconds since the epoch."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    uid: str
    lost: bool = False
    """Whether the claim's volume is gone (phase Lost)."""
    volume: str = ""
    """Name of the volume that the claim names (spec.volumeName)."""
    bound: bool = False
    """Whether the claim names a volume and the binding is complete: annotation
    pv.kubernetes.io/bind-completed, or in a manifest made by hand the phase alone."""
    storage_class: str | None = None
    """Name of the class. Empty: expressly none; None: not given, and no default was filled in."""
    request: int = 0
    """Requested bytes."""
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    """The volume mode: Filesystem or Block."""
    selector: Selector | None = None
    """Label selector of volumes; None accepts every volume."""
    attributes_class: str = ""
    """Name of the VolumeAttributesClass."""
    selected_node: str = ""
    """The node for which the volume is provisioned (annotation volume.kubernetes.io/selected-node).
    """
    selection: Selection | None = None
    deleting: bool = False
    owner: str = ""
    """UID of the pod that controls the claim, for the claim of a generic ephemeral volume."""
    created: float = 0.0
    """Seconds since the epoch."""

    @property
    def key(self) -> str:
        """The claim as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def class_name(self) -> str:
        """Name of the storage class, or "" for none."""
        return self.storage_class or ""

    @property
    def single_pod(self) -> bool:
        """Whether only one pod in the cluster may use the claim."""
        return AccessMode.READ_WRITE_ONCE_POD in self.access_modes


class ClaimReference(msgspec.Struct, frozen=True, kw_only=True):
    """The claim that a volume is bound to, or reserved for (spec.claimRef)."""

    namespace: str
    name: str
    uid: str = ""
    """Empty until the volume is bound: the volume is then reserved for any claim of this name."""

    @property
    def key(self) -> str:
        """The claim as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The driver of a volume, as far as it counts against a node's attach limits."""

    driver: str
    """Name of the CSI driver. For an in-tree volume, the driver that has replaced the plugin."""
    handle: str
    """The volume's name for its driver."""
    plugin: str = ""
    """Name of the in-tree plugin that the volume names, such as kubernetes.io/gce-pd, or empty."""


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolume."""

    name: str
    uid: str = ""
    capacity: int = 0
    """Bytes."""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    """The volume mode: Filesystem or Block."""
    attributes_class: str = ""
    """Name of the VolumeAttributesClass."""
    available: bool = False
    """Whether the phase is Available: only such a volume can be chosen for a claim."""
    bound: bool = False
    """Whether the phase is Bound."""
    claim: ClaimReference | None = None
    affinity: tuple[Term, ...] | None = None
    """Alternative terms of the required node affinity. None: usable on every node."""
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Zone and region labels, each with the permitted values."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    source: Source | None = None
    """None for a volume that isn't attached, such as a local volume."""
    bound_by_controller: bool = False
    """Whether a controller chose the claim (annotation pv.kubernetes.io/bound-by-controller), and
    not whoever made the volume."""
    selection: Selection | None = None
    deleting: bool = False
    created: float = 0.0
    """Seconds since the epoch."""

    def is_for(self, claim: Claim) -> bool:
        """Whether the volume is bound to this claim, or reserved for it."""
        of = self.claim
        return (
            of is not None
            and (of.namespace, of.name) == (claim.namespace, claim.name)
            and of.uid in ("", claim.uid)
        )


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    """A StorageClass."""

    name: str
    provisioner: str
    waits: bool = False
    """Whether claims are bound only when a pod has a node (WaitForFirstConsumer)."""
    topologies: tuple[Term, ...] = ()
    """allowedTopologies: alternative terms on node labels. Empty: volumes can be made anywhere."""
    default: bool = False
    """Whether claims without a class get this class."""
    created: float = 0.0
    """Seconds since the epoch. Of several default classes the youngest counts."""

    @property
    def provisions(self) -> bool:
        """Whether volumes are made on demand."""
        return bool(self.provisioner) and self.provisioner != NO_PROVISIONER


class CsiNode(msgspec.Struct, frozen=True, kw_only=True):
    """A CSINode: what a node's kubelet says about CSI drivers."""

    name: str
    limits: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By driver, how many volumes can be attached; drivers without a limit are left out."""
    drivers: frozenset[str] = frozenset()
    """All drivers on the node."""


class CsiDriver(msgspec.Struct, frozen=True, kw_only=True):
    """A CSIDriver, as far as relevant for the choice of nodes."""

    name: str
    storage_capacity: bool = False
    """Whether volumes are made only where a CSIStorageCapacity shows enough room."""
    required: bool = False
    """Whether nodes without the driver get no pods with its volumes."""


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """A CSIStorageCapacity: how much a driver can provision for nodes with these labels."""

    namespace: str
    name: str
    storage_class: str
    nodes: Selector | None = None
    """Label selector of nodes; None selects no node."""
    largest: int = 0
    """Size of the largest volume that can be made, in bytes: maximumVolumeSize, else capacity."""


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A VolumeAttachment: a volume that is attached to a node, or about to be."""

    name: str
    node: str
    driver: str
    volume: str
    """Name of the PersistentVolume; empty for an inline volume."""


class Memo:
    """Tables computed from objects, kept as long as these objects are the same."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[tuple[object, ...], object]] = {}

    def get(self, key: Hashable, depends_on: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the table under this key; computed anew when an object it depends on changes."""
        entry = self._entries.get(key)
        if entry is not None and all(map(operator.is_, entry[0], depends_on)):
            return cast("T", entry[1])
        if len(self._entries) >= MEMO_MAX:
            self._entries.clear()
        value = compute()
        self._entries[key] = depends_on, value
        return value


Object: TypeAlias = Claim | Volume | StorageClass | CsiNode | CsiDriver | Capacity | Attachment
"""A storage object of any kind."""

UsesOfNode: TypeAlias = Mapping[PodVolume, tuple[int, int]]
"""By volume, the number of staying pods and of pods being deleted that use it on a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """All storage objects of a cluster, and which pods on nodes use them.

    The Mirror gives the same mappings again as long as nothing in them changes.
    """

    claims: Mapping[str, Claim] = field(default_factory=dict)
    """By `namespace/name`."""
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    """By name."""
    available: Mapping[str, tuple[Volume, ...]] = field(default_factory=dict)
    """By class, available volumes that are reserved for no claim, the smallest first, then by name.
    """
    reserved: Mapping[str, tuple[Volume, ...]] = field(default_factory=dict)
    """By claim, volumes that are bound to the claim or reserved for a claim of this name."""
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CsiNode] = field(default_factory=dict)
    """By name of the node."""
    drivers: Mapping[str, CsiDriver] = field(default_factory=dict)
    capacities: Mapping[str, tuple[Capacity, ...]] = field(default_factory=dict)
    """By class, sorted by `namespace/name`."""
    attachments: Mapping[str, tuple[Attachment, ...]] = field(default_factory=dict)
    """By name of the node, sorted by name."""
    uses: Mapping[str, UsesOfNode] = field(default_factory=dict)
    """By name of the node, what pods of all schedulers use there. Nodes without any are left out.
    """
    claim_uses: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By claim, the number of staying pods and of pods being deleted that use it on any node."""
    selected_claims: tuple[str, ...] = ()
    """Claims with a `selection` that aren't bound, sorted by key."""
    selected_volumes: tuple[str, ...] = ()
    """Volumes with a `selection` that aren't bound, sorted by name."""
    served: bool = True
    """Whether the API server serves these kinds and lets them be read. Otherwise volumes are no
    obstacle for a pod."""

    memo: Memo = field(default_factory=Memo, compare=False, repr=False)
    """Shared by the Storages of one Mirror."""

    def class_of(self, claim: Claim) -> StorageClass | None:
        """Return the claim's storage class, if it exists."""
        return self.classes.get(claim.class_name)

    def has_same_objects(self, other: "Storage") -> bool:
        """Whether all objects are known to be the same; pods may use them on other nodes."""
        return self is other or all(getattr(self, name) is getattr(other, name) for name in OBJECTS)


OBJECTS = ("claims", "volumes", "classes", "csi_nodes", "drivers", "capacities", "attachments")
"""The fields of Storage with objects."""

NO_STORAGE = Storage()
"""A cluster whose pods use no volumes that matter for scheduling."""
