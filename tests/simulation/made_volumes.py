"""Claims, volumes and their users, for tests of the judges."""

from typing import Any

from tests.simulation.made_histories import Object, meta, pod

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
SELECTED = "volume.kubernetes.io/selected-node"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
ON_N1 = {
    "required": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        ]
    }
}


def claim(name: str = "c0", volume: str = "", selected: str = "", **spec: Any) -> Object:
    """A claim of a GiB, bound if it has a volume."""
    annotations = {**(BOUND if volume else {}), **({SELECTED: selected} if selected else {})}
    return {
        "metadata": meta(name, namespace="n", annotations=annotations),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local",
            **({"volumeName": volume} if volume else {}),
            **spec,
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def volume(name: str = "v0", of: str = "", **spec: Any) -> Object:
    """A volume of a GiB of a driver, reserved for a claim or free."""
    reference = {"namespace": "n", "name": of, "uid": f"uid-{of}"}
    return {
        "metadata": meta(name),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "local",
            "csi": {"driver": "csi", "volumeHandle": name},
            **({"claimRef": reference} if of else {}),
            **spec,
        },
        "status": {"phase": "Bound" if of else "Available"},
    }


def user(number: int = 0, claim_name: str = "c0", **spec: Any) -> Object:
    """A pod that uses a claim."""
    used = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    return pod(f"p{number}", volumes=[used], **spec)
