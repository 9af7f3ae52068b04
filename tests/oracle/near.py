"""What pods say about other pods, by chance: affinity, anti-affinity, topology spread."""

import random
from collections.abc import Sequence

from tests.oracle import manifests

Document = manifests.Document

KEYS = ("zone", "zone", manifests.HOST, "rack")
APPS = ("web", "db")


def labels(chance: random.Random) -> dict[str, str]:
    """Of a pod."""
    found = {"app": chance.choice(APPS)} if chance.random() < 0.85 else {}
    if chance.random() < 0.4:
        found["tier"] = chance.choice("12")
    if chance.random() < 0.5:
        found["rev"] = chance.choice("12")
    return found


def company(chance: random.Random, pod: Document) -> None:
    """Required pod affinity."""
    _add(chance, pod, "podAffinity")


def distance(chance: random.Random, pod: Document) -> None:
    """Required pod anti-affinity."""
    _add(chance, pod, "podAntiAffinity")


def evenness(chance: random.Random, pod: Document) -> None:
    """Topology spread, mostly strict."""
    listed = {}
    for _ in range(chance.choice((1, 1, 2))):
        each = _spread(chance)
        listed[each["topologyKey"], each["whenUnsatisfiable"]] = each
    pod["spec"]["topologySpreadConstraints"] = list(listed.values())


def _add(chance: random.Random, pod: Document, kind: str) -> None:
    affinity = pod["spec"].setdefault("affinity", {})
    terms = [_term(chance) for _ in range(chance.choice((1, 1, 2)))]
    affinity[kind] = {manifests.REQUIRED: terms}
    if chance.random() < 0.2:
        affinity[kind][manifests.PREFERRED] = [{"weight": 7, "podAffinityTerm": _term(chance)}]


def _selector(chance: random.Random) -> Document | None:
    if chance.random() < 0.06:
        return None
    if chance.random() < 0.08:
        return {}
    if chance.random() < 0.6:
        return {"matchLabels": {"app": chance.choice(APPS)}}
    operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    expression: Document = {"key": chance.choice(("app", "tier")), "operator": operator}
    if operator in {"In", "NotIn"}:
        expression["values"] = chance.sample(("web", "db", "1", "2"), 2)
    return {"matchExpressions": [expression]}


def _term(chance: random.Random) -> Document:
    term: Document = {"topologyKey": chance.choice(KEYS)}
    selector = _selector(chance)
    if selector is not None:
        term["labelSelector"] = selector
    if chance.random() < 0.2:
        term["namespaces"] = chance.sample(tuple(manifests.NAMESPACES), chance.randint(1, 2))
    if chance.random() < 0.25:
        term["namespaceSelector"] = chance.choice(
            ({}, {"matchLabels": {"team": "red"}}, {"matchLabels": {"env": "prod"}})
        )
    if selector is not None:
        keys = [each for each in ("rev",) if chance.random() < 0.2]
        if keys:
            term[chance.choice(("matchLabelKeys", "mismatchLabelKeys"))] = keys
    return term


def _spread(chance: random.Random) -> Document:
    spread: Document = {
        "maxSkew": chance.choice((1, 1, 2)),
        "topologyKey": chance.choice(KEYS),
        "whenUnsatisfiable": chance.choice(("DoNotSchedule",) * 4 + ("ScheduleAnyway",)),
    }
    selector = _selector(chance)
    if selector is not None:
        spread["labelSelector"] = selector
        if chance.random() < 0.2:
            spread["matchLabelKeys"] = ["rev"]
    if spread["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.3:
        spread["minDomains"] = chance.randint(1, 4)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if chance.random() < 0.5:
            spread[policy] = chance.choice(("Honor", "Ignore"))
    return spread


def apart_from_itself(pod: Document, key: str) -> None:
    """No two pods with this label share a place."""
    _about_itself(pod, "podAntiAffinity", key)


def with_itself(pod: Document, key: str) -> None:
    """All pods with this label share a place."""
    _about_itself(pod, "podAffinity", key)


def about(pod: Document, kind: str, key: str, values: Sequence[str]) -> None:
    """A required term about pods of these gangs."""
    expression = {"key": "gang", "operator": "In", "values": list(values)}
    term = {"topologyKey": key, "labelSelector": {"matchExpressions": [expression]}}
    affinity = pod["spec"].setdefault("affinity", {})
    affinity.setdefault(kind, {}).setdefault(manifests.REQUIRED, []).append(term)


def spread_itself(pod: Document, key: str, skew: int, **more: object) -> None:
    """Pods with this label spread over places."""
    selector = {"matchLabels": {"gang": pod["metadata"]["labels"]["gang"]}}
    constraint = {"topologyKey": key, "maxSkew": skew, "labelSelector": selector, **more}
    constraint["whenUnsatisfiable"] = "DoNotSchedule"
    pod["spec"].setdefault("topologySpreadConstraints", []).append(constraint)


def _about_itself(pod: Document, kind: str, key: str) -> None:
    about(pod, kind, key, [pod["metadata"]["labels"]["gang"]])
