"""At rest, somebody leads, nothing waits for a finalizer of the daemon, and nobody writes."""

import bisect
from collections.abc import Iterator, Sequence

from tests.simulation.judges import lease_rules, objects
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.history import Change, Finding, Settings, ours, served

FINALIZER = "vscheduler.io/"
SHOWN = 3
TOGETHER_SECONDS = 2.0
"""Within how many seconds the writes of a cycle leave, in any order."""


def somebody_leads(
    history: Sequence[Change], cluster: Cluster, at: float, settings: Settings
) -> Iterator[Finding]:
    """Each Lease has a holder that has renewed it within its duration."""
    renewed = {
        change.name: change.at
        for change in history
        if change.resource == "leases" and served(change) and ours(change)
    }
    leases = {each["metadata"]["name"]: each for each in cluster.all("leases")}
    for name in (*settings.schedulers, settings.controllers_lease):
        lease = leases.get(name)
        if lease is None or not lease_rules.holder(lease):
            yield Finding(at=at, rule="somebody leads", message=f"nobody holds Lease {name}")
            continue
        seconds = at - renewed.get(name, float("-inf"))
        if seconds > float(lease["spec"].get("leaseDurationSeconds") or 0):
            message = f"Lease {name} was renewed {seconds:.0f} s ago"
            yield Finding(at=at, rule="somebody leads", message=message)


def finalizers_are_gone(cluster: Cluster, at: float) -> Iterator[Finding]:
    """No object waits for a finalizer of the daemon, but Queues that are in use."""
    queues = list(cluster.all("queues"))
    parents = {(queue.get("spec") or {}).get("parent") or "root" for queue in queues}
    for resource in ("pods", "podgroups", "queues", "jobs", "replicasets", "statefulsets"):
        for each in cluster.all(resource):
            names = each["metadata"].get("finalizers") or ()
            kept = [name for name in names if name.startswith(FINALIZER)]
            if not kept or not objects.leaving(each):
                continue
            name = each["metadata"]["name"]
            in_use = resource == "queues" and (
                name in parents or cluster.in_use(name) or _is_unclear(cluster)
            )
            if not in_use:
                key = objects.label(objects.key_of(each))
                message = f"{resource} {key} waits for {', '.join(kept)}"
                yield Finding(at=at, rule="finalizers disappear", message=message)


def _is_unclear(cluster: Cluster) -> bool:
    """Whether a pod without a PodGroup may be in any Queue."""
    return any(not each.queue for each in cluster.lone_pods)


def queues_are_held(cluster: Cluster, at: float) -> Iterator[Finding]:
    """Each Queue with PodGroups has a finalizer of the daemon, so that it can't go before them."""
    for queue in cluster.all("queues"):
        name = queue["metadata"]["name"]
        held = any(each.startswith(FINALIZER) for each in queue["metadata"].get("finalizers") or ())
        if not held and not objects.leaving(queue) and cluster.in_use(name):
            message = f"Queue {name} has jobs, and no finalizer"
            yield Finding(at=at, rule="Queues in use are held", message=message)


def writes_cease(history: Sequence[Change], since: float, settings: Settings) -> Iterator[Finding]:
    """The daemon writes nothing but Leases, once others have been quiet for a while.

    Apart from rare writes, as often as the settings allow, and from what follows when an admission
    that nobody uses comes to its end, and others get their turn. What is written within a turn
    counts once: many are told when one loses its admission and gets it back, which isn't written.
    """
    busy = float("-inf")
    found: list[Change] = []
    turns = _turns(history, settings)
    for change in history:
        if not ours(change):
            busy = busy if _means_nothing(change) else change.at
        elif change.resource != "leases" and change.at >= max(since, busy + settings.calm_seconds):
            at = bisect.bisect_right(turns, change.at + TOGETHER_SECONDS)
            if not at or change.at - turns[at - 1] > settings.turn_seconds:
                found.append(change)
    if found and _bursts(found, settings) > (found[-1].at - since) / settings.late_write_seconds:
        shown = "; ".join(_told(change) for change in found[-SHOWN:])
        message = f"{len(found)} writes at rest, the last of them: {shown}"
        yield Finding(at=found[0].at, rule="writes cease", message=message)


def _bursts(found: Sequence[Change], settings: Settings) -> int:
    """How many turns the writes would fill."""
    count, until = 0, float("-inf")
    for change in found:
        if change.at > until:
            count, until = count + 1, change.at + settings.turn_seconds
    return count


def _turns(history: Sequence[Change], settings: Settings) -> list[float]:
    """When PodGroups were admitted, or lost their admissions, neither of them too soon again."""
    found: list[float] = []
    last: dict[tuple[str, str], float] = {}
    for change in history:
        if change.resource != "podgroups" or not served(change) or not ours(change):
            continue
        before, after = change.before, change.after
        if before is None or after is None or objects.phase(before) == objects.phase(after):
            continue
        phase = objects.phase(after)
        if phase in ("Pending", "Inqueue"):
            key = change.uid, phase
            if change.at - last.get(key, float("-inf")) >= settings.admission_seconds:
                found.append(change.at)
            last[key] = change.at
    return found


def last_news(history: Sequence[Change]) -> float:
    """When somebody other than the daemon last changed something."""
    news = (each.at for each in reversed(history) if not ours(each) and not _means_nothing(each))
    return next(news, float("-inf"))


def _means_nothing(change: Change) -> bool:
    """Whether a write is a heartbeat, or was refused."""
    if not served(change) or change.resource == "leases":
        return True
    if change.resource != "nodes" or change.before is None or change.after is None:
        return False
    known = [each.get("status") or {} for each in (change.before, change.after)]
    ready = [objects.ready(each) for each in (change.before, change.after)]
    same = known[0].get("allocatable") == known[1].get("allocatable") and ready[0] == ready[1]
    same = same and objects.labels(change.before) == objects.labels(change.after)
    return same and change.before["spec"] == change.after["spec"]


def _told(change: Change) -> str:
    return f"{change.origin} {objects.request(change)} ({change.code})"
