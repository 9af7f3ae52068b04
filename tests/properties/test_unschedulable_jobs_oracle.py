"""Jobs that cycles leave out, against cycles that go through all of them."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from tests import running
from tests.properties.waiting_world import WaitingWorld
from tests.properties.worlds import configurations
from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.core.memo import memos
from vscheduler.core.memo.unschedulable_jobs import UnschedulableGroup
from vscheduler.core.session import unschedulable_pool
from vscheduler.core.session.session import Session
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import Snapshot

CYCLES = 16

TREES: dict[str, dict[str, Any]] = {
    "built-in": {"actions": "enqueue, allocate, backfill, reclaim"},
    "preempt": {"actions": "enqueue, allocate, backfill, preempt, reclaim"},
    "evictions first": {"actions": "enqueue, reclaim, preempt, allocate, backfill"},
    "capacity": {
        "actions": "enqueue, allocate, backfill, reclaim",
        "tiers": running.tiers(configurations.CAPACITY.replace(":enableHierarchy=true", "")),
    },
}


class Compared:
    """Runs each cycle twice: as it is, and with all jobs active. Counts what is left out."""

    def __init__(self) -> None:
        self.unschedulable = 0
        """How many jobs were left out, unless pods had affinity terms, in all cycles together."""
        self.unchanged = 0
        """How many jobs were left out because they run."""
        self.woken = 0
        """How many jobs were woken in the course of a cycle."""

    def run(self, taken: Snapshot, configured: Policy) -> CycleResult:
        """One cycle, whose result is the same both ways."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Session, "activate_jobs", self._waker())
            result = cycle.run_cycle(taken, configured)
        slow = cycle.run_cycle(active(taken), configured)
        assert shown(result) == shown(slow)
        known = memos.of(taken, configured)
        self.unchanged += len(known.unchanged.by_id)
        pool = unschedulable_pool.of(known.unschedulable, taken, configured, apart=True)
        self.unschedulable += len(pool.found.jobs)
        return result

    def _waker(self) -> Callable[..., None]:
        """Return what wakes jobs, and counts them."""

        def wake(of: Session, groups: Iterable[UnschedulableGroup]) -> None:
            groups = list(groups)
            self.woken += sum(len(group.members) for group in groups)
            WAKE(of, groups)

        return wake


WAKE = Session.activate_jobs


def active(taken: Snapshot) -> Snapshot:
    """The same snapshot, with nothing known of jobs that were left out before."""
    return msgspec.structs.replace(taken, carried=running.forgetful(taken.carried))


def shown(result: CycleResult) -> CycleResult:
    """A result, whatever it cost."""
    return msgspec.structs.replace(result, work={}, costs={}, spent=0)


@pytest.mark.parametrize(
    ("configuration", "seeds"),
    [("built-in", 3), ("preempt", 1), ("evictions first", 1), ("capacity", 2)],
)
def test_jobs_that_are_left_out_change_no_result(configuration: str, seeds: int) -> None:
    """Whatever happens around them, decisions, reasons and statuses are those of all jobs."""
    compared = Compared()
    tree = {"tiers": running.tiers(configurations.FLAT), **TREES[configuration]}
    for seed in range(seeds):
        WaitingWorld(seed, tree).live(compared.run, CYCLES)
    assert compared.unschedulable > seeds * CYCLES
    assert compared.unchanged > seeds * CYCLES
    assert compared.woken >= seeds
