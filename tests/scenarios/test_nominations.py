import pytest

from tests import running
from vscheduler.model.jobs import TaskId
from vscheduler.model.snapshot import Carried
from vscheduler.testing import pictures

TREE = {"actions": "allocate", "tiers": running.tiers("priority gang | predicates proportion")}
SHRUNK = """
    node  n1 cpu=4
    queue gold {marks}
    queue lead
    job   gold/needy min=1 cpu=3   -
    job   lead/other min=1 cpu=1   n1 - - -
    """
"""Gold deserves two cpus by now, and has had room made for three."""


@pytest.mark.parametrize(
    ("marks", "promised", "bound"),
    [
        ("", True, ["needy-0"]),
        ("", False, ["other-1", "other-2", "other-3"]),
        ("capability=cpu:2", True, ["other-1", "other-2", "other-3"]),
        ("state=Closed", True, ["other-1", "other-2", "other-3"]),
    ],
)
def test_a_promise_outlives_the_share_and_no_limit(
    marks: str, promised: bool, bound: list[str]
) -> None:
    """Else pods that were evicted for it would have gone in vain. What the share of lead doesn't
    cover and nobody else may use is lent.
    """
    named = {TaskId("needy-00000"): "n1"} if promised else {}
    documents = pictures.documents(SHRUNK.format(marks=marks))
    result = running.run(documents, TREE, carried=Carried(nominations=named))
    assert [bind.task.name for bind in result.binds] == bound


def test_the_older_promise_is_kept_first() -> None:
    """Both wait for the same node, where there is room for one by now."""
    picture = """
        node  n1 cpu=2
        queue q
        job   q/old  min=1 cpu=1   -
        job   q/new  min=1 cpu=1 priority=5   -
        job   q/gone min=1 cpu=1   ~n1
        """
    named = {TaskId(f"{name}-00000"): "n1" for name in ("old", "new")}
    result = running.run(pictures.documents(picture), TREE, carried=Carried(nominations=named))
    assert [bind.task.name for bind in result.binds] == ["old-0"]
    assert result.carried.nominations == {"new-00000": "n1"}


def test_a_new_process_takes_nominations_of_older_jobs_for_the_older_ones() -> None:
    """Names and priorities say nothing about whose nomination came first."""
    picture = """
        node  n1 cpu=2
        queue q
        job   q/anew  min=1 cpu=1 age=1 priority=5 nominated=n1 -
        job   q/old   min=1 cpu=1 age=9 nominated=n1 -
        job   q/gone  min=1 cpu=1   ~n1
        """
    result = running.run(pictures.documents(picture), TREE)
    assert [bind.task.name for bind in result.binds] == ["old-0"]
    assert result.carried.nominations == {"anew-00000": "n1"}


def test_a_new_process_evicts_nobody_else_for_a_job_that_waits_for_its_victims() -> None:
    """The job in front is older, and nothing may be evicted for it: it would take the place."""
    picture = """
        node  n1 cpu=2   node n2 cpu=2
        queue rich weight=1   queue poor weight=1000
        job   rich/going min=2 ~n1*2
        job   rich/stays min=2 n2*2
        job   poor/front min=2 age=99 preempts=Never -*2
        job   poor/needy min=2 age=9 nominated=n1 -*2
        """
    tree = {**TREE, "actions": "allocate, reclaim"}
    result = running.run(pictures.documents(picture), tree)
    assert result.evicts == ()
    assert result.carried.nominations == {"needy-00000": "n1", "needy-00001": "n1"}


def test_a_node_that_was_nominated_before_a_restart_is_given_up_if_others_have_it() -> None:
    """The job may start elsewhere at once."""
    picture = """
        node  n1 cpu=1   node n2 cpu=1
        queue q
        job   q/other n1
        job   q/needy nominated=n1 -
        """
    result = running.run(pictures.documents(picture), TREE)
    assert [(bind.task.name, bind.node) for bind in result.binds] == [("needy-0", "n2")]
