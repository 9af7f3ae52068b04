"""What must be true of a world that has come to rest: judged once, on its last quiet cycle.

Nothing moves then: no pod is on its way out, no bind is refused, every queue is open, and nothing
changes from outside. So whoever still waits, waits for ever. Not in Volcano's way.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from tests.properties.filters_by_hand import judging as by_hand
from tests.properties.filters_by_hand import worlds as worlds_by_hand
from tests.properties.filters_by_hand.judging import Step
from tests.properties.filters_by_hand.worlds import Instant, State, World
from tests.properties.worlds import census as censuses
from tests.properties.worlds import (
    claim_rules,
    eviction_rules,
    gang_rules,
    manifests,
    placement_rules,
    sentence_case,
)
from tests.properties.worlds.census import Amounts, Census
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Judge, Moment
from tests.properties.worlds.sentence_case import Case

TRIES = 400
"""Nodes that are tried for one job; a job that needs more counts as one that can't start."""

VICTIMS_MAX = 3
"""How many pods are looked at that go together."""

CANDIDATES_MAX = 10
"""How many pods are looked at that could go, for one job."""

ROOT = "root"
OVERCOMMIT = "overcommit"
ANYBODY: Document = {"spec": {"containers": []}, "status": {}}
"""A pod without constraints."""
LIMITED = frozenset({"proportion", "capacity"})
"""Plugins under which queues have capabilities and guarantees."""


def nothing_is_idle(moment: Moment) -> Iterable[str]:
    """No pod waits that free resources fit, within capabilities and the guarantees of others, if
    its group's minResources may be promised at all.
    """
    if moment.setting.volcano:
        return
    for group, pods in waiting(moment):
        may_start = within_limits(moment, group, pods) and may_be_admitted(moment, group)
        if may_start and starts(moment, pods):
            yield f"IDLE {group} waits, although {_names(pods)} would start on what is free"


def reclaim_serves_who_is_owed(moment: Moment) -> Iterable[str]:
    """No job waits that keeps its queue within its share, while pods above their queues' shares
    could go for it, each alone and without harm to its own job. Nobody is evicted for pods that ask
    for nothing, or whose preemptionPolicy is Never.
    """
    if moment.setting.volcano or eviction_rules.BETWEEN not in moment.setting.actions:
        return
    for group, pods in waiting(moment):
        queue = moment.census.groups[group]["spec"]["queue"]
        if not all(map(_preempts, pods)):
            continue
        if not (_is_owed(moment, queue, pods) and within_limits(moment, group, pods, free=False)):
            continue
        candidates = [
            pod for pod in _evictable(moment) if moment.census.queue_of(pod) not in (queue, None)
        ]
        for victims in _sets(candidates):
            if (
                _stay_whole(moment, victims)
                and _losers_keep(moment, pods, victims)
                and starts(moment, pods, victims)
            ):
                yield (
                    f"OWED {group} waits within the share of {queue}, although {_names(pods)}"
                    f" would start without {_names(victims)}"
                )
                break


def preempt_serves_who_is_important(moment: Moment) -> Iterable[str]:
    """No job waits while less important pods of its own queue could go for it, each alone, that
    ask for no less than it does. Nobody is evicted for pods that ask for nothing.
    """
    if moment.setting.volcano or eviction_rules.WITHIN not in moment.setting.actions:
        return
    for group, pods in waiting(moment):
        spec = moment.census.groups[group]["spec"]
        if not all(map(_preempts, pods)):
            continue
        own = _priority(moment, group)
        candidates = [
            pod
            for pod in _evictable(moment)
            if moment.census.queue_of(pod) == spec["queue"]
            and _priority(moment, censuses.group_of(pod)) < own
        ]
        for victims in _sets(candidates):
            if (
                _less(pods, victims)
                and _stay_whole(moment, victims)
                and starts(moment, pods, victims)
            ):
                yield (
                    f"OUTRANKED {group} of priority {own} waits, although {_names(pods)} would"
                    f" start without {_names(victims)}"
                )
                break


class Promised:
    """For whom pods were evicted, until one of its pods is bound."""

    def __init__(self) -> None:
        self._gone: dict[str, list[str]] = {}
        """The pods that were evicted for a group."""

    def note(self, moment: Moment) -> None:
        """Read a cycle's decisions."""
        for group in moment.bound:
            self._gone.pop(group, None)
        for evict in moment.evicts:
            if evict.action in (eviction_rules.BETWEEN, eviction_rules.WITHIN):
                self._gone.setdefault(evict.beneficiary or "", []).append(evict.pod)

    def unserved(self, moment: Moment) -> Iterable[str]:
        """Whoever pods were evicted for has got one of its own bound."""
        if moment.setting.volcano:
            return
        for group, pods in self._gone.items():
            yield f"UNSERVED {group} waits at rest; evicted for it: {', '.join(pods)}"


RULES: tuple[Judge, ...] = (
    nothing_is_idle,
    reclaim_serves_who_is_owed,
    preempt_serves_who_is_important,
    claim_rules.nothing_is_kept_in_vain,
)
"""Judges of rest; each reads the moment as those of any cycle do."""


def starts(
    moment: Moment,
    pods: Sequence[Document],
    without: Sequence[Document] = (),
) -> bool:
    """Whether all these pods find nodes, one after another, once others have gone; by trying all
    nodes for each, up to TRIES in all.
    """
    census = moment.census
    gone = set(map(censuses.pod_key, without))
    documents = [
        *census.nodes.values(),
        *(pod for key, pod in census.pods.items() if key not in gone),
        *census.others,
    ]
    kept = {each.node for each in moment.kept}
    names = [name for name in sorted(census.nodes) if name not in kept]
    tries = itertools.count()

    def place(world: World, left: Sequence[Document]) -> bool:
        if not left:
            return True
        for name in names:
            if next(tries) > TRIES:
                return False
            if any(by_hand.refusals(world, left[0], name, Instant.NOW, ordered=True)):
                continue
            step = Step(pod=censuses.pod_key(left[0]), node=name, state=State.STAYS)
            if place(by_hand.taken(world, step), left[1:]):
                return True
        return False

    return place(worlds_by_hand.world(documents), pods)


def within_limits(
    moment: Moment,
    group: str,
    pods: Sequence[Document],
    *,
    free: bool = True,
) -> bool:
    """Whether the queue and those above it may have these pods as well, and what is free is enough
    with what is left of the guarantees of other queues set aside: on nodes that some pod could use.
    """
    census = moment.census
    if not moment.setting.plugins & LIMITED:
        return True
    queue = census.groups[group]["spec"]["queue"]
    asks = censuses.limited(pods)
    line = list(_line(census, queue))
    for name in line:
        limits = censuses.amounts(census.queues[name]["spec"].get("capability", {}))
        has = _allocated_below(census, name) + _unused_below(census, name, line)
        if any(has[each] + asks[each] > limit for each, limit in limits.items()):
            return False
    others: Counter[str] = Counter()
    for name, document in census.queues.items():
        if name not in line:
            kept = censuses.amounts(document["spec"].get("guarantee", {}).get("resource", {}))
            others.update(kept - _allocated_below(census, name) if free else kept)
    room = _room(census, free=free)
    if free and "proportion" in moment.setting.plugins and not _fit_beside(census, queue, pods):
        return False
    return all(asks[each] <= room[each] - amount for each, amount in others.items())


def _fit_beside(census: Census, queue: str, pods: Sequence[Document]) -> bool:
    """Whether the nodes of these pods have enough free for guarantees of other queues, too, as far
    as these need just these nodes. A queue of which no pod may start has the nodes that anybody
    may use.
    """
    free = {
        name: censuses.amounts(node["status"]["allocatable"]) - _sum(census.residents[name])
        for name, node in census.nodes.items()
    }
    mine, asks = _nodes_of(census, pods), censuses.limited(pods)
    needed: Amounts = Counter()
    for name, document in census.queues.items():
        guarantee = censuses.amounts(document["spec"].get("guarantee", {}).get("resource", {}))
        unused = guarantee - census.allocated(name)
        if name == queue or not unused:
            continue
        members = [
            pod
            for pod in census.pods.values()
            if census.queue_of(pod) == name and not pod["spec"].get("schedulingGates")
        ]
        theirs = _nodes_of(census, members or [ANYBODY])
        for resource, amount in unused.items():
            elsewhere = sum(free[node][resource] for node in theirs - mine)
            common = sum(free[node][resource] for node in theirs & mine)
            needed[resource] += min(max(amount - elsewhere, 0), common)
    return all(
        asks[resource] <= sum(free[node][resource] for node in mine) - amount
        for resource, amount in needed.items()
        if amount
    )


def _nodes_of(census: Census, pods: Iterable[Document]) -> set[str]:
    """The nodes that one of these pods could use."""
    return {
        name
        for pod in pods
        for name, node in census.nodes.items()
        if placement_rules.could_use(node, pod)
    }


def may_be_admitted(moment: Moment, group: str) -> bool:
    """Whether its queue and those above may have its minResources, which may be more than its pods
    ask for, and the nodes that its pods may use have them to promise: what is free there and a
    fifth of what they have, however much of it is promised to others.
    """
    asked = moment.census.groups[group]["spec"].get("minResources", {})
    phase = moment.census.groups[group]["status"]["phase"]
    if phase != "Pending" or "enqueue" not in moment.setting.actions:
        return True
    case = Case.of(moment, group, "")
    if moment.setting.plugins & LIMITED and not _may_have(case, asked):
        return False
    if OVERCOMMIT not in moment.setting.plugins:
        return True
    nodes = {name for pod in case.pods for name in sentence_case.usable(case, pod)}
    promise: Counter[str] = Counter()
    for name in nodes:
        promise.update(case.free(name))
        for resource, amount in case.census.offered(name).items():
            promise[resource] += amount // 5
    return all(case.least_lacking(name) <= promise[name] + 1 for name in asked)


def _may_have(case: Case, asked: Iterable[str]) -> bool:
    """Whether minResources are within the capabilities of the queue and of those above it."""
    census = case.census
    for name in _line(census, case.spec["queue"]):
        limits = censuses.amounts(census.queues[name]["spec"].get("capability", {}))
        has = _allocated_below(census, name)
        if any(has[each] + case.least_lacking(each) > limits.get(each, inf) for each in asked):
            return False
    return True


def waiting(moment: Moment) -> Iterator[tuple[str, list[Document]]]:
    """Each group that waits, with the pods that must start together: as many as it lacks, or one
    more; all that wait where it has roles or sub-groups, but for those of incomplete sub-groups.
    """
    census = moment.census
    for group, document in census.groups.items():
        members = census.members[group]
        pods = sorted(filter(censuses.waits, members), key=_size)
        if not pods or document["spec"]["queue"] not in census.queues:
            continue
        has, gone = [pod for pod in members if censuses.counts(pod)], census.gone(group)
        if {"minTaskMember", "subGroupPolicy"} & document["spec"].keys():
            pods = [pod for pod in pods if gang_rules.is_whole(document, pod, [*has, *pods])]
            if pods and not list(gang_rules.lacking(document, [*has, *pods], gone)):
                yield group, pods
            continue
        lacks = document["spec"]["minMember"] - len(has) - gone
        if lacks <= len(pods):
            yield group, _with_bearers(Case.of(moment, group, ""), pods, max(1, lacks))


def _with_bearers(case: Case, pods: Sequence[Document], count: int) -> list[Document]:
    """The first so many of these pods; where they share a claim that isn't allocated, with the one
    for which the claim counts, as it starts before all others: the first that a node is there for.
    """
    case.strict = True
    unallocated = {
        each["metadata"]["name"]
        for each in case.census.others
        if each["kind"] == claim_rules.DEVICES and "allocation" not in each["status"]
    }
    wanted = set().union(*map(censuses.shared, pods[:count])) & unallocated
    users = ([pod for pod in pods if name in censuses.shared(pod)] for name in sorted(wanted))
    bearers = [min(each, key=lambda pod: (not _could_run(case, pod), _rank(pod))) for each in users]
    others = [pod for pod in pods if pod not in bearers]
    return [*bearers, *others][: max(count, len(bearers))]


def _could_run(case: Case, pod: Document) -> bool:
    """Whether a node has what the pod needs if nobody else is there."""
    nodes = (case.census.nodes[name] for name in sentence_case.usable(case, pod))
    return any(sentence_case.is_large(node, pod) for node in nodes)


def _rank(pod: Document) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    return (-pod["spec"].get("priority", 0), metadata["creationTimestamp"], metadata["uid"])


def _line(census: Census, queue: str) -> Iterator[str]:
    """The queue, and those above it that exist."""
    seen: set[str] = set()
    name: str | None = queue
    while name in census.queues and name not in seen:
        seen.add(name)
        yield name
        name = census.queues[name]["spec"].get("parent", ROOT)


def _allocated_below(census: Census, queue: str) -> Amounts:
    total: Amounts = Counter()
    for name in census.queues:
        if queue in _line(census, name):
            total.update(census.allocated(name))
    return total


def _unused_below(census: Census, queue: str, line: Sequence[str]) -> Amounts:
    """What is kept, below a queue, for those that aren't on this line."""
    total: Amounts = Counter()
    for name, document in census.queues.items():
        if name not in line and queue in _line(census, name):
            guarantee = document["spec"].get("guarantee", {}).get("resource", {})
            total.update(censuses.amounts(guarantee) - _allocated_below(census, name))
    return total


def _room(census: Census, *, free: bool) -> Amounts:
    """What the nodes have that some pod of a queue could use, or what they have free."""
    pods = [pod for pod in census.pods.values() if census.queue_of(pod) in census.queues]
    total: Amounts = Counter()
    for name, node in census.nodes.items():
        if any(placement_rules.could_use(node, pod) for pod in pods):
            room = censuses.amounts(node["status"]["allocatable"])
            total.update(room - _sum(census.residents[name]) if free else room)
    return total


def _is_owed(moment: Moment, queue: str, pods: Sequence[Document]) -> bool:
    """Whether the queue stays within what it deserves with these pods."""
    due = moment.deserved.get(queue)
    if due is None:
        return False
    ends = moment.census.allocated(queue) + _sum(pods)
    return all(amount <= due.get(each, 0) for each, amount in ends.items() if each != "pods")


def _losers_keep(
    moment: Moment,
    pods: Sequence[Document],
    victims: Sequence[Document],
) -> bool:
    """Whether every loser keeps what it deserves, of all that its pods give."""
    for loser, gone in itertools.groupby(victims, moment.census.queue_of):
        given = list(gone)
        if moment.census.queues[loser or ""]["spec"].get("reclaimable") is False:
            return False
        left = Counter(moment.census.allocated(loser or ""))
        left.subtract(_sum(given))
        due = moment.deserved.get(loser or "", {})
        wanted = [each for each, amount in _sum(pods).items() if amount and each != "pods"]
        if any(left[each] < due.get(each, 0) for each in wanted):
            return False
    return True


def _evictable(moment: Moment) -> list[Document]:
    """Running pods that nothing protects, and that ask for something."""
    census = moment.census
    found = []
    for pods in census.residents.values():
        for pod in pods:
            group = census.groups.get(censuses.group_of(pod))
            if group is None or pod["metadata"]["namespace"] != manifests.NAMESPACE:
                continue
            marks = (pod["metadata"]["annotations"], group["metadata"].get("annotations", {}))
            protected = any(mark.get(manifests.PREEMPTABLE) == "false" for mark in marks)
            covered = any(censuses.covers(budget, pod) for budget in census.budgets)
            limited = {"minTaskMember", "subGroupPolicy"} & group["spec"].keys()
            runs = pod["status"]["phase"] == "Running" and not censuses.leaving(pod)
            asks = set(censuses.request(pod)) - {"pods"}
            if runs and asks and not (protected or covered or limited):
                found.append(pod)
    return sorted(found, key=censuses.pod_key)


def _sets(candidates: Sequence[Document]) -> Iterator[tuple[Document, ...]]:
    few = candidates[:CANDIDATES_MAX]
    for size in range(1, VICTIMS_MAX + 1):
        yield from itertools.combinations(few, size)


def _stay_whole(moment: Moment, victims: Sequence[Document]) -> bool:
    """Whether every loser's job keeps its minimum, or was a single pod."""
    gone = Counter(map(censuses.group_of, victims))
    for group, count in gone.items():
        standing = moment.census.standing(group)
        minimum = moment.census.groups[group]["spec"]["minMember"]
        if standing - count < minimum and not standing == count == 1:
            return False
    return True


def _priority(moment: Moment, group: str) -> int:
    name = moment.census.groups[group]["spec"].get("priorityClassName", "")
    return int(name.partition("-")[2] or 0)


def _sum(pods: Iterable[Document]) -> Amounts:
    return censuses.total(pods)


def _preempts(pod: Document) -> bool:
    return _asks(pod) and pod["spec"].get("preemptionPolicy") != "Never"


def _asks(pod: Document) -> bool:
    """Whether it asks for anything but its slot."""
    return bool(set(censuses.request(pod)) - {"pods"})


def _less(pods: Sequence[Document], others: Sequence[Document]) -> bool:
    have = _sum(others)
    return all(amount <= have[each] for each, amount in _sum(pods).items())


def _size(pod: Document) -> tuple[int, str]:
    return censuses.request(pod)["cpu"], censuses.pod_key(pod)


def _names(pods: Iterable[Document]) -> str:
    return ", ".join(map(censuses.pod_key, pods))
