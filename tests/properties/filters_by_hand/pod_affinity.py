"""Affinity and anti-affinity between pods, and topology spread, from the documentation's words.

Kubernetes: concepts/scheduling-eviction/{assign-pod-node,topology-spread-constraints}.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.properties.filters_by_hand import selecting
from tests.properties.filters_by_hand.worlds import Instant, State, World, key_of

Document = selecting.Document
COUNTED = (State.STAYS, State.COMES)
"""Spread counts pods that stay or will come; kube-scheduler passes over those being deleted."""


def terms(pod: Document, kind: str) -> list[Any]:
    """The required terms of podAffinity or podAntiAffinity."""
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    found: list[Any] = affinity.get(selecting.REQUIRED) or []
    return found


def about(world: World, term: Document, owner: Document, other: Document) -> bool:
    """Whether the term of one pod is about another, wherever they are.

    Namespaces are those listed and those that namespaceSelector selects; without either, the
    owner's own. matchLabelKeys and mismatchLabelKeys compare the two pods' labels, as far as the
    owner has them.
    """
    namespace = other["metadata"].get("namespace", "default")
    listed, more = term.get("namespaces") or [], term.get("namespaceSelector")
    if not listed and more is None:
        listed = [owner["metadata"].get("namespace", "default")]
    found, own = selecting.labels(other), selecting.labels(owner)
    same = [key for key in term.get("matchLabelKeys") or [] if key in own]
    different = [key for key in term.get("mismatchLabelKeys") or [] if key in own]
    return (
        (namespace in listed or selecting.selects(more, world.namespaces.get(namespace, {})))
        and selecting.selects(term.get("labelSelector"), found)
        and all(found.get(key) == own[key] for key in same)
        and all(found.get(key) != own[key] for key in different)
    )


def together(term: Document, one: Document, other: Document) -> bool:
    """Whether two nodes are one place to the term: both have the label, with one value."""
    here, there = (selecting.labels(each).get(term["topologyKey"]) for each in (one, other))
    return here is not None and here == there


def too_near(world: World, pod: Document, node: Document, instant: Instant) -> Iterator[str]:
    """Required anti-affinity: the pod's own terms, and those of others about it."""
    for seat, place in world.others(key_of(pod), instant.value):
        for term in terms(pod, "podAntiAffinity"):
            if about(world, term, pod, seat.pod) and together(term, node, place):
                yield f"must not be near {key_of(seat.pod)} on {seat.node}"
        for term in terms(seat.pod, "podAntiAffinity"):
            if about(world, term, seat.pod, pod) and together(term, node, place):
                yield f"{key_of(seat.pod)} on {seat.node} must not be near it"


def company(world: World, pod: Document, instant: Instant) -> list[Document]:
    """The nodes of those pods that all required terms are about; others don't count for any."""
    wanted = terms(pod, "podAffinity")
    return [
        place
        for seat, place in world.others(key_of(pod), instant.value)
        if all(about(world, term, pod, seat.pod) for term in wanted)
    ]


def lonely(
    world: World, pod: Document, node: Document, instant: Instant, *, first: bool
) -> Iterator[str]:
    """Required affinity: for each term one of its company is near, and the node has the label.

    The first of pods that look for each other may go to any node that has the labels: where there
    is no company anywhere, and it is what it looks for itself. first: whether that is looked at;
    when all pods are in place, who once was the first has others about it.
    """
    wanted = terms(pod, "podAffinity")
    missing = [
        term["topologyKey"] for term in wanted if term["topologyKey"] not in selecting.labels(node)
    ]
    if missing:
        yield f"{node['metadata']['name']} lacks the label {missing[0]}"
        return
    there = company(world, pod, instant) if wanted else []
    if all(any(together(term, node, place) for place in there) for term in wanted):
        return
    labelled = any(
        term["topologyKey"] in selecting.labels(place) for term in wanted for place in there
    )
    itself = all(about(world, term, pod, pod) for term in wanted)
    if not itself or (labelled and first):
        yield "has nobody near of those that it must be near"


def uneven(world: World, pod: Document, node: Document) -> Iterator[str]:
    """Topology spread with DoNotSchedule: pods that match, with this one if it does, less those of
    the domain with the fewest, are at most maxSkew.
    """
    listed = pod["spec"].get("topologySpreadConstraints") or []
    hard = [each for each in listed if each["whenUnsatisfiable"] == "DoNotSchedule"]
    keys = {each["topologyKey"] for each in hard}
    if not keys <= selecting.labels(node).keys():
        yield f"{node['metadata']['name']} lacks a label of {sorted(keys)}"
        return
    for spread in hard:
        counts = domains(world, spread, pod, keys)
        few = len(counts) < (spread.get("minDomains") or 1)
        least = 0 if few else min(counts.values())
        here = selecting.labels(node)[spread["topologyKey"]]
        one_more = matching(spread, pod, pod)
        skew = counts.get(here, 0) + one_more - least
        if skew > spread["maxSkew"]:
            where = f"{spread['topologyKey']}={here}"
            yield f"makes the skew {skew} of {spread['maxSkew']} at {where}, {dict(counts)}"


def domains(world: World, spread: Document, pod: Document, keys: set[str]) -> Mapping[str, int]:
    """Matching pods by the values of the topology key, on nodes that count."""
    names = {
        name: selecting.labels(node)[spread["topologyKey"]]
        for name, node in world.nodes.items()
        if counts_for(spread, pod, node, keys)
    }
    found = Counter(dict.fromkeys(names.values(), 0))
    for seat, _ in world.others(key_of(pod), COUNTED):
        if seat.node in names and matching(spread, pod, seat.pod):
            found[names[seat.node]] += 1
    return found


def counts_for(spread: Document, pod: Document, node: Document, keys: set[str]) -> bool:
    """Whether a node counts: it has the labels of all the pod's hard spreads, and unless the
    policies say otherwise its affinity holds there; taints only matter where they say so.
    """
    return (
        keys <= selecting.labels(node).keys()
        and (spread.get("nodeAffinityPolicy") == "Ignore" or selecting.wants(pod, node))
        and (spread.get("nodeTaintsPolicy") != "Honor" or not any(selecting.untolerated(pod, node)))
    )


def matching(spread: Document, pod: Document, other: Document) -> bool:
    """Whether a spread of the pod counts the other one: in its namespace, selected, and alike in
    matchLabelKeys. A selector that asks nothing counts nobody.
    """
    own, found = selecting.labels(pod), selecting.labels(other)
    same = [key for key in spread.get("matchLabelKeys") or [] if key in own]
    selector = spread.get("labelSelector") or {}
    asks = same or selector.get("matchLabels") or selector.get("matchExpressions")
    namespaces = {each["metadata"].get("namespace", "default") for each in (pod, other)}
    return (
        bool(asks)
        and len(namespaces) == 1
        and selecting.selects(spread.get("labelSelector"), found)
        and all(found.get(key) == own[key] for key in same)
    )
