"""Storage access: whether claims, volumes and their classes can be read.

Without one of these kinds, nothing is known about volumes. Then they are no obstacle for any pod,
as in a cluster without volumes, which is logged as a warning.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

import structlog

from vscheduler.daemon import health
from vscheduler.mirror import state
from vscheduler.mirror.decode import kinds

log = structlog.get_logger(__name__)

NEEDED = frozenset({kinds.Kind.CLAIM, kinds.Kind.VOLUME, kinds.Kind.STORAGE_CLASS})

LOOK_SECONDS = 5.0
"""A role may be extended at any time."""


class StorageAccess:
    """Tells the Mirror whether decisions can consider volumes."""

    def __init__(
        self, mirror: state.Mirror, states: Callable[[], Sequence[health.WatchState]]
    ) -> None:
        """`states` returns the status of all watches."""
        self._mirror = mirror
        self._states = states
        self._missing: Collection[str] = ()

    def look(self) -> bool:
        """Tell the Mirror; return whether anything has changed since the last call."""
        states = [each for each in self._states() if each.kind in NEEDED and each.absent]
        missing = sorted(each.kind for each in states)
        if missing == list(self._missing):
            return False
        self._missing = missing
        self._mirror.storage.serve(served=not missing)
        if missing:
            log.warning("volumes.off", kinds=missing, message=str(states[0].problem))
        else:
            log.info("volumes.on")
        return True

    async def follow(self, changed: Callable[[], object]) -> None:
        """Look for ever, and call `changed` after each change."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.look():
                changed()
