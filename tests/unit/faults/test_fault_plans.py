import pytest

from tests.faults import plans
from tests.faults.plans import Delay, Freeze, LoseAnswer, LoseRequest, Plan, Reorder, Rule, Struck

LOST = LoseRequest()
DELETE = "DELETE /apis/x/podgroups/a"


def test_the_first_rule_that_fits_strikes() -> None:
    """Order decides; what no rule is about passes."""
    plan = Plan(
        [
            Rule(requests="^DELETE .*/podgroups/", fault=LOST),
            Rule(requests="^DELETE", fault=LoseAnswer()),
        ]
    )
    assert plan.choose(DELETE) == Struck(fault=LOST)
    assert plan.choose("DELETE /api/v1/pods/a") == Struck(fault=LoseAnswer())
    assert plan.choose("GET /apis/x/podgroups/a") is None


def test_a_rule_is_used_up() -> None:
    """The next one takes over."""
    plan = Plan(
        [
            Rule(requests="^DELETE", fault=LOST, at_most=2),
            Rule(requests="^DELETE", fault=Delay(seconds=1), at_most=1),
        ]
    )
    faults = [plan.choose(DELETE) for _ in range(4)]
    assert [fault and fault.fault for fault in faults] == [LOST, LOST, Delay(seconds=1), None]


def test_chance_is_seeded() -> None:
    """The same seed strikes the same requests; about as many as the share says."""

    def struck(seed: int) -> list[bool]:
        plan = Plan([Rule(requests="", fault=LOST, share=0.3)], seed=seed)
        return [plan.choose(DELETE) is not None for _ in range(1000)]

    assert struck(1) == struck(1)
    assert struck(1) != struck(2)
    assert 250 < sum(struck(1)) < 350


def test_what_releases_a_held_request_may_be_about_the_same_object() -> None:
    r"""`\1` stands for what the rule's first group found, letter by letter."""
    fault = Reorder(later=r"^PATCH .*/podgroups/\1$", at_most_seconds=1)
    plan = Plan([Rule(requests="^DELETE .*/podgroups/([^/?]+)", fault=fault)])
    struck = plan.choose("DELETE /x/podgroups/a.b?c=d")
    assert struck is not None
    assert struck.later is not None
    assert struck.later.search("PATCH /x/podgroups/a.b")
    assert not struck.later.search("PATCH /x/podgroups/aab")


def test_every_fault_has_a_bound() -> None:
    """No plan makes a test wait for ever."""
    with pytest.raises(AssertionError):
        Rule(requests="", fault=Freeze(seconds=plans.SECONDS_MAX + 1))
