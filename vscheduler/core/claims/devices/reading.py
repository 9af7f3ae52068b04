"""Reading: what claims ask for is read within parts of a cycle's budget.

Tenants write the selectors of claims, and each is compiled and evaluated for devices. All of that
is done in steps of known cost. When the claim's namespace has had its part of the cycle, the rest
is left to later cycles, which go on where this one stopped; until then the claim is unread.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Hashable
from typing import Any, Protocol, TypeAlias, TypeVar

Answer = TypeVar("Answer")

Steps: TypeAlias = Generator[int, None, Answer]
"""Work that yields what its last step has cost, in microseconds; 0 before a step that costs."""

STEP_COST = 1000
"""About how many microseconds a step takes at most, and one evaluation or compilation more."""

ALL = 2
"""A half of the budget is for all namespaces together, so that placement has the rest."""

EACH = 4
"""A quarter for each namespace. Those that are left from the last cycle share a half."""

UNFINISHED_MAX = 1000
"""How many claims are kept half read. When full, all are begun anew."""


class Budget(Protocol):
    """The work budget of a cycle; see session.work_budget."""

    over: bool

    def units(self, fraction: int) -> float:
        """Return a half, a quarter, … of the whole budget."""

    def spend(self, operation: str, cost: int) -> None:
        """Count one operation and its cost."""

    def spend_for(self, namespace: str, operation: str, cost: int) -> None:
        """Count one operation and its cost, which this namespace pays for."""


class Unfinished:
    """Claims that are half read, kept from cycle to cycle."""

    def __init__(self) -> None:
        self.steps: dict[Hashable, Steps[Any]] = {}
        self.waiting: set[str] = set()
        """The namespaces whose claims the last cycle left unread."""


class Reading:
    """The reading of a cycle."""

    def __init__(self, budget: Budget, unfinished: Unfinished) -> None:
        self._budget, self._unfinished = budget, unfinished
        others = len(unfinished.waiting)
        self._all = budget.units(ALL)
        self._each = min(budget.units(EACH), self._all / (others + 1))
        unfinished.waiting = set()
        self._spent: defaultdict[str, int] = defaultdict(int)

    @property
    def is_unfinished(self) -> bool:
        """Whether this cycle has left a claim unread."""
        return bool(self._unfinished.waiting)

    def read(
        self, namespace: str, key: Hashable, begin: Callable[[], Steps[Answer]]
    ) -> Answer | None:
        """Return what these steps return; None if the namespace must let others go first.

        `begin` starts the steps. Those of an earlier cycle with this key go on.
        """
        unfinished = self._unfinished.steps
        if key in unfinished and not self._may(namespace):
            self._unfinished.waiting.add(namespace)
            return None
        steps = unfinished.pop(key, None) or begin()
        while True:
            try:
                cost = next(steps)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            if len(unfinished) >= UNFINISHED_MAX:
                unfinished.clear()
            unfinished[key] = steps  # spending may end the cycle
            self._spend(namespace, cost)
            if not self._may(namespace):
                self._unfinished.waiting.add(namespace)
                return None
            del unfinished[key]

    def _spend(self, namespace: str, cost: int) -> None:
        if cost:
            self._spent[namespace] += cost
            self._budget.spend_for(namespace, "devices", cost)

    def _may(self, namespace: str) -> bool:
        """Whether the namespace may go on in this cycle."""
        is_left = self._spent[namespace] < self._each and sum(self._spent.values()) < self._all
        return is_left and not self._budget.over


def finish(steps: Steps[Answer], spend: Callable[[str, int], None]) -> Answer:
    """Return what these steps return, whatever they cost."""
    while True:
        try:
            cost = next(steps)
        except StopIteration as end:
            found: Answer = end.value
            return found
        if cost:
            spend("devices", cost)
