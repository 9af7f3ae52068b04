"""At rest, each instance sees the cluster as it is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.simulation.judges import amounts, objects
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.history import Finding, Object

RULE = "the cluster is seen as it is"
RESOURCES = ("cpu", "memory", "pods")
"""cpu in thousandths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a process believes about the cluster."""

    process: str
    allocatable: Mapping[str, Mapping[str, int]]
    """By node, then by resource."""
    used: Mapping[str, Mapping[str, int]]
    """By node, then by resource."""
    weights: Mapping[str, int]
    """By Queue."""
    minima: Mapping[str, int]
    """minMember by `namespace/name`, of some PodGroups."""
    pods: Mapping[str, Sequence[str]]
    """UIDs of some pods by `namespace/name`, of these PodGroups."""
    assumed: int
    """How many binds are in flight."""
    releasing: Mapping[str, Mapping[str, int]]
    """What leaving pods use, by node, then by resource."""


def views_are_true(cluster: Cluster, views: Sequence[View], at: float) -> Iterator[Finding]:
    """Nodes with what is allocatable and used, Queues, PodGroups and their pods."""
    for view in views:
        for problem in (*_nodes(cluster, view), *_queues(cluster, view), *_groups(cluster, view)):
            yield Finding(at=at, rule=RULE, message=f"{view.process} {problem}")


def _nodes(cluster: Cluster, view: View) -> Iterator[str]:
    nodes = {each["metadata"]["name"]: each for each in cluster.all("nodes")}
    if nodes.keys() != view.used.keys():
        yield f"sees nodes {sorted(view.used)}, and there are {sorted(nodes)}"
    for name in sorted(nodes.keys() & view.used.keys()):
        allocatable = amounts.amounts(nodes[name]["status"].get("allocatable"))
        for what, right, seen in (
            ("allocatable", allocatable, view.allocatable[name]),
            ("used", cluster.used[name], view.used[name]),
            ("releasing", cluster.leaving[name], view.releasing[name]),
        ):
            wrong = [each for each in RESOURCES if right[each] != seen[each]]
            if wrong:
                resource = wrong[0]
                yield (
                    f"sees {seen[resource]} {resource} {what} on {name}, and it is "
                    f"{right[resource]}"
                )
    if view.assumed:
        yield f"waits for {view.assumed} binds"


def _queues(cluster: Cluster, view: View) -> Iterator[str]:
    weights = {each["metadata"]["name"]: _weight(each) for each in cluster.all("queues")}
    if weights != view.weights:
        yield f"sees Queues with weights {dict(view.weights)}, and they are {weights}"


def _weight(queue: Object) -> int:
    return int((queue.get("spec") or {}).get("weight") or 1)


def _groups(cluster: Cluster, view: View) -> Iterator[str]:
    for name, minimum in view.minima.items():
        namespace, _, own = name.partition("@")[0].partition("/")
        if "@" in name:  # a pod by itself
            pod = cluster.get("pods", (namespace, own))
            if pod is None or view.pods[name] not in ([], [pod["metadata"]["uid"]]):
                yield f"sees pod {name}, which isn't there"
            continue
        group = cluster.get("podgroups", (namespace, own))
        if group is None:
            yield f"sees PodGroup {name}, which isn't there"
            continue
        if minimum != objects.minimum(group):
            yield f"sees minMember {minimum} in {name}, and it is {objects.minimum(group)}"
        uids = {
            each["metadata"]["uid"] for each in cluster.members.get((namespace, own), {}).values()
        }
        if not uids.issuperset(view.pods[name]):
            yield f"sees pods of {name} that aren't there"
