"""The reading of claims within parts of a cycle's budget."""

import functools

import pytest

from vscheduler.core.claims.devices import reading
from vscheduler.core.claims.devices.reading import Reading, Steps, Unfinished
from vscheduler.core.session.work_budget import TooLargeError, WorkBudget

BUDGET = 1000


def steps(number: int, cost: int = 10) -> Steps[str]:
    """So many steps of this cost, and then an answer."""
    for _ in range(number):
        yield 0
        yield cost
    return "read"


class Cycles:
    """Cycles in which namespaces have a claim read, each its own."""

    def __init__(self, **numbers: int) -> None:
        self.numbers = numbers
        """Of steps, by namespace."""
        self.unfinished = Unfinished()
        self.budget = WorkBudget(BUDGET, {})

    def cycle(self, *names: str) -> list[str]:
        """The namespaces whose claims are read in a cycle that asks for them in this order."""
        self.budget = WorkBudget(BUDGET, {})
        reads = Reading(self.budget, self.unfinished)
        begins = {name: functools.partial(steps, self.numbers[name]) for name in names}
        found = [name for name in names if reads.read(name, name, begins[name])]
        assert reads.is_unfinished is (len(found) < len(names))
        return found

    def costs(self) -> dict[str, int]:
        """What namespaces have paid for in the last cycle."""
        return dict(self.budget.costs(()))


def test_a_claim_is_read_on_where_the_last_cycle_stopped() -> None:
    """A quarter of the budget at a time."""
    cycles = Cycles(a=60)
    assert [cycles.cycle("a") for _ in range(3)] == [[], [], ["a"]]
    assert cycles.costs() == {"a": 100}
    assert not cycles.unfinished.steps


def test_all_together_have_half_of_a_cycle() -> None:
    """Whoever comes first in the first cycle, the next divides it among those that wait."""
    cycles = Cycles(a=10_000, b=10_000, c=10_000, d=1)
    assert cycles.cycle("a", "b", "c", "d") == []
    assert cycles.costs() == {"a": 250, "b": 250}
    assert cycles.cycle("a", "b", "c", "d") == ["d"]
    assert cycles.costs() == {"a": 100, "b": 100, "c": 100, "d": 10}


def test_what_costs_nothing_is_read_at_once() -> None:
    """Although its namespace has had its part."""
    cycles = Cycles(a=10_000, b=0)
    cycles.budget = WorkBudget(BUDGET, {})
    reads = Reading(cycles.budget, cycles.unfinished)
    assert reads.read("a", "costly", lambda: steps(10_000)) is None
    assert reads.read("a", "another", lambda: steps(1)) is None
    assert reads.read("a", "plain", lambda: steps(0)) == "read"
    assert cycles.costs() == {"a": 250}


def test_nothing_is_lost_when_a_small_cycle_is_given_up() -> None:
    """The cycle that takes its place goes on."""
    unfinished = Unfinished()
    small = Reading(WorkBudget(BUDGET, {}, small=50), unfinished)
    with pytest.raises(TooLargeError):
        small.read("a", "it", lambda: steps(20))
    budget = WorkBudget(BUDGET, {})
    assert Reading(budget, unfinished).read("a", "it", lambda: steps(20)) == "read"
    assert budget.spent == 140


def test_half_read_claims_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When there are too many, all are begun anew."""
    monkeypatch.setattr(reading, "UNFINISHED_MAX", 3)
    unfinished = Unfinished()
    for number in range(20):
        reads = Reading(WorkBudget(BUDGET, {}), unfinished)
        assert reads.read("a", number, lambda: steps(1000)) is None
        assert len(unfinished.steps) <= 3
