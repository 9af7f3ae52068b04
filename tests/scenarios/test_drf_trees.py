"""Plugin drf with enableHierarchy."""

from collections import Counter

import pytest

from tests import running
from tests.properties.lives import Life
from tests.scenarios.deciding import decide, evict, pipeline
from vscheduler.testing import pictures

TIERS = "gang drf:enableHierarchy=true | predicates"


def placed(picture: str, places: dict[str, str]) -> Counter[str]:
    """Pods by job, with queues at these paths; all weights are 1."""
    documents = pictures.documents(picture)
    for document in documents:
        if document["kind"] == "Queue":
            path = places[document["metadata"]["name"]]
            document["metadata"]["annotations"] = {"volcano.sh/hierarchy": path}
    tree = {"actions": "allocate", "tiers": running.tiers(TIERS)}
    return Counter(bind.task.job for bind in running.run(documents, tree).binds)


def test_branches_share_before_queues_do() -> None:
    """Two queues of one branch get together what a queue that is a branch of its own gets."""
    picture = """
        node  n1 cpu=8
        queue sci   queue dev   queue prod
        job   sci/a  min=0 -*9
        job   dev/b  min=0 -*9
        job   prod/c min=0 -*9
        """
    places = {"sci": "root/sci", "dev": "root/eng/dev", "prod": "root/eng/prod"}
    # cores scaled to the smaller part: the branch has as much as two of its smallest queue
    assert placed(picture, places) == {"default/a": 4, "default/b": 2, "default/c": 2}
    alone = {name: f"root/{name}" for name in places}
    assert sorted(placed(picture, alone).values()) == [2, 3, 3]


def test_queues_share_by_weight() -> None:
    """Where no queue has a place in a tree, each is a branch of its own."""
    picture = """
        node  n1 cpu=9
        queue a weight=2   queue b
        job   a/x min=0 -*9
        job   b/y min=0 -*9
        """
    found = decide(picture, "allocate", TIERS)
    assert Counter(each.pod[0] for each in found) == {"x": 6, "y": 3}


def test_a_branch_reclaims_its_share_and_no_more() -> None:
    """The one that has less gets one pod, and then both have the same."""
    picture = """
        node  n1 cpu=4
        queue a   queue b
        job   a/x min=0 n1 n1 n1
        job   b/y min=0 n1 -*3
        """
    expected = [evict("x-2", for_="y"), pipeline("y-1", "n1")]
    assert decide(picture, "allocate, reclaim", TIERS) == expected


def test_a_gang_stays_whose_branch_would_have_less_than_the_preemptors() -> None:
    """Of four cores there is room for one gang: each would only take the other's place in turns."""
    picture = """
        node  n1 cpu=4
        queue a   queue b
        job   a/x min=3 n1 n1 n1
        job   b/y min=3 -*3
        """
    assert decide(picture, "allocate, reclaim", TIERS) == []
    smaller = picture.replace("a/x min=3 n1 n1 n1", "a/x min=2 n1 n1   job a/z min=2 age=90 n1 n1")
    found = decide(smaller.replace("b/y min=3 -*3", "b/y min=2 -*2"), "allocate, reclaim", TIERS)
    assert {each.pod[0] for each in found if each.what == "evict"} == {"x"}


def test_a_branch_that_holds_more_takes_nothing_though_it_counts_for_less() -> None:
    """A pod of a job that has just begun makes ten cores count as four, with a core left."""
    picture = """
        node  n1 cpu=17
        queue a   queue b
        job   a/old min=1 cpu=2 n1 n1 n1 n1 -*2
        job   a/new min=1 cpu=2 n1 -
        job   b/y   min=1 cpu=2 n1 n1 n1
        """
    assert decide(picture, "allocate, reclaim", TIERS) == []


def test_branches_whose_jobs_start_and_stop_come_to_rest() -> None:
    """Each pod by which a job starts or stops changes what the others count for. By that alone,
    preempt and reclaim would lead the same pods in a circle.
    """
    life = Life(
        pictures.documents("""
        node  n1 cpu=20
        queue a   queue b
        job   a/u min=1 cpu=2 age=10 n1 n1
        job   a/v min=1 cpu=1 age=40 n1
        job   a/w min=1 cpu=2 age=50 n1 n1 n1 -*2
        job   b/x min=1 cpu=2 age=60 n1 n1 n1 -
        job   b/y min=1 cpu=1 age=20 n1 n1
        """)
    )
    tree = {"actions": "allocate, preempt, reclaim", "tiers": running.tiers(TIERS)}
    evictions = [len(life.cycle(tree).evicts) for _ in range(12)]
    assert sum(evictions[-6:]) == 0, evictions


@pytest.mark.parametrize(
    "cluster",
    [
        """
        node  n1 cpu=1   node n2 cpu=1   node n3 cpu=1
        queue a          queue b weight=3
        job   a/high cpu=1 min=2 priority=10 n2 n3 -
        job   b/claim cpu=1 min=2 - -
        """,
        """
        node  n1 cpu=1   node n2 cpu=1   node n3 cpu=1   node n4 cpu=1
        queue a          queue b weight=9
        job   a/high cpu=1 min=2 priority=10 n2 n3 n4 -
        job   b/claim cpu=1 min=3 - - -
        """,
    ],
)
def test_a_gang_for_which_others_go_does_not_go_itself(cluster: str) -> None:
    """They would have gone for nothing, were another branch given the gang's room at once."""
    tiers = "priority gang | drf:enableHierarchy=true predicates nodeorder"
    picture = f"{cluster} job a/low cpu=1 min=1 n1"
    found = decide(picture, "allocate, preempt, reclaim", tiers)
    assert evict("low-0", "n1", for_="high") in found
    assert [each.what for each in found] == ["evict", "pipeline"]
