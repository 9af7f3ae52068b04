"""Inflation: how much longer than alone a busy machine lets thread CPU seconds be.

Cores that share caches and execution units with other work do less in a CPU second. A loop that is
always the same, of Python and numpy as a cycle is, tells how much less.
"""

import statistics
import time

import numpy as np

TRIES = 2000
"""How many loops are tried for the time of one that nothing slows down."""
AROUND = 12
"""How many loops are measured before and after."""
NUMBERS = 2_000
ROUNDS = 6_000


class Inflation:
    """Compares the loop around a measurement with its least time."""

    def __init__(self) -> None:
        self._least = min(_loop() for _ in range(TRIES))

    def now(self) -> float:
        """Return how many times its least time the loop takes at present, at least 1.0."""
        taken = statistics.median(_loop() for _ in range(AROUND))
        self._least = min(self._least, taken)
        return taken / self._least


def _loop() -> float:
    """Return the thread CPU seconds of about a millisecond's work."""
    numbers = np.arange(NUMBERS, dtype=np.int64)
    began = time.thread_time()
    total, seen = 0, dict[int, int]()
    for each in range(ROUNDS):
        total += each * each % 7
        seen[each % 977] = total
    for each in range(ROUNDS // 100):
        total += int(((numbers * 3 + each) // 7).max())
    return time.thread_time() - began
