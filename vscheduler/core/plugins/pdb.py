"""Pdb: PodDisruptionBudgets say how many of their pods may go.

Volcano: plugins/pdb. The planner of evictions and the action shuffle keep to budgets in any case;
this plugin leaves pods out that can't go at all, so that others are looked at instead.
"""

from collections import Counter
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
        self._session = session
        self._budgets = work_budget.Budgets(session.snapshot.budgets)

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Those that may go, each by itself: which may go together, the planner finds out.

        Volcano: pdb pdbFilterFn.
        """
        del claimant
        if self._session.as_volcano:
            return self._filtered(candidates)
        return [task for task in candidates if self._budgets.spare([task])]

    reclaimable = preemptable

    def shuffle_victims(self, candidates: Sequence[jobs.Task]) -> Sequence[jobs.Task] | None:
        """Nobody has to go because of a budget; but in Volcano, which takes a list of pods that
        may go for one of pods that should.
        """
        return self._filtered(candidates) if self._session.as_volcano else None

    def on_deallocate(self, task: jobs.Task) -> None:
        """A pod that is evicted uses up a disruption; room that is given up doesn't."""
        if task.status in jobs.EVICTABLE:
            self._budgets.take(task)

    def on_allocate(self, task: jobs.Task) -> None:
        """The opposite, when the eviction is taken back."""
        if task.status in jobs.EVICTABLE:
            self._budgets.give_back(task)

    def _filtered(self, candidates: Sequence[jobs.Task]) -> Sequence[jobs.Task]:
        """In Volcano's way: pods without labels are never victims, a budget whose selector is
        empty covers nobody, those that may not go count as well, and what earlier calls let go
        doesn't.
        """
        present = [
            (place, budget)
            for place, budget in enumerate(self._session.snapshot.budgets)
            if budget.selector is not None and budget.selector.requirements
        ]
        taken: Counter[int] = Counter()
        victims = []
        for task in candidates:
            covering = [(place, budget) for place, budget in present if budget.covers(task)]
            taken.update(place for place, _ in covering)
            within = all(taken[place] <= budget.allowed for place, budget in covering)
            if task.labels and within:
                victims.append(task)
        return victims
