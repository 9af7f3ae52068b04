"""Pdb: PodDisruptionBudgets limit how many pods may be evicted.

Volcano: plugins/pdb. The eviction planner and action shuffle respect budgets in any case. With this
plugin, pods without any disruption left aren't even candidates, in favour of more useful
candidates.
"""

from collections.abc import Sequence

from vscheduler.core.api.contracts import Plugin, Session, VictimRole
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.session.cluster_state import Budgets
from vscheduler.model.jobs import EVICTABLE, Task


class Pdb(Plugin):
    """Protects pods whose budget allows no more disruptions, counting evictions of this cycle."""

    name = "pdb"
    victim_role = VictimRole.PROTECTS

    def open(self, session: Session) -> None:
        """Start with the budgets of the snapshot."""
        self._budgets = Budgets(session.snapshot.budgets)

    @depends_on(On.VICTIM)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return pods that may be evicted one by one (Volcano: pdb pdbFilterFn).

        The planner decides which pods may be evicted together.
        """
        del preemptor
        return [task for task in candidates if self._budgets.spare([task])]

    reclaimable = preemptable

    def on_deallocate(self, task: Task) -> None:
        """Use up a disruption if the pod is evicted; giving up reserved nodes is no disruption."""
        if task.status in EVICTABLE:
            self._budgets.take(task)

    def on_allocate(self, task: Task) -> None:
        """Give the disruption back when an eviction is undone."""
        if task.status in EVICTABLE:
            self._budgets.give_back(task)
