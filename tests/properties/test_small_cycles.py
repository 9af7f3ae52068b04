"""Small cycles: what they decide is what any cycle decides, and to give one up leaves no trace."""

import random
from collections.abc import Callable

import pytest

from tests import running
from tests.properties import test_unschedulable_jobs_oracle
from tests.properties.waiting_world import WaitingWorld
from tests.properties.worlds import configurations, histories
from tests.properties.worlds.histories import Plan
from tests.properties.worlds.world import Run
from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import Snapshot

BUDGET = 200_000
CYCLES = 8


def digest(result: CycleResult) -> str:
    """A result as text, whatever it cost: an attempt may have found out something already."""
    return running.digest(test_unschedulable_jobs_oracle.shown(result))


class Attempts:
    """Runs cycles after attempts at small ones, and counts what became of these."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.given_up = self.finished = 0
        self.digests: list[str] = []

    def run(self, taken: Snapshot, configured: Policy, budget: int | None = BUDGET) -> CycleResult:
        """One cycle, after up to three attempts that are given up at any point."""
        found = None
        for _ in range(self._chance.randrange(4)):
            most = self._chance.choice((0, 100, 500, 2000, 5000, 50_000))
            found = cycle.run_small_cycle(taken, configured, budget, most=most)
            if found is not None:
                assert found.spent <= most
                self.finished += 1
                break
            self.given_up += 1
        result = cycle.run_cycle(taken, configured, budget)
        if found is not None:
            assert digest(found) == digest(result)
        self.digests.append(digest(result))
        return result if found is None else found


def digests(live: Callable[[Run], object], *, attempts: Attempts | None) -> list[str]:
    """What all cycles of a world decide, with these attempts or without any."""
    found: list[str] = []

    def run(taken: Snapshot, configured: Policy, budget: int | None = BUDGET) -> CycleResult:
        result = cycle.run_cycle(taken, configured, budget)
        found.append(digest(result))
        return result

    live(run if attempts is None else attempts.run)
    return found if attempts is None else attempts.digests


@pytest.mark.parametrize("seed", range(2))
def test_worlds_in_which_jobs_wait(seed: int) -> None:
    """The same world comes to the same with attempts and without."""
    trees = test_unschedulable_jobs_oracle.TREES
    tree = {"tiers": running.tiers(configurations.FLAT), **trees[sorted(trees)[seed % len(trees)]]}

    def live(run: Run) -> None:
        WaitingWorld(seed, tree).live(run, CYCLES)

    attempts = Attempts(seed)
    assert digests(live, attempts=attempts) == digests(live, attempts=None)
    assert attempts.given_up
    assert attempts.finished


@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_worlds_that_keep_changing(configuration: str) -> None:
    """The same with all that users, nodes and the API server do."""

    def live(run: Run) -> None:
        plan = Plan(seed=7, configuration=configuration, cycles=6)
        histories.live(plan, (), run)

    attempts = Attempts(7)
    assert digests(live, attempts=attempts) == digests(live, attempts=None)
    assert attempts.given_up
