"""WholeGangSearch: places a gang on nodes that are chosen for all its pods before any victim is.

Choosing node and victims for one pod after the other may leave no node for the last pod, or take
more victims than necessary.
"""

from typing import Any

from vscheduler.core.model import jobs
from vscheduler.core.placement.gang_search import attempt
from vscheduler.core.preemption import search

Places = list[tuple[jobs.Task, int]] | None


class WholeGangSearch(search.VictimSearch):
    """One attempt to place a gang of unequal pods, where taking them one by one has failed."""

    def __init__(self, known: list[Places], *arguments: Any) -> None:
        """`known` is empty, or has the nodes that another attempt of the same plan has found: they
        don't depend on the rules of the attempt.
        """
        super().__init__(*arguments)
        self._known = known

    def succeeds(self) -> bool:
        """Choose nodes as if all that may be evicted were gone, then the victims on each."""
        if self._has_minimum:
            return False
        if not self._known:
            most = self._kept.columns.most(self._pool.scope.queues)
            self._known.append(
                attempt.with_room_to_free(self._session, self._state, self._tasks, most)
            )
        (places,) = self._known
        if places is None:
            return False
        asking = [task for task, _ in places if not task.best_effort]
        self._scarce = self._scarce_request(asking)
        lacking = self._sum(asking)
        for task, row in places:
            self._pool.start_search(lacking)
            if not self._may_claim(task) or not self._put(task, row):
                return False
            if not task.best_effort:
                lacking = lacking - self._session.request(task)
        return self._done()

    def _put(self, task: jobs.Task, row: int) -> bool:
        """Place the task on this node, with evictions if need be."""
        self._session.spend("claims", search.TASK_COST)
        found = self._candidate_on(task, row)
        if found is None or (task.best_effort and found.units):
            return False
        self._accept(task, row, found)
        return True
