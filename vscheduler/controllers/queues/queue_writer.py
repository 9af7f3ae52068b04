"""Writes of the Queue controller: metadata by merge patch, status by server-side apply.

With server-side apply, schedulers keep their own figures in the same status. A new status is
compared with the last sent status, not with the stored status, which may have fewer fields:
Volcano's CRD lacks conditions.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import structlog

from vscheduler.controllers import ports
from vscheduler.controllers.ports import Api, Object, RefusedError, Trouble
from vscheduler.controllers.queues.queue_objects import Queue
from vscheduler.controllers.queues.queue_reconcile import Body
from vscheduler.mirror import paths, queue_status

log = structlog.get_logger(__name__)

MANAGER = {"fieldManager": "vscheduler-controllers", "force": "true"}
REQUIRED = "status.allocated"
NOTHING = {"cpu": "0", "memory": "0"}
"""The value that Volcano's CRD requires of the first writer; figures of a scheduler replace it."""


class QueueWriter:
    """Writes to Queues, and remembers the writes."""

    def __init__(self, api: Api, observe: Callable[[str, str], None]) -> None:
        self._api = api
        self._observe = observe
        self._sent: dict[str, Body] = {}
        self._sent_narrowed: dict[str, Body] = {}
        """The part of the sent status that the CRD has fields for."""
        self._narrow_until = 0.0
        self._narrowed = False

    def sent(self, queue: Queue) -> Mapping[str, Any]:
        """Return the status last sent to the Queue; after a restart, the stored status."""
        return self._sent.get(queue.uid, queue.status)

    def forget_but(self, uids: Collection[str]) -> None:
        """Forget all Queues except these."""
        for uid in self._sent.keys() - uids:
            del self._sent[uid]
            self._sent_narrowed.pop(uid, None)

    async def mark(self, queue: Queue, patch: Body) -> Object:
        """Change a Queue's metadata; return the Queue as stored. Raises ports.RefusedError."""
        stored = await self._api.patch(paths.QUEUES.at(queue.name), patch)
        self._observe("queue", "marked")
        return stored

    async def tell(self, queue: Queue, status: Body) -> Object | None:
        """Write a Queue's status, without fields that the CRD lacks; return the Queue as stored.

        Return None when the remaining fields are stored already. Raises ports.RefusedError; what
        was sent before is forgotten then, because a write without an answer may be executed.
        """
        stored = None
        before = self._sent.pop(queue.uid, {})
        narrowed_before = self._sent_narrowed.pop(queue.uid, None)
        narrowed = queue_status.narrowed(status)
        if time.monotonic() >= self._narrow_until or narrowed == status:
            try:
                stored = await self._apply(queue, status)
            except RefusedError as error:
                if queue_status.UNDECLARED not in str(error):
                    raise
                self._narrow()
            else:
                self._narrowed = self._narrowed and narrowed == status
        if self._narrowed:
            _log_conditions(queue, status, before)
        if stored is None and (narrowed_before != narrowed or narrowed["state"] != queue.state):
            stored = await self._apply(queue, narrowed)
        self._sent[queue.uid], self._sent_narrowed[queue.uid] = status, narrowed
        return stored

    async def _apply(self, queue: Queue, status: Body) -> Object:
        try:
            stored = await self._put_status(queue, status)
        except RefusedError as error:
            if error.trouble is not Trouble.INVALID or REQUIRED not in str(error):
                raise
            stored = await self._put_status(queue, {"allocated": NOTHING, **status})
        self._observe("queue", "written")
        return stored

    async def _put_status(self, queue: Queue, status: Body) -> Object:
        body = queue_status.applied(queue.name, status)
        body["metadata"]["uid"] = queue.uid
        path = paths.QUEUES.status(queue.name)
        return await self._api.patch(path, body, ports.APPLY_PATCH, MANAGER)

    def _narrow(self) -> None:
        """Leave out the fields that the CRD lacks, for a while."""
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


def _log_conditions(queue: Queue, status: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Log new conditions that the Queue's CRD has no field for."""
    known, reported = _texts(before), _texts(status)
    for kind, (reason, message) in reported.items():
        if known.get(kind) != (reason, message):
            log.info("queue.condition", queue=queue.name, type=kind, reason=reason, message=message)
    for kind in known.keys() - reported.keys():
        log.info("queue.condition_ended", queue=queue.name, type=kind)


def _texts(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return reason and message of each condition, by type."""
    conditions = status.get("conditions", ())
    return {
        condition["type"]: (condition["reason"], condition["message"]) for condition in conditions
    }
