"""Affinity between pods and topology spread from their definition, pod by pod and node by node."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.properties import pod_affinity_clusters
from vscheduler.testing import pictures

STAYS, LEAVES, COMES = "stays", "leaves", "comes"

Document = pictures.Document
Labels = Mapping[str, str]
Seat = tuple[Document, str, str]
"""A pod, its node, and how it stands there."""


@dataclass(slots=True, kw_only=True)
class World:
    """The cluster as the slow way sees it."""

    nodes: dict[str, Document]
    namespaces: dict[str, Labels]
    seats: dict[str, Seat] = field(default_factory=dict)

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
    wanted = terms(pod, "podAffinity", pod_affinity_clusters.REQUIRED)
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
    return [pod for pod in pods if world.seats[name_of(pod[0])][2] in states]


def is_apart(world: World, pod: Document, node: Labels, states: Sequence[str]) -> bool:
    """Required anti-affinity, its own and that of others about it."""
    for other, where in world.others(states):
        for owner, about in ((pod, other), (other, pod)):
            for term in terms(owner, "podAntiAffinity", pod_affinity_clusters.REQUIRED):
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
            (pair, term["podAffinityTerm"], sign * term["weight"])
            for pair in ((pod, other), (other, pod))
            for kind, sign in kinds
            for term in terms(pair[0], kind, pod_affinity_clusters.PREFERRED)
        ]
        weighted += [
            ((other, pod), term, 1)
            for term in terms(other, "podAffinity", pod_affinity_clusters.REQUIRED)
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
        size = len(scored) if key == pod_affinity_clusters.HOST else len(values)
        counted = {each["metadata"]["name"] for each in eligible(world, spread, keys, pod)}
        for name in scored:
            here = labels(world.nodes[name])[key]
            like = {each for each in counted if labels(world.nodes[each])[key] == here}
            like = {name} if key == pod_affinity_clusters.HOST else like
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
