"""The search for whole gangs, against an oracle that tries everything."""

import random
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest

from tests import running
from tests.properties import clusters, gang_columns, gang_manifests, gang_problems
from tests.properties.gang_problems import Node, Pods, World
from vscheduler.core.gangs import attempt
from vscheduler.core.gangs.solver import strategy
from vscheduler.core.gangs.solver.problem import CutShort, Found, Impossible
from vscheduler.core.gangs.solver.strategy import Proof
from vscheduler.model.decisions import ReasonCode
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

SHAPES = {
    "sizes and selectors": (False, False),
    "rules between pods": (True, False),
    "limits of the queue": (False, True),
    "limits and rules": (True, True),
}
"""Whether there are rules between pods, and limits of the queue."""
TIMES = 1000
STEPS = 1000


@pytest.fixture(params=SHAPES)
def worlds(request: pytest.FixtureRequest) -> Iterator[World]:
    """Random worlds of one shape: 2 to 7 pods, 2 to 4 nodes."""
    return drawn(request.param)


def drawn(shape: str) -> Iterator[World]:
    """Draw the worlds of a shape."""
    rich, limited = SHAPES[shape]
    for number in range(round(TIMES * clusters.EXAMPLES_SHARE)):
        chance = random.Random(f"{shape}/{number}")
        size = {"pods": chance.randint(2, 7), "nodes": chance.randint(2, 4)}
        world = gang_problems.draw(chance, **size, rich=rich)
        yield gang_problems.limit(chance, world) if limited else world


def without(world: World, counts: tuple[int, ...]) -> World:
    """The world with so many pods of each kind, all of which are needed."""
    pods = [replace(each, count=count) for each, count in zip(world.pods, counts, strict=True)]
    return replace(world, pods=pods, least=sum(counts), roles={})


def test_a_gang_is_placed_if_it_fits(worlds: Iterator[World]) -> None:
    """Without a budget, each gang that fits is placed, and no other."""
    for world in worlds:
        answer = strategy.solve(gang_columns.given(world), None).answer
        assert isinstance(answer, Found) == gang_problems.fits(world), world
        if isinstance(answer, Found):
            assert gang_problems.is_valid(world, answer.places), world


def test_limits_on_some_nodes_take_part() -> None:
    """What a queue may use of each zone; most of all where zones have more than that."""
    placed = 0
    for world in drawn("rules between pods"):
        limited = gang_problems.limit_zones(random.Random(repr(world)), world)
        answer = strategy.solve(gang_columns.given(limited), None).answer
        assert isinstance(answer, Found) == gang_problems.fits(limited), limited
        if isinstance(answer, Found):
            assert gang_problems.is_valid(limited, answer.places), limited
            placed += 1
    assert placed


def test_a_proof_names_pods_that_do_not_fit_together(
    worlds: Iterator[World],
) -> None:
    """The named pods don't fit by themselves; without any one of them, if it says so, they do."""
    named = 0
    for world in worlds:
        given = gang_columns.given(world)
        if not isinstance(strategy.solve(given, None).answer, Impossible):
            continue
        found = Proof(given, None).find()
        helped = any(pod.near_by for pod in world.pods)  # without the others, some fit nowhere
        some = world.least < world.size() or world.queue is not None
        assert bool(found.counts) != (helped or some)
        if not found.counts:
            continue
        named += 1
        assert not gang_problems.fits(without(world, found.counts)), world
        assert found.irreducible
        for kind, count in enumerate(found.counts):
            if count:
                fewer = (*found.counts[:kind], count - 1, *found.counts[kind + 1 :])
                assert gang_problems.fits(without(world, fewer)), world
    assert named or world.queue is not None


def test_simulate_binds_a_gang_if_it_fits(worlds: Iterator[World]) -> None:
    """From manifests, with the default budget, what the oracle places starts in one cycle."""
    codes, proofs = Counter[ReasonCode](), 0
    for world in worlds:
        plugins = "predicates nodeorder binpack" + (" capacity" if world.queue else "")
        tiers = running.tiers(f"priority gang | {plugins}")
        configured = running.policy_of({"actions": "allocate", "tiers": tiers})
        outcome = run.simulate(gang_manifests.documents(world), configured, Options())
        assert outcome.problems == ()
        fits = gang_problems.fits(world)
        assert (len(outcome.binds) >= world.least) == fits, world
        assert bool(outcome.binds) == fits, world
        reason = outcome.last.groups[0].reason
        if not fits:
            assert reason is not None
            proofs += reason.proof is not None
            assert reason.proof is None or reason.proof.proved, world
            codes[reason.code] += 1
            assert reason.code in expected(world), (world, reason)
    assert proofs
    assert codes[ReasonCode.NO_ROOM]
    assert bool(codes[ReasonCode.QUEUE_OVER_SHARE]) == (world.queue is not None)


def expected(world: World) -> Collection[ReasonCode]:
    """Why a gang that doesn't fit may be said to wait: for its queue, if that is in the way."""
    about_nodes = {ReasonCode.NO_ROOM, ReasonCode.NEVER_FITS}
    over_share = {ReasonCode.QUEUE_OVER_SHARE}
    if world.queue is None:
        return about_nodes
    if world.least == world.size():  # then it is enough that the queue may not have any one of them
        return about_nodes | over_share
    anywhere = Node(free=[10**6] * 3, zone=0, disk="")
    pods = [Pods(count=pod.count, request=pod.request) for pod in world.pods]
    if gang_problems.fits(replace(world, nodes=[anywhere], pods=pods)):
        return about_nodes
    return over_share if gang_problems.fits(replace(world, queue=None)) else about_nodes


@pytest.mark.parametrize(
    "times", [400, pytest.param(10_000, marks=pytest.mark.at_length)], ids=["some", "many"]
)
def test_a_gang_that_hides_a_solution_is_placed(times: int) -> None:
    """Larger ones, with all the rules that the hidden solution keeps: each within the steps that a
    search has in several cycles, and all but one in 1,000 within those of one.
    """
    in_one_cycle = 0
    for number in range(times):
        chance = random.Random(f"hidden/{number}")
        world = gang_problems.draw_that_fits(
            chance, pods=chance.randint(2, 12), nodes=chance.randint(2, 8)
        )
        given, cycles = gang_columns.given(world), 1
        outcome = strategy.solve(given, STEPS)
        while isinstance(outcome.answer, CutShort) and cycles < attempt.CYCLES_MAX:
            outcome = strategy.solve(given, STEPS, outcome.failed)
            cycles += 1
        assert isinstance(outcome.answer, Found), world
        assert gang_problems.is_valid(world, outcome.answer.places), world
        in_one_cycle += cycles == 1
    assert in_one_cycle >= 0.999 * times
