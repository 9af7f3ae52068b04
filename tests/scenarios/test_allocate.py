import pytest

from tests import running
from tests.scenarios.deciding import bind, decide, pipeline
from vscheduler.model.jobs import Phase
from vscheduler.testing import pictures

TABLE = {
    "ties go by name, not by the order of the manifests": (
        """
        node  n2 cpu=4   node n1 cpu=4
        queue q
        job   q/p -
        """,
        [bind("p-0", "n1")],
    ),
    "of equal jobs the older comes first, then the name": (
        """
        node  n1 cpu=2
        queue q
        job   q/c age=60 -   job q/b -   job q/a -
        """,
        [bind("a-0", "n1"), bind("c-0", "n1")],
    ),
    "of equal queues the older comes first, then the name": (
        """
        node  n1 cpu=2
        queue c age=60   queue b   queue a
        job   c/x -      job b/y - job a/z -
        """,
        [bind("x-0", "n1"), bind("z-0", "n1")],
    ),
    "a job that fits nowhere holds nobody up": (
        """
        node  n1 cpu=2
        queue a   queue b
        job   a/huge cpu=3 -   job a/small -
        job   b/other -
        """,
        [bind("other-0", "n1"), bind("small-0", "n1")],
    ),
    "room that is being freed is waited for": (
        """
        node  n1 cpu=1
        queue q
        job   q/leaves ~n1
        job   q/next   -
        """,
        [pipeline("next-0", "n1")],
    ),
    "room now is better than room later": (
        """
        node  n1 cpu=8   node n2 cpu=8
        queue q
        job   q/leaves ~n1*7
        job   q/stays  n1 n2*4
        job   q/next   -*3
        """,
        [bind("next-0", "n2"), bind("next-1", "n2"), bind("next-2", "n2")],
    ),
    "room that is promised isn't given twice": (
        """
        node  n1 cpu=2
        queue q
        job   q/leaves   ~n1 ~n1
        job   q/a cpu=2  -
        job   q/b        -
        """,
        [pipeline("a-0", "n1")],
    ),
    "pods that are bound and not yet running hold their room": (
        """
        node  n1 cpu=2
        queue q
        job   q/starts +n1
        job   q/next   -*2
        """,
        [bind("next-0", "n1")],
    ),
    "pods of other schedulers hold room, and are left to them": (
        """
        node  n1 cpu=2
        queue q
        job   q/theirs scheduler=other n1 -
        job   q/ours                   -*2
        """,
        [bind("ours-0", "n1")],
    ),
    "gated pods wait, the others go": (
        """
        node  n1 cpu=4
        queue q
        job   q/p ! - !
        """,
        [bind("p-1", "n1")],
    ),
    "pods that ask for nothing are left to backfill": (
        """
        node  n1 cpu=4
        queue q
        job   q/idle cpu=0 -
        """,
        [],
    ),
    "without enqueue in the configuration, jobs need no admission": (
        """
        node  n1 cpu=4
        queue q
        job   q/p phase=Pending -
        """,
        [bind("p-0", "n1")],
    ),
    "a job in a queue that doesn't exist waits": (
        """
        node  n1 cpu=4
        queue q
        job   missing/lost -   job q/p -
        """,
        [bind("p-0", "n1")],
    ),
    "no nodes at all": ("queue q job q/p -", []),
}


@pytest.mark.parametrize(("picture", "decisions"), TABLE.values(), ids=TABLE)
def test_idle_room_is_given_away(picture: str, decisions: list[object]) -> None:
    """Who gets it, and where."""
    assert decide(picture, "allocate", "gang | predicates") == decisions


def test_without_enqueue_jobs_are_admitted_when_they_are_looked_at() -> None:
    """A group that was Pending and finds no room is Inqueue, so that its pods are made."""
    documents = pictures.documents("node n1 cpu=1 queue q job q/p phase=Pending cpu=2 -")
    (group,) = running.run(documents, running.TREE).groups
    assert group.phase is Phase.INQUEUE
