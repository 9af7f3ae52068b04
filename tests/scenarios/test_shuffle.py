from collections.abc import Sequence

from tests import running
from tests.scenarios.deciding import decide, evict
from vscheduler.core import cycle
from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.actions.shuffle import Shuffle
from vscheduler.core.api.contracts import Plugin
from vscheduler.core.config.policy import ActionSetting, PluginSetting, Policy
from vscheduler.core.plugins.gang import Gang
from vscheduler.core.plugins.predicates import Predicates
from vscheduler.model.jobs import Task
from vscheduler.testing import pictures

CLOSED = "tdm:tdm.revocable-zone.night=22:00-06:00"
LENT = "label=volcano.sh/revocable-zone=night"


class Everyone(Plugin):
    """Wants all pods gone."""

    name = "everyone"

    def shuffle_victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """All of them."""
        return candidates


def all_gone(picture: str, *, allocated: bool = False) -> list[tuple[str, bool]]:
    """Who goes where all are wanted gone, and whether whole gangs do; allocated: after those who
    wait were placed.
    """
    kinds = [Allocate] * allocated + [Shuffle]
    plugins = (Everyone, Gang, Predicates)
    configured = Policy(
        actions=tuple(ActionSetting(action=kind) for kind in kinds),
        tiers=(tuple(PluginSetting(plugin=plugin) for plugin in plugins),),
    )
    result = cycle.run_cycle(running.snapshot_of(pictures.documents(picture)), configured)
    return [(evict.task.name, evict.whole) for evict in result.evicts]


def test_gangs_go_whole_and_pods_that_say_no_stay() -> None:
    """What is above a minimum goes alone where the rest can't go."""
    picture = """
        node  n1 cpu=9
        queue q
        job   q/gang   min=2 n1 n1
        job   q/single min=1 n1
        job   q/firm   min=1 preemptable=false n1
        job   q/young  min=1 n1 +n1
        """
    assert all_gone(picture) == [
        ("gang-0", True),
        ("gang-1", True),
        ("single-0", False),
        ("young-0", False),
    ]


def test_whom_a_pod_was_just_placed_near_stays() -> None:
    """Two databases, of which one is enough; the pod that came for them isn't bound for nothing."""
    picture = """
        node  n1 cpu=9 label=zone=a
        queue q
        job   q/db   label=app=db n1
        job   q/more label=app=db n1
        job   q/fan  near=app=db@zone -
        """
    assert all_gone(picture) == [("db-0", False), ("more-0", False)]
    assert all_gone(picture, allocated=True) == [("db-0", False)]


def test_where_a_budget_keeps_a_gang_the_rest_of_it_goes() -> None:
    """One above the minimum of two, whatever the budget would allow."""
    picture = """
        node   n1 cpu=9
        queue  q
        job    q/gang min=2 label=app=db n1 n1 n1
        budget calm select=app=db allowed=2
        """
    assert all_gone(picture) == [("gang-0", False)]


def test_without_a_reason_nobody_goes() -> None:
    """No plugin asks for it."""
    picture = "node n1 cpu=4 queue q job q/batch min=0 n1 n1"
    assert decide(picture, "shuffle", "priority gang pdb | predicates proportion") == []


def test_pods_leave_for_no_ones_sake() -> None:
    """Who is named goes, and what waits isn't placed for it."""
    picture = f"""
        node  n1 cpu=1 {LENT}
        queue q
        job   q/batch min=0 n1
        """
    (eviction,) = running.run(
        pictures.documents(picture), {"actions": "shuffle", "tiers": running.tiers(CLOSED)}
    ).evicts
    assert (eviction.action, eviction.beneficiary, eviction.whole) == ("shuffle", None, False)


def test_pods_that_run_are_asked() -> None:
    """Those that are only bound, or being deleted, aren't."""
    picture = f"""
        node  n1 cpu=4 {LENT}
        queue q
        job   q/a min=0 ~n1
        job   q/b min=0 +n1
        job   q/c min=0 n1
        """
    assert decide(picture, "shuffle", CLOSED) == [evict("c-0", "n1")]


def test_a_pod_that_has_to_go_anyway_is_named_once() -> None:
    """One eviction is enough."""
    picture = f"""
        node  n1 cpu=1
        node  n2 cpu=1 {LENT}
        queue q
        job   q/low  min=0 priority=1 n2
        job   q/high priority=9 select=volcano.sh/revocable-zone=night preemptable=false -
        """
    tiers = f"priority gang | {CLOSED},enablePredicate=false predicates proportion"
    decided = decide(picture, "allocate, preempt, shuffle", tiers)
    assert [each for each in decided if each.what == "evict"] == [evict("low-0", "n2", "high")]


def test_in_volcanos_way_whoever_is_named_goes() -> None:
    """Budgets and minima don't matter; and with pdb configured, all pods with labels are named."""
    documents = pictures.documents(
        f"""
        node   n1 cpu=8 {LENT}
        queue  q
        job    q/batch min=2 label=app=db n1 n1
        job    q/bare  min=0 n1
        budget calm select=app=db allowed=0
        """
    )
    loose = [document for document in documents if document["kind"] != "PodDisruptionBudget"]
    for present, tiers, expected in (
        (documents, CLOSED, ["bare-0", "batch-0"]),
        (documents, "pdb", []),
        (documents, f"pdb {CLOSED}", ["bare-0", "batch-0"]),
        (loose, "pdb", ["batch-0", "batch-1"]),
    ):
        tree = {"actions": "shuffle", "compatibility": "volcano", "tiers": running.tiers(tiers)}
        assert sorted(evict.task.name for evict in running.run(present, tree).evicts) == expected


def test_in_volcanos_way_a_gang_that_is_being_bound_keeps_its_minimum() -> None:
    """One pod above it goes, the others in the next cycle, when they are wanted gone again."""
    documents = pictures.documents(
        f"""
        node   n1 cpu=2 {LENT}
        node   n2 cpu=1
        queue  q
        job    q/batch min=2 n1 n1 -
        """
    )
    tiers = running.tiers(f"gang | {CLOSED},enablePredicate=false predicates")
    for minimum, goes in ((2, ["batch-0"]), (3, [])):
        (group,) = [document for document in documents if document["kind"] == "PodGroup"]
        group["spec"]["minMember"] = minimum
        tree = {"actions": "allocate, shuffle", "compatibility": "volcano", "tiers": tiers}
        result = running.run(documents, tree)
        assert [bind.task.name for bind in result.binds] == ["batch-2"]
        assert [evict.task.name for evict in result.evicts] == goes
        tree["actions"] = "shuffle"
        after = running.run(running.obey(documents, result), tree)
        assert after.evicts
