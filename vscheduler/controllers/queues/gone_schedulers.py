"""Schedulers that are gone: what they have left in the status of Queues is removed.

Each scheduler owns its condition and its figures by server-side apply, and nobody else removes
them. A scheduler counts as gone when its Lease was neither renewed nor changed for ten minutes, nor
anything written to a Queue. This is observed here, so that no clocks are compared but for one
thing: a scheduler that has written after its Lease had expired does without this Lease. So does one
whose Lease doesn't exist or can't be read: it may run without leader election, and is left alone.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import structlog

from vscheduler.controllers import ports
from vscheduler.controllers.ports import Api, Object, RefusedError
from vscheduler.mirror import paths, queue_status
from vscheduler.mirror.paths import UnusableNameError
from vscheduler.mirror.queue_status import Body

log = structlog.get_logger(__name__)

GONE_SECONDS = 600.0
"""How long a Lease stays as it is, beyond its own duration, until its scheduler counts as gone."""

LOOK_SECONDS = 120.0
"""Between two looks at Queues and Leases."""

SKEW_SECONDS = 60.0
"""How far the clocks of the Lease's holder and the API server may differ."""

SHARED = ("allocated", "request", "deserved", "share", "realCapability")
"""Fields that schedulers overwrite for each other; the condition and an entry are their own."""


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """What changes while a scheduler lives."""

    lease: Object
    """The Lease's spec."""
    written: float
    """When the scheduler last changed the status of a Queue, in seconds since the epoch."""

    @property
    def duration_seconds(self) -> float:
        """How long the last renewal was good for."""
        return float(self.lease.get("leaseDurationSeconds") or 0)

    @property
    def is_about_lease(self) -> bool:
        """Whether the scheduler used this Lease when it last wrote."""
        renewed = _newest([self.lease.get("renewTime")])
        return 0 < self.written <= renewed + self.duration_seconds + SKEW_SECONDS


class Seen(NamedTuple):
    """A sign, and since when it is the same, in time.monotonic()."""

    sign: Sign
    since: float


class GoneSchedulers:
    """Observes the Leases of schedulers that the status of some Queue names."""

    def __init__(self, api: Api, namespace: str, *, gone_seconds: float = GONE_SECONDS) -> None:
        """`namespace` is that of the Leases."""
        self._api = api
        self._namespace = namespace
        self._gone_seconds = gone_seconds
        self._seen: dict[str, Seen] = {}

    async def run(self) -> None:
        """Run forever."""
        while True:
            try:
                await self.look()
            except RefusedError as error:
                log.info("schedulers.not_looked_after", message=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Remove what schedulers that are gone have left in Queues. Raises RefusedError."""
        named = _by_scheduler(await self._api.list(paths.QUEUES.everywhere))
        self._seen = {name: seen for name, seen in self._seen.items() if name in named}
        for name, theirs in sorted(named.items()):
            sign = await self._sign(name, theirs)
            if sign is None or not sign.is_about_lease:
                self._seen.pop(name, None)
                continue
            now = time.monotonic()
            seen = self._seen.get(name)
            if seen is None or seen.sign != sign:
                self._seen[name] = Seen(sign, now)
            elif now - seen.since >= sign.duration_seconds + self._gone_seconds:
                await self._remove(name, theirs)

    async def _sign(self, scheduler: str, queues: Sequence[Object]) -> Sign | None:
        try:
            lease = await self._api.get(paths.LEASES.at(scheduler, self._namespace))
        except (RefusedError, UnusableNameError):
            return None
        times = (entry.get("time") for queue in queues for entry in _entries(queue, scheduler))
        return Sign(lease=lease.get("spec") or {}, written=_newest(times))

    async def _remove(self, scheduler: str, queues: Sequence[Object]) -> None:
        """Apply nothing in the scheduler's name, or only what others overwrite.

        With the last scheduler goes what was left for it in the names of those before.
        """
        log.info("scheduler.gone", scheduler=scheduler, queues=len(queues))
        for queue in queues:
            await self._apply(queue, queue_status.field_manager(scheduler), scheduler)
            if queue_status.schedulers(queue["status"]) == {scheduler}:
                for manager in _leftovers(queue):
                    await self._apply(queue, manager, scheduler)

    async def _apply(self, queue: Object, manager: str, scheduler: str) -> None:
        metadata = queue["metadata"]
        body = queue_status.applied(metadata["name"], remainder(queue, scheduler))
        body["metadata"]["uid"] = metadata["uid"]
        path = paths.QUEUES.status(metadata["name"])
        given = {"fieldManager": manager, "force": "true"}
        await self._api.patch(path, body, ports.APPLY_PATCH, given)


def remainder(queue: Object, scheduler: str) -> Body:
    """Return the fields that stay in the scheduler's name: none if no other scheduler is there.

    Another scheduler that has found nothing to change would not write them again.
    """
    status = queue["status"]
    if queue_status.schedulers(status) == {scheduler}:
        return {}
    owned = {
        field
        for entry in _entries(queue, scheduler)
        for field in (entry.get("fieldsV1") or {}).get("f:status") or {}
    }
    return {name: status[name] for name in SHARED if f"f:{name}" in owned and name in status}


def _by_scheduler(queues: Iterable[Object]) -> Mapping[str, Sequence[Object]]:
    """Return the Queues in whose status a scheduler has a condition or an entry of its own."""
    by_scheduler: defaultdict[str, list[Object]] = defaultdict(list)
    for queue in queues:
        for name in queue_status.schedulers(queue.get("status") or {}):
            if _entries(queue, name):
                by_scheduler[name].append(queue)
    return by_scheduler


def _entries(queue: Object, scheduler: str) -> Sequence[Object]:
    """Return what the API server notes of the scheduler's writes to the status."""
    wanted = (queue_status.field_manager(scheduler), "Apply", "status")
    return [
        each
        for each in queue["metadata"].get("managedFields") or ()
        if (each.get("manager"), each.get("operation"), each.get("subresource")) == wanted
    ]


def _leftovers(queue: Object) -> list[str]:
    """Return the field managers that own nothing of the status but what schedulers share."""
    shared = {f"f:{name}" for name in SHARED}
    found = []
    for each in queue["metadata"].get("managedFields") or ():
        owned = set((each.get("fieldsV1") or {}).get("f:status") or {})
        is_status = (each.get("operation"), each.get("subresource")) == ("Apply", "status")
        if is_status and owned and owned <= shared:
            found.append(str(each.get("manager")))
    return found


def _newest(times: Iterable[Any]) -> float:
    """Return the latest of these times in seconds since the epoch; 0 if there is none."""
    texts = (each for each in times if isinstance(each, str))
    return max((datetime.fromisoformat(each).timestamp() for each in texts), default=0.0)
