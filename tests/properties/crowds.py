"""Random clusters in which gangs care about everything at once, as manifests.

Few slots, mixed sizes, ports, sidecars, selectors, taints, and above all conditions on other pods,
of the gang itself and between gangs, so that each placement changes what the next one may do.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from vscheduler.testing import pictures

Document = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
GROUP = "scheduling.k8s.io/group-name"
GPU = "example.com/gpu"
PRIORITIES = (0, 0, 10)
APPS = ("web", "db", "ml")
HOMES = ("default", "default", "default", "lab")


@dataclass(slots=True)
class Crowd:
    """What has been drawn so far."""

    chance: random.Random
    nodes: list[Document]
    documents: list[Document]
    full: Counter[str] = field(default_factory=Counter)
    """Pods that run on each node already."""


def documents(seed: int) -> list[Document]:
    """A cluster with a few gangs; half of the clusters are empty but for them, and many are too
    small.
    """
    chance = random.Random(seed)
    count = chance.randint(2, chance.choice((6, 12, 24)))
    nodes = [_node(chance, number) for number in range(count)]
    crowd = Crowd(chance, nodes, [*nodes, *_frame(chance)])
    busy = chance.choice((0.0, 0.0, 0.3, 0.6))
    for number in range(chance.randint(1, 8)):
        _gang(crowd, f"g{number}", busy)
    for number in range(chance.choice((0, 0, 2, 6))):
        _stranger(crowd, f"other-{number}")
    return crowd.documents


def alike(seed: int) -> list[Document]:
    """Many equal, empty nodes and one gang of equal pods that says one thing about itself."""
    chance = random.Random(seed)
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    count = chance.choice((20, 40, 100))
    nodes = [_node(chance, number, amounts) for number in range(count)]
    crowd = Crowd(chance, nodes, [*nodes, *_frame(chance)])
    labels = {"app": "g"}
    kind = chance.choice(("apart", "near", "spread", "ports", "zones"))
    spec: Document = {"containers": [_container("500m", "500Mi")]}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
    if kind in ("apart", "zones"):
        term["topologyKey"] = HOST if kind == "apart" else "zone"
        spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
    elif kind == "near":
        spec["affinity"] = {"podAffinity": {REQUIRED: [term]}}
    elif kind == "spread":
        hard = {"maxSkew": chance.randint(1, 2), "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [term | hard]
    else:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    size = chance.randint(2, min(30, count))
    least = size if kind == "apart" else 1
    crowd.documents.append(_group("default", "g", least))
    crowd.documents += [_pod("default", "g", index, labels, spec) for index in range(size)]
    return crowd.documents


def _node(chance: random.Random, number: int, amounts: Document | None = None) -> Document:
    name = f"n{number:02}"
    labels = {HOST: name, "zone": chance.choice("abc")}
    spec: Document = {}
    conditions = []
    if amounts is None:
        labels |= {"disk": chance.choice(("ssd", "hdd"))}
        labels.pop("zone") if chance.random() < 0.08 else None
        if chance.random() < 0.2:
            effect = chance.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
            spec["taints"] = [{"key": "lab", "value": chance.choice("12"), "effect": effect}]
        if chance.random() < 0.05:
            spec["unschedulable"] = True
        ready = chance.choice(("True", "True", "True", "False"))
        conditions = [{"type": "Ready", "status": ready}] if chance.random() < 0.2 else []
        amounts = {
            "cpu": chance.choice(("4", "8", "16", "7500m")),
            "memory": chance.choice(("8Gi", "16Gi", "16e9")),
            "pods": chance.choice(("2", "4", "110", "110")),
        }
        amounts |= {GPU: "4"} if chance.random() < 0.3 else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": amounts, "conditions": conditions},
    }


def _frame(chance: random.Random) -> list[Document]:
    """Queue, namespaces and priorities."""
    queue: Document = {"name": "q"}
    spaces = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": chance.choice(("red", "blue"))}},
        }
        for name in ("default", "lab")
    ]
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"priority-{value}"},
            "value": value,
        }
        for value in sorted(set(PRIORITIES))
    ]
    return [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": queue,
            "spec": {"weight": 1},
            "status": {"state": "Open"},
        },
        *spaces,
        *classes,
    ]


def _group(home: str, name: str, least: int, priority: int = 0) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": home},
        "spec": {"queue": "q", "minMember": least, "priorityClassName": f"priority-{priority}"},
        "status": {"phase": "Inqueue"},
    }


def _gang(crowd: Crowd, name: str, busy: float) -> None:
    """Those with a high priority all wait."""
    chance = crowd.chance
    home, priority = chance.choice(HOMES), chance.choice(PRIORITIES)
    busy = 0 if priority else busy
    size = chance.choice((1, 1, chance.randint(2, 6), chance.randint(2, 30)))
    crowd.documents.append(_group(home, name, chance.choice((1, size, size)), priority))
    looks = [_look(chance, name) for _ in range(chance.choice((1, 1, 1, 2)))]
    for index in range(size):
        labels, spec = chance.choice(looks)
        found = _pod(home, name, index, labels, {**spec, "priority": priority})
        if chance.random() < busy:
            _seat(crowd, found)
        crowd.documents.append(found)


def _stranger(crowd: Crowd, name: str) -> None:
    """A pod of another scheduler, on a node."""
    labels, spec = _look(crowd.chance, name)
    found = _pod(crowd.chance.choice(HOMES), name, 0, labels, spec)
    found["spec"]["schedulerName"] = "default-scheduler"
    found["metadata"].pop("annotations")
    if _seat(crowd, found):
        crowd.documents.append(found)


def _seat(crowd: Crowd, pod: Document) -> bool:
    """It runs somewhere, or is being deleted there; at most four on a node."""
    free = [node["metadata"]["name"] for node in crowd.nodes]
    free = [name for name in free if crowd.full[name] < 4]
    if not free:
        return False
    pod["spec"]["nodeName"] = crowd.chance.choice(free)
    crowd.full[pod["spec"]["nodeName"]] += 1
    pod["status"] = {"phase": "Running"}
    if crowd.chance.random() < 0.35:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return True


def _pod(home: str, group: str, index: int, labels: Document, spec: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{group}-{index}",
            "namespace": home,
            "labels": dict(labels),
            "annotations": {GROUP: group},
        },
        "spec": {**spec, "schedulerName": pictures.SCHEDULER},
        "status": {"phase": "Pending"},
    }


def _container(cpu: str, memory: str, name: str = "main") -> Document:
    return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}}


def _look(chance: random.Random, name: str) -> tuple[dict[str, str], Document]:
    """Labels and spec of a role."""
    labels = {"app": chance.choice((name, name, *APPS)), "rev": chance.choice("12")}
    spec = _size(chance)
    affinity = _affinity(chance, labels)
    if affinity:
        spec["affinity"] = affinity
    if chance.random() < 0.35:
        count = chance.choice((1, 1, 2))
        spec["topologySpreadConstraints"] = [_spread(chance, labels) for _ in range(count)]
    if chance.random() < 0.15:
        spec["nodeSelector"] = {"disk": chance.choice(("ssd", "hdd"))}
    if chance.random() < 0.3:
        effect = chance.choice(({}, {"effect": "NoSchedule"}))
        how = chance.choice(({"operator": "Exists"}, {"value": "1"}))
        spec["tolerations"] = [{"key": "lab", **how, **effect}]
    if chance.random() < 0.25:
        port: Document = {"containerPort": 80, "hostPort": chance.choice((80, 81))}
        more: list[Document] = [{}, {}, {"protocol": "UDP"}, {"hostIP": "10.0.0.1"}]
        spec["containers"][0]["ports"] = [port | chance.choice(more)]
    return labels, spec


def _size(chance: random.Random) -> Document:
    """What it asks for, in one of the ways in which that can be said."""
    cpu, memory = chance.choice(("250m", "500m", "1", "2")), chance.choice(("256Mi", "1Gi", "2e9"))
    spec: Document = {"containers": [_container(cpu, memory)]}
    if chance.random() < 0.1:
        spec["containers"][0]["resources"]["requests"][GPU] = "1"
    if chance.random() < 0.15:
        inits = [_container("2", memory, "init"), _container("100m", "1Mi", "side")]
        inits[1]["restartPolicy"] = "Always"
        spec["initContainers"] = chance.sample(inits, chance.choice((1, 2)))
    if chance.random() < 0.1:
        spec["overhead"] = {"cpu": "50m"}
    if chance.random() < 0.1:
        spec["resources"] = {"requests": {"cpu": "1500m"}}
    if chance.random() < 0.05:
        spec["containers"] = [{"name": "main"}]
    return spec


def _affinity(chance: random.Random, labels: dict[str, str]) -> Document:
    found: Document = {}
    for kind, part in (("podAntiAffinity", 0.4), ("podAffinity", 0.25)):
        if chance.random() < part:
            terms = [_term(chance, labels) for _ in range(chance.choice((1, 1, 1, 2)))]
            found.setdefault(kind, {})[REQUIRED] = terms
        if chance.random() < 0.1:
            weighted = {"weight": 50, "podAffinityTerm": _term(chance, labels)}
            found.setdefault(kind, {})[PREFERRED] = [weighted]
    if chance.random() < 0.1:
        operator, values = chance.choice((("In", ["a", "b"]), ("NotIn", ["c"]), ("Exists", [])))
        expression = {"key": "zone", "operator": operator, "values": values}
        terms = [{"matchExpressions": [expression]}]
        found["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    return found


def _selector(chance: random.Random, labels: dict[str, str]) -> Document:
    """Mostly about the pod itself and its like; else about others."""
    if chance.random() < 0.65:
        return {"matchLabels": {"app": labels["app"]}}
    if chance.random() < 0.6:
        return {"matchLabels": {"app": chance.choice(APPS)}}
    operator = chance.choice(("In", "NotIn", "Exists"))
    values = [] if operator == "Exists" else [labels["app"], chance.choice(APPS)]
    return {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}


def _term(chance: random.Random, labels: dict[str, str]) -> Document:
    key = chance.choice((HOST, HOST, "zone"))
    term: Document = {"labelSelector": _selector(chance, labels), "topologyKey": key}
    if chance.random() < 0.15:
        term["namespaceSelector"] = chance.choice(({}, {"matchLabels": {"team": "red"}}))
    elif chance.random() < 0.1:
        term["namespaces"] = ["default", "lab"]
    if chance.random() < 0.1:
        term[chance.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["rev"]
    return term


def _spread(chance: random.Random, labels: dict[str, str]) -> Document:
    spread: Document = {
        "maxSkew": chance.choice((1, 1, 2)),
        "topologyKey": chance.choice((HOST, "zone", "zone")),
        "whenUnsatisfiable": chance.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": _selector(chance, labels),
    }
    if spread["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.35:
        spread["minDomains"] = chance.randint(2, 5)
    for name, value in (("nodeAffinityPolicy", "Ignore"), ("nodeTaintsPolicy", "Honor")):
        spread |= {name: value} if chance.random() < 0.4 else {}
    if chance.random() < 0.1:
        spread["matchLabelKeys"] = ["rev"]
    return spread
