"""What queues are told: every statement is read anew, and held against the world.

A message is a list of statements: what the queue deserves of each resource, of how much, and by
which limit; nodes that nobody may use; and why reclaim makes no room for it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.properties.worlds import census as censuses
from tests.properties.worlds import manifests, placement_rules, rest_rules, sentence_rules
from tests.properties.worlds.census import Amounts, Census
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Moment
from tests.properties.worlds.sentence_case import Figure, figure, figures

N = r"[\d.]+(?:[KMGT]i)?"
WEIGHT = r"weight (?P<weight>\d+) of (?P<weights>\d+) that want more"
BOUND = (
    r"(?P<bound>all that (?:it asks|its pods that could start ask) for"
    r"|its guarantee(?:, more than it asks for)?"
    rf"|all that others leave|{WEIGHT}|its capability|its own"
    rf"|root's capability(?: is shared by weight \d+ of \d+ that want more)?)"
)
QUEUES = r"(?P<above>\S+?(?:(?:, | and )\S+?)*(?: and \d+ more)?)"
PODS = r"(?P<free>\d+) of (?P<total>\d+) pods?"
BARRED = {
    "forbid evictions": r'forbid evictions \(volcano.sh/preemptable: "false"\)',
    "young": r"haven't run for their minimum run time",
    "plugin": r"are protected by a plugin, such as conformance",
    "budget": r"are protected by PodDisruptionBudgets",
    "gang": r"belong to gangs that reclaim.wholeGangs protects",
    "share": r"hold more than their queues have to give back",
}
ANY = rf"\d+ (?:{'|'.join(BARRED.values())})"
LIST = rf"{ANY}(?:(?:, | and ){ANY})*"

seen: Counter[str] = Counter()
"""How often each kind of statement was met."""


@dataclass(frozen=True, slots=True)
class Case:
    """What one queue is told in one moment."""

    moment: Moment
    queue: str
    text: str

    @property
    def census(self) -> Census:
        """What there is."""
        return self.moment.census

    @property
    def spec(self) -> Document:
        """The Queue's."""
        spec: Document = self.census.queues.get(self.queue, {"spec": {}})["spec"]
        return spec

    @property
    def guarantee(self) -> Amounts:
        """What is kept for it."""
        return censuses.amounts(self.spec.get("guarantee", {}).get("resource", {}))

    def due(self, name: str, queue: str = "") -> float:
        """What a queue deserves."""
        return self.moment.deserved.get(queue or self.queue, {}).get(name, 0)

    def pods(self) -> Iterator[Document]:
        """Its pods that hold or want a node."""
        for pod in self.census.pods.values():
            alive = censuses.has_node(pod) and not censuses.finished(pod)
            if (alive or censuses.waits(pod)) and self.census.queue_of(pod) == self.queue:
                yield pod

    def asked(self, name: str) -> int:
        """What they ask for."""
        return sum(censuses.request(pod)[name] for pod in self.pods())

    def holds(self, queue: str) -> Amounts:
        """What a queue's own pods hold."""
        return self.census.allocated(queue)


Check = Callable[[Case, re.Match[str]], Iterable[str]]


def queues_are_told_the_truth(moment: Moment) -> Iterable[str]:
    """Each statement about each queue, in quiet moments; worlds are left aside in which volumes and
    devices decide, too, what pods can use.
    """
    if moment.census.others or not sentence_rules.is_quiet(moment):
        return
    for queue, text in moment.queue_messages.items():
        case = Case(moment, queue, text)
        for problem in _problems(case):
            yield f"SENTENCE queue {queue}: {problem}; told: {text!r}"


def _problems(case: Case) -> Iterator[str]:
    reclaim, found = False, ""
    for statement in case.text.split("; "):
        if statement.endswith("…"):  # cut
            continue
        reclaim |= statement.startswith("reclaim makes no room")
        for name, (pattern, check) in KINDS.items():
            if matched := re.fullmatch(pattern, statement):
                seen[name] += 1
                found = name
                yield from check(case, matched)
                break
        else:
            yield f"nobody knows what {statement!r} means after {found}"


def _true(_case: Case, _: re.Match[str]) -> Iterator[str]:
    yield from ()


def _share(case: Case, found: re.Match[str]) -> Iterator[str]:
    """D of U: the limit."""
    name = "cpu" if found["name"] == "CPU" else found["name"]
    due, said = case.due(name), figure(found["deserved"], name)
    if due not in said:
        yield f"it deserves {due} {name}"
    yield from _usable(case, name, figure(found["usable"], name))
    yield from _bound(case, name, said, found)


def _bound(case: Case, name: str, said: Figure, found: re.Match[str]) -> Iterator[str]:
    bound = found["bound"]
    if bound == "all that it asks for" and not _may_want_more(case):
        if case.asked(name) not in said:
            yield f"it asks for {case.asked(name)} {name}"
    elif bound == "all that its pods that could start ask for":
        if case.asked(name) <= case.due(name) and not _may_want_more(case):
            yield f"it asks for no more than {case.asked(name)} {name}"
    elif bound == "its capability":
        if _amounts(case, "capability").get(name) not in said:
            yield f"its capability is {_amounts(case, 'capability').get(name)} {name}"
    elif bound.startswith("its guarantee"):
        if said.most < case.guarantee[name] and case.guarantee[name] not in said:
            yield f"its guarantee is {case.guarantee[name]} {name}"
    elif found["weight"]:
        yield from _weights(case, int(found["weight"]), int(found["weights"]))


def _amounts(case: Case, name: str) -> Mapping[str, int]:
    return censuses.amounts(case.spec.get(name, {}))


def _weights(case: Case, weight: int, weights: int) -> Iterator[str]:
    every = [each["spec"].get("weight", 1) for each in case.census.queues.values()]
    if weight != case.spec.get("weight", 1):
        yield f"its weight is {case.spec.get('weight', 1)}"
    if not weight < weights <= sum(every):
        yield f"all weights are {sum(every)}"


def _may_want_more(case: Case) -> bool:
    """Whether something may be asked for by pods that don't exist yet, or can't be placed."""
    groups = [each for each in case.census.groups.values() if each["spec"]["queue"] == case.queue]
    return bool(case.moment.kept_before) or any("minResources" in each["spec"] for each in groups)


def _usable(case: Case, name: str, said: Figure) -> Iterator[str]:
    """No more than all nodes have, and no less than those that its pods may use. Of a closed queue
    nobody starts, so only pods with nodes count.
    """
    if case.moment.setting.volcano:
        return
    total = sum(_there(case.census, node)[name] for node in case.census.nodes)
    if said.least > total:
        yield f"all nodes have {total} {name}"
    if "proportion" not in case.moment.setting.plugins:
        return
    is_open = case.census.queues[case.queue]["status"]["state"] == "Open"
    open_nodes = {
        node
        for pod in case.pods()
        if is_open or censuses.has_node(pod)
        for node, document in case.census.nodes.items()
        if placement_rules.could_use(document, pod)
    }
    least = sum(_there(case.census, node)[name] for node in open_nodes)
    if said.most < least:
        yield f"its pods may use {least} {name}"


def _there(census: Census, node: str) -> Amounts:
    """What the node has, less what pods hold that are nobody's."""
    total = Counter(censuses.amounts(census.nodes[node]["status"]["allocatable"]))
    for pod in census.residents[node]:
        if census.queue_of(pod) not in census.queues:
            total.subtract(censuses.request(pod))
    return total


def _nowhere(case: Case, found: re.Match[str]) -> Iterator[str]:
    name = "cpu" if found["name"] == "CPU" else found["name"]
    for pod in case.pods():
        for node, document in case.census.nodes.items():
            if placement_rules.could_use(document, pod) and _there(case.census, node)[name] > 0:
                yield f"{node} has {name}"
                return


def _kept(case: Case, found: re.Match[str]) -> Iterator[str]:
    for name, said in figures(found["kept"].replace("CPU", "cpu")).items():
        if case.guarantee[name] < said.least:
            yield f"{case.guarantee[name]} {name} is its guarantee"


def _asks_for_nothing(case: Case, _: re.Match[str]) -> Iterator[str]:
    for pod in case.pods():
        if len(censuses.request(pod)) > 1:
            yield f"{censuses.pod_key(pod)} asks for something"
            return


def _unkept(case: Case, found: re.Match[str]) -> Iterator[str]:
    name = "cpu" if found["name"] == "CPU" else found["name"]
    if case.guarantee[name] not in figure(found["guarantee"], name):
        yield f"its guarantee is {case.guarantee[name]} {name}"


def _unusable(case: Case, found: re.Match[str]) -> Iterator[str]:
    for node in re.split(", | and ", found["nodes"]):
        if re.fullmatch(r"\d+ more", node):
            continue
        if node not in case.census.nodes:
            yield f"there is no {node}"
            continue
        for pod in case.census.pods.values():
            holds = censuses.has_node(pod) and not censuses.finished(pod)
            if not (holds or censuses.waits(pod)) or len(censuses.request(pod)) == 1:
                continue
            queue = case.census.queues.get(case.census.queue_of(pod) or "")
            if queue is None or not (holds or queue["status"]["state"] == "Open"):
                continue
            if placement_rules.could_use(case.census.nodes[node], pod):
                yield f"{censuses.pod_key(pod)} may use {node}"
                return


def _reclaims(case: Case, found: re.Match[str]) -> Iterator[str]:
    """Queue q has H of the D N it deserves."""
    name = found["name"]
    has, due = case.holds(case.queue)[name], case.due(name)
    if found["queue"] != case.queue:
        yield "another queue is told of"
    if has not in figure(found["has"], name):
        yield f"it has {has} {name}"
    if due not in figure(found["due"], name):
        yield f"it deserves {due} {name}"
    yield from _why(case, name, found["why"])


def _why(case: Case, name: str, why: str) -> Iterator[str]:
    others = [
        each for each in case.census.queues if each != case.queue and any(case.holds(each).values())
    ]
    open_queues = [
        each for each in others if case.census.queues[each]["spec"].get("reclaimable", True)
    ]
    for kind, (pattern, check) in WHY.items():
        if matched := re.fullmatch(pattern, why):
            seen[f"reclaim: {kind}"] += 1
            yield from check(case, name, matched, others, open_queues)
            return
    yield f"nobody knows what {why!r} means"


def _isnt_configured(
    case: Case, _name: str, _: re.Match[str], _others: Sequence[str], _open: Sequence[str]
) -> Iterator[str]:
    if "reclaim" in case.moment.setting.actions:
        yield "it is configured"


def _needs(
    case: Case, name: str, found: re.Match[str], _others: Sequence[str], _open: Sequence[str]
) -> Iterator[str]:
    said = figure(found["needs"], name)
    values = set()
    for group, document in case.census.groups.items():
        pods = [pod for pod in case.census.members[group] if censuses.waits(pod)]
        if document["spec"]["queue"] == case.queue and pods:
            ready = sum(map(censuses.counts, case.census.members[group]))
            count = max(1, document["spec"]["minMember"] - ready)
            values.add(sum(sorted(censuses.request(pod)[name] for pod in pods)[:count]))
    if not any(value in said for value in values):
        yield f"its jobs need {sorted(values)} {name}"
    if case.holds(case.queue)[name] + said.most < case.due(name):
        yield "that would be within its share"


def _all_closed(
    _: Case, _name: str, found: re.Match[str], others: Sequence[str], open_queues: Sequence[str]
) -> Iterator[str]:
    if open_queues:
        yield f"{open_queues} are reclaimable"
    if int(found.groupdict().get("others") or 1) != len(others):
        yield f"{others} have pods"


def _none_above(
    case: Case, name: str, found: re.Match[str], others: Sequence[str], open_queues: Sequence[str]
) -> Iterator[str]:
    if int(found.groupdict().get("open") or 1) != len(open_queues):
        yield f"{open_queues} have pods and are reclaimable"
    if int(found.groupdict().get("closed") or 0) != len(others) - len(open_queues):
        yield f"{len(others) - len(open_queues)} aren't reclaimable"
    for each in open_queues:
        if case.holds(each)[name] > case.due(name, each) + 1:
            yield f"{each} has {case.holds(each)[name]} {name}, and deserves {case.due(name, each)}"


def _above(
    case: Case, name: str, found: re.Match[str], _others: Sequence[str], open_queues: Sequence[str]
) -> Iterator[str]:
    named = [each for each in re.split(", | and ", found["above"]) if " more" not in each]
    for each in named:
        if each not in open_queues:
            yield f"{each} isn't reclaimable, or has no pods"
    above = [
        each
        for each in open_queues
        if any(has > case.due(other, each) + 0.5 for other, has in case.holds(each).items())
    ]
    if not found["more"] and not set(named) <= set(above):
        yield f"above what they deserve are {above}"
    surplus = sum(max(0, case.holds(each)[name] - case.due(name, each)) for each in named)
    if not found["more"] and surplus not in figure(found["surplus"], name):
        yield f"they have {surplus} {name} more"
    if not found["more"]:
        yield from _pods(case, named, case.text.rpartition(" but ")[2])


def _pods(case: Case, named: Sequence[str], text: str) -> Iterator[str]:
    """Of so many, so many may go, and are too few."""
    pods = [
        pod
        for pod in case.census.pods.values()
        if case.census.queue_of(pod) in named
        and censuses.has_node(pod)
        and not (censuses.finished(pod) or censuses.leaving(pod))
    ]
    total = re.search(r"(\d+) pods?\b", text)
    if total and int(total[1]) != len(pods):
        yield f"they have {len(pods)} pods"
    yield from _protected(case, pods, text)
    if not (found := re.search(rf"evicting those that may go, {PODS}, doesn't make enough", text)):
        return
    free = [pod for pod in pods if _may_go(case, pod)]
    if len(free) != int(found["free"]):
        return  # which of them may go is a matter of rules that other judges know
    jobs = [
        waiting
        for group, waiting in rest_rules.waiting(case.moment)
        if case.census.groups[group]["spec"]["queue"] == case.queue
    ]
    # Where gates hold pods back, Volcano's rules let the job wait for room; it isn't among these.
    if not jobs or not all(rest_rules.starts(case.moment, waiting, free) for waiting in jobs):
        return
    yield f"enough room for all its jobs would be made by {len(free)} pods"


def _protected(case: Case, pods: Sequence[Document], text: str) -> Iterator[str]:
    """So many are protected by this and that, and these and those that may go are all."""
    counts = {
        kind: int(found[1])
        for kind, pattern in BARRED.items()
        if (found := re.search(rf"(\d+) {pattern}", text))
    }
    forbid = sum(_is_forbidden(case, pod) for pod in pods)
    if counts.get("forbid evictions", forbid) != forbid:
        yield f"{forbid} forbid evictions"
    free = re.search(PODS, text)
    every = sum(counts.values()) + (int(free["free"]) if free else 0)
    if "…" not in text and counts and every != len(pods):
        yield f"these are {every} of {len(pods)} pods"


def _is_forbidden(case: Case, pod: Document) -> bool:
    """Whether an annotation forbids to evict it."""
    group = case.census.groups[censuses.group_of(pod)]
    marks = (pod["metadata"]["annotations"], group["metadata"].get("annotations", {}))
    return any(mark.get(manifests.PREEMPTABLE) == "false" for mark in marks)


def _may_go(case: Case, pod: Document) -> bool:
    """Whether nothing protects it, gangs and shares aside."""
    covered = any(censuses.covers(budget, pod) for budget in case.census.budgets)
    ours = pod["metadata"]["namespace"] == manifests.NAMESPACE
    return ours and not (covered or _is_forbidden(case, pod))


KINDS: Mapping[str, tuple[str, Check]] = {
    "deserves": (rf"(?P<deserved>{N}) of (?P<usable>{N}) usable (?P<name>\S+): {BOUND}", _share),
    "deserves also": (rf"(?P<name>\S+) (?P<deserved>{N}) of (?P<usable>{N}): {BOUND}", _share),
    "borrowed": (r"more is borrowed|raised to its guarantee", _true),
    "pinned": (rf"{N} of it on nodes that take no more pods", _true),
    "nowhere": (r"no (?P<name>\S+) on any node that its pods could use", _nowhere),
    "unkept": (
        (
            rf"its guarantee of (?P<guarantee>{N}) (?P<name>\S+) can't be kept, {N} counts"
            r"(?:: guarantees are more than there is)?"
        ),
        _unkept,
    ),
    "unusable": (r"(?P<nodes>\S+(?:(?:, | and )\S+)*(?: and \d+ more)?) not usable: .+", _unusable),
    "more unusable": (r"\d+ more nodes? not usable", _true),
    "kept": (r"(?P<kept>.+) (?:is|are) kept for it: its guarantee", _kept),
    "nothing": (r"asks for nothing(?: but places for pods)?", _asks_for_nothing),
    "reclaim": (
        (
            rf"reclaim makes no room, (?:as|though) queue (?P<queue>\S+) has (?P<has>{N}) of the "
            rf"(?P<due>{N}) (?P<name>\S+) it deserves(?:, and|:) (?P<why>.+)"
        ),
        _reclaims,
    ),
    "protected": (LIST, _true),
    "set aside": (
        r"parent \S+ of queue \S+ doesn't exist|create it, or correct spec.parent",
        _true,
    ),
}
WHY: Mapping[
    str,
    tuple[str, Callable[[Case, str, re.Match[str], Sequence[str], Sequence[str]], Iterator[str]]],
] = {
    "not configured": (r"action reclaim isn't configured", _isnt_configured),
    "needs": (rf"its job needs (?P<needs>{N}) \S+ more", _needs),
    "all closed": (
        (
            r"(?:the only other queue with pods has|all (?P<others>\d+) other queues have) "
            r"reclaimable: false"
        ),
        _all_closed,
    ),
    "none above": (
        (
            r"(?:the only other queue with pods|none of the (?P<open>\d+) other queues with pods)"
            r"(?: \((?P<closed>\d+) more (?:has|have) reclaimable: false\))? (?:doesn't have|has) "
            r"more of it than it deserves"
        ),
        _none_above,
    ),
    "above": (
        (
            rf"queues? (?P<above>\S+(?:(?:, | and )\S+)*)(?P<more> and \d+ more)? ha(?:s|ve) "
            rf"(?P<surplus>{N}) \S+ more than deserved, but (?P<pods>.+)"
        ),
        _above,
    ),
}
