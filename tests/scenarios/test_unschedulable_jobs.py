"""What hopeless jobs were told is said again without being found anew, as long as it holds."""

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests import attacks, running
from tests.scenarios import test_work_budget as tenants
from tests.scenarios.test_work_budget import Cluster
from tests.unit.mirror import manifests
from vscheduler.core import cycle
from vscheduler.core.api.depends import Depends, On
from vscheduler.core.plugins.predicates import Predicates
from vscheduler.core.shares.usable_nodes import ANY_POD
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH, NO_MEMOS

GROUPS = 6

Document = dict[str, Any]


class Teller:
    """A cluster with hopeless groups, which decides by one policy, each time in two ways."""

    def __init__(self, groups: int = GROUPS) -> None:
        """So many that select what isn't there, and as many that ask for too much."""
        classes = [
            *attacks.classes(groups, "selector"),
            *(renamed(each) for each in attacks.classes(groups, "amount")),
        ]
        self.cluster = Cluster(classes)
        self.policy = tenants.built_in()
        self.carried = FRESH

    def decide(self) -> CycleResult:
        """A cycle, which decides and says the same as one to which nothing was told before."""
        taken = self.cluster.mirror.snapshot(tenants.NOW, self.carried)
        result = cycle.run_cycle(taken, self.policy)
        anew = replace(taken, carried=running.forgetful(self.carried))
        assert cycle.run_cycle(anew, self.policy).groups == result.groups
        self.carried = result.carried
        return result

    def found(self) -> int:
        """How many reasons the next cycle finds."""
        return self.decide().work.get("explanations", 0)


def renamed(document: Document) -> Document:
    """A second group beside the one that has this name already."""
    metadata = document["metadata"]
    metadata["name"] = f"b{metadata['name']}"
    for key, name in metadata.get("annotations", {}).items():
        metadata["annotations"][key] = f"b{name}"
    return document


def node(number: int, cpu: str = "32", **labels: str) -> Document:
    """One of the cluster's nodes, as it is or otherwise."""
    name = f"n{number:02}"
    return manifests.node(name, {"cpu": cpu, "pods": "110"}, labels={attacks.HOST: name, **labels})


def queue(name: str = "qa", **spec: object) -> Document:
    """One of its queues."""
    return manifests.queue(name, {"weight": 1, **spec}, state="Open")


def busy(number: int) -> Document:
    """A pod of somebody else on one of the nodes."""
    document = attacks.pod(f"busy-{number}", "nobody", "team-b", {"cpu": "20"})
    document["spec"] |= {"nodeName": f"n{number % tenants.NODES:02}", "schedulerName": "other"}
    document["status"] = {"phase": "Running"}
    return document


def test_in_a_cluster_at_rest_nothing_is_found_anew() -> None:
    """Nor where others come and are bound: what holds on empty nodes doesn't depend on them."""
    scheduler = Teller()
    work = scheduler.decide().work
    assert (work["hopeless"], work["explanations"]) == (2 * GROUPS, 2 * GROUPS)
    assert scheduler.found() == 0
    for each in attacks.gang("first", "team-b", "qb"):
        scheduler.cluster.show(each)
    scheduler.cluster.show(busy(1))
    result = scheduler.decide()
    assert len(result.binds) == 2
    assert result.work.get("explanations", 0) == 0
    assert sum(group.reason is not None for group in result.groups) == 2 * GROUPS


def test_to_say_it_again_costs_a_part_of_a_budget_only() -> None:
    """So that a cycle is finished which couldn't tell half of them anew."""
    scheduler = Teller(100)
    told: list[int] = []
    for _ in range(20):
        taken = scheduler.cluster.mirror.snapshot(tenants.NOW, scheduler.carried)
        result = cycle.run_cycle(taken, scheduler.policy, budget=12_000)
        scheduler.carried = result.carried
        told.append(result.work["hopeless"] if result.finished else 0)
    assert told[0] == 0
    assert told[-1] == 200
    assert result.work.get("explanations", 0) == 0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(node(1, zone="elsewhere"), id="a label"),
        pytest.param(node(1, cpu="64"), id="a size"),
        pytest.param(node(tenants.NODES), id="another node"),
        pytest.param(queue(priority=1), id="a queue"),
    ],
)
def test_it_is_found_anew_when_nodes_or_queues_change(change: Document) -> None:
    """Whatever could make it another."""
    scheduler = Teller()
    scheduler.decide()
    scheduler.cluster.show(change)
    assert scheduler.found() == 2 * GROUPS


def test_it_is_found_anew_for_a_job_that_changed() -> None:
    """And for no other."""
    scheduler = Teller()
    scheduler.decide()
    grown = attacks.pod("a-0001-1", "a-0001", nodeSelector={"zone": "z1"})
    scheduler.cluster.show(grown)
    assert scheduler.found() == 1


def test_it_is_found_anew_by_another_policy() -> None:
    """Other filters may say something else."""
    scheduler = Teller()
    scheduler.decide()
    scheduler.policy = tenants.built_in()
    assert scheduler.found() == 2 * GROUPS


def test_nodes_are_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins aren't asked which nodes a class could use for which there is none."""
    asked = []
    answer = Predicates.class_nodes

    @functools.wraps(answer)
    def counted(self: Predicates, *about: Any) -> Any:
        if about[0] != ANY_POD:
            asked.append(about)
        return answer(self, *about)

    monkeypatch.setattr(Predicates, "class_nodes", counted)
    cluster, settings = Cluster(attacks.classes(GROUPS, "selector")), tenants.built_in()
    carried, counts = FRESH, []
    for _ in range(3):
        asked.clear()
        taken = cluster.mirror.snapshot(tenants.NOW, carried)
        carried = cycle.run_cycle(taken, settings).carried
        counts.append(len(asked))
    assert counts[0] >= GROUPS
    assert counts[1:] == [0, 0]


def test_nothing_is_kept_where_a_plugin_may_answer_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it says of nodes may follow from the time, as that of tdm does."""
    late = Depends(On.CLASS | On.TIME)
    monkeypatch.setattr(Predicates.class_nodes, "depends_on", late)
    scheduler = Teller()
    assert [scheduler.found(), scheduler.found()] == [2 * GROUPS, 2 * GROUPS]


def test_after_a_plugin_failed_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said while a filter couldn't answer isn't said again when it can."""
    answer, moody = Predicates.filter_nodes, True

    @functools.wraps(answer)
    def answers(self: Predicates, *about: Any) -> Any:
        if moody:
            raise RuntimeError("moody")
        return answer(self, *about)

    monkeypatch.setattr(Predicates, "filter_nodes", answers)
    scheduler = Teller()
    assert scheduler.decide().faults
    moody = False
    assert scheduler.found() == 2 * GROUPS
    assert scheduler.found() == 0


CHANGES: tuple[Callable[[random.Random], Document], ...] = (
    lambda chance: node(chance.randrange(4), zone=f"z{chance.randrange(GROUPS)}"),
    lambda chance: node(chance.randrange(4), cpu=str(chance.choice((32, 1001, 1003)))),
    lambda chance: queue(capability={"cpu": str(chance.choice((10, 2000)))}),
    lambda chance: {**queue(), "status": {"state": chance.choice(("Open", "Closed"))}},
    lambda chance: busy(chance.randrange(100)),
)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_the_same_is_said_as_if_found_anew(seed: int) -> None:
    """Nodes, queues and usage change at random; `decide` compares."""
    chance = random.Random(seed)
    scheduler = Teller()
    reused = 0
    for _ in range(12):
        before = scheduler.carried.memos
        result = scheduler.decide()
        reused += before is not NO_MEMOS and not result.work.get("explanations")
        if chance.random() < 0.6:
            scheduler.cluster.show(chance.choice(CHANGES)(chance))
    assert reused
