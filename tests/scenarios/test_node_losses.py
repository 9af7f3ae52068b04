"""Nodes that come and go: shares follow at once, evictions after a grace."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests import running
from tests.scenarios.sharing import BUILT_IN, deserved, losers
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH, LastNodes
from vscheduler.testing import pictures


def follow(
    before: str, after: str, seconds: float, tree: Mapping[str, Any] = BUILT_IN
) -> list[CycleResult]:
    """A cycle on the one picture, a cycle on the other a second later, and one after more time."""
    first = running.run(pictures.documents(before), tree)
    results = [first]
    now = pictures.NOW.timestamp()
    for moment in (now + 1, now + 1 + seconds):
        carried = dataclasses.replace(results[-1].carried, nominations={})
        results.append(running.run_at(pictures.documents(after), tree, moment, carried))
    return results


FULL = """
    node n1 cpu=12   node n2 cpu=12   {third}
    queue a queue b queue c
    job a/a n1*12   job b/b n2*12   job c/c {pods}
    """
GONE = {
    "a node leaves": ("node n3 cpu=12", ""),
    "a node is cordoned": ("node n3 cpu=12", "node n3 cpu=12 cordoned"),
    "a node isn't ready": ("node n3 cpu=12", "node n3 cpu=12 unready"),
    "a node is about to be taken away": (
        "node n3 cpu=12",
        "node n3 cpu=12 taint=ToBeDeletedByClusterAutoscaler=1:NoSchedule",
    ),
    "a node shrinks": ("node n3 cpu=12", "node n3 cpu=1"),
}


@pytest.mark.parametrize(("before", "after"), GONE.values(), ids=GONE)
def test_what_is_lost_evicts_nobody_for_a_while(before: str, after: str) -> None:
    """Shares follow at once, evictions after the grace; there is a cycle when it ends."""
    left = "-*12"
    was, at_once, later = follow(
        FULL.format(third=before, pods="-*12"), FULL.format(third=after, pods=left), 30
    )
    assert deserved(was) == {"a": 12, "b": 12, "c": 12}
    shrunk = 25 if "cpu=1" in after.split() else 24
    assert deserved(at_once)["c"] == pytest.approx(shrunk / 3, abs=0.001)
    assert at_once.evicts == ()
    assert at_once.wake_at == pictures.NOW.timestamp() + 31
    assert losers(later) != {}


@pytest.mark.parametrize("seconds", [10.0, 29.0])
def test_what_comes_back_in_time_was_never_gone(seconds: float) -> None:
    """A device plugin restarts: a node has no device for a moment, and pods that use them stay."""
    picture = """
        node n1 cpu=32 gpu=8
        queue a queue b
        job a/a cpu=1 gpu=1 n1*8   job b/b cpu=1 gpu=1 -*8
        """
    documents = pictures.documents(picture)
    calm = {"actions": "allocate", "tiers": BUILT_IN["tiers"]}
    first = running.run(documents, calm)
    now = pictures.NOW.timestamp()
    without = [
        {**document, "status": {**document["status"], "allocatable": {"cpu": "32", "pods": "110"}}}
        if document["kind"] == "Node"
        else document
        for document in documents
    ]
    gone = running.run_at(without, BUILT_IN, now + 1, first.carried)
    assert gone.evicts == ()
    still = running.run_at(without, BUILT_IN, now + 1 + seconds, gone.carried)
    assert still.evicts == ()
    back = running.run_at(documents, calm, now + 2 + seconds, still.carried)
    assert back.carried.node_losses == {}
    assert deserved(back, "nvidia.com/gpu") == {"a": 4, "b": 4}


def test_what_others_held_on_a_node_that_left_isnt_owed() -> None:
    """As if the node were still there means with the pods of other schedulers on it."""
    nodes = "node n1 cpu=12 node n2 cpu=12"
    queues = "queue a queue b job a/a n1*12 job b/b n2*6 -*12"
    third = "node n3 cpu=12 job b/z scheduler=other n3*12"
    was, at_once, _ = follow(f"{nodes} {third} {queues}", f"{nodes} {queues}", 30)
    assert deserved(was) == deserved(at_once) == {"a": 12, "b": 12}
    full = queues.replace("n2*6", "n2*8").replace("n1*12", "n1*12 n2*2")
    was, at_once, _ = follow(f"{nodes} {third} {full}", f"{nodes} {full}", 30)
    assert losers(was) == losers(at_once) == {"a": 2}


def test_a_tenant_that_comes_isnt_kept_waiting_by_a_node_that_left() -> None:
    """Of what it would be owed with the node as well, it gets at once what others have too much."""
    before = "node n1 cpu=12 node n2 cpu=12 node n3 cpu=12 queue a queue b job a/a n1*12 n2*12"
    after = "node n1 cpu=12 node n2 cpu=12 queue a queue b job a/a n1*12 n2*12 job b/b -*20"
    _, at_once, later = follow(before, after, 30)
    assert losers(at_once) == {"a": 6}
    assert losers(later) == {"a": 12}


def at_seconds(tree: Mapping[str, Any], *steps: tuple[float, str]) -> list[Counter[str]]:
    """Who loses pods in cycles at these instants, on these pictures."""
    carried, lost = FRESH, []
    for second, picture in steps:
        now = pictures.NOW.timestamp() + second
        result = running.run_at(pictures.documents(picture), tree, now, carried)
        carried = dataclasses.replace(result.carried, nominations={})
        lost.append(losers(result))
    return lost


WHOLE = "node n3 cpu=12"
CORDONED = "node n3 cpu=12 cordoned"
AGAIN: dict[str, list[tuple[float, str, str]]] = {
    "pods stay on a cordoned node, and are drained later": [
        (0, WHOLE, "n3*12"),
        (5, CORDONED, "n3*12"),
        (60, CORDONED, "-*12"),
        (89, CORDONED, "-*12"),
    ],
    "a little is lost first, the node later": [
        (0, WHOLE, "-*12"),
        (5, "node n3 cpu=11900m", "-*12"),
        (34, "", "-*12"),
        (63, "", "-*12"),
    ],
    "a node that isn't ready leaves, and then its pods": [
        (0, WHOLE, "n3*12"),
        (5, "node n3 cpu=12 unready", "n3*12"),
        (300, "node n3 cpu=12 unready", "-*12"),
        (310, "", "-*12"),
        (339, "", "-*12"),
    ],
    "the clock is put back by an hour": [
        (3600, WHOLE, "-*12"),
        (3601, "", "-*12"),
        (0, "", "-*12"),
    ],
}


@pytest.mark.parametrize("steps", AGAIN.values(), ids=AGAIN)
def test_the_grace_counts_from_what_was_lost_last(steps: list[tuple[float, str, str]]) -> None:
    """Within it nobody is evicted, after it they are, whatever was lost there before."""
    moments = [(at, FULL.format(third=third, pods=pods)) for at, third, pods in steps]
    moments.append((steps[-1][0] + 31, moments[-1][1]))
    *within, after = at_seconds(BUILT_IN, *moments)
    assert all(not lost for lost in within)
    assert after


def test_a_node_that_loses_the_label_that_pods_select_is_missed() -> None:
    """Those who could only go there aren't owed others' room before the grace is over."""
    picture = """
        node n1 cpu=12 label=pool=b   node n2 cpu=12 {label}
        queue a queue b
        job a/a min=1 n1*12   job b/b min=1 select=pool=b -*12
        """
    before, after = picture.format(label="label=pool=b"), picture.format(label="")
    first, at_once, late = at_seconds(BUILT_IN, (0, before), (1, after), (32, after))
    assert not first
    assert not at_once
    assert late == {"a": 12}


def test_the_grace_is_an_argument() -> None:
    """Without any, evictions follow at once."""
    tiers = running.tiers(
        "priority gang conformance pdb | overcommit drf predicates"
        " proportion:proportion.nodeLossGrace=0s nodeorder binpack"
    )
    tree = {"actions": "allocate, reclaim", "tiers": tiers}
    full = FULL.format(third="node n3 cpu=12", pods="-*12")
    _, at_once, _ = follow(full, FULL.format(third="", pods="-*12"), 1, tree)
    assert losers(at_once) == {"a": 4, "b": 4}
    assert at_once.carried == dataclasses.replace(at_once.carried, node_losses={}), (
        "nothing is remembered for nobody"
    )


def test_new_nodes_are_shared_in_the_next_cycle() -> None:
    """An autoscaler adds one."""
    one = "node n1 cpu=6 queue a queue b job a/a -*20 job b/b -*20"
    first = running.run(pictures.documents(one), BUILT_IN)
    assert deserved(first) == {"a": 3, "b": 3}
    second = running.run(
        pictures.documents(f"node n2 cpu=6 {one}"), BUILT_IN, carried=first.carried
    )
    assert deserved(second) == {"a": 6, "b": 6}


def test_figures_of_a_carried_snapshot_stay_small() -> None:
    """What is remembered of nodes is theirs as they were, by reference, and no loss at rest."""
    result = running.run(pictures.documents("node n1 cpu=1 node n2 cpu=1 queue a"), BUILT_IN)
    assert result.carried.node_losses == {}
    assert isinstance(result.carried.seen, LastNodes)
    assert result.carried.seen.nodes.layout.names == ("n1", "n2")
