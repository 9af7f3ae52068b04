"""Cluster autoscalers make a node for a pod that is said to be unschedulable, and for no other."""

from typing import Any

import pytest

from tests import running
from vscheduler.core import actions, plugins
from vscheduler.core.config import policy
from vscheduler.mirror import statuses
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

BUILT_IN: dict[str, Any] = dict(policy.BUILT_IN)
JOB = "queue q {limit} job q/a phase=Pending min=2 {least} {asks} -*2"


def told(result: CycleResult) -> dict[str, str]:
    """What each job's pods are told in their condition PodScheduled, if anything."""
    return {
        status.job: words.message
        for status in result.groups
        for _, words in statuses.pod_words(status)
    }


@pytest.mark.parametrize("least", ["", "minresources=cpu:4"])
def test_a_gang_waits_for_its_nodes_and_starts_when_they_come(least: str) -> None:
    """No node at all, then two: the pods are told first, and bound then."""
    documents = pictures.documents(JOB.format(limit="", least=least, asks="cpu=2"))
    first = running.run(documents, BUILT_IN)
    assert first.binds == ()
    (status,) = first.groups
    assert [task.name for task in status.unplaced] == ["a-0", "a-1"]
    assert status.reason is not None
    assert status.reason.code is ReasonCode.NO_NODES
    assert all(words.message for _, words in statuses.pod_words(status))
    stored = next(iter(running.snapshot_of(documents).jobs)).state
    state = statuses.group_state(status, stored, now=0.0, transition="1")
    assert [(condition.type, condition.status) for condition in state.conditions] == [
        ("Unschedulable", "True")
    ]
    nodes = pictures.documents("node n1 cpu=2 node n2 cpu=2")
    second = running.run([*running.obey(documents, first), *nodes], BUILT_IN, carried=first.carried)
    assert {(bind.task.name, bind.node) for bind in second.binds} == {("a-0", "n1"), ("a-1", "n2")}


@pytest.mark.parametrize("least", ["", "minresources=gpu:2"])
@pytest.mark.parametrize("asks", ["gpu=1", "gpu=1 select=pool=gpu"])
def test_a_pool_of_its_own_comes_up_beside_one_that_is_full(least: str, asks: str) -> None:
    """There are nodes, none with a device."""
    others = "node n1 cpu=1 job q/full min=1 n1"
    documents = pictures.documents(f"{JOB.format(limit='', least=least, asks=asks)} {others}")
    first = running.run(documents, BUILT_IN)
    assert "default/a" in told(first)
    nodes = pictures.documents("node g1 cpu=8 gpu=8 label=pool=gpu")
    second = running.run([*running.obey(documents, first), *nodes], BUILT_IN, carried=first.carried)
    assert [bind.node for bind in second.binds] == ["g1", "g1"]


LIMITS = {
    "the queue's capability": "capability=cpu:3",
    "the queue is closed": "state=Closed",
}


@pytest.mark.parametrize("nodes", ["", "node n1 cpu=1", "node n1 cpu=16"])
@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_no_node_is_made_for_a_group_that_its_queue_refuses(limit: str, nodes: str) -> None:
    """Whether or not the cluster would be too small, too."""
    picture = JOB.format(limit=limit, least="minresources=cpu:4", asks="cpu=2")
    result = running.run(pictures.documents(f"{nodes} {picture}"), BUILT_IN)
    assert [str(group.phase) for group in result.groups] == ["Pending"]
    assert told(result) == {}


def test_no_node_is_made_for_what_a_capability_stops_on_its_way_in() -> None:
    """It asks for no minResources, and isn't admitted: its pods are told nothing."""
    picture = "node n1 cpu=3 queue q capability=cpu:3 job q/a min=2 cpu=2 -*2"
    result = running.run(pictures.documents(picture), BUILT_IN)
    assert [str(group.phase) for group in result.groups] == ["Pending"]
    assert told(result) == {}


def test_nodes_are_made_for_a_queue_that_only_has_its_share() -> None:
    """They are what it lacks."""
    picture = "node n1 cpu=3 queue q job q/a min=2 cpu=2 -*2"
    (status,) = running.run(pictures.documents(picture), BUILT_IN).groups
    assert status.unplaced
    assert status.reason is not None
    assert statuses.pod_reason(status.reason) == "Unschedulable"


@pytest.mark.parametrize("volcano", [False, True])
def test_no_node_is_made_for_a_group_that_a_quota_refuses(volcano: bool) -> None:
    """Its plugin stands in a later tier than the one that finds the cluster full."""
    tree = {
        "actions": "enqueue, allocate",
        "tiers": running.tiers("gang overcommit | predicates | resourcequota"),
    } | ({"compatibility": "volcano"} if volcano else {})
    picture = "quota small cpu=5 used=cpu:4 node n1 cpu=1 " + JOB.format(
        limit="", least="minresources=cpu:8", asks="cpu=2"
    )
    result = running.run(pictures.documents(picture), tree)
    assert [group.reason and group.reason.code for group in result.groups] == [
        ReasonCode.QUOTA_FULL
    ]
    assert told(result) == {}


def test_the_simulator_says_the_same() -> None:
    """By the door that people use."""
    picture = JOB.format(limit="", least="minresources=cpu:4", asks="cpu=2")
    policy_ = policy.built_in(plugins.PLUGINS, actions.ACTIONS)
    outcome = run.simulate(pictures.documents(picture), policy_, Options(cycles=3))
    assert [told(result) for result in outcome.results] == [told(outcome.last)] * 3
    assert told(outcome.last)
    assert outcome.binds == ()
