"""Gangs with devices: how work grows with nodes, claims and changes."""

from functools import partial

from tests.benchmarks.core import devices, timing
from tests.benchmarks.core.devices import Cluster
from tests.integration import devices as driver
from tests.unit.benchmarks.growth import FLAT, LINEAR, exponent, work_of
from vscheduler.core import cycle
from vscheduler.core.actions.enqueue import Enqueue
from vscheduler.core.claims.devices import needs
from vscheduler.mirror.decode.events import Kind
from vscheduler.model.jobs import TaskStatus
from vscheduler.model.snapshot import FRESH, Carried

SMALL, LARGE = 50, 400
"""Nodes."""


def resting(nodes: int, gangs: int) -> tuple[Cluster, Carried]:
    """A cluster in which all gangs run, and what its last cycle remembers."""
    cluster = devices.filled(nodes, gangs)
    carried = FRESH
    for _ in range(devices.CYCLES_MAX):
        result = cycle.run_cycle(cluster.snapshot(carried), devices.POLICY, timing.BUDGET)
        cluster.write(result)
        carried = result.carried
        if not (result.binds or result.claims):
            break
    assert all(not job.counts[TaskStatus.PENDING] for job in cluster.snapshot().jobs)
    return cluster, carried


def work_when_a_gang_comes(nodes: int, gangs: int) -> int:
    """The work until the gang runs, in two cycles."""
    cluster, carried = resting(nodes, gangs)

    def start() -> None:
        cluster.add_gang("late")
        first = cycle.run_cycle(cluster.snapshot(carried), devices.POLICY, timing.BUDGET)
        cluster.write(first)
        second = cycle.run_cycle(cluster.snapshot(first.carried), devices.POLICY, timing.BUDGET)
        assert len(second.binds) == devices.GANG

    return work_of(start)


def work_until_turns(gangs: int) -> int:
    """The work to open a cycle and admit waiting gangs, once a cycle before has read the claims."""
    taken = devices.filled(SMALL, gangs).snapshot()
    cycle.open_session(taken, devices.POLICY)

    def begin() -> None:
        opened = cycle.open_session(taken, devices.POLICY)
        Enqueue({}).execute(opened)

    return work_of(begin)


def work_when_a_slice_changes(nodes: int) -> int:
    """The work of taking in a slice, and of a cycle that gives devices to a gang that has come."""
    cluster, carried = resting(nodes, 1)
    cluster.add_gang("late")
    renewed = driver.a_slice("node-00000", devices.DEVICES, "80Gi")
    renewed["spec"]["pool"]["generation"] = 2

    def change() -> None:
        cluster._show(Kind.RESOURCE_SLICE, renewed)
        result = cycle.run_cycle(cluster.snapshot(carried), devices.POLICY, timing.BUDGET)
        assert len(result.claims) == 1

    return work_of(change)


def test_all_gangs_run() -> None:
    """Each in two cycles, and without a fault."""
    cost = devices.run(8, 6)
    assert cost.cycles == 2


def test_work_grows_with_nodes_and_with_gangs() -> None:
    """Until all gangs run."""
    assert exponent(lambda nodes: work_of(partial(devices.run, nodes, 2)), 25, 100) <= LINEAR
    assert exponent(lambda gangs: work_of(partial(devices.run, 20, gangs)), 4, 16) <= LINEAR


def test_a_gang_that_comes_costs_the_same_in_a_large_cluster() -> None:
    """Nothing is done for each other node or device, and little for pods that run."""
    assert exponent(partial(work_when_a_gang_comes, gangs=10), SMALL, LARGE) <= FLAT
    assert exponent(partial(work_when_a_gang_comes, SMALL), 10, 40) <= LINEAR


def test_work_before_anything_has_its_turn_grows_with_waiting_pods() -> None:
    """Their claims make each a class of its own, but what they could use is found out together."""
    assert exponent(work_until_turns, 25, 100) <= LINEAR


def test_each_waiting_pod_is_charged() -> None:
    """With or without a turn, because a cycle looks at the claims of each."""
    costs = []
    for gangs in (50, 100):
        taken = devices.filled(SMALL, gangs).snapshot()
        opened = cycle.open_session(taken, devices.POLICY)
        costs.append(opened.work_budget.spent)
    assert costs[1] - costs[0] == 50 * devices.GANG * (needs.KIND_COST + needs.NEEDS_COST)


def test_a_pool_that_changes_makes_little_work_for_others() -> None:
    """A look at each other pool, and none at its devices."""
    assert exponent(work_when_a_slice_changes, SMALL, LARGE) <= FLAT
