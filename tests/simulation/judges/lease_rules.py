"""One writer per Lease: whoever writes holds the Lease, as it is stored at that moment."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.simulation.judges import objects
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.court import Judge
from tests.simulation.judges.history import Change, Finding, Object, Settings, ours, served

UNGUARDED = frozenset({"leases", "selfsubjectaccessreviews"})
"""What an instance may write without a Lease."""

OWN_NEWS = ("Lease",)
"""Kinds of objects about which an instance sends events without a Lease."""

CONTROLLERS_STATUS = frozenset({"state", "pending", "inqueue", "running", "unknown", "completed"})
"""Fields of a Queue's status that the controllers write; the rest is written by schedulers."""

CONTROLLERS_CONDITION = "vscheduler.io/"
USAGE = "/fair-share-usage"
"""The end of the annotation that schedulers write to Queues."""


class Lost(NamedTuple):
    """When a holder lost its Lease, and whether another instance, or itself, wrote that."""

    at: float
    by_daemon: bool


class OneWriter(Judge):
    """An instance writes for a scheduler name, or to Queues, only while it holds the Lease."""

    rule = "one writer"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._identities: dict[str, str] = {}
        """By process, from its writes to Leases."""
        self._stored: dict[str, Object] = {}
        """Leases by name."""
        self._renewed: dict[tuple[str, str], float] = {}
        """When a holder last wrote a Lease: by Lease and identity."""
        self._lost: dict[tuple[str, str], Lost] = {}

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Follow the Leases, and judge the writes of processes."""
        if change.resource == "leases":
            if served(change):
                self._lease(change)
            return
        if not ours(change) or change.resource in UNGUARDED:
            return
        wanted = self._leases_for(change, cluster)
        problems = [self._problem(name, change) for name in wanted]
        if wanted and all(problems):
            yield self.finding(
                change.at,
                f"{change.origin}: {objects.request(change)}: {'; '.join(map(str, problems))}",
            )

    def _lease(self, change: Change) -> None:
        name = change.name
        held = holder(self._stored.get(name))
        holds = holder(change.after)
        if ours(change) and holds:
            self._identities[change.origin] = holds
            self._renewed[name, holds] = change.at
        if held and held != holds:
            self._lost[name, held] = Lost(change.at, ours(change))
        if holds:
            self._lost.pop((name, holds), None)
        if change.after is None:
            self._stored.pop(name, None)
        else:
            self._stored[name] = change.after

    def _problem(self, name: str, change: Change) -> str | None:
        """Why the process may not act by this Lease, or None."""
        identity = self._identities.get(change.origin)
        if identity is None or (name, identity) not in self._renewed:
            return f"never held Lease {name}"
        if holder(self._stored.get(name)) == identity:
            lapsed = change.at - self._renewed[name, identity]
            duration = float(self._stored[name]["spec"].get("leaseDurationSeconds") or 0)
            if lapsed <= duration + self.settings.skew_seconds:
                return None
            return f"renewed Lease {name} {lapsed:.1f} s ago, for {duration:.0f} s"
        lost = self._lost.get((name, identity))
        if lost is None:
            return f"never held Lease {name}"
        since = change.at - lost.at
        allowed = self.settings.transit_seconds if lost.by_daemon else self.settings.edit_seconds
        if since < allowed:
            return None
        return (
            f"lost Lease {name} {since:.1f} s ago to {holder(self._stored.get(name)) or 'nobody'}"
        )

    def _leases_for(self, change: Change, cluster: Cluster) -> Sequence[str]:
        """Names of the Leases of which one allows the write."""
        found = change.after or change.before
        match change.resource:
            case "events":
                about = (found or {}).get("regarding") or {}
                own = not about or about["kind"] in OWN_NEWS
                names = [] if own else list(self.settings.schedulers)
            case "pods":
                names = [objects.scheduler_of(found)] if found else list(self.settings.schedulers)
            case "podgroups":
                names = list(self._schedulers_of(change, found, cluster))
            case "persistentvolumeclaims" | "persistentvolumes" | "resourceclaims":
                return self.settings.schedulers
            case "queues":
                if self._is_controllers(change):
                    return [self.settings.controllers_lease]
                return [*self.settings.schedulers, self.settings.controllers_lease]
            case _:
                return [self.settings.controllers_lease]
        return [*names, *(f"{name}-podgroups" for name in names)]

    def _schedulers_of(
        self, change: Change, found: Object | None, cluster: Cluster
    ) -> Sequence[str]:
        """Names of the schedulers that a PodGroup may belong to."""
        known = dict.fromkeys(
            objects.scheduler_of(pod)
            for pod in cluster.members[change.namespace, change.name].values()
        )
        for each in (change.before, found):
            if each is not None and objects.SCHEDULER in objects.annotations(each):
                known[objects.annotations(each)[objects.SCHEDULER]] = None
        names = [name for name in known if name in self.settings.schedulers]
        return names or self.settings.schedulers

    def _is_controllers(self, change: Change) -> bool:
        """Whether only the controllers write such a change of a Queue."""
        before, after = change.before, change.after
        if change.verb in ("create", "delete"):  # a scheduler makes the default queue, too
            return change.verb == "delete"
        if before is None or after is None:  # refused, and nobody knows what was to be written
            return False
        if _finalizers(before) != _finalizers(after):
            return True
        old, new = objects.annotations(before), objects.annotations(after)
        changed = [name for name in (*old, *new) if old.get(name) != new.get(name)]
        if any(not name.endswith(USAGE) for name in changed):
            return True
        told = [each.get("status") or {} for each in (before, after)]
        if any(told[0].get(name) != told[1].get(name) for name in CONTROLLERS_STATUS):
            return True
        return _conditions(told[0]) != _conditions(told[1])


class Renewed(Judge):
    """Who holds a Lease keeps it: it renews, whatever others write to it but another holder."""

    rule = "a holder keeps its Lease"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._renewed: dict[str, tuple[str, float]] = {}
        """Identity and time of the last write of an instance, by Lease."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Measure the time since the last renewal."""
        del cluster
        if change.resource != "leases" or not served(change):
            return
        held, holds = holder(change.before), holder(change.after)
        identity, since = self._renewed.get(change.name, ("", change.at))
        late = self.settings.exceeds(since, change.at, self.settings.renewal_seconds)
        if late and ours(change) and identity and held == identity:
            seconds = self.settings.elapsed(since, change.at)
            message = f"{identity} didn't renew Lease {change.name} for {seconds:.1f} s"
            yield self.finding(change.at, message)
        if ours(change):
            self._renewed[change.name] = holds, change.at
        elif held != holds:
            self._renewed.pop(change.name, None)


class GivenBack(Judge):
    """Who ends in peace gives its Leases back, but one that it has just created.

    A Lease given back is taken over without a wait. Whoever created a Lease doesn't know yet
    whether the holder of an earlier Lease still acts, and must leave the wait to the next.
    """

    rule = "Leases are given back"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._identities: dict[str, str] = {}
        """By process, from its writes to Leases."""
        self._created: dict[str, float] = {}
        """When a Lease was created, by UID."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Learn the names of processes."""
        del cluster
        if change.resource == "leases" and ours(change) and served(change) and change.after:
            if holder(change.after):
                self._identities[change.origin] = holder(change.after)
            if change.before is None:
                self._created[change.after["metadata"]["uid"]] = change.at
        yield from ()

    def left(self, at: float, process: str, cluster: Cluster) -> Iterator[Finding]:
        """Look at the Leases."""
        for lease in cluster.all("leases"):
            created = self._created.get(lease["metadata"]["uid"], float("-inf"))
            if at - created < self.settings.first_wait_seconds:
                continue
            if holder(lease) and holder(lease) == self._identities.get(process):
                name = lease["metadata"]["name"]
                yield self.finding(at, f"{process} has ended, and still holds Lease {name}")


def taken_away(change: Change) -> bool:
    """Whether somebody who isn't the daemon took a Lease from its holder."""
    if change.resource != "leases" or ours(change) or not served(change):
        return False
    held = holder(change.before)
    return bool(held) and held != holder(change.after)


def holder(lease: Object | None) -> str:
    """The identity in a Lease; empty where nobody holds it."""
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


def _finalizers(found: Object) -> Sequence[str]:
    return found["metadata"].get("finalizers") or ()


def _conditions(status: Object) -> Sequence[Object]:
    """Those that the controllers write."""
    return [
        each
        for each in status.get("conditions") or ()
        if each["type"].startswith(CONTROLLERS_CONDITION)
    ]
