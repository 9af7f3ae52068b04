"""Who may be evicted, and what for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tests.properties.worlds import census as censuses
from tests.properties.worlds import gang_rules, manifests
from tests.properties.worlds.moments import Moment, Placement

BETWEEN = "reclaim"
WITHIN = "preempt"


def victims_can_go(moment: Moment) -> Iterable[str]:
    """They run on that node, stay so far, go once, and weren't bound in the same cycle."""
    bound = {each.pod for each in (*moment.binds, *moment.pipelined)}
    for name, times in Counter(evict.pod for evict in moment.evicts).items():
        if times > 1:
            yield f"AGAIN {name} is evicted {times} times"
    for evict in moment.evicts:
        pod = moment.census.pods[evict.pod]
        if pod["spec"].get("nodeName") != evict.node or censuses.finished(pod):
            yield f"GONE {evict.pod} isn't on {evict.node}"
        if censuses.leaving(pod):
            yield f"GONE {evict.pod} is being deleted already"
        if evict.pod in bound:
            yield f"BOTH {evict.pod} is placed and evicted in one cycle"


def protected_pods_stay(moment: Moment) -> Iterable[str]:
    """Pods, groups and queues that say no; and what the system needs.

    In Volcano's way an earlier tier that finds victims overrules a later one, and a plugin that
    finds none is no veto: there only what the actions ask holds.
    """
    for evict in moment.evicts:
        pod = moment.census.pods[evict.pod]
        if pod["metadata"]["annotations"].get(manifests.PREEMPTABLE) == "false":
            yield f"PROTECTED {evict.pod} says that it isn't preemptable"
        if moment.setting.volcano:
            continue
        group = moment.census.groups.get(censuses.group_of(pod), {"metadata": {}})
        if group["metadata"].get("annotations", {}).get(manifests.PREEMPTABLE) == "false":
            yield f"PROTECTED the group of {evict.pod} says that it isn't preemptable"
        if pod["metadata"]["namespace"] == "kube-system":
            yield f"PROTECTED {evict.pod} is the system's"


def queues_are_respected(moment: Moment) -> Iterable[str]:
    """Reclaim is between queues that can be reclaimed from, preempt inside of one."""
    for evict in moment.evicts:
        if evict.beneficiary is None:
            continue
        theirs = moment.census.groups[evict.beneficiary]["spec"]["queue"]
        loser = moment.census.queue_of(moment.census.pods[evict.pod])
        if loser is None:
            continue
        if evict.action == WITHIN and loser != theirs:
            yield f"OTHERS {evict.pod} of queue {loser} is preempted for {theirs}"
        if evict.action == BETWEEN and loser == theirs:
            yield f"OWN {evict.pod} is reclaimed for its own queue {theirs}"
        spec = moment.census.queues.get(loser, {"spec": {}})["spec"]
        if evict.action == BETWEEN and spec.get("reclaimable") is False:
            yield f"UNRECLAIMABLE {evict.pod} is reclaimed from queue {loser}"


def budgets_are_kept(moment: Moment) -> Iterable[str]:
    """No more pods go than each PodDisruptionBudget allows now.

    Not in Volcano's way, where a later tier may let them go; the API server then refuses.
    """
    for budget in () if moment.setting.volcano else moment.census.budgets:
        gone = [
            evict.pod
            for evict in moment.evicts
            if censuses.covers(budget, moment.census.pods[evict.pod])
        ]
        allowed = budget["status"]["disruptionsAllowed"]
        if len(gone) > allowed:
            yield f"BUDGET {budget['metadata']['name']} allows {allowed}: {', '.join(gone)}"


def nobody_goes_for_nothing(moment: Moment) -> Iterable[str]:
    """Whoever pods are evicted for is placed, and has its minimum once they are gone; or all that
    exist of its pods, if it had its minimum before.

    In Volcano's way another job may take from it in the same cycle, and pods of a job take each
    other's places one by one, whether or not it has its minimum then (Volcano: preempt commits the
    second of its two rounds without asking JobPipelined).
    """
    placed: defaultdict[str, list[Placement]] = defaultdict(list)
    for pod in (*moment.binds, *moment.pipelined):
        placed[censuses.group_of(moment.census.pods[pod.pod])].append(pod)
    for_whole_jobs = set()
    for evict in moment.evicts:
        if evict.action not in (BETWEEN, WITHIN):
            continue
        group = evict.beneficiary or ""
        if moment.setting.volcano and group == censuses.group_of(moment.census.pods[evict.pod]):
            if evict.node not in {pod.node for pod in placed[group]}:
                rule = "is evicted for its own job, of which none comes to its node"
                yield f"VAIN {evict.pod} {rule}"
        else:
            for_whole_jobs.add(group)
    for group in sorted(for_whole_jobs):
        yield from _vain(moment, group, placed[group])


def _vain(moment: Moment, group: str, placed: Sequence[Placement]) -> Iterator[str]:
    if not group:
        yield "VAIN pods are evicted for nobody"
        return
    minimum = moment.census.groups[group]["spec"]["minMember"]
    lost = [] if moment.setting.volcano else moment.lost[group]
    stay = [pod for pod in gang_rules.standing(moment, group) if pod not in lost]
    pods = [*stay, *(moment.census.pods[pod.pod] for pod in placed)]
    has = len(pods) + moment.census.gone(group)
    if not placed:
        yield f"VAIN pods are evicted for {group}, of which nothing is placed"
    elif has < minimum and (
        moment.setting.volcano or not gang_rules.is_filled_up(moment, group, pods)
    ):
        yield f"VAIN pods are evicted for {group}, which has {has} of {minimum}"
