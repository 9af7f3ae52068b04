"""Rules about binds of pods with volumes, and about what is reserved for them."""

from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.judges import objects, volumes
from tests.simulation.judges.binding_rules import ABSENT
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.court import Judge
from tests.simulation.judges.history import Change, Finding, Object, Settings, ours, served
from tests.simulation.judges.volumes import Attached

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"


def _is_bind(change: Change) -> bool:
    return change.verb == "bind" and ours(change) and served(change) and change.after is not None


class ClaimsAreBound(Judge):
    """The daemon binds a pod once each of its claims is bound to a volume that exists, and stays.

    A claim that is made for a pod is the pod's own.
    """

    rule = "no pod starts before its claims"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._lost: defaultdict[Key, float] = defaultdict(lambda: ABSENT)
        """When a claim was last bound, and then no longer."""
        self._dropped: defaultdict[str, float] = defaultdict(lambda: ABSENT)
        """When a volume was last deleted."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at the claims of a pod that is bound."""
        if served(change):
            self._notice(change)
        if not _is_bind(change):
            return
        pod = change.after
        assert pod is not None
        made = volumes.made_for(pod)
        for key in volumes.claims_of(pod):
            claim = cluster.get(CLAIMS, key)
            problem = self._problem(claim, cluster)
            if claim is not None and not problem and key in made:
                owners = claim["metadata"].get("ownerReferences") or ()
                if all(owner["uid"] != pod["metadata"]["uid"] for owner in owners):
                    problem = "isn't the pod's own"
            volume = claim["spec"].get("volumeName", "") if claim is not None else ""
            excused = self.settings.unknown(max(self._lost[key], self._dropped[volume]), change.at)
            if problem and not excused:
                yield self.finding(
                    change.at,
                    f"{change.origin} binds {objects.label(objects.key_of(pod))}, whose claim "
                    f"{objects.label(key)} {problem}",
                )

    def _problem(self, claim: Object | None, cluster: Cluster) -> str:
        if claim is None:
            return "doesn't exist"
        if objects.leaving(claim):
            return "is being deleted"
        if not volumes.is_bound(claim):
            return "isn't bound"
        name = claim["spec"]["volumeName"]
        if cluster.get(VOLUMES, ("", name)) is None:
            return f"has lost volume {name}"
        return ""

    def _notice(self, change: Change) -> None:
        if change.resource == VOLUMES and change.after is None:
            self._dropped[change.name] = change.at
        if change.resource != CLAIMS or change.before is None:
            return
        good = [
            each is not None and volumes.is_bound(each) and not objects.leaving(each)
            for each in (change.before, change.after)
        ]
        if good == [True, False]:
            self._lost[change.namespace, change.name] = change.at


class VolumesAreReached(Judge):
    """The daemon binds pods to nodes from which all their volumes can be used."""

    rule = "no bind away from a volume"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._changed: defaultdict[str, float] = defaultdict(lambda: ABSENT)
        """When the labels of a node last changed."""
        self._replaced: defaultdict[str, float] = defaultdict(lambda: ABSENT)
        """When a volume of this name was last created."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at the volumes of a pod that is bound."""
        if served(change):
            self._notice(change)
        if not _is_bind(change):
            return
        pod = change.after
        assert pod is not None
        name = objects.node_of(pod)
        node = cluster.get("nodes", ("", name))
        if node is None:
            return
        for _, volume in volumes.of_pod(pod, cluster):
            own = volume["metadata"]["name"]
            then = max(self._changed[name], self._replaced[own])
            if not volumes.reaches(volume, node) and not self.settings.unknown(then, change.at):
                yield self.finding(
                    change.at,
                    f"{change.origin} binds {objects.label(objects.key_of(pod))} to {name}, from "
                    f"where volume {own} can't be reached",
                )

    def _notice(self, change: Change) -> None:
        before, after = change.before, change.after
        if change.resource == "nodes" and (
            before is None or after is None or objects.labels(before) != objects.labels(after)
        ):
            self._changed[change.name] = change.at
        if change.resource == VOLUMES and before is None:
            self._replaced[change.name] = change.at


class AttachLimits(Judge):
    """The daemon binds no pod to a node that then has more volumes of a driver than it can have.

    What others do there meanwhile may be unknown: pods that they place, claims of these pods that
    are bound later, and another limit.
    """

    rule = "no node has too many volumes"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._disturbed: defaultdict[str, float] = defaultdict(lambda: ABSENT)

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Count the volumes of the pods there."""
        if not served(change):
            return
        self._notice(change, cluster)
        if not _is_bind(change):
            return
        pod = change.after
        assert pod is not None
        node = objects.node_of(pod)
        if self.settings.unknown(self._disturbed[node], change.at):
            return
        asked = {volumes.attached(volume) for _, volume in volumes.of_pod(pod, cluster)}
        present = on_node(cluster, node) if asked else set()
        for driver in sorted({each.driver for each in asked if each} - {""}):
            most = volumes.limit(cluster, node, driver)
            fresh = {each for each in asked if each and each.driver == driver} - present
            total = sum(each.driver == driver for each in present) + len(fresh)
            if most is not None and fresh and total > most:
                yield self.finding(
                    change.at,
                    f"{change.origin} binds {objects.label(objects.key_of(pod))} to {node}, which "
                    f"then has {total} volumes of {driver}, and can have {most}",
                )

    def _notice(self, change: Change, cluster: Cluster) -> None:
        if change.resource == "csinodes":
            self._disturbed[change.name] = change.at
        elif change.resource == "pods" and change.after is not None and not ours(change):
            node = objects.node_of(change.after)
            if node and not (change.before and objects.node_of(change.before)):
                self._disturbed[node] = change.at
        elif change.resource == CLAIMS and change.after is not None and not ours(change):
            key = change.namespace, change.name
            for pod in cluster.all("pods"):
                if objects.holds(pod) and key in volumes.claims_of(pod):
                    self._disturbed[objects.node_of(pod)] = change.at


def on_node(cluster: Cluster, node: str) -> set[Attached]:
    """The CSI volumes of the pods on a node."""
    return {
        source
        for pod in cluster.all("pods")
        if objects.node_of(pod) == node and objects.holds(pod)
        for _, volume in volumes.of_pod(pod, cluster)
        if (source := volumes.attached(volume)) is not None
    }


class UsedAlone(Judge):
    """The daemon binds no second pod to a claim that only one pod may use."""

    rule = "one pod for ReadWriteOncePod"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._taken: defaultdict[Key, float] = defaultdict(lambda: ABSENT)
        """When somebody else placed a pod that uses a claim."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look for other pods with the same claim."""
        if not served(change) or change.resource != "pods" or change.after is None:
            return
        pod = change.after
        keys = volumes.claims_of(pod)
        placed = objects.node_of(pod) and not (change.before and objects.node_of(change.before))
        if placed and not ours(change):
            self._taken.update(dict.fromkeys(keys, change.at))
        if not _is_bind(change):
            return
        for key in keys:
            claim = cluster.get(CLAIMS, key)
            if claim is None or volumes.ALONE not in (claim["spec"].get("accessModes") or ()):
                continue
            others = [
                objects.label(objects.key_of(each))
                for each in cluster.all("pods")
                if objects.holds(each)
                and key in volumes.claims_of(each)
                and each["metadata"]["uid"] != pod["metadata"]["uid"]
            ]
            if others and not self.settings.unknown(self._taken[key], change.at):
                yield self.finding(
                    change.at,
                    f"{change.origin} binds {objects.label(objects.key_of(pod))}, whose claim "
                    f"{objects.label(key)} is used by {', '.join(others)}",
                )
