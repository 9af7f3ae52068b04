import pytest

from tests import running
from tests.scenarios.deciding import Decision, decide, evict, pipeline
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

TIERS = "priority gang conformance pdb | drf predicates proportion nodeorder binpack"


def reclaim(picture: str, tiers: str = TIERS) -> list[Decision]:
    """What one cycle of allocate and reclaim decides."""
    return decide(picture, "allocate, reclaim", tiers)


def test_a_queue_gets_back_only_what_its_job_needs() -> None:
    """An over-served queue loses one pod, the youngest of its surplus, not its whole job."""
    assert reclaim("""
        node  n1 cpu=4
        queue gold    queue lead
        job   lead/greedy min=1 cpu=1   n1 n1 n1 n1
        job   gold/needy min=1 cpu=1   -
        """) == [evict("greedy-3", "n1", for_="needy"), pipeline("needy-0", "n1")]


def test_nobody_is_evicted_for_a_gang_that_would_not_fit() -> None:
    """Two nodes could be cleared for three of the four pods, which would start nothing."""
    assert (
        reclaim("""
        node  n1 cpu=4   node n2 cpu=4   node n3 cpu=8 taint=dedicated=lab:NoSchedule
        queue gold    queue lead
        job   lead/greedy min=1 cpu=2   n1 n1 n2 n2
        job   gold/needy min=4 cpu=4   - - - -
        """)
        == []
    )


def test_free_room_comes_first() -> None:
    """One of two pods fits without any eviction, so one pod goes for the other."""
    assert reclaim("""
        node  n1 cpu=2   node n2 cpu=6
        queue gold    queue lead
        job   lead/greedy min=1 cpu=2   n2 n2 n2
        job   gold/needy min=2 cpu=2   - -
        """) == [
        evict("greedy-2", for_="needy"),
        pipeline("needy-0", "n1"),
        pipeline("needy-1", "n2"),
    ]


def test_surplus_goes_before_whole_gangs() -> None:
    """The elastic job on the worse node loses a pod; the rigid one keeps its gang."""
    assert reclaim("""
        node  n1 cpu=2   node n2 cpu=2
        queue gold    queue lead
        job   lead/rigid min=2 cpu=1 age=0      n1 n1
        job   lead/loose min=1 cpu=1 age=600    n2 n2
        job   gold/needy min=1 cpu=1   -
        """) == [evict("loose-1", "n2", for_="needy"), pipeline("needy-0", "n2")]


def test_a_gang_goes_whole_or_not_at_all() -> None:
    """With no surplus anywhere a rigid gang goes, both pods, though one would make the room."""
    assert reclaim("""
        node  n1 cpu=2   node n2 cpu=2   node n3 cpu=2 taint=own=lead:NoSchedule
        queue gold    queue lead
        job   lead/kept  min=1 cpu=2 tolerate=own   n3
        job   lead/rigid min=2 cpu=2   n1 n2
        job   gold/needy min=1 cpu=2   -
        """) == [
        evict("rigid-0", "n1", for_="needy"),
        evict("rigid-1", "n2", for_="needy"),
        pipeline("needy-0", "n1"),
    ]


def test_no_gang_goes_for_a_trifle() -> None:
    """A gang of four cpu is more than twice what is lacking."""
    assert (
        reclaim("""
        node  n1 cpu=8
        queue gold    queue lead
        job   lead/rigid min=4 cpu=1   n1 n1 n1 n1
        job   lead/stiff min=4 cpu=1   n1 n1 n1 n1
        job   gold/needy min=1 cpu=1   -
        """)
        == []
    )


def test_the_lower_priority_goes_first_then_the_younger() -> None:
    """Of three jobs with surplus: priority counts before age."""
    assert reclaim("""
        node  n1 cpu=6
        queue gold    queue lead
        job   lead/high min=1 cpu=1 priority=10 age=0    n1 n1
        job   lead/old  min=1 cpu=1 age=600              n1 n1
        job   lead/new  min=1 cpu=1 age=60               n1 n1
        job   gold/needy min=1 cpu=1   -
        """) == [evict("new-1", for_="needy"), pipeline("needy-0", "n1")]


def test_a_queue_within_its_share_loses_nothing() -> None:
    """Both have what they deserve of the resource that is asked for."""
    assert (
        reclaim("""
        node  n1 cpu=4
        queue gold    queue lead
        job   lead/half min=1 cpu=1   n1 n1
        job   gold/more min=1 cpu=1   n1 n1 -
        """)
        == []
    )


def test_what_is_protected_stays() -> None:
    """Queues that don't give back, pods marked so, critical ones, those that a budget covers."""
    assert reclaim("""
        node  n1 cpu=8
        queue gold    queue lead    queue stone reclaimable=false
        job   lead/marked min=1 cpu=1 preemptable=false   n1 n1
        job   lead/vital  min=1 cpu=1 class=system-node-critical   n1
        job   lead/kept   min=1 cpu=1 label=app=db   n1
        job   lead/plain  min=1 cpu=1   n1
        job   stone/own   min=1 cpu=1   n1 n1 n1
        job   gold/needy  min=1 cpu=1   -
        budget calm select=app=db allowed=0
        """) == [evict("plain-0", for_="needy"), pipeline("needy-0", "n1")]


def test_an_elastic_job_gets_its_share_back() -> None:
    """A job that runs with its minimum still gets what its queue is owed, pod by pod."""
    assert reclaim("""
        node  n1 cpu=6
        queue gold    queue lead
        job   lead/greedy min=1 cpu=1   n1 n1 n1 n1 n1
        job   gold/needy  min=1 cpu=1   n1 - - -
        """) == [
        evict("greedy-3", for_="needy"),
        evict("greedy-4", for_="needy"),
        pipeline("needy-1", "n1"),
        pipeline("needy-2", "n1"),
    ]


def test_roles_keep_their_minimum() -> None:
    """The only master stays; of three workers, two of which are needed, one may go."""
    assert reclaim("""
        node  n1 cpu=4
        queue gold    queue lead
        job   lead/greedy min=3 cpu=1 roles=m:1,w:2   m:n1 w:n1 w:n1 w:n1
        job   gold/needy min=1 cpu=1   -
        """) == [evict("greedy-3", for_="needy"), pipeline("needy-0", "n1")]


@pytest.mark.parametrize(
    ("tier", "evicted"),
    [
        ("gang | proportion predicates", ["greedy-1"]),
        ("gang | predicates", []),
    ],
    ids=["someone entitles", "nobody does"],
)
def test_somebody_must_be_entitled(tier: str, evicted: list[str]) -> None:
    """Without a plugin that says who may lose pods to whom, nobody does."""
    found = reclaim(
        """
        node  n1 cpu=2
        queue gold    queue lead
        job   lead/greedy min=1 cpu=1   n1 n1
        job   gold/needy min=1 cpu=1   -
        """,
        tier,
    )
    assert [each.pod for each in found if each.what == "evict"] == evicted


def test_those_who_never_preempt_take_nothing() -> None:
    """A pod that says preemptionPolicy Never waits."""
    picture = """
        node  n1 cpu=2
        queue gold    queue lead
        job   lead/greedy min=1 cpu=1   n1 n1
        job   gold/needy min=1 cpu=1 preempts=Never   -
        """
    assert reclaim(picture) == []


@pytest.mark.parametrize("budget", [1, 300, 1_000])
def test_jobs_that_ask_in_vain_leave_the_others_their_turn(budget: int) -> None:
    """Where the budget is used up before all have asked, the next cycle goes on behind them."""
    picture = """
        node  n1 cpu=4   node n2 cpu=4   node n3 cpu=4
        queue lead    queue gold weight=3
        job   lead/lasting preemptable=false  n1 n1 n1 n1 n2 n2 n2 n2
        job   lead/greedy                     n3 n3 n3 n3
        job   gold/one   cpu=3 select=zone=a age=60   -
        job   gold/two   cpu=3 select=zone=b age=60   -
        job   gold/three cpu=3 select=zone=c age=60   -
        job   gold/four  cpu=3 select=zone=d age=60   -
        job   gold/needy                              -
        """
    documents = pictures.documents(picture)
    tree = {"actions": "allocate, reclaim", "tiers": running.tiers(TIERS)}
    carried, gone = FRESH, []
    for _ in range(20):
        result = running.run(documents, tree, budget=budget, carried=carried)
        carried = result.carried
        gone += [evict.task.name for evict in result.evicts]
        if gone or result.finished:
            break
    assert gone == ["greedy-3"]


def test_a_gang_goes_for_what_the_jobs_of_a_queue_lack_together() -> None:
    """Six cores are too many to free for one, but three jobs wait that need all of them."""
    assert reclaim("""
        node  n1 cpu=6   node n2 cpu=1 taint=own=lead:NoSchedule
        queue lead    queue gold weight=9
        job   lead/own   min=1 cpu=1 tolerate=own   n2
        job   lead/gang  min=3 cpu=2          n1 n1 n1
        job   gold/one   min=1 cpu=1 age=90   -
        job   gold/large min=1 cpu=4 age=60   -
        job   gold/two   min=1 cpu=1 age=30   -
        """) == [
        *(evict(f"gang-{index}", "n1", for_="one") for index in range(3)),
        *(pipeline(name, "n1") for name in ("large-0", "one-0", "two-0")),
    ]


def test_in_volcano_pods_that_ask_for_nothing_reclaim_as_well() -> None:
    """The gang, which starts whole, is promised a slot for such a pod; else nobody goes for one."""
    picture = """
        node  n1 cpu=4 pods=4
        queue lead    queue gold
        job   lead/greedy min=1 priority=1   n1 n1 n1
        job   gold/mixed  min=2              - -@0
        """
    tree = {"actions": "allocate, reclaim", "tiers": running.tiers(TIERS)}
    result = running.run(pictures.documents(picture), {**tree, "compatibility": "volcano"})
    assert result.binds == ()
    assert [evict.task.name for evict in result.evicts] == ["greedy-2"]
    assert [each.task.name for each in result.pipelined] == ["mixed-0", "mixed-1"]
    native = running.run(pictures.documents(picture), tree)
    assert (native.binds, native.evicts) == ((), ())


def test_together_claims_free_no_more_than_is_needed() -> None:
    """Room that one claim leaves over on a node does for the other as well.

    First is lent one pod's room; second, whose port is taken by a pod of three cpus, then makes
    room for both.
    """
    assert reclaim("""
        node  n1 cpu=6
        queue a   queue b   queue lead
        job   lead/small min=1 cpu=1 age=60           n1 n1 n1
        job   lead/large min=1 cpu=3 port=80 age=600  n1
        job   a/first    min=1 cpu=1 age=600          -
        job   b/second   min=1 cpu=1 port=80          -
        """) == [
        evict("large-0", for_="second"),
        pipeline("first-0", "n1"),
        pipeline("second-0", "n1"),
    ]


def test_a_job_whose_wait_is_over_gets_no_part_of_its_minimum() -> None:
    """It may hold what room it finds; nobody is evicted for less than its minimum."""
    documents = pictures.documents("""
        node  n1 cpu=4   node n2 cpu=4
        queue gold    queue lead
        job   lead/greedy min=1 cpu=2   n1 n1 n2 n2
        job   gold/needy min=3 cpu=4 age=9000   - - -
        """)
    sla = {"name": "sla", "arguments": {"sla-waiting-time": "1s"}}
    tiers = [{"plugins": [sla]}, *running.tiers(TIERS)]
    result = running.run(documents, {"actions": "allocate, reclaim", "tiers": tiers})
    assert result.evicts == ()


def test_no_gang_goes_because_something_else_is_scarce() -> None:
    """Two cpus are lacking, and nine would be freed; the only gpu, which is free, is no measure."""
    assert (
        reclaim("""
        node  n1 cpu=9 gpu=1   node n2 cpu=9
        queue gold    queue lead
        job   lead/rigid min=3 cpu=3   n1 n1 n1
        job   lead/stiff min=3 cpu=3   n2 n2 n2
        job   gold/needy min=1 cpu=2 gpu=1   -
        """)
        == []
    )


def test_pods_move_to_what_is_free_and_to_what_an_eviction_frees() -> None:
    """Each of the two could have the free place; another queue has one more than its share."""
    picture = """
        node n1 cpu=2 taint=a=x:NoSchedule   node n2 cpu=5 taint=b=x:NoSchedule
        queue q   queue r   queue s
        job r/r min=1 cpu=1 tolerate=a tolerate=b n1 n1
        job s/s min=1 cpu=1 tolerate=b n2*4
        job q/q min=2 cpu=1 tolerate=a -*2
        """
    assert reclaim(picture) == [
        evict("r-0", "n1", for_="q"),
        evict("r-1", "n1", for_="q"),
        evict("s-3", "n2", for_="q"),
        pipeline("q-0", "n1"),
        pipeline("q-1", "n1"),
    ]
