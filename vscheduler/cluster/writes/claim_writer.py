"""Claim writer: sends requests about claims, and their withdrawal, and reports the result of each.

A change of a volume or its claim is one patch; one of a resource claim is two, of its metadata and
its status. Each has UID and resourceVersion as preconditions, so that nothing is written over a
newer decision, such as a provisioner that gives a node back. If the second patch fails, the first
stays, which does no harm: Kubernetes removes the finalizer again with the devices.

A claim for extended resources is made first, and its pod told, so a claim that is reserved for its
pod is always known to the pod, whenever the scheduler ends.

Errors of the API server are returned as results, never raised. As answers hold the whole object, a
result also shows what is stored now.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from vscheduler.cluster.http.connection import (
    ApiError,
    Conflict,
    Connection,
    Gone,
    NotFound,
    Throttled,
    Unavailable,
)
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes import retries
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.mirror import claim_requests, device_requests
from vscheduler.mirror.claim_requests import Change, Target, Wanted
from vscheduler.mirror.decode import events, wire_devices
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Upsert
from vscheduler.mirror.paths import Path
from vscheduler.mirror.translate import devices as translation
from vscheduler.model.claim_decisions import ClaimAllocation


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

    change: Change
    target: Target
    wanted: Wanted
    """The object once the change is written."""
    schedulers: Sequence[str] = ()
    """Names of the schedulers on whose behalf a volume is asked for or withdrawn."""
    since: float = 0.0
    """Since when it is asked for, in seconds since the epoch."""

    def patches(self, target: Target) -> list[tuple[Path, dict[str, Any]]]:
        """Return the patches of the target, as it is by now; see claim_requests.patches."""
        return claim_requests.patches(
            target, self.change, schedulers=self.schedulers, since=self.since
        )


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one change."""

    write: Write
    verdict: ClaimResult
    message: str = ""
    """The API server's message, if the change was refused."""
    stored: Upsert | DecodeFailed | None = None
    """The object as it is stored by now, if the API server has shown it."""


Report = Callable[[Outcome], None]


class ClaimWriter:
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

        `may_commit` is asked right before each call, and again when the request is written to the
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
        target = write.target
        stored: Upsert | DecodeFailed | None = None
        try:
            if isinstance(write.change, ClaimAllocation) and write.change.mappings:
                target = await self._announced(write.change, target)
            for number, (path, body) in enumerate(write.patches(target)):
                if number:
                    body["metadata"]["resourceVersion"] = _version_of(stored)
                stored = await self._patch(target.kind, path, body)
        except NotSentError:
            return Outcome(write=write, verdict=ClaimResult.WITHHELD, stored=stored)
        except Unavailable as error:
            return await self._look_after(write, target, str(error))
        except ApiError as error:
            verdict = _verdict_of(error)
            return Outcome(write=write, verdict=verdict, message=str(error), stored=stored)
        return Outcome(write=write, verdict=ClaimResult.WRITTEN, stored=stored)

    async def _patch(
        self, kind: Kind, path: Path, body: dict[str, Any]
    ) -> Upsert | DecodeFailed | None:
        """Return the object of the answer, or None if the answer can't be read."""
        encoded = msgspec.json.encode(body)
        answer = await retries.merge(self._link, path, encoded, self._may_commit)
        try:
            return events.decode(kind, answer)
        except msgspec.DecodeError:
            return None

    async def _announced(self, change: ClaimAllocation, target: Target) -> Target:
        """Make a claim for extended resources unless it is there, write to its pod that it is its
        claim, and return it as stored.
        """
        if not change.uid:
            target = await self._made(change, target)
        body = msgspec.json.encode(device_requests.announcement(change))
        await retries.merge(self._link, device_requests.pod_status(change), body, self._may_commit)
        return target

    async def _made(self, change: ClaimAllocation, target: Target) -> Target:
        """Make the claim. Raises Conflict if a claim of this name is there that isn't the pod's, or
        asks for something else.
        """
        body = msgspec.json.encode(device_requests.creation(change))
        path = device_requests.collection(change)
        try:
            answer = await retries.post(self._link, path, body, self._may_commit)
            stored = events.decode(Kind.RESOURCE_CLAIM, answer)
        except Conflict:
            found = await retries.get(self._link, target.path)
            stored = events.convert(Kind.RESOURCE_CLAIM, found)
        known = stored.object if isinstance(stored, Upsert) else None
        assert isinstance(known, wire_devices.ResourceClaim | None)
        made = None if known is None else translation.resource_claim(known)
        if known is None or made is None or not device_requests.is_made_for(made, change):
            raise Conflict("another claim has the name")
        return replace(
            target,
            version=known.metadata.resource_version,
            value=replace(target.value, uid=made.uid, finalizers=made.finalizers),
        )

    async def _look_after(self, write: Write, target: Target, message: str) -> Outcome:
        """Find out the result of a change without a clear answer by reading the object. A claim
        that was perhaps made has no UID yet.
        """
        try:
            found = await retries.get(self._link, target.path)
        except NotFound as error:
            return Outcome(write=write, verdict=ClaimResult.MISSING, message=str(error))
        except ApiError:
            return Outcome(write=write, verdict=ClaimResult.UNKNOWN, message=message)
        if target.value.uid and found["metadata"]["uid"] != target.value.uid:
            return Outcome(write=write, verdict=ClaimResult.MISSING, message=message)
        stored = events.convert(target.kind, found)
        _, patch = write.patches(target)[-1]
        if claim_requests.is_shown(target, patch, found):
            return Outcome(write=write, verdict=ClaimResult.WRITTEN, stored=stored)
        return Outcome(write=write, verdict=ClaimResult.FAILED, message=message, stored=stored)


def _version_of(stored: Upsert | DecodeFailed | None) -> str:
    """Return the version that the last patch has made. Raises Conflict if nobody knows it."""
    if not isinstance(stored, Upsert):
        raise Conflict("the claim in the answer can't be read")
    return stored.object.metadata.resource_version


def _verdict_of(error: ApiError) -> ClaimResult:
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
