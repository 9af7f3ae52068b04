"""Jobs for which there is no node are told so together, and only what is true of each."""

from tests import running
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.model.jobs import TaskId
from vscheduler.model.snapshot import FRESH, Carried
from vscheduler.testing import pictures

TREE = {"actions": "allocate, reclaim", "tiers": running.tiers("gang | predicates proportion")}


def run(picture: str, *, budget: int | None = None) -> CycleResult:
    """One cycle on this picture."""
    return running.run(pictures.documents(picture), TREE, budget=budget)


def test_each_job_is_told_its_own_figures() -> None:
    """Their pods are alike, their numbers aren't."""
    result = run("""
        node  n1 cpu=4    node n2 cpu=4    node n3 cpu=4
        queue q
        job   q/here cpu=3       n1 n2 n3
        job   q/one  min=1 cpu=2 -
        job   q/two  min=1 cpu=2 - -
        job   q/gang min=2 cpu=2 - -
        """)
    assert result.work["roomless"] == 3
    told = [group.reason for group in result.groups]
    assert [(each.tasks, each.minimum) for each in told if each] == [(2, 2), (1, 1), (2, 1)]
    assert {each.code for each in told if each} == {ReasonCode.NO_ROOM}


def test_pods_that_look_for_company_wait_for_their_turn() -> None:
    """There is no node for them until the one that they look for is placed."""
    result = run("""
        node  n1 cpu=4 label=zone=a
        queue q
        job   q/a cpu=1 near=app=db@zone -
        job   q/b cpu=1 near=app=db@zone -
        job   q/db cpu=1 label=app=db age=60 -
        """)
    assert sorted(bind.task.name for bind in result.binds) == ["a-0", "b-0", "db-0"]
    assert "roomless" not in result.work


def test_a_pod_that_was_promised_room_has_its_turn() -> None:
    """Its queue may take it even where its share has shrunk since, unlike one that is like it."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/here cpu=3 n1
        job   q/a cpu=2 -
        job   q/b cpu=2 -
        job   q/c cpu=2 -
        """
    named = Carried(nominations={TaskId("a-00000"): "n1"})
    result = running.run(pictures.documents(picture), TREE, carried=named)
    assert (result.work["roomless"], result.work["turns"]) == (2, 2)


def test_a_job_that_fits_does_not_wait_for_those_that_do_not() -> None:
    """They are told after its turn, with what is left of the budget."""
    picture = "node n1 cpu=4 queue q job q/here cpu=3 n1" + "".join(
        f" job q/j{number:02} cpu=2 -" for number in range(50)
    )
    result = run(f"{picture} job q/late cpu=1 -", budget=500)
    assert [bind.task.name for bind in result.binds] == ["late-0"]
    assert not result.finished


def test_a_short_cycle_tells_some_and_the_next_one_the_others() -> None:
    """However small the budget is, everyone is told in the end, once."""
    picture = "node n1 cpu=4 node n2 cpu=4 queue q job q/here cpu=3 n1 n2" + "".join(
        f" job q/j{each} cpu=2 -" for each in range(9)
    )
    carried, told = FRESH, []
    for _ in range(9):
        result = running.run(pictures.documents(picture), TREE, budget=1, carried=carried)
        carried = result.carried
        told += [group.job for group in result.groups if group.reason]
    assert sorted(told) == [f"default/j{each}" for each in range(9)]


def crowd(classes: int, *, jobs: int = 2, cpu: int = 2) -> str:
    """Jobs of one pod; each class asks for another amount of memory."""
    return "".join(
        f" job q/j{number:03}x{each} cpu={cpu} memory={number + 1} -"
        for number in range(classes)
        for each in range(jobs)
    )


FULL = "node n1 cpu=4 memory=9999 node n2 cpu=4 memory=9999 queue q job q/here cpu=3 n1 n2"
GANG = " job q/late min=2 cpu=1 age=60 - -"


def test_a_gang_that_fits_is_bound_at_once_however_many_classes_have_no_room() -> None:
    """In the first cycle, with a budget that is enough for the turns of a few."""
    result = run(FULL + crowd(200) + GANG, budget=4000)
    assert sorted(bind.task.name for bind in result.binds) == ["late-0", "late-1"]
    assert result.work["turns"] <= 2
    assert not result.finished


def test_what_a_class_without_room_costs_does_not_grow() -> None:
    """Twice as many classes, twice as many operations."""
    costs = [sum(run(FULL + crowd(classes)).work.values()) for classes in (50, 100, 200)]
    assert costs[2] <= 2.1 * costs[1] <= 2.1 * 2.1 * costs[0]


def test_when_room_runs_out_the_rest_is_told_without_turns() -> None:
    """One of many jobs takes the last place."""
    result = run("node n1 cpu=4 memory=9999 queue q" + crowd(40, cpu=3))
    assert len(result.binds) == 1
    assert result.work["turns"] <= 3
    assert sum(group.reason is not None for group in result.groups) == 79


def test_room_on_nodes_that_are_not_for_a_pod_is_no_room() -> None:
    """Nor is it checked in a turn."""
    result = run("""
        node  n1 cpu=4 label=pool=a    node n2 cpu=9 label=pool=b
        queue q
        job   q/here cpu=3 n1
        job   q/a1 cpu=2 select=pool=a -
        job   q/b1 cpu=2 select=pool=b -
        """)
    assert [bind.task.name for bind in result.binds] == ["b1-0"]
    assert (result.work["roomless"], result.work["turns"]) == (1, 2)


def test_room_that_is_being_freed_is_room() -> None:
    """A class that fits there waits for it, in its turn."""
    result = run("""
        node  n1 cpu=4
        queue q
        job   q/here cpu=3 ~n1
        job   q/a cpu=2 -
        """)
    assert [each.task.name for each in result.pipelined] == ["a-0"]
    assert "roomless" not in result.work


def test_nothing_is_asked_of_victims_while_no_other_queue_holds_anything() -> None:
    """There is nobody from whom reclaim could take."""
    picture = "node n1 cpu=4 queue q queue other job q/here cpu=3 n1 job q/a cpu=2 -"
    assert "asked" not in run(picture).work
    assert run(picture + " job other/b cpu=2 -").work["asked"] == 1


def test_a_node_that_is_overfull_of_something_takes_pods_that_ask_for_none_of_it() -> None:
    """It has shrunk below what is used there."""
    documents = pictures.documents("""
        node  n1 cpu=4 gpu=2
        queue q
        job   q/here cpu=1 gpu=2 n1
        job   q/a cpu=2 -
        """)
    for document in documents:
        if document["kind"] == "Node":
            document["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    result = running.run(documents, TREE)
    assert [bind.task.name for bind in result.binds] == ["a-0"]


def test_what_is_free_is_told_as_it_is_after_the_binds_before() -> None:
    """The first gang is refused while one of its pods is tried on the node."""
    documents = pictures.documents("""
        node  n1 cpu=4
        queue q
        job   q/here cpu=1 n1
        job   q/a min=2 cpu=2 - -
        job   q/b cpu=1 -
        job   q/c cpu=3 -
        """)
    tree = {"actions": "allocate", "tiers": running.tiers("gang | predicates")}
    result = running.run(documents, tree)
    assert [bind.task.name for bind in result.binds] == ["b-0"]
    free = {
        group.job: hole.free
        for group in result.groups
        for hole in (group.reason.holes if group.reason else ())
        if hole.resource == "cpu"
    }
    assert free == {"default/a": 1000, "default/c": 2000}
