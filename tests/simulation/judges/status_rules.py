"""At rest, the statuses of PodGroups and Queues say what is there."""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.simulation.judges import amounts, objects
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.fit_rules import is_plain, is_usual
from tests.simulation.judges.history import Finding, Object, Settings

RULE = "statuses are true"
COUNTERS = ("pending", "inqueue", "running", "unknown", "completed")
STARTED = ("Running", "Unknown")
WANTED_STATE = "vscheduler.io/wanted-state"


def groups_are_true(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """Phase and counts of each PodGroup with pods that the daemon can use."""
    for group in cluster.all("podgroups"):
        key = objects.key_of(group)
        queue = cluster.get("queues", ("", objects.queue_of(group, settings.default_queue)))
        look = functools.partial(
            _group_problems, group, cluster, settings, is_queued=queue is not None
        )
        for problem in cluster.once(key, "true", look, queue is not None):
            yield Finding(at=at, rule=RULE, message=f"PodGroup {objects.label(key)} {problem}")


def groups_have_their_minimum(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """A PodGroup that is Scheduled has its minimum: pods with nodes, or done, deleted since or not.

    Whatever keeps the others from their nodes. Pods that leave may be the last of a gang, of which
    nobody has to say anything any more.
    """
    for group in cluster.all("podgroups"):
        key = objects.key_of(group)
        look = functools.partial(_lacking, group, cluster, settings)
        for problem in cluster.once(key, "minimum", look):
            yield Finding(at=at, rule=RULE, message=f"PodGroup {objects.label(key)} {problem}")


def _lacking(group: Object, cluster: Cluster, settings: Settings) -> list[str]:
    """What a PodGroup that is Scheduled lacks of its minimum."""
    key = objects.key_of(group)
    members = list(cluster.members[key].values())
    names = {objects.scheduler_of(pod) for pod in members}
    if len(names) != 1 or not names <= set(settings.schedulers):
        return []
    if not all(map(is_usual, members)) or any(map(objects.leaving, members)):
        return []
    if all(map(objects.ended, members)):  # nothing waits, even if some have failed
        return []
    conditions = (group.get("status") or {}).get("conditions") or ()
    said = any(
        condition["type"] == "Scheduled" and condition["status"] == "True"
        for condition in conditions
    )
    has, minimum = cluster.gone[key] + sum(map(objects.counts, members)), objects.minimum(group)
    return [f"has {has} of {minimum} pods, and is Scheduled"] if said and has < minimum else []


def _group_problems(
    group: Object, cluster: Cluster, settings: Settings, *, is_queued: bool
) -> list[str]:
    """What a PodGroup's status says wrongly, if its pods are such that the daemon can use them."""
    key = objects.key_of(group)
    members = list(cluster.members[key].values())
    names = {objects.scheduler_of(pod) for pod in members}
    if not names and objects.annotations(group).get(objects.SCHEDULER) in settings.schedulers:
        names = set(settings.schedulers[:1])
    if len(names) != 1 or not names <= set(settings.schedulers):
        return []
    if not all(map(is_plain, members)):
        return []
    wrong = list(_wrong_counts(group, members))
    return [*wrong, *_wrong_phase(group, members, cluster.gone[key])] if is_queued else wrong


def _wrong_counts(group: Object, members: Sequence[Object]) -> Iterator[str]:
    """Pods that have succeeded count on after they are gone."""
    count: Counter[str] = Counter()
    for pod in members:
        if objects.ended(pod) or not objects.leaving(pod):
            count[objects.phase(pod).lower()] += 1
    status = group.get("status") or {}
    for name in ("running", "succeeded", "failed"):
        says = status.get(name) or 0
        if says < count[name] or (says > count[name] and name != "succeeded"):
            yield f"has {count[name]} {name} pods, and its status says {says}"


def _wrong_phase(group: Object, members: Sequence[Object], gone: int) -> Iterator[str]:
    if not members:
        return
    minimum = objects.minimum(group)
    right = sorted({*phases(members, minimum), *phases(members, max(0, minimum - gone))})
    if objects.phase(group) not in right:
        yield f"is {' or '.join(right)}, and its status says {objects.phase(group)}"


def phases(members: Sequence[Object], minimum: int) -> Sequence[str]:
    """The phases that a PodGroup with these pods may have. If all have ended, nothing waits, even
    if the minimum has been raised since.
    """
    if all(map(objects.ended, members)):
        return ["Completed"]
    runs = any(objects.phase(pod) == "Running" and not objects.leaving(pod) for pod in members)
    unknown = ["Unknown"] if runs and sum(map(objects.counts, members)) < minimum else []
    scheduled = sum(bool(objects.node_of(pod)) or objects.ended(pod) for pod in members)
    if scheduled < max(1, minimum):
        return unknown or ["Pending", "Inqueue"]
    return ["Running", *unknown]


def queues_are_true(cluster: Cluster, at: float) -> Iterator[Finding]:
    """State, counts and allocated resources of each Queue."""
    for queue in cluster.all("queues"):
        name = queue["metadata"]["name"]
        groups = list(cluster.groups_of(name))
        jobs = [*groups, *(each.pod for each in cluster.lone_pods if each.queue == name)]
        problems = [
            *_state_problems(queue, jobs, cluster),
            *_count_problems(queue, groups, cluster),
            *_allocated_problems(queue, cluster),
        ]
        yield from (
            Finding(at=at, rule=RULE, message=f"Queue {name} {problem}") for problem in problems
        )


def _unclear(cluster: Cluster) -> Sequence[Object]:
    """The pods without a PodGroup whose annotations may put them into any Queue."""
    return [each.pod for each in cluster.lone_pods if not each.queue]


def _state_problems(queue: Object, jobs: Sequence[Object], cluster: Cluster) -> Iterator[str]:
    state = (queue.get("status") or {}).get("state")
    wanted = objects.annotations(queue).get(WANTED_STATE)
    if state not in ("Open", "Closing", "Closed"):
        yield f"has state {state}"
    if state == "Closing" and not jobs and not _unclear(cluster):
        yield "is Closing without jobs"
    if state == "Closed" and jobs:
        yield f"is Closed with {len(jobs)} jobs"
    closed = wanted == "Closed" or objects.leaving(queue)
    if closed and state == "Open" and queue["metadata"]["name"] != "root":
        yield "is Open, and should be closed"
    above = (queue.get("spec") or {}).get("parent") not in (None, "", "root")
    if wanted == "Open" and state != "Open" and not above and not objects.leaving(queue):
        yield f"is {state}, and should be Open"


def _count_problems(queue: Object, groups: Sequence[Object], cluster: Cluster) -> Iterator[str]:
    count = Counter(
        cluster.once(objects.key_of(group), "counter", functools.partial(_counter, group, cluster))
        for group in groups
    )
    own = queue["metadata"]["name"]
    count.update(_phase_of(pod) for pod, name in cluster.lone_pods if name == own)
    more = Counter(map(_phase_of, _unclear(cluster)))
    status = queue.get("status") or {}
    for name in COUNTERS:
        if not count[name] <= (status.get(name) or 0) <= count[name] + more[name]:
            yield f"has {count[name]} {name} jobs, and its status says {status.get(name)}"


def _phase_of(pod: Object) -> str:
    """Where a pod counts that is a job by itself."""
    if objects.ended(pod):
        return "completed"
    return "running" if objects.node_of(pod) else "pending"


def _counter(group: Object, cluster: Cluster) -> str:
    """Where a PodGroup counts: as its status says, unless its pods say otherwise."""
    members = cluster.members[objects.key_of(group)].values()
    phase = objects.phase(group)
    if phase in STARTED and not any(map(objects.node_of, members)):
        return "pending"
    if phase == "Completed" and any(map(objects.holds, members)):
        return "running"
    return phase.lower()


def _are_plain(pods: Mapping[Key, Object]) -> bool:
    return all(map(is_plain, pods.values()))


def _with_below(name: str, cluster: Cluster) -> list[str]:
    """The Queue and those below it. Below root is whatever isn't below another Queue."""
    parents = {
        each["metadata"]["name"]: (each.get("spec") or {}).get("parent") or "root"
        for each in cluster.all("queues")
    }
    found = []
    for each in cluster.all("queues"):
        way, at = list[str](), each["metadata"]["name"]
        while at in parents and at not in way:
            way.append(at)
            at = parents[at]
        if at in way:  # what is below itself is placed below root
            del way[way.index(at) + 1 :]
        if name in (*way, "root"):
            found.append(way[0])
    return found


def _allocated_problems(queue: Object, cluster: Cluster) -> Iterator[str]:
    """What pods of the Queue and of all Queues below it have."""
    told = (queue.get("status") or {}).get("allocated")
    queues = _with_below(queue["metadata"]["name"], cluster)
    lone = [pod for pod, name in cluster.lone_pods if not name or name in queues]
    if not all(is_plain(pod) for pod in lone) or any(map(objects.holds, _unclear(cluster))):
        return
    groups = (group for name in queues for group in cluster.groups_of(name))
    for key in map(objects.key_of, groups):
        pods = cluster.members[key]
        if not cluster.once(key, "plain", functools.partial(_are_plain, pods)):
            return
    held, said = amounts.amounts({}), amounts.amounts(told)
    for name in queues:
        held.update(cluster.held(name))
    for resource in dict.fromkeys((*held, *said)):
        if resource != "pods" and held[resource] != said[resource]:
            has, says = (amounts.shown(resource, each[resource]) for each in (held, said))
            yield f"holds {has} {resource}, and its status says {says}"
