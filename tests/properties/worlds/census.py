"""What the manifests of a moment say, counted anew: the ground on which judges stand."""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.properties.worlds import manifests
from tests.properties.worlds.manifests import Document

Amounts = Counter[str]
SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9}


@functools.cache
def quantity(resource: str, text: str) -> int:
    """The quantities that worlds have: whole numbers, `m` and binary ones; cpu in milli."""
    if text.endswith("m"):
        return int(text[:-1])
    for suffix, factor in SUFFIXES.items():
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * factor
    return int(text) * (1000 if resource == "cpu" else 1)


def amounts(listed: Mapping[str, str]) -> Amounts:
    """Quantities as numbers."""
    return Counter({name: quantity(name, text) for name, text in listed.items()})


def request(pod: Document) -> Amounts:
    """What the pod asks for, its slot included."""
    total: Amounts = Counter(pods=1)
    for container in pod["spec"]["containers"]:
        total.update(amounts(container["resources"]["requests"]))
    return total


def ports(pod: Document) -> set[int]:
    """Its host ports: all are TCP, on every address."""
    return {each["hostPort"] for each in pod["spec"]["containers"][0]["ports"]}


def pod_key(pod: Document) -> str:
    """`namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def group_of(pod: Document) -> str:
    """The key of its PodGroup."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['annotations'][manifests.GROUP]}"


def finished(pod: Document) -> bool:
    """Whether it has ended, well or not."""
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def leaving(pod: Document) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def has_node(pod: Document) -> bool:
    """Whether it holds room, or did before it ended."""
    return bool(pod["spec"].get("nodeName"))


def counts(pod: Document) -> bool:
    """Whether it counts towards its group's minimum: it has a node and stays, or is done."""
    if finished(pod):
        return bool(pod["status"]["phase"] == "Succeeded")
    return has_node(pod) and not leaving(pod)


def waits(pod: Document) -> bool:
    """Whether it needs a node and may have one."""
    return not (
        has_node(pod) or leaving(pod) or finished(pod) or pod["spec"].get("schedulingGates")
    )


def covers(budget: Document, pod: Document) -> bool:
    """Whether the PodDisruptionBudget is about the pod."""
    wanted = budget["spec"]["selector"]["matchLabels"].items()
    same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and bool(wanted <= pod["metadata"]["labels"].items())


@dataclass(slots=True)
class Census:
    """The objects of a moment by kind and name, and who is where."""

    nodes: dict[str, Document] = field(default_factory=dict)
    queues: dict[str, Document] = field(default_factory=dict)
    groups: dict[str, Document] = field(default_factory=dict)
    budgets: list[Document] = field(default_factory=list)
    pods: dict[str, Document] = field(default_factory=dict)
    residents: defaultdict[str, list[Document]] = field(default_factory=lambda: defaultdict(list))
    """Pods that hold room, by node; those being deleted included."""
    members: defaultdict[str, list[Document]] = field(default_factory=lambda: defaultdict(list))
    """Pods by group, whatever their state."""

    def queue_of(self, pod: Document) -> str | None:
        """The queue of its group, if there is such a group."""
        group = self.groups.get(group_of(pod))
        return None if group is None else group["spec"]["queue"]

    def allocated(self, queue: str) -> Amounts:
        """What the queue's pods hold, those that are being deleted not counted."""
        total: Amounts = Counter()
        for pods in self.residents.values():
            for pod in pods:
                if not leaving(pod) and self.queue_of(pod) == queue:
                    total.update(request(pod))
        return total


def take(documents: Iterable[Document]) -> Census:
    """The census of these manifests."""
    census = Census()
    for document in documents:
        name = document["metadata"]["name"]
        match document["kind"]:
            case "Node":
                census.nodes[name] = document
            case "Queue":
                census.queues[name] = document
            case "PodGroup":
                census.groups[pod_key(document)] = document
            case "PodDisruptionBudget":
                census.budgets.append(document)
            case "Pod":
                census.pods[pod_key(document)] = document
                census.members[group_of(document)].append(document)
                if has_node(document) and not finished(document):
                    census.residents[document["spec"]["nodeName"]].append(document)
    return census
