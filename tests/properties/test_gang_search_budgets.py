"""What a search may say that hasn't looked at everything: nothing but what is true."""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from tests.properties import clusters, gang_columns, gang_problems
from tests.properties.gang_problems import World
from vscheduler.core.gangs.solver import strategy
from vscheduler.core.gangs.solver.problem import CutShort, Found, Impossible
from vscheduler.core.gangs.solver.strategy import Proof

TIMES = round(150 * clusters.EXAMPLES_SHARE)
BUDGETS = (0, 1, 2, 3, 5, 8, 13, 21)


def worlds() -> Iterator[World]:
    """Random worlds, half of them with rules between pods."""
    for number in range(TIMES):
        chance = random.Random(f"budgets/{number}")
        yield gang_problems.draw(
            chance, pods=chance.randint(3, 7), nodes=chance.randint(2, 4), rich=number % 2 > 0
        )


def test_nothing_is_proved_by_a_search_that_was_cut_short() -> None:
    """Whatever its steps are: it finds nodes that there are, or a proof that holds, or neither."""
    answers = Counter[str]()
    for world in worlds():
        given, fits = gang_columns.given(world), gang_problems.fits(world)
        for steps in BUDGETS:
            outcome = strategy.solve(given, steps)
            answers[type(outcome.answer).__name__] += 1
            assert outcome.steps <= steps
            if isinstance(outcome.answer, Found):
                assert gang_problems.is_valid(world, outcome.answer.places), world
            assert fits or not isinstance(outcome.answer, Found)
            assert not fits or not isinstance(outcome.answer, Impossible), world
    assert min(answers[each] for each in ("Found", "Impossible", "CutShort")) > TIMES / 10


def test_nothing_is_proved_of_a_problem_that_does_not_show_all() -> None:
    """Its nodes may be used all the same."""
    for world in worlds():
        given = replace(gang_columns.given(world), exact=False)
        answer = strategy.solve(given, None).answer
        assert isinstance(answer, Found if gang_problems.fits(world) else CutShort)


def test_pods_that_are_named_do_not_fit_together_whatever_the_steps() -> None:
    """And it is only said that none can be left out if that was seen."""
    named, sure = 0, 0
    for world in worlds():
        given = gang_columns.given(world)
        if gang_problems.fits(world):
            continue
        for steps in BUDGETS:
            found = Proof(given, steps).find()
            if not found.counts:
                continue
            named += 1
            assert not gang_problems.fits(needing(world, found.counts)), (world, found)
            for kind, count in enumerate(found.counts if found.irreducible else ()):
                sure += 1
                fewer = (*found.counts[:kind], count - 1, *found.counts[kind + 1 :])
                assert not count or gang_problems.fits(needing(world, fewer)), (world, found)
    assert named > TIMES / 10
    assert sure


def needing(world: World, counts: tuple[int, ...]) -> World:
    """The world with so many pods of each kind, all of which are needed."""
    pods = [
        dataclasses.replace(each, count=count)
        for each, count in zip(world.pods, counts, strict=True)
    ]
    return dataclasses.replace(world, pods=pods, least=sum(counts), roles={})
