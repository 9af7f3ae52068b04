"""Pdb: PodDisruptionBudgets say how many of their pods may go.

Volcano: plugins/pdb. The planner of evictions and the action shuffle keep to budgets in any case;
this plugin leaves pods out that can't go at all, so that others are looked at instead.
"""

from collections.abc import Sequence

from vscheduler.core.api import contracts
from vscheduler.core.model import jobs
from vscheduler.core.session import work_budget


class Pdb(contracts.Plugin):
    """Protects pods whose budget allows no more disruptions, those of this cycle counted."""

    name = "pdb"
    victim_role = contracts.VictimRole.PROTECTS

    def open(self, session: contracts.Session) -> None:
        """Nothing is taken yet."""
        self._budgets = work_budget.Budgets(session.snapshot.budgets)

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Those that may go, each by itself: which may go together, the planner finds out."""
        del claimant
        return [task for task in candidates if self._budgets.spare([task])]

    reclaimable = preemptable

    def on_deallocate(self, task: jobs.Task) -> None:
        """A pod that is evicted uses up a disruption; room that is given up doesn't."""
        if task.status in jobs.EVICTABLE:
            self._budgets.take(task)

    def on_allocate(self, task: jobs.Task) -> None:
        """The opposite, when the eviction is taken back."""
        if task.status in jobs.EVICTABLE:
            self._budgets.give_back(task)
