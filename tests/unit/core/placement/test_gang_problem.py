import pytest

from vscheduler.core.gangs.solver import problem


@pytest.mark.parametrize(
    ("size", "sets"),
    [
        (1, [(0,)]),
        (2, [(0,), (1,), (0, 1)]),
        (5, [(0,), (1,), (2,), (3,), (4,), (0, 1, 2, 3, 4)]),
    ],
)
def test_sets_of_demands_that_are_columns(size: int, sets: list[tuple[int, ...]]) -> None:
    """All of few; of many, the single ones and all together."""
    assert list(problem.demand_sets(size)) == sets
    assert len(list(problem.demand_sets(4))) == 15
