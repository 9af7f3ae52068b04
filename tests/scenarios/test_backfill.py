import pytest

from tests import pictures, running
from tests.scenarios.deciding import bind, decide
from vscheduler.core.model import decisions

TIERS = "priority gang | predicates proportion nodeorder"

TABLE = {
    "a full node takes pods that ask for nothing": (
        """
        node  n1 cpu=1
        queue q
        job   q/full n1
        job   q/idle cpu= -*2
        """,
        [bind("idle-0", "n1"), bind("idle-1", "n1")],
    ),
    "not without a pod slot": (
        """
        node  n1 cpu=4 pods=2
        queue q
        job   q/full n1
        job   q/idle cpu= -*2
        """,
        [bind("idle-0", "n1")],
    ),
    "a gang that needs more slots than there are gets none": (
        """
        node  n1 cpu=4 pods=2
        queue q
        job   q/full n1
        job   q/idle cpu= min=2 -*2
        """,
        [],
    ),
    "a role that needs more slots than there are keeps the others out": (
        """
        node  n1 cpu=4 pods=2
        queue q
        job   q/idle cpu= min=3 roles=a:1,b:2 a:- b:-*2
        """,
        [],
    ),
    "pods wait with the rest of their gang": (
        """
        node  n1 cpu=1
        queue q
        job   q/mixed cpu=2 min=2 -
        job   q/mixed2 cpu= min=1 -
        """,
        [bind("mixed2-0", "n1")],
    ),
    "taints count": (
        """
        node  n1 cpu=1 taint=a=b:NoSchedule
        queue q
        job   q/idle cpu= -
        """,
        [],
    ),
    "room that is being freed isn't there yet": (
        """
        node  n1 cpu=1 pods=1
        queue q
        job   q/gone min=0 ~n1
        job   q/idle cpu= -
        """,
        [],
    ),
    "a closed queue gets none": (
        """
        node  n1 cpu=1
        queue q state=Closed
        job   q/idle cpu= -
        """,
        [],
    ),
    "a queue's pod slots are a limit": (
        """
        node  n1 cpu=1
        queue q capability=pods:1
        job   q/idle cpu= min=0 -*2
        """,
        [bind("idle-0", "n1")],
    ),
    "higher priority first": (
        """
        node  n1 cpu=1 pods=1
        queue q
        job   q/a cpu= priority=1 -
        job   q/b cpu= priority=2 -
        """,
        [bind("b-0", "n1")],
    ),
    "a job that isn't admitted waits": (
        """
        node  n1 cpu=1
        queue q
        job   q/idle cpu= phase=Pending -
        """,
        [],
    ),
    "a job with too few pods waits": (
        """
        node  n1 cpu=1
        queue q
        job   q/idle cpu= min=2 -
        """,
        [],
    ),
}


@pytest.mark.parametrize(("picture", "decisions"), TABLE.values(), ids=TABLE)
def test_pods_that_ask_for_nothing(picture: str, decisions: list[object]) -> None:
    """They need a node that lets them in and a slot, and no share of anything."""
    if "gone" in picture:  # the slot is free in the next cycle
        assert first(picture).binds == ()
    else:
        assert decide(picture, "backfill", TIERS) == decisions


def first(picture: str, tiers: str = TIERS) -> decisions.CycleResult:
    """One cycle, nothing after it."""
    tree = {"actions": "backfill", "tiers": running.tiers(tiers)}
    return running.run(pictures.documents(picture), tree)


def test_queues_take_their_turns_in_order() -> None:
    """The queue of higher priority has the last slot."""
    picture = """
        node  n1 cpu=1 pods=1
        queue a
        queue b priority=1
        job   a/low  cpu= -
        job   b/high cpu= -
        """
    assert decide(picture, "backfill", TIERS) == [bind("high-0", "n1")]


REASONS = {
    "no slot": ("node n1 cpu=1 pods=0 queue q job q/idle cpu= -", "NO_ROOM"),
    "no node": ("queue q job q/idle cpu= -", "NO_NODES"),
    "a slot that is being freed": (
        "node n1 cpu=1 pods=1 queue q job q/gone min=0 ~n1 job q/idle cpu= -",
        "WAITS_FOR_RELEASE",
    ),
    "closed": ("node n1 cpu=1 queue q state=Closed job q/idle cpu= -", "QUEUE_CLOSED"),
    "limited": (
        "node n1 cpu=1 queue q capability=pods:0 job q/idle cpu= -",
        "QUEUE_OVER_SHARE",
    ),
    "too few": ("node n1 cpu=1 queue q job q/idle cpu= min=2 -", "TOO_FEW_PODS"),
}


@pytest.mark.parametrize(("picture", "code"), REASONS.values(), ids=REASONS)
def test_it_says_why_a_pod_waits(picture: str, code: str) -> None:
    """With the queue, and the numbers of its job."""
    found = {status.job: status.reason for status in first(picture).groups}
    reason = found[next(job for job in found if job.endswith("/idle"))]
    assert reason is not None
    assert (reason.code, reason.queue, reason.tasks) == (decisions.ReasonCode[code], "q", 1)


def test_a_cycle_that_ends_early_says_nothing_of_the_rest() -> None:
    """Those that had no turn are looked at in the next cycle."""
    picture = """
        node  n1 cpu=1
        queue q
        job   q/a cpu= -
        job   q/b cpu= -
        """
    tree = {"actions": "backfill", "tiers": running.tiers(TIERS)}
    documents = pictures.documents(picture)
    result = running.run(documents, tree, budget=1)
    assert [each.task.name for each in result.binds] == ["a-0"]
    assert not result.finished
    assert [status.job for status in result.groups] == ["default/a"]
