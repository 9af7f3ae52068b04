import dataclasses
import re
from collections.abc import Iterable

import pytest

from tests.properties.worlds import (
    configurations,
    division_rules,
    eviction_rules,
    generator,
    histories,
    moving_rules,
    queue_statements,
    reserved_rules,
    rest_rules,
    sentence_rules,
    share_rules,
    statements,
)
from tests.properties.worlds.histories import Plan
from tests.properties.worlds.moments import Eviction, Judge, Kept, Moment, Placement
from tests.properties.worlds.rest_rules import Promised
from tests.properties.worlds.sentence_case import Case
from tests.properties.worlds.world import World
from vscheduler.testing import pictures

SEEDS = 3
"""Of each configuration in every run: 20 s."""

WORLDS = 2000
LARGE_WORLDS = 100
LARGE_CYCLES = 60


MEETINGS = 3000
MEETING_CYCLES = 10


def lives_well(plan: Plan) -> None:
    """No rule is broken; prints the command that shows it again."""
    history = histories.live(plan)
    assert not history.problems, str(history)


@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_unkind_worlds_break_no_rule(configuration: str) -> None:
    """A sample, other seeds for each configuration."""
    first = SEEDS * configurations.NAMES.index(configuration)
    for seed in range(first, first + SEEDS):
        lives_well(Plan(seed=seed, configuration=configuration))


@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_worlds_where_features_meet_break_no_rule(configuration: str) -> None:
    """Admission, limits at every level, priorities and two or three more, in crowded clusters."""
    first = SEEDS * configurations.NAMES.index(configuration)
    for seed in range(first, first + SEEDS):
        lives_well(meeting(seed, configuration))


def meeting(seed: int, configuration: str) -> Plan:
    """The plan of such a world."""
    return Plan(seed=seed, configuration=configuration, cycles=MEETING_CYCLES, meeting=True)


WAITING = """
    node  n1 cpu=2
    queue a
    queue b
    job   a/holder min=1 n1*2
    """
"""Another job is drawn behind it, which waits or doesn't as each test says."""


def resting(picture: str, *judges: Judge, configuration: str = "preempt") -> list[str]:
    """What judges of rest say of a world whose scheduler does nothing."""
    moment = World(pictures.documents(picture), configuration, 0).step()
    idle = dataclasses.replace(moment, binds=(), pipelined=(), evicts=())
    return [problem.split()[0] for judge in judges for problem in judge(idle)]


def test_a_world_at_rest_has_nothing_idle() -> None:
    """A pod that fits waits; and not where its queue has what it may have."""
    free = WAITING.replace("cpu=2", "cpu=3") + "job b/late min=1 -"
    assert resting(free, rest_rules.nothing_is_idle) == ["IDLE"]
    limited = free.replace("queue b", "queue b capability=cpu:500m")
    assert resting(limited, rest_rules.nothing_is_idle) == []
    assert resting(WAITING + "job b/late min=1 -", rest_rules.nothing_is_idle) == []


@pytest.mark.parametrize(("asked", "idle"), [("1600m", ["IDLE"]), ("2", [])])
def test_who_asks_for_more_than_may_be_promised_is_not_idle(asked: str, idle: list[str]) -> None:
    """Of the only node that it may use: what is free there, and a fifth of what it has."""
    free = WAITING.replace("cpu=2", "cpu=3 label=zone=a") + "node n2 cpu=9 job b/late "
    picture = f"{free} phase=Pending min=1 minresources=cpu:{asked} select=zone=a -"
    assert resting(picture, rest_rules.nothing_is_idle) == idle


@pytest.mark.parametrize(("asked", "idle"), [("2", ["IDLE"]), ("2100m", [])])
def test_who_asks_for_more_than_its_queue_may_have_is_not_idle(asked: str, idle: list[str]) -> None:
    """Although its pods ask for less than its minResources."""
    free = WAITING.replace("cpu=2", "cpu=5").replace("queue b", "queue b capability=cpu:2")
    picture = f"{free} job b/late phase=Pending min=1 minresources=cpu:{asked} -"
    assert resting(picture, rest_rules.nothing_is_idle) == idle


def test_a_world_at_rest_owes_nobody_a_share() -> None:
    """One of two pods goes for a queue that has nothing; not one that its own job can't spare."""
    owed = WAITING + "job b/late min=1 -"
    assert resting(owed, rest_rules.reclaim_serves_who_is_owed) == ["OWED"]
    whole = owed.replace("holder min=1", "holder min=2")
    assert resting(whole, rest_rules.reclaim_serves_who_is_owed) == []


def test_a_world_at_rest_owes_nothing_to_pods_that_never_preempt() -> None:
    """Nobody is evicted for them."""
    never = WAITING + "job b/late min=1 preempts=Never -"
    assert resting(never, rest_rules.reclaim_serves_who_is_owed) == []


def test_what_is_kept_for_a_guarantee_is_on_nodes_that_somebody_can_use() -> None:
    """A tainted node that no pod tolerates is no place for it; if one does, the pod starts."""
    kept = """
        node  n1 cpu=3
        node  lab cpu=2 taint=dedicated=lab:NoSchedule
        queue a guarantee=cpu:1
        queue b
        job   b/holder min=1 n1*2
        job   b/late   min=1 -
        """
    quotas = {"configuration": "capacity"}
    assert resting(kept, rest_rules.nothing_is_idle, **quotas) == []
    tolerated = kept + "job b/other min=9 tolerate=dedicated=lab -"
    assert resting(tolerated, rest_rules.nothing_is_idle, **quotas) == ["IDLE"]
    assert [bind.pod for bind in World(pictures.documents(tolerated), "capacity", 0).step().binds]
    used = kept.replace("n1 cpu=3", "n1 cpu=4") + "job a/own min=1 n1"
    assert resting(used, rest_rules.nothing_is_idle, **quotas) == ["IDLE"]


def test_what_is_lent_leaves_the_nodes_of_a_guarantee() -> None:
    """Nobody asks for it, so it is on nodes that any pod could use."""
    kept = """
        node  n1 cpu=3
        node  lab cpu=2 taint=dedicated=lab:NoSchedule
        queue a guarantee=cpu:{}
        queue b
        job   b/holder min=1 n1*2
        job   b/other min=9 tolerate=dedicated=lab -
        job   b/late   min=1 -
        """
    gated = kept + "job a/gated min=1 tolerate=dedicated=lab !"
    assert resting(kept.format(1), rest_rules.nothing_is_idle) == []
    assert resting(gated.format(1), rest_rules.nothing_is_idle) == []
    assert resting(kept.format(0), rest_rules.nothing_is_idle) == ["IDLE"]


def test_a_pod_may_rest_on_a_promise_for_which_nothing_is_kept() -> None:
    """In Volcano's way, where somebody else is evicted in the same cycle."""
    lives_well(Plan(seed=410317, configuration="capacity-volcano", meeting=True, cycles=22))


def test_a_loser_is_compared_with_each_start_it_gives_way_to() -> None:
    """Further pods of the preemptor fill what a gang leaves, up to their queue's share."""
    picture = """
        node  n1 cpu=8
        queue a weight=3
        queue b weight=1
        job   a/gang  min=4 n1*4
        job   a/stays min=4 preemptable=false n1*4
        job   b/late  min=%d -*2
        """
    moment = World(pictures.documents(picture % 1), "built-in", 0).step()
    assert (len(moment.evicts), len(moment.pipelined)) == (4, 2)
    assert list(share_rules.losers_keep_their_shares(moment)) == []
    late = moment.census.groups["default/late"]
    late["spec"]["minMember"] = 2
    (told,) = share_rules.losers_keep_their_shares(moment)
    assert told.startswith("BELOW a loses 4 pods for default/late")
    assert not World(pictures.documents(picture % 2), "built-in", 0).step().evicts


def test_in_a_world_at_rest_nobody_waits_for_less_important_pods() -> None:
    """Of its own queue; of equal importance they may stay."""
    outranked = WAITING + "job a/late min=1 priority=10 -"
    assert resting(outranked, rest_rules.preempt_serves_who_is_important) == ["OUTRANKED"]
    equal = outranked.replace("holder min=1", "holder min=1 priority=10")
    assert resting(equal, rest_rules.preempt_serves_who_is_important) == []
    never = outranked.replace("priority=10", "priority=10 preempts=Never")
    assert resting(never, rest_rules.preempt_serves_who_is_important) == []


@pytest.mark.parametrize(("state", "told"), [("Open", ["LOST"]), ("Closed", [])])
def test_room_is_kept_for_pods_whose_queue_takes_them(state: str, told: list[str]) -> None:
    """A pod that comes while its queue is closed gives its room up."""
    picture = f"node n1 cpu=2 queue a state={state} job a/moved min=1 -"
    moment = World(pictures.documents(picture), "built-in", 0).step()
    room = Kept(pod="default/moved-9", node="n1", until=moment.now + 60)
    lost = dataclasses.replace(moment, binds=(), pipelined=(), kept_before=(room,), kept=())
    assert [problem.split()[0] for problem in moving_rules.rooms_are_kept(lost)] == told


def test_whoever_pods_were_evicted_for_is_served_before_rest() -> None:
    """Until a pod of its own is bound."""
    around = World(pictures.documents(WAITING + "job b/late min=1 -"), "built-in", 0)
    promised = Promised()
    moment = around.step()
    assert [evict.beneficiary for evict in moment.evicts] == ["default/late"]
    promised.note(moment)
    assert [problem.split()[0] for problem in promised.unserved(moment)] == ["UNSERVED"]
    while not moment.binds:
        around.turn()
        moment = around.step()
        promised.note(moment)
    assert list(promised.unserved(moment)) == []


SENTENCES = {
    "holes": """
        node  n1 cpu=4
        node  n2 cpu=4
        queue q
        job   q/a min=1 n1*3 n2*2
        job   q/late min=2 cpu=3 -*2
        """,
    "a quota": "node n1 cpu=9 queue q capability=cpu:4 job q/a min=1 n1*2 job q/late min=3 -*3",
    "what there is": """
        node  n1 cpu=4 label=zone=a
        node  n2 cpu=9 label=zone=b
        queue q
        job   q/gated min=1 select=zone=b !
        job   q/late min=2 select=zone=a n1@1 n1@2 -@2
        """,
    "never": "node n1 cpu=4 queue q job q/late min=2 cpu=3 -*2",
    "a quota for those that ask for anything": """
        node  n1 cpu=9
        queue q capability=cpu:6
        job   q/late phase=Pending min=6 -@2*5 -@0*2
        """,
    "slots for those that ask for anything": """
        node  n1 cpu=9 pods=3
        queue q
        job   q/late phase=Pending min=7 -@1*2 -@2*2 -@0*3
        """,
    "admission": """
        node  n1 cpu=4
        queue q
        job   q/a min=3 n1*3
        job   q/late phase=Pending min=2 minresources=cpu:2 -*2
        """,
}
"""Each with a job `late` that is told figures."""


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_is_held_against_the_world(name: str) -> None:
    """It is true; with any of its figures one higher it isn't."""
    moment = World(pictures.documents(SENTENCES[name]), "preempt", 0).step()
    ((group, true),) = sentence_rules.told(moment)
    assert group == "default/late"

    def found(text: str) -> list[str]:
        statuses = {group: [{"told": [text]}]}
        return list(
            sentence_rules.sentences_are_true(dataclasses.replace(moment, statuses=statuses))
        )

    assert found(true) == []
    for at in re.finditer(r"(?<![a-z/.\d])\d+(?![\d.])", true):
        text = f"{true[: at.start()]}{int(at[0]) + 1}{true[at.end() :]}"
        assert found(text), text
    assert found(f"{true}; and it rains")


FULL = """
    node  n1 cpu=3
    queue q
    queue r
    job   r/a min=3 preemptable=false n1*3
    job   q/late min=1 -
    """
PARTLY_BARRED = """
    node  n2 cpu=4 taint=dedicated=lab:NoSchedule
    node  n3 cpu=4 cordoned
    job   q/lab min=9 tolerate=dedicated=lab -
    """
"""The cluster has something for the queue, but on a node that the job may not use."""

NONE_FREE = "no node has cpu left"
NONE_THERE = "no node that it may use now has cpu left"


@pytest.mark.parametrize(
    ("picture", "true", "wrong", "told"),
    [
        (FULL, NONE_FREE, NONE_THERE, "0 nodes can't be used now"),
        (FULL, NONE_FREE, f"{NONE_FREE} for the next pod", "no pod is placed"),
        (FULL + PARTLY_BARRED, NONE_THERE, NONE_FREE, "2 nodes can't be used now"),
        (
            FULL.replace("cpu=3", "cpu=5").replace("late min=1", "late min=1 cpu=3")
            + PARTLY_BARRED,
            "the largest hole is 2 cpu on n1",
            NONE_THERE,
            "n1 has 2000 cpu",
        ),
    ],
)
def test_that_none_is_free_is_held_against_every_node(
    picture: str, true: str, wrong: str, told: str
) -> None:
    """Nodes that the pod is barred from may have some, and then it is said."""
    moment = World(pictures.documents(picture), "preempt", 0).step()
    text = dict(sentence_rules.told(moment))["default/late"]
    assert f"; {true}; " in text
    case = Case.of(moment, "default/late", text)
    assert list(statements.problems(case)) == []
    case.text = text.replace(true, wrong)
    assert list(statements.problems(case)) == [told]


RESERVED = """
    node  n1 cpu=4
    node  n9 cpu=20 taint=dedicated=lab:NoSchedule
    queue q
    job   q/lab min=99 tolerate=dedicated=lab -
    job   q/lower min=2 n1*4
    job   q/big min=2 priority=10 -*2
    job   q/late min=1 -
    """


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("on 1 node is", "on 2 nodes is", "at most 1 nodes would take it"),
        ("default/big", "default/lower", "default/lower waits nowhere"),
        ("default/big", "default/big and 1 more job", "only ['default/big'] wait anywhere"),
        ("; room on 1 node is reserved for default/big", "", "room on 1 nodes is reserved"),
    ],
)
def test_for_whom_room_is_reserved_is_held_against_the_world(old: str, new: str, told: str) -> None:
    """Two pods were evicted in the cycle before, for a job that waits until they are gone."""
    around = World(pictures.documents(RESERVED), "preempt", 0)
    assert len(around.step().evicts) == 2
    around.turn()
    moment = around.step()
    assert list(reserved_rules.reserved_room_is_named(moment)) == []
    (status,) = moment.statuses["default/late"]
    (text,) = status["told"]
    statuses = {"default/late": [{**status, "told": [text.replace(old, new)]}]}
    wrong = dataclasses.replace(moment, statuses=statuses)
    (problem,) = reserved_rules.reserved_room_is_named(wrong)
    assert problem.startswith(f"RESERVED default/late: {told}")


@pytest.mark.parametrize(
    ("advice", "told"),
    [("add nodes", []), ("raise its capability", ["queue q has no capability"])],
)
def test_in_volcanos_way_all_ready_nodes_may_fill_a_queue(advice: str, told: list[str]) -> None:
    """Those that no pod may use count as well; the advice must help."""
    picture = """
        node  n1 cpu=2
        node  n2 cpu=1 taint=dedicated=lab:NoSchedule
        queue q
        job   q/late phase=Pending min=1 minresources=cpu:4 -
        """
    moment = World(pictures.documents(picture), "preempt-volcano", 0).step()
    asks = "this job asks for 4 cpu (minResources)"
    text = f"not admitted: queue q may have at most 3 cpu; {asks}; ask for less, or {advice}"
    assert list(statements.problems(Case.of(moment, "default/late", text))) == told
    less = text.replace("most 3", "most 2")
    assert "it may have 3000 cpu" in statements.problems(Case.of(moment, "default/late", less))


@pytest.mark.parametrize(("capability", "count"), [(11, 0), (12, 1)])
def test_a_queue_is_full_that_may_not_have_as_much_in_any_cluster(
    capability: int, count: int
) -> None:
    """Although its nodes allow less today; otherwise more nodes would do."""
    picture = f"""
        node  n1 cpu=9
        queue q capability=cpu:{capability}
        job   q/holder min=1 cpu=8 n1
        job   q/late min=1 phase=Pending minresources=cpu:4 -
        """
    moment = World(pictures.documents(picture), "built-in", 0).step()
    text = "queue q uses or has reserved 8 cpu of the 9 it may have"
    found = list(statements.problems(Case.of(moment, "default/late", text)))
    assert len(found) == count


MESSAGES = {
    "its job needs": """
        node  n1 cpu=4
        queue a deserved=cpu:2   job a/busy min=1 n1*2
        queue b deserved=cpu:2   job b/some min=1 n1   job b/late min=2 -*2
        """,
    "doesn't have more of it": """
        node  n1 cpu=3
        node  n2 cpu=3
        queue a deserved=cpu:4   job a/busy min=1 cpu=2 n1 n2
        queue b deserved=cpu:2   job b/late min=1 cpu=2 -
        """,
    "forbid evictions": """
        node  n1 cpu=4
        queue a deserved=cpu:3   job a/busy min=1 preemptable=false n1*4
        queue b deserved=cpu:1   job b/late min=1 -
        """,
    "kept for it": "node n1 cpu=4   queue a   queue b guarantee=cpu:1   job a/busy min=1 n1*3 -",
}
"""By a part of what a queue is told, with figures."""


def test_a_share_may_be_a_little_less_than_what_is_asked_for() -> None:
    """12Gi are told; they are what pods ask for that could start, and all pods ask for 12.5Gi."""
    lives_well(Plan(seed=530401, configuration="built-in", of_kubernetes=True, cycles=30))


@pytest.mark.parametrize("name", MESSAGES)
def test_what_queues_are_told_is_held_against_the_world(name: str) -> None:
    """It is true; with any of its figures one higher it isn't."""
    moment = World(pictures.documents(MESSAGES[name]), "capacity", 0).step()
    assert any(name in text for text in moment.queue_messages.values())

    def found(queue: str, text: str) -> list[str]:
        told = dataclasses.replace(moment, queue_messages={queue: text})
        return list(queue_statements.queues_are_told_the_truth(told))

    for queue, true in moment.queue_messages.items():
        assert found(queue, true) == []
        for at in re.finditer(r"(?<![a-z/.\d])\d+(?![\d.])", true):
            text = f"{true[: at.start()]}{int(at[0]) + 1}{true[at.end() :]}"
            assert found(queue, text), text
        assert found(queue, f"{true}; and it rains")


def test_shares_are_recounted_in_plain_worlds() -> None:
    """A rule that left every world aside would never be broken."""
    recounted = []

    def listen(moment: Moment) -> Iterable[str]:
        recounted.append(division_rules.demanded(moment) is not None)
        return ()

    histories.live(Plan(seed=0, configuration="built-in", cycles=6), [listen])
    assert all(recounted)


@pytest.mark.parametrize(("seed", "configuration"), [(806, "drf")])
def test_a_world_comes_to_rest_that_once_did_not(seed: int, configuration: str) -> None:
    """Two branches of a tree took a pod from each other in turns."""
    lives_well(Plan(seed=seed, configuration=configuration))


def test_a_job_behind_gates_is_told_of_room_in_volcanos_way() -> None:
    """Volcano counts pods behind gates; whether evictions would help its job isn't judged."""
    lives_well(Plan(seed=300077, configuration="capacity-volcano"))


def test_volcanos_way_may_swap_pods_of_a_job_that_cannot_start() -> None:
    """But not for a pod that goes elsewhere, nor at the cost of other jobs."""
    picture = """
        node  n1 cpu=4 pods=2 label=zone=a
        node  n2 cpu=1 pods=9
        queue q
        job   q/gang  min=4 select=zone=a   n1@4 n1@0 -@0*2
        job   q/other min=1 cpu=0           n2
        """
    moment = World(pictures.documents(picture), "preempt-volcano", 0).step()
    (swap,) = moment.evicts
    assert swap.pod == "default/gang-1"

    def problems(pod: str, node: str) -> list[str]:
        evicts = (dataclasses.replace(swap, pod=pod, node=node),)
        return list(
            eviction_rules.nobody_goes_for_nothing(dataclasses.replace(moment, evicts=evicts))
        )

    assert problems("default/gang-1", "n1") == []
    elsewhere = "VAIN default/gang-1 is evicted for its own job, of which none comes to its node"
    assert problems("default/gang-1", "n2") == [elsewhere]
    others = "VAIN pods are evicted for default/gang, which has 3 of 4"
    assert problems("default/other-0", "n2") == [others]


@pytest.mark.parametrize(("pods", "vain"), [("n1 -", False), ("n1 - -", False), ("- -", True)])
def test_pods_may_go_for_all_that_is_left_of_a_gang(pods: str, *, vain: bool) -> None:
    """A gang that had its minimum is refilled with what exists; another one starts whole."""
    picture = f"""
        node  n1 cpu=3
        queue q
        job   q/low  min=1 cpu=1   n1 n1
        job   q/gang min=3 cpu=1 priority=5 phase=Running   {pods}
        """
    world = World(pictures.documents(picture), "preempt", 0)
    moment = world.step()
    assert bool(moment.evicts) is not vain
    if vain:
        low = Eviction(pod="default/low-1", node="n1", action="preempt", beneficiary="default/gang")
        moment = dataclasses.replace(
            moment, evicts=(low,), pipelined=(Placement(pod="default/gang-0", node="n1"),)
        )
    found = list(eviction_rules.nobody_goes_for_nothing(moment))
    expected = ["VAIN pods are evicted for default/gang, which has 1 of 3"] if vain else []
    assert found == expected


@pytest.mark.at_length
@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_many_unkind_worlds_break_no_rule(configuration: str) -> None:
    """All of them, each with one configuration."""
    for seed in range(configurations.NAMES.index(configuration), WORLDS, len(configurations.NAMES)):
        lives_well(Plan(seed=seed, configuration=configuration))


@pytest.mark.at_length
@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_many_worlds_where_features_meet_break_no_rule(configuration: str) -> None:
    """All of them, each with one configuration."""
    step = len(configurations.NAMES)
    for seed in range(configurations.NAMES.index(configuration), MEETINGS, step):
        lives_well(meeting(seed, configuration))


@pytest.mark.at_length
@pytest.mark.parametrize("seed", range(LARGE_WORLDS))
def test_large_unkind_worlds_break_no_rule(seed: int) -> None:
    """50 nodes, 10 queues, 80 jobs, for a minute."""
    configuration = configurations.NAMES[seed % len(configurations.NAMES)]
    lives_well(
        Plan(seed=seed, configuration=configuration, size=generator.LARGE, cycles=LARGE_CYCLES)
    )
