"""Who holds a Lease, and until when it may act: a pure function over what was read and written.

No clock and no calls: times are arguments, in seconds of this process' own monotonic clock.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Volcano's three durations, in seconds, and what follows from them."""

    duration_seconds: float = 15.0
    """How long others wait after the last sign of life."""
    renew_deadline_seconds: float = 10.0
    """How long a holder that can't renew goes on trying."""
    retry_period_seconds: float = 2.0

    @property
    def fence_seconds(self) -> float:
        """How long a holder may act on a renewal, from when that was sent.

        A third of the duration: clocks of which one runs three times as fast as another don't
        make two act.
        """
        return min(self.renew_deadline_seconds, self.duration_seconds / 3)

    @property
    def renew_seconds(self) -> float:
        """From one renewal to the next, so that one may fail before acting pauses."""
        return min(self.retry_period_seconds, self.fence_seconds / 2)

    @property
    def look_seconds(self) -> float:
        """From one look of a standby to the next: what was given back is taken within this."""
        return self.retry_period_seconds / 2

    @property
    def call_seconds(self) -> float:
        """How long one call may take."""
        return 0.9 * self.retry_period_seconds
