"""Claims, volumes and other storage objects, translated to model.storage, and the volumes of
pods that matter for the choice of a node.

Every function raises fields.FieldError for an unusable field.
"""

import datetime as dt
from collections.abc import Collection, Iterator, Mapping

from vscheduler.mirror.decode import events, fields, quantities, wire, wire_storage
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.quantities import Quantity, QuantityError
from vscheduler.mirror.decode.wire import Disk, Disks, ResourceList
from vscheduler.mirror.decode.wire_storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    TopologyTerm,
    VolumeAffinity,
    VolumeAttachment,
    VolumeSpec,
)
from vscheduler.mirror.translate import pod_constraints
from vscheduler.model import storage
from vscheduler.model.constraints import (
    ClaimUse,
    DiskUse,
    Operator,
    PodVolume,
    Requirement,
    Term,
)
from vscheduler.model.storage import (
    Attachment,
    Capacity,
    Claim,
    ClaimReference,
    CsiDriver,
    CsiNode,
    Selection,
    Source,
    Volume,
)

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
OLD_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotations of Kubernetes. The class in an annotation counts before the class in the spec."""

SELECTION = "volume-binding"
"""Annotation `<scheduler name>/volume-binding`: a storage.Selection."""

ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""Labels of a volume that say where it can be used (Kubernetes: VolumeZone)."""

ZONES_SEPARATOR = "__"
"""Between the zones of a volume that is in several (Kubernetes: LabelZonesToSet)."""

STORAGE = "storage"
WAITS = "WaitForFirstConsumer"
BINDING_MODES = ("Immediate", WAITS)
FILESYSTEM = "Filesystem"


def claim(stored: PersistentVolumeClaim, scheduler_names: Collection[str]) -> Claim:
    """Translate a PersistentVolumeClaim."""
    metadata, spec = stored.metadata, stored.spec
    annotations, selector = metadata.annotations, spec.selector
    requests = spec.resources.requests if spec.resources else {}
    owner = next(
        (
            reference
            for reference in metadata.owner_references
            if reference.controller and reference.kind == "Pod"
        ),
        None,
    )
    named = owner and (owner.uid or events.key_of(metadata.namespace, owner.name))
    return Claim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        lost=stored.status.phase == "Lost",
        volume=spec.volume_name,
        bound=bool(spec.volume_name)
        and (BIND_COMPLETED in annotations or stored.status.phase == "Bound"),
        storage_class=annotations.get(OLD_CLASS, spec.storage_class_name),
        request=_bytes(requests, "spec.resources.requests"),
        access_modes=tuple(sorted(spec.access_modes)),
        mode=spec.volume_mode or FILESYSTEM,
        selector=None if selector is None else pod_constraints.of_labels(selector, "spec.selector"),
        attributes_class=spec.volume_attributes_class_name,
        selected_node=annotations.get(SELECTED_NODE, ""),
        selection=_selection(annotations, scheduler_names),
        deleting=metadata.deletion_timestamp is not None,
        owner=named or "",
        created=fields.seconds(metadata.creation_timestamp),
    )


def volume(stored: PersistentVolume, scheduler_names: Collection[str]) -> Volume:
    """Translate a PersistentVolume."""
    metadata, spec = stored.metadata, stored.spec
    reference = spec.claim_ref
    return Volume(
        name=metadata.name,
        uid=metadata.uid,
        capacity=_bytes(spec.capacity, "spec.capacity"),
        storage_class=metadata.annotations.get(OLD_CLASS, spec.storage_class_name),
        access_modes=tuple(sorted(spec.access_modes)),
        mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name,
        available=stored.status.phase == "Available",
        bound=stored.status.phase == "Bound",
        claim=None
        if reference is None
        else ClaimReference(namespace=reference.namespace, name=reference.name, uid=reference.uid),
        affinity=_affinity(spec.node_affinity),
        zones=_zones(metadata.labels),
        labels=metadata.labels,
        source=_source(spec),
        bound_by_controller=BOUND_BY_CONTROLLER in metadata.annotations,
        selection=_selection(metadata.annotations, scheduler_names),
        deleting=metadata.deletion_timestamp is not None,
        created=fields.seconds(metadata.creation_timestamp),
    )


def storage_class(stored: wire_storage.StorageClass) -> storage.StorageClass:
    """Translate a StorageClass."""
    metadata, mode = stored.metadata, stored.volume_binding_mode
    if mode not in BINDING_MODES:
        message = f"{mode!r} is none of {', '.join(BINDING_MODES)}"
        raise FieldError("volumeBindingMode", message)
    return storage.StorageClass(
        name=metadata.name,
        provisioner=stored.provisioner,
        waits=mode == WAITS,
        topologies=tuple(_topology(term) for term in stored.allowed_topologies),
        default="true"
        in (metadata.annotations.get(DEFAULT_CLASS), metadata.annotations.get(OLD_DEFAULT_CLASS)),
        created=fields.seconds(metadata.creation_timestamp),
    )


def csi_node(stored: CSINode) -> CsiNode:
    """Translate a CSINode. A driver without a count has no limit."""
    limits = {}
    for at, driver in enumerate(stored.spec.drivers):
        if driver.allocatable is not None and driver.allocatable.count is not None:
            place = f"spec.drivers[{at}].allocatable.count"
            fields.check_int32(driver.allocatable.count, place)
            limits[driver.name] = driver.allocatable.count
    return CsiNode(
        name=stored.metadata.name,
        limits=dict(sorted(limits.items())),
        drivers=frozenset(driver.name for driver in stored.spec.drivers),
    )


def csi_driver(stored: CSIDriver) -> CsiDriver:
    """Translate a CSIDriver."""
    return CsiDriver(
        name=stored.metadata.name,
        storage_capacity=stored.spec.storage_capacity,
        required=stored.spec.prevent_pod_scheduling_if_missing,
    )


def capacity(stored: CSIStorageCapacity) -> Capacity:
    """Translate a CSIStorageCapacity. Without any size, no volume can be made."""
    topology, sizes = stored.node_topology, {}
    for field, size in (
        ("capacity", stored.capacity),
        ("maximumVolumeSize", stored.maximum_volume_size),
    ):
        if size is not None:
            sizes[field] = _size(size, field)
    return Capacity(
        namespace=stored.metadata.namespace,
        name=stored.metadata.name,
        storage_class=stored.storage_class_name,
        nodes=None if topology is None else pod_constraints.of_labels(topology, "nodeTopology"),
        largest=sizes.get("maximumVolumeSize", sizes.get("capacity", -1)),
    )


def attachment(stored: VolumeAttachment) -> Attachment:
    """Translate a VolumeAttachment."""
    spec = stored.spec
    return Attachment(
        name=stored.metadata.name,
        node=spec.node_name,
        driver=spec.attacher,
        volume=spec.source.persistent_volume_name,
    )


def _bytes(amounts: ResourceList, field: str) -> int:
    """Return the amount of storage, or 0 if none is given."""
    return _size(amounts[STORAGE], f"{field}.{STORAGE}") if STORAGE in amounts else 0


def _size(quantity: Quantity, field: str) -> int:
    try:
        amount = quantities.parse_whole(quantity)
    except QuantityError as error:
        raise FieldError(field, str(error)) from error
    if amount < 0:
        raise FieldError(field, f"{quantity} must not be negative")
    return amount


def _affinity(affinity: VolumeAffinity | None) -> tuple[Term, ...] | None:
    if affinity is None or affinity.required is None:
        return None
    place = "spec.nodeAffinity.required.nodeSelectorTerms"
    return tuple(
        pod_constraints.node_term(term, f"{place}[{at}]")
        for at, term in enumerate(affinity.required.node_selector_terms)
    )


def _zones(labels: Mapping[str, str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return zone and region labels with their values; a label with an empty value is ignored."""
    zones = []
    for key in ZONES:
        values = {each.strip() for each in labels.get(key, "").split(ZONES_SEPARATOR)}
        if key in labels and "" not in values:
            zones.append((key, tuple(sorted(values))))
    return tuple(zones)


def _source(spec: VolumeSpec) -> Source | None:
    if spec.csi is not None:
        return Source(driver=spec.csi.driver, handle=spec.csi.volume_handle)
    disk_source = disk_of(spec)
    if disk_source is None:
        return None
    plugin, disk = disk_source
    return Source(driver=storage.DRIVERS[plugin], handle=disk.name, plugin=plugin)


def _topology(term: TopologyTerm) -> Term:
    return Term(
        tuple(
            Requirement(expression.key, Operator.IN, tuple(expression.values))
            for expression in term.match_label_expressions
        )
    )


def _selection(
    annotations: Mapping[str, str], scheduler_names: Collection[str]
) -> Selection | None:
    """Return the note that an instance with one of these names has left; None if unreadable."""
    if not annotations:
        return None
    for name in scheduler_names:
        node, _, time = annotations.get(f"{name}/{SELECTION}", "").partition(" ")
        try:
            since = dt.datetime.fromisoformat(time)
        except ValueError:
            continue
        if node:
            return Selection(node=node, since=fields.seconds(since))
    return None


RBD = "kubernetes.io/rbd"
ISCSI = "kubernetes.io/iscsi"
NO_VOLUMES: tuple[PodVolume, ...] = ()


def volumes_of_pod(pod: wire.Pod) -> tuple[PodVolume, ...]:
    """Return the volumes of a pod that matter for the choice of a node, in their order.

    Kubernetes: component-helpers storage/ephemeral, csi-translation-lib.
    """
    for volume in pod.spec.volumes:
        if volume.matters:
            return tuple(_of_volumes(pod))
    return NO_VOLUMES


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


def _of_volumes(pod: wire.Pod) -> Iterator[PodVolume]:
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
        elif (disk_source := disk_of(volume)) is not None:
            plugin, disk = disk_source
            yield DiskUse(plugin, (disk.name,), read_only=disk.read_only)
        elif (image := volume.rbd) is not None:
            yield DiskUse(
                RBD, (image.pool, image.image), image.read_only, tuple(sorted(image.monitors))
            )
        elif (target := volume.iscsi) is not None:
            yield DiskUse(ISCSI, (target.iqn,), target.read_only)
