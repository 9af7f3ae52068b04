"""What a cycle learnt is forgotten once a part has changed that it rests on, and no sooner."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests import running
from tests.unit.core.placement import unschedulable_cluster
from tests.unit.core.placement.unschedulable_cluster import Around
from vscheduler.core.memo import memos
from vscheduler.core.memo.memos import Memos
from vscheduler.testing import pictures

TREE: Mapping[str, Any] = {
    "actions": "enqueue, allocate, backfill, reclaim",
    "tiers": running.tiers("priority gang conformance | drf predicates proportion"),
}
PICTURE = """
    node n1 cpu=8   node n2 cpu=8
    queue q   queue r
    job r/there min=2 cpu=4 phase=Running n1 n2
    job q/waits min=1 cpu=7 phase=Inqueue -
    job q/huge min=1 cpu=9 phase=Pending -
"""
EVERY = frozenset({"domains", "never_fitting", "unschedulable", "unchanged", "evictable"})


def known(around: Around) -> Memos:
    """Return what the next cycle knows of earlier ones."""
    return memos.of(around.mirror.snapshot(around.now, around.carried), around.policy)


def filled(found: Memos) -> frozenset[str]:
    """Return the memos that know anything."""
    sizes = {
        "domains": len(found.domains.known.active),
        "never_fitting": len(found.never_fitting.entries),
        "unschedulable": len(found.unschedulable.found.jobs),
        "unchanged": len(found.unchanged.jobs),
        "evictable": len(found.evictable.owner_jobs),
    }
    return frozenset(name for name, size in sizes.items() if size)


def nothing(around: Around) -> None:
    """Only time passes."""
    around.now += 3600.0


def node(around: Around) -> None:
    """A node becomes larger."""
    status = copy.deepcopy(around.documents["Node", "n1"]["status"])
    status["allocatable"]["cpu"] = "9"
    around.change("Node", "n1", status=status)


def queue(around: Around) -> None:
    """A queue has another weight."""
    around.change("Queue", "q", spec={"weight": 5})


def hyper_node(around: Around) -> None:
    """A domain of the network has other nodes."""
    around.show(pictures.documents("hypernode h nodes=n1")[0])


def policy(around: Around) -> None:
    """The configuration is read again."""
    around.policy = running.policy_of(dict(TREE))


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (nothing, EVERY),
        (node, {"unchanged"}),
        (queue, frozenset()),
        (hyper_node, EVERY),
        (policy, {"evictable"}),
    ],
)
def test_each_memo_rests_on_some_parts(change: Callable[[Around], None], left: set[str]) -> None:
    """A change of any of them empties it."""
    around = unschedulable_cluster.waiting(PICTURE, TREE)
    around.cycle()
    around.cycle()
    assert filled(known(around)) == EVERY
    change(around)
    assert filled(known(around)) == left


@pytest.mark.parametrize(("job", "memo"), [("waits", "unschedulable"), ("huge", "never_fitting")])
def test_jobs_that_change_leave_their_memo(job: str, memo: str) -> None:
    """And no other job does."""
    around = unschedulable_cluster.waiting(PICTURE, TREE)
    around.cycle()
    around.end(f"{job}-0")
    assert filled(known(around)) >= EVERY - {memo, "evictable"}
    assert memo not in filled(known(around))
