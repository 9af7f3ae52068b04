"""What queues may have, and what groups are told."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.properties.worlds import census as censuses
from tests.properties.worlds.census import Amounts
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Moment

LIMITING = frozenset({"proportion", "capacity"})
"""Plugins that hold queues to their capability."""

FIGURES = ("running", "succeeded", "failed")
PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")


def queues_keep_to_their_capability(moment: Moment) -> Iterable[str]:
    """What a queue is given goes only so far; a queue that is closed, or gone, is given nothing."""
    given: defaultdict[str, Amounts] = defaultdict(Counter)
    for bind in moment.binds:
        pod = moment.census.pods[bind.pod]
        given[moment.census.queue_of(pod) or ""].update(censuses.request(pod))
    for name, amounts in given.items():
        queue = moment.census.queues.get(name)
        if queue is None:
            yield f"QUEUE {name!r} isn't there, and gets pods"
            continue
        if not moment.setting.plugins & LIMITING:
            continue
        has = moment.census.allocated(name) + amounts
        for resource, limit in censuses.amounts(queue["spec"].get("capability", {})).items():
            if amounts[resource] and has[resource] > limit:
                yield f"CAPABILITY {name} has {has[resource]} {resource}, may have {limit}"


def groups_are_told_one_thing(moment: Moment) -> Iterable[str]:
    """Each group with pods has one status; one that waits below its minimum has one reason."""
    for group, document in moment.census.groups.items():
        if not moment.census.members[group]:
            continue
        told = moment.statuses.get(group, [])
        if len(told) != 1:
            yield f"STATUS {group} is told {len(told)} things"
            continue
        for problem in _muddles(moment, document, told[0]):
            yield f"STATUS {group}, {problem}"


def _muddles(moment: Moment, document: Document, status: Document) -> Iterable[str]:
    """What is wrong with the status of one group."""
    group = censuses.pod_key(document)
    if status["phase"] not in PHASES:
        yield f"phase {status['phase']!r}"
    conditions = Counter(each["type"] for each in status["conditions"])
    for name, times in conditions.items():
        if times > 1:
            yield f"condition {name} is there {times} times"
    true = {each["type"] for each in status["conditions"] if each["status"] == "True"}
    if {"Scheduled", "Unschedulable"} <= true:
        yield "is said to be both Scheduled and Unschedulable"
    members = moment.census.members[group]
    known = document["spec"]["queue"] in moment.census.queues  # else it keeps its phase
    if known:
        yield from _wrong_figures(moment, members, status)
    waiting = {censuses.pod_key(pod) for pod in members if censuses.waits(pod)}
    unbound = waiting - {bind.pod for bind in moment.binds}
    rest = unbound - {each.pod for each in moment.pipelined}
    minimum = document["spec"]["minMember"]
    if rest and "reason" not in status:
        yield f"{len(rest)} pods wait, and nobody says why"
    ended = sum(pod["status"]["phase"] == "Succeeded" for pod in members)
    gone = max(0, status["succeeded"] - ended)
    started = gone + sum(map(censuses.has_node, members))
    standing = gone + sum(map(censuses.counts, members)) + len(moment.bound[group])
    if status["phase"] == "Running" and started < minimum and known:
        yield f"is Running with {started} of {minimum}"
    if status["phase"] == "Completed" and waiting and not moment.setting.volcano:
        yield "is Completed, and pods wait"
    if unbound and standing < minimum and "Scheduled" in true:
        yield f"is Scheduled with {standing} of {minimum}"


def _wrong_figures(moment: Moment, members: Iterable[Document], status: Document) -> Iterable[str]:
    """How many run, those not counted that go, and how many have ended."""
    evicted = {evict.pod for evict in moment.evicts}
    count: Counter[str] = Counter()
    for pod in members:
        goes = censuses.leaving(pod) or censuses.pod_key(pod) in evicted
        if not goes or censuses.finished(pod):
            count[pod["status"]["phase"].lower()] += 1
    for name in FIGURES:
        remembered = name == "succeeded" and status[name] > count[name]  # pods that are gone
        if status[name] != count[name] and not remembered:
            yield f"{count[name]} are {name}, and it says {status[name]}"
