"""Whoever takes over sees at least what its predecessor did before it decides anything.

The predecessor's last binds and evictions may be done and not be shown by a watch yet: what they
changed is read from a list, which the API server answers from its newest state.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from vscheduler.cluster.http import connection, objects
from vscheduler.mirror import paths, state
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import entries

log = structlog.get_logger(__name__)

LIVE = "status.phase!=Succeeded,status.phase!=Failed"
LOOK_SECONDS = 0.01
PATIENCE_SECONDS = 1.0
"""How long watches may take to show what was listed, before it is listed again."""
RETRY_SECONDS = 0.5


async def catch_up(
    link: connection.Connection,
    mirror: state.Mirror,
    scheduler_names: Iterable[str],
    overtake: Callable[[], None],
) -> None:
    """Until the Mirror has every live pod of these schedulers as it is now, or as it was later.

    Costs one list of these pods' metadata. Waits out errors of the API server. `overtake` is called
    where a list shows what the watch of pods hasn't shown for a while.
    """
    for name in scheduler_names:
        while not await _has_caught_up(link, mirror, name, overtake):
            log.info("pods.behind", scheduler=name)


async def _has_caught_up(
    link: connection.Connection, mirror: state.Mirror, name: str, overtake: Callable[[], None]
) -> bool:
    selector = f"spec.schedulerName={name},{LIVE}"
    try:
        listed = await objects.list_all(
            link, paths.PODS.everywhere, {"fieldSelector": selector}, metadata_only=True
        )
    except connection.ApiError as error:
        log.warning("pods.not_listed", scheduler=name, message=str(error))
        await asyncio.sleep(RETRY_SECONDS)
        return False
    named = [each["metadata"] for each in listed]
    wanted = [
        entries.Reference(uid=each["uid"], resource_version=each["resourceVersion"])
        for each in named
    ]
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while wanted := _behind(mirror, wanted):
        if asyncio.get_running_loop().time() > deadline:  # or it is gone, and no watch shows it
            overtake()
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True


def _behind(mirror: state.Mirror, wanted: Iterable[entries.Reference]) -> list[entries.Reference]:
    """Pods that the Mirror hasn't seen yet in this version, or a later one."""
    return [each for each in wanted if not _has(mirror, each)]


def _has(mirror: state.Mirror, wanted: entries.Reference) -> bool:
    seen = mirror.reference(events.Kind.POD, wanted.uid)
    if seen is None:
        return False
    if not seen.resource_version:  # a pod that doesn't decode; nobody places it
        return True
    return seen == wanted or wanted.is_before(seen)
