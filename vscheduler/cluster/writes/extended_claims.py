"""Extended claims: makes claims for extended resources, and writes to pods which one is theirs.

Both come before the allocation, so a claim that is reserved for its pod is always known to the pod,
whenever the scheduler ends. The name of a claim follows from the UID of the pod: a claim whose
creation got no answer is found again, and never made twice.
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from vscheduler.cluster.http.connection import Conflict, Connection
from vscheduler.cluster.writes import retries
from vscheduler.core.model.claim_decisions import ClaimAllocation
from vscheduler.mirror import device_requests, extended_claims
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Upsert
from vscheduler.mirror.decode.wire_devices import ResourceClaim
from vscheduler.mirror.device_requests import Target
from vscheduler.mirror.translate import devices


class ExtendedClaims:
    """Sends these two writes."""

    def __init__(self, connection: Connection, may_commit: Callable[[], bool]) -> None:
        self._link = connection
        self._may_commit = may_commit

    async def prepare(self, change: ClaimAllocation, target: Target) -> Target:
        """Make the claim unless it is there, announce it in its pod, and return it as stored.

        Raises connection.ApiError: Conflict if a claim of this name is there that isn't the pod's
        or asks for something else; and send_guard.NotSentError.
        """
        if not change.uid:
            target = await self._made(change, target)
        body = extended_claims.announcement(change)
        path = extended_claims.pod_status(change)
        await retries.merge(self._link, path, msgspec.json.encode(body), self._may_commit)
        return target

    async def _made(self, change: ClaimAllocation, target: Target) -> Target:
        body = msgspec.json.encode(extended_claims.creation(change))
        path = extended_claims.collection(change)
        try:
            answer = await retries.post(self._link, path, body, self._may_commit)
            stored = events.decode(Kind.RESOURCE_CLAIM, answer)
        except Conflict:
            found = await retries.get(self._link, device_requests.path(target.value))
            stored = events.convert(Kind.RESOURCE_CLAIM, found)
        known = stored.object if isinstance(stored, Upsert) else None
        assert isinstance(known, ResourceClaim | None)
        if known is None or not extended_claims.is_made_for(known, change):
            raise Conflict("another claim has the name")
        made = devices.resource_claim(known)
        return replace(
            target,
            version=known.metadata.resource_version,
            value=replace(target.value, uid=made.uid, finalizers=made.finalizers),
        )
