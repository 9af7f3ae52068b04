"""Claims, volumes and other storage objects in short, as documents."""

from collections.abc import Mapping, Sequence
from typing import Any

Document = dict[str, Any]

STORAGE = "storage.k8s.io/v1"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NOBODY = "kubernetes.io/no-provisioner"
SELECTED = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"


def on_labels(key: str, *values: str) -> list[Document]:
    """The terms of a node selector for these values of a label."""
    return [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]


def storage_class(name: str, provisioner: str = "made.example.com", **fields: Any) -> Document:
    """A class whose claims wait for a pod, unless said otherwise."""
    return {
        "apiVersion": STORAGE,
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **fields,
    }


def claim(
    name: str,
    of_class: str | None = "wait",
    *,
    namespace: str = "default",
    size: str = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Document:
    """A claim that is not bound."""
    fields: Document = {} if of_class is None else {"storageClassName": of_class}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "accessModes": list(modes),
            "resources": {"requests": {"storage": size}},
            **fields,
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def volume(
    name: str,
    of_class: str = "wait",
    *,
    size: str = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    terms: Sequence[Document] | None = None,
    labels: Mapping[str, str] | None = None,
    source: Document | None = None,
    **spec: Any,
) -> Document:
    """A volume that no claim has."""
    affinity = {} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": dict(labels or {})},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "storageClassName": of_class,
            "persistentVolumeReclaimPolicy": "Retain",
            **(source or {"hostPath": {"path": "/data"}}),
            **affinity,
            **spec,
        },
        "status": {"phase": "Available"},
    }


def bound(of: Document, to: Document) -> tuple[Document, Document]:
    """This claim and volume, bound to each other."""
    names = of["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        **{name: names[name] for name in ("namespace", "name", "uid")},
    }
    return (
        {
            **of,
            "metadata": {**names, "annotations": {**names["annotations"], COMPLETED: "yes"}},
            "spec": {**of["spec"], "volumeName": to["metadata"]["name"]},
            "status": {"phase": "Bound"},
        },
        {**to, "spec": {**to["spec"], "claimRef": reference}, "status": {"phase": "Bound"}},
    )


def csi(handle: str, driver: str = "made.example.com") -> Document:
    """The source of a volume of a CSI driver."""
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def csi_node(name: str, limits: Mapping[str, int | None]) -> Document:
    """What a node's kubelet says about drivers: how many volumes it can attach, or any number."""
    return {
        "apiVersion": STORAGE,
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {
            "drivers": [
                {"name": driver, "nodeID": name, "topologyKeys": None}
                | ({} if count is None else {"allocatable": {"count": count}})
                for driver, count in limits.items()
            ]
        },
    }


def csi_driver(name: str = "made.example.com", **spec: Any) -> Document:
    """A driver that tells how much room there is."""
    return {
        "apiVersion": STORAGE,
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"storageCapacity": True, **spec},
    }


def capacity(
    name: str, of_class: str, nodes: Document | None, namespace: str = "default", **sizes: str
) -> Document:
    """How much a driver can make for nodes with these labels."""
    return {
        "apiVersion": STORAGE,
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": namespace},
        "storageClassName": of_class,
        **({} if nodes is None else {"nodeTopology": nodes}),
        **sizes,
    }


def attachment(name: str, node: str, of: str, driver: str = "made.example.com") -> Document:
    """A volume that is attached to a node."""
    return {
        "apiVersion": STORAGE,
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {
            "attacher": driver,
            "nodeName": node,
            "source": {"persistentVolumeName": of},
        },
    }


def using(*names: str, read_only: bool = False) -> list[Document]:
    """The volumes of a pod that uses these claims."""
    return [
        {"name": f"v{at}", "persistentVolumeClaim": {"claimName": name, "readOnly": read_only}}
        for at, name in enumerate(names)
    ]


def disk(source: str, **fields: Any) -> Document:
    """A volume of a pod that names a disk itself."""
    return {"name": "disk", source: fields}


def ephemeral(name: str, of_class: str = "wait", size: str = "1Gi") -> Document:
    """A volume that is made for the pod."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of_class,
        "resources": {"requests": {"storage": size}},
    }
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
