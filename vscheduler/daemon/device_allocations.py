"""Allocations of devices: passes a cycle's decisions about resource claims on, and remembers what
failed.

An allocation counts as written from its decision until its result: the next cycle must not give the
devices to another claim while a call is under way. Pods start only after that.
"""

from collections.abc import Callable, Iterable, Mapping

import structlog

from vscheduler.backoff import Growth
from vscheduler.cluster.writes.claim_allocator import ClaimAllocator, Outcome, Write
from vscheduler.core.model.claim_decisions import ClaimAllocation, DeallocateClaim, DeviceChange
from vscheduler.core.model.decisions import CycleResult
from vscheduler.core.model.jobs import TaskId
from vscheduler.daemon import failed_claims
from vscheduler.daemon.failed_claims import FailedClaims
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror

log = structlog.get_logger(__name__)


class DeviceAllocations:
    """Sends what cycles decide about resource claims, for one leader session."""

    def __init__(
        self,
        mirror: Mirror,
        allocator: ClaimAllocator,
        *,
        growth: Growth,
        observe: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        """`observe` is told each result; `changed` is called when a cycle may decide otherwise."""
        self._mirror = mirror
        self._allocator = allocator
        self._failed = FailedClaims(growth)
        self._observe = observe
        self._changed = changed
        mirror.allocations.clear()  # an earlier session doesn't wait for its calls any more

    @property
    def refused(self) -> Mapping[str, str]:
        """By claim, the message of the API server that refused the last write."""
        return self._failed.refused

    def carry_out(self, result: CycleResult, is_there: Callable[[TaskId], bool]) -> None:
        """Send what a cycle has decided, except for jobs with a pod deleted during the cycle."""
        for decided in result.claims:
            claims = [each for each in decided.requests if isinstance(each, ClaimAllocation)]
            if not claims:
                continue
            if all(is_there(task.uid) for task in decided.pods):
                self._send(claims)
            else:
                log.info("job.changed", job=decided.job, claims=len(claims))
                self._changed()
        self._send(each for each in result.releases if isinstance(each, DeallocateClaim))
        self._failed.keep(self._mirror.devices.shown.__contains__)

    def ended(self, now: float) -> bool:
        """Whether a pause has ended, in time.monotonic()."""
        return self._failed.ended(now)

    def _send(self, changes: Iterable[DeviceChange]) -> None:
        pausing = self._failed.pausing
        for change in changes:
            target = self._mirror.allocations.target(change)
            if target is None or change.key in pausing:
                continue
            self._mirror.allocations.begin(target, change)
            self._allocator.send(Write(change=change, target=target), self.take)

    def take(self, outcome: Outcome) -> None:
        """Process the result of a write. After a failure, the next attempt waits for a pause.

        A claim that has changed meanwhile is looked at anew at once.
        """
        claim, verdict = outcome.write.target.value, outcome.verdict
        self._observe(verdict)
        self._settle(outcome)
        self._changed()
        if self._failed.take(verdict, outcome.message, claim=claim.key, written=claim.key):
            log.info(
                "allocation.failed",
                claim=claim.key,
                outcome=verdict.value,
                message=outcome.message,
            )

    def _settle(self, outcome: Outcome) -> None:
        """Show the stored claim, unless the watch has shown its deletion."""
        claim, stored = outcome.write.target.value, outcome.stored
        known = self._mirror.reference(Kind.RESOURCE_CLAIM, claim.key)
        if known is None:
            is_there = not claim.uid and self._mirror.allocations.is_under_way(claim.key, "")
        else:
            is_there = stored is not None and known.uid == failed_claims.uid_of(stored)
        if stored is not None and is_there and claim.uid in ("", failed_claims.uid_of(stored)):
            self._mirror.apply(stored)
        self._mirror.allocations.end(claim.key, claim.uid)
