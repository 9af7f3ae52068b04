"""What must hold of a cycle's decisions, seen from outside: manifests in, decisions out.

It shares no code with the session: pods are counted anew from their manifests.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vscheduler.mirror.decode import quantities
from vscheduler.model.decisions import Bind, CycleResult, Pipeline

GROUP = "scheduling.k8s.io/group-name"
Document = Mapping[str, Any]


@dataclass(slots=True)
class Census:
    """What the manifests say, counted without the mirror."""

    nodes: dict[str, Counter[str]] = field(default_factory=dict)
    """Allocatable by node."""
    used: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """What pods hold, by node; those being deleted included."""
    releasing: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """The part of `used` that is being deleted."""
    groups: dict[str, Document] = field(default_factory=dict)
    members: Counter[str] = field(default_factory=Counter)
    """Pods that count towards minMember, by group."""
    allocated: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By queue."""
    queues: dict[str, Document] = field(default_factory=dict)
    pods: dict[str, Document] = field(default_factory=dict)
    budgets: list[Document] = field(default_factory=list)


def amounts(named: Mapping[str, Any]) -> Counter[str]:
    """Quantities as numbers: cpu in milli, the rest in whole units."""
    return Counter({name: quantities.parse(name, text) for name, text in named.items()})


def request(pod: Document) -> Counter[str]:
    """What a pod with plain containers asks for, its slot included."""
    total = Counter({"pods": 1})
    for container in pod["spec"]["containers"]:
        total.update(amounts(container.get("resources", {}).get("requests", {})))
    return total


def key_of(document: Document) -> str:
    """`namespace/name`."""
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


def group_of(pod: Document) -> str:
    """The pod's PodGroup as `namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['annotations'][GROUP]}"


def count(documents: Iterable[Document]) -> Census:
    """The census of these manifests."""
    census = Census()
    for document in documents:
        match document["kind"]:
            case "Node":
                name = document["metadata"]["name"]
                census.nodes[name] = amounts(document["status"]["allocatable"])
            case "Queue":
                census.queues[document["metadata"]["name"]] = document
            case "PodGroup":
                census.groups[key_of(document)] = document
            case "PodDisruptionBudget":
                census.budgets.append(document)
            case "Pod":
                census.pods[key_of(document)] = document
    for pod in census.pods.values():
        node = pod["spec"].get("nodeName")
        if not node:
            continue
        census.used[node].update(request(pod))
        if "deletionTimestamp" in pod["metadata"]:
            census.releasing[node].update(request(pod))
        else:
            census.members[group_of(pod)] += 1
            queue = census.groups[group_of(pod)]["spec"]["queue"]
            census.allocated[queue].update(request(pod))
    return census


def problems(
    documents: Iterable[Document],
    result: CycleResult,
    *,
    gangs: bool = True,
    lending: bool = True,
) -> list[str]:
    """Every rule that the decisions break, in words.

    gangs: whether plugin gang is configured; lending: whether queues may have more than
    they deserve, as without `compatibility: volcano`.
    """
    census = count(documents)
    found = list(_wrong_pods(census, result))
    found += _full_nodes(census, result)
    found += _split_gangs(census, result) if gangs else []
    found += _queues_over_limit(census, result, lending=lending)
    found += _wrong_victims(census, result)
    found += _torn_gangs(census, result) if gangs else []
    found += _broken_budgets(census, result)
    return found


def _placed(result: CycleResult) -> list[Bind | Pipeline]:
    return [*result.binds, *result.pipelined]


def _wrong_pods(census: Census, result: CycleResult) -> Iterable[str]:
    decided = _placed(result)
    for name, times in Counter(each.task.key for each in decided).items():
        if times > 1:
            yield f"{name} is decided on {times} times"
    for each in decided:
        pod = census.pods[each.task.key]
        if each.node not in census.nodes:
            yield f"{each.task.key} goes to {each.node}, which doesn't exist"
        if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates"):
            yield f"{each.task.key} isn't waiting for a node"


def _full_nodes(census: Census, result: CycleResult) -> Iterable[str]:
    freed = {name: Counter(amounts) for name, amounts in census.releasing.items()}
    for evict in result.evicts:
        freed.setdefault(evict.node, Counter()).update(request(census.pods[evict.task.key]))
    for kept in (False, True):
        used = {name: Counter(census.used[name]) for name in census.nodes}
        wanted: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for each in _placed(result) if kept else result.binds:
            wanted[each.node].update(request(census.pods[each.task.key]))
        for name, asked in wanted.items():
            gone = freed.get(name, Counter()) if kept else Counter[str]()
            for resource, amount in asked.items():
                room = census.nodes[name][resource] - used[name][resource] + gone[resource]
                if amount > max(room, 0):
                    when = "once pods are gone" if kept else "now"
                    yield f"{name} has {room} {resource} {when}, and is given {amount}"


def _split_gangs(census: Census, result: CycleResult) -> Iterable[str]:
    for group, bound in Counter[str](bind.task.job for bind in result.binds).items():
        minimum = census.groups[group]["spec"]["minMember"]
        if census.members[group] + bound < minimum:
            yield f"{group} has {census.members[group]} and is given {bound}, of {minimum}"


def _queues_over_limit(census: Census, result: CycleResult, *, lending: bool) -> Iterable[str]:
    """Queues that get something stay within capability and deserved, or what they can ever have.

    Pod slots are limited only where capability names them (Volcano: AllocatableFn).
    """
    figures = {queue.name: queue for queue in result.queues}
    given: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for bind in result.binds:
        queue = census.groups[bind.task.job]["spec"]["queue"]
        given[queue].update(request(census.pods[bind.task.key]))
    for name, amount in given.items():
        if name not in census.queues:
            yield f"queue {name} doesn't exist"
            continue
        entitlement = figures[name].entitlement
        if entitlement is None:
            continue
        if census.queues[name].get("status", {}).get("state") != "Open":
            yield f"queue {name} is closed"
        capability = amounts(census.queues[name]["spec"].get("capability", {}))
        for resource in +amount:
            total = census.allocated[name][resource] + amount[resource]
            if resource in capability and total > capability[resource]:
                yield f"queue {name} has {total} {resource}, can have {capability[resource]}"
            most = entitlement.real_capability if lending else entitlement.deserved
            limit = (most or {}).get(resource, 0.0)
            if resource != "pods" and total > limit * (1 + 1e-9):
                yield f"queue {name} has {total} {resource}, of {limit} at most"


def _wrong_victims(census: Census, result: CycleResult) -> Iterable[str]:
    """Who may go: pods that run, stay so far, and don't say no."""
    for name, times in Counter(evict.task.key for evict in result.evicts).items():
        if times > 1:
            yield f"{name} is evicted {times} times"
    for evict in result.evicts:
        pod = census.pods[evict.task.key]
        if pod["spec"].get("nodeName") != evict.node:
            yield f"{evict.task.key} isn't on {evict.node}"
        if "deletionTimestamp" in pod["metadata"]:
            yield f"{evict.task.key} is being deleted already"
        if pod["metadata"]["annotations"].get("volcano.sh/preemptable") == "false":
            yield f"{evict.task.key} isn't preemptable"
        if evict.beneficiary == group_of(pod) and evict.action != "preempt":
            yield f"{evict.task.key} is evicted for its own job by {evict.action}"


def _torn_gangs(census: Census, result: CycleResult) -> Iterable[str]:
    """A gang loses what it has above its minimum, or all of its pods."""
    for group, lost in Counter(
        group_of(census.pods[evict.task.key]) for evict in result.evicts
    ).items():
        had, minimum = census.members[group], census.groups[group]["spec"]["minMember"]
        if had >= minimum and 0 < had - lost < minimum:
            yield f"{group} has {had} pods, of which {lost} are evicted, and needs {minimum}"


def _broken_budgets(census: Census, result: CycleResult) -> Iterable[str]:
    """Budgets of plain labels, as pictures have them."""
    for budget in census.budgets:
        wanted = budget["spec"]["selector"]["matchLabels"].items()
        evicted = [
            evict.task.key
            for evict in result.evicts
            if wanted <= census.pods[evict.task.key]["metadata"].get("labels", {}).items()
        ]
        allowed = budget["status"]["disruptionsAllowed"]
        if len(evicted) > allowed:
            yield f"budget {budget['metadata']['name']} allows {allowed} of {sorted(evicted)}"
