"""Failed claims: writes about claims that wait for a pause, and what the API server refused."""

import time
from collections.abc import Callable, Collection, Mapping

from vscheduler.backoff import Backoff, Growth
from vscheduler.cluster.writes.claim_binder import ClaimResult
from vscheduler.mirror.decode.events import DecodeFailed, Upsert

LENGTH_MAX = 500
"""Longest message in characters: an admission webhook may answer at any length."""

CLAIMS_MAX = 10_000
"""How many refused claims are known; beyond the limit all are forgotten, until their next
attempts."""


class FailedClaims:
    """Knows objects whose last write failed, for one leader session."""

    def __init__(self, growth: Growth) -> None:
        """`growth` is that of pauses."""
        self._pauses: Backoff[str] = Backoff(growth)
        self._refused: dict[str, str] = {}

    @property
    def refused(self) -> Mapping[str, str]:
        """By claim, the message of the API server that refused the last write."""
        return dict(self._refused)

    @property
    def pausing(self) -> Collection[str]:
        """The objects that wait for the end of a pause."""
        return self._pauses.pausing

    def ended(self, now: float) -> bool:
        """Whether a pause has ended, in time.monotonic()."""
        return bool(self._pauses.ended(now))

    def take(self, verdict: ClaimResult, message: str, *, claim: str, written: str) -> bool:
        """Process the result of a write of an object, and return whether it failed.

        After a failure, the next attempt waits for a pause, longer after each failure in a row.
        """
        refused = verdict is ClaimResult.REFUSED
        if not refused:
            self._refused.pop(claim, None)
        if verdict is ClaimResult.WRITTEN:
            self._pauses.succeeded(written)
            return False
        if refused:
            if len(self._refused) >= CLAIMS_MAX:
                self._refused.clear()
            self._refused[claim] = message[:LENGTH_MAX]
        self._pauses.failed(written, time.monotonic())
        return True

    def keep(self, is_there: Callable[[str], bool]) -> None:
        """Forget what was refused of claims that don't exist any more."""
        if self._refused:
            self._refused = {key: said for key, said in self._refused.items() if is_there(key)}


def uid_of(stored: Upsert | DecodeFailed) -> str:
    """Return the UID of an object that the API server has shown."""
    return stored.object.metadata.uid if isinstance(stored, Upsert) else stored.uid
