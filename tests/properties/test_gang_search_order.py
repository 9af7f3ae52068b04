"""Any solution has an order that begins with one of the pods that the search tries first."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import pytest

from tests.properties import clusters, gang_columns, gang_problems
from tests.properties.gang_problems import Placed, World
from vscheduler.core.gangs.solver import strategy
from vscheduler.core.gangs.solver.depth_first import Order
from vscheduler.core.gangs.solver.problem import Found, Problem

TIMES = round(1000 * clusters.EXAMPLES_SHARE)
STEPS = 1000
FORMERLY_CUT_SHORT = (
    *(693, 2088, 2511, 2685, 3800, 4280, 4797, 4915, 5120, 5450, 5657),
    *(5688, 6324, 6829, 7292, 7360, 8088, 8566, 8933, 8989, 9158, 9326),
)
"""Gangs that a search which tries pods with rules in every order doesn't place within its steps."""


def solved() -> Iterator[tuple[World, Placed]]:
    """Random worlds with rules between pods, and a solution of each."""
    for number in range(TIMES):
        chance = random.Random(f"order/{number}")
        size = {"pods": chance.randint(3, 8), "nodes": chance.randint(2, 4)}
        if number % 2:
            world = gang_problems.draw_that_fits(chance, **size)
        else:
            world = gang_problems.draw(chance, **size, rich=True)
        answer = strategy.solve(gang_columns.given(world), None).answer
        if isinstance(answer, Found):
            yield world, list(answer.places)


def can_be_ordered(
    world: World,
    pods: Placed,
    firsts: Callable[[tuple[int, ...]], set[int]],
) -> bool:
    """Whether all pods come to their nodes in some order, each of a kind that may come first.

    `firsts` says which kinds these are, if pods of some kinds are left.
    """

    @cache
    def ends_well(done: int) -> bool:
        left = [each for each in range(len(pods)) if not done >> each & 1]
        if not left:
            return True
        placed = [pods[each] for each in range(len(pods)) if done >> each & 1]
        first = firsts((done, *sorted({pods[each][0] for each in left})))
        return any(
            gang_problems.takes(world, placed, *pods[each]) and ends_well(done | 1 << each)
            for each in left
            if pods[each][0] in first
        )

    return ends_well(0)


def test_some_order_of_a_solution_begins_with_a_pod_that_is_tried() -> None:
    """Whichever kind is the scarcest: the exact search over all orders finds one, pod by pod."""
    chance, sizes = random.Random("scarcest"), Counter[int]()
    for world, pods in solved():
        given = gang_columns.given(world)
        found, scarcest = Order(given), chance.sample(range(len(world.pods)), len(world.pods))

        def firsts(
            left: tuple[int, ...],
            found: Order = found,
            pods: Placed = pods,
            given: Problem = given,
            scarcest: Sequence[int] = scarcest,
        ) -> set[int]:
            done, *kinds = left
            placed = {kind for each, (kind, _) in enumerate(pods) if done >> each & 1}
            anywhere = [
                rule.first_anywhere and not any(rule.counted[kind] for kind in placed)
                for rule in given.near
            ]
            ranked = np.array([kind for kind in scarcest if kind in kinds], dtype=np.int64)
            first = found.first_of(ranked, anywhere).tolist()
            sizes[len(first)] += 1
            return set(first)

        assert can_be_ordered(world, pods, firsts), (world, pods, scarcest)
    assert sizes[1] > sizes[2] + sizes[3]
    assert sizes[2]
    assert sizes[3]


@pytest.mark.parametrize("number", FORMERLY_CUT_SHORT)
def test_pods_that_others_await_come_first(number: int) -> None:
    """So the search has no need to try them in every order."""
    chance = random.Random(f"hidden/{number}")
    world = gang_problems.draw_that_fits(
        chance, pods=chance.randint(2, 12), nodes=chance.randint(2, 8)
    )
    outcome = strategy.solve(gang_columns.given(world), STEPS)
    assert isinstance(outcome.answer, Found)
    assert gang_problems.is_valid(world, outcome.answer.places)
