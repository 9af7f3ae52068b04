"""Storage objects and devices of a world on an API server, with the status they are to have."""

import time
from collections.abc import Iterable, Mapping, Sequence

from sandbox.client import Client
from sandbox.errors import ApiError
from tests.oracle import manifests

Document = manifests.Document

CORE = "/api/v1"
STORAGE = "/apis/storage.k8s.io/v1"
RESOURCE = "/apis/resource.k8s.io/v1"
KINDS: Mapping[str, tuple[str, str]] = {
    "StorageClass": (STORAGE, "storageclasses"),
    "CSIDriver": (STORAGE, "csidrivers"),
    "CSINode": (STORAGE, "csinodes"),
    "CSIStorageCapacity": (STORAGE, "csistoragecapacities"),
    "PersistentVolume": (CORE, "persistentvolumes"),
    "PersistentVolumeClaim": (CORE, "persistentvolumeclaims"),
    "VolumeAttachment": (STORAGE, "volumeattachments"),
    "DeviceClass": (RESOURCE, "deviceclasses"),
    "ResourceSlice": (RESOURCE, "resourceslices"),
    "ResourceClaim": (RESOURCE, "resourceclaims"),
}
"""Where each kind is served, in the order in which objects are made."""

STAYS = "oracle.test/stays"
"""A finalizer of what is to be deleted before pods are judged."""

SEEN_SECONDS = 0.5
"""How long kube-scheduler may take to hear of all objects: nothing shows that it has."""


def path_of(document: Document) -> str:
    """The collection that an object belongs to."""
    root, plural = KINDS[document["kind"]]
    namespace = document["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def put(api: Client, documents: Sequence[Document]) -> None:
    """Make all objects; a volume names its claim by the UID that the API server gave it."""
    by_kind = {
        kind: [document for document in documents if document["kind"] == kind] for kind in KINDS
    }
    claims = by_kind.pop("PersistentVolumeClaim")
    uids = {manifests.key(claim): str(_create(api, claim)["metadata"]["uid"]) for claim in claims}
    for kind, members in by_kind.items():
        for member in members:
            _create(api, _with_uid(member, uids) if kind == "PersistentVolume" else member)


def settle(api: Client, documents: Sequence[Document]) -> None:
    """Delete what is to be deleted, now that pods use it, and give kube-scheduler time to see."""
    for document in documents:
        if "deletionTimestamp" in document["metadata"]:
            api.delete(f"{path_of(document)}/{document['metadata']['name']}")
    if documents:
        time.sleep(SEEN_SECONDS)


def clear(api: Client) -> None:
    """Objects of earlier worlds are gone."""
    for document in documents(api):
        path = f"{path_of(document)}/{document['metadata']['name']}"
        if document["metadata"].get("finalizers"):
            _drop_finalizers(api, path)
        if "deletionTimestamp" not in document["metadata"]:
            api.delete(path, gracePeriodSeconds=0)


def _drop_finalizers(api: Client, path: str) -> None:
    """Unless a controller was faster, and the object is gone."""
    try:
        api.patch(path, {"metadata": {"finalizers": None}})
    except ApiError as error:
        if error.status != 404:
            raise


def documents(api: Client) -> list[Document]:
    """All objects as the API server has them."""
    found: list[Document] = []
    for kind, (root, plural) in KINDS.items():
        version = "v1" if root == CORE else root.removeprefix("/apis/")
        listed = api.list(f"{root}/{plural}")
        found += [{"apiVersion": version, "kind": kind, **each} for each in listed]
    return found


def _create(api: Client, document: Document) -> Document:
    metadata = {
        name: value
        for name, value in document["metadata"].items()
        if name not in ("uid", "deletionTimestamp")
    }
    if "deletionTimestamp" in document["metadata"]:
        metadata["finalizers"] = [STAYS]
    path = path_of(document)
    created: Document = api.create(path, {**document, "metadata": metadata})
    if "status" in document:
        api.patch(f"{path}/{metadata['name']}/status", {"status": document["status"]})
    return created


def _with_uid(volume: Document, uids: Mapping[str, str]) -> Document:
    reference = volume["spec"].get("claimRef")
    if not reference or not reference.get("uid"):
        return volume
    uid = uids.get(f"{reference['namespace']}/{reference['name']}", reference["uid"])
    return {**volume, "spec": {**volume["spec"], "claimRef": {**reference, "uid": uid}}}


def owned(documents: Iterable[Document], kind: str) -> list[Document]:
    """The objects of a kind."""
    return [document for document in documents if document["kind"] == kind]
