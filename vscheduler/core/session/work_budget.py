"""Spending: what a cycle has cost so far, on account of which namespace, and who is served first.

A cycle has a budget of counted operations. While it lasts, jobs are looked at in the order of
fairness between queues, whatever they cost. After a cycle that ran out of it, those come first
whose namespaces have cost little in the cycles just before, so that nobody waits for a namespace
whose jobs cost much and find no room; the others go on with what is left.

Beside Spending stand the other accounts that a session keeps. Budgets tell which pods
PodDisruptionBudgets let go, on top of those that go already: for the planner of evictions, whatever
plugins are configured, and for the plugin pdb. Host ports that pods hold are kept by node name.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from vscheduler.core.model import constraints, jobs, snapshot
from vscheduler.core.session import job_state

OPENING_COST = 20
"""Microseconds, about: one job that could have something to ask for, whether it has a turn or not:
sessions are opened with it, and it stands in lines."""

PARTS = 4
"""A namespace has had its part when it has cost this fraction of the budget more than others, or
less where many want something."""


class WorkBudget:
    """Of one cycle. Costs are about microseconds."""

    def __init__(self, budget: int | None, before: Mapping[str, int]) -> None:
        """budget: None is unlimited; before: what namespaces have cost in unfinished cycles."""
        self.work: Counter[str] = Counter()
        """How often something was done, by kind."""
        self.exhausted = False
        """Whether the budget was used up at any time, so that the cycle isn't finished."""
        self.over = False
        """Whether what there is to spend is spent, by now."""
        self.payer = ""
        """The namespace that causes what is done now; empty: nobody."""
        self._budget = self._limit = budget
        self._spent = 0
        self._before = before
        self._now: Counter[str] = Counter()
        self._part: int | None = None
        """What those may have cost who are served first; None: there is no hurry."""

    def hurry(self, unsettled: Sequence[job_state.JobState], tried: Collection[jobs.JobId]) -> None:
        """The cycle goes on after one that wasn't finished, with these jobs, of which some have had
        their turn.
        """
        if self._budget is None:
            return
        self._count(unsettled)
        waiting = {gang.job.namespace for gang in unsettled if gang.job.id not in tried}
        if len(waiting) > 1:
            least = min(map(self._cost, waiting))
            self._part = least + self._budget // (PARTS + 2 * len(waiting))

    def spend(self, kind: str, cost: int) -> None:
        """Count work."""
        self.work[kind] += 1
        self._spent += cost
        self._now[self.payer] += cost
        if self._limit is not None and self._spent >= self._limit:
            self.exhausted = self.over = True

    def grant(self, fraction: int) -> None:
        """From here on there is a half, a quarter, … of the budget at least, whatever was spent
        before: else what comes first could keep the rest from ever being done.
        """
        if self._budget is not None and self._limit is not None:
            self._limit = max(self._limit, self._spent + self._budget // fraction)
            self.over = self._spent >= self._limit

    def part(self, fraction: int) -> Callable[[], bool]:
        """Whether a half, a quarter, … of the budget is spent from here on, or all of it is."""
        budget, end = self._budget, self._spent
        if budget is not None:
            end += budget // fraction
        return lambda: self.over or (budget is not None and self._spent >= end)

    @property
    def hurried(self) -> bool:
        """Whether anybody has to stand back for others."""
        return self._part is not None

    def has_had_its_part(self, namespace: str) -> bool:
        """Whether others come first; in no hurry, nobody does."""
        return self._part is not None and self._cost(namespace) > self._part

    def in_turn(self, waiting: Iterable[job_state.JobState]) -> Iterator[job_state.JobState]:
        """These jobs, as each pays for what is done for it; in a hurry those last whose namespaces
        have had their part by the time that it is their turn.
        """
        later = []
        hurried = self._part is not None
        for gang in waiting:
            if hurried and self.has_had_its_part(gang.job.namespace):
                later.append(gang)
            else:
                self.payer = gang.job.namespace
                yield gang
        for gang in later:
            self.payer = gang.job.namespace
            yield gang
        self.payer = ""

    def carried(self, unsettled: Callable[[], Iterable[job_state.JobState]]) -> Mapping[str, int]:
        """What the next cycle is to know, if it has to go on: the older a cost, the less it counts,
        so that nobody comes last for ever. The jobs are those that this one began with.
        """
        if not self.exhausted:
            return {}
        if not self._before:
            self._count(unsettled())
        names = sorted({*self._before, *self._now} - {""})
        costs = {name: self._before.get(name, 0) // 2 + self._now[name] for name in names}
        return {name: cost for name, cost in costs.items() if cost}

    def costs(self, unsettled: Iterable[job_state.JobState]) -> Mapping[str, int]:
        """By namespace, what this cycle has cost on its account, these jobs included."""
        waiting = Counter([gang.job.namespace for gang in unsettled])
        names = {*waiting, *self._now} - {""}
        return {name: self._now[name] + OPENING_COST * waiting[name] for name in sorted(names)}

    def _count(self, unsettled: Iterable[job_state.JobState]) -> None:
        """What it costs that these jobs are there."""
        for gang in unsettled:
            self._now[gang.job.namespace] += OPENING_COST

    def _cost(self, namespace: str) -> int:
        return self._before.get(namespace, 0) + self._now[namespace]


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


Ports = dict[str, tuple[constraints.HostPort, ...]]


def take_ports(ports: Ports, name: str, task: jobs.Task) -> None:
    """The task takes its ports on this node."""
    if task.pod_class.constraints.ports:
        ports[name] = tuple(sorted((*ports.get(name, ()), *task.pod_class.constraints.ports)))


def give_ports_back(ports: Ports, name: str, task: jobs.Task) -> None:
    """It gives them back; a node without any isn't in the table."""
    if task.pod_class.constraints.ports:
        left = list(ports[name])
        for port in task.pod_class.constraints.ports:
            left.remove(port)
        ports[name] = tuple(left)
        if not left:
            del ports[name]
