"""The Queue controller's writes: marks by merge patch, status by server-side apply.

What a scheduler has worked out in the same status stays its own. What is to be written is compared
with what was last sent, not with what is stored, which may be less: Volcano's CRD has no place for
conditions.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import structlog

from vscheduler.controllers import ports
from vscheduler.controllers.queues import queue_objects, queue_reconcile
from vscheduler.mirror import paths, queue_status

log = structlog.get_logger(__name__)

MANAGER = {"fieldManager": "vscheduler-controllers", "force": "true"}
REQUIRED = "status.allocated"
NOTHING = {"cpu": "0", "memory": "0"}
"""What Volcano's CRD wants there of whoever writes first; a scheduler's figures replace it."""


class QueueWriter:
    """Writes to Queues, and remembers what it wrote."""

    def __init__(self, api: ports.Api, observe: Callable[[str, str], None]) -> None:
        self._api = api
        self._observe = observe
        self._sent: dict[str, queue_reconcile.Body] = {}
        self._put: dict[str, queue_reconcile.Body] = {}
        """Of what was sent, what the CRD has a place for."""
        self._narrow_until = 0.0
        self._narrowed = False

    def sent(self, queue: queue_objects.Queue) -> Mapping[str, Any]:
        """The status that was last sent to the Queue; of an earlier process, what it stored."""
        return self._sent.get(queue.uid, queue.status)

    def forget_but(self, uids: Collection[str]) -> None:
        """Only these Queues are left."""
        for uid in self._sent.keys() - uids:
            del self._sent[uid]
            self._put.pop(uid, None)

    async def mark(self, queue: queue_objects.Queue, patch: queue_reconcile.Body) -> ports.Object:
        """Change a Queue's metadata; as it is stored then. Raises ports.RefusedError."""
        stored = await self._api.patch(paths.QUEUES.at(queue.name), patch)
        self._observe("queue", "marked")
        return stored

    async def tell(
        self, queue: queue_objects.Queue, status: queue_reconcile.Body
    ) -> ports.Object | None:
        """Write a Queue's status, or as much as the CRD has a place for; as it is stored then.

        None where nothing of it has a place that isn't there already. Raises ports.RefusedError.
        """
        stored = None
        narrowed = queue_status.narrowed(status)
        if time.monotonic() >= self._narrow_until or narrowed == status:
            try:
                stored = await self._apply(queue, status)
            except ports.RefusedError as error:
                if queue_status.UNDECLARED not in str(error):
                    raise
                self._narrow()
            else:
                self._narrowed = self._narrowed and narrowed == status
        if self._narrowed:
            _log_conditions(queue, status, self._sent.get(queue.uid, {}))
        if stored is None and (
            self._put.get(queue.uid) != narrowed or narrowed["state"] != queue.state
        ):
            stored = await self._apply(queue, narrowed)
        self._sent[queue.uid], self._put[queue.uid] = status, narrowed
        return stored

    async def _apply(
        self, queue: queue_objects.Queue, status: queue_reconcile.Body
    ) -> ports.Object:
        try:
            stored = await self._put_status(queue, status)
        except ports.RefusedError as error:
            if error.trouble is not ports.Trouble.INVALID or REQUIRED not in str(error):
                raise
            stored = await self._put_status(queue, {"allocated": NOTHING, **status})
        self._observe("queue", "written")
        return stored

    async def _put_status(
        self, queue: queue_objects.Queue, status: queue_reconcile.Body
    ) -> ports.Object:
        body = queue_status.applied(queue.name, status)
        body["metadata"]["uid"] = queue.uid
        path = paths.QUEUES.status(queue.name)
        return await self._api.patch(path, body, ports.APPLY_PATCH, MANAGER)

    def _narrow(self) -> None:
        """Leave out for a while what the CRD has no place for."""
        self._narrow_until = time.monotonic() + queue_status.NARROW_SECONDS
        if not self._narrowed:
            self._narrowed = True
            log.warning(
                "queue.conditions_missing",
                message=(
                    "the installed CRD of Queue has no place for conditions: why a queue isn't "
                    "as it should be, or can't be deleted, is in this log only"
                ),
            )


def _log_conditions(
    queue: queue_objects.Queue, status: Mapping[str, Any], before: Mapping[str, Any]
) -> None:
    """Tell in the log what the Queue has no place for, where it says something new."""
    known, told = _said(before), _said(status)
    for kind, (reason, message) in told.items():
        if known.get(kind) != (reason, message):
            log.info("queue.condition", queue=queue.name, type=kind, reason=reason, message=message)
    for kind in known.keys() - told.keys():
        log.info("queue.condition_ended", queue=queue.name, type=kind)


def _said(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Reason and message of each condition, by its type."""
    conditions = status.get("conditions", ())
    return {each["type"]: (each["reason"], each["message"]) for each in conditions}
