"""Named objects: Queues, PodDisruptionBudgets and ResourceQuotas, sorted for snapshots."""

from collections.abc import Mapping

from vscheduler.core.model.queues import Queue
from vscheduler.core.model.snapshot import Budget, Quota
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.index import entries
from vscheduler.mirror.index.entries import Entry
from vscheduler.mirror.translate.translation import Namespace


class NamedObjects:
    """Sorts these objects anew once any of them has changed."""

    def __init__(self, stored: Mapping[Kind, Mapping[str, Entry]]) -> None:
        """`stored` has all objects as last seen."""
        self._stored = stored
        self.queues: Mapping[str, Queue] = {}
        self.budgets: tuple[Budget, ...] = ()
        self.quotas: tuple[Quota, ...] = ()
        self._current = False

    def change(self) -> None:
        """Sort again at the next refresh."""
        self._current = False

    def queue_of_namespace(self, name: str) -> str:
        """Return the queue that a namespace names; empty if it names none."""
        value = self._stored[Kind.NAMESPACE].get(name, entries.UNKNOWN).value
        return value.queue if isinstance(value, Namespace) else ""

    def refresh(self) -> None:
        """Make the attributes current; the last objects stay when nothing changed."""
        if self._current:
            return
        self._current = True
        found = entries.values(self._stored[Kind.QUEUE], Queue)
        self.queues = {queue.name: queue for queue in found}
        self.budgets = tuple(entries.values(self._stored[Kind.BUDGET], Budget))
        self.quotas = tuple(entries.values(self._stored[Kind.QUOTA], Quota))
