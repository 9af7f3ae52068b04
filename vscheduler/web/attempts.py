"""How often visitors may ask for what costs much, such as tokens that aren't known yet."""

import time
from collections.abc import Callable

BURST = 20
PER_SECOND = 1.0
ADDRESSES_MAX = 1000
"""How many addresses are told apart; with more, the first one is forgotten."""


class Attempts:
    """A token bucket for each address, or for each tenant."""

    def __init__(
        self,
        *,
        burst: float = BURST,
        per_second: float = PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst, self._per_second = float(burst), per_second
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """Attempts that are left, as of a time."""

    def allows(self, address: str) -> bool:
        """Whether another attempt is left. Nothing is counted."""
        return self._now_left(address, self._clock()) >= 1.0

    def spend(self, address: str) -> bool:
        """Count an attempt; return False for one too many."""
        now = self._clock()
        left = self._now_left(address, now)
        allowed = left >= 1.0
        self._left.pop(address, None)
        self._left[address] = (left - allowed, now)
        if len(self._left) > ADDRESSES_MAX:
            del self._left[next(iter(self._left))]
        return allowed

    def _now_left(self, address: str, now: float) -> float:
        left, since = self._left.get(address, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_second)
