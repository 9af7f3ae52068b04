"""Rules about pods with claims of devices, and about what is allocated for them."""

from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.judges import devices, objects
from tests.simulation.judges.binding_rules import ABSENT
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.court import Judge
from tests.simulation.judges.devices import Device
from tests.simulation.judges.history import Change, Finding, Settings, ours, served


class DevicesAreAllocated(Judge):
    """The daemon binds a pod once each of its claims is allocated and reserved for it, and only to
    a node where the devices can be used.
    """

    rule = "no pod starts before its devices"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._lost: defaultdict[Key, float] = defaultdict(lambda: ABSENT)
        """When somebody else last took something from a claim, or deleted it."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at the claims of a pod that is bound."""
        if not served(change):
            return
        if change.resource == devices.CLAIMS and not ours(change) and change.before is not None:
            self._lost[change.namespace, change.name] = change.at
        if change.verb != "bind" or not ours(change) or change.after is None:
            return
        pod = change.after
        for key in devices.claims_of(pod):
            problem = self._problem(pod["metadata"]["uid"], objects.node_of(pod), key, cluster)
            if problem and not (key and self.settings.unknown(self._lost[key], change.at)):
                name = objects.label(objects.key_of(pod))
                told = objects.label(key) if key else "a claim"
                yield self.finding(
                    change.at, f"{change.origin} binds {name}, whose claim {told} {problem}"
                )

    @staticmethod
    def _problem(uid: str, node: str, key: Key | None, cluster: Cluster) -> str:
        claim = cluster.get(devices.CLAIMS, key) if key is not None else None
        if claim is None:
            return "doesn't exist"
        if devices.allocation(claim) is None:
            return "isn't allocated"
        if uid not in devices.consumers(claim):
            return "isn't reserved for it"
        found = cluster.get("nodes", ("", node))
        if found is not None and not devices.reaches(claim, found):
            return f"has devices elsewhere than on {node}"
        return ""


class AllocatedOnce(Judge):
    """The daemon allocates devices that are there and free, as many as were asked for, and never
    without the pods that they are for.
    """

    rule = "each device has one claim"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._published: defaultdict[str, float] = defaultdict(lambda: ABSENT)
        """When the slices of a pool last changed."""
        self._taken: defaultdict[Device, float] = defaultdict(lambda: ABSENT)
        """When somebody else last allocated a device."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at allocations by the daemon."""
        if not served(change):
            return
        if change.resource == devices.SLICES:
            found = change.after or change.before
            assert found is not None
            self._published[found["spec"]["pool"]["name"]] = change.at
        before = set(devices.devices_of(change.before))
        if change.resource != devices.CLAIMS or change.after is None:
            return
        added = set(devices.devices_of(change.after)) - before
        if not ours(change):
            self._taken.update(dict.fromkeys(added, change.at))
        elif devices.allocation(change.after) is not None:
            yield from self._allocated(change, added, cluster)

    def _allocated(self, change: Change, added: set[Device], cluster: Cluster) -> Iterator[Finding]:
        claim, own = change.after, (change.namespace, change.name)
        assert claim is not None
        name = f"{change.origin} allocates {objects.label(own)}"
        if not devices.consumers(claim):
            yield self.finding(change.at, f"{name} for nobody")
        if added and len(added) != devices.asked(claim):
            yield self.finding(change.at, f"{name}: {len(added)}, not {devices.asked(claim)}")
        for other in cluster.all(devices.CLAIMS):
            both = added & set(devices.devices_of(other))
            for each in both if objects.key_of(other) != own else ():
                if not self.settings.unknown(self._taken[each], change.at):
                    label = objects.label(objects.key_of(other))
                    yield self.finding(change.at, f"{name} {each.name}, which {label} has")
        usable = set(devices.usable(claim, cluster.all(devices.SLICES)))
        for each in sorted(added - usable):
            if not self.settings.unknown(self._published[each.pool], change.at):
                told = f"{name} {each.name} of {each.pool}, which is gone or not for it"
                yield self.finding(change.at, told)


class DevicesAreGivenBack(Judge):
    """No device stays with a claim whose pods don't start. A running pod keeps its devices.

    While its gang starts, a claim is allocated for a moment; while its gang waits for volumes,
    until the end of the wait.
    """

    rule = "no device belongs to nobody"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._since: dict[Key, float] = {}
        """Since when an allocated claim has had no pod with a node."""
        self._told: set[Key] = set()

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """See whether the daemon takes devices from a pod that runs."""
        if change.resource != devices.CLAIMS or not served(change) or not ours(change):
            return
        lost = devices.consumers(change.before or {}) - devices.consumers(change.after or {})
        for pod in cluster.all("pods") if lost else ():
            if pod["metadata"]["uid"] in lost and devices.in_use(pod):
                name = objects.label(objects.key_of(pod))
                yield self.finding(change.at, f"{change.origin} takes the devices of {name}")

    def finish(self, at: float, cluster: Cluster) -> Iterator[Finding]:
        """Look at what is still allocated."""
        placed = {pod["metadata"]["uid"] for pod in cluster.all("pods") if objects.node_of(pod)}
        for claim in cluster.all(devices.CLAIMS):
            if devices.allocation(claim) is not None and not devices.consumers(claim) & placed:
                key = objects.label(objects.key_of(claim))
                yield self.finding(at, f"claim {key} has devices, and no pod that runs")
