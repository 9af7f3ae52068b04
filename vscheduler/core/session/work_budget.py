"""WorkBudget: the cost of a cycle so far, by the namespace that caused the cost.

A cycle has a budget of counted operations. Within the budget, jobs take turns in the order of
fairness between queues, whatever the jobs cost. After an exhausted budget, the next cycle first
serves namespaces with low costs in the last cycles; the remaining namespaces share the rest. So a
namespace with expensive jobs that fit nowhere can't delay everybody else.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from vscheduler.core.session.job_state import JobState
from vscheduler.model.jobs import JobId

OPENING_COST = 20
"""Approximate microseconds for the presence of one job that could request something, with or
without a turn: a session is opened with the job, and the job is sorted."""

PARTS = 4
"""A namespace has used its part when its cost exceeds the lowest cost by this fraction of the
budget; the part is smaller if many namespaces wait."""


class TooLargeError(BaseException):
    """A cycle that was to be small is not.

    No Exception, which would count as the failure of the plugin that happens to be asked.
    """


class WorkBudget:
    """The work budget of one cycle. One unit is about one microsecond."""

    def __init__(
        self, budget: int | None, before: Mapping[str, int], small: int | None = None
    ) -> None:
        """Start the account.

        A budget of None is unlimited; before has the costs of namespaces in unfinished cycles.
        With `small`, the cycle is given up by TooLargeError when it has cost more than that.
        """
        self.work: defaultdict[str, int] = defaultdict(int)
        """Counts of operations, by kind."""
        self.exhausted = False
        """Whether the budget was used up at any time, so that the cycle isn't finished."""
        self.over = False
        """Whether the current limit is used up."""
        self.cut_lending = False
        """Whether lending ended at its part of the budget, and others might have got something."""
        self.payer = ""
        """The namespace that pays for current operations; empty if none does."""
        self._budget = self._limit = budget
        self._small = math.inf if small is None else small
        self._spent = 0
        self._before = before
        self._now: defaultdict[str, int] = defaultdict(int)
        self._part: int | None = None
        """The highest cost of a namespace that is still served first; None if there is no hurry."""

    def open(self, unfinished_jobs: int) -> None:
        """Take the cost of opening a session with so many unfinished jobs off the budget.

        A small cycle has fewer jobs than that. At least half of the budget remains. The cost alone
        never makes a cycle unfinished: the next cycle would begin with the same cost, for ever.
        """
        if OPENING_COST * unfinished_jobs > self._small:
            raise TooLargeError
        if self._budget is not None:
            left = self._budget - OPENING_COST * unfinished_jobs
            self._budget = self._limit = max(left, -(-self._budget // 2))

    def resume_round(self, unfinished_jobs: Sequence[JobState], tried: Collection[JobId]) -> None:
        """Serve cheap namespaces first, since this cycle continues an unfinished cycle.

        unfinished_jobs are the jobs to serve; tried are the jobs that have already had a turn.
        """
        if self._budget is None:
            return
        self._count(unfinished_jobs)
        waiting = {state.job.namespace for state in unfinished_jobs if state.job.id not in tried}
        if len(waiting) > 1:
            least = min(map(self._cost, waiting))
            self._part = least + self._budget // (PARTS + 2 * len(waiting))

    def charge(self, namespace: str = "") -> None:
        """Let the namespace pay for operations from here on; without a name, nobody pays."""
        self.payer = namespace

    def lift(self) -> None:
        """Let nothing that follows make the cycle unfinished; the caller bounds the work itself."""
        self._limit = None

    def end_turns(self) -> None:
        """Let the next cycle go on here, as if the limit were reached."""
        self.exhausted = self.over = True

    def leave_unfinished(self) -> None:
        """Let the next cycle continue this cycle, as if the budget were used up."""
        self.exhausted = True

    def count(self, operation: str, times: int) -> None:
        """Count operations without a cost of their own."""
        self.work[operation] += times

    def spend(self, operation: str, cost: int) -> None:
        """Count one operation and its cost."""
        self.work[operation] += 1
        self._spent += cost
        self._now[self.payer] += cost
        if self._limit is not None and self._spent >= self._limit:
            self.exhausted = self.over = True
        if self._spent > self._small:
            raise TooLargeError

    def spend_for(self, namespace: str, operation: str, cost: int) -> None:
        """Count one operation and its cost, which this namespace pays for, whoever's turn it is."""
        payer, self.payer = self.payer, namespace
        try:
            self.spend(operation, cost)
        finally:
            self.payer = payer

    @property
    def spent(self) -> int:
        """The cost of all operations so far."""
        return self._spent

    def grant(self, fraction: int) -> None:
        """Guarantee at least a half, a quarter, … of the budget from here on.

        Without the guarantee, early actions could starve later actions in every cycle.
        """
        if self._budget is not None and self._limit is not None:
            self._limit = max(self._limit, self._spent + self._budget // fraction)
            self.over = self._spent >= self._limit

    def part(self, fraction: int) -> Callable[[], bool]:
        """Return a function that tells whether a part of the budget has been spent from here on.

        The part is a half, a quarter, …, and no more than what is left.
        """
        budget, end = self._budget, self._spent
        if budget is not None:
            end += budget // fraction
        return lambda: self.over or (budget is not None and self._spent >= end)

    def units(self, fraction: int) -> float:
        """Return a half, a quarter, … of the whole budget; infinite without a budget."""
        return math.inf if self._budget is None else self._budget / fraction

    def affords(self, cost: int, most: int) -> int:
        """Return how many operations of this cost the limit still allows, at most this many."""
        if self._limit is None:
            return most
        return max(0, min(most, (self._limit - self._spent) // cost))

    def affords_early(self, cost: int, most: int) -> int:
        """Return how many operations three quarters of the budget allow, at most this many."""
        return most if self._budget is None else min(most, self._budget * 3 // 4 // cost)

    @property
    def is_late(self) -> bool:
        """Whether less than half of the budget is left; never without a budget."""
        return self._budget is not None and self.affords(1, self._budget) < self._budget // 2

    @property
    def hurried(self) -> bool:
        """Whether any namespace may have to wait for other namespaces."""
        return self._part is not None

    def has_had_its_part(self, namespace: str) -> bool:
        """Whether the namespace must let others go first; never the case without hurry."""
        return self._part is not None and self._cost(namespace) > self._part

    def in_turn(self, waiting: Iterable[JobState]) -> Iterator[JobState]:
        """Iterate over these jobs, and charge the work for each job to the job's namespace.

        In a hurry, jobs of a namespace that has used its part come last.
        """
        later = []
        hurried = self._part is not None
        for state in waiting:
            if hurried and self.has_had_its_part(state.job.namespace):
                later.append(state)
            else:
                self.payer = state.job.namespace
                yield state
        for state in later:
            self.payer = state.job.namespace
            yield state
        self.payer = ""

    def carried(self, unfinished_jobs: Callable[[], Iterable[JobState]]) -> Mapping[str, int]:
        """Return the costs that the next cycle must know, if that cycle continues this one.

        Older costs count for half in each cycle, so that no namespace comes last for ever.
        unfinished_jobs returns the jobs that this cycle began with.
        """
        if not self.exhausted:
            return {}
        if not self._before:
            self._count(unfinished_jobs())
        names = sorted({*self._before, *self._now} - {""})
        costs = {name: self._before.get(name, 0) // 2 + self._now.get(name, 0) for name in names}
        return {name: cost for name, cost in costs.items() if cost}

    def costs(self, unfinished_jobs: Iterable[JobState]) -> Mapping[str, int]:
        """Return this cycle's costs by namespace, plus the costs of these jobs' presence."""
        found = defaultdict(int, self._now)
        for state in unfinished_jobs:
            found[state.job.namespace] += OPENING_COST
        return {name: found[name] for name in sorted(found) if name}

    def _count(self, unfinished_jobs: Iterable[JobState]) -> None:
        """Charge the namespaces for the presence of these jobs."""
        for state in unfinished_jobs:
            self._now[state.job.namespace] += OPENING_COST

    def _cost(self, namespace: str) -> int:
        return self._before.get(namespace, 0) + self._now.get(namespace, 0)
