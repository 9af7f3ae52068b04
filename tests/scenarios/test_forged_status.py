"""What a tenant writes into the status of its own PodGroups is its own queue's business."""

import pytest

from tests import running
from vscheduler.model.jobs import JobId, Phase
from vscheduler.testing import pictures

CONFIGURATIONS = {
    "built-in": "priority gang conformance pdb | overcommit drf predicates proportion nodeorder",
    "capacity": "priority gang | predicates capacity nodeorder",
    "a tree": "priority gang | predicates capacity:enableHierarchy=true nodeorder",
    "both": "priority gang | overcommit predicates capacity:enableHierarchy=true nodeorder",
}
WORLD = """
    node  n1 cpu=10
    queue team capability=cpu:10
    queue evil parent=team capability=cpu:2   queue good parent=team
    job   good/new phase=Pending minresources=cpu:8   job good/late phase=Pending age=-9 -
"""
FORGED = [
    "job evil/forged phase=Inqueue minresources=cpu:9",
    "job evil/forged phase=Inqueue minresources=cpu:1000000",
    "job evil/forged phase=Inqueue min=0 minresources=cpu:9",
    "job evil/forged phase=Running min=0 minresources=cpu:9",
    "job evil/forged phase=Running min=1 minresources=cpu:9 -",
    "job evil/forged phase=Inqueue minresources=cpu:9 scheduler=other",
    "job evil/forged phase=Completed minresources=cpu:9 -",
    "job evil/a phase=Inqueue minresources=cpu:9 job evil/b phase=Inqueue minresources=cpu:9",
]


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("tiers", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_forged_status_keeps_nobody_else_out(tiers: str, forged: str) -> None:
    """A group that says it was admitted claims no more than its queue may have."""
    tree = {"actions": "enqueue, allocate, backfill, reclaim", "tiers": running.tiers(tiers)}
    result = running.run_claimed(pictures.documents(WORLD + forged), tree)
    phases = {group.job: group.phase for group in result.groups}
    assert phases[JobId("default/new")] is Phase.INQUEUE, forged
    assert "default/late-0" in {bind.task.key for bind in result.binds}
    assert result.evicts == ()


@pytest.mark.parametrize("name", ["built-in", "a tree", "both"])
def test_what_was_really_promised_is_kept(name: str) -> None:
    """Within what its queue may have, an admitted group keeps its place."""
    tiers = running.tiers(CONFIGURATIONS[name])
    tree = {"actions": "enqueue, allocate, backfill, reclaim", "tiers": tiers}
    world = WORLD.replace("capability=cpu:2", "capability=cpu:5")
    honest = "job evil/honest phase=Inqueue minresources=cpu:5"
    result = running.run_claimed(pictures.documents(world + honest), tree)
    phases = {group.job: group.phase for group in result.groups}
    assert phases[JobId("default/new")] is Phase.PENDING
    assert phases[JobId("default/honest")] is Phase.INQUEUE


@pytest.mark.parametrize("promise", ["cpu:6", "cpu:1000000", "x.io/none:1"])
@pytest.mark.parametrize("tiers", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_promise_that_cannot_be_kept_keeps_nobody_out_of_the_same_queue(
    tiers: str, promise: str
) -> None:
    """More than the queue's capability, than all nodes, or of what no node has."""
    tree = {"actions": "enqueue, allocate", "tiers": running.tiers(tiers)}
    world = f"""
        node  n1 cpu=10
        queue team capability=cpu:5
        job   team/forged phase=Inqueue minresources={promise}
        job   team/good phase=Pending minresources=cpu:5
    """
    result = running.run_claimed(pictures.documents(world), tree)
    phases = {group.job: group.phase for group in result.groups}
    assert phases[JobId("default/good")] is Phase.INQUEUE
    assert phases[JobId("default/forged")] is Phase.PENDING


@pytest.mark.parametrize("promise", ["cpu:6", "cpu:1000000", "x.io/none:1"])
@pytest.mark.parametrize("tiers", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_running_group_is_promised_no_more_than_there_can_be(tiers: str, promise: str) -> None:
    """One that has its minimum, and asks for more than its queue can ever have."""
    tree = {"actions": "enqueue, allocate", "tiers": running.tiers(tiers)}
    world = f"""
        node  n1 cpu=10
        queue team capability=cpu:5
        job   team/asks-for-more phase=Running min=1 minresources={promise} n1
        job   team/good phase=Pending minresources=cpu:4
    """
    result = running.run_claimed(pictures.documents(world), tree)
    phases = {group.job: group.phase for group in result.groups}
    assert phases[JobId("default/good")] is Phase.INQUEUE
    assert phases[JobId("default/asks-for-more")] is Phase.RUNNING


def test_a_promise_outlives_a_moment_without_nodes() -> None:
    """And is kept when there are as many as before."""
    tree = {"actions": "enqueue", "tiers": running.tiers(CONFIGURATIONS["built-in"])}
    admitted = "queue q job q/a phase=Inqueue minresources=cpu:5"
    for nodes, phase in (
        ("node n1 cpu=10", Phase.INQUEUE),
        ("node n1 cpu=10 unready", Phase.INQUEUE),
        ("node n1 cpu=4", Phase.PENDING),
    ):
        result = running.run_claimed(pictures.documents(f"{nodes} {admitted}"), tree)
        assert {group.phase for group in result.groups} == {phase}, nodes
