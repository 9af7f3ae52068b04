"""Jobs for which there is no node are told so together, and only what is true of each."""

from tests import pictures, running
from vscheduler.core.model import decisions, jobs, snapshot

TREE = {"actions": "allocate, reclaim", "tiers": running.tiers("gang | predicates proportion")}


def run(picture: str, *, budget: int | None = None) -> decisions.CycleResult:
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
    assert {each.code for each in told if each} == {decisions.ReasonCode.NO_ROOM}


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
    named = snapshot.Carried(nominations={jobs.TaskId("a-00000"): "n1"})
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
    carried, told = snapshot.FRESH, []
    for _ in range(9):
        result = running.run(pictures.documents(picture), TREE, budget=1, carried=carried)
        carried = result.carried
        told += [group.job for group in result.groups if group.reason]
    assert sorted(told) == [f"default/j{each}" for each in range(9)]
