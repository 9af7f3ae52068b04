"""Rules about limits: the capability of Queues, and PodDisruptionBudgets."""

import math
from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.judges import amounts, devices, objects
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.court import Judge
from tests.simulation.judges.history import Change, Finding, Object, Settings, ours, served

ABSENT = float("-inf")


class Capability(Judge):
    """The daemon's binds keep each Queue within its capability, and only open Queues get pods."""

    rule = "no exceeded capability"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._disturbed: defaultdict[str, float] = defaultdict(lambda: ABSENT)
        """When others last changed a Queue, its PodGroups, or what it holds."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Add up what the Queue holds with this pod."""
        if not served(change):
            return
        self._notice(change, cluster)
        if change.verb != "bind" or not ours(change) or change.after is None:
            return
        pod = change.after
        group = cluster.get("podgroups", objects.group_of(pod) or ("", ""))
        if group is None:
            return
        name = objects.queue_of(group, self.settings.default_queue)
        if self.settings.unknown(self._disturbed[name], change.at):
            return
        key = objects.label(objects.key_of(pod))
        queue = cluster.get("queues", ("", name))
        for problem in self._problems(name, queue, pod, cluster):
            yield self.finding(
                change.at, f"{change.origin} binds {key}, and Queue {name} {problem}"
            )

    def _problems(
        self, name: str, queue: Object | None, pod: Object, cluster: Cluster
    ) -> Iterator[str]:
        if queue is None:
            yield "doesn't exist"
            return
        state = (queue.get("status") or {}).get("state") or "Open"
        if state != "Open":
            yield f"is {state}"
        limits = amounts.amounts((queue.get("spec") or {}).get("capability"))
        if not limits:
            return
        held, asked = cluster.held(name), cluster.request(pod)
        for resource, limit in limits.items():
            total = held[resource] + asked[resource]
            if asked[resource] and total > limit:
                has, most = (amounts.shown(resource, each) for each in (total, limit))
                yield f"has {has} {resource}, may have {most}"

    def _notice(self, change: Change, cluster: Cluster) -> None:
        """Remember what the daemon may not know yet."""
        if change.resource == "queues" and _means_something(change):
            self._disturbed[change.name] = change.at
        if ours(change):
            return
        groups: list[Object | None] = []
        if change.resource == "podgroups":
            groups = [change.before, change.after]
        elif change.resource == "pods" and change.after is not None:
            before, after = change.before, change.after
            placed = objects.holds(after) and not (before and objects.holds(before))
            if placed or (before and objects.group_of(before) != objects.group_of(after)):
                groups = [cluster.get("podgroups", objects.group_of(after) or ("", ""))]
        for group in groups:
            if group is not None:
                name = objects.queue_of(group, self.settings.default_queue)
                self._disturbed[name] = change.at


class DeviceCapability(Capability):
    """The daemon's binds keep each Queue within its capability of devices of claims."""

    rule = "no exceeded capability of devices"

    def _problems(
        self, name: str, queue: Object | None, pod: Object, cluster: Cluster
    ) -> Iterator[str]:
        limits = amounts.amounts(((queue or {}).get("spec") or {}).get("capability"))
        if devices.COUNTED not in limits or not devices.claims_of(pod):
            return
        held = added = 0
        for claim in cluster.all(devices.CLAIMS):
            user = devices.first_user(claim, cluster)
            count = len(list(devices.devices_of(claim)))
            if user is None or not count or self._queue_of(user, cluster) != name:
                continue
            if user["metadata"]["uid"] == pod["metadata"]["uid"]:
                added += count
            elif objects.holds(user):
                held += count
        limit = limits[devices.COUNTED]
        if added and held + added > limit:
            yield f"has {held + added} devices, may have {limit}"

    def _queue_of(self, pod: Object, cluster: Cluster) -> str:
        group = cluster.get("podgroups", objects.group_of(pod) or ("", ""))
        return "" if group is None else objects.queue_of(group, self.settings.default_queue)

    def _notice(self, change: Change, cluster: Cluster) -> None:
        super()._notice(change, cluster)
        if change.resource == devices.CLAIMS and not ours(change):
            for claim in filter(None, (change.before, change.after)):
                user = devices.first_user(claim, cluster)
                if user is not None:
                    self._disturbed[self._queue_of(user, cluster)] = change.at


def _means_something(change: Change) -> bool:
    """Whether a change of a Queue, or of its state, can change a decision."""
    if change.before is None or change.after is None:
        return True
    if change.before.get("spec") != change.after.get("spec"):
        return True
    told = [(each.get("status") or {}).get("state") for each in (change.before, change.after)]
    return told[0] != told[1]


class Kept(Judge):
    """The daemon lets no Queue go that has PodGroups or other Queues below it.

    What others created or moved a moment ago may be unknown to it.
    """

    rule = "no Queue goes under its PodGroups"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._moved: dict[tuple[str, str, str], float] = {}
        """When an object came to its Queue: by kind, namespace and name."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Look at Queues from which the daemon takes its finalizer."""
        if not served(change) or change.resource not in ("podgroups", "queues"):
            return
        if change.after is not None and _place(change.before) != _place(change.after):
            self._moved[change.resource, change.namespace, change.name] = change.at
        if change.resource != "queues" or not ours(change) or change.before is None:
            return
        if not _is_held(change.before) or (change.after and _is_held(change.after)):
            return
        name = change.name
        inside = [each for each in cluster.groups_of(name) if self._is_known(each, change)]
        below = [
            each
            for each in cluster.all("queues")
            if _place(each) == name and self._is_known(each, change, "queues")
        ]
        if objects.leaving(change.before) and (inside or below):
            shown = ", ".join(objects.label(objects.key_of(each)) for each in (*inside, *below)[:3])
            yield self.finding(change.at, f"{change.origin} releases Queue {name} of {shown}")

    def _is_known(self, found: Object, change: Change, resource: str = "podgroups") -> bool:
        moved = self._moved.get((resource, *objects.key_of(found)), ABSENT)
        return not self.settings.unknown(moved, change.at)


def _place(found: Object | None) -> str | None:
    """The Queue of a PodGroup, or above a Queue."""
    if found is None:
        return None
    spec = found.get("spec") or {}
    return str(spec.get("queue") or spec.get("parent") or "")


def _is_held(queue: Object) -> bool:
    names = queue["metadata"].get("finalizers") or ()
    return any(name.startswith("vscheduler.io/") for name in names)


class Budgets(Judge):
    """No PodDisruptionBudget is broken by the daemon's evictions or deletions.

    The daemon may not know yet that others have just taken a pod, or changed the budget.
    """

    rule = "no broken budget"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._disturbed: defaultdict[str, float] = defaultdict(lambda: ABSENT)
        """When others last took a healthy pod or changed a budget: by namespace."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Count the healthy pods that are left."""
        if not served(change):
            return
        if not ours(change):
            self._notice(change)
            return
        pod = change.before
        if change.resource != "pods" or change.verb not in ("evict", "delete") or pod is None:
            return
        if not _healthy(pod) or self.settings.unknown(self._disturbed[change.namespace], change.at):
            return
        for budget in cluster.all("poddisruptionbudgets"):
            if covers(budget, pod):
                yield from self._judge(change, pod, budget, cluster)

    def _judge(
        self, change: Change, pod: Object, budget: Object, cluster: Cluster
    ) -> Iterator[Finding]:
        covered = [each for each in cluster.all("pods") if covers(budget, each)]
        healthy = sum(map(_healthy, covered)) - 1
        wanted = desired(budget, sum(not objects.ended(each) for each in covered))
        if healthy < wanted:
            key, name = (objects.label(objects.key_of(each)) for each in (pod, budget))
            yield self.finding(
                change.at,
                f"{change.origin}: {change.verb} {key} leaves {healthy} of {wanted} healthy pods "
                f"of budget {name}",
            )

    def _notice(self, change: Change) -> None:
        if change.resource == "poddisruptionbudgets" and change.subresource != "status":
            self._disturbed[change.namespace] = change.at
        before, after = change.before, change.after
        lost = before is not None and _healthy(before) and (after is None or not _healthy(after))
        if change.resource == "pods" and lost:
            self._disturbed[change.namespace] = change.at


def covers(budget: Object, pod: Object) -> bool:
    """Whether a budget is about a pod."""
    same = objects.key_of(budget)[0] == objects.key_of(pod)[0]
    return same and objects.selects(budget["spec"].get("selector"), objects.labels(pod))


def desired(budget: Object, expected: int) -> int:
    """How many pods must stay healthy, of so many that there are."""
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        return max(0, expected - _count(spec["maxUnavailable"], expected))
    return _count(spec.get("minAvailable", 0), expected)


def _count(value: int | str, expected: int) -> int:
    """A number, or a percentage, rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * expected / 100)
    return int(value)


def _healthy(pod: Object) -> bool:
    """Whether a pod counts as healthy: it runs and isn't being deleted."""
    return objects.phase(pod) == "Running" and not objects.leaving(pod)
