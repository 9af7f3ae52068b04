"""The status of Queues: figures of the last cycle, and why they are what they are.

Written on change only, by server-side apply, so that every scheduler has its own condition and
nobody's `state` or counts are touched. What is to be written is compared with what was last sent,
not with what is stored, which may be less or another scheduler's.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from vscheduler.cluster.http import connection, objects
from vscheduler.cluster.writes import complaints, outbox, write_queue
from vscheduler.core.model import decisions, queues
from vscheduler.mirror import paths, queue_statuses

log = structlog.get_logger(__name__)

SPACING_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a queue's status is to say: the figures that it is worked out from."""

    uid: str
    figures: decisions.QueueFigures
    excluded: tuple[decisions.Exclusion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """What was last written to a queue's status."""

    uid: str
    whole: queue_statuses.Body
    """What it was to say; of an earlier process, what was found."""
    status: queue_statuses.Body | None
    """What of it was sent, and taken; None where nothing was."""


class QueueReporter:
    """Writes what a cycle found out about queues; nothing that it wrote already."""

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.Lanes,
        scheduler: str,
        *,
        may_commit: Callable[[], bool],
        observe: Callable[[str, str], None],
    ) -> None:
        self._link = link
        self._scheduler = scheduler
        self._query = {**objects.field_manager(scheduler), "force": "true"}
        self._may_commit = may_commit
        self._observe = observe
        self._box = outbox.Outbox(queue, write_queue.Lane.STATUS, spacing_seconds=SPACING_SECONDS)
        self._told: dict[str, _Told] = {}
        self._sent: dict[str, _Sent] = {}
        self._narrow_until = 0.0
        self._narrowed = False
        """Whether it was told that the CRD lacks fields."""
        self._complaints = complaints.Complaints(observe)

    def report(self, result: decisions.CycleResult, known: Mapping[str, queues.Queue]) -> None:
        """Offer the figures of the queues of a snapshot, by name, that have changed."""
        for figures in result.queues:
            name = figures.name
            queue = known.get(name)
            if queue is None:
                continue
            told = _Told(uid=queue.uid, figures=figures, excluded=result.excluded)
            if self._told.get(name) != told:
                self._told[name] = told
                self._box.offer(name, partial(self._write, name))
        for name in self._told.keys() - known.keys():
            self._forget(name)
            self._box.withdraw(name)

    async def _write(self, name: str) -> None:
        """Bring a queue's status to what the newest figures say."""
        told = self._told.get(name)
        if told is None or not self._may_commit():
            return
        try:
            sent = await self._sent_to(name, told.uid)
            if sent is not None:
                await self._apply(told, sent)
        except connection.NotFound:
            self._observe("queue", "notfound")
            self._forget(name)
        except connection.ApiError as error:
            again = self._complaints.failed("queue", error)
            if again and queue_statuses.UNDECLARED not in str(error):
                self._box.offer_again(name, partial(self._write, name))

    async def _sent_to(self, name: str, uid: str) -> _Sent | None:
        """What was last written to the queue, by an earlier process too; None where the name is
        another queue's by now, of which the watch will tell.
        """
        sent = self._sent.get(name)
        if sent is not None and sent.uid == uid:
            return sent
        stored = await objects.get(self._link, paths.QUEUES.at(name))
        if stored.get("metadata", {}).get("uid") != uid:
            return None
        return _Sent(uid=uid, whole=stored.get("status", {}), status=None)

    async def _apply(self, told: _Told, sent: _Sent) -> None:
        """Write what is new."""
        name = told.figures.name
        wanted = queue_statuses.status(told.figures, told.excluded, self._scheduler)
        whole = queue_statuses.since(wanted, sent.whole, time.time())
        if sent.status is not None and sent.whole == whole:
            return
        log.debug("queue.told", queue=name, **whole)
        status = await self._send(name, whole, sent.status)
        self._sent[name] = _Sent(uid=told.uid, whole=whole, status=status)

    async def _send(
        self, name: str, whole: queue_statuses.Body, before: queue_statuses.Body | None
    ) -> queue_statuses.Body:
        """Write all of it, or as much as the CRD has a place for; gives what was written."""
        if time.monotonic() >= self._narrow_until:
            try:
                await self._put(name, whole)
            except connection.Unavailable as error:
                if queue_statuses.UNDECLARED not in str(error):
                    raise
                self._narrow(whole)
            else:
                self._narrowed = False
                return whole
        status = queue_statuses.narrowed(whole)
        if status != before:
            await self._put(name, status)
        return status

    async def _put(self, name: str, status: queue_statuses.Body) -> None:
        path = paths.QUEUES.status(name)
        body = queue_statuses.applied(name, status)
        await objects.patch(
            self._link,
            path,
            body,
            connection.APPLY_PATCH,
            self._query,
            may_send=self._may_commit,
        )
        self._observe("queue", "written")

    def _narrow(self, whole: queue_statuses.Body) -> None:
        """Leave out for a while what the CRD has no place for."""
        self._narrow_until = time.monotonic() + queue_statuses.NARROW_SECONDS
        if not self._narrowed:
            self._narrowed = True
            log.warning(
                "queue.fields_missing",
                fields=sorted(whole.keys() - queue_statuses.narrowed(whole).keys()),
                message=(
                    "the installed CRD of Queue has no place for these; the figures are in the "
                    "metrics, in `vscheduler simulate` and, at level debug, in this log"
                ),
            )

    def _forget(self, name: str) -> None:
        self._told.pop(name, None)
        self._sent.pop(name, None)
