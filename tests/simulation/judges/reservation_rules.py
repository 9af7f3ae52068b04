"""Rules about what is reserved for pods: volumes for claims, and nodes for claims."""

from collections.abc import Iterator, Sequence

from tests.simulation.judges import objects, volumes
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.court import Judge
from tests.simulation.judges.history import Change, Finding, Object, Settings, ours, served
from tests.simulation.judges.volume_rules import CLAIMS, VOLUMES


class GivenOnce(Judge):
    """The daemon reserves a volume that is free, for a claim that it suits; no volume has two."""

    rule = "each volume has one claim"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._owners: dict[str, Key] = {}
        """The bound claim of a volume."""

    def after(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at reservations by the daemon, and at claims that are bound by anybody."""
        if not served(change):
            return
        if change.resource == CLAIMS:
            yield from self._claim(change, cluster)
        if change.resource != VOLUMES or not ours(change):
            return
        before, after = change.before, change.after
        old = before["spec"].get("claimRef") if before is not None else None
        new = after["spec"].get("claimRef") if after is not None else None
        if not new or after is None:
            return
        if old and _parts(old) != _parts(new):
            yield self._told(change, f"that is reserved for {objects.label(_parts(old)[:2])}")
        elif not old:
            claim = cluster.get(CLAIMS, _parts(new)[:2])
            if claim is not None and (problem := _unsuited(claim, after)):
                yield self._told(change, problem)

    def _claim(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        key = change.namespace, change.name
        if change.after is None or not volumes.is_bound(change.after):
            return
        name = change.after["spec"]["volumeName"]
        known = self._owners.get(name, key)
        other = cluster.get(CLAIMS, known)
        volume = cluster.get(VOLUMES, ("", name))
        if (
            known != key
            and volume is not None
            and other is not None
            and other["spec"].get("volumeName") == name
            and objects.phase(other) == "Bound"
        ):
            message = f"volume {name} has {objects.label(known)} and {objects.label(key)}"
            yield self.finding(change.at, message)
        self._owners[name] = key

    def _told(self, change: Change, problem: str) -> Finding:
        return self.finding(change.at, f"{change.origin} reserves volume {change.name} {problem}")


def _parts(reference: Object) -> tuple[str, str, str]:
    return (
        reference.get("namespace", ""),
        reference.get("name", ""),
        reference.get("uid", ""),
    )


def _unsuited(claim: Object, volume: Object) -> str:
    """Why a volume isn't for such a claim."""
    spec, has = claim["spec"], volume["spec"]
    name = objects.label(objects.key_of(claim))
    if volumes.is_bound(claim) and spec["volumeName"] != volume["metadata"]["name"]:
        return f"for {name}, which has another"
    if volumes.size(volume) < volumes.size(claim):
        return f"for {name}, which asks for more"
    if volumes.class_of(volume) != volumes.class_of(claim):
        return f"for {name}, which asks for another class"
    if not set(spec.get("accessModes") or ()) <= set(has.get("accessModes") or ()):
        return f"for {name}, which asks for another access mode"
    if spec.get("volumeMode", "Filesystem") != has.get("volumeMode", "Filesystem"):
        return f"for {name}, which asks for another volume mode"
    return ""


class GivenBack(Judge):
    """What the daemon reserved for a pod belongs to somebody who waits, or else is given back.

    A volume with a claimRef is given back soon; a claim with a selected node by the end, because
    its provisioner may be at work.
    """

    rule = "nothing is reserved for nobody"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._volumes: dict[str, Key] = {}
        """Volumes that the daemon reserved, with their claims."""
        self._claims: dict[Key, None] = {}
        """Claims for which the daemon selected a node."""
        self._since: dict[str, float] = {}
        """Since when a volume has been reserved for nobody."""

    def after(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Follow reservations, and see whose they are."""
        if not served(change):
            return
        if change.resource == VOLUMES:
            self._volume(change)
        elif change.resource == CLAIMS:
            self._claim(change)
        elif change.resource != "pods":
            return
        for name, key in list(self._volumes.items()):
            claim = cluster.get(CLAIMS, key)
            if claim is not None and volumes.is_bound(claim):
                del self._volumes[name]
            elif self._is_idle(name, cluster):
                self._since.setdefault(name, change.at)
                continue
            self._since.pop(name, None)
        for name, since in list(self._since.items()):
            if self.settings.exceeds(since, change.at, self.settings.soon_seconds):
                yield from self._tell(name, change.at)

    def finish(self, at: float, cluster: Cluster) -> Iterator[Finding]:
        """Look at what is still reserved."""
        for name in list(self._volumes):
            if self._is_idle(name, cluster):
                yield from self._tell(name, at)
        for key in self._claims:
            claim = cluster.get(CLAIMS, key)
            idle = claim is not None and not volumes.is_bound(claim) and not objects.leaving(claim)
            if idle and volumes.selected(claim) and not waiting_for(key, cluster):  # type: ignore[arg-type]  # idle says so
                message = f"claim {objects.label(key)} has a node, and no pod waits for it"
                yield self.finding(at, message)

    def _volume(self, change: Change) -> None:
        key = volumes.reserved_for(change.after) if change.after is not None else None
        before = volumes.reserved_for(change.before) if change.before is not None else None
        if key is None:
            self._volumes.pop(change.name, None)
            self._since.pop(change.name, None)
        elif ours(change) and key != before:
            self._volumes[change.name] = key

    def _claim(self, change: Change) -> None:
        key = change.namespace, change.name
        nodes = [volumes.selected(each) if each else "" for each in (change.before, change.after)]
        if not nodes[1]:
            self._claims.pop(key, None)
        elif ours(change) and nodes[0] != nodes[1]:
            self._claims[key] = None

    def _is_idle(self, name: str, cluster: Cluster) -> bool:
        """Whether a volume waits for a claim that exists, and that no pod waits for."""
        key = self._volumes[name]
        claim = cluster.get(CLAIMS, key)
        if claim is None or objects.leaving(claim) or volumes.is_bound(claim):
            return False
        return not waiting_for(key, cluster)

    def _tell(self, name: str, at: float) -> Iterator[Finding]:
        key = objects.label(self._volumes.pop(name))
        self._since.pop(name, None)
        yield self.finding(at, f"volume {name} is reserved for {key}, and no pod waits for it")


def waiting_for(key: Key, cluster: Cluster) -> Sequence[Object]:
    """The pods that wait for a claim, and have no node yet."""
    return [
        pod
        for pod in cluster.all("pods")
        if not objects.node_of(pod)
        and not objects.leaving(pod)
        and not objects.ended(pod)
        and key in volumes.claims_of(pod)
    ]
