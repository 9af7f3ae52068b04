"""What plugins declare changes no outcome, against plugins that are asked anew each time."""

import dataclasses
import json

import pytest
from msgspec.structs import replace

from tests import running
from tests.conformance import suite
from tests.properties import undeclared
from tests.properties.worlds import configurations, histories
from tests.properties.worlds.histories import Plan
from tests.unit.core.placement.unschedulable_cluster import free
from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.core.gangs import assembly
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import Snapshot
from vscheduler.simulator import run as simulator


@pytest.fixture(autouse=True)
def _proofs_rest_on_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without declarations nothing would be called proved, in sentences as well."""
    monkeypatch.setattr(assembly, "_may_prove", lambda _: True)


SEEDS = 2
"""Of each configuration in every run."""

CYCLES = 3


@pytest.mark.parametrize("as_volcano", [False, True])
def test_scenarios_give_the_same_bytes(*, as_volcano: bool) -> None:
    """As `vscheduler simulate` prints them."""
    for scenario in suite.scenarios():
        parsed = suite.policy_of(scenario, as_volcano=as_volcano)
        if parsed.policy is None:
            continue
        options = replace(suite.OPTIONS, cycles=CYCLES)
        shown = []
        for policy in (parsed.policy, undeclared.policy(parsed.policy)):
            outcome = simulator.simulate(scenario.objects, policy, options)
            shown.append(json.dumps(simulator.tree(outcome)))
        assert shown[0] == shown[1], scenario.path


def compared(snapshot: Snapshot, policy: Policy) -> CycleResult:
    """Run a cycle, whose result is the same without declarations."""
    result = cycle.run_cycle(snapshot, policy)
    expected = cycle.run_cycle(snapshot, undeclared.policy(policy))
    assert decisions(result) == decisions(expected)
    return result


def decisions(result: CycleResult) -> str:
    """A result as text, whatever it cost, and whichever searches for gangs it took."""
    carried = dataclasses.replace(result.carried, gang_searches={})
    return running.digest(replace(free(result), carried=carried))


def live(configuration: str, first: int, worlds: int, *, claiming: bool = False) -> None:
    """Let worlds live with every cycle compared."""
    for seed in range(first, first + worlds):
        plan = Plan(seed=seed, configuration=configuration, cycles=10, meeting=bool(seed % 2))
        plan = dataclasses.replace(plan, claiming=claiming)
        histories.live(plan, (), compared, resting=())


@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_worlds_without_declarations_decide_the_same(configuration: str) -> None:
    """Other seeds for each configuration; the last world has volumes and devices."""
    first = SEEDS * configurations.NAMES.index(configuration)
    live(configuration, first, SEEDS)
    live(configuration, first + SEEDS, 1, claiming=True)


@pytest.mark.parametrize(("configuration", "seed"), [("built-in", 65)])
def test_a_world_that_was_decided_otherwise(configuration: str, seed: int) -> None:
    """A joint search took a node whose pods may not be evicted, as nobody had said so of them."""
    live(configuration, seed, 1)
