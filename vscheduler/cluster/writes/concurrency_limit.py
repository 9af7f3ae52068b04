"""Concurrency limit of the work queue: fewer calls at once while the API server answers 429."""

CALLS_MIN = 8
"""Smallest concurrency limit, so that a few stuck calls do not block all others."""

LIMIT_SHRINK = 0.75
"""Factor on the concurrency limit after a 429."""


class ConcurrencyLimit:
    """How many calls may be in progress, over all workers.

    The limit shrinks while the API server answers 429. The limit follows additive increase,
    multiplicative decrease, as in TCP. It grows by one after each round, that is, after as many
    answers as calls may be in progress. Latency is no useful signal: with 8, 16 and 64 concurrent
    binds on two busy cores, throughput was equal, and fewer calls at once raised the client's own
    cost per call.
    """

    def __init__(self, most: int) -> None:
        self._most = self._size = most
        self._least = min(CALLS_MIN, most)
        self._answers = 0
        """Answers in the current round."""
        self._stale = 0
        """Outstanding answers to calls made before the limit was lowered."""

    @property
    def size(self) -> int:
        """The current limit."""
        return self._size

    def answered(self) -> None:
        """Record that a call ended."""
        if self._stale:
            self._stale -= 1
            return
        self._answers += 1
        if self._answers >= self._size:
            self._answers = 0
            self._size = min(self._most, self._size + 1)

    def throttled(self) -> None:
        """Lower the limit after a 429.

        Further 429s for calls made before the reduction are ignored.
        """
        if self._stale or self._size == self._least:
            return
        self._stale = self._size
        self._answers = 0
        self._size = max(self._least, int(self._size * LIMIT_SHRINK))
