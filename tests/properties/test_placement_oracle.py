import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hypothesis import given, strategies

from tests import checks, running
from tests.properties import clusters
from vscheduler.core.session.interfaces import Choice
from vscheduler.core.session.statement import Statement
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

TIERS = "gang | predicates nodeorder binpack"
SIZES = ("cpu", "memory")
CLOSE = Fraction(1, 10**9)
"""Scores nearer than this may come out either way in floats."""


@dataclass(slots=True, kw_only=True)
class Node:
    """One node as the slow way sees it."""

    spec: Mapping[str, Any]
    labels: Mapping[str, str]
    room: Counter[str]
    used: Counter[str]
    promised: Counter[str] = field(default_factory=Counter)
    """Less what is being deleted, plus what waits: used and promised is what will be used."""
    ports: set[int] = field(default_factory=set)
    leaving_ports: set[int] = field(default_factory=set)
    """Those of pods that are being deleted, which are free later."""

    @property
    def future(self) -> Counter[str]:
        """What will be used when pods are gone."""
        total = Counter(self.used)
        total.update(self.promised)
        return total


def cluster(documents: list[Document]) -> dict[str, Node]:
    """All nodes by name, with the pods that they have."""
    census = checks.count(documents)
    found = {
        document["metadata"]["name"]: Node(
            spec=document["spec"],
            labels=document["metadata"]["labels"],
            room=census.nodes[document["metadata"]["name"]],
            used=Counter(census.used[document["metadata"]["name"]]),
        )
        for document in documents
        if document["kind"] == "Node"
    }
    for name, node in found.items():
        node.promised.subtract(census.releasing[name])
    for pod in census.pods.values():
        if pod["spec"].get("nodeName"):
            node = found[pod["spec"]["nodeName"]]
            leaves = "deletionTimestamp" in pod["metadata"]
            (node.leaving_ports if leaves else node.ports).update(ports(pod))
    return found


def ports(pod: Mapping[str, Any]) -> set[int]:
    """The host ports of a pod."""
    return {port["hostPort"] for each in pod["spec"]["containers"] for port in each["ports"]}


def bears(pod: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """Whether the pod tolerates the taint; pictures have tolerations of one key only."""
    return any(
        each["key"] == taint["key"]
        and each.get("value", taint["value"]) == taint["value"]
        and each.get("effect", taint["effect"]) == taint["effect"]
        for each in pod["spec"]["tolerations"]
    )


def allowed(pod: Mapping[str, Any], node: Node) -> bool:
    """Volcano: predicates, in the order of the reference; amounts aside."""
    if node.spec.get("unschedulable"):
        return False
    if any(taint["effect"] == "NoSchedule" and not bears(pod, taint) for taint in taints(node)):
        return False
    if any(node.labels.get(key) != value for key, value in pod["spec"]["nodeSelector"].items()):
        return False
    return not ports(pod) & node.ports


def taints(node: Node) -> Iterator[Mapping[str, str]]:
    """The node's taints."""
    yield from node.spec["taints"]


def fits(wanted: Counter[str], room: Counter[str], used: Counter[str]) -> bool:
    """Whether the requested amounts are free."""
    return all(used[name] + amount <= room[name] for name, amount in wanted.items() if amount)


def parts(wanted: Counter[str], node: Node) -> tuple[Fraction, ...]:
    """Of nodeorder and binpack: shares of cpu and memory, and binpack's own, which may be 0."""
    will = [max(node.used[name], node.future[name]) + wanted[name] for name in SIZES]
    shares = [
        min(Fraction(has, node.room[name]), Fraction(1))
        for has, name in zip(will, SIZES, strict=True)
    ]
    packed = [
        Fraction(node.used[name] + wanted[name], node.room[name])
        if wanted[name] and node.used[name] + wanted[name] <= node.room[name]
        else Fraction(0)
        for name in SIZES
    ]
    return (*shares, *packed)


def score(wanted: Counter[str], node: Node) -> Fraction:
    """The default weights: least requested 1, balanced 1, binpack 1 (reference 4.11, 4.12)."""
    cpu, memory, packed_cpu, packed_memory = parts(wanted, node)
    least = 1 - (cpu + memory) / 2
    balanced = 1 - abs(cpu - memory) / 2
    asked = sum(bool(wanted[name]) for name in SIZES)
    return 100 * (least + balanced + (packed_cpu + packed_memory) / asked)


def candidates(
    pod: Mapping[str, Any], found: Mapping[str, Node]
) -> tuple[bool, dict[str, Fraction]]:
    """Whether they have room now, and the score of every node that the pod may go to."""
    wanted = checks.request(pod)
    future = {
        name: node
        for name, node in found.items()
        if allowed(pod, node) and fits(wanted, node.room, node.future)
    }
    now = {
        name: node
        for name, node in future.items()
        if fits(wanted, node.room, node.used) and not ports(pod) & node.leaving_ports
    }
    group = now or future
    soft = {
        name: sum(
            taint["effect"] == "PreferNoSchedule" and not bears(pod, taint)
            for taint in taints(node)
        )
        for name, node in group.items()
    }
    most = max(soft.values(), default=0)
    return bool(now), {
        name: score(wanted, node) + 300 * (1 - Fraction(soft[name], most or 1))
        for name, node in group.items()
    }


def assert_best(
    name: str, pod: Mapping[str, Any], found: Mapping[str, Node], scores: Mapping[str, Fraction]
) -> None:
    """No node is better, and none before it in name is the same in everything that counts."""
    assert scores[name] >= max(scores.values()) - CLOSE
    wanted = checks.request(pod)
    twins = [
        other
        for other in scores
        if scores[other] == scores[name]
        and parts(wanted, found[other]) == parts(wanted, found[name])
    ]
    assert name == min(twins)


def take(
    trial: Statement,
    task: Task,
    choice: Choice,
    node: Node,
    pod: Mapping[str, Any],
) -> None:
    """Give the task its room, here and there."""
    wanted = checks.request(pod)
    node.ports |= ports(pod)
    if choice.idle:
        trial.allocate(task, choice.row)
        node.used.update(wanted)
    else:
        trial.pipeline(task, choice.row)
        node.promised.update(wanted)


@clusters.bounded(120)
@given(clusters.pictures(), strategies.integers(0, 2**32))
def test_columns_choose_as_a_slow_search_does(picture: str, seed: int) -> None:
    """Task after task, the best node of all, looked at one by one; ties go to the first name."""
    documents = pictures.documents(picture)
    found = cluster(documents)
    pods = checks.count(documents).pods
    tree = {"actions": "allocate", "tiers": running.tiers(TIERS)}
    session = running.open_session(documents, tree)
    tasks = [
        task for state in session.job_states.values() for task in state.tasks(TaskStatus.PENDING)
    ]
    random.Random(seed).shuffle(tasks)
    with session.statement() as trial:
        for task in tasks:
            pod = pods[task.key]
            choice = session.placement.choose(task)
            idle, scores = candidates(pod, found)
            assert (choice is None) == (not scores)
            if choice is not None:
                name = session.layout.names[choice.row]
                assert choice.idle == idle
                assert_best(name, pod, found, scores)
                take(trial, task, choice, found[name], pod)
