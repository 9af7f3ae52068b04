"""Who has cost what, and who comes first for that."""

import pytest

from vscheduler.core.session import work_budget
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.work_budget import TooLargeError, WorkBudget
from vscheduler.model.jobs import Job, JobId


def gang(namespace: str, name: str = "j") -> JobState:
    """A job of this namespace."""
    return JobState(
        Job(
            id=JobId(f"{namespace}/{name}"),
            uid=f"{namespace}/{name}",
            namespace=namespace,
            name=name,
            queue="q",
            created=0.0,
        )
    )


A, B, C = gang("a"), gang("b"), gang("c")
BUDGET = 8000
PART = 1000
"""Of two namespaces: the budget over 4 + 2 * 2."""


def hurried(**before: int) -> WorkBudget:
    """A cycle in which a job of each of two namespaces waits, after these costs."""
    made = WorkBudget(BUDGET, before)
    made.resume_round([A, B], frozenset())
    return made


def paid(by: WorkBudget, namespace: str, cost: int) -> None:
    """This namespace causes costs."""
    by.charge(namespace)
    by.spend("work", cost)
    by.charge()


def test_who_has_cost_a_part_more_than_the_least_stands_back() -> None:
    """Before and now count together, and so does that jobs are there."""
    made = hurried(a=PART)
    assert not made.has_had_its_part("a")
    paid(made, "a", 1)
    assert made.has_had_its_part("a")
    assert not made.has_had_its_part("b")
    assert hurried(a=PART + 1).has_had_its_part("a")
    assert not hurried(a=2 * PART, b=PART).has_had_its_part("a")
    crowd = [gang("a", str(number)) for number in range(PART // work_budget.OPENING_COST + 2)]
    made = WorkBudget(BUDGET, {"b": 1})
    made.resume_round([*crowd, B], frozenset())
    assert made.has_had_its_part("a")


def test_a_small_cycle_is_given_up_when_it_costs_more() -> None:
    """Whatever its budget is, and also by the jobs that it would have to go through."""
    made = WorkBudget(BUDGET, {}, small=100)
    made.open(100 // work_budget.OPENING_COST)
    made.spend("work", 100)
    with pytest.raises(TooLargeError):
        made.spend("work", 1)
    with pytest.raises(TooLargeError):
        made.open(100 // work_budget.OPENING_COST + 1)
    unlimited = WorkBudget(None, {}, small=100)
    with pytest.raises(TooLargeError):
        unlimited.spend("work", 101)


def test_nobody_stands_back_without_hurry() -> None:
    """No cycle before this one was cut short, there is no budget, or nobody else waits."""
    fresh = WorkBudget(BUDGET, {})
    paid(fresh, "a", BUDGET)
    unlimited = WorkBudget(None, {"a": BUDGET})
    unlimited.resume_round([A, B], frozenset())
    alone = WorkBudget(BUDGET, {"a": BUDGET})
    alone.resume_round([A, B], frozenset({B.job.id}))
    for made in (fresh, unlimited, alone):
        assert not made.has_had_its_part("a")


def test_jobs_take_turns_by_what_their_namespaces_have_cost() -> None:
    """Those who have had their part by their turn come last, in their order; each pays."""
    made = hurried(a=2 * PART)
    payers = []
    for each in made.in_turn([A, B, gang("a", "k"), C, gang("c", "k")]):
        payers.append((each.job.id, made.payer))
        if each is C:
            made.spend("work", 2 * PART)
    assert payers == [("b/j", "b"), ("c/j", "c"), ("a/j", "a"), ("a/k", "a"), ("c/k", "c")]
    assert made.payer == ""


def test_what_is_left_is_never_less_than_was_granted() -> None:
    """A budget that was used up stays so for the cycle, which isn't finished."""
    made = WorkBudget(BUDGET, {})
    made.spend("work", BUDGET - 1)
    assert (made.over, made.exhausted) == (False, False)
    made.spend("work", 1)
    assert made.over
    assert made.exhausted
    made.grant(2)
    assert (made.over, made.exhausted) == (False, True)
    made.spend("work", BUDGET // 2)
    assert made.over
    most = WorkBudget(BUDGET, {})
    most.grant(2)
    most.spend("work", BUDGET - 1)
    assert not most.over


def test_old_costs_fade() -> None:
    """Each cycle of a round halves what those before it have cost; a finished one ends it."""
    made = hurried(a=800, b=1)
    assert made.carried(list) == {}
    paid(made, "b", BUDGET)
    opening = work_budget.OPENING_COST
    assert made.carried(lambda: [A]) == {"a": 400 + opening, "b": BUDGET + opening}
    first = WorkBudget(BUDGET, {})
    paid(first, "b", BUDGET)
    assert first.carried(lambda: [A]) == {"a": opening, "b": BUDGET}
    assert first.work == {"work": 1}
