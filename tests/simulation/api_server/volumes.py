"""What the API server adds to new objects of storage kinds, and what it refuses."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation.api_server import kinds, quantities, wire
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.store import Store
from tests.simulation.api_server.wire import Cause, Object, RefusedError

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
POLICIES = ("Delete", "Retain", "Recycle")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
SOURCES = ("csi", "local", "hostPath", "nfs", "gcePersistentDisk", "awsElasticBlockStore")
"""The sources of volumes that are known here."""


def new_claim(body: Object, stored: Store) -> None:
    """A claim waits; it gets the default class if it names none, not even an empty one."""
    spec = body.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    if "storageClassName" not in spec and (name := _default_class(stored)):
        spec["storageClassName"] = name
    body["status"] = {"phase": "Pending"}
    _protect(body, CLAIM_FINALIZER)


def _default_class(stored: Store) -> str:
    """The newest of the default classes; of equally old ones, the first by name."""
    found = [
        each.object["metadata"]
        for each in stored.of(kinds.STORAGE_CLASSES).within("")
        if (each.object["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
    ]
    newest = max((each["creationTimestamp"] for each in found), default="")
    return min((each["name"] for each in found if each["creationTimestamp"] == newest), default="")


def new_volume(body: Object, stored: Store) -> None:
    """A volume is kept when its claim goes, unless it says something else."""
    del stored
    spec = body.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    body["status"] = {"phase": "Pending"}
    _protect(body, VOLUME_FINALIZER)


def _protect(body: Object, finalizer: str) -> None:
    known = body["metadata"].get("finalizers") or []
    if finalizer not in known:
        body["metadata"]["finalizers"] = [*known, finalizer]


def new_class(body: Object, stored: Store) -> None:
    """Volumes are deleted with their claims, and provisioned at once."""
    del stored
    body.setdefault("reclaimPolicy", "Delete")
    body.setdefault("volumeBindingMode", "Immediate")


def new_driver(body: Object, stored: Store) -> None:
    """A driver attaches its volumes, and tells no capacity."""
    del stored
    spec = body.setdefault("spec", {})
    for key, value in DRIVER_DEFAULTS.items():
        spec.setdefault(key, value)


DRIVER_DEFAULTS: Mapping[str, Any] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
    "volumeLifecycleModes": ["Persistent"],
}
NEW: Mapping[str, Callable[[Object, Store], None]] = {
    "persistentvolumeclaims": new_claim,
    "persistentvolumes": new_volume,
    "storageclasses": new_class,
    "csidrivers": new_driver,
}


def problems(kind: Kind, body: Object) -> list[Cause]:
    """What is wrong with an object of a storage kind. Raises RefusedError."""
    check = CHECKS.get(kind.plural)
    return check(body) if check is not None else []


def _claim_problems(body: Object) -> list[Cause]:
    spec = body.get("spec") or {}
    causes = _mode_problems(spec)
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        causes.append(_required("spec.resources[storage]"))
    elif not quantities.is_quantity(requests["storage"]):
        raise _mistyped("PersistentVolumeClaim")
    return causes


def _volume_problems(body: Object) -> list[Cause]:
    spec = body.get("spec") or {}
    causes = _mode_problems(spec)
    if not spec.get("capacity"):
        causes.append(_required("spec.capacity"))
    elif not quantities.is_quantity(spec["capacity"].get("storage")):
        raise _mistyped("PersistentVolume")
    if spec.get("persistentVolumeReclaimPolicy") not in POLICIES:
        causes.append(_unsupported("spec.persistentVolumeReclaimPolicy"))
    sources = [each for each in SOURCES if spec.get(each)]
    if not sources:
        text = "Required value: must specify a volume type"
        causes.append(Cause("spec", text, "FieldValueRequired"))
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    if "local" in sources and not required.get("nodeSelectorTerms"):
        text = "Required value: Local volume requires node affinity"
        causes.append(Cause("spec.nodeAffinity", text, "FieldValueRequired"))
    return causes


def _mode_problems(spec: Object) -> list[Cause]:
    modes = spec.get("accessModes") or []
    if not modes:
        text = "Required value: at least 1 access mode is required"
        return [Cause("spec.accessModes", text, "FieldValueRequired")]
    wrong = [mode for mode in modes if mode not in MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "Forbidden: may not use ReadWriteOncePod with other access modes"
        return [Cause("spec.accessModes", text, "FieldValueForbidden")]
    return [_unsupported("spec.accessModes")] if wrong else []


def _class_problems(body: Object) -> list[Cause]:
    causes = []
    if not body.get("provisioner"):
        causes.append(_required("provisioner"))
    if body.get("volumeBindingMode") not in BINDING_MODES:
        causes.append(_unsupported("volumeBindingMode"))
    if body.get("reclaimPolicy") not in POLICIES[:2]:
        causes.append(_unsupported("reclaimPolicy"))
    return causes


def _node_problems(body: Object) -> list[Cause]:
    causes = []
    seen: set[str] = set()
    for number, each in enumerate((body.get("spec") or {}).get("drivers") or ()):
        where = f"spec.drivers[{number}]"
        causes += [_required(f"{where}.{key}") for key in ("name", "nodeID") if not each.get(key)]
        count = (each.get("allocatable") or {}).get("count", 0)
        if count < 0:
            text = f"Invalid value: {count}: must be greater than or equal to zero"
            causes.append(Cause(f"{where}.allocatable.count", text))
        if each.get("name") in seen:
            text = f'Duplicate value: "{each["name"]}"'
            causes.append(Cause(f"{where}.name", text, "FieldValueDuplicate"))
        seen.add(each.get("name", ""))
    return causes


def _capacity_problems(body: Object) -> list[Cause]:
    return [] if body.get("storageClassName") else [_required("storageClassName")]


def _attachment_problems(body: Object) -> list[Cause]:
    spec = body.get("spec") or {}
    causes = [_required(f"spec.{key}") for key in ("attacher", "nodeName") if not spec.get(key)]
    source = spec.get("source") or {}
    if not (source.get("persistentVolumeName") or source.get("inlineVolumeSpec")):
        text = (
            "Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        )
        causes.append(Cause("spec.source", text, "FieldValueRequired"))
    return causes


CHECKS: Mapping[str, Callable[[Object], list[Cause]]] = {
    "persistentvolumeclaims": _claim_problems,
    "persistentvolumes": _volume_problems,
    "storageclasses": _class_problems,
    "csinodes": _node_problems,
    "csistoragecapacities": _capacity_problems,
    "volumeattachments": _attachment_problems,
}


def _required(field: str) -> Cause:
    return Cause(field, "Required value", "FieldValueRequired")


def _unsupported(field: str) -> Cause:
    return Cause(field, "Unsupported value", "FieldValueNotSupported")


def _mistyped(kind: str) -> RefusedError:
    text = "quantities must match the regular expression"
    return wire.bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {text}')


def changes(kind: Kind, new: Object, old: Object) -> list[Cause]:
    """What an update of a storage kind may not change."""
    if kind is kinds.CLAIMS:
        return _claim_changes(new.get("spec") or {}, old)
    if kind is kinds.VOLUMES:
        return _volume_changes(new.get("spec") or {}, old["spec"])
    if kind is kinds.STORAGE_CLASSES:
        fixed = ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
        return _fixed("", fixed, new, old)
    if kind is kinds.ATTACHMENTS:
        return _fixed("", ("spec",), new, old)
    return []


def _claim_changes(new: Object, old: Object) -> list[Cause]:
    """A claim's spec is fixed, but its volume may be named once, and a bound claim may grow."""
    before = dict(old["spec"])
    after = dict(new)
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        after.pop("volumeName", None)
    if (old.get("status") or {}).get("phase") == "Bound":
        before.pop("resources", None)
        after.pop("resources", None)
    if before == after:
        return []
    text = (
        "Forbidden: spec is immutable after creation except resources.requests and "
        "volumeAttributesClassName for bound claims"
    )
    return [Cause("spec", text, "FieldValueForbidden")]


def _volume_changes(new: Object, old: Object) -> list[Cause]:
    """A volume keeps its source, its mode, and its nodes once it has any."""
    causes = []
    if any(new.get(each) != old.get(each) for each in SOURCES):
        text = "Forbidden: spec.persistentvolumesource is immutable after creation"
        causes.append(Cause("spec.persistentvolumesource", text, "FieldValueForbidden"))
    fixed = ("volumeMode", "nodeAffinity") if old.get("nodeAffinity") else ("volumeMode",)
    return causes + _fixed("spec.", fixed, new, old)


def _fixed(prefix: str, fields: tuple[str, ...], new: Object, old: Object) -> list[Cause]:
    text = "Invalid value: field is immutable"
    return [Cause(f"{prefix}{field}", text) for field in fields if new.get(field) != old.get(field)]
