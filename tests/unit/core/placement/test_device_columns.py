import pytest

from vscheduler.core.placement.gang_search import device_columns


@pytest.mark.parametrize(
    ("size", "sets"),
    [
        (1, [(0,)]),
        (2, [(0,), (1,), (0, 1)]),
        (5, [(0,), (1,), (2,), (3,), (4,), (0, 1, 2, 3, 4)]),
    ],
)
def test_sets_of_requests_that_are_columns(size: int, sets: list[tuple[int, ...]]) -> None:
    """All of few; of many, the single ones and all together."""
    assert list(device_columns._sets(size)) == sets
    assert len(list(device_columns._sets(4))) == 15
