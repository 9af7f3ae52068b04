"""Where a pod with volumes can start, as further amounts that pods ask for and nodes have.

Careful: what can't be told easily isn't judged. A claim that isn't bound must be the pod's own; a
volume that is free must be reached from one node only, and suit every claim of its class.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.simulation.judges import objects, volumes
from tests.simulation.judges.amounts import Amounts
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.history import Object
from tests.simulation.judges.volume_rules import on_node

UNLIMITED = 10**9


@dataclass(slots=True)
class Needs:
    """What a pod asks for besides its requests, and which nodes its volumes allow."""

    asked: Amounts = field(default_factory=Counter)
    nodes: set[str] = field(default_factory=set)


def uses_volumes(pod: Object) -> bool:
    """Whether a pod has claims."""
    return bool(volumes.claims_of(pod))


def is_settled(pods: Iterable[Object], cluster: Cluster) -> bool:
    """Whether all claims of these pods are bound, so that nobody has to act before they start."""
    claims = [
        cluster.get("persistentvolumeclaims", key) for pod in pods for key in volumes.claims_of(pod)
    ]
    return all(claim is not None and volumes.is_bound(claim) for claim in claims)


class Storage:
    """What pods need of volumes, and what nodes have of them, in a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._nodes = {each["metadata"]["name"]: each for each in cluster.all("nodes")}

    @functools.cached_property
    def _users(self) -> Counter[Key]:
        """How many pods use a claim."""
        return Counter(
            key
            for pod in self.cluster.all("pods")
            if not objects.ended(pod)
            for key in volumes.claims_of(pod)
        )

    def needs(self, pods: Sequence[Object]) -> list[Needs] | None:
        """For each of these pods; None if that can't be told, or one of them can't start."""
        found = []
        for pod in pods:
            needs = Needs(nodes=set(self._nodes))
            for key in volumes.claims_of(pod):
                if self._users[key] > 1 or not self._add(needs, pod, key):
                    return None
            found.append(needs)
        return found

    def _add(self, needs: Needs, pod: Object, key: Key) -> bool:
        """Take in what one claim means; whether that can be told."""
        claim = self.cluster.get("persistentvolumeclaims", key)
        if claim is None or objects.leaving(claim):
            return False
        if key in volumes.made_for(pod):
            owners = claim["metadata"].get("ownerReferences") or ()
            if all(owner["uid"] != pod["metadata"]["uid"] for owner in owners):
                return False
        if not volumes.is_bound(claim):
            return self._add_unbound(needs, claim)
        name = claim["spec"]["volumeName"]
        volume = self.cluster.get("persistentvolumes", ("", name))
        if volume is None:
            return False
        needs.nodes &= {node for node in self._nodes if volumes.reaches(volume, self._nodes[node])}
        source = volumes.attached(volume)
        if source is not None:
            needs.asked[f"attached {source.driver}"] += 1
        return True

    def _add_unbound(self, needs: Needs, claim: Object) -> bool:
        odd = claim["spec"].get("volumeName") or claim["spec"].get("selector")
        if odd or objects.phase(claim) != "Pending":
            return False
        found = self.cluster.get("storageclasses", ("", volumes.class_of(claim)))
        if found is None or found.get("volumeBindingMode") != volumes.WAITS:
            return False
        driver = found["provisioner"]
        if driver == volumes.NO_PROVISIONER:
            needs.asked[f"free {found['metadata']['name']}"] += 1
            return not volumes.selected(claim) and self._suits_all(claim)
        told = self.cluster.get("csidrivers", ("", driver))
        if told is not None and told["spec"].get("storageCapacity"):
            return False
        needs.nodes &= {name for name, node in self._nodes.items() if volumes.allows(found, node)}
        needs.asked[f"attached {driver}"] += 1
        return True

    def _suits_all(self, claim: Object) -> bool:
        """Whether each free volume of the class would do for this claim."""
        return all(
            volumes.size(each) >= volumes.size(claim)
            and set(claim["spec"]["accessModes"]) <= set(each["spec"]["accessModes"])
            for each in self._free(volumes.class_of(claim))
        )

    def _free(self, name: str) -> list[Object]:
        return [
            each
            for each in self.cluster.all("persistentvolumes")
            if volumes.class_of(each) == name
            and not each["spec"].get("claimRef")
            and not objects.leaving(each)
            and (each.get("status") or {}).get("phase") == "Available"
        ]

    def room(self, node: str, asked: Iterable[str]) -> Amounts:
        """How much a node has of what pods ask for besides their requests."""
        found: Amounts = Counter()
        for each in asked:
            what, _, name = each.partition(" ")
            if what == "free":
                reached = [
                    [at for at, place in self._nodes.items() if volumes.reaches(volume, place)]
                    for volume in self._free(name)
                ]
                found[each] = sum(places == [node] for places in reached)
            else:
                most = volumes.limit(self.cluster, node, name)
                used = sum(at.driver == name for at in on_node(self.cluster, node))
                held = self._attached_elsewise(node, name)
                found[each] = UNLIMITED if most is None else max(0, most - used - held)
        return found

    def _attached_elsewise(self, node: str, driver: str) -> int:
        """Volumes that are still attached to a node without a pod there."""
        present = {at.handle for at in on_node(self.cluster, node) if at.driver == driver}
        count = 0
        for each in self.cluster.all("volumeattachments"):
            spec = each["spec"]
            if (spec["nodeName"], spec["attacher"]) != (node, driver):
                continue
            name = spec["source"].get("persistentVolumeName", "")
            volume = self.cluster.get("persistentvolumes", ("", name))
            source = volumes.attached(volume) if volume is not None else None
            count += source is None or source.handle not in present
        return count
