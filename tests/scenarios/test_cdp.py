import pytest

from tests.scenarios.deciding import Decision, decide, evict, pipeline

TIERS = "priority gang cdp | predicates proportion"
FIRST = [evict("one-0", for_="urgent"), pipeline("urgent-0", "n1")]
SECOND = [evict("two-0", for_="urgent"), pipeline("urgent-0", "n1")]


@pytest.mark.parametrize(
    ("cooldown", "decisions"),
    [("1h", SECOND), ("5m", FIRST)],
    ids=["it has just found its place", "its time is over"],
)
def test_a_pod_keeps_its_place_for_a_while(cooldown: str, decisions: list[Decision]) -> None:
    """The job of the lowest priority would go first, if it weren't for its cool-down time."""
    picture = f"""
        node  n1 cpu=2
        queue q
        job   q/one priority=1 scheduled=600 annotation=volcano.sh/cooldown-time={cooldown} n1
        job   q/two priority=2 scheduled=600 n1
        job   q/urgent priority=9 -
        """
    assert decide(picture, "allocate, preempt", TIERS) == decisions
