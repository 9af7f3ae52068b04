"""Budgets: which pods PodDisruptionBudgets let go, on top of those that go already.

For the planner of evictions, whatever plugins are configured, and for the plugin pdb.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from vscheduler.core.model import jobs, snapshot


class Budgets:
    """All budgets of a snapshot, and how many of the pods of each were taken from it since."""

    def __init__(self, budgets: Sequence[snapshot.Budget]) -> None:
        self._budgets = budgets
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, budget in enumerate(budgets):
            self._places[budget.namespace].append(place)
        self._taken: Counter[int] = Counter()
        self._covering: dict[jobs.TaskId, tuple[int, ...]] = {}

    def spare(self, tasks: Sequence[jobs.Task]) -> bool:
        """Whether all of these may go together.

        A pod under two budgets never may: the Eviction API answers 500 for it, whatever they
        allow.
        """
        wanted: Counter[int] = Counter()
        for task in tasks:
            covering = self._of(task)
            if len(covering) > 1:
                return False
            wanted.update(covering)
        return all(
            self._taken[place] + count <= self._budgets[place].allowed
            for place, count in wanted.items()
        )

    def take(self, task: jobs.Task) -> None:
        """The task goes: its budget has one less to give."""
        self._taken.update(self._of(task))

    def give_back(self, task: jobs.Task) -> None:
        """The exact opposite of `take`."""
        self._taken.subtract(self._of(task))

    def _of(self, task: jobs.Task) -> tuple[int, ...]:
        """Which budgets cover the task; found once."""
        covering = self._covering.get(task.uid)
        if covering is None:
            covering = self._covering[task.uid] = tuple(
                place
                for place in self._places.get(task.namespace, ())
                if self._budgets[place].covers(task)
            )
        return covering
