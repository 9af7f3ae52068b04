"""Claim writes: passes a cycle's decisions about claims on, and remembers what failed.

A change counts as written from its decision until its result: the next cycle must not choose
another volume, or give the devices to another claim, while a call is under way. Then the object
that the API server has answered counts. Pods start only after that.
"""

import time
from collections.abc import Callable, Iterable

import structlog
from msgspec.structs import replace

from vscheduler.backoff import Backoff, Growth
from vscheduler.cluster.writes.claim_writer import ClaimResult, ClaimWriter, Outcome, Write
from vscheduler.containment import Failures
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.mirror import claim_requests
from vscheduler.mirror.claim_requests import Change
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Upsert
from vscheduler.mirror.state import Mirror
from vscheduler.model.claim_decisions import ClaimKind
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import TaskId
from vscheduler.model.snapshot import Reported

log = structlog.get_logger(__name__)

LENGTH_MAX = 500
"""Longest message in characters: an admission webhook may answer at any length."""

CLAIMS_MAX = 10_000
"""How many refused claims of a kind are known; beyond the limit all are forgotten, until their next
attempts."""


class ClaimWrites:
    """Sends what cycles decide about claims, for one leader session."""

    def __init__(
        self,
        mirror: Mirror,
        writer: ClaimWriter,
        observed: Metrics,
        *,
        failures: Failures,
        growth: Growth,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when a cycle may decide otherwise."""
        self._mirror, self._writer, self._failures = mirror, writer, failures
        self._observe = {
            ClaimKind.VOLUMES: observed.observe_claim,
            ClaimKind.DEVICES: observed.observe_allocation,
        }
        self._pauses: Backoff[str] = Backoff(growth)
        """By object, after a write that failed."""
        self._refused: dict[ClaimKind, dict[str, str]] = {kind: {} for kind in ClaimKind}
        """By claim, the message of the API server that refused the last write."""
        self._overlooked: set[str] = set()
        """Objects with a call under way for which a later cycle decided what isn't sent."""
        self._changed = changed
        mirror.claims.clear()  # an earlier session doesn't wait for its calls any more

    def noted(self, reported: Reported) -> Reported:
        """Add what the API server has refused."""
        return replace(
            reported,
            refused_claims=dict(self._refused[ClaimKind.VOLUMES]),
            refused_allocations=dict(self._refused[ClaimKind.DEVICES]),
        )

    def carry_out(self, result: CycleResult, is_there: Callable[[TaskId], bool]) -> None:
        """Send what a cycle has decided, except for jobs with a pod deleted during the cycle."""
        for prepared in result.claims:
            if all(is_there(task.uid) for task in prepared.pods):
                scheduler = self._mirror.claims.scheduler_of(prepared.pods[0].uid)
                self._send(prepared.requests, (scheduler,) if scheduler else ())
            else:
                log.info("job.changed", job=prepared.job, claims=len(prepared.requests))
                self._changed()
        self._send(result.releases)
        self._forget_gone()

    def ended(self, now: float) -> bool:
        """Whether a pause has ended, in time.monotonic()."""
        return bool(self._pauses.ended(now))

    def _send(self, changes: Iterable[Change], schedulers: tuple[str, ...] = ()) -> None:
        now = float(int(time.time()))  # annotations have whole seconds
        for change in changes:
            with self._failures.contained("schedule", "writes about claims"):
                self._begin(change, schedulers or self._writer.schedulers, now)

    def _begin(self, change: Change, schedulers: Iterable[str], now: float) -> None:
        claims, written = self._mirror.claims, _name(change)
        if claims.is_in_flight(change):
            self._overlooked.add(written)
            return
        target = claims.target(change)
        if target is None or written in self._pauses.pausing:
            return
        wanted = claims.begin(target, change, since=now)
        write = Write(
            change=change, target=target, wanted=wanted, schedulers=tuple(schedulers), since=now
        )
        self._writer.send(write, self.take)

    def take(self, outcome: Outcome) -> None:
        """Process the result of a write. After a failure, the next attempt waits for a pause,
        longer after each failure in a row.
        """
        change, verdict = outcome.write.change, outcome.verdict
        kind, written = claim_requests.kind_of(change), _name(change)
        refused = self._refused[kind]
        self._observe[kind](verdict)
        # A job that is told of a refusal is told so until a cycle says otherwise.
        was_refused = refused.pop(change.key, None) is not None
        if verdict is ClaimResult.REFUSED:
            if len(refused) >= CLAIMS_MAX:
                refused.clear()
            refused[change.key] = outcome.message[:LENGTH_MAX]
        differs = self._show(outcome)
        was_overlooked = written in self._overlooked
        self._overlooked.discard(written)
        if verdict is ClaimResult.WRITTEN:
            self._pauses.succeeded(written)
        else:
            self._pauses.failed(written, time.monotonic())
            log.info(
                "claim.failed",
                claim=change.key,
                object=written,
                outcome=verdict.value,
                message=outcome.message,
            )
        if differs or was_overlooked or was_refused or verdict is not ClaimResult.WRITTEN:
            self._changed()

    def _show(self, outcome: Outcome) -> bool:
        """Show the stored object, unless the watch has shown its deletion.

        Return whether cycles see anything else than what they have seen during the call.
        """
        target, wanted = outcome.write.target, outcome.write.wanted
        stored, claims = outcome.stored, self._mirror.claims
        if stored is not None:
            uid = _uid_of(stored)
            known = self._mirror.reference(target.kind, target.key)
            # A claim that was just made may be unknown to the watch.
            is_there = claims.holds(target, wanted) if known is None else known.uid == uid
            if is_there and target.value.uid in ("", uid):
                self._mirror.apply(stored)
        return claims.end(target, wanted)

    def _forget_gone(self) -> None:
        """Forget what was refused of claims that don't exist any more."""
        volumes, devices = self._refused[ClaimKind.VOLUMES], self._refused[ClaimKind.DEVICES]
        for key in [key for key in volumes if self._mirror.reference(Kind.CLAIM, key) is None]:
            del volumes[key]
        for key in [key for key in devices if key not in self._mirror.devices.shown]:
            del devices[key]


def _name(change: Change) -> str:
    """Return the object that a change is written to."""
    return " ".join(claim_requests.place(change))


def _uid_of(stored: Upsert | DecodeFailed) -> str:
    """Return the UID of an object that the API server has shown."""
    return stored.object.metadata.uid if isinstance(stored, Upsert) else stored.uid
