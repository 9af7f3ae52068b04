"""Shares are of what queues' pods can use: the case that started it, and others."""

from typing import Any

import pytest

from tests import running
from tests.properties.lives import Life
from tests.scenarios.sharing import BUILT_IN, basis, deserved, losers
from vscheduler.model.decisions import Basis, LimitedBy
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.testing import pictures

WORKERS = "".join(f"node w{number} cpu=15 label=pool=work\n" for number in range(5))
CONTROL_PLANE = "node cp cpu=14500m taint=control-plane=:NoSchedule\n"
TENANTS = "queue a queue b queue c\n"

ELASTIC = """
    job a/ja min=1 w0*15 w1*15 w2*7 -*3
    job b/jb min=1 w2*8 w3*15 w4*14 -*3
    job c/jc min=1 -*40
    """
"""One job each; two tenants have it all."""


def single() -> str:
    """The same, each pod a job of its own."""
    places = [f"w{number // 15}" for number in range(74)] + ["-"] * 6
    lines = [f"job {'ab'[n >= 37]}/p{n:02} min=1 {place}" for n, place in enumerate(places)]
    return "\n".join(lines + [f"job c/p{n} min=1 -" for n in range(80, 120)])


REMEDIES: dict[str, tuple[str, dict[str, Any]]] = {
    "no remedy": ("", BUILT_IN),
    "the capability of root": ("queue root capability=cpu:75\n", BUILT_IN),
    "gang without preemptable": (
        "",
        {
            "actions": "enqueue, allocate, backfill, reclaim",
            "tiers": running.tiers(
                "priority gang:enablePreemptable=false"
                " | drf predicates proportion nodeorder binpack"
            ),
        },
    ),
}
REMEDIES["both"] = (REMEDIES["the capability of root"][0], REMEDIES["gang without preemptable"][1])


@pytest.mark.parametrize("jobs", [ELASTIC, single()], ids=["elastic", "single"])
@pytest.mark.parametrize("remedy", REMEDIES)
@pytest.mark.parametrize("selector", ["", "pool=work"])
def test_three_equal_tenants_get_a_third_each(jobs: str, remedy: str, selector: str) -> None:
    """Volcano gives 29/29/17 or 37/37/1 of the 75 CPU; here nobody needs a remedy, and all work."""
    root, tree = REMEDIES[remedy]
    documents = pictures.documents(WORKERS + CONTROL_PLANE + TENANTS + root + jobs)
    selected = (("pool", "work"),) if selector else ()
    result = running.decide(running.snapshot_of(documents, node_selector=selected), tree)
    assert deserved(result) == {"a": 25, "b": 25, "c": 25}
    assert result.total["cpu"] == 75_000
    assert losers(result) == {"a": 12, "b": 12}
    assert len(result.binds) + len(result.pipelined) == 25
    left_out = [(each.refusal, each.nodes) for each in result.excluded]
    taint = Refusal(RefusalCode.TAINT, "control-plane")
    assert left_out == ([] if selector else [(taint, ("cp",))])
    assert basis(result, "c") == Basis(
        deserved=25_000, usable=75_000, bound=LimitedBy.WEIGHT, weight=1, weights=3
    )


def test_volcano_counts_what_nobody_can_use() -> None:
    """With `compatibility: volcano` the failure is there, so that it is the total that mends it."""
    documents = pictures.documents(WORKERS + CONTROL_PLANE + TENANTS + single())
    tree = {**BUILT_IN, "compatibility": "volcano"}
    result = running.run(documents, tree)
    assert deserved(result) == {"a": 29.833, "b": 29.833, "c": 29.833}
    assert sum(losers(result).values()) < 20


SHARED: dict[str, tuple[str, dict[str, float]]] = {
    "pods of another scheduler are no room": (
        """
        node n1 cpu=10
        queue a queue b queue z
        job a/a -*10 job b/b -*10 job z/z scheduler=other n1*4
        """,
        {"a": 3, "b": 3, "z": 0},
    ),
    "pods that are leaving are": (
        """
        node n1 cpu=10
        queue a queue b queue z
        job a/a -*10 job b/b -*10 job z/z scheduler=other ~n1*4
        """,
        {"a": 5, "b": 5, "z": 0},
    ),
    "a tenant with a pool of its own leaves the rest to others": (
        """
        node n1 cpu=10 label=pool=a   node n2 cpu=10
        queue a queue b
        job a/a select=pool=a -*20 job b/b -*20
        """,
        {"a": 10, "b": 10},
    ),
    "who can use one node only is served there first": (
        """
        node n1 cpu=12 label=pool=a   node n2 cpu=12
        queue a queue b queue c
        job a/a select=pool=a -*20 job b/b -*20 job c/c -*20
        """,
        {"a": 8, "b": 8, "c": 8},
    ),
    "a scarce pool is divided among those who need it": (
        """
        node n1 cpu=6 label=pool=a   node n2 cpu=30
        queue a queue b queue c
        job a/a select=pool=a -*20 job b/b select=pool=a -*20 job c/c -*40
        """,
        {"a": 3, "b": 3, "c": 30},
    ),
    "a class that reaches everything gives way where others can't": (
        """
        node n1 cpu=10 label=pool=a   node n2 cpu=10
        queue a weight=3   queue b
        job a/a select=pool=a -*20 job b/b -*20
        """,
        {"a": 10, "b": 10},
    ),
    "what waits in a closed queue is left to others": (
        """
        node n1 cpu=10
        queue a queue b queue c state=Closed
        job a/a -*20 job b/b -*20 job c/c n1*2 -*20
        """,
        {"a": 4, "b": 4, "c": 2},
    ),
    "an idle guarantee is kept where pods can go": (
        """
        node n1 cpu=10   node cp cpu=10 taint=control-plane=:NoSchedule
        queue a queue b guarantee=cpu:4
        job a/a -*20
        """,
        {"a": 6, "b": 4},
    ),
    "guarantees are raised to, and no more is promised than there is": (
        """
        node n1 cpu=10
        queue a guarantee=cpu:6 queue b queue c
        job a/a -*20 job b/b -*20 job c/c -*20
        """,
        {"a": 6, "b": 2, "c": 2},
    ),
    "what is held elsewhere counts against the capability": (
        """
        node n1 cpu=10   node n2 cpu=4
        queue a capability=cpu:6 queue b
        job a/a -*20 job a/z scheduler=other n2*4 job b/b -*20
        """,
        {"a": 2, "b": 8},
    ),
    "and towards the guarantee": (
        """
        node n1 cpu=10   node n2 cpu=8
        queue a guarantee=cpu:8 queue b
        job a/a -*20 job a/z scheduler=other n2*8 job b/b -*20
        """,
        {"a": 5, "b": 5},
    ),
    "a closed queue keeps nothing that it doesn't hold": (
        """
        node n1 cpu=10
        queue a guarantee=cpu:4 state=Closed queue b
        job a/a n1*1 -*4 job b/b -*20
        """,
        {"a": 1, "b": 9},
    ),
    "the capability of root limits all together": (
        """
        node n1 cpu=10
        queue root capability=cpu:6 queue a queue b
        job a/a -*20 job b/b -*20
        """,
        {"a": 3, "b": 3},
    ),
    "it counts what is held elsewhere, too": (
        """
        node n1 cpu=10   node n2 cpu=4
        queue root capability=cpu:6 queue a queue b queue z
        job a/a -*20 job b/b -*20 job z/z scheduler=other n2*2
        """,
        {"a": 2, "b": 2, "z": 0},
    ),
}


@pytest.mark.parametrize(("picture", "expected"), SHARED.values(), ids=SHARED)
def test_what_is_shared_out(picture: str, expected: dict[str, float]) -> None:
    """Only what queues' pods can use, and to each only what its own can."""
    assert deserved(running.run(pictures.documents(picture), BUILT_IN)) == expected


STRANDED = {
    "cordoned": "cordoned",
    "not ready": "unready",
    "tainted since": "taint=gone=:NoSchedule",
}


@pytest.mark.parametrize("mark", STRANDED.values(), ids=STRANDED)
def test_a_node_that_takes_no_more_makes_nobody_over(mark: str) -> None:
    """What pods hold there is their queue's own; what is idle there isn't shared out."""
    picture = f"""
        node n1 cpu=15 {mark}   node n2 cpu=15   node n3 cpu=15
        queue a queue b queue c
        job a/a n1*10 n2*5 -*5  job b/b n2*10 n3*5 -*5   job c/c n3*10 -*5
        """
    result = running.run(pictures.documents(picture), BUILT_IN)
    assert result.total["cpu"] == 40_000
    assert deserved(result) == {"a": 13.333, "b": 13.333, "c": 13.333}
    assert basis(result, "a").pinned == 10_000
    # Whoever is above it by this is so by a single pod's fraction: b and c would just swap.
    assert sum(losers(result).values()) <= 3
    emptier = picture.replace("n3*10", "n3*9")
    assert losers(running.run(pictures.documents(emptier), BUILT_IN))["a"] <= 2


LENT: dict[str, tuple[str, int]] = {
    "root's capability limits queues that stand side by side": ("queue root capability=cpu:6", 6),
    "what is held elsewhere counts against a queue's own": (
        "queue q capability=cpu:6 job q/z scheduler=other n2*4",
        2,
    ),
    "and against root's": ("queue root capability=cpu:6 job q/z scheduler=other n2*4", 2),
}


@pytest.mark.parametrize("tree", ["", ":enableHierarchy=true"])
@pytest.mark.parametrize(("limit", "count"), LENT.values(), ids=LENT)
def test_capacity_counts_all_that_a_queue_has(limit: str, count: int, tree: str) -> None:
    """The other plugin for queues keeps to the same limits, flat or as a tree."""
    queue = "" if "queue q" in limit else "queue q"
    picture = f"node n1 cpu=10 node n2 cpu=4 {queue} {limit} job q/j min=1 -*10"
    configured = {
        "actions": "allocate",
        "tiers": running.tiers(f"priority gang | predicates capacity{tree}"),
    }
    result = running.run(pictures.documents(picture), configured)
    assert len(result.binds) == count


IN_THE_WAY: dict[str, tuple[str, dict[str, int]]] = {
    "a tenant that could use the control plane as well": (
        f"""
        {WORKERS} node cp cpu=14 taint=control-plane=:NoSchedule
        {TENANTS}
        job a/ja min=1 w0*15 w1*14 -*11   job a/tol min=1 tolerate=control-plane -*20
        job b/jb min=1 w2*15 w3*14 -*2    job c/jc min=1 w4*15 w1*1 w3*1 -*40
        """,
        {"a": 12},
    ),
    "one that took the only pool of another": (
        """
        node n1 cpu=8 label=pool=b   node n2 cpu=8
        queue a queue b
        job a/a min=1 n1*8 -*8   job b/b min=1 select=pool=b -*8
        """,
        {"a": 8},
    ),
    "pods that need no device on the only node that has some": (
        """
        node n1 cpu=8 gpu=4   node n2 cpu=8
        queue a guarantee=cpu:8,nvidia.com/gpu:4   queue b
        job a/a min=4 cpu=2 gpu=1 -*4   job b/b min=1 n1*8
        """,
        {"b": 8},
    ),
    "not who could go nowhere else": (
        """
        node n1 cpu=8 label=pool=b   node n2 cpu=8 label=pool=c
        queue a queue b queue c
        job a/a min=1 select=pool=b n1*4   job b/b min=1 select=pool=b n1*4 -*4
        job c/c min=1 -*8
        """,
        {},
    ),
}


@pytest.mark.parametrize(("picture", "expected"), IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_a_share_that_waits_elsewhere_isnt_kept_here(
    picture: str, expected: dict[str, int]
) -> None:
    """Whoever is within its share, but could have it on nodes that others can't use, gives way;
    its pods that come anew find their places there, and all is quiet.
    """
    life = Life(pictures.documents(picture))
    assert losers(life.cycle(BUILT_IN)) == expected
    results = [life.cycle(BUILT_IN) for _ in range(12)]
    assert all(not result.evicts for result in results)
    for queue in results[-1].queues:
        if queue.entitlement is not None and queue.name in deserved(results[-1]):
            owed = min(queue.request.get("cpu", 0), queue.entitlement.deserved.get("cpu", 0))
            assert queue.allocated.get("cpu", 0) > owed - 1000, queue.name
