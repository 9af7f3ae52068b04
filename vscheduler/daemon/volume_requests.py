"""Requests for volumes: passes a cycle's decisions about claims on, and remembers what failed.

A request counts as written from its decision until its result: the next cycle must not choose
another volume while a call is under way. Then the object that the API server has answered counts.
"""

import time
from collections.abc import Callable, Iterable, Mapping

import structlog

from vscheduler.backoff import Growth
from vscheduler.cluster.writes.claim_binder import ClaimBinder, Outcome, Write
from vscheduler.core.model.claim_decisions import ClaimBinding, DeallocateClaim, VolumeChange
from vscheduler.core.model.decisions import CycleResult
from vscheduler.core.model.jobs import TaskId
from vscheduler.daemon import failed_claims
from vscheduler.daemon.failed_claims import FailedClaims
from vscheduler.mirror import claim_requests, paths
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror

log = structlog.get_logger(__name__)


class VolumeRequests:
    """Sends what cycles decide about claims, for one leader session."""

    def __init__(
        self,
        mirror: Mirror,
        binder: ClaimBinder,
        *,
        growth: Growth,
        observe: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        """`observe` is told each result; `changed` is called when a cycle may decide otherwise."""
        self._mirror = mirror
        self._binder = binder
        self._failed = FailedClaims(growth)
        self._overlooked: set[str] = set()
        """Objects with a call under way for which a later cycle decided what isn't sent."""
        self._observe = observe
        self._changed = changed
        mirror.requests.clear()  # an earlier session doesn't wait for its calls any more

    @property
    def refused(self) -> Mapping[str, str]:
        """By claim, the message of the API server that refused the last request."""
        return self._failed.refused

    def carry_out(self, result: CycleResult, is_there: Callable[[TaskId], bool]) -> None:
        """Send what a cycle has decided, except for jobs with a pod deleted during the cycle."""
        now = float(int(time.time()))  # annotations have whole seconds
        for prepared in result.claims:
            bindings = [each for each in prepared.requests if isinstance(each, ClaimBinding)]
            if not bindings:
                continue
            if all(is_there(task.uid) for task in prepared.pods):
                scheduler = self._mirror.requests.scheduler_of(prepared.pods[0].uid)
                self._send(bindings, scheduler, now)
            else:
                log.info("job.changed", job=prepared.job, claims=len(prepared.requests))
                self._changed()
        self._send(
            (each for each in result.releases if not isinstance(each, DeallocateClaim)), "", now
        )
        self._failed.keep(lambda key: self._mirror.reference(events.Kind.CLAIM, key) is not None)

    def ended(self, now: float) -> bool:
        """Whether a pause has ended, in time.monotonic()."""
        return self._failed.ended(now)

    def _send(self, changes: Iterable[VolumeChange], scheduler: str, now: float) -> None:
        pausing = self._failed.pausing
        for change in changes:
            if self._mirror.requests.is_in_flight(change):
                self._overlooked.add(_key(*claim_requests.place(change)))
                continue
            target = self._mirror.requests.target(change)
            if target is None or _key(target.kind, target.key) in pausing:
                continue
            names = (scheduler,) if scheduler else self._binder.schedulers
            wanted = claim_requests.result(target, change, since=now)
            patch = claim_requests.patch(target, change, schedulers=names, since=now)
            self._mirror.requests.begin(target, wanted)
            write = Write(change=change, target=target, wanted=wanted, patch=patch)
            self._binder.send(write, self.take)

    def take(self, outcome: Outcome) -> None:
        """Process the result of a request. After a failure, the next attempt waits for a pause."""
        target, verdict = outcome.write.target, outcome.verdict
        self._observe(verdict)
        key, claim = _key(target.kind, target.key), _claim(outcome.write.change)
        # Then the job is told so, until a cycle says otherwise.
        was_refused = claim in self._failed.refused
        differs = self._settle(outcome)
        if differs or key in self._overlooked or was_refused:
            self._overlooked.discard(key)
            self._changed()
        if self._failed.take(verdict, outcome.message, claim=claim, written=key):
            log.info(
                "claim.failed",
                claim=claim,
                object=key,
                outcome=verdict.value,
                message=outcome.message,
            )
            self._changed()

    def _settle(self, outcome: Outcome) -> bool:
        """Show the stored object, unless the watch has shown its deletion.

        Return whether cycles see anything else than what they have seen during the call.
        """
        target, stored = outcome.write.target, outcome.stored
        known = self._mirror.reference(target.kind, target.key)
        if (
            stored is not None
            and known is not None
            and known.uid == target.uid == failed_claims.uid_of(stored)
        ):
            self._mirror.apply(stored)
        return self._mirror.requests.end(target, outcome.write.wanted)


def _key(kind: paths.Kind, key: str) -> str:
    return f"{kind} {key}"


def _claim(change: VolumeChange) -> str:
    """Return the claim that a change is about, as `namespace/name`."""
    return change.key
