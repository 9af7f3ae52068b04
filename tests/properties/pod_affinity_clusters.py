"""Random clusters of pods that care about each other, as manifests."""

import random
from typing import Any

from vscheduler.testing import pictures

Document = pictures.Document
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
KEYS = ("zone", "zone", HOST, "rack")
APPS = ("web", "db")
NAMESPACES = ("default", "lab", "shop")


def documents(chance: random.Random) -> list[Document]:
    """Nodes with and without labels, pods of ours and of others, running, leaving and waiting."""
    nodes = [_node(chance, number) for number in range(chance.randint(1, 6))]
    found = [*nodes, *(namespace(chance, name) for name in NAMESPACES), _queue()]
    for number in range(chance.randint(1, 5)):
        home = chance.choice(("default", "default", "lab"))
        found.append(_group(home, f"g{number}"))
        look = shape(chance)
        for index in range(chance.randint(1, 4)):
            if chance.random() < 0.3:
                look = shape(chance)
            found.append(_pod(chance, (home, f"g{number}"), index, look, nodes))
    for index in range(chance.randint(0, 3)):
        home = chance.choice(NAMESPACES)
        found.append(_pod(chance, (home, ""), index, shape(chance), nodes))
    return found


def _node(chance: random.Random, number: int) -> Document:
    name = f"n{number}"
    labels = {"name": name}
    if chance.random() < 0.85:
        labels["zone"] = chance.choice("abc")
    if chance.random() < 0.9:
        labels[HOST] = name
    if chance.random() < 0.4:
        labels["rack"] = chance.choice("xy")
    taints = [{"key": "lab", "value": "", "effect": "NoSchedule"}] * (chance.random() < 0.2)
    amounts = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": amounts},
    }


def namespace(chance: random.Random, name: str) -> Document:
    """One that has a label, or not."""
    labels = {"kubernetes.io/metadata.name": name}
    labels |= {"team": chance.choice(("red", "blue"))} if chance.random() < 0.7 else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _queue() -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"weight": 1},
        "status": {"state": "Open"},
    }


def _group(namespace: str, name: str) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queue": "q", "minMember": 1},
        "status": {"phase": "Inqueue"},
    }


def shape(chance: random.Random) -> dict[str, Any]:
    """Labels and conditions of a pod."""
    labels = {"app": chance.choice(APPS)} if chance.random() < 0.85 else {}
    labels |= {"tier": chance.choice("12")} if chance.random() < 0.3 else {}
    spec: dict[str, Any] = {}
    affinity: dict[str, Any] = {}
    for kind, part in (("podAffinity", 0.3), ("podAntiAffinity", 0.25)):
        if chance.random() < part:
            listed = [_term(chance) for _ in range(chance.choice((1, 1, 2)))]
            affinity.setdefault(kind, {})[REQUIRED] = listed
        if chance.random() < part:
            listed = [
                {"weight": chance.randint(1, 100), "podAffinityTerm": _term(chance)}
                for _ in range(chance.choice((1, 2)))
            ]
            affinity.setdefault(kind, {})[PREFERRED] = listed
    if affinity:
        spec["affinity"] = affinity
    if chance.random() < 0.35:
        count = chance.choice((1, 1, 2))
        spec["topologySpreadConstraints"] = [_spread(chance) for _ in range(count)]
    if chance.random() < 0.2:
        spec["nodeSelector"] = {"zone": chance.choice("ab")}
    if chance.random() < 0.3:
        spec["tolerations"] = [{"key": "lab", "operator": "Exists"}]
    return {"labels": labels, "spec": spec}


def _selector(chance: random.Random) -> Document | None:
    if chance.random() < 0.08:
        return None
    if chance.random() < 0.12:
        return {}
    if chance.random() < 0.6:
        return {"matchLabels": {"app": chance.choice(APPS)}}
    operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    expression: Document = {"key": chance.choice(("app", "tier")), "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = chance.sample(("web", "db", "1", "2"), 2)
    return {"matchExpressions": [expression]}


def _term(chance: random.Random) -> Document:
    term: Document = {"topologyKey": chance.choice(KEYS)}
    if (selector := _selector(chance)) is not None:
        term["labelSelector"] = selector
    if chance.random() < 0.2:
        term["namespaces"] = chance.sample(NAMESPACES, chance.randint(1, 2))
    if chance.random() < 0.2:
        term["namespaceSelector"] = chance.choice(({}, {"matchLabels": {"team": "red"}}))
    if chance.random() < 0.1 and selector is not None:
        term["matchLabelKeys"] = ["tier"]
    return term


def _spread(chance: random.Random) -> Document:
    spread: Document = {
        "maxSkew": chance.randint(1, 2),
        "topologyKey": chance.choice(KEYS),
        "whenUnsatisfiable": chance.choice(("DoNotSchedule", "ScheduleAnyway")),
    }
    if (selector := _selector(chance)) is not None:
        spread["labelSelector"] = selector
    if spread["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.3:
        spread["minDomains"] = chance.randint(1, 4)
    if chance.random() < 0.3:
        spread["nodeAffinityPolicy"] = "Ignore"
    if chance.random() < 0.3:
        spread["nodeTaintsPolicy"] = "Honor"
    return spread


def _pod(
    chance: random.Random,
    group: tuple[str, str],
    index: int,
    look: dict[str, Any],
    nodes: list[Document],
) -> Document:
    """A pod of the group, or, without one, of another scheduler on a node."""
    home, name = group
    metadata: Document = {
        "name": f"{name or 'other'}-{index}",
        "namespace": home,
        "labels": look["labels"],
    }
    spec = {**look["spec"], "containers": [{"name": "main"}]}
    if name:
        metadata["annotations"] = {"scheduling.k8s.io/group-name": name}
        spec["schedulerName"] = pictures.SCHEDULER
        spec["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    if not name or chance.random() < 0.45:
        spec["nodeName"] = chance.choice(nodes)["metadata"]["name"]
        if chance.random() < 0.25:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    phase = "Running" if "nodeName" in spec else "Pending"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase},
    }
