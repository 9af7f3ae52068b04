"""Jobs that cycles leave out, against cycles that go through all of them."""

import dataclasses

import pytest

from tests import running
from tests.properties import waiting_world
from tests.properties.worlds.configurations import CAPACITY, FLAT
from vscheduler.core import cycle
from vscheduler.core.config import policy
from vscheduler.core.model import decisions, snapshot
from vscheduler.core.session import parked_jobs


class Compared:
    """Runs each cycle twice: as it is, and with all jobs awake. Counts parked jobs."""

    def __init__(self) -> None:
        self.parked = 0
        """How many jobs were left out, in all cycles together."""

    def run(
        self, taken: snapshot.Snapshot, configured: policy.Policy, budget: int | None = None
    ) -> decisions.CycleResult:
        """One cycle, whose result is the same both ways."""
        result = cycle.run_cycle(taken, configured, budget)
        anew = dataclasses.replace(taken, carried=dataclasses.replace(taken.carried, parked=None))
        slow = cycle.run_cycle(anew, configured, budget)
        assert shown(result) == shown(slow), differences(result, slow)
        opened = cycle.open_session(taken, configured)
        self.parked += len(opened.parking.found.jobs)
        return result


def shown(result: decisions.CycleResult) -> str:
    """A result, whatever it cost."""
    return running.digest(dataclasses.replace(result, work={}, costs={}, spent=0))


TREES = {
    "built-in": {"actions": "enqueue, allocate, backfill, reclaim"},
    "preempt": {"actions": "enqueue, allocate, backfill, preempt, reclaim"},
    "evictions first": {"actions": "enqueue, reclaim, preempt, allocate, backfill"},
    "capacity": {"actions": "enqueue, allocate, backfill, reclaim", "tiers": running.tiers(CAPACITY)},
}
import os
SEEDS = range(int(os.environ.get("LO", 0)), int(os.environ.get("HI", 5)))

@pytest.mark.parametrize("configuration", list(TREES))
def test_worlds(configuration: str) -> None:
    total = 0
    for seed in SEEDS:
        compared = Compared()
        world = waiting_world.WaitingWorld(seed, {"tiers": running.tiers(FLAT), **TREES[configuration]})
        try:
            world.live(compared.run, 20)
        except BaseException:
            print("SEED", configuration, seed)
            raise
        total += compared.parked
    print(configuration, total)
    assert total > 0


def differences(one, other):
    out = []
    for f in dataclasses.fields(one):
        a, b = getattr(one, f.name), getattr(other, f.name)
        if f.name in ("work", "costs", "spent"): continue
        if f.name == "carried":
            out += ["carried." + g.name + repr((getattr(a, g.name), getattr(b, g.name)))[:1500] for g in dataclasses.fields(a) if g.compare and getattr(a, g.name) != getattr(b, g.name)]
        elif f.name == "groups" and a != b:
            out += [repr((x, y))[:6000] for x, y in zip(a, b) if x != y] + [f"{len(a)} {len(b)}"]
        elif a != b:
            out.append(f.name + repr((a, b))[:1500])
    return "\n".join(out)
