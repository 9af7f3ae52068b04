"""Which hook of which plugin a cycle is seen in."""

import threading
from typing import ClassVar

import pytest

from tests import running
from vscheduler.core.api.contracts import Plugin
from vscheduler.daemon.liveness.hook_samples import HookSamples
from vscheduler.daemon.liveness.progress import Cycles


class Slow(Plugin):
    """Waits in a function that its hook calls."""

    name = "slow"
    entered: ClassVar[threading.Event]
    leave: ClassVar[threading.Event]

    def job_valid(self, job: object) -> None:
        """Take a while."""
        del job
        self._wait()

    def _wait(self) -> None:
        self.entered.set()
        self.leave.wait(10)


@pytest.fixture
def samples() -> tuple[HookSamples, Cycles, list[tuple[str, str, float]]]:
    """Samples of cycles with a plugin of one's own, and what they observe."""
    tree = {"actions": "allocate", "tiers": running.tiers("priority slow")}
    policy = running.policy_of(tree, [Slow])
    Slow.entered, Slow.leave = threading.Event(), threading.Event()
    cycles, found = Cycles(), list[tuple[str, str, float]]()
    return HookSamples(cycles, lambda: policy, lambda *seen: found.append(seen)), cycles, found


def test_a_hook_that_takes_long_is_seen(
    samples: tuple[HookSamples, Cycles, list[tuple[str, str, float]]],
) -> None:
    """Although the thread is in a function that the hook calls; afterwards it is no more."""
    made, cycles, found = samples
    number = cycles.handed_on()
    made.look(0.5)  # no thread has begun it

    def run() -> None:
        cycles.begun(number)
        Slow.job_valid(Slow.__new__(Slow), None)
        cycles.ended(number)

    thread = threading.Thread(target=run)
    thread.start()
    assert Slow.entered.wait(10)
    made.look(0.7)
    Slow.leave.set()
    thread.join()
    made.look(0.5)
    assert found == [("slow", "job_valid", 0.7)]


def test_time_between_hooks_counts_for_none(
    samples: tuple[HookSamples, Cycles, list[tuple[str, str, float]]],
) -> None:
    """A cycle is more than its plugins."""
    made, cycles, found = samples
    cycles.begun(cycles.handed_on())
    made.look(0.5)
    assert found == []
