"""Claim allocator: writes allocations of resource claims, and their withdrawal.

An allocation is two patches of the claim, with UID and resourceVersion as preconditions: the
finalizer, and the status with the devices and the pods that they are for. So is its withdrawal: a
label, and the status. If the second patch fails, the first stays, which does no harm: Kubernetes
removes the finalizer from a claim that is being deleted, and the label only says who may be asked.
A claim for extended resources is made first, and its pod told (extended_claims).
Errors of the API server are returned as results, never raised.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from vscheduler.cluster.http.connection import ApiError, Conflict, Connection, NotFound, Unavailable
from vscheduler.cluster.http.send_guard import NotSentError
from vscheduler.cluster.writes import claim_binder, retries
from vscheduler.cluster.writes.claim_binder import ClaimResult
from vscheduler.cluster.writes.extended_claims import ExtendedClaims
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.core.model.claim_decisions import ClaimAllocation, DeviceChange
from vscheduler.mirror import device_requests
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Upsert
from vscheduler.mirror.device_requests import Body, Target
from vscheduler.mirror.paths import Path

Result = ClaimResult


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """One change to send."""

    change: DeviceChange
    target: Target


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one change."""

    write: Write
    verdict: ClaimResult
    message: str = ""
    """The API server's message, if the change was refused."""
    stored: Upsert | DecodeFailed | None = None
    """The claim as it is stored by now, if the API server has shown it."""


Report = Callable[[Outcome], None]


class ClaimAllocator:
    """Sends changes of resource claims."""

    def __init__(
        self,
        connection: Connection,
        queue: WriteQueue,
        may_commit: Callable[[], bool],
    ) -> None:
        self._link = connection
        self._queue = queue
        self._may_commit = may_commit
        self._extended = ExtendedClaims(connection, may_commit)

    def send(self, write: Write, report: Report) -> None:
        """Queue a change behind the waiting binds.

        `may_commit` is asked right before each call, and again when the request is written to the
        connection. `report` is called once.
        """
        self._queue.put(WritePriority.CLAIM, partial(self._send, write, report))

    async def _send(self, write: Write, report: Report) -> None:
        outcome = Outcome(write=write, verdict=Result.UNKNOWN, message="the scheduler failed at it")
        with self._queue.failures.contained("resource claim", write.target.value.key):
            outcome = await self._outcome(write)
        report(outcome)

    async def _outcome(self, write: Write) -> Outcome:
        prepared: Upsert | None = None
        target, change = write.target, write.change
        try:
            if isinstance(change, ClaimAllocation) and change.mappings:
                target = await self._extended.prepare(change, target)
            target, prepared = await self._prepare(replace(write, target=target))
            body = device_requests.status_patch(target, write.change)
            stored = await self._patch(device_requests.path(target.value, status=True), body)
        except NotSentError:
            return Outcome(write=write, verdict=Result.WITHHELD, stored=prepared)
        except Unavailable as error:
            return await self._look_after(write, target, str(error))
        except ApiError as error:
            verdict = claim_binder.verdict_of(error)
            return Outcome(write=write, verdict=verdict, message=str(error), stored=prepared)
        return Outcome(write=write, verdict=Result.WRITTEN, stored=stored)

    async def _prepare(self, write: Write) -> tuple[Target, Upsert | None]:
        """Write finalizer and label if need be, and return the claim with its version after that,
        and the answer.
        """
        target = write.target
        body = device_requests.metadata_patch(target, write.change)
        if body is None:
            return target, None
        stored = await self._patch(device_requests.path(target.value), body)
        if not isinstance(stored, Upsert):
            raise Conflict("the claim in the answer can't be read")
        return replace(target, version=stored.object.metadata.resource_version), stored

    async def _patch(self, path: Path, body: Body) -> Upsert | DecodeFailed | None:
        encoded = msgspec.json.encode(body)
        answer = await retries.merge(self._link, path, encoded, self._may_commit)
        try:
            return events.decode(Kind.RESOURCE_CLAIM, answer)
        except msgspec.DecodeError:
            return None

    async def _look_after(self, write: Write, target: Target, message: str) -> Outcome:
        """Find out the result of a change without a clear answer by reading the claim. One that was
        perhaps made has no UID yet.
        """
        claim = target.value
        try:
            found = await retries.get(self._link, device_requests.path(claim))
        except NotFound as error:
            return Outcome(write=write, verdict=Result.MISSING, message=str(error))
        except ApiError:
            return Outcome(write=write, verdict=Result.UNKNOWN, message=message)
        if claim.uid and found["metadata"]["uid"] != claim.uid:
            return Outcome(write=write, verdict=Result.MISSING, message=message)
        stored = events.convert(Kind.RESOURCE_CLAIM, found)
        wanted = device_requests.status_patch(target, write.change)["status"]
        shown = _in_short(found.get("status") or {}) == _in_short(
            {**(found.get("status") or {}), **wanted}
        )
        verdict = Result.WRITTEN if shown else Result.FAILED
        return Outcome(write=write, verdict=verdict, message=message, stored=stored)


def _in_short(status: dict[str, Any]) -> tuple[set[tuple[str, str, str]], set[str]]:
    """Return the devices of a claim and the pods that it is reserved for."""
    allocation = status.get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    devices = {(result["driver"], result["pool"], result["device"]) for result in results}
    return devices, {each["uid"] for each in status.get("reservedFor") or ()}
