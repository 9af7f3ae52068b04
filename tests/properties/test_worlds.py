from collections.abc import Iterable

import pytest

from tests.properties.worlds import configurations, division_rules, generator, histories, moments

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
