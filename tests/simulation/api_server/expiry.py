"""Events are forgotten after an hour."""

from collections import deque

from tests.simulation.api_server import kinds
from tests.simulation.api_server.store import Item, Store
from tests.simulation.api_server.wire import Clock

SECONDS = 3600.0


class Expiry:
    """Takes old Events away whenever a new one comes."""

    def __init__(self, stored: Store, clock: Clock) -> None:
        self._store = stored
        self._clock = clock
        self._due: deque[tuple[float, str, str]] = deque()

    def note(self, item: Item) -> None:
        """A new Event; take those away that are too old."""
        now = self._clock.now()
        self._due.append((now + SECONDS, item.key, item.object["metadata"]["uid"]))
        while self._due[0][0] <= now:
            _, key, uid = self._due.popleft()
            old = self._store.find(kinds.EVENTS, key)
            if old is not None and old.object["metadata"]["uid"] == uid:
                self._store.remove(
                    kinds.EVENTS, key, {**old.object, "metadata": dict(old.object["metadata"])}
                )
