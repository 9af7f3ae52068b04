"""Exponential backoff: what fails, or ends too soon, pauses, longer each time in a row."""

import heapq
from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

Key = TypeVar("Key", bound=Hashable)


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of pauses, in seconds."""

    first_seconds: float
    longest_seconds: float
    """The limit of pauses; up to the limit each pause is twice the previous pause."""
    free: int = 0
    """How many failures in a row cause no pause."""
    most: int = 10_000
    """How many keys are counted; beyond the limit all counts restart."""

    def after(self, failures: int) -> float:
        """Return the pause after a number of failures in a row."""
        doublings = failures - self.free - 1
        if doublings < 0:
            return 0.0
        return min(self.longest_seconds, self.first_seconds * 2.0 ** min(doublings, 32))


class Restarts:
    """Pauses before work that has ended is started again."""

    def __init__(self, growth: Growth, steady_seconds: float) -> None:
        """Work that ran for longer than `steady_seconds` starts over with the shortest pause."""
        self._growth = growth
        self._steady_seconds = steady_seconds
        self.in_a_row = 0
        """How often the work ended before it had run for so long."""

    def pause(self, ran_seconds: float) -> float:
        """Count another end, after so many seconds; return the pause in seconds."""
        self.in_a_row = 1 if ran_seconds > self._steady_seconds else self.in_a_row + 1
        return self._growth.after(self.in_a_row)


class Backoff(Generic[Key]):
    """Pauses of keys (pods, jobs, queues). Times are of any single clock."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self._failures: Counter[Key] = Counter()
        self._until: dict[Key, float] = {}
        self._ends: list[tuple[float, Key]] = []

    def failed(self, key: Key, now: float, growth: Growth | None = None) -> None:
        """Start a pause for the key; `growth` overrides the default for special kinds of
        failures.
        """
        if len(self._failures) > self._growth.most:
            self._failures.clear()
        self._failures[key] += 1
        self._until[key] = now + (growth or self._growth).after(self._failures[key])
        heapq.heappush(self._ends, (self._until[key], key))

    def succeeded(self, key: Key) -> None:
        """Reset the key's count of failures. A running pause continues."""
        self._failures.pop(key, None)

    def until(self, key: Key) -> float:
        """Return when the pause of a key ends; 0.0 without a known pause."""
        return self._until.get(key, 0.0)

    def ended(self, now: float) -> list[Key]:
        """Return the keys whose pause ended since the last call."""
        over = []
        while self._ends and self._ends[0][0] <= now:
            end, key = heapq.heappop(self._ends)
            if self._until.get(key) == end:
                del self._until[key]
                over.append(key)
        return over

    @property
    def next_end(self) -> float:
        """When the first pause ends; infinite without any pause."""
        return min(self._until.values(), default=float("inf"))

    @property
    def pausing(self) -> frozenset[Key]:
        """Keys whose pause hadn't ended at the last call of `ended`."""
        return frozenset(self._until)
