"""ExchangeSearch: where evictions make room for pods that are moved.

A queue may be able to use one node only, on which a pod of a queue within its share runs, while a
third queue exceeds its share where that pod could run as well. Both pods are evicted then, in one
plan: the third queue's pod makes room for the other one's replacement, which makes room for the
starving job. Whose pods may go for the replacement is asked on behalf of the starving job, by the
rules for its own victims, but none of these pods is moved in turn.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vscheduler.core.eviction import relocations, search
from vscheduler.core.eviction.cheapest_nodes import KeptBounds
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.relocations import Displacement
from vscheduler.core.eviction.search import VictimSearch
from vscheduler.core.eviction.victims import VictimCandidates
from vscheduler.core.model.decisions import Evict
from vscheduler.core.model.jobs import Task
from vscheduler.core.placement import nominated_pods
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement


class ExchangeSearch(VictimSearch):
    """One attempt to reserve resources for one replacement."""

    def __init__(self, displacement: Displacement, until: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._replacement, self._until = displacement.replacement, until
        self._claimed = displacement.claimed

    def succeeds(self) -> bool:
        """Reserve resources where evictions cost least."""
        task = self._replacement
        nodes = self._session.layout.size
        self._session.spend("moves", search.TASK_COST + nodes // search.NODES_PER_UNIT)
        self._scarce = self._session.request(task).astype(np.float64)
        self._pool.start_search(self._claimed)
        return self._place_with_victims(task, nominated_pods.alike(self._session, task))

    @property
    def groups(self) -> Sequence[Sequence[Evict]]:
        """The evictions, in groups that only go together."""
        by_pod = {evict.task.uid: evict for evict in self._trial.evicts}
        return [[by_pod[task.uid] for task in unit.tasks] for unit in self._chosen.values()]

    def _assign(self, task: Task, row: int) -> None:
        self._trial.keep(relocations.reservation(self._session, task, row, self._until))
        self.placed[task.uid] = (task, row)

    def _is_allowed(self, task: Task) -> bool:
        """Whether limits admit the task: its queue holds no more than before the pod is moved."""
        del task
        return True


class Exchange:
    """Makes room for replacements, by evictions on behalf of one starving job."""

    def __init__(
        self,
        session: Session,
        preemptor: Preemptor,
        pool: Callable[[Task], VictimCandidates],
        action: str,
        kept: KeptBounds,
    ) -> None:
        """`pool` returns the candidates on behalf of a task; `kept` are columns of its own."""
        self._session, self._preemptor, self._pool = session, preemptor, pool
        self._action, self._kept = action, kept

    def place(
        self, statement: Statement, displacement: Displacement, until: float
    ) -> Sequence[Sequence[Evict]] | None:
        """Reserve resources for the replacement; return the evictions, None without success."""
        pool = self._pool(displacement.claimant)
        arguments = (self._session, statement, self._preemptor, pool, self._action, self._kept)
        tried = ExchangeSearch(displacement, until, *arguments)
        return tried.groups if tried.succeeds() else None
