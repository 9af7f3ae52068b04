"""One object at a time, as plain data: for the few that aren't worth a fast path."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlencode

import msgspec

from vscheduler.cluster import answers, connection

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PODS = "/api/v1/namespaces/{namespace}/pods/{name}"

PAGE_SIZE = 500

MANAGER_MAX = 128
"""Characters that a field manager may have."""

Object: TypeAlias = dict[str, Any]

MaySend: TypeAlias = Callable[[], bool] | None
"""Whether a write may be sent, asked when its bytes are written; None: it may."""


def field_manager(scheduler: str) -> dict[str, str]:
    """The query of a write that is known by the scheduler's name."""
    return {"fieldManager": scheduler[:MANAGER_MAX]}


async def get(link: connection.Connection, path: str) -> Object:
    """The object at this path. Raises connection.ApiError, NotFound among them."""
    return _decoded(await link.call("GET", path))


async def create(
    link: connection.Connection, collection: str, body: Object, *, may_send: MaySend = None
) -> Object:
    """Create an object in a collection, and give it as it is stored.

    Raises connection.ApiError: Conflict with reason AlreadyExists where the name is taken; and
    guarding.WithheldError, as all that writes here.
    """
    encoded = msgspec.json.encode(body)
    return _decoded(await link.call("POST", collection, encoded, may_send=may_send))


async def patch(
    link: connection.Connection,
    path: str,
    body: Object,
    content_type: str = connection.MERGE_PATCH,
    params: Mapping[str, str] | None = None,
    *,
    may_send: MaySend = None,
) -> Object:
    """Change an object, and give it as it is stored.

    Raises connection.ApiError: Conflict where the body's metadata has another UID or
    resourceVersion than what is stored.
    """
    target, encoded = with_query(path, params or {}), msgspec.json.encode(body)
    return _decoded(
        await link.call("PATCH", target, encoded, content_type=content_type, may_send=may_send)
    )


async def delete(
    link: connection.Connection,
    path: str,
    *,
    uid: str,
    resource_version: str | None,
    may_send: MaySend = None,
) -> None:
    """Delete the object of this UID, in this version where one is given.

    Raises connection.ApiError: Conflict where it is another one by now.
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
    await link.call("DELETE", path, msgspec.json.encode(options), may_send=may_send)


async def list_all(
    link: connection.Connection,
    path: str,
    params: Mapping[str, str],
    *,
    metadata_only: bool = False,
) -> list[Object]:
    """All objects of a collection, in their newest state; or of each only its metadata.

    The token of a list that takes too long grows too old; then it is taken in one piece. Raises
    connection.ApiError.
    """
    accept = connection.METADATA_LIST if metadata_only else connection.JSON
    try:
        return await _pages(link, path, {**params, "limit": str(PAGE_SIZE)}, accept)
    except connection.Gone:
        return await _pages(link, path, params, accept)


async def _pages(
    link: connection.Connection, path: str, params: Mapping[str, str], accept: str
) -> list[Object]:
    found: list[Object] = []
    token = ""
    while True:
        query = {**params, "continue": token} if token else params
        page = _decoded(await link.call("GET", with_query(path, query), accept=accept))
        found += page.get("items") or ()
        token = page.get("metadata", {}).get("continue", "")
        if not token:
            return found


def with_query(path: str, params: Mapping[str, str]) -> str:
    """The path with these parameters."""
    return f"{path}?{urlencode(params)}" if params else path


async def ensure_queue(link: connection.Connection, name: str, *, may_send: MaySend = None) -> bool:
    """Make the Queue that jobs go to which name none; False where it is there already.

    Volcano: the scheduler's cache makes it at its start, with weight 1.
    """
    body: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True},
    }
    try:
        await get(link, f"{QUEUES}/{name}")
    except connection.NotFound:
        pass
    else:
        return False
    try:
        await create(link, QUEUES, body, may_send=may_send)
    except connection.Conflict:  # another instance was quicker
        return False
    return True


def _decoded(body: bytes) -> Object:
    try:
        return msgspec.json.decode(body, type=Object)
    except answers.GARBAGE as error:  # a proxy's page
        raise connection.Unavailable(f"not an object: {error}") from error
