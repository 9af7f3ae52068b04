import pytest

from tests import running
from tests.properties.lives import Life
from tests.scenarios.deciding import Decision, bind, decide, evict, pipeline, written
from vscheduler.testing import pictures

TIERS = "priority gang conformance pdb | drf predicates proportion nodeorder binpack"


def preempt(picture: str, tiers: str = TIERS) -> list[Decision]:
    """What one cycle of allocate and preempt decides."""
    return decide(picture, "allocate, preempt", tiers)


def test_the_lowest_priority_gives_way() -> None:
    """One pod of the least important job goes, its youngest."""
    assert preempt("""
        node  n1 cpu=4
        queue q
        job   q/low  min=1 cpu=1               n1 n1
        job   q/mid  min=1 cpu=1 priority=5    n1 n1
        job   q/high min=1 cpu=1 priority=10   -
        """) == [evict("low-1", "n1", for_="high"), pipeline("high-0", "n1")]


def test_equals_do_not_preempt_each_other() -> None:
    """Neither of the two jobs has the smaller share."""
    assert (
        preempt("""
        node  n1 cpu=2
        queue q
        job   q/a min=1 cpu=1   n1 n1
        job   q/b min=2 cpu=1   - -
        """)
        == []
    )


def test_among_equals_the_smaller_share_counts() -> None:
    """Drf has its say where priorities are equal: one pod each in the end."""
    assert preempt("""
        node  n1 cpu=2
        queue q
        job   q/a min=1 cpu=1   n1 n1
        job   q/b min=1 cpu=1   -
        """) == [evict("a-1", for_="b"), pipeline("b-0", "n1")]


def test_a_lower_gang_goes_whole() -> None:
    """What matters more needs not be as large as what goes for it."""
    assert preempt("""
        node  n1 cpu=4
        queue q
        job   q/low  min=4 cpu=1               n1 n1 n1 n1
        job   q/high min=1 cpu=2 priority=10   -
        """) == [*(evict(f"low-{n}", for_="high") for n in range(4)), pipeline("high-0", "n1")]


def test_no_gang_goes_for_a_pod_above_a_minimum() -> None:
    """A job that runs takes surplus pods for its next one, no larger gang."""
    assert (
        preempt("""
        node  n1 cpu=5
        queue q
        job   q/low  min=4 cpu=1               n1 n1 n1 n1
        job   q/high min=1 cpu=1 priority=10   n1 -
        """)
        == []
    )


def test_other_queues_are_left_alone() -> None:
    """However little their jobs matter."""
    assert (
        preempt("""
        node  n1 cpu=2
        queue q   queue r
        job   r/low  min=1 cpu=1               n1 n1
        job   q/high min=1 cpu=1 priority=10   -
        """)
        == []
    )


def test_the_queues_limit_is_made_room_under() -> None:
    """There is room on the node, but the queue may have no more than it has."""
    assert preempt("""
        node  n1 cpu=4
        queue q capability=cpu:2
        job   q/low  min=1 cpu=1               n1 n1
        job   q/high min=1 cpu=1 priority=10   -
        """) == [evict("low-1", for_="high"), pipeline("high-0", "n1")]


def test_a_pod_makes_room_near_one_that_waits_for_its_gang() -> None:
    """The first finds a place; the second one's is near it, as soon as both start."""
    assert preempt("""
        node  n1 cpu=9 label=zone=a   node n2 cpu=2 label=zone=a   node n3 cpu=2 label=zone=a
        queue q   queue r
        job   r/other min=1 cpu=1 port=80   n1
        job   q/low   min=1 cpu=2           n2
        job   q/gang  min=2 cpu=2 port=80 priority=10 label=app=a near=app=a@zone   -*2
        """) == [
        evict("low-0", "n2", for_="gang"),
        pipeline("gang-0", "n3"),
        pipeline("gang-1", "n2"),
    ]


BORROWED = """
    node  n1 cpu=4
    queue q {limit}   queue r
    job   q/low  min=1 cpu=1                  n1*4
    job   q/high min=1 cpu={size} priority=10 -
    job   r/r    min=1 cpu=2 age=1            -
    """
"""Each queue deserves 2 of the 4 cpu that q has."""


@pytest.mark.parametrize(
    ("size", "limit", "more", "victims"),
    [
        (1, "", {}, 1),
        (3, "", {}, 3),
        (1, "capability=cpu:3", {}, 2),
        (1, "", {"compatibility": "volcano"}, 3),
    ],
    ids=["like for like", "larger than the share", "within its capability", "volcano"],
)
def test_a_queue_that_borrows_ends_with_no_more_than_it_had(
    size: int, limit: str, more: dict[str, str], victims: int
) -> None:
    """It needn't go back to its share for a more important job; in Volcano's way, it must."""
    documents = pictures.documents(BORROWED.format(size=size, limit=limit))
    tree = {"actions": "allocate, preempt", "tiers": running.tiers(TIERS), **more}
    found = written(running.run(documents, tree))
    assert found == [
        *(evict(f"low-{number}", "n1", for_="high") for number in range(4 - victims, 4)),
        pipeline("high-0", "n1"),
    ]


def test_what_important_pods_borrow_goes_back_and_stays() -> None:
    """They took it from others of their queue; the queue that it belongs to takes it from them."""
    life = Life(pictures.documents(BORROWED.format(size=3, limit="")))
    tree = {"actions": "allocate, preempt, reclaim", "tiers": running.tiers(TIERS)}
    evicted = [len(life.cycle(tree).evicts) for _ in range(12)]
    assert evicted[0] == 3
    assert sum(evicted[1:6]) == 1
    assert not any(evicted[6:])


def test_within_a_job_the_more_important_pod_takes_the_place() -> None:
    """Only where the job keeps its minimum meanwhile."""
    assert preempt("""
        node  n1 cpu=2
        queue q
        job   q/j min=1 cpu=1   n1 n1^1 -^9
        """) == [evict("j-1", for_="j"), pipeline("j-2", "n1")]


def test_a_port_is_made_free() -> None:
    """What is in the way needn't be room."""
    assert preempt("""
        node  n1 cpu=4
        queue q
        job   q/low  min=1 cpu=1 port=80               n1
        job   q/high min=1 cpu=1 port=80 priority=10   -
        """) == [evict("low-0", for_="high"), pipeline("high-0", "n1")]


@pytest.mark.parametrize(("allowed", "victims"), [(0, []), (1, []), (2, ["low-1", "low-2"])])
def test_budgets_hold(allowed: int, victims: list[str]) -> None:
    """Two pods must go, or none need."""
    found = preempt(f"""
        node  n1 cpu=3
        queue q
        job   q/low  min=1 cpu=1 label=app=db   n1 n1 n1
        job   q/high min=2 cpu=1 priority=10   - -
        budget calm select=app=db allowed={allowed}
        """)
    assert [each.pod for each in found if each.what == "evict"] == victims


def test_the_whole_gang_is_placed_before_anyone_goes() -> None:
    """Three pods would fit, on nodes of their zone, and four are needed."""
    assert (
        preempt("""
        node  n1 cpu=2 label=zone=a   node n2 cpu=1 label=zone=a   node n3 cpu=9 label=zone=b
        queue q
        job   q/low  min=1 cpu=1   n1 n1 n2
        job   q/high min=4 cpu=1 priority=10 select=zone=a   - - - -
        """)
        == []
    )


def test_nobody_goes_for_pods_that_ask_for_nothing() -> None:
    """They count towards their gang's minimum while they wait: with two of them it would start."""
    assert (
        preempt("""
        node  n1 cpu=2 pods=2
        queue q
        job   q/low  min=1 priority=1         n1 n1
        job   q/idle min=3 priority=9 cpu=0   -*3
        """)
        == []
    )


def test_who_went_for_one_pod_stays_where_a_gang_goes_for_the_next_one() -> None:
    """It leaves room for both."""
    assert preempt("""
        node  n1 cpu=5
        node  n2 cpu=1
        queue q
        job   q/gang  min=5 cpu=1         n1*5
        job   q/loose min=1 cpu=1         n2
        job   q/high  min=2 priority=10   -@1 -@4
        """) == [
        *(evict(f"gang-{n}", for_="high") for n in range(5)),
        pipeline("high-0", "n1"),
        pipeline("high-1", "n1"),
    ]


def test_room_that_a_gang_leaves_elsewhere_is_looked_at_again() -> None:
    """On n2 it takes one pod more once the gang on n1 is gone, and no second gang."""
    assert preempt("""
        node  n1 cpu=4   node n2 cpu=5   node n3 cpu=4
        queue q
        job   q/gang  min=2 cpu=3 priority=1   n1 n2
        job   q/other min=2 cpu=2 priority=2   n3 n3
        job   q/two   min=1 cpu=2 priority=5   n2
        job   q/high  min=2 cpu=4 priority=9   - -
        """) == [
        evict("gang-0", "n1", for_="high"),
        evict("gang-1", "n2", for_="high"),
        evict("two-0", "n2", for_="high"),
        pipeline("high-0", "n1"),
        pipeline("high-1", "n2"),
    ]


@pytest.mark.parametrize("actions", ["preempt, allocate", "reclaim, allocate, backfill, preempt"])
def test_whoever_comes_before_allocate_keeps_no_idle_room(actions: str) -> None:
    """What is found idle is bound in the same cycle."""
    picture = """
        node  n1 cpu=2
        queue q
        job   q/any -
        """
    assert decide(picture, actions, TIERS) == [bind("any-0", "n1")]
    tree = {"actions": actions, "tiers": running.tiers(TIERS)}
    (status,) = running.run(pictures.documents(picture), tree).groups
    assert status.reason is None


def test_a_gang_that_waits_for_one_keeps_the_room_of_all() -> None:
    """Two of its pods have found idle room, one takes the place of another: who comes later, and
    is more important, has none of it.
    """
    every = pictures.documents("""
        node  n1 cpu=2   node n2 cpu=1
        queue q
        job   q/low  min=1 priority=1   n2
        job   q/gang min=2 priority=5 preemptable=false   -*3
        job   q/late min=1 priority=9   -
        """)
    later = [each for each in every if each["metadata"]["name"].startswith("late")]
    life = Life([each for each in every if each not in later])
    tree = {"actions": "preempt, allocate", "tiers": running.tiers(TIERS)}
    first = life.cycle(tree)
    assert [evict.task.name for evict in first.evicts] == ["low-0"]
    assert [each.task.name for each in first.pipelined] == ["gang-0", "gang-1", "gang-2"]
    life.add(later)
    started = [bind.task.name for _ in range(3) for bind in life.cycle(tree).binds]
    assert started == ["gang-0", "gang-1", "gang-2"]


@pytest.mark.parametrize("mark", ["annotations", "labels"])
def test_a_group_that_says_so_loses_nobody(mark: str) -> None:
    """What holds for a pod that is marked holds for all pods of a marked PodGroup."""
    documents = pictures.documents("""
        node  n1 cpu=2
        queue q
        job   q/low  min=1 cpu=1               n1 n1
        job   q/high min=1 cpu=1 priority=10   -
        """)
    tree = {"actions": "allocate, preempt", "tiers": running.tiers(TIERS)}
    assert len(running.run(documents, tree).evicts) == 1
    (group,) = [document for document in documents if document["metadata"]["name"] == "low"]
    group["metadata"].setdefault(mark, {})["volcano.sh/preemptable"] = "false"
    assert running.run(documents, tree).evicts == ()


@pytest.mark.parametrize("compatibility", [{}, {"compatibility": "volcano"}])
def test_a_gang_that_has_just_been_bound_loses_no_part_of_it(
    compatibility: dict[str, str],
) -> None:
    """Not in Volcano's way either, where from the next cycle on it may: the second tier is asked
    where the first lets nobody go. Here all of it goes then.
    """
    documents = pictures.documents(
        """
        node  n1 cpu=4 label=zone=a
        node  n2 cpu=4
        queue q
        job   q/low  min=2 cpu=4 priority=1 n1 -
        job   q/high min=1 cpu=4 priority=10 select=zone=a -
        """
    )
    tree = {**running.TREE, "actions": "allocate, preempt", **compatibility}
    first = running.run(documents, tree)
    assert written(first) == [bind("low-1", "n2")]
    later = running.run(running.obey(documents, first), tree)
    goes = ["low-0"] if compatibility else ["low-0", "low-1"]
    assert [evict.task.name for evict in later.evicts] == goes


@pytest.mark.parametrize(
    ("compatibility", "goes"), [({}, []), ({"compatibility": "volcano"}, ["gang-1"])]
)
def test_pods_of_a_job_that_cannot_start_keep_their_places(
    compatibility: dict[str, str], goes: list[str]
) -> None:
    """Volcano lets them take each other's: it asks only between jobs whether the job starts then.

    The pods ask for nothing but a slot, so drf calls them equals; gang's tier has no veto there.
    """
    documents = pictures.documents(
        """
        node  n1 cpu=4 pods=2 label=zone=a
        node  n2 cpu=1 pods=9
        queue q
        job   q/gang min=4 select=zone=a   n1@4 n1@0 -@0*2
        """
    )
    tree = {"actions": "preempt", "tiers": running.tiers(TIERS), **compatibility}
    assert [evict.task.name for evict in running.run(documents, tree).evicts] == goes


@pytest.mark.parametrize(("port", "count"), [("port=81", 0), ("", 1)])
def test_nobody_goes_for_a_sub_group_whose_best_effort_pod_has_no_node(
    port: str, count: int
) -> None:
    """Of the second sub-group, the pod without requests finds its port taken on every node."""
    found = preempt(f"""
        node  n1 cpu=2   node n2 cpu=1   node n3 cpu=1
        queue q
        job   q/low  min=1 cpu=2               n1
        job   q/high min=2 cpu=1 priority=9 subgroups=1x2 {port}   a:n2 a:n3 b:-@2 b:-@0
        """)
    assert len([each for each in found if each.what == "evict"]) == count
