"""Writers for Queues: the status, and the usage record of plugin fairshare."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
import structlog

from vscheduler.cluster.http import connection, objects
from vscheduler.cluster.http.connection import (
    ApiError,
    Connection,
    Forbidden,
    NotFound,
    Unavailable,
)
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes.retries import WriteErrors
from vscheduler.cluster.writes.write_queue import CoalescingQueue, WritePriority, WriteQueue
from vscheduler.mirror import paths, queue_status
from vscheduler.mirror.queue_status import Body
from vscheduler.mirror.translate import usage_annotation
from vscheduler.model import queues as queue_tree
from vscheduler.model.decisions import CycleResult, Exclusion, QueueFigures
from vscheduler.model.queues import OURS, Queue, Usage

log = structlog.get_logger(__name__)

STATUS_SPACING_SECONDS = 1.0
"""Minimum interval between two writes of a queue's status."""

USAGE_SPACING_SECONDS = 30.0
"""Minimum interval between two writes of a queue's usage record, and so the most that a crash can
lose."""

UID_DIFFERS = "metadata.uid: Invalid value"
"""The API server's message, with status 422, when the UID in a patch differs from the stored one.
For PUT and DELETE the answer is a Conflict instead; a patch of `status` ignores the UID."""


class _Reported(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a queue's status: the figures of a cycle."""

    uid: str
    figures: QueueFigures
    excluded: tuple[Exclusion, ...]


class _Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The last status written to a queue."""

    uid: str
    whole: Body
    """The complete status. For a status written by an earlier process: the stored status."""
    status: Body | None
    """The part that was written and accepted; None before the first write."""


class QueueStatusWriter:
    """Writes the status of Queues: figures of the last cycle, and the reason for a queue's share.

    The status is written on change only. Server-side apply gives every scheduler its own condition,
    and leaves `state` and the counts alone. A new status is compared with the last status sent, not
    with the stored status, which may lack fields or belong to another scheduler.
    """

    def __init__(
        self,
        connection: Connection,
        queue: WriteQueue,
        scheduler: str,
        *,
        may_commit: Callable[[], bool],
        observe: Callable[[str, str], None],
    ) -> None:
        self._link = connection
        self._scheduler = scheduler
        self._query = {**objects.field_manager(scheduler), "force": "true"}
        self._may_commit = may_commit
        self._observe = observe
        self._coalescing = CoalescingQueue(
            queue, WritePriority.STATUS, spacing_seconds=STATUS_SPACING_SECONDS
        )
        self._queues: Mapping[str, Queue] = {}
        self._tree = queue_tree.tree({}, {})
        self._reported: dict[str, _Reported] = {}
        self._sent: dict[str, _Sent] = {}
        self._narrow_until = 0.0
        self._narrowed = False
        """Whether the missing CRD fields were logged."""
        self._errors = WriteErrors(observe)

    def report(self, result: CycleResult, queues: Mapping[str, Queue]) -> None:
        """Offer the changed figures of all queues in a snapshot, those of inner queues with their
        subtrees'.
        """
        if queues != self._queues:
            self._queues, self._tree = queues, queue_tree.tree(queues, {})
        for figures in queue_status.with_subtrees(result.queues, self._tree):
            name = figures.name
            queue = queues.get(name)
            if queue is None or not queue.uid:  # no Queue exists while their kind isn't served
                continue
            reported = _Reported(uid=queue.uid, figures=figures, excluded=result.excluded)
            if self._reported.get(name) != reported:
                self._reported[name] = reported
                self._coalescing.offer(name, partial(self._write, name))
        for name in self._reported.keys() - queues.keys():
            self._forget(name)
            self._coalescing.withdraw(name)

    def stop(self) -> None:
        """Drop all waiting writes, at the end of the term."""
        self._coalescing.stop()

    async def _write(self, name: str) -> None:
        """Bring a queue's status up to date with the newest figures."""
        reported = self._reported.get(name)
        if reported is None:
            return
        if not self._may_commit():
            raise NotSentError
        try:
            sent = await self._sent_to(name, reported.uid)
            if sent is not None:
                await self._apply(reported, sent)
        except NotFound:
            self._observe("queue", "notfound")
            self._forget(name)
        except ApiError as error:
            again, write = self._errors.failed("queue", error, name), partial(self._write, name)
            if again and queue_status.UNDECLARED not in str(error):
                self._coalescing.offer_again(name, write)
            elif isinstance(error, Forbidden):
                self._coalescing.offer_after_refusal(name, write)

    async def _sent_to(self, name: str, uid: str) -> _Sent | None:
        """Return the last status written to the queue, possibly by an earlier process.

        None when the name now belongs to a new queue. The watch will report the new queue.
        """
        sent = self._sent.get(name)
        if sent is not None and sent.uid == uid:
            return sent
        stored = await objects.get(self._link, paths.QUEUES.at(name))
        if stored.get("metadata", {}).get("uid") != uid:
            return None
        return _Sent(uid=uid, whole=stored.get("status", {}), status=None)

    async def _apply(self, reported: _Reported, sent: _Sent) -> None:
        """Write the status if it changed."""
        name = reported.figures.name
        wanted = queue_status.status(reported.figures, reported.excluded, self._scheduler)
        whole = queue_status.since(wanted, sent.whole, time.time())
        if sent.status is not None and sent.whole == whole:
            return
        log.debug("queue.told", queue=name, **whole)
        # A write without an answer may be executed, so what is stored is unknown meanwhile.
        self._sent.pop(name, None)
        status = await self._send(name, whole, sent.status)
        self._sent[name] = _Sent(uid=reported.uid, whole=whole, status=status)

    async def _send(self, name: str, whole: Body, before: Body | None) -> Body:
        """Write the complete status, or the fields declared in the CRD.

        Return the written status.
        """
        if time.monotonic() >= self._narrow_until:
            try:
                await self._put(name, whole)
            except Unavailable as error:
                if queue_status.UNDECLARED not in str(error):
                    raise
                self._narrow(whole)
            else:
                self._narrowed = False
                return whole
        status = queue_status.narrowed(whole)
        if status != before:
            await self._put(name, status)
        return status

    async def _put(self, name: str, status: Body) -> None:
        path = paths.QUEUES.status(name)
        body = queue_status.applied(name, status)
        await objects.patch(
            self._link,
            path,
            body,
            connection.APPLY_PATCH,
            self._query,
            may_send=self._may_commit,
        )
        self._observe("queue", "written")

    def _narrow(self, whole: Body) -> None:
        """Leave out the fields missing in the CRD for a while, and log them once."""
        self._narrow_until = time.monotonic() + queue_status.NARROW_SECONDS
        if not self._narrowed:
            self._narrowed = True
            log.warning(
                "queue.fields_missing",
                fields=sorted(whole.keys() - queue_status.narrowed(whole).keys()),
                message=(
                    "the installed CRD of Queue has no place for these; the figures are in the "
                    "metrics, in `vscheduler simulate` and, at level debug, in this log"
                ),
            )

    def _forget(self, name: str) -> None:
        self._reported.pop(name, None)
        self._sent.pop(name, None)


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The usage record of a queue, with the queue's UID."""

    uid: str
    usage: Usage


class UsageWriter:
    """Writes usage records onto Queues: the memory of plugin fairshare, which survives a restart.

    A record includes the current rate of usage, so only a changed rate needs a write, and writes
    are spaced. An update of the record does not count as a change of the queue: the update's watch
    event starts no cycle.
    """

    def __init__(
        self,
        connection: Connection,
        queue: WriteQueue,
        scheduler: str,
        *,
        may_commit: Callable[[], bool],
        observe: Callable[[str, str], None],
    ) -> None:
        self._link = connection
        self._queue = queue
        self._annotation = usage_annotation.annotation(scheduler)
        self._query = objects.field_manager(scheduler)
        self._may_commit = may_commit
        self._observe = observe
        self._errors = WriteErrors(observe)
        self._coalescing = CoalescingQueue(
            queue, WritePriority.STATUS, spacing_seconds=USAGE_SPACING_SECONDS
        )
        self._wanted: dict[str, _Kept] = {}
        """Records to be written, by queue."""
        self._written: dict[str, _Kept] = {}
        """Records on the queues, written by this process or an earlier one."""
        self._under_way: set[str] = set()
        self._closing = False

    def report(self, figures: Sequence[QueueFigures], queues: Mapping[str, Queue]) -> None:
        """Offer the records of a cycle; `known` maps names to the snapshot's queues."""
        if self._closing:
            return
        found = {
            figure.name: _Kept(uid=queues[figure.name].uid, usage=figure.usage)
            for figure in figures
            if figure.usage is not None and queues[figure.name].uid
        }
        before, self._wanted = self._wanted, found
        for name in before.keys() - found.keys():
            self._coalescing.withdraw(name)
            self._written.pop(name, None)
        for name, kept in found.items():
            if kept == before.get(name):
                continue
            written = self._written.get(name)
            stored = queues[name].past_usage.get(OURS)
            if stored is not None and (written is None or written.uid != kept.uid):
                self._written[name] = _Kept(uid=kept.uid, usage=stored)
            if self._due(name) is not None:
                self._coalescing.offer(name, partial(self._write, name))

    def close(self, may_commit: Callable[[], bool]) -> None:
        """Write all outstanding records at once before shutdown, and nothing afterwards.

        From now on the given `may_commit` decides, because other writes are no longer permitted.
        """
        self._closing = True
        self._may_commit = may_commit
        for name in self._wanted:
            if self._due(name) is not None:
                self._queue.put(WritePriority.STATUS, partial(self._write, name))

    def stop(self) -> None:
        """Drop all waiting writes, at the end of the term."""
        self._coalescing.stop()

    def _due(self, name: str) -> _Kept | None:
        """Return the record to be written on a queue, or None when the queue is up to date."""
        wanted = self._wanted.get(name)
        return None if wanted == self._written.get(name) else wanted

    async def _write(self, name: str) -> None:
        """Write the newest record of a queue.

        During shutdown, also write a record that arrived meanwhile.
        """
        if name in self._under_way:
            return
        self._under_way.add(name)
        try:
            while (kept := self._due(name)) is not None:
                if not self._may_commit():
                    raise NotSentError
                if not await self._send(name, kept) or not self._closing:
                    return
        finally:
            self._under_way.discard(name)

    async def _send(self, name: str, kept: _Kept) -> bool:
        """Write a record and return whether the write succeeded.

        A deleted or recreated queue is skipped.
        """
        body = {
            "metadata": {
                "uid": kept.uid,
                "annotations": {self._annotation: usage_annotation.text(kept.usage)},
            }
        }
        try:
            await objects.patch(
                self._link,
                paths.QUEUES.at(name),
                body,
                params=self._query,
                may_send=self._may_commit,
            )
        except ApiError as error:
            if UID_DIFFERS in str(error):  # recreated: the watch will report the new queue
                self._observe("usage", "conflict")
            elif self._errors.failed("usage", error, name):
                self._coalescing.offer_again(name, partial(self._write, name))
            elif isinstance(error, Forbidden):
                self._coalescing.offer_after_refusal(name, partial(self._write, name))
            return False
        self._written[name] = kept
        self._observe("usage", "written")
        return True
