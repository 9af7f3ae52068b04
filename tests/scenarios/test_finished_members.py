"""Gangs of which some pods have succeeded, and whose other pods have lost their nodes."""

import pytest

from tests import running
from tests.scenarios import admitting
from vscheduler.model.decisions import CycleResult
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

PICTURE = """
    node  n1 cpu=10
    queue busy   queue q
    job   busy/o n1*7
    job   q/g phase=Pending minresources=cpu:7 min=7 -*7
    """


def cycle(picture: str, finished: int, **more: str) -> CycleResult:
    """What a cycle decides when so many pods of g have succeeded."""
    documents = pictures.documents(picture)
    for document in documents:
        name = document["metadata"]["name"]
        if document["kind"] == "Pod" and name.startswith("g-") and int(name[2:]) < finished:
            document["status"]["phase"] = "Succeeded"
            document["spec"]["nodeName"] = "n1"
    tree = {
        "actions": "enqueue, allocate, reclaim",
        "tiers": running.tiers(admitting.TIERS),
        **more,
    }
    options = Options(claim_unowned=True, now=pictures.NOW.timestamp())
    (result,) = run.simulate(documents, running.policy_of(tree), options).results
    return result


@pytest.mark.parametrize("phase", ["Pending", "Inqueue", "Unknown"])
def test_the_last_pod_of_a_gang_starts_again_in_a_busy_cluster(phase: str) -> None:
    """Seven cpus aren't free, and needn't be: six pods have succeeded."""
    result = cycle(PICTURE.replace("phase=Pending", f"phase={phase}"), finished=6)
    assert [(bind.task.key, bind.node) for bind in result.binds] == [("default/g-6", "n1")]


def test_with_volcano_s_ways_it_waits_for_room_for_all() -> None:
    """Volcano: GetInqueueResource, and overcommit with all minResources."""
    result = cycle(PICTURE, finished=6, compatibility="volcano")
    assert not result.binds
    assert admitting.phases(result)["g"] == "Pending"


def test_a_cluster_that_shrank_holds_the_rest_of_a_gang() -> None:
    """No more than three cpus are left in the whole cluster."""
    result = cycle("node n1 cpu=3  queue q  job q/g phase=Pending minresources=cpu:7 min=7 -*7", 5)
    assert {bind.task.key for bind in result.binds} == {"default/g-5", "default/g-6"}


def test_others_may_have_what_finished_members_need_no_more() -> None:
    """Two cpus are deserved by one queue, eight by the other, which asks for so much."""
    picture = """
        node  n1 cpu=10
        queue q   queue other
        job   q/g phase=Inqueue minresources=cpu:7 min=7 cpu=2 select=none=such -*7
        job   other/h phase=Pending minresources=cpu:8 min=8 -*8
        """
    result = cycle(picture, finished=6)
    assert len(result.binds) == 8


@pytest.mark.parametrize("volcano", [False, True])
def test_nothing_is_kept_for_a_group_that_runs_by_its_phase_only(volcano: bool) -> None:
    """With a minMember of 0 no pod is missing, and it has no admission that could expire."""
    picture = """
        node  n1 cpu=2
        queue q
        job   q/idle min=0 phase=Running minresources=cpu:2 select=none=such -*2
        job   q/next min=2 phase=Pending minresources=cpu:2 -*2
        """
    more = {"compatibility": "volcano"} if volcano else {}
    assert len(cycle(picture, 0, **more).binds) == (0 if volcano else 2)
