"""Pdb: PodDisruptionBudgets limit how many pods may be evicted.

Volcano: plugins/pdb. The eviction planner and action shuffle respect budgets in any case. With this
plugin, pods without any disruption left aren't even candidates, in favour of more useful
candidates.
"""

from collections.abc import Sequence

from vscheduler.core.api import contracts
from vscheduler.core.model import jobs
from vscheduler.core.session import cluster_state


class Pdb(contracts.Plugin):
    """Protects pods whose budget allows no more disruptions, counting evictions of this cycle."""

    name = "pdb"
    claims_last = True
    victim_role = contracts.VictimRole.PROTECTS

    def open(self, session: contracts.Session) -> None:
        """Start with the budgets of the snapshot."""
        self._budgets = cluster_state.Budgets(session.snapshot.budgets)

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Return pods that may be evicted one by one (Volcano: pdb pdbFilterFn).

        The planner decides which pods may be evicted together.
        """
        del claimant
        return [task for task in candidates if self._budgets.spare([task])]

    reclaimable = preemptable

    def on_deallocate(self, task: jobs.Task) -> None:
        """Use up a disruption if the pod is evicted; giving up reserved nodes is no disruption."""
        if task.status in jobs.EVICTABLE:
            self._budgets.take(task)

    def on_allocate(self, task: jobs.Task) -> None:
        """Give the disruption back when an eviction is undone."""
        if task.status in jobs.EVICTABLE:
            self._budgets.give_back(task)
