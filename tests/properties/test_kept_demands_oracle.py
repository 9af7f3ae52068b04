"""The demand that is kept of unschedulable pods, against sessions without memos.

Shares, node pools and reasons follow from it, and a stale part of it would look right: so it is
compared itself, and not only what comes of it.
"""

from typing import Any

import numpy as np
import pytest

from tests import running
from tests.properties import test_unschedulable_jobs_oracle
from tests.properties.waiting_world import WaitingWorld
from tests.properties.worlds import configurations
from tests.unit.core.placement.unschedulable_cluster import TREE, Around, waiting
from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.core.session.session import Session
from vscheduler.core.shares.demands import Pair
from vscheduler.core.shares.node_domains import UnschedulableDemands
from vscheduler.core.shares.node_pools import NodePools
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import Snapshot

CYCLES = 12

Domains = dict[Pair, int | None]


def kept_demands(opened: Session) -> UnschedulableDemands:
    """What a session found of unschedulable pods."""
    return opened.pools.known.unschedulable


def pairs(opened: Session) -> set[Pair]:
    """All queues and pod classes with pods in demand."""
    return opened.demands.active.keys() | opened.demands.unschedulable.pods.keys()


def domains(opened: Session) -> Domains:
    """The number of the domain of each pair."""
    return {pair: opened.pools.find_domain(*pair) for pair in pairs(opened)}


def requested(pools: NodePools) -> dict[tuple[str, int], tuple[int, dict[str, int]]]:
    """What pods of each queue request in each domain, with the number of pods."""
    return {place: (each.pods, each.amounts) for place, each in pools.requested.items()}


def compare(found: Session, anew: Session) -> None:
    """Nothing differs but who is unschedulable."""
    assert domains(found) == domains(anew)
    assert requested(found.pools) == requested(anew.pools)
    for name in ("masks", "reach", "kinds", "supply", "total", "left_out"):
        assert np.array_equal(getattr(found.pools, name), getattr(anew.pools, name)), name
    for name in ("queues", "held", "pending", "elastic"):
        assert getattr(found.demands, name) == getattr(anew.demands, name), name
    for pair in pairs(found):
        assert found.pools_builder.pending(*pair) == anew.pools_builder.pending(*pair)


def test_kept_demands_are_those_of_all_jobs() -> None:
    """Whatever changes around unschedulable jobs; most cycles know their demand already."""
    known = 0

    def run(taken: Snapshot, configured: Policy) -> CycleResult:
        nonlocal known
        found = cycle.open_session(taken, configured)
        compare(found, cycle.open_session(test_unschedulable_jobs_oracle.active(taken), configured))
        before = found.known_domains.unschedulable
        known += bool(before.counted.pods) and kept_demands(found) is before
        return cycle.run_cycle(taken, configured)

    tree = {
        "tiers": running.tiers(configurations.FLAT),
        **test_unschedulable_jobs_oracle.TREES["preempt"],
    }
    for seed in range(2):
        WaitingWorld(seed, tree).live(run, CYCLES)
    assert known >= 3


def both(around: Around) -> tuple[Session, Session]:
    """The session of the next cycle as it is, and with all jobs active."""
    taken = around.mirror.snapshot(around.now, around.carried)
    active = test_unschedulable_jobs_oracle.active(taken)
    return around.opened(), cycle.open_session(active, around.policy)


RICH = """
    node n1 cpu=8 cordoned label=zone=b   node n2 cpu=8 label=zone=b   node n3 cpu=8 label=zone=c
    queue q   queue r
    job q/a0 min=1 cpu=5 select=zone=b phase=Running n1
    job q/here min=1 cpu=4 phase=Running n2 n3
    job r/as min=1 cpu=3 select=zone=c phase=Inqueue -
    job q/like min=1 cpu=5 phase=Inqueue -
    job q/zone min=1 cpu=5 select=zone=b phase=Inqueue -
    job r/zz min=1 cpu=3 select=zone=c phase=Running n3
"""
"""Pods of one class and queue run and wait; a0 is on a node that takes no more of them."""

PLAIN = """
    node n1 cpu=8   node n2 cpu=8   node n3 cpu=8
    queue q   queue r
    job q/here min=1 cpu=4 phase=Running n2 n3
    job q/like min=1 cpu=9 phase=Inqueue -
    job r/zz min=1 cpu=3 phase=Running n3
"""
"""All pods could use all nodes."""


@pytest.mark.parametrize("gone", [(), ("a0-0",), ("here-0",)])
def test_pods_like_parked_ones(gone: tuple[str, ...]) -> None:
    """Domains come in the order of all jobs, with none of those whose pods count as pinned left
    out.
    """
    around = waiting(RICH, TREE)
    assert {"default/as", "default/zone", "default/like"} <= around.unschedulable
    around.end(*gone)
    compare(*both(around))
    around.change("Queue", "r", status={"state": "Closed"})
    around.cycle()
    compare(*both(around))


OTHERS = {"schedulerName": "another", "nodeName": "n2"}
CORDONED = {"unschedulable": True}


@pytest.mark.parametrize(
    ("kind", "name", "parts"),
    [
        pytest.param("Queue", "r", {"spec": {"weight": 3}}, id="a weight"),
        pytest.param("Queue", "r", {"spec": {"capability": {"cpu": "9"}}}, id="a limit"),
        pytest.param("Queue", "q", {"status": {"state": "Closed"}}, id="a queue is closed"),
        pytest.param("Node", "n3", {"spec": CORDONED}, id="a node that pods would stay on"),
        pytest.param("Node", "n1", {"spec": {}}, id="a node that pods weren't to use"),
        pytest.param("Node", "n2", {"metadata": {"name": "n2", "labels": {}}}, id="a label"),
        pytest.param("Pod", "zz-0", {"status": {"phase": "Succeeded"}}, id="a pod ends"),
        pytest.param("Pod", "here-1", {"status": {"phase": "Failed"}}, id="another pod ends"),
        pytest.param("Pod", "like-0", {"status": {"phase": "Failed"}}, id="a waiting pod ends"),
    ],
)
@pytest.mark.parametrize("picture", [RICH, RICH.replace(" cordoned", ""), PLAIN])
def test_what_lasts_is_derived_anew_after(
    picture: str, kind: str, name: str, parts: dict[str, Any]
) -> None:
    """Nodes, queues and pods change one at a time; twice, as what is kept is kept on."""
    around = waiting(picture, TREE)
    around.cycle()
    compare(*both(around))
    around.change(kind, name, **parts)
    for _ in range(2):
        compare(*both(around))
        around.cycle()


def test_pods_that_come_onto_a_node_they_could_not_use_are_pinned() -> None:
    """Although all others of their class stay where they are."""
    around = waiting(RICH, TREE)
    around.cycle()
    assert not around.opened().pools.pinned.get("r", ())
    pinned = around.opened().pools.pinned["q"].tolist()
    spec = around.documents["Pod", "here-1"]["spec"]
    around.change("Pod", "here-1", spec={**spec, "nodeName": "n1"})
    found, anew = both(around)
    compare(found, anew)
    assert found.pools.pinned["q"].tolist() > pinned
    around.cycle()
    compare(*both(around))


def test_nodes_as_before_a_loss_are_others() -> None:
    """What is known of domains is about the nodes as they are."""
    tree = {**TREE, "actions": "enqueue, allocate, backfill, reclaim"}
    around = waiting(RICH.replace("node n1", "node n0 cpu=9   node n1"), tree)
    around.remove("Node", "n0")
    for _ in range(3):
        around.cycle()
    found, anew = both(around)
    earlier = [each.pools_before(30.0) for each in (found, anew)]
    assert found.known_domains.unschedulable.counted.pods
    assert earlier[0] is not None
    assert earlier[1] is not None
    assert requested(earlier[0]) == requested(earlier[1])
    assert np.array_equal(earlier[0].masks, earlier[1].masks)


def test_what_is_known_ends_with_the_queue_or_the_jobs() -> None:
    """A closed queue's pods aren't in demand; nor are those of a job that is gone."""
    around = waiting(RICH, TREE)
    around.cycle()  # the first with all of them unschedulable from the beginning
    before = around.opened()
    assert kept_demands(before) is before.known_domains.unschedulable
    around.change("Queue", "r", status={"state": "Closed"})
    found, anew = both(around)
    compare(found, anew)
    around.cycle()
    compare(*both(around))
    around.change("Queue", "r", status={"state": "Open"})
    around.cycle()
    around.cycle()
    around.change("Pod", "zone-0", status={"phase": "Failed"})
    found, anew = both(around)
    compare(found, anew)
    assert kept_demands(found) is not found.known_domains.unschedulable
