from collections import Counter

import pytest

from tests.properties.mixed_gangs import World

SEEDS = range(50)
CYCLES = 8


@pytest.mark.parametrize("volcano", [False, True])
def test_gangs_start_whole_with_the_members_that_ask_for_nothing(volcano: bool) -> None:
    """Where pod slots are short as well, in both ways: minima, roles and sub-groups."""
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        world = World(seed, volcano=volcano)
        for number in range(CYCLES):
            result, broken = world.cycle(number)
            assert broken == [], seed
            seen["binds"] += len(result.binds)
            seen["best effort"] += sum(bind.task.best_effort for bind in result.binds)
            seen["evicts"] += len(result.evicts)
    assert seen["best effort"] > 100, seen
    assert seen["binds"] > 2 * seen["evicts"] > 20, seen
