"""Jobs that cycles leave out, against cycles that go through all of them."""

import dataclasses
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from tests import running
from tests.properties.waiting_world import WaitingWorld
from tests.properties.worlds import configurations
from vscheduler.core import cycle
from vscheduler.core.api.contracts import Plugin
from vscheduler.core.api.contracts import Session as Opened
from vscheduler.core.api.views import JobState
from vscheduler.core.config.policy import PluginSetting, Policy
from vscheduler.core.memo import memos
from vscheduler.core.memo.unschedulable_jobs import UnschedulableGroup
from vscheduler.core.session import unschedulable_pool
from vscheduler.core.session.session import Session
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import Task
from vscheduler.model.queues import Queue
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
        self.unchanged += len(known.unchanged.jobs)
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
    return msgspec.structs.replace(running.whole(result), work={}, costs={}, spent=0)


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


class Moody(Plugin):
    """Answers by name, by the time, and by what was placed before, and declares nothing of it."""

    name = "moody"

    def open(self, session: Opened) -> None:
        """Nothing is placed yet."""
        self._seconds, self._placed = int(session.snapshot.now), 0

    def on_allocate(self, _: Task) -> None:
        """Count."""
        self._placed += 1

    def on_deallocate(self, _: Task) -> None:
        """Count back."""
        self._placed -= 1

    def _mood(self, name: str) -> int:
        """One of five."""
        return zlib.crc32(f"{name} {self._seconds // 2} {self._placed}".encode()) % 5


class MoodyAboutPods(Moody):
    """A pod may start, or may not, for one of two reasons."""

    def allocatable(self, _: Queue, task: Task) -> str | bool | None:
        """Answer as it likes."""
        return ("no", False, None, True, True)[self._mood(task.name)]


class MoodyAboutQueues(Moody):
    """A queue has enough, or has not."""

    def overused(self, queue: Queue) -> str | bool | None:
        """Answer as it likes."""
        return ("no", True, None, False, False)[self._mood(queue.name)]


class MoodyAboutJobs(Moody):
    """A job is valid, or is not."""

    def job_valid(self, state: JobState) -> str | None:
        """Answer as it likes."""
        return ("no", "never", None, None, None)[self._mood(state.job.name)]


@pytest.mark.parametrize("plugin", [MoodyAboutPods, MoodyAboutQueues, MoodyAboutJobs])
def test_jobs_are_left_out_beside_plugins_that_declare_nothing(plugin: type[Plugin]) -> None:
    """Their answers are asked for in each cycle, and everything else is kept."""
    compared, policies = Compared(), dict[int, Policy]()

    def run(taken: Snapshot, configured: Policy) -> CycleResult:
        tiers = ((PluginSetting(plugin=plugin),), *configured.tiers)
        moody = policies.setdefault(id(configured), dataclasses.replace(configured, tiers=tiers))
        return compared.run(taken, moody)

    tree = {"tiers": running.tiers(configurations.FLAT), **TREES["built-in"]}
    worlds = [WaitingWorld(seed, tree) for seed in range(2)]
    for world in worlds:
        world.live(run, CYCLES)
    assert compared.unschedulable > CYCLES
