"""How often an address may come with a token that isn't known yet: each costs the API server."""

import time
from collections.abc import Callable

BURST = 20
PER_SECOND = 1.0
ADDRESSES_MAX = 1000
"""How many addresses are told apart; with more, the first one is forgotten."""


class Attempts:
    """A token bucket for each address."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """Attempts that are left, as of a time."""

    def spend(self, address: str) -> bool:
        """Count an attempt; return False for one too many."""
        now = self._clock()
        left, since = self._left.pop(address, (float(BURST), now))
        left = min(float(BURST), left + (now - since) * PER_SECOND)
        allowed = left >= 1.0
        self._left[address] = (left - allowed, now)
        if len(self._left) > ADDRESSES_MAX:
            del self._left[next(iter(self._left))]
        return allowed
