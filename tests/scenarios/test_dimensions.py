"""Several resources at once: what is dominant, what is over, and what one has without the other."""

from collections import Counter

import pytest

from tests import running
from tests.scenarios.deciding import decide, evict, pipeline
from vscheduler.core.config import policy
from vscheduler.testing import pictures

BUILT_IN = dict(policy.BUILT_IN)
RECLAIM = "priority gang | drf predicates proportion nodeorder"


def test_jobs_of_one_queue_level_their_dominant_shares() -> None:
    """The example of Dominant Resource Fairness (NSDI 2011): three tasks to the one that wants
    memory, two to the one that wants cpu.
    """
    picture = """
        node  n1 cpu=9 memory=18Gi
        queue q
        job   q/memory cpu=1 memory=4Gi min=1 -*9
        job   q/cores  cpu=3 memory=1Gi min=1 -*9
        """
    bound = Counter(
        each.pod.rpartition("-")[0] for each in decide(picture, "allocate", "drf | predicates")
    )
    assert bound == {"memory": 3, "cores": 2}


def test_queues_share_each_resource_by_itself() -> None:
    """One asks for cores, the other for memory: each deserves all that it asks for."""
    picture = """
        node  n1 cpu=12 memory=12Gi
        queue cores   queue memory
        job   cores/c  cpu=3 memory=1Gi min=1 -*3
        job   memory/m cpu=1 memory=3Gi min=1 -*3
        """
    result = running.run(pictures.documents(picture), BUILT_IN)
    assert len(result.binds) == 6


OVER = """
    node  n1 cpu=8 memory=8Gi
    queue lead   queue gold
    job   lead/greedy cpu=1 memory=2Gi min=1 n1 n1 n1 n1
    job   gold/other  cpu=4 memory=0 min=1 n1
    job   gold/needy  {asks} min=1 -
    """


def test_a_queue_is_over_only_in_what_the_claimant_needs() -> None:
    """It has all the memory, and half of the cores: who needs memory may have some of it back, who
    needs a core can't.
    """
    asks_memory = OVER.format(asks="cpu=0 memory=2Gi")
    assert decide(asks_memory, "allocate, reclaim", RECLAIM) == [
        evict("greedy-3", "n1", for_="needy"),
        pipeline("needy-0", "n1"),
    ]
    assert decide(OVER.format(asks="cpu=1 memory=0"), "allocate, reclaim", RECLAIM) == []


@pytest.mark.parametrize(
    ("greedy", "least", "goes"),
    [(8, 1, 0), (10, 1, 1), (10, 3, 0)],
    ids=["nobody is over", "one pod is over", "one pod is over, and isn't enough"],
)
def test_what_stands_apart_is_no_reason_to_go_on_evicting(
    greedy: int, least: int, goes: int
) -> None:
    """Cores stand where memory is gone, and memory where cores are: by sums the preemptor is owed
    more than it can use. It gets what others have above their shares, and then it is quiet.
    """
    picture = f"""
        node  n1 cpu=8 memory=8Gi   node n2 cpu=8 memory=8Gi   node n3 cpu=10 memory=10Gi
        queue lead   queue gold
        job   lead/foreign scheduler=other cpu=0 memory=8Gi n1
        job   lead/alien   scheduler=other cpu=8 memory=0   n2
        job   lead/greedy cpu=1 memory=1Gi min=1 n3*{greedy}
        job   gold/needy  cpu=1 memory=1Gi min={least} -*10
        """
    gone = [each for each in decide(picture, "allocate, reclaim", RECLAIM) if each.what == "evict"]
    assert len(gone) == goes
