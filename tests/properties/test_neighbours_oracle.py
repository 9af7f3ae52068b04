"""Affinity between pods and topology spread, pod by pod and node by node, against the columns."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, strategies

from tests import pictures, running
from tests.properties import clusters, neighbourhoods
from vscheduler.core.framework import session as sessions
from vscheduler.core.framework import statement
from vscheduler.core.model import decisions, jobs

OFF = ("leastrequested", "balancedresource", "tainttoleration")
TIERS = f"predicates nodeorder:{','.join(f'{name}.weight=0' for name in OFF)}"
STAYS, LEAVES, COMES = "stays", "leaves", "comes"

Document = pictures.Document
Labels = Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class World:
    """The cluster as the slow way sees it."""

    nodes: dict[str, Document]
    namespaces: dict[str, Labels]
    seats: dict[str, tuple[Document, str, str]] = field(default_factory=dict)
    """By pod: the pod, its node, and how it stands there."""

    def others(self, states: Sequence[str]) -> Iterator[tuple[Document, Labels]]:
        """Pods that stand so, each with the labels of its node."""
        for pod, node, state in self.seats.values():
            if node in self.nodes and state in states:
                yield pod, labels(self.nodes[node])


def labels(document: Document) -> Labels:
    """The labels of an object."""
    found: Labels = document["metadata"].get("labels", {})
    return found


def terms(pod: Document, kind: str, strength: str) -> list[Any]:
    """The terms of a pod's podAffinity or podAntiAffinity."""
    found: list[Any] = pod["spec"].get("affinity", {}).get(kind, {}).get(strength, [])
    return found


def selects(selector: Document | None, found: Labels) -> bool:
    """meta/v1 LabelSelector."""
    if selector is None:
        return False
    holds: dict[str, Callable[[Document], bool]] = {
        "In": lambda each: found.get(each["key"]) in each["values"],
        "NotIn": lambda each: found.get(each["key"]) not in each["values"],
        "Exists": lambda each: each["key"] in found,
        "DoesNotExist": lambda each: each["key"] not in found,
    }
    return all(
        found.get(key) == value for key, value in selector.get("matchLabels", {}).items()
    ) and all(holds[each["operator"]](each) for each in selector.get("matchExpressions", []))


def matches(world: World, term: Document, owner: Document, other: Document) -> bool:
    """Whether a term of the owner is about the other pod."""
    own = labels(owner)
    namespace = other["metadata"]["namespace"]
    listed, more = term.get("namespaces", []), term.get("namespaceSelector")
    if more is None and not listed:
        listed = [owner["metadata"]["namespace"]]
    named = namespace in listed
    named |= more is not None and selects(more, world.namespaces[namespace])
    found = labels(other)
    keys = [key for key in term.get("matchLabelKeys", []) if key in own]
    return (
        named
        and selects(term.get("labelSelector"), found)
        and all(found.get(key) == own[key] for key in keys)
    )


def near(key: str, one: Labels, other: Labels) -> bool:
    """Whether two nodes are one place."""
    return key in one and one[key] == other.get(key)


def has_company(world: World, pod: Document, node: Labels, states: Sequence[str]) -> bool:
    """Required affinity; the states are those that count as company."""
    wanted = terms(pod, "podAffinity", neighbourhoods.REQUIRED)
    if any(term["topologyKey"] not in node for term in wanted):
        return False
    company = [
        (other, where)
        for other, where in world.others((STAYS, LEAVES, COMES))
        if wanted and all(matches(world, term, pod, other) for term in wanted)
    ]
    there = [where for _, where in _of(world, company, states)]
    if all(any(near(term["topologyKey"], node, where) for where in there) for term in wanted):
        return True
    anyone = (STAYS, COMES) if COMES in states else (STAYS, LEAVES, COMES)
    first = not any(
        term["topologyKey"] in where for _, where in _of(world, company, anyone) for term in wanted
    )
    return first and all(matches(world, term, pod, pod) for term in wanted)


def _of(
    world: World, pods: Sequence[tuple[Document, Labels]], states: Sequence[str]
) -> list[tuple[Document, Labels]]:
    return [each for each in pods if world.seats[name_of(each[0])][2] in states]


def is_apart(world: World, pod: Document, node: Labels, states: Sequence[str]) -> bool:
    """Required anti-affinity, its own and that of others about it."""
    for other, where in world.others(states):
        for owner, about in ((pod, other), (other, pod)):
            for term in terms(owner, "podAntiAffinity", neighbourhoods.REQUIRED):
                if matches(world, term, owner, about) and near(term["topologyKey"], node, where):
                    return False
    return True


def spreads(pod: Document, action: str) -> list[Document]:
    """The pod's constraints with this answer to whenUnsatisfiable."""
    listed = pod["spec"].get("topologySpreadConstraints", [])
    return [each for each in listed if each["whenUnsatisfiable"] == action]


def counts(world: World, spread: Document, pod: Document, names: set[str]) -> int:
    """Pods that a spread counts on these nodes."""
    if not asks(spread):
        return 0
    return sum(
        other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and selects(spread["labelSelector"], labels(other))
        and node["name"] in names
        for other, node in world.others((STAYS, COMES))
    )


def asks(spread: Document) -> bool:
    """Whether a spread's selector asks anything of pods; else kube-scheduler counts none."""
    selector = spread.get("labelSelector") or {}
    return bool(selector.get("matchLabels") or selector.get("matchExpressions"))


def eligible(world: World, spread: Document, keys: set[str], pod: Document) -> list[Document]:
    """Nodes that count for a spread of the pod."""
    selector = pod["spec"].get("nodeSelector", {})
    tolerated = bool(pod["spec"].get("tolerations"))
    return [
        node
        for node in world.nodes.values()
        if keys <= labels(node).keys()
        and (
            spread.get("nodeAffinityPolicy") == "Ignore"
            or all(labels(node).get(key) == value for key, value in selector.items())
        )
        and (spread.get("nodeTaintsPolicy") != "Honor" or tolerated or not taints(node))
    ]


def taints(node: Document) -> list[Document]:
    """The node's taints; all of them repel."""
    found: list[Document] = node["spec"].get("taints", [])
    return found


def is_even(world: World, pod: Document, node: Labels) -> bool:
    """Topology spread with DoNotSchedule."""
    hard = spreads(pod, "DoNotSchedule")
    keys = {each["topologyKey"] for each in hard}
    for spread in hard:
        key = spread["topologyKey"]
        if key not in node:
            return False
        domains: dict[str, set[str]] = {}
        for each in eligible(world, spread, keys, pod):
            domains.setdefault(labels(each)[key], set()).add(each["metadata"]["name"])
        found = {value: counts(world, spread, pod, names) for value, names in domains.items()}
        few = len(domains) < spread.get("minDomains", 1)
        least = 0 if few else min(found.values())
        itself = asks(spread) and selects(spread["labelSelector"], labels(pod))
        if found.get(node[key], 0) + itself - least > spread["maxSkew"]:
            return False
    return True


def stands(pod: Document, node: Document) -> bool:
    """What depends on the node alone."""
    selector = pod["spec"].get("nodeSelector", {})
    if any(labels(node).get(key) != value for key, value in selector.items()):
        return False
    return bool(pod["spec"].get("tolerations")) or not taints(node)


def allowed(world: World, pod: Document) -> tuple[set[str], set[str]]:
    """Names of nodes that the pod may use now, and once leaving pods are gone.

    Now takes both: who may start must be able to stay.
    """
    now, later = set(), set()
    for name, node in world.nodes.items():
        found = labels(node)
        if not (stands(pod, node) and is_even(world, pod, found)):
            continue
        apart = is_apart(world, pod, found, (STAYS, COMES))
        if apart and has_company(world, pod, found, (STAYS, COMES)):
            later.add(name)
            apart = is_apart(world, pod, found, (STAYS, LEAVES, COMES))
            if apart and has_company(world, pod, found, (STAYS, LEAVES)):
                now.add(name)
    return now, later


def liking(world: World, pod: Document, names: set[str]) -> dict[str, float]:
    """kube-scheduler: InterPodAffinity's score, for these nodes."""
    raw: Counter[str] = Counter(dict.fromkeys(names, 0))
    kinds = (("podAffinity", 1), ("podAntiAffinity", -1))
    for other, where in world.others((STAYS, COMES)):
        weighted = [
            (pair, each["podAffinityTerm"], sign * each["weight"])
            for pair in ((pod, other), (other, pod))
            for kind, sign in kinds
            for each in terms(pair[0], kind, neighbourhoods.PREFERRED)
        ]
        weighted += [
            ((other, pod), term, 1) for term in terms(other, "podAffinity", neighbourhoods.REQUIRED)
        ]
        for (owner, about), term, weight in weighted:
            if matches(world, term, owner, about):
                for name in names:
                    if near(term["topologyKey"], labels(world.nodes[name]), where):
                        raw[name] += weight
    least, most = min(raw.values()), max(raw.values())
    return {
        name: float(int(100 * (score - least) / (most - least))) if most > least else 0.0
        for name, score in raw.items()
    }


def evenness(world: World, pod: Document, names: set[str]) -> dict[str, float]:
    """kube-scheduler: PodTopologySpread's score, for these nodes."""
    soft = spreads(pod, "ScheduleAnyway")
    keys = {each["topologyKey"] for each in soft}
    scored = {name for name in names if keys <= labels(world.nodes[name]).keys()}
    if not soft or not scored:
        return dict.fromkeys(names, 0.0)
    raw = dict.fromkeys(scored, 0.0)
    for spread in soft:
        key = spread["topologyKey"]
        values = {labels(world.nodes[name])[key] for name in scored}
        size = len(scored) if key == neighbourhoods.HOST else len(values)
        counted = {each["metadata"]["name"] for each in eligible(world, spread, keys, pod)}
        for name in scored:
            here = labels(world.nodes[name])[key]
            like = {each for each in counted if labels(world.nodes[each])[key] == here}
            like = {name} if key == neighbourhoods.HOST else like
            pods = counts(world, spread, pod, like)
            raw[name] += pods * math.log(size + 2) + spread["maxSkew"] - 1
    rounded = {name: math.floor(score + 0.5) for name, score in raw.items()}
    least, most = min(rounded.values()), max(rounded.values())
    unlike = dict.fromkeys(names - scored, 0.0)
    if not most:
        return unlike | dict.fromkeys(scored, 100.0)
    return unlike | {
        name: float(100 * (most + least - score) // most) for name, score in rounded.items()
    }


def name_of(pod: Document) -> str:
    """`namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


class Trial:
    """Random steps in a statement, here and there."""

    def __init__(self, documents: list[Document], chance: random.Random) -> None:
        self.session = running.open_session(
            documents, {"actions": "allocate", "tiers": running.tiers(TIERS)}
        )
        self.chance = chance
        self.pods = {name_of(each): each for each in documents if each["kind"] == "Pod"}
        self.world = World(
            nodes={each["metadata"]["name"]: each for each in documents if each["kind"] == "Node"},
            namespaces={
                each["metadata"]["name"]: labels(each)
                for each in documents
                if each["kind"] == "Namespace"
            },
        )
        for key, pod in self.pods.items():
            if "nodeName" in pod["spec"]:
                gone = "deletionTimestamp" in pod["metadata"]
                self.world.seats[key] = (pod, pod["spec"]["nodeName"], LEAVES if gone else STAYS)
        self.tasks = [task for gang in self.session.gangs.values() for task in gang.job.tasks]

    def of(self, *statuses: jobs.TaskStatus) -> list[jobs.Task]:
        """Tasks that stand so now."""
        found = [task for task in self.tasks if self.status(task) in statuses]
        return sorted(found, key=lambda task: task.uid)

    def status(self, task: jobs.Task) -> jobs.TaskStatus:
        """How the task stands."""
        return self.session.gang_of(task).status(task)

    def step(self, trial: statement.Statement) -> None:
        """Place a task where it may go, or anywhere, or evict one."""
        waiting = self.of(jobs.TaskStatus.PENDING)
        running_ones = self.of(jobs.TaskStatus.RUNNING)
        if waiting and (not running_ones or self.chance.random() < 0.7):
            task = self.chance.choice(waiting)
            row = self.chance.randrange(self.session.layout.size)
            idle = self.chance.random() < 0.5
            (trial.allocate if idle else trial.pipeline)(task, row)
            place = self.session.layout.names[row]
            pod = self.pods[task.key]
            self.world.seats[task.key] = (pod, place, STAYS if idle else COMES)
        elif running_ones:
            task = self.chance.choice(running_ones)
            assert task.node is not None
            evict = decisions.Evict(task=task, node=task.node, action="preempt", beneficiary=None)
            trial.evict(evict)
            pod, place, _ = self.world.seats[task.key]
            self.world.seats[task.key] = (pod, place, LEAVES)

    def check(self) -> None:
        """Both ways of looking at it say the same of every waiting task."""
        for task in self.of(jobs.TaskStatus.PENDING):
            pod = self.pods[task.key]
            now, later = allowed(self.world, pod)
            names = self.session.layout.names
            feasible = {
                name for row, name in enumerate(names) if self.session.placement.feasible(task, row)
            }
            assert feasible == later, (task.key, feasible, later)
            choice = self.session.placement.choose(task)
            assert (choice is None) == (not later)
            if choice is not None:
                assert choice.idle == bool(now), (task.key, now, later)
                self.check_best(pod, now or later, names[choice.row])

    def check_best(self, pod: Document, names: set[str], chosen: str) -> None:
        """The first by name of those with the best score."""
        likes, even = liking(self.world, pod, names), evenness(self.world, pod, names)
        scores = {name: 2 * likes[name] + 2 * even[name] for name in names}
        most = max(scores.values())
        best = min(name for name, score in scores.items() if score == most)
        assert chosen == best, (scores, chosen)


def open_trial(seed: int) -> Trial:
    """A random cluster."""
    chance = random.Random(seed)
    return Trial(neighbourhoods.documents(chance), chance)


@clusters.bounded(400)
@given(strategies.integers(0, 2**32))
def test_columns_see_the_neighbours_that_a_slow_search_sees(seed: int) -> None:
    """Filters and scores, as pods are placed, promised room and evicted, and all of it undone."""
    found = open_trial(seed)
    found.check()
    with found.session.statement() as trial:
        marks: list[tuple[int, dict[str, tuple[Document, str, str]]]] = []
        for _ in range(found.chance.randint(1, 8)):
            if found.chance.random() < 0.3:
                marks.append((trial.checkpoint(), dict(found.world.seats)))
            found.step(trial)
            if marks and found.chance.random() < 0.3:
                mark, seats = marks.pop()
                trial.rollback(mark)
                found.world.seats = seats
            if found.chance.random() < 0.5:
                found.check()
        found.check()


def spread_out(session: sessions.Session) -> list[tuple[str, bool]]:
    """What every waiting task may use."""
    tasks = [task for gang in session.gangs.values() for task in gang.job.tasks]
    return [
        (task.key, session.placement.feasible(task, row))
        for task in tasks
        if task.status is jobs.TaskStatus.PENDING
        for row in range(session.layout.size)
    ]


@clusters.bounded(40)
@given(strategies.integers(0, 2**32))
def test_the_order_of_events_changes_nothing(seed: int) -> None:
    """Counts are the same, whoever was seen first."""
    documents = neighbourhoods.documents(random.Random(seed))
    tree = {"actions": "allocate", "tiers": running.tiers(TIERS)}
    shuffled = random.Random(seed).sample(documents, len(documents))
    one, other = (running.open_session(each, tree) for each in (documents, shuffled))
    assert one.snapshot.residents == other.snapshot.residents
    assert spread_out(one) == spread_out(other)
