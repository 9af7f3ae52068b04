"""What queues have used, written on them: plugin fairshare's memory beyond this process.

A record says at which rate usage goes on, so it is written only when the rate has changed, and
not too often. A queue is no other for it: what was written causes no cycle when it comes back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from vscheduler.cluster.http import connection, objects
from vscheduler.cluster.writes import complaints, outbox, write_queue
from vscheduler.core.model import decisions, queues
from vscheduler.mirror import paths
from vscheduler.mirror.translate import usage_annotation

SPACING_SECONDS = 30.0
"""From one write of a queue's record to the next: how much a crash may lose."""

UID_DIFFERS = "metadata.uid: Invalid value"
"""What the API server says, with status 422, of a custom resource that is another by now; other
kinds have a Conflict there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A record, and the very queue that it is of."""

    uid: str
    usage: queues.Usage


class UsageWriter:
    """Writes records on change, the newest of each queue."""

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
        self._lanes = queue
        self._annotation = usage_annotation.annotation(scheduler)
        self._query = objects.field_manager(scheduler)
        self._may_commit = may_commit
        self._observe = observe
        self._complaints = complaints.Complaints(observe)
        self._box = outbox.Outbox(queue, write_queue.Lane.STATUS, spacing_seconds=SPACING_SECONDS)
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
                self._lanes.put(write_queue.Lane.STATUS, partial(self._write, name))

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
            elif self._complaints.failed("usage", error):
                self._box.offer_again(name, partial(self._write, name))
            return False
        self._written[name] = kept
        self._observe("usage", "written")
        return True
