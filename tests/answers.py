"""What an API server answers with: objects and lists that are of the kind that was asked for."""

from collections.abc import Iterable
from typing import Any

from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection

COLLECTIONS = {var.plural: var for var in vars(paths).values() if isinstance(var, Collection)}


def kind_at(path: str) -> tuple[str, str]:
    """The apiVersion and kind of what is at this path."""
    plural = next(part for part in reversed(path.split("/")) if part in COLLECTIONS)
    return COLLECTIONS[plural].api_version, COLLECTIONS[plural].kind


def an_object(path: str, *, uid: str = "uid", version: str = "1", **more: Any) -> dict[str, Any]:
    """The object at this path, or the one whose status is; `metadata` is more of its metadata."""
    api_version, kind = kind_at(path)
    name = path.removesuffix("/status").rpartition("/")[2]
    metadata = {"name": name, "uid": uid, "resourceVersion": version, **more.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def a_list(path: str, items: Iterable[Any] = (), **metadata: str) -> dict[str, Any]:
    """A list of what is in this collection."""
    api_version, kind = kind_at(path)
    found = {"apiVersion": api_version, "kind": f"{kind}List", "metadata": metadata}
    return found | {"items": list(items)}


def a_metadata_list(items: Iterable[Any] = (), **metadata: str) -> dict[str, Any]:
    """A list of objects of which only the metadata was asked for."""
    found = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList"}
    return found | {"metadata": metadata, "items": list(items)}
