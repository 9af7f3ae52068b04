"""Gangs that get their share back from a full cluster: what doesn't grow with the cluster."""

import pytest

from tests.benchmarks.core import cases, starved, timing
from tests.benchmarks.core.clusters import Gang
from tests.unit.benchmarks.growth import FLAT, exponent, work_of
from vscheduler.core import cycle
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH

NODES = 50


def work_for_one_more(nodes: int) -> int:
    """The work of the cycle that evicts pods for one more gang."""
    cluster = cases.starved(nodes, 0)
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    carried, work = FRESH, 0
    for name in ("first", "second"):
        cluster.add(Gang(name=name, requests=[cases.BIG] * 2, queue="starved"))
        taken = cluster.snapshot(carried)
        results: list[CycleResult] = []
        work = work_of(lambda: results.append(cycle.run_cycle(taken, policy)))  # noqa: B023 - called at once
        assert len(results[0].evicts) == 2
        starved.end_victims(cluster, results[0])
        result = cycle.run_cycle(cluster.snapshot(results[0].carried), policy)
        assert len(result.binds) == 2
        cluster.bind(result)
        carried = result.carried
    return work


def test_running_jobs_make_no_work_for_one_more_gang() -> None:
    """Pods that could be evicted are kept from cycle to cycle, and not listed anew."""
    assert exponent(work_for_one_more, NODES, 8 * NODES) <= FLAT


@pytest.mark.parametrize("together", [True, False])
def test_all_gangs_are_served(*, together: bool) -> None:
    """The benchmark itself: each pod is bound in the place of another one."""
    served = starved.serve(cases.starved(NODES, 0), 4, 5, together=together)
    assert served.evicted == 20
    assert len(served.cycles) == (2 if together else 8)
