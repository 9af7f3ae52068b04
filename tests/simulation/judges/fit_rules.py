"""At rest, no job waits that fits: on the nodes as they are, and within what its Queue deserves.

The check is careful: pods that differ are tried on all nodes, up to a limit, or else each counts as
large as the largest of them; gangs with terms that it can't judge (affinity, ports, roles,
sub-groups) are left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.simulation.judges import amounts, devices, objects, packing, volume_fit
from tests.simulation.judges.amounts import Amounts
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.history import Finding, Object, Settings
from tests.simulation.judges.packing import Packing, Pod
from tests.simulation.judges.volume_fit import Storage

RULE = "every gang that fits runs"
SPECIAL_POD = (
    *("affinity", "topologySpreadConstraints", "schedulingGates", "resourceClaims", "hostNetwork"),
    *("runtimeClassName", "overhead"),
)
SPECIAL_ANNOTATIONS = ("volcano.sh/", "scheduling.volcano.sh/group-min-resources")
"""Prefixes of annotations that may make a pod special, or unusable."""

HARMLESS = "volcano.sh/preemptable"
UNBINDABLE = "simulation/unbindable"
"""Label of pods whose bindings an admission policy denies."""
PACKED_MAX = 10
"""Up to so many pods that differ, all nodes are tried for them."""
SPECIAL_GROUP = ("minTaskMember", "subGroupPolicy", "networkTopology")


def gangs_run(
    cluster: Cluster,
    at: float,
    settings: Settings,
    *,
    admitted: bool = False,
    ended: bool = False,
) -> Iterator[Finding]:
    """Every gang that fits runs; a gang without a minimum, and a pod alone, runs at least one pod.

    With `admitted`, only gangs count that don't wait for room for all their minResources at once.
    Before the run has `ended`, gangs may wait for claims that others are to bind.
    """
    free = _free(cluster, settings)
    storage = Storage(cluster)
    for group, members in _jobs(cluster):
        waiting = [pod for pod in members if _waits(pod, settings)]
        placed = sum(map(objects.counts, members))
        need = max(1, objects.minimum(group)) - placed
        if not 0 < need <= len(waiting) or not _is_simple(group, members):
            continue
        if admitted and group.get("status", {}).get("phase", "Pending") == "Pending":
            continue
        asked = _largest(waiting, cluster)
        limit = _queue_room(group, waiting, cluster, settings)
        if limit is None:
            continue
        if any(map(volume_fit.uses_volumes, members)):
            if ended or volume_fit.is_settled(waiting, cluster):
                where = ", ".join(_packed(waiting, need, free, limit, storage))
                yield from _told(group, need, where, at)
            continue
        spots = {
            name: _times(room, asked)
            for name, (node, room) in free.items()
            if not any(objects.barriers(pod["spec"], node) for pod in waiting)
        }
        within = all(need * asked[name] <= most for name, most in limit.items())
        where = ", ".join(name for name, count in spots.items() if count)
        if not (within and sum(spots.values()) >= need):
            where = ", ".join(_packed(waiting, need, free, limit, storage))
        yield from _told(group, need, where, at)


def _jobs(cluster: Cluster) -> Iterator[tuple[Object, Sequence[Object]]]:
    """Iterate over PodGroups and their pods. A pod alone is a gang of one, admitted at once."""
    for group in cluster.all("podgroups"):
        yield group, list(cluster.members[objects.key_of(group)].values())
    for pod, queue in cluster.lone_pods:
        if queue:
            spec = {"queue": queue, "minMember": 1}
            yield {**pod, "spec": spec, "status": {"phase": "Inqueue"}}, [pod]


def _told(group: Object, need: int, where: str, at: float) -> Iterator[Finding]:
    if where:
        name = objects.label(objects.key_of(group))
        message = f"job {name} waits for {need} more pods, and they fit on {where}"
        yield Finding(at=at, rule=RULE, message=message)


def _packed(
    waiting: Sequence[Object],
    count: int,
    free: Mapping[str, tuple[Object, Amounts]],
    limit: Mapping[str, int],
    storage: Storage,
) -> Sequence[str]:
    """The nodes on which so many pods fit that aren't alike; none if that can't be seen easily."""
    needs = storage.needs(waiting)
    if len(waiting) > PACKED_MAX or needs is None:
        return ()
    asked = dict.fromkeys(name for need in needs for name in need.asked)
    rooms = {name: room | storage.room(name, asked) for name, (_, room) in free.items()}
    pods = []
    for pod, needed in zip(waiting, needs, strict=True):
        wanted = storage.cluster.request(pod) + needed.asked
        usable = frozenset(
            name
            for name, (node, _) in free.items()
            if name in needed.nodes
            and packing.has_room(rooms[name], limit, wanted)
            and not objects.barriers(pod["spec"], node)
        )
        pods.append(Pod(asked=wanted, nodes=usable))
    if sum(bool(pod.nodes) for pod in pods) < count:
        return ()
    pods.sort(key=lambda pod: sorted(pod.asked.items()), reverse=True)
    # A node without room for any pod gets none while pods are placed.
    useful = frozenset[str]().union(*(pod.nodes for pod in pods))
    rooms = {name: room for name, room in rooms.items() if name in useful}
    attempt = Packing(rooms, limit)
    return sorted(free) if attempt.takes(pods, count) else ()


@objects.once
def is_plain(pod: Object) -> bool:
    """Whether a pod can be bound, and is usual.

    A pod whose bindings are denied keeps its place in the daemon's figures, between two attempts.
    """
    return UNBINDABLE not in objects.labels(pod) and is_usual(pod)


@objects.once
def is_usual(pod: Object) -> bool:
    """Whether a pod's requests, selector and tolerations are all that it asks for."""
    return _asks_little(pod) and not any(
        {"persistentVolumeClaim", "ephemeral", "csi"} & each.keys()
        for each in pod["spec"].get("volumes") or ()
    )


def _asks_little(pod: Object) -> bool:
    """Whether a pod's requests, selector, tolerations and volumes are all that it asks for."""
    spec = pod["spec"]
    if any(spec.get(name) for name in SPECIAL_POD) or devices.asks_by_name(pod):
        return False
    names = objects.annotations(pod)
    if any(name.startswith(SPECIAL_ANNOTATIONS) and name != HARMLESS for name in names):
        return False
    return not any(
        "hostPort" in port for each in spec["containers"] for port in each.get("ports") or ()
    )


def _is_simple(group: Object, members: Sequence[Object]) -> bool:
    spec = group.get("spec") or {}
    if objects.leaving(group) or any(spec.get(name) for name in SPECIAL_GROUP):
        return False
    return all(
        UNBINDABLE not in objects.labels(pod) and _asks_little(pod) for pod in members
    ) and not any("csi" in each for pod in members for each in pod["spec"].get("volumes") or ())


def _waits(pod: Object, settings: Settings) -> bool:
    """Whether the daemon has to find a node for a pod."""
    if objects.node_of(pod) or objects.leaving(pod) or objects.ended(pod):
        return False
    return objects.scheduler_of(pod) in settings.schedulers


def _kept(pods: Iterable[Object], cluster: Cluster, settings: Settings) -> Amounts:
    """What pods whose bindings are denied may keep between two attempts, on whichever node."""
    total: Amounts = Counter()
    for pod in pods:
        if UNBINDABLE in objects.labels(pod) and _waits(pod, settings):
            total.update(cluster.request(pod))
    return total


def _largest(pods: Sequence[Object], cluster: Cluster) -> Amounts:
    """The most that any of the pods asks for, by resource."""
    most: Amounts = Counter()
    for pod in pods:
        most |= cluster.request(pod)
    return most


def _free(cluster: Cluster, settings: Settings) -> Mapping[str, tuple[Object, Amounts]]:
    """What is free on each node, without what other schedulers nominated pods for, and without what
    pods whose bindings are denied may keep.

    A node whose kubelet has refused a pod is left out: the daemon avoids it for a while.
    """
    kept = _kept(cluster.all("pods"), cluster, settings)
    nominated: dict[str, Amounts] = {}
    refusing = set()
    for pod in cluster.all("pods"):
        status = pod.get("status") or {}
        if objects.phase(pod) == "Failed" and status.get("reason"):
            refusing.add(objects.node_of(pod))
        name = status.get("nominatedNodeName")
        if name and not objects.node_of(pod) and not _waits(pod, settings):
            nominated.setdefault(name, Counter()).update(cluster.request(pod))
    found = {}
    for node in cluster.all("nodes"):
        name = node["metadata"]["name"]
        if name not in refusing:
            room = amounts.amounts((node.get("status") or {}).get("allocatable"))
            room.subtract(cluster.used[name])
            room.subtract(nominated.get(name, {}))
            room.subtract(kept)
            found[name] = node, room
    return found


def _times(room: Amounts, asked: Amounts) -> int:
    """How many pods that ask for so much fit."""
    return max(0, min(room[name] // amount for name, amount in asked.items() if amount))


def _queue_room(
    group: Object, waiting: Sequence[Object], cluster: Cluster, settings: Settings
) -> Mapping[str, int] | None:
    """How much more the group's Queue may have, by its limits and its stored share; None if it may
    have nothing, or that can't be told.

    A part of a device in a share is of no use. A group is admitted for its minResources, so it may
    wait if they are more than its smallest pods ask for: a pod that is no member of the group's
    owner can join it.
    """
    asked = _largest(waiting, cluster)
    name = objects.queue_of(group, settings.default_queue)
    queue = cluster.get("queues", ("", name))
    if queue is None or objects.leaving(queue):
        return None
    status = queue.get("status") or {}
    if status.get("state", "Open") != "Open" or "deserved" not in status:
        return None
    if "vscheduler.io/namespaces" in objects.annotations(queue):
        return None
    held = cluster.held(name)
    for other in cluster.groups_of(name):
        held.update(_kept(cluster.members[objects.key_of(other)].values(), cluster, settings))
    alone = [each.pod for each in cluster.lone_pods if each.queue == name]
    held.update(_kept(alone, cluster, settings))
    wanted = amounts.amounts((group.get("spec") or {}).get("minResources"))
    for resource, amount in wanted.items():
        least = min(cluster.request(pod)[resource] for pod in waiting)
        if amount > objects.minimum(group) * least:
            return None
    left: dict[str, int] = {}
    for each in (
        (queue.get("spec") or {}).get("capability"),
        status["deserved"],
        status.get("realCapability"),
    ):
        for resource, most in amounts.amounts(each, down=True).items():
            if asked[resource]:
                room = most - held[resource]
                left[resource] = min(room, left.get(resource, room))
    return left
