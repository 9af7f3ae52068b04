"""Which queues lose pods for others, and how much: by share, by place, and what becomes of them."""

from collections import Counter
from typing import Any

import pytest

from tests import device_labs, running
from tests.properties.lives import Life
from tests.scenarios.deciding import decide, evict, pipeline
from tests.scenarios.sharing import BUILT_IN, losers
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

SHARES = "gang | predicates proportion"
ALWAYS = {
    "actions": "allocate, reclaim",
    "tiers": running.tiers(SHARES),
    "configurations": [{"name": "reclaim", "arguments": {"reclaim.wholeGangs": "always"}}],
}
RIGID = """
    node  n1 cpu=4   node n2 cpu=4
    queue gold    queue lead weight=3
    job   lead/rigid min=2 cpu=2   n1 n1
    job   lead/stiff min=2 cpu=2   n2 n2
    job   gold/needy min=1 cpu=2   -
    """


def placed(life: Life) -> dict[str, str]:
    """Pods with their nodes."""
    return {
        document["metadata"]["name"]: document["spec"]["nodeName"]
        for document in life.documents
        if document["kind"] == "Pod" and document["spec"].get("nodeName")
    }


def test_a_gang_stays_whose_queue_would_be_worse_off_than_the_preemptor() -> None:
    """Six and two. Without a gang one would have four of its six, the other both of its two."""
    assert decide(RIGID, "allocate, reclaim", SHARES) == []


def test_a_gang_goes_all_the_same_where_gangs_always_may() -> None:
    """For those who would rather have a share given back than a gang finished."""
    result = running.run(pictures.documents(RIGID), ALWAYS)
    assert losers(result) == {"lead": 2}


@pytest.mark.parametrize(("least", "lost"), [(1, 1), (2, 1), (3, 3)])
def test_of_a_gang_that_may_go_no_more_pods_go_than_necessary(least: int, lost: int) -> None:
    """Its other pods would come back to the same node, if the job can do with them."""
    picture = f"""
        node  n1 cpu=10
        queue gold    queue lead
        job   lead/loose min={least} cpu=2   n1 n1 n1
        job   gold/needy min=1 cpu=5   -
        """
    result = running.run(pictures.documents(picture), ALWAYS)
    assert losers(result) == {"lead": lost}


def test_a_gang_goes_whose_queue_keeps_as_much_as_the_preemptor_gets() -> None:
    """Eight each would be fair. Gangs of four leave one with eight, and the other gets seven."""
    found = decide(
        """
        node  n1 cpu=15
        queue lead   queue gold
        job   lead/first  min=4 age=90 n1*4   job lead/second min=4 age=80 n1*4
        job   lead/third  min=4 age=70 n1*4   job lead/single min=1 age=60 n1*3
        job   gold/needy  min=7 -*7
        """,
        "allocate, reclaim",
        SHARES,
    )
    gone = [each for each in found if each in {evict(f"third-{index}") for index in range(4)}]
    assert len(gone) == 4
    assert sum(each.pod.startswith("single") for each in found) == 3


FOUR_TENANTS = """
    node w0 cpu=15 node w1 cpu=15 node w2 cpu=15 node w3 cpu=15 node w4 cpu=15
    queue robotics queue speech queue vision queue lab
    job robotics/sim-1 min=12 w0*12
    job robotics/sim-2 min=12 w0*3 w1*9
    job speech/nb-s    min=1  w1
    job speech/train-0 min=4  w1*4
    job speech/train-1 min=4  w1 w2*3
    job speech/train-2 min=4  w2*4
    job speech/train-3 min=4  w2*4
    job speech/train-4 min=4  w2*4
    job speech/train-5 min=4  w3*4
    job vision/nb-v    min=1  w3
    job vision/render-0 min=8 w3*8
    job vision/render-1 min=8 w3*2 w4*6
    job vision/render-2 min=8 w4*8
    job lab/mine       min=8 cpu=2 -*8
    """


def test_the_largest_surpluses_go_first_and_end_no_lower_than_the_preemptor() -> None:
    """25, 25 and 24 of 19.7 each: the two with the most lose a gang or two, and end at 17; the
    newcomer has 16. A gang of twelve would leave its queue with 12.
    """
    result = running.run(pictures.documents(FOUR_TENANTS), BUILT_IN)
    assert losers(result) == {"speech": 8, "vision": 8}


SURPLUSES = {
    "on one node": """
        node n1 cpu=20
        job lead/few min=1 age=10 n1*12   job iron/many min=1 age=900 n1*8
        """,
    "on two": """
        node n1 cpu=12   node n2 cpu=8
        job lead/few min=1 age=10 n1*12   job iron/many min=1 age=900 n2*8
        """,
}


@pytest.mark.parametrize("picture", SURPLUSES.values(), ids=SURPLUSES)
def test_who_has_the_larger_part_of_its_share_loses_first(picture: str) -> None:
    """8 of 5.3 before 12 of 10.7, whichever node comes first, and however young the others are.
    Two of the four pods that are owed room never take it from others.
    """
    result = running.run(
        pictures.documents(f"""
            queue lead weight=2   queue iron   queue gold
            {picture}
            job gold/needy min=1 -*2   job gold/polite min=1 preempts=Never -*2
            """),
        {"actions": "allocate, reclaim", "tiers": running.tiers(SHARES)},
    )
    assert losers(result) == {"iron": 2}


@pytest.mark.parametrize("nodes", ["node n1 cpu=12 node n2 cpu=12", "node n1 cpu=24"])
def test_the_gang_goes_that_leaves_its_queue_the_most(nodes: str) -> None:
    """Both queues have 12 of 10. Without two large pods one would end with 6, without five small
    ones the other ends with 7.
    """
    last = "n2" if "n2" in nodes else "n1"
    result = running.run(
        pictures.documents(f"""
            {nodes}   node n3 cpu=1
            queue iron    queue lead    queue gold
            job   iron/large min=2 age=10 cpu=3 n1*2
            job   iron/kept  min=6 age=900 priority=9 n1*6
            job   lead/small min=5 age=99 {last}*5
            job   lead/held  min=7 age=900 priority=9 {last}*7
            job   gold/needy min=5 -*5
            """),
        {"actions": "allocate, reclaim", "tiers": running.tiers(SHARES)},
    )
    assert {evict.task.job for evict in result.evicts} == {"default/small"}


PING_PONG = """
    node n0 cpu=6 memory=16Gi
    node n1 cpu=6 memory=4Gi gpu=2 pods=3
    node n2 cpu=6 memory=16Gi
    node n3 cpu=6 memory=8Gi gpu=4
    queue q0   queue q1   queue q2
    job q1/j1 min=2 phase=Pending cpu=1 memory=1Gi gpu=1 -*6
    job q1/j2 min=2 cpu=3 memory=2Gi n2 n3
    job q2/j3 min=2 phase=Pending cpu=1 memory=2Gi -*4
    job q0/j4 min=3 phase=Pending cpu=2 memory=2Gi -*5
    """


def test_two_queues_dont_take_each_others_place_for_ever() -> None:
    """Each is within its share, and by amounts alone could have it elsewhere: its pods couldn't."""
    life = Life(pictures.documents(PING_PONG))
    results = [life.cycle(BUILT_IN) for _ in range(40)]
    assert not any(result.evicts for result in results[10:])


IN_THE_WAY = """
    node n1 cpu=4 label=pool=b   node n2 cpu=4
    queue a   queue b
    job a/a min=1 n1*4
    job b/b min=4 select=pool=b -*4
    """
EVICTED = {f"a-{index}" for index in range(4)}


def latecomers() -> list[Document]:
    """An older job of the queue that gives way, which wants whatever is free."""
    documents = pictures.documents("queue a job a/old min=1 age=999 -*8")
    return [document for document in documents if document["kind"] != "Queue"]


def test_room_is_kept_for_those_who_give_way() -> None:
    """Their next pods find it, whoever else has come in the meantime; nothing else moves."""
    life = Life(pictures.documents(IN_THE_WAY))
    first = life.cycle(BUILT_IN)
    assert losers(first) == {"a": 4}
    assert [room.node for room in first.carried.replacement_reservations] == ["n2"] * 4
    life.add(latecomers())
    results = [life.cycle(BUILT_IN) for _ in range(6)]
    assert not any(result.evicts for result in results)
    nodes = placed(life)
    assert Counter(node for pod, node in nodes.items() if pod.startswith("a-")) == {"n2": 4}
    assert Counter(node for pod, node in nodes.items() if pod.startswith("b-")) == {"n1": 4}
    assert results[-1].carried.replacement_reservations == ()


MEETING = {
    "a pod that must be near them": ("near=app=a@pool -", {}),
    "a gang that must be near them": ("min=2 near=app=a@pool -*2", {}),
    "a gang whose first pod may go anywhere": (
        "min=2 label=app=a near=app=a@pool -*2",
        {"c-0": "n2", "c-1": "n2"},
    ),
    "a pod that must be apart from them": ("cpu=1.5 apart=app=a@pool -", {}),
    "a pod that spreads with them": ("cpu=1.5 label=app=a spread=app=a@pool:1 -", {"c-0": "n2"}),
}


@pytest.mark.parametrize(("job", "expected"), MEETING.values(), ids=MEETING)
def test_kept_room_is_nobodys_company(job: str, expected: dict[str, str]) -> None:
    """Whom it is kept for may never come, but couldn't where a pod is that keeps apart from it."""
    picture = IN_THE_WAY.replace("a/a", "a/a label=app=a")
    picture = picture.replace("n2 cpu=4", "n2 cpu=8 label=pool=a")
    documents = pictures.documents(picture)
    first = running.run(documents, BUILT_IN)
    assert [room.node for room in first.carried.replacement_reservations] == ["n2"] * 4
    left = [document for document in documents if document["metadata"]["name"] not in EVICTED]
    left += pictures.documents(f"node n3 cpu=1 label=pool=c queue c job c/c {job}")
    result = running.run_at(left, BUILT_IN, pictures.NOW.timestamp() + 1, first.carried)
    started = {bind.task.name: bind.node for bind in result.binds}
    assert started == expected | {f"b-{index}": "n1" for index in range(4)}
    assert not result.pipelined


def test_room_that_is_kept_is_theirs_though_the_share_has_shrunk_since() -> None:
    """A third queue has come by then; else the room would be lost as soon as they ask for it."""
    life = Life(pictures.documents(IN_THE_WAY))
    life.cycle(BUILT_IN)
    life.add(pictures.documents("queue c job c/c min=1 -*8"))
    for _ in range(2):
        life.cycle(BUILT_IN)
    nodes = placed(life)
    assert Counter(node for pod, node in nodes.items() if pod.startswith("a-")) == {"n2": 4}


def test_room_is_kept_for_a_while_only() -> None:
    """An owner that makes no pods anew loses it, and others have it then."""
    documents = pictures.documents(IN_THE_WAY)
    first = running.run(documents, BUILT_IN)
    assert first.wake_at is not None
    left = [document for document in documents if document["metadata"]["name"] not in EVICTED]
    now = pictures.NOW.timestamp()
    for seconds, count in ((59, 0), (61, 4)):
        result = running.run_at([*left, *latecomers()], BUILT_IN, now + seconds, first.carried)
        assert sum(bind.task.job == "default/old" for bind in result.binds) == count
        assert bool(result.carried.replacement_reservations) is not bool(count)


def test_no_room_is_kept_for_pods_that_could_not_be_evicted() -> None:
    """The API server refused two of four: they are where they were, and asked again with a room
    each.
    """
    documents = pictures.documents(IN_THE_WAY)
    first = running.run(documents, BUILT_IN)
    left = [
        document for document in documents if document["metadata"]["name"] not in {"a-0", "a-1"}
    ]
    result = running.run_at(left, BUILT_IN, pictures.NOW.timestamp() + 1, first.carried)
    kept = [room.task.name for room in result.carried.replacement_reservations]
    assert {evict.task.name for evict in result.evicts} == {"a-2", "a-3"}
    assert sorted(kept) == ["a-0", "a-1", "a-2", "a-3"]


def test_room_is_kept_for_a_sub_group_until_all_its_pods_are_there() -> None:
    """One pod of two is back: it can't start yet, and nobody else gets the two places meanwhile."""
    parts = IN_THE_WAY.replace("a/a min=1 n1*4", "a/a min=2 subgroups=1x2 a:n1*2 b:n1*2")
    first = running.run(pictures.documents(parts), BUILT_IN)
    assert {evict.task.name for evict in first.evicts} == EVICTED
    back = pictures.documents(parts.replace("a:n1*2 b:n1*2", "a:-*2 b:-"))
    now = pictures.NOW.timestamp() + 1
    result = running.run_at([*back, *latecomers()], BUILT_IN, now, first.carried)
    started = {bind.task.name: bind.node for bind in result.binds}
    assert started == {"a-0": "n2", "a-1": "n2"} | {f"b-{index}": "n1" for index in range(4)}
    kept = [room.task.name for room in result.carried.replacement_reservations]
    assert kept == ["a-2", "a-3"]


def test_room_is_kept_though_the_queue_has_no_pod_left() -> None:
    """All of its pods are gone, and their owner hasn't made the next ones yet."""
    documents = pictures.documents(IN_THE_WAY)
    first = running.run(documents, BUILT_IN)
    left = [document for document in documents if document["metadata"]["name"] not in EVICTED]
    result = running.run_at(left, BUILT_IN, pictures.NOW.timestamp() + 1, first.carried)
    assert [room.node for room in result.carried.replacement_reservations] == ["n2"] * 4
    shares = {queue.name: queue.entitlement for queue in result.queues}
    assert shares["a"] is not None
    assert shares["a"].deserved["cpu"] == 4000


def test_room_is_given_up_if_no_node_and_no_pod_names_the_resource_any_more() -> None:
    """The last pods that had some are gone, and so is the device plugin; the next are to come."""
    with_gpu = IN_THE_WAY.replace("cpu=4", "cpu=4 gpu=4").replace("min=1 n1", "min=1 gpu=1 n1")
    first = running.run(pictures.documents(with_gpu), BUILT_IN)
    assert [room.node for room in first.carried.replacement_reservations] == ["n2"] * 4
    without = pictures.documents(IN_THE_WAY.replace("job a/a min=1 n1*4", ""))
    documents = [*without, *latecomers()]
    result = running.run_at(documents, BUILT_IN, pictures.NOW.timestamp() + 1, first.carried)
    assert result.carried.replacement_reservations == ()
    assert sum(bind.task.job == "default/old" for bind in result.binds) == 4


def test_nobody_gives_way_where_there_is_no_room_for_what_it_asks() -> None:
    """One of its pods fits elsewhere; the four that would have to go don't."""
    picture = IN_THE_WAY.replace(
        "node n2 cpu=4", "node n2 cpu=2 node n3 cpu=2 taint=x=y:NoSchedule"
    )
    assert decide(picture, "allocate, reclaim", SHARES) == []


def test_another_pod_of_the_queue_may_take_the_place_of_one_that_gives_way() -> None:
    """What leaves a node that others need can't go elsewhere; what waits beside it can."""
    found = decide(
        """
        node n1 cpu=4 label=pool=b   node n2 cpu=4 taint=own=a:NoSchedule
        queue a   queue b
        job a/plain min=1 n1*4   job a/tol min=1 tolerate=own -*4
        job b/b min=4 select=pool=b -*4
        """,
        "allocate, reclaim",
        SHARES,
    )
    expected = {evict("plain-0", "n1", for_="b"), pipeline("tol-0", "n2"), pipeline("b-0", "n1")}
    assert expected <= set(found)


def test_a_configured_time_is_how_long_room_is_kept() -> None:
    """`reclaim.keepRoom` says so."""
    tree: dict[str, Any] = {
        **BUILT_IN,
        "configurations": [{"name": "reclaim", "arguments": {"reclaim.keepRoom": "5m"}}],
    }
    (room, *_) = running.run(pictures.documents(IN_THE_WAY), tree).carried.replacement_reservations
    assert room.until == pictures.NOW.timestamp() + 300


PINNED = """
    node n0 cpu=1   node n1 cpu=5 taint=t=x:NoSchedule
    queue flexible   queue pinned   queue borrower
    job flexible/f tolerate=t n0
    job pinned/p -
    job borrower/b0 tolerate=t n1   job borrower/b1 tolerate=t n1   job borrower/b2 tolerate=t n1
    job borrower/b3 tolerate=t n1   job borrower/b4 tolerate=t age=9 n1
    """


def test_who_is_in_the_way_moves_to_where_a_third_queue_has_too_much() -> None:
    """One, one and four are fair. The pod on the only node of a queue takes the place of the third
    queue's surplus, whichever pods come back first; then nothing moves any more.
    """
    life = Life(pictures.documents(PINNED))
    first = life.cycle(BUILT_IN)
    assert losers(first) == {"flexible": 1, "borrower": 1}
    assert {evict.task.name for evict in first.evicts if evict.moves} == {"f-0"}
    assert {evict.beneficiary for evict in first.evicts} == {"default/p"}
    results = [life.cycle(BUILT_IN) for _ in range(20)]
    assert not any(result.evicts for result in results)
    nodes = placed(life)
    assert nodes["p-0"] == "n0"
    assert [node for pod, node in nodes.items() if pod.startswith("f-")] == ["n1"]
    assert sum(pod.startswith("b") for pod in nodes) == 4


@pytest.mark.parametrize(
    "change",
    [
        ("node n1 cpu=5", "node n1 cpu=5 node n2 cpu=1 taint=t=x:NoSchedule"),
        ("queue borrower", "queue borrower weight=9"),
        ("queue borrower", "queue borrower reclaimable=false"),
    ],
    ids=["free room", "owes nothing", "keeps all"],
)
def test_nobody_goes_for_a_pod_that_moves_without_need_or_right(change: tuple[str, str]) -> None:
    """It moves to free room first, and who owes nothing, or never gives back, stays."""
    result = running.run(pictures.documents(PINNED.replace(*change)), BUILT_IN)
    assert "borrower" not in losers(result)


def test_of_those_who_go_for_several_pods_each_is_needed() -> None:
    """Pods of one cpu and two move. Three that go for the second make room for both."""
    picture = """
        node n0 cpu=3   node n1 cpu=8 taint=t=x:NoSchedule
        queue flexible   queue pinned   queue borrower
        job flexible/f min=1 age=9 tolerate=t n0
        job flexible/g min=1 age=99 cpu=2 tolerate=t n0
        job pinned/p min=1 cpu=3 -
        job borrower/small min=1 age=9 tolerate=t n1
        job borrower/large min=1 age=99 cpu=3 tolerate=t n1
        job borrower/last min=1 age=999 cpu=4 tolerate=t n1
        """
    result = running.run(pictures.documents(picture), BUILT_IN)
    assert {evict.task.name for evict in result.evicts} == {"f-0", "g-0", "large-0"}


def test_victims_for_who_moves_end_no_lower_than_who_gets_the_room() -> None:
    """The third queue would end with four of five cpu, the one that lacks room with all of its one:
    that the one in the way has less than both doesn't count.
    """
    picture = """
        node n0 cpu=1   node n1 cpu=8 taint=t=x:NoSchedule
        queue flexible weight=5   queue pinned   queue borrower weight=5
        job flexible/f tolerate=t n0   job flexible/more preempts=Never tolerate=t -*2
        job pinned/p -
        job borrower/kept cpu=4 preemptable=false tolerate=t n1
        job borrower/large cpu=4 tolerate=t n1
        """
    assert running.run(pictures.documents(picture), BUILT_IN).evicts == ()


def test_a_pod_with_devices_does_not_give_way() -> None:
    """Elsewhere there is room for it, but no device."""
    claim = device_labs.claim("gpu")
    result = {"driver": device_labs.DRIVER, "pool": "n1", "device": "gpu-0", "request": "gpus"}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "trainer-0", "uid": "trainer-00000"}],
    }
    picture = """
        node  n1 cpu=2 label=zone=a
        node  n2 cpu=2
        queue owner   queue other
        job   owner/trainer min=1 cpu=2 n1
        job   other/pinned  min=1 cpu=2 select=zone=a -
        """
    tree = {"actions": "allocate, reclaim", "tiers": running.tiers("gang | predicates proportion")}
    objects = (device_labs.device_class(), device_labs.resource_slice("n1", 1), claim)
    lab = device_labs.Lab(picture, *objects, uses={"trainer-0": ["gpu"]}, tree=tree)
    assert lab.cycle().evicts == ()
    lab = device_labs.Lab(picture, uses={}, tree=tree)
    assert [evict.task.name for evict in lab.cycle().evicts] == ["trainer-0"]
