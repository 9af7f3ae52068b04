"""How many calls are under way at once: as many as there may be, fewer while the API server says
that it is too busy (429).

Additive increase, multiplicative decrease, as in TCP. Latency isn't a sign: on two busy cores 8, 16
and 64 binds at once made as many a second, and fewer at once made the client's own work dearer.
"""

LEAST = 8
"""Never fewer, so that a few calls that are stuck don't hold up all others."""

SHRINK = 0.75


class Window:
    """Opens by one after each round, one answer for each call that may be under way."""

    def __init__(self, most: int) -> None:
        self._most = self._size = most
        self._least = min(LEAST, most)
        self._answers = 0
        """Of this round."""
        self._stale = 0
        """Answers to come to calls that were made when the window was wider."""

    @property
    def size(self) -> int:
        """How many calls may be under way."""
        return self._size

    def answered(self) -> None:
        """A call has ended."""
        if self._stale:
            self._stale -= 1
            return
        self._answers += 1
        if self._answers >= self._size:
            self._answers = 0
            self._size = min(self._most, self._size + 1)

    def throttled(self) -> None:
        """The server was too busy; what it says to calls of the same moment counts once."""
        if self._stale or self._size == self._least:
            return
        self._stale = self._size
        self._answers = 0
        self._size = max(self._least, int(self._size * SHRINK))
