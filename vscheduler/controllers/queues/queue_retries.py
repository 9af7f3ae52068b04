"""What came to nothing is left alone for a while: longer each time in a row, each by itself."""

import time
from dataclasses import dataclass

from vscheduler.controllers import ports

LASTING = frozenset({ports.Trouble.FORBIDDEN, ports.Trouble.INVALID})
"""What the next attempt won't mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How long pauses are, in seconds."""

    first_seconds: float = 0.5
    """Each is twice the one before; after a conflict it stays this, as news are on their way."""
    longest_seconds: float = 30.0
    """The longest, and at once that after a refusal that won't go away by itself."""
    absent_seconds: float = 5.0
    """The longest while something is missing: its CRD may be installed any moment."""

    def after(self, trouble: ports.Trouble, failures: int) -> float:
        """The pause after so many failures in a row."""
        doubled = self.first_seconds * 2.0 ** min(failures - 1, 16)
        match trouble:
            case ports.Trouble.CONFLICT:
                return self.first_seconds
            case ports.Trouble.MISSING:
                return min(doubled, self.absent_seconds)
        return self.longest_seconds if trouble in LASTING else min(doubled, self.longest_seconds)


class Retries:
    """What pauses, and until when; asked in rounds, so that no pause ends unnoticed."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}
        self._now = 0.0

    def begin(self) -> None:
        """A round begins: pauses that are over by now are over for all of it."""
        self._now = time.monotonic()

    def may(self, key: str) -> bool:
        """Whether it may be tried in this round."""
        return self.until(key) <= self._now

    def until(self, key: str) -> float:
        """When its pause ends, as time.monotonic() tells it."""
        return self._until.get(key, 0.0)

    def failed(self, key: str, trouble: ports.Trouble) -> None:
        """Its next attempt has to wait."""
        self._failures[key] = self._failures.get(key, 0) + 1
        self._until[key] = time.monotonic() + self._growth.after(trouble, self._failures[key])

    def end(self) -> float:
        """When the next round is due; infinite where nothing pauses.

        What might have been tried in this round and hasn't failed is forgotten: its next failure
        is the first again.
        """
        for key in [key for key in self._until if self.may(key)]:
            del self._failures[key], self._until[key]
        return min(self._until.values(), default=float("inf"))
