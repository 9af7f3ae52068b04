import pytest

from tests import running
from vscheduler.model.decisions import CycleResult, ReasonCode, Shortage
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

TREE = {"actions": "enqueue", "tiers": running.tiers("resourcequota")}


def decide(picture: str, *, volcano: bool = False) -> CycleResult:
    """One cycle of enqueue."""
    tree = TREE | ({"compatibility": "volcano"} if volcano else {})
    options = Options(claim_unowned=True)
    outcome = run.simulate(pictures.documents(picture), running.policy_of(tree), options)
    assert outcome.problems == ()
    return outcome.last


def admitted(result: CycleResult) -> set[str]:
    """Jobs that are Inqueue."""
    return {group.job.partition("/")[2] for group in result.groups if group.phase == "Inqueue"}


TABLE = {
    "up to the quota": (
        "quota small cpu=4   queue q   job q/a phase=Pending minresources=cpu:4",
        {"a"},
    ),
    "not above it": (
        "quota small cpu=4   queue q   job q/a phase=Pending minresources=cpu:5",
        set(),
    ),
    "what is used counts": (
        "quota small cpu=4 used=cpu:1   queue q   job q/a phase=Pending minresources=cpu:4",
        set(),
    ),
    "what was promised in this cycle counts": (
        """
        quota small cpu=4   queue q
        job   q/a phase=Pending minresources=cpu:3 age=9   job q/b phase=Pending minresources=cpu:2
        job   q/c phase=Pending minresources=cpu:1
        """,
        {"a", "c"},
    ),
    "what it doesn't limit doesn't": (
        "quota small cpu=4   queue q   job q/a phase=Pending minresources=cpu:1,memory:9Gi",
        {"a"},
    ),
    "every quota counts": (
        """
        quota small cpu=4   quota tiny memory=1Gi   queue q
        job   q/a phase=Pending minresources=cpu:1,memory:9Gi
        """,
        set(),
    ),
    "a group that names no minimum passes": (
        "quota small cpu=4 used=cpu:4   queue q   job q/a phase=Pending",
        {"a"},
    ),
}


@pytest.mark.parametrize("volcano", [False, True])
@pytest.mark.parametrize(("picture", "expected"), TABLE.values(), ids=TABLE)
def test_a_namespace_keeps_to_its_quotas(picture: str, expected: set[str], volcano: bool) -> None:
    """In both ways the same."""
    assert admitted(decide(picture, volcano=volcano)) == expected


def test_a_refused_group_is_told_which_quota_and_how_much() -> None:
    """The numbers are those that people find on the quota."""
    result = decide(
        "quota small cpu=4 used=cpu:1   queue q   job q/a phase=Pending minresources=cpu:4"
    )
    (status,) = result.groups
    assert status.reason is not None
    assert status.reason.code is ReasonCode.QUOTA_FULL
    assert status.reason.subject == "small"
    assert status.reason.shortages == (
        Shortage(resource="cpu", requested=4000, allocated=1000, limit=4000, minimum=4000),
    )


def test_pods_that_are_there_are_in_the_quota_already() -> None:
    """Four pods of one cpu are used, and are what the group asks for; Volcano counts them twice."""
    picture = """
        node  n1 cpu=9   quota small cpu=4 used=cpu:4   queue q
        job   q/a phase=Pending minresources=cpu:4 -*4
        """
    assert admitted(decide(picture)) == {"a"}
    assert admitted(decide(picture, volcano=True)) == set()


def test_what_was_promised_before_this_cycle_counts() -> None:
    """The pods of the first aren't made yet; Volcano forgets them from one cycle to the next."""
    picture = """
        quota small cpu=4   queue q
        job   q/a phase=Inqueue minresources=cpu:3
        job   q/b phase=Pending minresources=cpu:2
        """
    assert admitted(decide(picture)) == {"a"}
    assert admitted(decide(picture, volcano=True)) == {"a", "b"}
