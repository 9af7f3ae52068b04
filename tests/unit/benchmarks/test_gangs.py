"""The gangs of the comparison with kube-scheduler's gang scheduling, and its table."""

from collections import Counter

import pytest

from sandbox.contents import NATIVE_POD_GROUPS
from tests.benchmarks.gangs import __main__ as bench
from tests.benchmarks.gangs import peer, problems
from tests.benchmarks.gangs.__main__ import Verdict
from tests.properties import gang_manifests, gang_problems

COUNT = 6


@pytest.mark.parametrize("half", problems.HALVES)
def test_gangs_follow_from_their_seeds_and_need_all_their_pods(half: str) -> None:
    """Each fits, and vscheduler starts it."""
    found = problems.gangs(half, COUNT)
    assert found == problems.gangs(half, COUNT)
    for gang in found:
        assert gang.world.least == gang.world.size() in range(2, 8)
        assert not gang.world.roles
        assert gang_problems.fits(gang.world)
        assert problems.starts(gang)


def test_kube_scheduler_gets_the_same_nodes_and_pods() -> None:
    """Under names of their own, with a PodGroup of its API, which the pods name."""
    (gang,) = problems.gangs("rules between pods", 1)
    ours = gang_manifests.documents(gang.world)
    theirs = peer.as_kubernetes(ours, 7)
    assert Counter(each["kind"] for each in theirs) == Counter(each["kind"] for each in ours)
    for one, other in zip(ours, theirs, strict=True):
        assert other["metadata"]["name"] == f"w7-{one['metadata']['name']}"
        assert other["metadata"].get("labels") == one["metadata"].get("labels")
        match other["kind"]:
            case "Node":
                assert other["status"] == one["status"]
            case "Pod":
                joined = {"schedulingGroup": {"podGroupName": "w7-g"}, "schedulerName": peer.NAME}
                assert other["spec"] == one["spec"] | joined
            case "PodGroup":
                policy = {"gang": {"minCount": gang.world.size()}}
                assert other["apiVersion"] == NATIVE_POD_GROUPS.api_version
                assert other["spec"] == {"schedulingPolicy": policy}


def test_the_table_counts_first_attempts_apart() -> None:
    """A row for each half that was measured, and one for all."""
    half = next(iter(problems.HALVES))
    verdicts = [
        Verdict(
            half=half,
            seed=seed,
            pods=2,
            nodes=2,
            vscheduler=True,
            without_search=seed == 0,
            kube_scheduler=tried,
        )
        for seed, tried in enumerate([(True,), (False, True), (False, False), (False, False)])
    ]
    lines = list(bench.table(verdicts, 2))
    assert "in 2 attempts" in lines[0]
    assert lines[2:] == [
        f"| {half} | 4 | 1 (25%) | 2 (50%) | 4 (100%) | 1 (25%) |",
        "| all | 4 | 1 (25%) | 2 (50%) | 4 (100%) | 1 (25%) |",
    ]
