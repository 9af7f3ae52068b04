"""Claim binder: sends requests for volumes, and their withdrawal, and reports the result of each.

Each is one patch of a claim or of a volume, with UID and resourceVersion as preconditions, so that
nothing is written over a newer decision, such as a provisioner that gives a node back. Errors of
the API server are returned as results, never raised. As the answer holds the whole object, a
result also shows what is stored now.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial

import msgspec

from vscheduler.cluster.http.connection import (
    ApiError,
    Conflict,
    Connection,
    Gone,
    NotFound,
    Throttled,
    Unavailable,
)
from vscheduler.cluster.http.send_guard import NotSentError
from vscheduler.cluster.writes import retries
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.core.model.claim_decisions import VolumeChange
from vscheduler.mirror import claim_requests
from vscheduler.mirror.claim_requests import Body, Target, Wanted
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeFailed, Upsert


class ClaimResult(StrEnum):
    """Result of a write. The values are metric labels."""

    WRITTEN = "written"
    CONFLICT = "conflict"
    """The object has changed since, or was replaced by another one of the same name."""
    MISSING = "missing"
    """The object doesn't exist."""
    REFUSED = "refused"
    """Refused by admission, RBAC or validation: 403, 422 and similar."""
    THROTTLED = "throttled"
    """The API server was too busy, in several attempts."""
    FAILED = "failed"
    """No answer, after which the object was read and doesn't show the change."""
    UNKNOWN = "unknown"
    """No answer, and the object could not be read afterwards."""
    WITHHELD = "withheld"
    """Not sent: this instance may no longer write."""


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """One change to send."""

    change: VolumeChange
    target: Target
    wanted: Wanted
    """The object once the change is written."""
    patch: Body


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one change."""

    write: Write
    verdict: ClaimResult
    message: str = ""
    """The API server's message, if the change was refused."""
    stored: Upsert | DecodeFailed | None = None
    """The object as it is stored by now, if the API server has shown it."""


Report = Callable[[Outcome], None]


class ClaimBinder:
    """Sends changes of claims and volumes."""

    def __init__(
        self,
        connection: Connection,
        queue: WriteQueue,
        may_commit: Callable[[], bool],
        *,
        schedulers: Sequence[str],
    ) -> None:
        self.schedulers = schedulers
        """Names of the schedulers on whose behalf requests are written and withdrawn."""
        self._link = connection
        self._queue = queue
        self._may_commit = may_commit

    def send(self, write: Write, report: Report) -> None:
        """Queue a change behind the waiting binds.

        `may_commit` is asked right before the call, and again when the request is written to the
        connection. `report` is called once.
        """
        self._queue.put(WritePriority.CLAIM, partial(self._send, write, report))

    async def _send(self, write: Write, report: Report) -> None:
        outcome = Outcome(
            write=write, verdict=ClaimResult.UNKNOWN, message="the scheduler failed at it"
        )
        with self._queue.failures.contained("claim", write.target.key):
            outcome = await self._outcome(write)
        report(outcome)

    async def _outcome(self, write: Write) -> Outcome:
        body = msgspec.json.encode(write.patch)
        path = claim_requests.path(write.target)
        try:
            answer = await retries.merge(self._link, path, body, self._may_commit)
        except NotSentError:
            return Outcome(write=write, verdict=ClaimResult.WITHHELD)
        except Unavailable as error:
            return await self._look_after(write, str(error))
        except ApiError as error:
            return Outcome(write=write, verdict=verdict_of(error), message=str(error))
        return Outcome(
            write=write, verdict=ClaimResult.WRITTEN, stored=_decoded(write.target, answer)
        )

    async def _look_after(self, write: Write, message: str) -> Outcome:
        """Find out the result of a change without a clear answer by reading the object."""
        target = write.target
        try:
            found = await retries.get(self._link, claim_requests.path(target))
        except NotFound as error:
            return Outcome(write=write, verdict=ClaimResult.MISSING, message=str(error))
        except ApiError:
            return Outcome(write=write, verdict=ClaimResult.UNKNOWN, message=message)
        metadata = found["metadata"]
        if metadata["uid"] != target.uid:
            return Outcome(write=write, verdict=ClaimResult.MISSING, message=message)
        stored = events.convert(target.kind, found)
        notes = metadata.get("annotations", {})
        wanted = write.patch["metadata"]["annotations"].items()
        if all(notes.get(name) == text for name, text in wanted):
            return Outcome(write=write, verdict=ClaimResult.WRITTEN, stored=stored)
        return Outcome(write=write, verdict=ClaimResult.FAILED, message=message, stored=stored)


def _decoded(target: Target, answer: bytes) -> Upsert | DecodeFailed | None:
    """Return the object of an answer, or None if the answer can't be read."""
    try:
        return events.decode(target.kind, answer)
    except msgspec.DecodeError:
        return None


def verdict_of(error: ApiError) -> ClaimResult:
    """Return the result of a write that the API server answered with this error."""
    match error:
        case Conflict() | Gone():
            return ClaimResult.CONFLICT
        case NotFound():
            return ClaimResult.MISSING
        case Throttled():
            return ClaimResult.THROTTLED
        case _:
            return ClaimResult.REFUSED
