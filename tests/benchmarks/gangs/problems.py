"""Random gangs that fit, and how many of them vscheduler starts."""

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.properties import gang_manifests, gang_problems
from tests.properties.gang_problems import World
from vscheduler.core import actions, plugins
from vscheduler.core.actions import allocate
from vscheduler.core.config import policy
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

HALVES: Mapping[str, bool] = {"sizes and selectors": False, "rules between pods": True}
"""Whether there are also anti-affinity, affinity, spread and host ports, by the half's name."""

LEAST_PODS, MOST_PODS = 2, 7
LEAST_NODES, MOST_NODES = 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A gang that fits on nodes of its own, and needs all its pods."""

    half: str
    seed: int
    world: World


def gangs(half: str, count: int) -> list[Gang]:
    """Return the first rigid gangs of a half that fit: an exact search has placed each."""
    return list(itertools.islice(_fitting(half), count))


def _fitting(half: str) -> Iterator[Gang]:
    for seed in itertools.count():
        chance = random.Random(f"gangs {half} {seed}")
        world = gang_problems.draw(
            chance,
            pods=chance.randint(LEAST_PODS, MOST_PODS),
            nodes=chance.randint(LEAST_NODES, MOST_NODES),
            rich=HALVES[half],
        )
        rigid = world.least == world.size() and not world.roles
        if rigid and gang_problems.fits(world):
            yield Gang(half=half, seed=seed, world=world)


def starts(gang: Gang, *, searches: bool = True) -> bool:
    """Whether one cycle of the built-in configuration binds the gang, with the default budget."""
    return starts_in_simulate(gang.world, searches=searches)


def starts_in_simulate(world: World, *, searches: bool = True) -> bool:
    """Whether `vscheduler simulate` binds the gang in one cycle: all of it, or nothing."""
    configured = policy.built_in(plugins.PLUGINS, actions.ACTIONS)
    if not searches:
        configured = configured.with_argument("allocate", allocate.SEARCH_STEPS, 0)
    outcome = run.simulate(gang_manifests.documents(world), configured, Options())
    assert outcome.problems == ()
    assert len(outcome.binds) in (0, world.size()), world
    return bool(outcome.binds)
