"""What one tenant's pods cost is no reason for another tenant's to wait: in counted operations."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from tests import attacks
from tests.unit.mirror import manifests
from vscheduler.core import actions, compat, cycle, plugins
from vscheduler.core.actions import enqueue
from vscheduler.core.config import policy
from vscheduler.core.config.policy import Policy
from vscheduler.core.placement import explanations, feasibility, placement
from vscheduler.core.session import work_budget
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import FRESH, Snapshot

BUDGET = 20_000
"""A tenth of the daemon's, and attacks in proportion."""
NODES = 20
NOW = 1000.0
MORE = 10_000
"""Operations, above twice those of a quiet cluster: about 10 ms of the 1 s that is allowed."""


class Cluster:
    """Two tenants with a queue each; the first one's queue is the older."""

    def __init__(self, documents: Iterable[dict[str, Any]] = ()) -> None:
        self.mirror = Mirror(Options(scheduler_names=(manifests.OURS,)))
        for name in ("qa", "qb"):
            self.show(manifests.queue(name, {"weight": 1}, state="Open"))
        for number in range(NODES):
            name = f"n{number:02}"
            amounts = {"cpu": "32", "pods": "110"}
            self.show(manifests.node(name, amounts, labels={attacks.HOST: name}))
        for document in documents:
            self.show(document)
        self.carried = FRESH
        self.before = Counter(self.mirror.work)

    def show(self, document: dict[str, Any]) -> None:
        """One object."""
        document["metadata"].setdefault("uid", document["metadata"]["name"])
        self.mirror.apply(manifests.event_of(document))

    def snapshot(self) -> Snapshot:
        """As things stand."""
        return self.mirror.snapshot(NOW, self.carried)

    def decide(self, budget: int | None = BUDGET) -> CycleResult:
        """One cycle; what it binds is seen as being bound. What opening costs comes on top."""
        taken = self.snapshot()
        if budget is not None:
            waiting = sum(not job.fully_scheduled for job in taken.jobs)
            budget += work_budget.OPENING_COST * waiting
        result = cycle.run_cycle(taken, built_in(), budget)
        assert not result.faults
        self.carried = result.carried
        for bind in result.binds:
            assert self.mirror.assume(bind.task.uid, bind.node, NOW)
        return result

    def until_bound(self, name: str) -> tuple[int, int]:
        """Cycles until this tenant's gang of 2 is bound, and operations of all of them."""
        self.before = Counter(self.mirror.work)
        work: Counter[str] = Counter()
        for cycles in range(1, 9):
            result = self.decide()
            work += Counter(result.work)
            if sum(bind.task.job == f"team-b/{name}" for bind in result.binds) == 2:
                work += Counter(self.mirror.work) - self.before
                return cycles, sum(work.values())
        raise AssertionError(f"{name} waits")


def built_in() -> Policy:
    """The built-in configuration."""
    parsed = policy.parse(policy.BUILT_IN, plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO)
    assert parsed.policy is not None
    return parsed.policy


def placed(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same with the pods on nodes."""
    number = 0
    for document in documents:
        if document["kind"] == "Pod":
            document["spec"]["nodeName"] = f"n{number % NODES:02}"
            document["status"] = {"phase": "Running"}
            number += 1
        yield document


def inqueue(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same with the groups let in already."""
    for document in documents:
        if document["kind"] == "PodGroup":
            document["status"] = {"phase": "Inqueue"}
        yield document


ATTACKS: Mapping[str, Callable[[], Iterable[dict[str, Any]]]] = {
    "pods beyond the bound that wait": lambda: attacks.conditions(4, 3000),
    "pods beyond the bound that run": lambda: placed(attacks.conditions(4, 3000)),
    "pods at the bound that wait": lambda: attacks.conditions(30, 100),
    "pods at the bound that run": lambda: placed(attacks.conditions(30, 100)),
    "pods about everybody that wait": lambda: attacks.conditions(15, 100, from_all=True),
    "classes by selector": lambda: attacks.classes(200, "selector"),
    "classes by amount": lambda: attacks.classes(200, "amount"),
    "classes by name": lambda: attacks.classes(200, "name"),
    "classes that were let in": lambda: inqueue(attacks.classes(200, "selector")),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_another_tenants_gang_is_bound_at_once(attack: str) -> None:
    """Whether it comes with the attack or when that is under way: within two cycles."""
    cluster = Cluster(ATTACKS[attack]())
    for each in attacks.gang("first", "team-b", "qb"):
        cluster.show(each)
    cycles, _ = cluster.until_bound("first")
    assert cycles <= 2
    for each in attacks.gang("second", "team-b", "qb"):
        cluster.show(each)
    cycles, _ = cluster.until_bound("second")
    assert cycles == 1


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_gang_costs_little_more_than_in_a_quiet_cluster(attack: str) -> None:
    """All that the Mirror and cycles count until it is bound."""
    quiet, attacked = Cluster(), Cluster(ATTACKS[attack]())
    costs = []
    for cluster in (quiet, attacked):
        for each in attacks.gang("first", "team-b", "qb"):
            cluster.show(each)
        costs.append(cluster.until_bound("first")[1])
    assert costs[1] <= 2 * costs[0] + MORE


@pytest.mark.parametrize("attack", ATTACKS)
def test_everybody_is_told_in_the_end(attack: str) -> None:
    """Cycles that were cut short are followed by others until all jobs had their turn."""
    cluster = Cluster(ATTACKS[attack]())
    waiting = {job.id for job in cluster.snapshot().jobs}
    told: set[JobId] = set()
    for _ in range(60):
        result = cluster.decide()
        told |= {group.job for group in result.groups if group.reason or group.ready}
        if result.finished:
            break
    assert result.finished
    assert not result.carried.work_by_namespace
    assert told == waiting


def test_conditions_of_running_pods_about_everybody_are_one_to_a_task() -> None:
    """However many there are: one sum for a label of nodes, which follows the pods."""
    many = list(placed(attacks.conditions(15, 100, from_all=True)))
    for document in many[2:]:
        document["spec"]["nodeName"] = "n01"
    cluster = Cluster([*many, *attacks.gang("first", "team-b", "qb")])
    opened = cycle.open_session(cluster.snapshot(), built_in())
    (task, *_) = opened.job_states[JobId("team-b/first")].job.tasks
    affinity = opened.affinity_counts.state_of(task)
    assert affinity is not None
    assert len(affinity.repelling) == 1
    result = cluster.decide()
    assert result.binds
    assert not {bind.node for bind in result.binds} & {"n00", "n01"}


def test_what_is_kept_for_the_next_cycle_is_shared_with_the_last() -> None:
    """Another pod comes: what was filed is filed still, and nobody looks for it again."""
    cluster = Cluster(placed(attacks.conditions(15, 100)))
    before = cluster.snapshot().affinity_index
    for each in attacks.gang("first", "team-b", "qb"):
        cluster.show(each)
    assert cluster.snapshot().affinity_index is before
    (late,) = placed([attacks.pod("late", "aff", affinity=attacks.apart(1, 99))])
    cluster.show(late)
    after = cluster.snapshot().affinity_index
    assert after is not before
    labels = {"k0-1": "v", "k99-0": "v"}
    assert len(before.term_index.find("team-a", labels, {})) == 1
    assert len(after.term_index.find("team-a", labels, {})) == 2
    cluster.mirror.apply(manifests.removal_of(late))
    assert len(cluster.snapshot().affinity_index.term_index.find("team-a", labels, {})) == 1
    assert len(after.term_index.find("team-a", labels, {})) == 2


def test_without_pressure_nobody_stands_back() -> None:
    """A budget that isn't used up changes no decision."""
    documents = [*attacks.classes(20, "selector"), *attacks.gang("first", "team-b", "qb")]
    taken = Cluster(documents).snapshot()
    limited = cycle.run_cycle(taken, built_in(), 10 * BUDGET)
    assert limited.finished
    assert limited == cycle.run_cycle(taken, built_in())
    assert limited.carried.work_by_namespace == {}


def test_a_namespace_that_costs_much_has_its_turns_all_the_same() -> None:
    """Others that always have something to ask for don't keep it from being served."""
    cluster = Cluster(attacks.classes(150, "amount"))
    told: set[JobId] = set()
    for number in range(60):
        for each in attacks.gang(f"g{number}", "team-b", "qb"):
            cluster.show(each)
        result = cluster.decide()
        assert sum(bind.task.namespace == "team-b" for bind in result.binds) == 2
        told |= {group.job for group in result.groups if group.reason}
        if len(told) == 150:
            return
    raise AssertionError(f"only {len(told)} were told")


def test_admission_leaves_something_for_turns() -> None:
    """Where looking at the groups that were let in uses up each budget, pods are bound still."""
    documents = []
    for number in range(300):
        name = f"fits-{number:03}"
        requests = {"cpu": f"{10 + number}m"}
        where = {attacks.HOST: f"n{number % NODES:02}"}
        pods = (
            attacks.pod(f"{name}-{each}", name, requests=requests, nodeSelector=where)
            for each in range(2)
        )
        documents += [attacks.group(name, 2), *pods]
    let_in = Cluster(inqueue(documents))
    bound = [len(let_in.decide().binds) for _ in range(8)]
    assert bound[0] > 30
    assert sum(bound) > 8 * 30


def test_looking_at_groups_leaves_something_for_letting_them_in() -> None:
    """Where the seats of those that were let in use up each budget, others are let in still."""
    documents: list[dict[str, Any]] = []
    for number in range(300):
        name = f"fits-{number:03}"
        found, *pods = attacks.gang(name, "team-a", "qa")
        for pod in pods:
            pod["spec"]["nodeSelector"] = {attacks.HOST: f"n{number % NODES:02}"}
            amounts = {"cpu": f"{10 + number}m"}
            pod["spec"]["containers"][0]["resources"]["requests"] = amounts
        documents += [*inqueue([found]), *pods]
    cluster = Cluster(documents)
    for each in attacks.gang("late", "team-b", "qb"):
        cluster.show(each)
    first = cluster.decide()
    assert first.work["seats"] * feasibility.CAPACITY_COST >= BUDGET
    assert first.work["admissions"] == 1


def test_a_cycle_says_whom_it_was_for_in_vain() -> None:
    """Those that only are there are counted as well; who starts pays nothing."""
    cluster = Cluster(attacks.classes(50, "selector"))
    cluster.show(attacks.group("small", 2, "team-b", "qb"))
    cluster.show(attacks.pod("small-0", "small", "team-b"))
    costs = cluster.decide().costs
    assert set(costs) == {"team-a", "team-b"}
    assert costs["team-a"] > 50 * costs["team-b"] > 0
    cluster.show(attacks.pod("small-1", "small", "team-b"))
    result = cluster.decide()
    assert len(result.binds) == 2
    assert set(result.costs) == {"team-a"}


def test_telling_the_hopeless_takes_a_quarter_of_the_budget() -> None:
    """The rest is for those that can start; the next cycles go on."""
    cluster = Cluster(attacks.classes(500, "selector"))
    told, cycles = 0, 0
    while told < 500:
        result = cluster.decide()
        told += sum(group.reason is not None for group in result.groups)
        cycles += 1
        assert result.finished == (told == 500)
    costs = enqueue.REPORT_COST + placement.EMPTY_NODE_COST + explanations.REFUSED_COST
    assert cycles == pytest.approx(500 * costs / (BUDGET / 4), abs=1)


def test_a_gang_whose_pods_come_in_the_middle_of_a_round_is_bound_at_once() -> None:
    """That it lacked pods in a cycle that was cut short wasn't its turn."""
    cluster = Cluster(attacks.classes(500, "selector"))
    found, *pods = attacks.gang("first", "team-b", "qb")
    for document in inqueue([found]), pods[:1]:
        for each in document:
            cluster.show(each)
    for _ in range(2):
        assert not cluster.decide().finished
    cluster.show(pods[1])
    assert cluster.until_bound("first")[0] == 1
