"""Affinity between pods and topology spread, in predicates and nodeorder."""

from typing import Any

import pytest

from tests import running
from tests.scenarios.deciding import bind, decide, evict, pipeline
from vscheduler.mirror.wording import refusal_sentences
from vscheduler.testing import pictures

ZONES = """
    node n1 cpu=4 label=zone=a label=kubernetes.io/hostname=n1
    node n2 cpu=4 label=zone=a label=kubernetes.io/hostname=n2
    node n3 cpu=4 label=zone=b label=kubernetes.io/hostname=n3
    node n4 cpu=4
    queue q
    """
FILTERS = "gang | predicates"
PACKS = "gang | predicates nodeorder binpack:binpack.weight=10"
SCORES = (
    "gang | predicates nodeorder:"
    "leastrequested.weight=0,balancedresource.weight=0,tainttoleration.weight=0"
)

WHERE = {
    "near a pod, on any node of its zone": ("near=app=db@zone", "app=db n3", "n3"),
    "near a pod, on its very node": ("near=app=db@host", "app=db n2", "n2"),
    "near nobody who is there": ("near=app=db@zone", "app=web n3", None),
    "a node without the label is near nobody": ("near=app=db@zone", "app=db n4", None),
    "away from a pod's zone": ("apart=app=db@zone", "app=db n2", "n3"),
    "a node without the label is away from all": ("apart=app@rack", "app=db n1", "n1"),
    "near one, away from another": ("near=app@zone apart=app@host", "app=db n1", "n2"),
    "evenly over zones": ("label=app=p spread=app@zone:1", "app=db n1", "n3"),
    "a spread over labels that nodes don't have": ("spread=app@rack:1", "app=db n1", None),
    "as evenly as it goes": ("even=app@zone:1", "app=db n1", "n3"),
    "rather near": ("like=app=db@zone:10", "app=db n3", "n3"),
    "rather away": ("dislike=app=db@zone:10", "app=db n1", "n3"),
}


@pytest.mark.parametrize(("conditions", "resident", "node"), WHERE.values(), ids=WHERE)
def test_a_pod_goes_where_other_pods_let_it(
    conditions: str, resident: str, node: str | None
) -> None:
    """Affinity, anti-affinity and spread, required and preferred."""
    picture = f"{ZONES} job q/old label={resident} job q/p {conditions} -"
    assert decide(picture, "allocate", SCORES) == ([] if node is None else [bind("p-0", node)])


def test_a_pod_keeps_others_away_that_ask_for_nothing() -> None:
    """Anti-affinity of a pod that is there works both ways; of other labels it knows nothing."""
    picture = f"""{ZONES}
        job q/shy    label=app=db apart=app=web@zone n1
        job q/web    label=app=web -
        job q/batch  label=app=job -
        """
    assert decide(picture, "allocate", FILTERS) == [bind("batch-0", "n1"), bind("web-0", "n3")]


def test_equal_pods_with_other_labels_are_told_apart() -> None:
    """One gang, one class, two roles of which one is kept away."""
    picture = f"""{ZONES}
        job q/shy  label=app=db apart=app=web@zone n1
        job q/web  label=app=web cpu=1 -
        job q/free label=app=any cpu=1 -
        """
    assert decide(picture, "allocate", FILTERS) == [bind("free-0", "n1"), bind("web-0", "n3")]


def test_pods_that_look_for_each_other_start_together() -> None:
    """The first may go anywhere, the others go where it is."""
    picture = f"{ZONES} job q/crowd min=3 cpu=2 label=app=crowd near=app=crowd@zone -*4"
    assert decide(picture, "allocate", FILTERS) == [
        bind("crowd-0", "n1"),
        bind("crowd-1", "n1"),
        bind("crowd-2", "n2"),
        bind("crowd-3", "n2"),
    ]


def test_a_crowd_that_fits_no_zone_stays_out() -> None:
    """What was placed of it is taken back, and its place is free for others."""
    picture = f"""{ZONES}
        job q/crowd min=5 cpu=2 label=app=crowd near=app=crowd@zone -*5
        job q/solo  cpu=4 label=app=solo apart=app=crowd@zone -
        """
    assert decide(picture, "allocate", FILTERS) == [bind("solo-0", "n1")]


def test_pods_of_a_gang_keep_apart() -> None:
    """Those placed a moment ago count; a gang of more pods than places stays out."""
    apart = "label=app=w apart=app=w@zone"
    picture = f"{ZONES} job q/pair min=2 {apart} select=zone=b -*2 job q/two min=2 {apart} -*2"
    expected = [bind("two-0", "n1"), bind("two-1", "n3")]
    assert decide(picture, "allocate", FILTERS) == expected


def test_a_spread_stays_within_its_skew() -> None:
    """Five pods over two zones of unequal room: not more than one apart, so one waits."""
    picture = """
        node n1 cpu=8 label=zone=a
        node n2 cpu=2 label=zone=b
        queue q
        job q/w label=app=w spread=app=w@zone:1 -*6
        """
    binds = decide(picture, "allocate", FILTERS)
    assert [bind.node for bind in binds] == ["n1", "n2", "n1", "n2", "n1"]


def test_a_place_next_to_a_leaving_pod_is_waited_for() -> None:
    """Anti-affinity to a pod that is being deleted holds until it is gone, and no longer."""
    picture = """
        node n1 cpu=4 label=zone=a
        queue q
        job q/old label=app=db ~n1
        job q/new apart=app=db@zone -
        """
    assert decide(picture, "allocate", FILTERS) == [pipeline("new-0", "n1")]


def test_company_that_leaves_is_none() -> None:
    """Required affinity isn't met by a pod that is being deleted."""
    picture = """
        node n1 cpu=4 label=zone=a
        queue q
        job q/old label=app=db ~n1
        job q/new near=app=db@zone -
        """
    assert decide(picture, "allocate", FILTERS) == []


def test_a_pod_in_the_way_is_evicted_by_preempt() -> None:
    """Of two pods on the node only the one that the other can't stand goes."""
    picture = """
        node n1 cpu=8 label=zone=a
        queue q
        job q/calm priority=1 n1
        job q/rude priority=1 min=0 label=app=db n1
        job q/vip  priority=9 apart=app=db@zone -
        """
    decisions = decide(picture, "allocate, preempt", "priority gang | predicates")
    assert decisions == [evict("rude-0", "n1", for_="vip"), pipeline("vip-0", "n1")]


BESIDES = {
    "one of higher priority goes": ("job q/low priority=2 min=0 n1", "a", "low-0"),
    "one of two goes": ("job q/more priority=1 min=0 label=app=db n1", "a", "more-0"),
    "nobody else could go": ("job q/high priority=9 n1", "a", None),
    "it was placed near another one": (
        "job q/far priority=9 label=app=db n2 job q/high priority=9 n1 n1",
        "b",
        "db-0",
    ),
}


@pytest.mark.parametrize("tree", [{}, {"compatibility": "volcano"}], ids=["", "volcano"])
@pytest.mark.parametrize(("jobs", "zone", "gone"), BESIDES.values(), ids=BESIDES)
def test_the_last_that_a_pod_was_just_placed_near_stays(
    jobs: str, zone: str, gone: str | None, tree: dict[str, str]
) -> None:
    """The fan is bound next to the database, which preempt would take first in the same cycle."""
    picture = f"""
        node n1 cpu=3 label=zone=a
        node n2 cpu=2 label=zone=b
        queue q
        job q/db  priority=1 min=0 label=app=db n1
        {jobs}
        job q/fan priority=9 near=app=db@zone select=zone={zone} -
        job q/vip priority=8 select=zone=a -
        """
    tiers = running.tiers("priority gang | predicates")
    configured = {"actions": "allocate, preempt", "tiers": tiers, **tree}
    result = running.run(pictures.documents(picture), configured)
    assert [bind.task.name for bind in result.binds] == ["fan-0"]
    assert [evict.task.name for evict in result.evicts] == [gone] * (gone is not None)


def nodes_with(picture: str, plugin: str, **tree: Any) -> list[str]:
    """Where pods are bound with these arguments of a plugin, and these keys of a configuration."""
    tiers = running.tiers(SCORES)
    for setting in tiers[1]["plugins"]:
        if setting["name"] == plugin:
            setting.setdefault("arguments", {}).update(tree.pop("arguments", {}))
    result = running.run(
        pictures.documents(picture), {"actions": "allocate", "tiers": tiers, **tree}
    )
    return [bind.node for bind in sorted(result.binds, key=lambda bind: bind.task.name)]


SWITCHES = {
    "required affinity": ("apart=app=db@zone", "predicates", "predicate.PodAffinityEnable", False),
    "hard spread": (
        "label=app=db spread=app=db@zone:1",
        "predicates",
        "predicate.PodTopologySpreadEnable",
        False,
    ),
    "preferred affinity": ("dislike=app=db@zone:9", "nodeorder", "podaffinity.weight", 0),
    "soft spread": (
        "label=app=db even=app=db@zone:1",
        "nodeorder",
        "podtopologyspread.weight",
        0,
    ),
}


@pytest.mark.parametrize(
    ("conditions", "plugin", "argument", "off"), SWITCHES.values(), ids=SWITCHES
)
def test_each_of_them_can_be_switched_off(
    conditions: str, plugin: str, argument: str, off: object
) -> None:
    """Volcano's arguments; all are on where nothing is said."""
    picture = f"{ZONES} job q/old label=app=db n1 job q/new {conditions} -"
    assert nodes_with(picture, plugin) == ["n3"]
    assert nodes_with(picture, plugin, arguments={argument: off}) == ["n1"]


def test_who_requires_company_draws_it() -> None:
    """A pod that is somebody's company goes there; in Volcano nothing draws it."""
    picture = f"""{ZONES}
        job q/old label=app=db n3
        job q/fan label=app=fan near=app=db@zone n3
        job q/new label=app=db -
        """
    assert nodes_with(picture, "nodeorder") == ["n3"]
    assert nodes_with(picture, "nodeorder", compatibility="volcano") == ["n1"]


COSTS = {
    "of others, by node": ("apart=app=w@host", 1),
    "of company, once it is there": ("near=app=w@zone", 2),
    "of nobody": ("", 1),
}


@pytest.mark.parametrize(("conditions", "plans"), COSTS.values(), ids=COSTS)
def test_a_placement_asks_about_its_own_node_only(conditions: str, plans: int) -> None:
    """Other nodes are asked anew when a zone or a host starts or stops to pass, not at each pod."""
    nodes = "\n".join(
        f"node n{at:02} cpu=4 label=zone={'ab'[at % 2]} label=kubernetes.io/hostname=n{at:02}"
        for at in range(40)
    )
    picture = f"{nodes} queue q job q/w label=app=w {conditions} -*20"
    session = running.open_session(
        pictures.documents(picture), {"actions": "allocate", "tiers": running.tiers(FILTERS)}
    )
    (state,) = session.job_states.values()
    with session.statement() as trial:
        for task in state.job.tasks:
            choice = session.placement.choose(task)
            assert choice is not None
            trial.allocate(task, choice.row)
    assert session.work["plans"] == plans


REASONS = {
    "near=app=x@zone": "4 node(s) didn't match pod affinity rules",
    "apart=app=db@zone": "3 node(s) didn't match pod anti-affinity rules",
    "label=app=web": "3 node(s) didn't satisfy existing pods anti-affinity rules",
    "label=app=db spread=app=db@zone:1": (
        "node(s) didn't match pod topology spread constraints (missing required label)"
    ),
}


@pytest.mark.parametrize(("conditions", "says"), REASONS.items())
def test_a_refusal_says_what_kubectl_users_know(conditions: str, says: str) -> None:
    """kube-scheduler's sentences, with the number of nodes."""
    picture = f"""{ZONES}
        job q/old  label=app=db apart=app=web@zone n1 n3
        job q/fill cpu=4 n4
        job q/fill2 cpu=3 n1 n3
        job q/fill3 cpu=4 n2
        job q/new {conditions} -
        """
    result = running.run(
        pictures.documents(picture), {"actions": "allocate", "tiers": running.tiers(FILTERS)}
    )
    reason = next(group.reason for group in result.groups if group.job.endswith("/new"))
    assert reason is not None
    assert says in refusal_sentences.counted(reason.refusals)


@pytest.mark.parametrize("size", [2, 3, 8, 20, 30])
@pytest.mark.parametrize("tiers", [FILTERS, PACKS], ids=["as they come", "packed"])
def test_a_gang_that_must_not_share_a_host_shares_none(size: int, tiers: str) -> None:
    """However much the score prefers a node that is in use: one cycle, one pod on each."""
    nodes = "\n".join(
        f"node n{number:02} cpu=16 label=kubernetes.io/hostname=n{number:02}"
        for number in range(40)
    )
    gang = f"job q/g min={size} cpu=1 label=app=g apart=app=g@host -*{size}"
    found = decide(f"{nodes} queue q {gang}", "allocate", tiers)
    assert len(found) == len({each.node for each in found}) == size


def test_company_that_waits_for_its_own_gang_lets_nobody_start() -> None:
    """Half of the gang has room now, and starts with the other half: who is to be near it waits,
    too, as nobody is there yet.
    """
    before = """
        node n0 cpu=4 label=kubernetes.io/hostname=n0
        node n1 cpu=4 label=kubernetes.io/hostname=n1
        queue q
        job q/old cpu=4 ~n1
        job q/ml min=2 cpu=2 label=app=ml apart=app=ml@host age=60 -*2
        job q/fan cpu=1 near=app=ml@host -
    """
    tree = {"actions": "allocate", "tiers": running.tiers(FILTERS)}
    result = running.run(pictures.documents(before), tree)
    assert result.binds == ()
    waiting = {each.task.name: each.node for each in result.pipelined}
    assert waiting.keys() == {"ml-0", "ml-1", "fan-0"}
