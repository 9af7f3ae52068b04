"""Reads and writes of single objects as plain data, for callers without need of a fast path."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from vscheduler.cluster import cooperative
from vscheduler.cluster.http import connection, lists, responses
from vscheduler.cluster.http.connection import Conflict, Connection, Gone, NotFound, Unavailable
from vscheduler.cluster.http.lists import UnexpectedError
from vscheduler.mirror import paths, queue_status
from vscheduler.mirror.paths import Path

Object: TypeAlias = dict[str, Any]

MaySend: TypeAlias = Callable[[], bool] | None
"""Asked whether a write may be sent, when its bytes are written. None: always."""

Found = TypeVar("Found")


class _Owner(msgspec.Struct):
    apiVersion: str  # noqa: N815 - the wire's name, like the names below
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class _Metadata(msgspec.Struct):
    """Metadata of a stored object, with the expected types of optional fields."""

    name: str
    uid: str
    resourceVersion: str  # noqa: N815
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    ownerReferences: list[_Owner] = []  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815


class _Item(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class _Whole(_Item, kw_only=True):
    kind: str
    apiVersion: str  # noqa: N815


class _List(msgspec.Struct):
    kind: str
    items: list[_Item] | None


class Version(msgspec.Struct, frozen=True):
    """An object in a version."""

    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")


class _Versioned(msgspec.Struct):
    metadata: Version


_decode_versioned = msgspec.json.Decoder(_Versioned).decode


def field_manager(scheduler: str) -> dict[str, str]:
    """Return the query parameters that name the scheduler as field manager of a write."""
    return {"fieldManager": queue_status.field_manager(scheduler)}


async def get(connection: Connection, path: Path) -> Object:
    """Return the object at this path. Raises connection.ApiError, for example NotFound.

    Raises lists.UnexpectedError when the response is a different object or, for a collection, not a
    list.
    """
    return _checked(await connection.call("GET", path), path)


async def create(
    connection: Connection, collection: Path, body: Object, *, may_send: MaySend = None
) -> Object:
    """Create an object in a collection and return the stored object.

    Raises connection.ApiError: Conflict with reason AlreadyExists when the name is taken. Like
    every write in this module, raises pool.NotSentError when `may_send` returns False.
    """
    answer = await connection.call("POST", collection, msgspec.json.encode(body), may_send=may_send)
    name = body.get("metadata", {}).get("name", "")
    return _checked(answer, collection, name) if name else _decoded(answer)


async def patch(
    link: Connection,
    path: Path,
    body: Object,
    content_type: str = connection.MERGE_PATCH,
    params: Mapping[str, str] | None = None,
    *,
    may_send: MaySend = None,
) -> Object:
    """Patch an object and return the stored object.

    Raises connection.ApiError: Conflict when the UID or resourceVersion in the body's metadata
    differs from the stored object.
    """
    answer = await link.call(
        "PATCH",
        path.with_query(params or {}),
        msgspec.json.encode(body),
        content_type=content_type,
        may_send=may_send,
    )
    return _checked(answer, path)


async def delete(
    connection: Connection,
    path: Path,
    *,
    uid: str,
    resource_version: str | None,
    may_send: MaySend = None,
) -> None:
    """Delete the object with this UID and, if given, this resourceVersion.

    Raises connection.ApiError: Conflict when the stored object has a different UID or version.
    """
    preconditions = {"uid": uid}
    if resource_version is not None:
        preconditions["resourceVersion"] = resource_version
    options: Object = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
        "propagationPolicy": "Background",
    }
    await connection.call("DELETE", path, msgspec.json.encode(options), may_send=may_send)


async def list_all(
    connection: Connection,
    path: Path,
    params: Mapping[str, str],
    *,
    metadata_only: bool = False,
    read: Callable[[msgspec.Raw], Object] | None = None,
) -> list[Object]:
    """Return all objects of a collection in their newest state, or only their metadata, or what
    `read` makes of each.

    When a page is too large, the page is requested again with fewer objects, and later pages stay
    small. When the continue token expires, the whole list is requested in one piece. Raises
    connection.ApiError.
    """
    at, size = path.with_query(params), lists.first_size(path)
    return await _list(connection, at, size, read or whole, metadata_only=metadata_only)


async def list_versions(
    connection: Connection, path: Path, params: Mapping[str, str]
) -> list[Version]:
    """Return the newest version of all objects of a collection; otherwise as `list_all`.

    The list is requested in one piece, which the API server answers from its cache, in half of the
    time that pages take.
    """
    return await _list(connection, path.with_query(params), 0, _version, metadata_only=True)


async def _list(
    connection: Connection,
    path: Path,
    size: int,
    read: Callable[[msgspec.Raw], Found],
    *,
    metadata_only: bool,
) -> list[Found]:
    """Return all objects, `size` objects on the first page; 0 means in one piece."""
    found: list[Found] = []
    token, expired = "", False
    while True:
        try:
            page, _ = await lists.page(connection, path, size, token, metadata_only=metadata_only)
        except Gone:
            if expired:
                raise
            found, token, size, expired = [], "", 0, True
            continue
        except Unavailable as error:
            if error.reason != responses.TOO_LARGE or size == 1:
                raise
            size = lists.smaller(size)
            continue
        try:
            for some in cooperative.slices(page.items or []):
                found += map(read, some)
                await asyncio.sleep(0)
        except responses.GARBAGE as error:
            raise UnexpectedError(f"not a list of objects: {error}") from error
        token = page.metadata.continue_
        if not token:
            return found


async def ensure_queue(connection: Connection, name: str, *, may_send: MaySend = None) -> bool:
    """Create the default Queue, used by jobs without a queue; return False when the Queue exists.

    Volcano: the scheduler's cache creates the default queue at start-up, with weight 1.
    """
    body: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True},
    }
    try:
        await get(connection, paths.QUEUES.at(name))
    except NotFound:
        pass
    else:
        return False
    try:
        await create(connection, paths.QUEUES.everywhere, body, may_send=may_send)
    except Conflict:  # another instance created the Queue first
        return False
    return True


def _checked(answer: bytes, path: Path, name: str = "") -> Object:
    """Decode a response and check that kind and name match the path or the new object."""
    name = name or path.name
    stored = _decoded(answer)
    if not path.kind:
        return stored
    if not name:
        _check_list(stored, f"{path.kind}List")
        return stored
    try:
        found = msgspec.convert(stored, _Whole)
    except msgspec.ValidationError as error:
        raise UnexpectedError(f"not a {path.kind}: {error}") from error
    there = (found.apiVersion, found.kind, found.metadata.name)
    if there != (path.api_version, path.kind, name):
        raise UnexpectedError(f"not {path.kind} {name!r}, but {found.kind} {found.metadata.name!r}")
    return stored


def whole(item: msgspec.Raw) -> Object:
    """Read an object of a list, as `list_all` does. Raises msgspec.DecodeError and the like."""
    found = msgspec.json.decode(item, type=Object)
    msgspec.convert(found, _Item)
    return found


def _version(item: msgspec.Raw) -> Version:
    return _decode_versioned(item).metadata


def _check_list(listed: Object, kind: str) -> None:
    """Raise lists.UnexpectedError if this is no list of this kind."""
    try:
        found = msgspec.convert(listed, _List)
    except msgspec.ValidationError as error:
        raise UnexpectedError(f"not a {kind}: {error}") from error
    if found.kind != kind:
        raise UnexpectedError(f"not a {kind}, but a {found.kind}")


def _decoded(body: bytes) -> Object:
    try:
        return msgspec.json.decode(body, type=Object)
    except responses.GARBAGE as error:  # for example a proxy's error page
        raise UnexpectedError(f"not an object: {error}") from error
