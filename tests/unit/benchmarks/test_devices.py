"""Gangs with devices: what one more node, claim or change costs, in calls of functions."""

from dataclasses import replace
from functools import partial

import numpy.ma  # noqa: F401 - np.unique imports it when it is first called, with 30,000 calls
import pytest

from tests.benchmarks.core import cases, devices, timing
from tests.integration import devices as driver
from tests.unit.benchmarks import test_rich
from vscheduler.core import cycle
from vscheduler.core.actions import enqueue
from vscheduler.core.config import policy as policies
from vscheduler.core.model import jobs, snapshot
from vscheduler.core.placement.devices import kinds
from vscheduler.mirror.decode import events

SMALL, LARGE = 50, 400
"""Nodes."""
PER_RUNNING_POD = 150
"""Calls for a pod that has devices, in two cycles."""
PER_WAITING_POD = 50
"""Calls in a cycle for a pod with a claim, before anything has its turn."""
PER_CYCLE = 10
"""Calls for volumes and devices in a cluster that has none."""
SWITCHES = tuple(
    f"predicate.{name}Enable"
    for name in ("VolumeBinding", "VolumeZone", "NodeVolumeLimits", "DynamicResourceAllocation")
)
PER_OTHER_POOL = 6
"""Calls for a pool of 16 devices that is as it was."""


def resting(nodes: int, gangs: int) -> tuple[devices.Cluster, snapshot.Carried]:
    """A cluster in which all gangs run, and what its last cycle remembers."""
    cluster = devices.filled(nodes, gangs)
    carried = snapshot.FRESH
    for _ in range(devices.CYCLES_MAX):
        result = cycle.run_cycle(cluster.snapshot(carried), devices.POLICY, timing.BUDGET)
        cluster.write(result)
        carried = result.carried
        if not (result.binds or result.allocations):
            break
    assert all(not job.counts[jobs.TaskStatus.PENDING] for job in cluster.snapshot().jobs)
    return cluster, carried


def calls_when_a_gang_comes(nodes: int, gangs: int) -> int:
    """Calls until the gang runs, in two cycles."""
    cluster, carried = resting(nodes, gangs)

    def start() -> None:
        cluster.add_gang("late")
        first = cycle.run_cycle(cluster.snapshot(carried), devices.POLICY, timing.BUDGET)
        cluster.write(first)
        second = cycle.run_cycle(cluster.snapshot(first.carried), devices.POLICY, timing.BUDGET)
        assert len(second.binds) == devices.GANG

    return test_rich.calls_of(start)


def calls_until_turns(gangs: int) -> int:
    """Calls to open a cycle and to admit waiting gangs, when a cycle before has read the claims."""
    taken = devices.filled(SMALL, gangs).snapshot()
    cycle.open_session(taken, devices.POLICY)

    def begin() -> None:
        opened = cycle.open_session(taken, devices.POLICY)
        enqueue.Enqueue({}).execute(opened)

    return test_rich.calls_of(begin)


def calls_when_a_slice_changes(nodes: int) -> int:
    """Calls to take in a slice, and of a cycle that gives devices to a gang that has come."""
    cluster, carried = resting(nodes, 1)
    cluster.add_gang("late")
    renewed = driver.a_slice("node-00000", devices.DEVICES, "80Gi")
    renewed["spec"]["pool"]["generation"] = 2

    def change() -> None:
        cluster._show(events.Kind.RESOURCE_SLICE, renewed)
        result = cycle.run_cycle(cluster.snapshot(carried), devices.POLICY, timing.BUDGET)
        assert len(result.allocations) == 1

    return test_rich.calls_of(change)


def test_all_gangs_run() -> None:
    """Each in two cycles, and without a fault."""
    cost = devices.run(8, 6)
    assert cost.cycles == 2


def test_each_node_costs_the_same() -> None:
    """However many there are, until all gangs run; of these there are as many."""
    counts = [test_rich.calls_of(partial(devices.run, nodes, 2)) for nodes in (40, 80, 120)]
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    assert second == pytest.approx(first, rel=0.05)


def test_each_gang_costs_the_same() -> None:
    """However many wait beside it."""
    counts = [test_rich.calls_of(partial(devices.run, 20, gangs)) for gangs in (5, 10, 15)]
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    assert second == pytest.approx(first, rel=0.1)


def test_a_gang_that_comes_costs_the_same_in_a_large_cluster() -> None:
    """Nothing is done for each other node or device, and what is done for each pod that has devices
    is bounded: its class is its own, because of its claim.
    """
    few = calls_when_a_gang_comes(SMALL, 10)
    assert calls_when_a_gang_comes(LARGE, 10) == pytest.approx(few, rel=0.02)
    many = calls_when_a_gang_comes(SMALL, 30)
    assert (many - few) / (20 * devices.GANG) < PER_RUNNING_POD


def test_a_waiting_pod_costs_little_until_its_turn() -> None:
    """Its claim makes it a class of its own, but gangs of such pods share what is found out about
    the nodes that they could use.
    """
    few, many = map(calls_until_turns, (50, 100))
    assert (many - few) / (50 * devices.GANG) < PER_WAITING_POD


def test_each_waiting_pod_is_charged() -> None:
    """With or without a turn, because a cycle looks at the claims of each."""
    costs = []
    for gangs in (50, 100):
        taken = devices.filled(SMALL, gangs).snapshot()
        for _ in range(2):  # the second cycle knows what the claims ask for
            opened = cycle.open_session(taken, devices.POLICY)
            costs.append(opened.work_budget.spent)
    assert costs[3] - costs[1] == 50 * devices.GANG * kinds.KIND_COST


def test_a_pool_that_changes_costs_next_to_nothing_for_others() -> None:
    """A look at each other pool, and none at its devices."""
    few, many = map(calls_when_a_slice_changes, (SMALL, LARGE))
    assert (many - few) / (LARGE - SMALL) < PER_OTHER_POOL


def test_a_cluster_without_claims_pays_next_to_nothing() -> None:
    """A few calls a cycle, however large it is, more than with volumes and devices switched off."""
    counts: list[int] = []
    for nodes in (10, 40):
        taken = cases.equal(nodes, 2 * nodes).snapshot()
        counts += [
            test_rich.calls_of(partial(cycle.run_cycle, taken, policy))
            for policy in (devices.POLICY, without_claims(devices.POLICY)) * 2
        ]
    assert counts[2] - counts[3] == counts[6] - counts[7] <= PER_CYCLE


def without_claims(configured: policies.Policy) -> policies.Policy:
    """The same configuration with volumes and devices switched off in plugin predicates."""
    off = dict.fromkeys(SWITCHES, False)

    def switched(setting: policies.PluginSetting) -> policies.PluginSetting:
        if setting.plugin.name != "predicates":
            return setting
        return replace(setting, arguments={**setting.arguments, **off})

    tiers = tuple(tuple(map(switched, tier)) for tier in configured.tiers)
    return replace(configured, tiers=tiers)
