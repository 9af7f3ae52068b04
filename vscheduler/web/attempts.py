"""How often visitors may ask for what costs much, such as tokens that aren't known yet."""

import time
from collections.abc import Callable

BURST = 20
PER_SECOND = 1.0
ADDRESSES_MAX = 1000
"""How many addresses are told apart; with more, the first one is forgotten."""


class Attempts:
    """A token bucket for each address, or for each visitor."""

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

    def spend(self, address: str) -> bool:
        """Count an attempt; return False for one too many."""
        now = self._clock()
        left, since = self._left.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_second)
        allowed = left >= 1.0
        self._left[address] = (left - allowed, now)
        if len(self._left) > ADDRESSES_MAX:
            del self._left[next(iter(self._left))]
        return allowed
