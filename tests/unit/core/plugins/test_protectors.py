"""Plugins that protect pods from eviction: conformance, cdp, pdb."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import pytest

from tests.unit.core import sessions
from vscheduler.core.api.contracts import Plugin, VictimRole
from vscheduler.core.compat.plugins import VolcanoPdb
from vscheduler.core.plugins import cdp, pdb
from vscheduler.core.plugins.cdp import Cdp
from vscheduler.core.plugins.conformance import Conformance
from vscheduler.model.constraints import Operator, Requirement, Selector
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.model.snapshot import Budget

RUNNING = TaskStatus.RUNNING
BOUND = TaskStatus.BOUND
PREEMPTOR = sessions.task("preemptor")
NOW = 10_000.0
Pdb = TypeVar("Pdb", bound=pdb.Pdb)


def spared(plugin: Conformance | Cdp | pdb.Pdb, candidates: list[Task]) -> list[str]:
    """Who may go, by name, for either action."""
    answers = [
        [task.name for task in hook(PREEMPTOR, candidates)]
        for hook in (plugin.preemptable, plugin.reclaimable)
    ]
    assert answers[0] == answers[1]
    return answers[0]


@pytest.mark.parametrize("plugin", [Conformance, Cdp, pdb.Pdb])
def test_protectors_veto(plugin: type[Plugin]) -> None:
    """What they leave out is no victim, whatever tier they stand in."""
    assert plugin.victim_role is VictimRole.PROTECTS


def test_conformance_protects_what_the_cluster_needs() -> None:
    """By priority class anywhere, and all of kube-system."""
    candidates = [
        sessions.task("plain", 0, RUNNING, priority_class="high"),
        sessions.task("cluster", 0, RUNNING, priority_class="system-cluster-critical"),
        sessions.task("node", 0, RUNNING, priority_class="system-node-critical"),
        msgspec.structs.replace(sessions.task("dns", 0, RUNNING), namespace="kube-system"),
        sessions.task("last", 0, RUNNING),
    ]
    assert spared(Conformance({}), candidates) == ["plain-0", "last-0"]


COOLDOWNS: dict[str, tuple[dict[str, Any], bool]] = {
    "its time has not passed": ({"labels": {cdp.COOLDOWN: "10m"}}, False),
    "an annotation does as well": ({"annotations": {cdp.COOLDOWN: "10m"}}, False),
    "its time has passed": ({"annotations": {cdp.COOLDOWN: "5m"}}, True),
    "the label beats the annotation": (
        {"labels": {cdp.COOLDOWN: "1s"}, "annotations": {cdp.COOLDOWN: "10m"}},
        True,
    ),
    "no duration": ({"labels": {cdp.COOLDOWN: "soon"}}, True),
    "nothing is said": ({}, True),
    "nobody knows since when": ({"labels": {cdp.COOLDOWN: "10m"}, "scheduled_at": None}, True),
    "it doesn't run yet": ({"labels": {cdp.COOLDOWN: "10m"}, "status": BOUND}, True),
}


@pytest.mark.parametrize(("fields", "goes"), COOLDOWNS.values(), ids=COOLDOWNS)
def test_cdp_protects_for_a_while(fields: dict[str, Any], goes: bool) -> None:
    """A pod that found its node 300 seconds ago; whoever is spared is looked at again in time."""
    session = sessions.opened()
    session.snapshot = msgspec.structs.replace(session.snapshot, now=NOW)
    plugin = Cdp({})
    plugin.open(session)
    given: dict[str, Any] = {"status": RUNNING, "scheduled_at": NOW - 300} | fields
    task = sessions.task("p", **given)
    assert spared(plugin, [task]) == (["p-0"] if goes else [])
    assert set(session.due) == (set() if goes else {NOW + 300})


def budgeted(*budgets: Budget) -> pdb.Pdb:
    """The plugin, with these budgets."""
    return with_budgets(pdb.Pdb({}), budgets)


def with_budgets(plugin: Pdb, budgets: Sequence[Budget]) -> Pdb:
    """The same plugin, opened."""
    session = sessions.opened()
    session.snapshot = msgspec.structs.replace(session.snapshot, budgets=tuple(budgets))
    plugin.open(session)
    return plugin


def budget(allowed: int, app: str | None = "web", name: str = "b") -> Budget:
    """Over pods with this label, or over all."""
    conditions = () if app is None else (app,)
    selector = Selector(tuple(Requirement("app", Operator.IN, (value,)) for value in conditions))
    return Budget(namespace="ns", name=name, selector=selector, allowed=allowed)


WEB = [sessions.task("web", place, RUNNING, labels={"app": "web"}) for place in range(3)]
BARE = sessions.task("bare", 0, RUNNING)


def test_pdb_counts_what_goes_in_this_cycle() -> None:
    """Each pod is judged by itself; evictions count until they are taken back, placements never."""
    plugin = budgeted(budget(1))
    everyone = ["web-0", "web-1", "web-2", "bare-0"]
    assert spared(plugin, [*WEB, BARE]) == everyone
    plugin.on_deallocate(WEB[0])
    assert spared(plugin, [*WEB[1:], BARE]) == ["bare-0"]
    plugin.on_allocate(WEB[0])
    assert spared(plugin, [*WEB, BARE]) == everyone
    pending = sessions.task("web", 9, labels={"app": "web"})
    plugin.on_allocate(pending)
    plugin.on_deallocate(pending)
    plugin.on_deallocate(BARE)
    assert spared(plugin, WEB) == everyone[:3]


def test_pdb_spares_pods_under_two_budgets() -> None:
    """The API server would refuse to evict them."""
    plugin = budgeted(budget(9), budget(9, app=None, name="all"))
    assert spared(plugin, [*WEB, BARE]) == ["bare-0"]


def test_pdb_asks_nobody_to_go() -> None:
    """A budget is a limit, no reason to leave."""
    assert not hasattr(budgeted(budget(9)), "shuffle_victims")


def test_pdb_in_volcanos_way() -> None:
    """Counted down along the list, anew in each call; without labels nobody goes, and an empty
    selector covers nobody.
    """
    budgets = budget(1), budget(0, app=None, name="all")
    plugin = with_budgets(VolcanoPdb({}), budgets)
    assert spared(plugin, [BARE, *WEB]) == ["web-0"]
    plugin.on_deallocate(WEB[0])
    assert spared(plugin, WEB[1:]) == ["web-1"]
    assert plugin.shuffle_victims([BARE, *WEB]) == WEB[:1]
    twice = with_budgets(VolcanoPdb({}), (budget(1), budget(2, name="c")))
    assert spared(twice, WEB) == ["web-0"]
