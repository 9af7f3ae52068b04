"""Attempts to have claims bound: which have failed, and where none is made for a while.

An attempt fails if a provisioner gives the node back, by removing the annotation
volume.kubernetes.io/selected-node, or if the claim isn't bound in time. Either may be due to the
node, such as a driver that is down there, so the claim is tried elsewhere at once. If several
attempts in a row fail, time-outs aren't due to the nodes, and the claim pauses everywhere. Each
failure of a claim doubles its pause.

What is asked for is noted on the claim, or on the chosen volume (`storage.Selection`). A restarted
instance therefore goes on with the attempts, and their time continues.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from vscheduler.model.claim_decisions import ClaimAttempt, ClaimBinding, ClaimRequest, Pause
from vscheduler.model.jobs import Task
from vscheduler.model.snapshot import Snapshot
from vscheduler.model.storage import Claim, Storage

PAUSE_SECONDS = 60
"""The pause after the first failure."""

PAUSE_MAX_SECONDS = 3600
"""The longest pause, and for how long a node is avoided on which a claim wasn't bound in time:
longer than attempts on several other nodes take."""

ELSEWHERE_MAX = 2
"""After more failures than this, a time-out is no reason to try another node at once."""

ANYWHERE = ""
"""Stands for all nodes in a pause."""


def requested(
    storage: Storage,
) -> Iterator[tuple[Claim, ClaimRequest]]:
    """Iterate over what this scheduler has asked for, by claim, as the API server shows it.

    A claim whose provisioner gave the node back is included. So is a claim of which somebody else
    has selected the same node since; claims with another node are left out.
    """
    for key in storage.selected_claims:
        claim = storage.claims[key]
        selection = claim.selection
        if selection is not None and claim.selected_node in ("", selection.node):
            yield claim, ClaimRequest(node=selection.node, volume=None, since=selection.since)
    for name in storage.selected_volumes:
        volume = storage.volumes[name]
        selection, reference = volume.selection, volume.claim
        if selection is None or reference is None:
            continue
        claim_of = storage.claims.get(reference.key)
        if claim_of is not None and claim_of.uid == reference.uid:
            yield claim_of, ClaimRequest(node=selection.node, volume=name, since=selection.since)


class ClaimAttempts:
    """The attempts of one cycle, from what the last cycle knew and what the API server shows."""

    def __init__(self, snapshot: Snapshot, timeout_seconds: float) -> None:
        self._storage, self._now = snapshot.storage, snapshot.now
        self._timeout = timeout_seconds
        self._attempts = {
            key: attempt
            for key, attempt in snapshot.carried.claim_attempts.items()
            if self._is_open(key, attempt.uid)
        }
        self._shown: dict[str, ClaimRequest] = {}
        self.wake_at: float | None = None
        """The next instant at which an attempt fails or a pause ends."""
        self._review()

    def _is_open(self, key: str, uid: str) -> bool:
        claim = self._storage.claims.get(key)
        return claim is not None and claim.uid == uid and not claim.bound

    def _review(self) -> None:
        """Count the attempts that have failed, and find out when the next ones will."""
        for claim, shown in requested(self._storage):
            if not claim.bound:
                self._follow(claim, shown)
        for key, attempt in sorted(self._attempts.items()):
            request = attempt.request
            if request is not None and self._timeout > 0:
                if request.since + self._timeout <= self._now:
                    self._fail_late(key, attempt, self._shown.get(key, request))
                else:
                    self._wake(request.since + self._timeout)
            for pause in self._attempts[key].pauses:
                self._wake(pause.until)

    def _follow(self, claim: Claim, shown: ClaimRequest) -> None:
        """Take in what the API server shows of one claim."""
        self._shown[claim.key] = shown
        attempt = self._attempts.get(claim.key) or ClaimAttempt(uid=claim.uid)
        if attempt.failed == shown:
            return
        if shown.volume is None and not claim.selected_node:
            seconds = _seconds(attempt.failures)
            self._fail(claim.key, attempt, shown, {shown.node: seconds})
            return
        since = min(shown.since, self._now)
        before = attempt.request
        if before is not None and (before.node, before.volume) == (shown.node, shown.volume):
            since = min(since, before.since)
        self._attempts[claim.key] = replace(attempt, request=replace(shown, since=since))

    def _fail_late(
        self,
        key: str,
        attempt: ClaimAttempt,
        failed: ClaimRequest,
    ) -> None:
        avoided = {failed.node: PAUSE_MAX_SECONDS}
        if attempt.failures >= ELSEWHERE_MAX:
            avoided[ANYWHERE] = _seconds(attempt.failures - ELSEWHERE_MAX)
        self._fail(key, attempt, failed, avoided)

    def _fail(
        self,
        key: str,
        attempt: ClaimAttempt,
        failed: ClaimRequest,
        avoided: Mapping[str, int],
    ) -> None:
        """Avoid these nodes for so many seconds."""
        pauses = [
            pause
            for pause in attempt.pauses
            if pause.until > self._now and pause.node not in avoided
        ]
        pauses += [
            Pause(node=node, until=self._now + seconds, seconds=seconds)
            for node, seconds in avoided.items()
        ]
        self._attempts[key] = replace(
            attempt,
            request=None,
            failed=failed,
            failures=attempt.failures + 1,
            pauses=tuple(pauses),
        )

    def _wake(self, at: float) -> None:
        if at > self._now:
            self.wake_at = at if self.wake_at is None else min(at, self.wake_at)

    def pauses(self, task: Task) -> Iterator[tuple[str, Pause]]:
        """Iterate over the pauses of the task's claims, each with the claim."""
        if self._attempts and task.volumes:
            for key in task.volume_claims:
                attempt = self._attempts.get(key)
                for pause in attempt.pauses if attempt is not None else ():
                    if pause.until > self._now:
                        yield key, pause

    def expires(self, binding: ClaimBinding) -> float | None:
        """Return when the claim must be bound at the latest; None without a time-out."""
        return self.since(binding) + self._timeout if self._timeout > 0 else None

    def since(self, binding: ClaimBinding) -> float:
        """Return since when this binding has been asked for; now, if it hasn't been."""
        attempt = self._attempts.get(binding.key)
        request = None if attempt is None else attempt.request
        if request is None or (request.node, request.volume) != (binding.node, binding.volume):
            return self._now
        return request.since

    def carried(self, waiting: Mapping[str, ClaimBinding]) -> Mapping[str, ClaimAttempt]:
        """Return what the next cycle must know, where pods wait for these bindings, by claim."""
        attempts = dict(self._attempts)
        for key, binding in waiting.items():
            attempt = attempts.get(key)
            if attempt is None or attempt.uid != binding.uid:
                attempt = ClaimAttempt(uid=binding.uid)
            attempts[key] = replace(
                attempt,
                request=ClaimRequest(
                    node=binding.node, volume=binding.volume, since=self.since(binding)
                ),
            )
        return {
            key: attempt if key in waiting else replace(attempt, request=None)
            for key, attempt in sorted(attempts.items())
            if key in waiting or attempt.failures
        }


def _seconds(failures: int) -> int:
    """Return the pause after so many earlier failures."""
    return min(PAUSE_MAX_SECONDS, PAUSE_SECONDS << min(failures, 16))
