"""One object at a time, as plain data: for the few that aren't worth a fast path."""

from typing import Any

import msgspec

from vscheduler.cluster import connection

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PODS = "/api/v1/namespaces/{namespace}/pods/{name}"

Object = dict[str, Any]


async def get(link: connection.Connection, path: str) -> Object:
    """The object at this path. Raises connection.ApiError, NotFound among them."""
    return _decoded(await link.call("GET", path))


async def create(link: connection.Connection, collection: str, body: Object) -> Object:
    """Create an object in a collection, and give it as it is stored.

    Raises connection.ApiError: Conflict with reason AlreadyExists where the name is taken.
    """
    return _decoded(await link.call("POST", collection, msgspec.json.encode(body)))


async def ensure_queue(link: connection.Connection, name: str) -> bool:
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
        await create(link, QUEUES, body)
    except connection.Conflict:  # another instance was quicker
        return False
    return True


def _decoded(body: bytes) -> Object:
    decoded: Object = msgspec.json.decode(body)
    return decoded
