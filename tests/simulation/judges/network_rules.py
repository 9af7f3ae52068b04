"""The rule about the network: a gang that has to be in one rack isn't bound across two."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.simulation.judges import objects
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.court import Judge
from tests.simulation.judges.history import Change, Finding, Object, Settings, ours, served

DECISION_SECONDS = 10.0
"""Binds of a gang in so short a time may be of one decision."""
KEPT_SECONDS = 600.0

Racks = Mapping[str, str]
"""The rack of each node that is in one only."""


class Near(Judge):
    """The pods of a hard gang that were bound by one decision are in one rack, as racks were then.

    Nodes that have been away meanwhile, and pods that end, don't count.
    """

    rule = "no hard gang across racks"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._members: dict[str, frozenset[str]] = {}
        self._versions: list[tuple[float, Racks]] = []
        """What the racks were, and until when; the last one is how they are."""
        self._bound: defaultdict[Key, dict[str, float]] = defaultdict(dict)
        """When pods of a gang, by UID, were bound."""
        self._away: dict[str, float] = {}
        """When a node was deleted."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Follow the racks and the nodes."""
        del cluster
        if served(change) and change.resource == "hypernodes" and not change.subresource:
            self._follow(change)
        elif served(change) and change.resource == "nodes" and change.after is None:
            self._away[change.name] = change.at
        yield from ()

    def after(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at each bind of a hard gang."""
        if not (change.verb == "bind" and served(change) and ours(change) and change.after):
            return
        key = objects.group_of(change.after)
        group = None if key is None else cluster.get("podgroups", key)
        if key is None or group is None or not _is_hard(group):
            return
        since = change.at - DECISION_SECONDS
        bound = self._bound[key]
        bound[change.uid] = change.at
        self._bound[key] = bound = {uid: at for uid, at in bound.items() if at >= since}
        nodes = {
            objects.node_of(pod)
            for pod in cluster.members[key].values()
            if pod["metadata"]["uid"] in bound and objects.counts(pod) and not objects.ended(pod)
        }
        nodes = {node for node in nodes if not self._may_be_away(node, change.at, cluster)}
        first = min(bound.values())
        versions = [racks for until, racks in self._versions if self.settings.unknown(until, first)]
        if len(nodes) > 1 and not any(_joins(racks, nodes) for racks in (*versions, self._now())):
            where = ", ".join(sorted(nodes))
            message = f"PodGroup {objects.label(key)} is bound to {where}, which are in no one rack"
            yield self.finding(change.at, message)

    def _follow(self, change: Change) -> None:
        self._versions = [each for each in self._versions if each[0] > change.at - KEPT_SECONDS]
        self._versions.append((change.at, self._now()))
        if change.after is None:
            self._members.pop(change.name, None)
        else:
            members = change.after["spec"]["members"]
            names = (each["selector"]["exactMatch"]["name"] for each in members)
            self._members[change.name] = frozenset(names)

    def _now(self) -> Racks:
        found: dict[str, str] = {}
        twice: set[str] = set()
        for rack, members in self._members.items():
            twice |= members & found.keys()
            found |= dict.fromkeys(members, rack)
        return {node: rack for node, rack in found.items() if node not in twice}

    def _may_be_away(self, node: str, at: float, cluster: Cluster) -> bool:
        if cluster.get("nodes", ("", node)) is None:
            return True
        return self._away.get(node, float("-inf")) > at - 2 * DECISION_SECONDS


def _is_hard(group: Object) -> bool:
    topology = group["spec"].get("networkTopology") or {}
    return topology.get("mode") == "hard"


def _joins(racks: Racks, nodes: set[str]) -> bool:
    found = {racks.get(node, "") for node in nodes}
    return len(found) == 1 and "" not in found
