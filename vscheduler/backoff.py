"""Exponential backoff: what failed is left alone for a while, longer each time in a row."""

import heapq
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How long pauses are, in seconds."""

    first_seconds: float
    longest_seconds: float
    """Each is twice the one before, up to this."""
    free: int = 0
    """How many failures in a row are followed by no pause."""
    most: int = 10_000
    """Keys whose failures are counted; past them all start anew."""

    def after(self, failures: int) -> float:
        """The pause after so many failures in a row."""
        doublings = failures - self.free - 1
        if doublings < 0:
            return 0.0
        return min(self.longest_seconds, self.first_seconds * 2.0 ** min(doublings, 32))


class Backoff(Generic[Key]):
    """Which keys (pods, jobs, queues) pause, and until when; times are of any one clock."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self._failures: Counter[Key] = Counter()
        self._until: dict[Key, float] = {}
        self._ends: list[tuple[float, Key]] = []

    def failed(self, key: Key, now: float, growth: Growth | None = None) -> None:
        """The key begins a pause, or a longer one; growth is that of a failure of its own kind."""
        if len(self._failures) > self._growth.most:
            self._failures.clear()
        self._failures[key] += 1
        self._until[key] = now + (growth or self._growth).after(self._failures[key])
        heapq.heappush(self._ends, (self._until[key], key))

    def succeeded(self, key: Key) -> None:
        """Its next failure is the first again; a pause that has begun goes on."""
        self._failures.pop(key, None)

    def until(self, key: Key) -> float:
        """When the pause of a key ends; 0.0 where none is known."""
        return self._until.get(key, 0.0)

    def ended(self, now: float) -> list[Key]:
        """Keys whose pause is over since this was asked last."""
        over = []
        while self._ends and self._ends[0][0] <= now:
            end, key = heapq.heappop(self._ends)
            if self._until.get(key) == end:
                del self._until[key]
                over.append(key)
        return over

    @property
    def next_end(self) -> float:
        """When the first of the pauses ends; infinite where nothing pauses."""
        return min(self._until.values(), default=float("inf"))

    @property
    def pausing(self) -> frozenset[Key]:
        """Keys whose pause isn't over, as of the last question."""
        return frozenset(self._until)
