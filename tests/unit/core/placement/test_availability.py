"""Availability: starts that a table of instants and nodes shows are those found one by one."""

import random

import numpy as np
import pytest

from vscheduler.core.placement import availability
from vscheduler.core.placement.availability import Copies

REQUEST = np.array([2, 3, 0])


def by_hand(free: list[list[list[int]]], start: int, last: int) -> int:
    """How many copies fit from one instant until before another one, on the same nodes."""
    nodes = range(len(free[0][0]))
    every = [
        [min(free[0][at][node] // 2, free[1][at][node] // 3) for at in range(start, last)]
        for node in nodes
    ]
    return sum(max(0, min(copies)) for copies in every)


@pytest.mark.parametrize("seed", range(30))
def test_the_first_start_is_that_of_a_search_one_by_one(seed: int) -> None:
    """With what nodes have free at any time, and nodes that may not be used."""
    draw = random.Random(seed)
    instants, nodes, limit = draw.randint(1, 12), draw.randint(1, 5), draw.choice((2, 5, 1e9))
    free = np.array([[[draw.randint(-2, 9) for _ in range(nodes)] for _ in range(instants)]] * 3)
    free[1] += np.array([[draw.randint(0, 6) for _ in range(nodes)] for _ in range(instants)])
    mask = np.array([draw.random() < 0.8 for _ in range(nodes)])
    times = np.cumsum([draw.choice((1.0, 2.0, 4.0)) for _ in range(instants)])
    needed = draw.randint(1, 6)
    copies = Copies(times, free, REQUEST, mask)
    span, rows = slice(0, draw.randint(1, instants)), np.array([draw.randrange(nodes)])
    free[:, span, rows] -= 3
    copies.follow([(span, rows)])
    usable = (free[:, :, mask]).tolist()
    expected = next(
        (
            start
            for start in range(instants)
            if by_hand(usable, start, sum(time < times[start] + limit for time in times)) >= needed
        ),
        None,
    )
    found = copies.first(copies.candidates(needed, limit), needed, limit)
    assert (None if found is None else found[0]) == expected
    if found is not None:
        assert found[1].sum() >= needed
        assert not found[1][~mask].any()


def test_of_many_instants_the_next_ones_and_the_last_are_chosen() -> None:
    """The starts of what is reserved are among them."""
    ends = np.arange(1.0, 101.0)
    chosen = availability._chosen(0.5, [], ends, 20)
    assert len(chosen) <= 20
    assert list(chosen[:10]) == [0.5, *ends[:9]]
    assert chosen[-1] == 100
    assert list(availability._chosen(50, [], ends, 100)) == [*ends[49:]]
