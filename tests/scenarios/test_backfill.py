from typing import Any

import pytest

from tests import running
from tests.scenarios.deciding import bind, decide
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.model.jobs import JobId, TaskId
from vscheduler.model.snapshot import Carried
from vscheduler.testing import pictures

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
    "each role gets its own first": (
        """
        node  n1 cpu=4 pods=2
        queue q
        job   q/idle cpu= min=2 roles=a:1,b:1 a:-*2 b:-
        """,
        [bind("idle-0", "n1"), bind("idle-2", "n1")],
    ),
    "a sub-group that isn't whole gets none": (
        """
        node  n1 cpu=4 pods=3
        queue q
        job   q/idle cpu= min=2 subgroups=1x2 a:-*2 b:-*2
        """,
        [bind("idle-0", "n1"), bind("idle-1", "n1")],
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


def first(
    picture: str, volcano: bool = False, actions: str = "backfill", **carried: Any
) -> CycleResult:
    """One cycle, nothing after it."""
    tree: dict[str, Any] = {"actions": actions, "tiers": running.tiers(TIERS)}
    if volcano:
        tree["compatibility"] = "volcano"
    documents = pictures.documents(picture)
    return running.run(documents, tree, carried=Carried(**carried))


def outcome(result: CycleResult) -> tuple[list[str], list[str]]:
    """The pods that are bound, and those that wait."""
    bound = [bind.task.name for bind in result.binds]
    return bound, [each.task.name for each in result.pipelined]


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
    assert (reason.code, reason.queue, reason.tasks) == (ReasonCode[code], "q", 1)


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
    assert [bind.task.name for bind in result.binds] == ["a-0"]
    assert not result.finished
    assert [status.job for status in result.groups] == ["default/a"]


def test_what_was_said_before_stays_said() -> None:
    """Allocate had a reason; that backfill has no time for the job is none."""
    picture = """
        node  n1 cpu=1
        queue q
        job   q/a cpu= min=2 -@9 -
        """
    tree = {"actions": "allocate, backfill", "tiers": running.tiers(TIERS)}
    (status,) = running.run(pictures.documents(picture), tree, budget=1).groups
    assert status.reason is not None
    assert status.reason.code is ReasonCode.NEVER_FITS


def test_jobs_that_had_their_turn_wait_for_the_next_round() -> None:
    """Their number mustn't use up every budget."""
    picture = "node n1 cpu=1 queue q job q/a cpu= - job q/b cpu= -"
    result = first(picture, attempted=frozenset({JobId("default/a")}))
    assert outcome(result) == (["b-0"], [])
    assert [status.job for status in result.groups] == ["default/b"]


PROMISED = {TaskId("idle-00000"): "n1"}


def test_a_promise_is_exchanged_for_a_place() -> None:
    """The slot that was being freed is free."""
    picture = "node n1 cpu=1 pods=1 queue q job q/idle cpu= -"
    assert outcome(first(picture, nominations=PROMISED)) == (["idle-0"], [])


def test_a_promise_that_is_none_yet_stays() -> None:
    """In Volcano it is given up."""
    picture = "node n1 cpu=1 pods=1 queue q job q/gone min=0 ~n1 job q/idle cpu= -"
    assert outcome(first(picture, nominations=PROMISED)) == ([], ["idle-0"])
    elastic = picture.replace("cpu= -", "cpu= min=0 -")
    assert outcome(first(elastic, volcano=True, nominations=PROMISED)) == ([], [])
    both = picture.replace("cpu= -", "cpu= min=0 -*2 node n2 cpu=1 pods=1")
    assert outcome(first(both, nominations=PROMISED)) == (["idle-0"], [])  # now on the free node


@pytest.mark.parametrize("volcano", [False, True])
def test_who_starts_with_idlers_takes_along_those_that_were_held(*, volcano: bool) -> None:
    """Two have room now and one waits for it, so that all waited; with one that asks for nothing
    there are enough, and they start together.
    """
    picture = """
        node  n1 cpu=1
        node  n2 cpu=1
        node  n3 cpu=1
        queue q
        job   q/gone min=0 ~n3
        job   q/a cpu= min=3 -@1 -@1 -@1 -
        """
    promised = {TaskId(f"a-0000{number}"): f"n{number + 1}" for number in range(3)}
    result = first(picture, volcano, "allocate, backfill", nominations=promised)
    assert outcome(result) == (["a-0", "a-1", "a-3"], ["a-2"])


def test_a_job_that_isnt_ready_keeps_no_slot() -> None:
    """In Volcano it does, and others wait with it."""
    picture = """
        node  n1 cpu=1 pods=1
        queue q
        job   q/a cpu= min=2 -@9 -
        job   q/b cpu= -
        """
    assert outcome(first(picture)) == (["b-0"], [])
    assert outcome(first(picture, volcano=True)) == ([], ["a-1"])


def test_in_volcano_queues_arent_asked() -> None:
    """A closed one no more than any other."""
    closed = "node n1 cpu=1 queue q state=Closed job q/idle cpu= -"
    assert outcome(first(closed, volcano=True)) == (["idle-0"], [])


@pytest.mark.parametrize("volcano", [False, True])
def test_a_gang_that_lacks_slots_keeps_none_from_others(volcano: bool) -> None:
    """In Volcano it gets as many as there are, and stays so."""
    part = "node n1 cpu=1 pods=1 queue q job q/idle cpu= min=2 -*2"
    assert outcome(first(part, volcano)) == ([], [])
    other = f"{part} job q/other cpu= age=0 -"
    assert outcome(first(other, volcano)) == (["other-0"], [])


@pytest.mark.parametrize("volcano", [False, True])
def test_without_plugin_gang_each_pod_stands_for_itself(volcano: bool) -> None:
    """A minimum that nobody asks for keeps nobody waiting."""
    tree: dict[str, Any] = {"actions": "backfill", "tiers": running.tiers("predicates")}
    way = {"compatibility": "volcano"} if volcano else {}
    picture = "node n1 cpu=1 pods=1 queue q job q/idle cpu= min=2 -*2"
    assert outcome(running.run(pictures.documents(picture), tree | way)) == (["idle-0"], [])
