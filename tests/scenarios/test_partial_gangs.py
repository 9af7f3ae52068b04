"""Gangs of which the API server took some binds and refused others."""

import pytest

from tests.scenarios.deciding import Decision, decide, evict


@pytest.mark.parametrize(
    ("scheduled", "decisions"),
    [(90, [evict("half-0"), evict("half-1")]), (20, [])],
    ids=["its time is over", "it isn't yet"],
)
def test_a_new_leader_counts_the_time_that_a_part_of_a_gang_has_had(
    scheduled: int, decisions: list[Decision]
) -> None:
    """It doesn't begin anew with each leader: pods say when they were bound."""
    picture = f"""
        node  n1 cpu=3  node n2 cpu=1
        queue q
        job   q/half min=4 age=99 scheduled={scheduled}  n1 +n2 -
        """
    assert decide(picture, "allocate") == decisions
