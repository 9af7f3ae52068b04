"""Kind access: whether the kinds about volumes and devices can be read.

Without one of the kinds about volumes that are needed, nothing is known about volumes. Then they
are no obstacle for any pod, as in a cluster without volumes. Without one of those about devices, no
pod with resource claims can start. Both are logged as warnings.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

import msgspec
import structlog

from vscheduler.daemon.health import WatchState
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.state import Mirror

log = structlog.get_logger(__name__)

VOLUMES = frozenset({Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS})

LOOK_SECONDS = 5.0
"""A role may be extended at any time."""


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """Kinds that are of use only together."""

    off: str
    """The event of the log when one of them is missing, and when all can be read again."""
    on: str
    needed: Collection[Kind]
    serve: Callable[[bool], None]
    """Tells the Mirror whether decisions can consider them."""


class KindAccess:
    """Tells the Mirror whether decisions can consider volumes and devices."""

    def __init__(self, mirror: Mirror, states: Callable[[], Sequence[WatchState]]) -> None:
        """`states` returns the status of all watches."""
        self._states = states
        self._topics = (
            Topic(
                off="volumes.off",
                on="volumes.on",
                needed=VOLUMES,
                serve=lambda served: mirror.storage.serve(served=served),
            ),
            Topic(
                off="devices.off",
                on="devices.on",
                needed=paths.DEVICE_KINDS,
                serve=lambda served: mirror.devices.serve(served=served),
            ),
        )
        self._missing: dict[str, Collection[str]] = {topic.on: () for topic in self._topics}

    def look(self) -> bool:
        """Tell the Mirror; return whether anything has changed since the last call."""
        states = self._states()
        changed = [self._look(topic, states) for topic in self._topics]
        return any(changed)

    def _look(self, topic: Topic, states: Sequence[WatchState]) -> bool:
        absent = [state for state in states if state.kind in topic.needed and state.absent]
        missing = sorted(each.kind for each in absent)
        if missing == list(self._missing[topic.on]):
            return False
        self._missing[topic.on] = missing
        topic.serve(not missing)
        if missing:
            log.warning(topic.off, kinds=missing, message=str(absent[0].problem))
        else:
            log.info(topic.on)
        return True

    async def follow(self, changed: Callable[[], object]) -> None:
        """Look for ever, and call `changed` after each change."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.look():
                changed()
