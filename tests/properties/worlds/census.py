"""What the manifests of a moment say, counted anew: the ground on which judges stand."""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.properties.worlds import manifests
from tests.properties.worlds.manifests import Document

Amounts = Counter[str]
GPU = manifests.devices_of("gpu")
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
    """What the pod asks for, its slot included, and devices of claims that are made for it."""
    total: Amounts = Counter(pods=1)
    for container in pod["spec"]["containers"]:
        total.update(amounts(container["resources"]["requests"]))
    for entry in pod["spec"].get("resourceClaims", ()):
        if name := entry.get("resourceClaimTemplateName"):
            total.update(devices(name))
    if "extendedResourceClaimStatus" in pod["status"]:
        total[GPU] += total[manifests.EXTENDED]
    return total


def limited(pods: Iterable[Document]) -> Amounts:
    """What waiting pods ask for together of what queues may have: devices by either name."""
    listed = list(pods)
    found = total(listed)
    found[GPU] += sum(
        request(pod)[manifests.EXTENDED]
        for pod in listed
        if "extendedResourceClaimStatus" not in pod["status"]
    )
    return found


def of_either_name(pod: Document) -> Amounts:
    """What it asks for, where devices have one name, whichever the pod uses."""
    found = limited([pod])
    del found[manifests.EXTENDED]
    return found


def needed(pod: Document, node: Document) -> Amounts:
    """What it takes of what the node itself has: devices of claims are counted apart."""
    own = node["status"]["allocatable"]
    return Counter(
        {
            name: amount
            for name, amount in request(pod).items()
            if not (name == manifests.EXTENDED and name not in own)
            and not name.startswith(manifests.devices_of(""))
        }
    )


def devices(name: str) -> Amounts:
    """What a claim asks for whose name, or template's name, says it: `gpu-2`."""
    of_class, count = name.partition(".")[0].split("-")[:2]
    return Counter({manifests.devices_of(of_class): int(count)})


def total(pods: Iterable[Document]) -> Amounts:
    """What they ask for together: claims that they share count once."""
    found: Amounts = Counter()
    names = set()
    for pod in pods:
        found.update(request(pod))
        names |= shared(pod)
    for name in names:
        found.update(devices(name))
    return found


def claims(pod: Document) -> Iterator[str]:
    """The names of its claims of volumes."""
    for volume in pod["spec"].get("volumes", ()):
        if "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}"
        else:
            yield volume["persistentVolumeClaim"]["claimName"]


def shared(pod: Document) -> set[str]:
    """The claims of devices that it shares with others of its job."""
    entries = pod["spec"].get("resourceClaims", ())
    return {each["resourceClaimName"] for each in entries if "resourceClaimName" in each}


def only_asks_for_room(pod: Document) -> bool:
    """Whether nothing but room decides where it goes."""
    spec = pod["spec"]
    others = ("affinity", "topologySpreadConstraints", "volumes", "resourceClaims")
    named = set(request(pod)) & {manifests.EXTENDED}
    return not (named or any(spec.get(name) for name in others) or ports(pod))


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
    others: list[Document] = field(default_factory=list)
    """Volumes, devices, claims, and all that is said of them."""
    forgets: bool = False
    """Whether pods that ended well count no more once they are removed: Volcano's way."""
    removed: Mapping[str, int] = field(default_factory=dict)
    """By group, how many of its pods ended well and are removed, where somebody has seen it."""

    @property
    def placing(self) -> list[Document]:
        """All that decides where pods go."""
        return [*self.nodes.values(), *self.pods.values(), *self.others]

    def offered(self, node: str) -> Amounts:
        """What the node has, devices included."""
        found = amounts(self.nodes[node]["status"]["allocatable"])
        for document in self.others:
            if document["kind"] == "ResourceSlice" and document["spec"]["nodeName"] == node:
                of_class = document["spec"]["driver"].partition(".")[0]
                found[manifests.devices_of(of_class)] += len(document["spec"]["devices"])
        if found[GPU]:
            found.setdefault(manifests.EXTENDED, found[GPU])
        return found

    def gone(self, group: str) -> int:
        """How many of its pods ended well and are removed; by its status if nobody has seen it."""
        if self.forgets or group not in self.groups:
            return 0
        if group in self.removed:
            return self.removed[group]
        done = sum(pod["status"]["phase"] == "Succeeded" for pod in self.members[group])
        status = self.groups[group].get("status", {})
        goes_on = self.members[group] and status.get("phase") != "Completed"
        return max(0, status.get("succeeded", 0) - done) if goes_on else 0

    def standing(self, group: str) -> int:
        """How many of its pods count towards its minimum, those that are removed included."""
        return self.gone(group) + sum(map(counts, self.members[group]))

    def queue_of(self, pod: Document) -> str | None:
        """The queue of its group, if there is such a group."""
        group = self.groups.get(group_of(pod))
        return None if group is None else group["spec"]["queue"]

    def allocated(self, queue: str) -> Amounts:
        """What the queue's pods hold, those that are being deleted not counted."""
        return total(
            pod
            for pods in self.residents.values()
            for pod in pods
            if not leaving(pod) and self.queue_of(pod) == queue
        )


def take(
    documents: Iterable[Document],
    *,
    forgets: bool = False,
    removed: Mapping[str, int] | None = None,
) -> Census:
    """The census of these manifests; forgets, removed: as in the census."""
    census, every = Census(forgets=forgets, removed=dict(removed or {})), list(documents)
    for document in every:
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
            case "PriorityClass":
                pass
            case _:
                census.others.append(document)
    return census
