import dataclasses
from collections.abc import Iterable

import pytest

from tests import pictures
from tests.properties.worlds import (
    configurations,
    division_rules,
    eviction_rules,
    generator,
    histories,
    moments,
)
from tests.properties.worlds import world as worlds

SEEDS = 3
"""Of each configuration in every run: 20 s."""

WORLDS = 2000
LARGE_WORLDS = 100
LARGE_CYCLES = 60


def lives_well(plan: histories.Plan) -> None:
    """No rule is broken; prints the command that shows it again."""
    history = histories.live(plan)
    assert not history.problems, str(history)


@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_unkind_worlds_break_no_rule(configuration: str) -> None:
    """A sample, other seeds for each configuration."""
    first = SEEDS * configurations.NAMES.index(configuration)
    for seed in range(first, first + SEEDS):
        lives_well(histories.Plan(seed=seed, configuration=configuration))


def test_shares_are_recounted_in_plain_worlds() -> None:
    """A rule that left every world aside would never be broken."""
    recounted = []

    def listen(moment: moments.Moment) -> Iterable[str]:
        recounted.append(division_rules.demanded(moment) is not None)
        return ()

    histories.live(histories.Plan(seed=0, configuration="built-in", cycles=6), [listen])
    assert all(recounted)


@pytest.mark.parametrize(("seed", "configuration"), [(806, "drf")])
def test_a_world_comes_to_rest_that_once_did_not(seed: int, configuration: str) -> None:
    """Two branches of a tree took a pod from each other in turns."""
    lives_well(histories.Plan(seed=seed, configuration=configuration))


def test_volcanos_way_may_swap_pods_of_a_job_that_cannot_start() -> None:
    """But not for a pod that goes elsewhere, nor at the cost of other jobs."""
    picture = """
        node  n1 cpu=4 pods=2 label=zone=a
        node  n2 cpu=1 pods=9
        queue q
        job   q/gang  min=4 select=zone=a   n1@4 n1@0 -@0*2
        job   q/other min=1 cpu=0           n2
        """
    moment = worlds.World(pictures.documents(picture), "preempt-volcano", 0).step()
    (swap,) = moment.evicts
    assert swap.pod == "default/gang-1"

    def problems(pod: str, node: str) -> list[str]:
        evicts = (dataclasses.replace(swap, pod=pod, node=node),)
        return list(
            eviction_rules.nobody_goes_for_nothing(dataclasses.replace(moment, evicts=evicts))
        )

    assert problems("default/gang-1", "n1") == []
    elsewhere = "VAIN default/gang-1 is evicted for its own job, of which none comes to its node"
    assert problems("default/gang-1", "n2") == [elsewhere]
    others = "VAIN pods are evicted for default/gang, which has 3 of 4"
    assert problems("default/other-0", "n2") == [others]


@pytest.mark.at_length
@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_many_unkind_worlds_break_no_rule(configuration: str) -> None:
    """All of them, each with one configuration."""
    for seed in range(configurations.NAMES.index(configuration), WORLDS, len(configurations.NAMES)):
        lives_well(histories.Plan(seed=seed, configuration=configuration))


@pytest.mark.at_length
@pytest.mark.parametrize("seed", range(LARGE_WORLDS))
def test_large_unkind_worlds_break_no_rule(seed: int) -> None:
    """50 nodes, 10 queues, 80 jobs, for a minute."""
    configuration = configurations.NAMES[seed % len(configurations.NAMES)]
    lives_well(
        histories.Plan(
            seed=seed, configuration=configuration, size=generator.LARGE, cycles=LARGE_CYCLES
        )
    )
