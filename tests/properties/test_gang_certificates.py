"""What the search says of larger gangs, checked by a solver for mixed-integer programs.

The checker shares no code with the search. It knows sizes, node selectors, anti-affinity, host
ports, roles, and limits of queues; affinity and spread are left to the oracle of small worlds.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.properties import gang_columns, gang_problems, gang_solver
from tests.properties.gang_problems import World
from vscheduler.core.gangs.solver import strategy
from vscheduler.core.gangs.solver.problem import Found, Impossible
from vscheduler.core.gangs.solver.strategy import Proof

STEPS = 1000
TIMES = [60, pytest.param(1_500, marks=pytest.mark.at_length)]


def drawn(number: int) -> World:
    """Draw a world of up to 30 pods; half of them with rules or with limits."""
    chance = random.Random(f"certificates/{number}")
    world = gang_problems.draw(
        chance, pods=chance.randint(8, 30), nodes=chance.randint(4, 12), rich=chance.random() < 0.5
    )
    world.pods = [replace(pod, near_by="", spread_by="") for pod in world.pods]
    if chance.random() < 0.3:
        gang_problems.limit(chance, world)
    if chance.random() < 0.3:
        gang_problems.limit_zones(chance, world)
    return world


def with_all_of(world: World, counts: Sequence[int]) -> World:
    """The world with so many pods of each kind, all of which are needed."""
    pods = [replace(each, count=count) for each, count in zip(world.pods, counts, strict=True)]
    return replace(world, pods=pods, least=sum(counts), roles={}, queue=None)


@pytest.mark.parametrize("times", TIMES)
def test_a_solver_agrees(times: int) -> None:
    """On gangs that don't fit, on the pods named, and on each number of pods with one fewer."""
    answers, checked = Counter[str](), 0
    for number in range(times):
        world = drawn(number)
        given = gang_columns.given(world)
        answer = strategy.solve(given, STEPS).answer
        answers[type(answer).__name__] += 1
        if isinstance(answer, Found):
            assert gang_problems.is_valid(world, answer.places), world
        if not isinstance(answer, Impossible):
            continue
        assert not gang_solver.fits(world), world
        proof = Proof(given, STEPS).find()
        if not proof.counts:
            continue
        checked += 1
        assert not gang_solver.fits(with_all_of(world, proof.counts)), (world, proof)
        for kind, count in enumerate(proof.counts if proof.irreducible else ()):
            if count:
                fewer = (*proof.counts[:kind], count - 1, *proof.counts[kind + 1 :])
                assert gang_solver.fits(with_all_of(world, fewer)), (world, proof)
    assert checked
    assert answers["Found"]
    assert answers["CutShort"] < times / 10


def test_a_proof_uses_the_steps_that_the_search_has_left() -> None:
    """After a search of a few steps, a proof of many ends, and no pod can be left out."""
    chance = random.Random("larger/6073")
    size = {"pods": chance.randint(7, 12), "nodes": chance.randint(4, 8)}
    world = gang_problems.draw(chance, **size, rich=True)
    world.pods = [replace(pod, near_by="", spread_by="") for pod in world.pods]
    given = gang_columns.given(world)
    outcome = strategy.solve(given, STEPS)
    proof = Proof(given, strategy.steps_for_proof(STEPS, outcome.steps))
    found = proof.find()
    assert found == Impossible((4, 6), irreducible=True)
    assert STEPS / 2 < outcome.steps + proof.steps <= STEPS * 3 / 2
    for fewer in ((3, 6), (4, 5)):
        assert gang_solver.fits(with_all_of(world, fewer))
