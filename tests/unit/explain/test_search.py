"""The search for the smallest size that works, against every threshold and every guess."""

import pytest

from vscheduler.explain import search

LAST = 40


def log2(number: int) -> int:
    """The number of halvings down to 1, rounded up."""
    return (number - 1).bit_length()


@pytest.mark.parametrize("guess", [None, *range(LAST + 2)])
def test_the_nearest_size_is_the_smallest_that_works(guess: int | None) -> None:
    """For each threshold, one of which no size reaches."""
    for least in range(1, LAST + 2):
        asked: list[int] = []

        def works(size: int, least: int = least, asked: list[int] = asked) -> bool:
            asked.append(size)
            return size >= least

        found = search.nearest(works, 1, LAST, guess)
        assert found == (least if least <= LAST else None)
        assert all(1 <= size <= LAST for size in asked)
        if guess is not None:
            assert len(set(asked)) <= 3 + 2 * log2(abs(least - guess) + 1)


def test_sizes_are_tried_one_by_one_at_first() -> None:
    """A size that works although a larger one doesn't is found, where sizes are small."""
    assert search.least(lambda size: size in {3, 7, 20}, 1, 30) == 3
    assert search.least(lambda size: size >= 25, 1, 30) == 25
    assert search.least(lambda size: size > 30, 1, 30) is None
