"""What cycles learn changes no outcome, against simulations and worlds that forget it each time."""

import json

import msgspec
import pytest

from tests import running
from tests.conformance import suite
from tests.properties.worlds import configurations, histories
from tests.properties.worlds.histories import Plan
from tests.unit.core.placement.unschedulable_cluster import free
from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import Snapshot
from vscheduler.simulator import run as simulator

SEEDS = 2
"""Of each configuration in every run."""

CYCLES = 3


@pytest.mark.parametrize("as_volcano", [False, True])
def test_scenarios_give_the_same_bytes(*, as_volcano: bool) -> None:
    """As `vscheduler simulate --no-memos` prints them."""
    for scenario in suite.scenarios():
        parsed = suite.policy_of(scenario, as_volcano=as_volcano)
        if parsed.policy is None:
            continue
        shown = []
        for memos in (True, False):
            options = msgspec.structs.replace(suite.OPTIONS, cycles=CYCLES, memos=memos)
            outcome = simulator.simulate(scenario.objects, parsed.policy, options)
            shown.append(json.dumps(simulator.tree(outcome)))
        assert shown[0] == shown[1], scenario.path


def compared(taken: Snapshot, policy: Policy) -> CycleResult:
    """Run a cycle, whose result is that of one which knows nothing of earlier ones."""
    result = cycle.run_cycle(taken, policy)
    anew = msgspec.structs.replace(taken, carried=running.forgetful(taken.carried))
    expected = cycle.run_cycle(anew, policy)
    assert running.digest(free(result)) == running.digest(free(expected))
    return result


def live(configuration: str, first: int, worlds: int) -> None:
    """Let worlds live with every cycle compared."""
    for seed in range(first, first + worlds):
        plan = Plan(seed=seed, configuration=configuration, cycles=10, meeting=bool(seed % 2))
        histories.live(plan, (), compared, resting=())


@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_worlds_that_forget_decide_the_same(configuration: str) -> None:
    """Other seeds for each configuration."""
    live(configuration, SEEDS * configurations.NAMES.index(configuration), SEEDS)
