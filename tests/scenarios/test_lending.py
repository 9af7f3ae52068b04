"""What no queue can use within its share is lent, and goes back to whom it belongs."""

from collections import Counter

import pytest

from tests import running
from tests.properties.lives import Life
from tests.running import Tree
from tests.scenarios.deciding import decide
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures

SHARES = "priority gang | predicates proportion"
TREE = {"actions": "enqueue, allocate, backfill, reclaim", "tiers": running.tiers(SHARES)}

MANY_QUEUES = "\n".join(
    ["node n1 cpu=8", *(f"queue q{n:02} job q{n:02}/j{n:02} min=1 cpu=1 -" for n in range(16))]
)


def run(picture: str, tree: Tree = TREE) -> CycleResult:
    """One cycle."""
    return running.run(pictures.documents(picture), tree)


def bound(picture: str, tree: Tree = TREE) -> Counter[str]:
    """How many pods of each job start in one cycle."""
    return Counter(bind.task.job.rpartition("/")[2] for bind in run(picture, tree).binds)


def test_shares_smaller_than_a_pod_leave_nothing_idle() -> None:
    """Sixteen queues deserve half a device each, and eight of them get one."""
    assert len(run(MANY_QUEUES).binds) == 8


def test_volcano_leaves_it_idle() -> None:
    """Its shares are limits."""
    assert run(MANY_QUEUES, {**TREE, "compatibility": "volcano"}).binds == ()


TABLE = {
    "a gang larger than any share": (
        """
        node n1 cpu=8   node n2 cpu=8
        queue a queue b queue c
        job a/a min=8 cpu=1 age=9 -*8   job b/b min=8 cpu=1 age=8 -*8
        job c/c min=8 cpu=1 age=7 -*8
        """,
        {"a": 8, "b": 8},
    ),
    "the smallest part of its share comes first": (
        """
        node n1 cpu=4
        queue a weight=3 queue b weight=1
        job a/a min=1 cpu=2 age=1 -*9   job b/b min=1 cpu=2 age=2 -*9
        """,
        {"a": 2},
    ),
    "of equal parts, the oldest job": (
        """
        node n1 cpu=3
        queue a queue b
        job a/a min=1 cpu=1 age=1 -*9   job b/b min=1 cpu=1 age=2 -*9
        """,
        {"a": 1, "b": 2},
    ),
    "never above the capability of a queue": (
        """
        node n1 cpu=3
        queue a capability=cpu:1 queue b capability=cpu:1
        job a/a min=1 cpu=1 -*9   job b/b min=1 cpu=1 -*9
        """,
        {"a": 1, "b": 1},
    ),
    "never above the capability of all queues": (
        """
        node n1 cpu=5
        queue root capability=cpu:3   queue a queue b
        job a/a min=1 cpu=1 age=2 -*9   job b/b min=1 cpu=1 age=1 -*9
        """,
        {"a": 2, "b": 1},
    ),
    "no guarantee of another queue, used or not": (
        """
        node n1 cpu=5
        queue a queue b queue c guarantee=cpu:2
        job a/a min=1 cpu=1 age=2 -*9   job b/b min=1 cpu=1 age=1 -*9
        """,
        {"a": 2, "b": 1},
    ),
    "a guarantee elsewhere keeps nobody from idle nodes": (
        """
        node n1 cpu=3   node n2 cpu=3 taint=own=c:NoSchedule
        queue a queue b queue c guarantee=cpu:3
        job a/a min=1 cpu=1 age=2 -*9   job b/b min=1 cpu=1 age=1 -*9
        job c/c min=1 cpu=1 tolerate=own select=none=such -
        """,
        {"a": 2, "b": 1},
    ),
    "a gang of which only a search finds nodes": (
        """
        node n1 cpu=3   node n2 cpu=2   node n3 cpu=2
        queue a weight=6 queue b weight=1
        job a/a min=3 -@2 -@3 -@2   job b/b min=2 cpu=2 -*2
        """,
        {"a": 3},
    ),
    "no closed queue": (
        """
        node n1 cpu=3
        queue a state=Closed queue b capability=cpu:1
        job a/a min=1 cpu=1 -*9   job b/b min=1 cpu=1 -*9
        """,
        {"b": 1},
    ),
}


@pytest.mark.parametrize(("picture", "expected"), TABLE.values(), ids=TABLE)
def test_what_is_idle_is_lent(picture: str, expected: dict[str, int]) -> None:
    """How many pods of each job start."""
    assert bound(picture) == expected


def test_a_gang_borrows_for_larger_pods_where_nodes_lack_room_for_its_smallest() -> None:
    """Its three smallest are within its queue's share of 6, and one of them has no node."""
    documents = pictures.documents("""
        node n1 cpu=3   node n2 cpu=2   node n3 cpu=2   node n4 cpu=1 label=zone=a
        queue a weight=6 queue b weight=2
        job a/a min=3 -@2 -@3 -@2 -@1   job b/b min=1 cpu=1 n4   job b/c min=2 cpu=2 -*2
        """)
    (smallest,) = (each for each in documents if each["metadata"]["name"] == "a-3")
    smallest["spec"]["nodeSelector"] = {"zone": "a"}
    names = {bind.task.name for bind in running.run(documents, TREE).binds}
    assert names == {"a-0", "a-1", "a-2"}


def test_a_job_that_borrows_waits_for_nothing_that_is_being_released() -> None:
    """Who has a right to it may come before it is free."""
    found = run("node n1 cpu=1 queue a queue b job a/old ~n1 job a/a cpu=1 - job b/b cpu=1 -")
    assert (found.binds, found.pipelined) == ((), ())


def test_who_gets_nothing_lent_is_told_of_the_share() -> None:
    """As without lending: more nodes, or a larger share, would help."""
    reasons = {group.job: group.reason for group in run(MANY_QUEUES).groups if group.reason}
    assert len(reasons) == 8
    assert set(map(sentences.sentence, reasons.values())) == {
        f"queue q{number:02} has 0 cpu of the 0.5 it deserves; this pod needs 1"
        for number in range(8, 16)
    }


GIVEN_BACK = {
    "a pod larger than the share of its queue": """
        node n1 cpu=1
        queue poor guarantee=cpu:1 queue rich
        job rich/r min=1 cpu=1 n1   job poor/p min=1 cpu=1 -
        """,
    "a gang larger than the share of its queue": """
        node n1 cpu=8
        queue poor queue rich
        job rich/r min=8 cpu=1 n1*8   job poor/p min=4 cpu=1 -*4
        """,
    "such a gang, for a single pod": """
        node n1 cpu=8
        queue poor queue rich
        job rich/r min=8 cpu=1 n1*8   job poor/p min=1 cpu=1 -
        """,
    "a gang, for several jobs that together need half of it": """
        node n1 cpu=8
        queue poor queue rich weight=3
        job rich/r min=4 cpu=1 n1*4   job rich/s min=4 cpu=1 n1*4
        job poor/p min=1 cpu=1 -   job poor/q min=1 cpu=1 -
        """,
}


@pytest.mark.parametrize("picture", GIVEN_BACK.values(), ids=GIVEN_BACK)
def test_what_is_borrowed_goes_back_and_stays(picture: str) -> None:
    """Owners create evicted pods again; nobody takes anything back."""
    life = Life(pictures.documents(picture))
    evicted = [len(life.cycle(TREE).evicts) for _ in range(60)]
    assert evicted[0]
    assert not any(evicted[5:])
    placed = Counter(
        document["metadata"]["name"][0]
        for document in life.documents
        if document["kind"] == "Pod" and document["spec"].get("nodeName")
    )
    assert placed["p"]


@pytest.mark.parametrize(("pods", "gone"), [("min=2 n1 n1@0 n2@0", 0), ("min=1 n1", 1)])
def test_a_large_pod_that_its_job_can_spare_is_not_borrowed(pods: str, gone: int) -> None:
    """The job's minimum fits into the share, so its queue ends no lower than who asks."""
    least, _, nodes = pods.partition(" ")
    result = run(f"""
        node n1 cpu=5   node n2 cpu=5
        queue small   queue large weight=4
        job small/s {least} cpu=3   {nodes}
        job large/l min=1 cpu=1   n1*2 n2*5 -*3
        """)
    assert len(result.evicts) == gone


def test_nothing_is_lent_in_a_cycle_that_evicts() -> None:
    """What goes is still there, and counts against the limits of its queue."""
    found = decide(
        """
        node n1 cpu=4   node n2 cpu=1
        queue poor queue rich capability=cpu:4
        job rich/r min=1 cpu=1 n1*4 -*4   job poor/p min=1 cpu=2 -
        """,
        "allocate, reclaim",
        SHARES,
    )
    assert {each.what for each in found} == {"evict", "pipeline"}


@pytest.mark.parametrize("budget", [None, 4_000])
def test_jobs_that_run_and_get_nothing_more_end_no_lending(budget: int | None) -> None:
    """However many of them come first: each has its minimum, and the limit of its queue."""
    limited = (
        f"queue q{n:02} capability=cpu:1500m job q{n:02}/j{n:02} min=1 cpu=1 age=9 n1 -"
        for n in range(16)
    )
    picture = "\n".join(["node n1 cpu=20", *limited, "queue z job z/z min=1 cpu=2 age=1 -"])
    tree = {**TREE, "actions": "allocate"}
    found = running.run(pictures.documents(picture), tree, budget=budget)
    assert [bind.task.name for bind in found.binds] == ["z-0"]
    assert found.finished


@pytest.mark.parametrize(("budget", "started"), [(None, 8), (5_000, 5)])
def test_that_lending_was_cut_by_the_budget_is_told(budget: int | None, started: int) -> None:
    """The cycle is finished all the same, and who got nothing might have."""
    found = running.run(pictures.documents(MANY_QUEUES), TREE, budget=budget)
    assert (len(found.binds), found.cut_lending) == (started, started < 8)
    assert found.finished
