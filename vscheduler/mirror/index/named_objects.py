"""Named objects: Queues, PodDisruptionBudgets and ResourceQuotas, sorted for snapshots."""

from collections.abc import Mapping

from vscheduler.core.model import queues, snapshot
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import entries
from vscheduler.mirror.translate import translation


class NamedObjects:
    """Sorts these objects anew once any of them has changed."""

    def __init__(self, stored: Mapping[events.Kind, Mapping[str, entries.Entry]]) -> None:
        """`stored` has all objects as last seen."""
        self._stored = stored
        self.queues: Mapping[str, queues.Queue] = {}
        self.budgets: tuple[snapshot.Budget, ...] = ()
        self.quotas: tuple[snapshot.Quota, ...] = ()
        self._current = False

    def change(self) -> None:
        """Sort again at the next refresh."""
        self._current = False

    def queue_of_namespace(self, name: str) -> str:
        """Return the queue that a namespace names; empty if it names none."""
        value = self._stored[events.Kind.NAMESPACE].get(name, entries.UNKNOWN).value
        return value.queue if isinstance(value, translation.Namespace) else ""

    def refresh(self) -> None:
        """Make the attributes current; the last objects stay when nothing changed."""
        if self._current:
            return
        self._current = True
        found = entries.values(self._stored[events.Kind.QUEUE], queues.Queue)
        self.queues = {queue.name: queue for queue in found}
        self.budgets = tuple(entries.values(self._stored[events.Kind.BUDGET], snapshot.Budget))
        self.quotas = tuple(entries.values(self._stored[events.Kind.QUOTA], snapshot.Quota))
