"""Whoever takes over sees at least what its predecessor did before it decides anything.

The predecessor's last binds and evictions may be done and not be shown by a watch yet: what they
changed is read from a list, which the API server answers from its newest state.
"""

import asyncio
from collections.abc import Iterable, Mapping

import structlog

from vscheduler.cluster import connection, objects
from vscheduler.mirror import events, state

log = structlog.get_logger(__name__)

PODS = "/api/v1/pods"
LIVE = "status.phase!=Succeeded,status.phase!=Failed"
LOOK_SECONDS = 0.01
PATIENCE_SECONDS = 1.0
"""How long watches may take to show what was listed, before it is listed again."""
RETRY_SECONDS = 0.5


async def catch_up(
    link: connection.Connection, mirror: state.Mirror, scheduler_names: Iterable[str]
) -> None:
    """Until the Mirror has every live pod of these schedulers as it is now, or as it was later.

    Costs one list of these pods' metadata. Waits out errors of the API server.
    """
    for name in scheduler_names:
        while not await _has_caught_up(link, mirror, name):
            log.info("pods.behind", scheduler=name)


async def _has_caught_up(link: connection.Connection, mirror: state.Mirror, name: str) -> bool:
    selector = f"spec.schedulerName={name},{LIVE}"
    try:
        listed = await objects.list_all(link, PODS, {"fieldSelector": selector}, metadata_only=True)
    except connection.ApiError as error:
        log.warning("pods.not_listed", scheduler=name, message=str(error))
        await asyncio.sleep(RETRY_SECONDS)
        return False
    wanted = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in listed}
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while wanted := _behind(mirror, wanted):
        if asyncio.get_running_loop().time() > deadline:  # or it is gone, and no watch shows it
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True


def _behind(mirror: state.Mirror, wanted: Mapping[str, str]) -> dict[str, str]:
    """Pods that the Mirror hasn't seen yet in this version, or a later one."""
    return {uid: version for uid, version in wanted.items() if not _has(mirror, uid, version)}


def _has(mirror: state.Mirror, uid: str, version: str) -> bool:
    seen = mirror.reference(events.Kind.POD, uid)
    if seen is None:
        return False
    if not seen.resource_version:  # a pod that doesn't decode; nobody places it
        return True
    if seen.resource_version.isdigit() and version.isdigit():
        return int(seen.resource_version) >= int(version)
    return seen.resource_version == version
