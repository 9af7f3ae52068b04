"""Recording of history: passes what happens to the writer's thread while Leases are held."""

from collections.abc import Sequence
from pathlib import Path

from vscheduler.containment import Failures
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.daemon.settings import History
from vscheduler.history.recorder import Listing
from vscheduler.history.store import Limits
from vscheduler.history.writer import Writer
from vscheduler.mirror.state import Mirror
from vscheduler.model.decisions import CycleResult, Evict
from vscheduler.model.snapshot import Snapshot
from vscheduler.web.history import Observer


class Recording(Observer):
    """Records what happens to pods and PodGroups from `begin` to `end`."""

    def __init__(
        self, given: History, mirror: Mirror, failures: Failures, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._metrics = metrics
        limits = Limits(seconds=given.max_age_seconds, size=given.max_bytes)
        self._writer = Writer(Path(given.file), limits, failures, user_label=given.user_label)

    def begin(self, names: Sequence[str]) -> None:
        """Record what happens to the pods of these schedulers."""
        self._mirror.follow(self._writer)
        self._writer.begin(names, self._list)

    def end(self) -> None:
        """Record nothing more: another instance may."""
        self._mirror.follow(None)
        self._writer.end()

    def close(self) -> None:
        """Write what is left, and wait a moment for it."""
        self.end()
        self._writer.close()

    def observe(self) -> None:
        """Update the metrics."""
        self._metrics.observe_history(self._writer.status)

    def cycle(self, snapshot: Snapshot, result: CycleResult) -> None:
        """A cycle has ended: a good time to catch up."""
        del snapshot, result
        self._writer.look()

    def evicted(self, evicts: Sequence[Evict], now: float) -> None:
        """Pods were evicted by the same plan."""
        del now
        for evict in evicts:
            self._writer.evicted([evict.task.uid], evict.action, evict.beneficiary or "")

    def _list(self) -> Listing:
        pods, groups = self._mirror.told_of()
        return Listing(pods=pods, groups=groups)
