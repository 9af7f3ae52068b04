import pytest

from tests.scenarios.deciding import decide, evict, pipeline

TIERS = "priority gang conformance | predicates proportion"


@pytest.mark.parametrize("class_name", ["system-node-critical", "system-cluster-critical"])
def test_critical_pods_stay(class_name: str) -> None:
    """Though their job is of the lowest priority, another one has to make room."""
    picture = f"""
        node  n1 cpu=2
        queue q
        job   q/needed priority=1 class={class_name} n1
        job   q/plain  priority=2 n1
        job   q/urgent priority=9 -
        """
    expected = [evict("plain-0", for_="urgent"), pipeline("urgent-0", "n1")]
    assert decide(picture, "allocate, preempt", TIERS) == expected
    without = [evict("needed-0", for_="urgent"), pipeline("urgent-0", "n1")]
    assert decide(picture, "allocate, preempt", "priority gang | predicates proportion") == without


def test_nobody_goes_where_all_are_critical() -> None:
    """Another queue's claim is no reason either."""
    picture = """
        node  n1 cpu=2
        queue gold
        queue lead
        job   lead/needed class=system-node-critical min=1 n1 n1
        job   gold/wants  -
        """
    assert decide(picture, "allocate, reclaim", TIERS) == []
