"""Victims of several plans, of which some needn't go once all plans are made."""

from vscheduler.testing import decide

PICTURE = """
    node  n1 cpu=2
    node  n2 cpu=1
    queue q
    job   q/gang min=2 priority=1 cpu=1  n1 n1
    job   q/alone min=1 priority=1 cpu=1  n2
    job   q/first min=1 priority=9 cpu=1  -
    job   q/second min=1 priority=8 cpu=1  -
    """
TIERS = "priority gang | predicates"


def test_a_gang_that_goes_leaves_room_for_both() -> None:
    """The pod that was to go for the first job stays: both have just enough room."""
    evictions = decide(PICTURE, tiers=TIERS, actions="allocate, preempt").evictions
    assert evictions.keys() == {"gang-0", "gang-1"}


def test_whoever_is_needed_goes() -> None:
    """With one more job there is no room left for it."""
    picture = PICTURE + "job q/third min=1 priority=7 cpu=1  -"
    evictions = decide(picture, tiers=TIERS, actions="allocate, preempt").evictions
    assert evictions.keys() == {"gang-0", "gang-1", "alone-0"}
