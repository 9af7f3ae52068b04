from typing import Any

import pytest

from tests import running
from tests.scenarios.admitting import CLOSED, QUEUE_FULL, TIERS, cycles, phases, reasons
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.model.jobs import TaskId
from vscheduler.model.snapshot import FRESH, Carried
from vscheduler.testing import pictures


def timeout(text: str) -> dict[str, Any]:
    """The configuration of a time-out."""
    return {"configurations": [{"name": "enqueue", "arguments": {"enqueue.timeout": text}}]}


ADMISSION = {
    "what the queue can have is let in": (
        """
        node  n1 cpu=4
        queue q capability=cpu:3
        job   q/a phase=Pending minresources=cpu:3
        """,
        {"a": "Inqueue"},
        {},
    ),
    "what it can't have is not": (
        """
        node  n1 cpu=9
        queue q capability=cpu:3
        job   q/a phase=Pending minresources=cpu:4
        """,
        {"a": "Pending"},
        {"a": QUEUE_FULL},
    ),
    "a refused group doesn't block the one behind it": (
        """
        node  n1 cpu=9
        queue q capability=cpu:3
        job   q/a phase=Pending minresources=cpu:4 age=9
        job   q/b phase=Pending minresources=cpu:3
        """,
        {"a": "Pending", "b": "Inqueue"},
        {"a": QUEUE_FULL},
    ),
    "the more important group is asked first": (
        """
        node  n1 cpu=9
        queue q capability=cpu:3
        job   q/a phase=Pending minresources=cpu:2
        job   q/b phase=Pending minresources=cpu:2 priority=5
        """,
        {"a": "Pending", "b": "Inqueue"},
        {"a": QUEUE_FULL},
    ),
    "what was promised before counts": (
        """
        node  n1 cpu=9
        queue q capability=cpu:3
        job   q/a phase=Inqueue minresources=cpu:2
        job   q/b phase=Pending minresources=cpu:2
        """,
        {"a": "Inqueue", "b": "Pending"},
        {"b": QUEUE_FULL},
    ),
    "what a job has above its minimum could be had": (
        """
        node  n1 cpu=9
        queue q capability=cpu:4
        job   q/a phase=Running minresources=cpu:1 n1*4
        job   q/b phase=Pending minresources=cpu:3
        """,
        {"a": "Running", "b": "Inqueue"},
        {},
    ),
    "what a group has already isn't asked for again": (
        """
        node  n1 cpu=9
        queue q capability=cpu:3
        job   q/a phase=Pending minresources=cpu:3 min=3 +n1 +n1 -
        """,
        {"a": "Inqueue"},
        {},
    ),
    "a closed queue lets nobody in": (
        """
        node  n1 cpu=9
        queue q state=Closed
        job   q/a phase=Pending minresources=cpu:1
        job   q/b phase=Pending
        """,
        {"a": "Pending", "b": "Pending"},
        {"a": CLOSED, "b": CLOSED},
    ),
}


@pytest.mark.parametrize(("picture", "standing", "waiting"), ADMISSION.values(), ids=ADMISSION)
def test_groups_are_let_in_as_far_as_they_can_be_promised_room(
    picture: str, standing: dict[str, str], waiting: dict[str, ReasonCode]
) -> None:
    """Phases after one cycle of enqueue, and what the refused are told."""
    (result,) = cycles(picture, actions="enqueue")
    assert phases(result) == standing
    assert reasons(result) == waiting


def test_an_admitted_job_starts_in_the_same_cycle() -> None:
    """Enqueue comes before allocate."""
    picture = "node n1 cpu=4 queue q job q/a phase=Pending minresources=cpu:2 min=2 -*2"
    first, second = cycles(picture, 2)
    assert {bind.task.name for bind in first.binds} == {"a-0", "a-1"}
    assert phases(first) == {"a": "Inqueue"}
    assert phases(second) == {"a": "Running"}


def test_a_refused_job_gets_no_pods_placed() -> None:
    """Though there would be room: its queue may not have it."""
    picture = """
        node  n1 cpu=9
        queue q capability=cpu:1
        job   q/a phase=Pending minresources=cpu:2 -*2
        """
    (result,) = cycles(picture)
    assert result.binds == ()


STUCK = """
    node  n1 cpu=5   node n2 cpu=5
    queue q
    job   q/runs  phase=Running min=4 minresources=cpu:4 n1*2 n2*2
    job   q/stuck phase=Pending minresources=cpu:5 min=1 cpu=5 age=9 -
    job   q/next  phase=Pending minresources=cpu:2 min=1 cpu=2 -
    """


def young(result: CycleResult) -> dict[str, str]:
    """The phases of jobs but for the one that runs all the time."""
    return {job: phase for job, phase in phases(result).items() if job != "runs"}


def test_a_group_that_does_not_start_in_time_gives_its_place_to_the_next() -> None:
    """No node has five cpus left, so that nothing but the time-out helps the other."""
    results = cycles(STUCK, 5, **timeout("2s"))
    assert [young(result) for result in results] == [
        {"stuck": "Inqueue", "next": "Pending"},
        {"stuck": "Inqueue", "next": "Pending"},
        {"stuck": "Pending", "next": "Inqueue"},
        {"stuck": "Pending", "next": "Running"},
        {"stuck": "Pending", "next": "Running"},
    ]
    assert [[bind.task.name for bind in result.binds] for result in results] == [
        *([], []),
        ["next-0"],
        *([], []),
    ]


def test_the_daemon_is_told_when_a_time_out_is_due() -> None:
    """The first instant at which the place is lost; after that none, while it isn't let in."""
    start = pictures.NOW.timestamp()
    first, second, third, fourth = cycles(STUCK, 4, **timeout("2s"))
    assert (first.wake_at, second.wake_at) == (start + 2, start + 2)
    assert third.wake_at == start + 2 + 2  # that of the other one, which starts
    assert fourth.wake_at is None


def test_a_group_alone_keeps_its_place() -> None:
    """It goes to the end of a line of one."""
    alone = """
        node  n1 cpu=5   node n2 cpu=5
        queue q
        job   q/runs  phase=Running min=4 minresources=cpu:4 n1*2 n2*2
        job   q/stuck phase=Pending minresources=cpu:5 min=1 cpu=5 -
        """
    results = cycles(alone, 6, **timeout("2s"))
    assert [young(result) for result in results] == [{"stuck": "Inqueue"}] * 6
    start = pictures.NOW.timestamp()
    due = [start + 2, start + 2, start + 4, start + 4, start + 6, start + 6]
    assert [result.wake_at for result in results] == due


def test_those_that_lost_their_place_come_after_groups_of_all_queues() -> None:
    """Queue a is first in line; there is room for one."""
    picture = """
        node  n1 cpu=4
        queue a age=9   queue b
        job   a/stuck phase=Pending minresources=cpu:4 min=4
        job   b/next  phase=Pending minresources=cpu:4 min=4
        """
    results = cycles(picture, 4, actions="enqueue", **timeout("2s"))
    assert [phases(result)["next"] for result in results] == [*["Pending"] * 2, *["Inqueue"] * 2]


def test_who_lost_its_place_first_is_the_first_to_have_one_again() -> None:
    """Though the other is older."""
    documents = pictures.documents(
        """
        node  n1 cpu=4
        queue q
        job   q/a phase=Pending minresources=cpu:4 age=9   job q/b phase=Pending minresources=cpu:4
        """
    )
    now = pictures.NOW.timestamp()
    carried = Carried(admission_expired={"a": now - 1, "b": now - 5})
    tree = {"actions": "enqueue", "tiers": running.tiers(TIERS)}
    result = running.run_claimed(documents, tree, carried)
    assert phases(result) == {"a": "Pending", "b": "Inqueue"}
    assert result.carried.admission_expired == {"a": now - 1}


def test_a_group_for_which_pods_are_evicted_keeps_its_place() -> None:
    """Its time is over; the room that is made for it isn't taken from it."""
    documents = pictures.documents(
        """
        node  n1 cpu=4
        queue q
        job   q/old min=1 ~n1*4
        job   q/a phase=Inqueue minresources=cpu:4 min=4 -*4
        job   q/b phase=Pending minresources=cpu:4
        """
    )
    now = pictures.NOW.timestamp()
    tree = {"actions": "enqueue", "tiers": running.tiers(TIERS), **timeout("2s")}
    for promised, phase in ((True, "Inqueue"), (False, "Pending")):
        carried = Carried(
            admitted={"a": now - 9},
            nominations={TaskId("a-00000"): "n1"} if promised else {},
        )
        assert phases(running.run_claimed(documents, tree, carried))["a"] == phase


def test_a_group_of_which_only_a_nominated_pod_starts_is_told_why_the_others_wait() -> None:
    """It isn't admitted, so that nobody looks for nodes for them."""
    documents = pictures.documents(
        """
        node  n1 cpu=9
        queue q capability=cpu:3
        job   q/a phase=Pending minresources=cpu:4 min=1 -*2
        """
    )
    tree = {"actions": "enqueue, allocate", "tiers": running.tiers(TIERS)}
    carried = Carried(nominations={TaskId("a-00000"): "n1"})
    result = running.run_claimed(documents, tree, carried)
    assert [bind.task.uid for bind in result.binds] == ["a-00000"]
    assert reasons(result) == {"a": QUEUE_FULL}
    alone = [each for each in documents if each["metadata"]["name"] != "a-1"]
    assert reasons(running.run_claimed(alone, tree, carried)) == {}


def test_who_asks_for_more_than_there_is_loses_its_place_in_time_too() -> None:
    """Plugin overcommit promises 12 of 10 cpu, so that 11 is let in again in each cycle."""
    picture = """
        node  n1 cpu=10
        queue q
        job   q/stuck phase=Pending minresources=cpu:11 age=9
        job   q/next  phase=Pending minresources=cpu:11
    """
    tiers = running.tiers("priority gang | overcommit drf predicates")
    results = cycles(picture, 4, tiers=tiers, **timeout("2s"))
    assert [young(result) for result in results] == [
        {"stuck": "Inqueue", "next": "Pending"},
        {"stuck": "Inqueue", "next": "Pending"},
        {"stuck": "Pending", "next": "Inqueue"},
        {"stuck": "Pending", "next": "Inqueue"},
    ]
    due = pictures.NOW.timestamp() + 2
    assert [result.wake_at for result in results] == [due, due, due + 2, due + 2]


def test_only_a_promise_can_be_given_back() -> None:
    """A group without minResources has none, and no time-out wakes the daemon for it."""
    picture = "node n1 cpu=9 queue q job q/r min=9 n1*9 job q/a phase=Pending cpu=9 -"
    results = cycles(picture, 4, **timeout("2s"))
    assert [phases(result)["a"] for result in results] == ["Inqueue"] * 4
    assert [result.wake_at for result in results] == [None] * 4


def test_a_group_that_needs_no_pods_has_not_started_without_any() -> None:
    """A promise to a group of minMember 0 isn't kept for ever, either."""
    picture = STUCK.replace("min=1 cpu=5", "min=0 cpu=5").replace("Pending", "Inqueue", 1)
    results = cycles(picture, 3, **timeout("2s"))
    assert young(results[-1]) == {"stuck": "Pending", "next": "Inqueue"}


def test_as_in_volcano_a_place_is_never_lost() -> None:
    """With compatibility."""
    results = cycles(STUCK, 5, compatibility="volcano", **timeout("2s"))
    assert young(results[-1]) == {"stuck": "Inqueue", "next": "Pending"}
    assert results[-1].wake_at is None


def test_a_group_that_started_keeps_its_place() -> None:
    """However long it runs."""
    picture = "node n1 cpu=4 queue q job q/a phase=Pending minresources=cpu:2 min=2 -*2"
    results = cycles(picture, 5, **timeout("1s"))
    assert [phases(result)["a"] for result in results] == ["Inqueue", *["Running"] * 4]


def test_a_place_that_was_lost_is_not_had_back_while_the_write_is_on_its_way() -> None:
    """The API server still says Inqueue in the next cycle; and Pending after an admission."""
    tree = {"actions": "enqueue", "tiers": running.tiers(TIERS), **timeout("2s")}
    documents = pictures.documents(STUCK.replace("stuck phase=Pending", "stuck phase=Inqueue"))
    taken = running.snapshot_of(documents)
    first = running.decide(taken, tree)
    now = pictures.NOW.timestamp()
    second = running.run_at(documents, tree, now + 2, first.carried)
    assert young(second) == {"stuck": "Pending", "next": "Inqueue"}
    third = running.run_at(documents, tree, now + 3, second.carried)
    assert young(third) == {"stuck": "Pending", "next": "Inqueue"}
    assert third.carried.admitted == {"next": now + 2}


@pytest.mark.parametrize("text", ["0", "10", "-5m", "ten minutes"])
def test_a_time_out_is_a_duration(text: str) -> None:
    """Anything else is an error of the configuration."""
    with pytest.raises(ValueError, match=r"enqueue\.timeout"):
        cycles("node n1 cpu=1 queue q", **timeout(text))


@pytest.mark.parametrize("budget", [1, 50])
def test_cycles_that_are_cut_short_let_everyone_in_and_get_to_placing(budget: int) -> None:
    """Groups that were refused aren't asked about again before all others had their turn."""
    documents = pictures.documents(
        """
        node  n1 cpu=4
        queue q capability=cpu:4
        job   q/a phase=Pending minresources=cpu:9 age=4 -
        job   q/b phase=Pending minresources=cpu:2 age=3 -
        job   q/c phase=Pending minresources=cpu:9 age=2 -
        job   q/d phase=Pending minresources=cpu:1 age=1 -
        """
    )
    tree = {"actions": "enqueue, allocate", "tiers": running.tiers(TIERS)}
    bound: set[str] = set()
    told: dict[str, str] = {}
    carried = FRESH
    for _ in range(12):
        result = running.run(documents, tree, budget=budget, carried=carried)
        bound |= {bind.task.name for bind in result.binds}
        told |= phases(result)
        documents, carried = running.obey(documents, result), result.carried
        if result.finished and bound:
            break
    assert bound == {"b-0", "d-0"}
    assert told == {"a": "Pending", "b": "Running", "c": "Pending", "d": "Running"}


def test_a_group_whose_pods_lost_their_nodes_may_be_refused_anew() -> None:
    """Below its minimum it is Pending again, and what it was promised is given to others."""
    picture = """
        node  n1 cpu=4
        queue q capability=cpu:4
        job   q/a phase=Running min=2 minresources=cpu:2 +n1 -
        job   q/b phase=Inqueue min=3 minresources=cpu:3 -*3
        """
    first, second = cycles(picture, 2, actions="enqueue")
    assert phases(first)["a"] == "Pending"
    assert reasons(second)["a"] is QUEUE_FULL


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
def test_what_is_left_out_of_promises_is_told(shares: str) -> None:
    """The queue has 8 cpu, as its status says; the 4 beyond minResources aren't in the way."""
    picture = """
        node n1 cpu=8   node n2 cpu=8   queue q capability=cpu:12
        job q/has min=1 cpu=4 minresources=cpu:4 phase=Running n1 n2
        job q/next min=1 cpu=3 minresources=cpu:9 phase=Pending -
        """
    tiers = running.tiers(f"priority gang | overcommit predicates {shares}")
    tree = {"actions": "enqueue, allocate", "tiers": tiers}
    told = [group.reason for group in running.run(pictures.documents(picture), tree).groups]
    (reason,) = (each for each in told if each is not None)
    assert sentences.sentence(reason) == (
        "not admitted: queue q uses or has reserved 4 cpu of the 12 it may have, besides 4 cpu "
        "that jobs have beyond their minResources; this job asks for 9 cpu (minResources)"
    )
