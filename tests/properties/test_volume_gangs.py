"""Gangs that compete for volumes: what fits starts, under any names, and a refusal is a proof."""

import random
from collections import Counter

import pytest

from tests import running
from tests.properties import volume_gangs
from tests.properties.volume_gangs import Claim, Pod, Volume, World
from vscheduler.model.decisions import Reason, ReasonCode
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

SEEDS = 150
NAMINGS = 2
CYCLES = 4
POLICY = running.policy_of(
    {
        "actions": "enqueue, allocate, backfill",
        "tiers": running.tiers("priority gang | predicates proportion nodeorder binpack"),
    }
)


def outcome(world: World, chance: random.Random, *, cycles: int) -> tuple[int, Reason | None]:
    """How many pods of the gang start, and why it waits after the first cycle."""
    documents = volume_gangs.documents(world, volume_gangs.renamed(world, chance))
    chance.shuffle(documents)
    found = run.simulate(documents, POLICY, Options(cycles=cycles))
    assert found.problems == ()
    reasons = [group.reason for group in found.results[0].groups if group.job.endswith("/g")]
    started = [bind for bind in found.binds if bind.task.job.endswith("/g")]
    return len(started), reasons[0] if reasons else None


def test_what_fits_starts_under_any_names() -> None:
    """Every assignment of pods to nodes and volumes to claims is tried by the judge."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        chance = random.Random(seed)
        world = volume_gangs.drawn(chance)
        possible = volume_gangs.fits(world)
        seen["possible" if possible else "impossible"] += 1
        for _ in range(NAMINGS):
            started, reason = outcome(world, chance, cycles=CYCLES)
            assert started == (len(world.pods) if possible else 0), (seed, reason)
            if reason is not None and reason.code is ReasonCode.NEVER_FITS:
                assert not possible, seed
                seen["never"] += 1
            proof = None if reason is None else reason.proof
            assert proof is None or proof.proved, (seed, "small gangs are searched to the end")
    assert min(seen["possible"], seen["impossible"]) > SEEDS // 5, seen


TWO = {"n0": 4, "n1": 4}
SMALL_AND_LARGE = {"s": Claim("s", local=True, size=1), "l": Claim("l", local=True, size=3)}
EQUAL = {name: Claim(name, local=True) for name in "abc"}
MADE = {name: Claim(name, local=False) for name in "abc"}
RED = {"r": Claim("r", local=True, colour="red"), "a": Claim("a", local=True)}


@pytest.mark.parametrize(
    "world",
    [
        World(
            cpu=TWO,
            volumes=[Volume("v0", 3, ("n0",)), Volume("v1", 1, ("n1",))],
            claims=SMALL_AND_LARGE,
            pods=[Pod("p0", 1, ("s",)), Pod("p1", 1, ("l",))],
        ),
        World(
            cpu={"n0": 4, "n1": 1},
            volumes=[Volume("v0", 1, ("n0",)), Volume("v1", 1, ("n1",))],
            claims=EQUAL,
            pods=[Pod("p0", 1, ("a",)), Pod("p1", 3, ("b",))],
        ),
        World(  # a volume of both nodes is chosen where the other volumes are too few
            cpu={"n0": 1, "n1": 1},
            volumes=[Volume("v0", 1, ("n0", "n1")), Volume("v1", 1, ("n0",))],
            claims=EQUAL,
            pods=[Pod("p0", 1, ("a",)), Pod("p1", 1, ("b",))],
        ),
        World(  # on one node, the claim without a selector leaves the red volume to the other
            cpu={"n0": 2, "n1": 1},
            volumes=[Volume("v0", 1, ("n0",), "red"), Volume("v1", 1, ("n0",))],
            claims=RED,
            pods=[Pod("p0", 1, ("a",)), Pod("p1", 1, ("r",))],
        ),
        World(  # the large pod comes first, and gives the red volume back
            cpu=TWO,
            volumes=[Volume("v0", 1, ("n0",), "red"), Volume("v1", 1, ("n0",))],
            claims=RED,
            pods=[Pod("p0", 3, ("a",)), Pod("p1", 1, ("r",))],
        ),
        World(  # pods that share a claim go where its volume is
            cpu={"n0": 2, "n1": 2},
            volumes=[Volume("v0", 1, ("n0",)), Volume("v1", 1, ("n1",))],
            claims=EQUAL,
            pods=[Pod("p0", 1, ("a",)), Pod("p1", 1, ("b",)), Pod("p2", 1, ("a",))],
        ),
        World(  # n0 attaches one volume, so the small pods go to n1
            cpu={"n0": 2, "n1": 2},
            limits={"n0": 1},
            claims=MADE,
            pods=[Pod("p0", 1, ("a",)), Pod("p1", 1, ("b",)), Pod("p2", 2, ("c",))],
        ),
        World(  # a claim that two pods share counts once on a node
            cpu={"n0": 3, "n1": 3},
            limits={"n0": 1, "n1": 1},
            claims=MADE,
            pods=[
                *(Pod("p0", 1, ("a",)), Pod("p1", 1, ("b",)), Pod("p2", 1, ("a",))),
                *(Pod("p3", 1), Pod("p4", 1), Pod("p5", 1, ("b",))),
            ],
        ),
    ],
)
def test_gangs_whose_pods_compete_for_volumes_start(world: World) -> None:
    """Under each of several namings."""
    assert volume_gangs.fits(world)
    for seed in range(12):
        started, reason = outcome(world, random.Random(seed), cycles=CYCLES)
        assert started == len(world.pods), (seed, reason)


def test_too_few_volumes_are_a_proof_that_blames_no_node() -> None:
    """The larger pod fits on n0, where another pod of the gang had taken the volume."""
    world = World(
        cpu={"n0": 4, "n1": 1},
        volumes=[Volume("v0", 1, ("n0",)), Volume("v1", 1, ("n1",))],
        claims=EQUAL,
        pods=[Pod("p0", 1, ("a",)), Pod("p1", 1, ("b",)), Pod("p2", 3, ("c",))],
    )
    for seed in range(6):
        started, reason = outcome(world, random.Random(seed), cycles=1)
        assert reason is not None
        assert (started, reason.code) == (0, ReasonCode.NO_ROOM)
        assert reason.proof is not None
        assert reason.proof.proved


def test_what_fits_beside_terminating_pods_starts_at_once() -> None:
    """What fits only once they have gone waits for them, and nothing else does."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        chance = random.Random(seed)
        world = volume_gangs.with_terminating_pods(chance)
        now, later = volume_gangs.fits(world), volume_gangs.fits(world, later=True)
        started, reason = outcome(world, chance, cycles=1)
        assert started == (len(world.pods) if now else 0), seed
        waits = reason is not None and reason.code is ReasonCode.WAITS_FOR_RELEASE
        assert waits == (later and not now), (seed, reason)
        seen["now" if now else "later" if later else "never"] += 1
    assert min(seen.values()) > SEEDS // 10, seen
