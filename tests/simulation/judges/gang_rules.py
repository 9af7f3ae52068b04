"""Rules about gangs: none stays in part, and no PodGroup is deleted under its pods."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.simulation.judges import alone, objects
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.court import Judge
from tests.simulation.judges.history import Change, Finding, Object, Settings, ours, served


@dataclass(slots=True)
class Partial:
    """A gang that is bound in part."""

    uid: str
    minimum: int
    since: float | None = None
    excuse: str = ""
    """Why it isn't the daemon's doing."""


class Whole(Judge):
    """No gang that the daemon binds stays below its minimum for long, while pods of it have nodes.

    Not counted: a gang that lost pods by other hands or got a new minimum, and a gang whose pods
    can't be evicted, because of a PodDisruptionBudget, a missing node or a missing Queue.
    """

    rule = "no partial gang"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._gangs: dict[Key, Partial] = {}
        self._bound: set[str] = set()
        """UIDs of pods that the daemon bound."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Notice what others do to a gang."""
        del cluster
        if change.resource != "pods":
            return
        if change.verb == "evict" and ours(change) and not served(change):
            self._excuse(change.before, "an eviction was refused")
        if not served(change):
            return
        if change.verb == "bind" and ours(change):
            self._bound.add(change.uid)
        counted = change.before is not None and objects.counts(change.before)
        still = change.after is not None and objects.counts(change.after)
        moved = change.before and change.after and _moved(change.before, change.after)
        if (counted and not still and not ours(change)) or moved:
            self._excuse(change.before, "others took a pod")
        yield from ()

    def after(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Count the pods of each gang that the change concerns."""
        if not served(change):
            return
        for key in _concerned(change):
            yield from self._look(key, change.at, cluster)

    def finish(self, at: float, cluster: Cluster) -> Iterator[Finding]:
        """Judge the gangs that are still bound in part."""
        for key in list(self._gangs):
            yield from self._close(key, at, cluster)

    def _look(self, key: Key, at: float, cluster: Cluster) -> Iterator[Finding]:
        group = cluster.get("podgroups", key)
        gang = self._gangs.get(key)
        if group is None:
            self._gangs.pop(key, None)
            return
        bound = [pod for pod in cluster.members[key].values() if objects.counts(pod)]
        minimum = objects.minimum(group)
        if gang is None or gang.uid != group["metadata"]["uid"]:
            gang = self._gangs[key] = Partial(group["metadata"]["uid"], minimum)
            gang.excuse = "it is older than its PodGroup" if bound else ""
        if minimum != gang.minimum:
            gang.minimum, gang.excuse = minimum, "its minimum changed"
        ours_too = any(
            pod["metadata"]["uid"] in self._bound and not objects.ended(pod) for pod in bound
        )
        if ours_too and len(bound) < minimum:
            if gang.since is None:
                gang.since = at
            return
        yield from self._close(key, at, cluster)
        gang.since, gang.excuse = None, ""

    def _close(self, key: Key, at: float, cluster: Cluster) -> Iterator[Finding]:
        """Judge how long it was bound in part."""
        gang = self._gangs[key]
        if gang.since is None or gang.excuse:
            return
        seconds = self.settings.elapsed(gang.since, at)
        if seconds <= self.settings.partial_seconds or self._stuck(key, cluster):
            return
        bound = [pod for pod in cluster.members[key].values() if objects.counts(pod)]
        yield self.finding(
            at,
            f"PodGroup {objects.label(key)} was bound in part for {seconds:.0f} s; now it has "
            f"{len(bound)} of {gang.minimum}",
        )

    def _stuck(self, key: Key, cluster: Cluster) -> bool:
        """Whether its pods can't be evicted."""
        group = cluster.get("podgroups", key)
        queue = objects.queue_of(group, self.settings.default_queue) if group else ""
        if cluster.get("queues", ("", queue)) is None:
            return True
        bound = [pod for pod in cluster.members[key].values() if objects.counts(pod)]
        if any(cluster.get("nodes", ("", objects.node_of(pod))) is None for pod in bound):
            return True
        return any(
            objects.key_of(budget)[0] == key[0]
            and objects.selects(budget["spec"].get("selector"), objects.labels(pod))
            for budget in cluster.all("poddisruptionbudgets")
            for pod in bound
        )

    def _excuse(self, pod: Object | None, why: str) -> None:
        key = objects.group_of(pod) if pod is not None else None
        gang = self._gangs.get(key) if key is not None else None
        if gang is not None:
            gang.excuse = why


class StartsAlone(Judge):
    """The daemon binds a pod without a PodGroup only if it needs none.

    What others have just written to its owner may be unknown to the daemon.
    """

    rule = "no pod of a gang alone"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._changed: dict[tuple[str, str, str], float] = {}
        """When others last changed an owner or a pod: by plural, namespace and name."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at the pod that is bound."""
        if not served(change) or not self.settings.alone:
            return
        if change.verb != "bind":
            if not ours(change) and change.resource in ("pods", *alone.OWNERS.values()):
                self._changed[change.resource, change.namespace, change.name] = change.at
            return
        pod = change.before
        if pod is None or not ours(change) or objects.group_of(pod) is not None:
            return
        if alone.needs_group(pod, cluster.get) and not self._is_news(pod, change.at):
            key = objects.label(objects.key_of(pod))
            yield self.finding(change.at, f"{change.origin} binds {key}, which needs a PodGroup")

    def _is_news(self, pod: Object, at: float) -> bool:
        """Whether others have just changed the pod or its owner."""
        namespace, name = objects.key_of(pod)
        reference = alone.controller(pod)
        keys = [("pods", namespace, name)]
        if reference is not None:
            keys.append((alone.OWNERS.get(reference["kind"], ""), namespace, reference["name"]))
        then = max(self._changed.get(key, float("-inf")) for key in keys)
        return self.settings.unknown(then, at)


class KeptUnderPods(Judge):
    """The daemon deletes no PodGroup that live pods name.

    Pods that others create with the name of a PodGroup may be too new to be known.
    """

    rule = "no PodGroup deleted under pods"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._named: dict[str, tuple[float, bool]] = {}
        """When a pod, by UID, got its PodGroup, and whether the daemon wrote that."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at the pods of a PodGroup that is deleted."""
        if not served(change):
            return
        if change.resource == "pods":
            self._note(change)
        elif change.resource == "podgroups" and change.verb == "delete" and ours(change):
            key = change.namespace, change.name
            live = [
                objects.label(objects.key_of(pod))
                for pod in cluster.members[key].values()
                if not objects.ended(pod) and not objects.leaving(pod)
                if not self._is_news(pod, change.at)
            ]
            if live:
                yield self.finding(
                    change.at,
                    f"{change.origin} deletes PodGroup {objects.label(key)} of {', '.join(live)}",
                )

    def _note(self, change: Change) -> None:
        if change.after is None:
            self._named.pop(change.uid, None)
            return
        group = objects.group_of(change.after)
        before = objects.group_of(change.before) if change.before is not None else None
        if group is not None and group != before:
            self._named[change.uid] = change.at, ours(change)

    def _is_news(self, pod: Object, at: float) -> bool:
        then, by_daemon = self._named.get(pod["metadata"]["uid"], (float("-inf"), False))
        return not by_daemon and self.settings.unknown(then, at)


def _moved(before: Object, after: Object) -> bool:
    """Whether a pod left a PodGroup for another."""
    was = objects.group_of(before)
    return was is not None and was != objects.group_of(after)


def _concerned(change: Change) -> Iterable[Key]:
    """The PodGroups that a change is about."""
    if change.resource == "podgroups":
        return [(change.namespace, change.name)]
    if change.resource != "pods":
        return []
    found = [objects.group_of(each) for each in (change.before, change.after) if each is not None]
    return dict.fromkeys(key for key in found if key is not None)
