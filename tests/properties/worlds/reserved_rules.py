"""For whom room is reserved: a sentence that says so is held against who waits where.

Where a cycle has decided nothing new, a job of equal pods is told of others just if one of its pods
would find room without them.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from tests.properties.filters_by_hand import judging as by_hand
from tests.properties.worlds import census as censuses
from tests.properties.worlds.census import Amounts
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Moment

RESERVED = re.compile(
    r"; room on (?P<nodes>\d+) nodes? is reserved for (?P<job>\S+?)"
    r"(?: and (?P<others>\d+) more jobs?)?(?=;|$)"
)
NO_ROOM = "NotEnoughResources"


def reserved_room_is_named(moment: Moment) -> Iterator[str]:
    """Each sentence of this cycle."""
    holders = _holders(moment)
    # Sentences name jobs whichever kind of PodGroup they have.
    for group, written in moment.statuses.items():
        for each in written:
            for text in each.get("told", ()):
                others = {
                    job.partition("@")[0]: nodes for job, nodes in holders.items() if job != group
                }
                found = RESERVED.search(text)
                problem = _wrong(moment, group, found, others) if found else ""
                if each.get("reason") == NO_ROOM and not problem:
                    problem = _differs(moment, group, int(found["nodes"]) if found else 0)
                if problem:
                    yield f"RESERVED {group}: {problem}; told: {text!r}"


def _holders(moment: Moment) -> dict[str, set[str]]:
    """By job, the nodes on which its pods wait, or replacements of its pods are expected."""
    found = defaultdict[str, set[str]](set)
    for each in moment.pipelined:
        found[censuses.group_of(moment.census.pods[each.pod])].add(each.node)
    undone = {censuses.group_of(moment.census.pods[each]) for each in moment.undone}
    for job in undone:
        found[job] |= set(moment.census.nodes)  # for part of the cycle
    groups = moment.census.groups
    for kept in (*moment.kept, *moment.kept_before):
        job = max((key for key in groups if kept.pod.startswith(f"{key}-")), key=len, default="")
        found[job].add(kept.node)
    return found


def _wrong(moment: Moment, group: str, found: re.Match[str], others: dict[str, set[str]]) -> str:
    if found["job"] not in others:
        return f"{found['job']} waits nowhere"
    if int(found["others"] or 0) >= len(others):
        return f"only {sorted(others)} wait anywhere"
    held = set[str]().union(*others.values())
    most = max(
        sum(_fits(moment, pod, name, alone=group) and not _bars(moment, pod, name) for name in held)
        for pod in moment.census.members[group]
        if censuses.waits(pod)
    )
    if int(found["nodes"]) > most:
        return f"at most {most} nodes would take it"
    return ""


def _differs(moment: Moment, group: str, said: int) -> str:
    """What is wrong with the number of nodes, if it is surely known; 0 if nobody is named."""
    pods = [pod for pod in moment.census.members[group] if censuses.waits(pod)]
    if moment.binds or moment.evicts or moment.undone or moment.kept or moment.kept_before:
        return ""
    if any(_named(moment, each.pod) != each.node for each in moment.pipelined):
        return ""  # it may have come after the sentence
    if len({repr(pod["spec"]) for pod in pods}) > 1 or not censuses.only_asks_for_room(pods[0]):
        return ""
    open_nodes = [name for name in moment.census.nodes if not _bars(moment, pods[0], name)]
    if any(_fits(moment, pods[0], name) for name in open_nodes):
        return ""  # some of them found a place first
    true = sum(_fits(moment, pods[0], name, alone=group) for name in open_nodes)
    return "" if said == true else f"room on {true} nodes is reserved for others"


def _named(moment: Moment, pod: str) -> str:
    return str(moment.census.pods[pod]["status"].get("nominatedNodeName", ""))


def _left(moment: Moment, node: str, *, alone: str = "") -> Amounts:
    """What the node has once those that leave are gone, beside what is reserved; alone: only for
    this job.
    """
    room = censuses.amounts(moment.census.nodes[node]["status"]["allocatable"])
    going = {each.pod for each in moment.evicts}
    for pod in moment.census.residents[node]:
        if not censuses.leaving(pod) and censuses.pod_key(pod) not in going:
            room.subtract(censuses.needed(pod, moment.census.nodes[node]))
    for each in moment.pipelined:
        pod = moment.census.pods[each.pod]
        if each.node == node and alone in ("", censuses.group_of(pod)):
            room.subtract(censuses.needed(pod, moment.census.nodes[node]))
    return room


def _fits(moment: Moment, pod: Document, node: str, *, alone: str = "") -> bool:
    """Whether the node itself has enough for it."""
    room = _left(moment, node, alone=alone)
    asked = censuses.needed(pod, moment.census.nodes[node])
    return all(amount <= room[name] for name, amount in asked.items())


def _bars(moment: Moment, pod: Document, node: str) -> bool:
    return any(by_hand.alone(pod, moment.census.nodes[node]))
