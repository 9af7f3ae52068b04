"""Rules about binds: each pod once, onto nodes that take it and have room for it."""

from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.judges import amounts, devices, objects
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.court import Judge
from tests.simulation.judges.history import Change, Finding, Object, Settings, ours, served

ABSENT = float("-inf")


class BoundOnce(Judge):
    """No pod, by UID, gets a second node."""

    rule = "bound once"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._nodes: dict[str, str] = {}

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Compare the node with the one that the pod had first."""
        del cluster
        if change.resource != "pods" or not served(change) or change.after is None:
            return
        node = objects.node_of(change.after)
        uid = change.after["metadata"]["uid"]
        known = self._nodes.get(uid)
        if known is not None and (node != known or change.verb == "bind"):
            key = objects.label(objects.key_of(change.after))
            yield self.finding(change.at, f"pod {key} is on {known}, and then on {node or 'none'}")
        if node:
            self._nodes.setdefault(uid, node)


class Room(Judge):
    """The daemon's binds fit: pods on a node request no more than is allocatable there.

    What others do to the node meanwhile may be unknown to the daemon: a bind by another scheduler,
    a pod created with a node name, a node that shrinks.
    """

    rule = "no overfull node"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._disturbed: defaultdict[str, float] = defaultdict(lambda: ABSENT)

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Add up what the node has to hold with this pod."""
        if not served(change):
            return
        self._notice(change)
        if change.verb != "bind" or not ours(change) or change.after is None:
            return
        pod, name = change.after, objects.node_of(change.after)
        node = cluster.get("nodes", ("", name))
        if node is None or self.settings.unknown(self._disturbed[scheduler_node(pod)], change.at):
            return
        room = amounts.amounts((node.get("status") or {}).get("allocatable"))
        asked = cluster.request(pod)
        for resource, amount in asked.items():
            total = cluster.used[name][resource] + amount
            if amount and total > room[resource] and resource != devices.EXTENDED:
                key = objects.label(objects.key_of(pod))
                yield self.finding(
                    change.at,
                    f"{change.origin} binds {key} to {name}, which then has to hold "
                    f"{amounts.shown(resource, total)} {resource} of "
                    f"{amounts.shown(resource, room[resource])}",
                )

    def _notice(self, change: Change) -> None:
        """Remember that others changed what is free on a node."""
        if change.resource == "nodes" and not ours(change):
            for scheduler in self.settings.schedulers:
                self._disturbed[f"{scheduler} {change.name}"] = change.at
        if change.resource != "pods" or change.after is None or not objects.node_of(change.after):
            return
        if change.before is not None and objects.node_of(change.before):
            return
        mine = objects.scheduler_of(change.after) if ours(change) else ""
        for scheduler in self.settings.schedulers:
            if scheduler != mine:
                self._disturbed[f"{scheduler} {objects.node_of(change.after)}"] = change.at


def scheduler_node(pod: Object) -> str:
    """The pod's scheduler and node."""
    return f"{objects.scheduler_of(pod)} {objects.node_of(pod)}"


class Barriers(Judge):
    """The daemon binds pods to nodes that exist, are ready and uncordoned, and take such pods."""

    rule = "no bind to a closed node"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._changed: defaultdict[str, float] = defaultdict(lambda: ABSENT)

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at the node of a bind."""
        if not served(change):
            return
        if change.resource == "nodes":
            self._changed[change.name] = change.at
        if change.verb != "bind" or not ours(change) or change.after is None:
            return
        pod, name = change.after, objects.node_of(change.after)
        if self.settings.unknown(self._changed[name], change.at):
            return
        node = cluster.get("nodes", ("", name))
        found = ["doesn't exist"] if node is None else objects.barriers(pod["spec"], node)
        for problem in found:
            key = objects.label(objects.key_of(pod))
            yield self.finding(change.at, f"{change.origin} binds {key} to {name}, which {problem}")


class Known(Judge):
    """The daemon binds pods in a PodGroup, or that may start alone, and evicts pods with a node.

    A pod that took the name of another has neither: each write must name the pod that it is for.
    """

    rule = "only known pods are touched"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._dropped: defaultdict[tuple[str, str], float] = defaultdict(lambda: ABSENT)
        """When a PodGroup was last deleted, or lost a pod."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at the pod of a bind or an eviction."""
        if not served(change):
            return
        if change.resource == "podgroups" and change.after is None:
            self._dropped[change.namespace, change.name] = change.at
        if change.resource != "pods" or not ours(change) or change.before is None:
            return
        key = objects.label(objects.key_of(change.before))
        if change.verb == "evict" and not objects.node_of(change.before):
            yield self.finding(change.at, f"{change.origin} evicts {key}, which has no node")
        if change.verb != "bind":
            return
        group = objects.group_of(change.before)
        if group is None:
            if not self.settings.alone:
                yield self.finding(change.at, f"{change.origin} binds {key}, which has no PodGroup")
        elif cluster.get("podgroups", group) is None and not self.settings.unknown(
            self._dropped[group], change.at
        ):
            yield self.finding(
                change.at,
                f"{change.origin} binds {key}, whose PodGroup {objects.label(group)} doesn't exist",
            )
