"""What a scheduler writes on Queues: their status, and the record of what they have used."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from vscheduler.cluster.http import connection, objects
from vscheduler.cluster.writes import retries, write_queue
from vscheduler.core.model import decisions, queues
from vscheduler.mirror import paths, queue_status
from vscheduler.mirror.translate import usage_annotation

log = structlog.get_logger(__name__)

STATUS_SPACING_SECONDS = 1.0
"""From one write of a queue's status to the next."""

USAGE_SPACING_SECONDS = 30.0
"""From one write of a queue's record to the next: how much a crash may lose."""

UID_DIFFERS = "metadata.uid: Invalid value"
"""What the API server says, with status 422, of a custom resource that is another by now; other
kinds have a Conflict there."""


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
    whole: queue_status.Body
    """What it was to say; of an earlier process, what was found."""
    status: queue_status.Body | None
    """What of it was sent, and taken; None where nothing was."""


class QueueStatusWriter:
    """The status of Queues: figures of the last cycle, and why they are what they are.

    Written on change only, by server-side apply, so that every scheduler has its own condition and
    nobody's `state` or counts are touched. What is to be written is compared with what was last
    sent, not with what is stored, which may be less or another scheduler's.
    """

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.WriteQueue,
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
        self._box = write_queue.CoalescingQueue(
            queue, write_queue.WritePriority.STATUS, spacing_seconds=STATUS_SPACING_SECONDS
        )
        self._told: dict[str, _Told] = {}
        self._sent: dict[str, _Sent] = {}
        self._narrow_until = 0.0
        self._narrowed = False
        """Whether it was told that the CRD lacks fields."""
        self._errors = retries.WriteErrors(observe)

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
            again = self._errors.failed("queue", error)
            if again and queue_status.UNDECLARED not in str(error):
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
        wanted = queue_status.status(told.figures, told.excluded, self._scheduler)
        whole = queue_status.since(wanted, sent.whole, time.time())
        if sent.status is not None and sent.whole == whole:
            return
        log.debug("queue.told", queue=name, **whole)
        status = await self._send(name, whole, sent.status)
        self._sent[name] = _Sent(uid=told.uid, whole=whole, status=status)

    async def _send(
        self, name: str, whole: queue_status.Body, before: queue_status.Body | None
    ) -> queue_status.Body:
        """Write all of it, or as much as the CRD has a place for; gives what was written."""
        if time.monotonic() >= self._narrow_until:
            try:
                await self._put(name, whole)
            except connection.Unavailable as error:
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

    async def _put(self, name: str, status: queue_status.Body) -> None:
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

    def _narrow(self, whole: queue_status.Body) -> None:
        """Leave out for a while what the CRD has no place for."""
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
        self._told.pop(name, None)
        self._sent.pop(name, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A record, and the very queue that it is of."""

    uid: str
    usage: queues.Usage


class UsageWriter:
    """What queues have used, written on them: plugin fairshare's memory beyond this process.

    A record says at which rate usage goes on, so it is written only when the rate has changed, and
    not too often. A queue is no other for it: what was written causes no cycle when it comes back.
    """

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.WriteQueue,
        scheduler: str,
        *,
        may_commit: Callable[[], bool],
        observe: Callable[[str, str], None],
    ) -> None:
        self._link = link
        self._lanes = queue
        self._annotation = usage_annotation.annotation(scheduler)
        self._query = objects.field_manager(scheduler)
        self._may_commit = may_commit
        self._observe = observe
        self._errors = retries.WriteErrors(observe)
        self._box = write_queue.CoalescingQueue(
            queue, write_queue.WritePriority.STATUS, spacing_seconds=USAGE_SPACING_SECONDS
        )
        self._wanted: dict[str, _Kept] = {}
        """By queue, what should be written on it."""
        self._written: dict[str, _Kept] = {}
        """What is, by us or by an earlier process."""
        self._under_way: set[str] = set()
        self._closing = False

    def report(
        self, figures: Sequence[decisions.QueueFigures], known: Mapping[str, queues.Queue]
    ) -> None:
        """Offer the records of a cycle; known are the queues of its snapshot."""
        if self._closing:
            return
        found = {
            each.name: _Kept(uid=known[each.name].uid, usage=each.usage)
            for each in figures
            if each.usage is not None
        }
        before, self._wanted = self._wanted, found
        for name in before.keys() - found.keys():
            self._box.withdraw(name)
            self._written.pop(name, None)
        for name, kept in found.items():
            if kept == before.get(name):
                continue
            written = self._written.get(name)
            stored = known[name].past_usage.get(queues.OURS)
            if stored is not None and (written is None or written.uid != kept.uid):
                self._written[name] = _Kept(uid=kept.uid, usage=stored)
            if self._due(name) is not None:
                self._box.offer(name, partial(self._write, name))

    def close(self, may_commit: Callable[[], bool]) -> None:
        """The scheduler stops: write at once what isn't written yet, and nothing after that.

        From now on this is asked, as nothing else may be sent any more.
        """
        self._closing = True
        self._may_commit = may_commit
        for name in self._wanted:
            if self._due(name) is not None:
                self._lanes.put(write_queue.WritePriority.STATUS, partial(self._write, name))

    def _due(self, name: str) -> _Kept | None:
        """What is to be written on a queue, if it isn't."""
        wanted = self._wanted.get(name)
        return None if wanted == self._written.get(name) else wanted

    async def _write(self, name: str) -> None:
        """Write the newest record of a queue; when we stop, also one that came in the meantime."""
        if name in self._under_way:
            return
        self._under_way.add(name)
        try:
            while (kept := self._due(name)) is not None and self._may_commit():
                if not await self._send(name, kept) or not self._closing:
                    return
        finally:
            self._under_way.discard(name)

    async def _send(self, name: str, kept: _Kept) -> bool:
        """Whether it was written. A queue that is another by now, or gone, is left alone."""
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
        except connection.ApiError as error:
            if UID_DIFFERS in str(error):  # made anew, of which the watch will tell
                self._observe("usage", "conflict")
            elif self._errors.failed("usage", error):
                self._box.offer_again(name, partial(self._write, name))
            return False
        self._written[name] = kept
        self._observe("usage", "written")
        return True
