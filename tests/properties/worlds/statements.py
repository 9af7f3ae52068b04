"""The kinds of statements in sentences, each with a pattern and what must be true of it."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.properties.worlds import census as censuses
from tests.properties.worlds import node_statements, sentence_case
from tests.properties.worlds.census import Amounts
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.node_statements import Said
from tests.properties.worlds.sentence_case import Case, Figure, figure, figures

N = r"[\d.]+(?:[KMGT]i)?"
A = rf"(?:no|{N}) [a-z][\w./-]*"
LIST = rf"{A}(?:(?:, | and ){A})*"
KEPT = (
    rf"(?P<kept> beside the (?P<keep>{LIST}) kept for queues? (?P<keepers>.+?)"
    r" by (?:its|their) guarantees?)?"
)
STILL = rf"(?:{N} of its )?{A}"
PART = rf"({N}) ([a-z][\w./-]*) of the ({N})"
Check = Callable[[Case, re.Match[str]], Iterable[str]]

seen: Counter[str] = Counter()
"""How often each kind of statement was met, for whoever asks what is covered."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A statement: its name, its pattern, and what is wrong with it in a case."""

    name: str
    pattern: re.Pattern[str]
    check: Check


def problems(case: Case) -> Iterable[str]:
    """What isn't true of a sentence, or isn't understood."""
    said = Said()
    text = case.text.removeprefix("not admitted: ")
    for statement in text.split("; "):
        kind = node_statements.read(said, statement)
        if kind:
            seen[kind] += 1
            continue
        for each in KINDS:
            if matched := each.pattern.fullmatch(statement):
                seen[each.name] += 1
                yield from each.check(case, matched)
                break
        else:
            seen["UNKNOWN"] += 1
            yield f"nobody knows what {statement!r} means"
    yield from node_statements.problems(case, said)


def _true(_case: Case, _: re.Match[str]) -> Iterable[str]:
    return ()


def _exist(case: Case, found: re.Match[str]) -> Iterable[str]:
    """So many pods exist, failed ones aside."""
    count = sum(
        not censuses.leaving(pod) for pod in case.members if pod["status"]["phase"] != "Failed"
    )
    if int(found["has"]) != count:
        yield f"{count} pods exist"
    if int(found["minimum"]) != case.spec["minMember"]:
        yield f"minMember is {case.spec['minMember']}"


def _exist_of_role(case: Case, found: re.Match[str]) -> Iterable[str]:
    pods = [pod for pod in case.members if sentence_case.role(pod) == found["role"]]
    count = sum(pod["status"]["phase"] != "Failed" for pod in pods)
    if not count <= int(found["has"]) <= count + case.census.gone(case.group):
        yield f"{count} pods of role {found['role']} exist"
    least = case.spec.get("minTaskMember", {}).get(found["role"])
    if int(found["least"]) != least:
        yield f"minTaskMember is {least}"


def _next(case: Case, found: re.Match[str]) -> Iterable[str]:
    """One of the pods asks for this much; the resource may be the one that was just named."""
    said = figures(found["needs"])
    if not said and found["needs"] != "no resources":
        named = re.findall(r" (\S+) of the ", case.text)
        said = {named[-1]: figure(found["needs"], named[-1])}
    requests = [count(pod) for pod in case.pods for count in (_alone, _with_shared)]
    if not any(all(asked[name] in said[name] for name in said) for asked in requests):
        yield f"no pod needs {found['needs']}"


def _alone(pod: Document) -> Amounts:
    """What it asks for, devices by either name, without what it shares."""
    shared = censuses.total([pod]) - censuses.request(pod)
    return censuses.limited([pod]) - shared


def _with_shared(pod: Document) -> Amounts:
    """What it asks for, with what it shares with others that don't run yet."""
    return censuses.limited([pod])


def _smallest(case: Case, found: re.Match[str]) -> Iterable[str]:
    """No choice of as many as are missing asks for less."""
    if case.spec.keys() & {"minTaskMember", "subGroupPolicy"}:
        return
    count = max(1, case.spec["minMember"] - case.ready)
    for name, said in figures(found["needs"]).items():
        least = sentence_case.least(case.pods, name, count)
        if least not in said:
            yield f"{count} pods need {least} {name}"


def _missing(case: Case, found: re.Match[str]) -> Iterable[str]:
    count = sum(pod["status"]["phase"] != "Failed" for pod in case.members)
    lacks = case.spec["minMember"] - count
    if "minMember" in found.string and int(found["more"]) != lacks:
        yield f"{lacks} are missing"


def _have_a_place(_: Case, found: re.Match[str]) -> Iterable[str]:
    if found["placed"] and int(found["placed"]) > int(found["of"]):
        yield "more have a place than there are"


def _gated(case: Case, _: re.Match[str]) -> Iterable[str]:
    gated = [pod for pod in case.members if pod["spec"].get("schedulingGates")]
    if not gated:
        yield "no pod has a gate"


def _queue_is_missing(case: Case, found: re.Match[str]) -> Iterable[str]:
    if found["queue"] in case.census.queues or found["queue"] != case.spec["queue"]:
        yield "there is this queue, or the job names another"


def _queue_is_closed(case: Case, found: re.Match[str]) -> Iterable[str]:
    line = list(case.line(case.spec["queue"]))
    document = case.census.queues.get(found["queue"])
    if found["queue"] not in line or document is None or document["status"]["state"] == "Open":
        yield "this queue is open, or isn't one of the job's"


def _not_evicted(case: Case, _: re.Match[str]) -> Iterable[str]:
    if not any(pod["spec"].get("preemptionPolicy") == "Never" for pod in case.pods):
        yield "no pod has preemptionPolicy Never"


def _needs(case: Case, found: re.Match[str]) -> Iterable[str]:
    if int(found["count"]) not in _minima(case):
        yield f"minMember is {case.spec['minMember']}"


def _minima(case: Case) -> set[int]:
    return {case.spec["minMember"], *case.spec.get("minTaskMember", {}).values()}


def _lacks(case: Case, found: re.Match[str]) -> Iterable[str]:
    """Needs A for K more pods: K are missing, and the smallest K ask for so much."""
    count = int(found["count"])
    if count not in (case.spec["minMember"] - case.ready, *_sub_group_lacks(case)):
        yield f"{case.spec['minMember'] - case.ready} are missing"
    if bool(found["more"]) != bool(case.ready):
        yield f"{case.ready} are there"
    for name, said in figures(found["needs"]).items():
        if sentence_case.least(case.pods, name, count) not in said:
            yield f"they need {sentence_case.least(case.pods, name, count)} {name}"


def _sub_group_lacks(case: Case) -> range:
    """How many pods may be too many at once, where sub-groups start whole."""
    policies = case.spec.get("subGroupPolicy", ())
    return range(2, max((policy["subGroupSize"] for policy in policies), default=1) + 1)


def _queue_has(case: Case, found: re.Match[str]) -> Iterable[str]:
    """Queue q has A of the B it deserves and C of the D, with so many more of its pods."""
    queue = "root" if found["all"] else found["queue"]
    if queue not in list(case.line(case.spec["queue"])):
        yield f"{queue} isn't above the job"
        return
    yield from _kept(case, found)
    has, lacking = case.allocated(queue), _asked(case)
    more = int(found["placed"]) - case.ready if found["placed"] else 0
    for amount, name, limit in re.findall(PART, found["parts"]):
        choices = _sums([_alone(pod)[name] for pod in case.pods], more)
        choices |= _sums([_with_shared(pod)[name] for pod in case.pods], more)
        if not any(has[name] + choice in figure(amount, name) for choice in choices):
            yield f"queue {queue} has {has[name]} {name}" + f", {more} more pods" * bool(more)
        yield from _limit(case, found, queue, name, figure(limit, name))
        if name in lacking and has[name] + lacking[name].most < figure(limit, name).least:
            yield f"{name}: that would be within the limit"
    if found["leaves"]:
        yield from _leaves(found, has)


def _leaves(found: re.Match[str], has: Amounts) -> Iterable[str]:
    """Which leaves so much of each."""
    parts = re.findall(PART, found["parts"])
    rest = re.findall(rf"(no|{N})(?: ([a-z][\w./-]*))?(?:, | and |$)", found["leaves"])
    for (number, name), (_, part, limit) in zip(rest, parts, strict=False):
        value = max(0, sum(figure(limit, part)) / 2 - has[part])
        near = 1 if part == "cpu" else 2**20
        said = figure(number, name or part)
        if not said.least - near <= value <= said.most + near:
            yield f"{value} {part} is left"


def _asked(case: Case) -> dict[str, Figure]:
    """What the sentence says that the job, or its next pod, needs, by resource."""
    whole = re.search(rf"needs ({LIST}) for \d+ ", case.text)
    if whole:
        return figures(whole[1])
    return {}


def _sums(amounts: list[int], count: int) -> set[int]:
    """What so many of them may sum up to."""
    found = {(0, 0)}
    for amount in amounts:
        found |= {(number + 1, total + amount) for number, total in found}
    return {total for number, total in found if number == count}


def _limit(case: Case, found: re.Match[str], queue: str, name: str, said: Figure) -> Iterable[str]:
    """It deserves, may have, or there is so much."""
    kind = found["limit"]
    if kind == "it deserves":
        due = case.moment.deserved.get(queue, {}).get(name, 0)
        if due not in said:
            yield f"queue {queue} deserves {due} {name}"
    elif kind == "there are to share":
        total = _to_share(case)[name]
        if total not in said and not (case.census.others and total >= said.least):
            yield f"all nodes have {total} {name}"
    else:
        yield from _most(case, found, queue, name, said)


def _most(case: Case, found: re.Match[str], queue: str, name: str, said: Figure) -> Iterable[str]:
    """It may have so much: its capability, or what guarantees leave of the cluster."""
    limit, most = may_have(case, queue, name), capability(case, queue, name)
    if found["kept"]:
        kept = figures(found["keep"]).get(name, (0, 0))
        if limit + 1 < said.least + kept[0] and said.least + kept[0] > most:
            yield f"queue {queue} may have {limit} {name}"
    elif most in said:
        return
    elif limit not in said:
        yield f"queue {queue} may have {limit} {name}"
    elif not found.groupdict().get("small") and not any(
        _is_capped(case, found, queue, part) for part in re.findall(PART, found["parts"])
    ):
        yield f"nothing limits queue {queue} to {limit} {name}"


def _is_capped(case: Case, found: re.Match[str], queue: str, part: Sequence[str]) -> bool:
    """Whether a capability is the limit, or keeps a job from being admitted to any cluster."""
    amount, name, _ = part
    wanted = may_have(case, queue, name)
    if "small" in found.groupdict():
        asked = censuses.amounts(case.spec.get("minResources", {}))[name]
        wanted = max(wanted, figure(amount, name).most + asked - 1)
    return capability(case, queue, name) <= wanted


def may_have(case: Case, queue: str, name: str) -> float:
    """The capability, or what the guarantees of others leave of all nodes, if that is less."""
    rest = _to_share(case)[name] - sum(
        _guarantee(case, other, name) for other in _others(case, queue)
    )
    return min(rest, capability(case, queue, name))


def _to_share(case: Case) -> Amounts:
    """What all nodes have; in Volcano's way those count, too, that no pod may use."""
    return case.total(usable=not case.moment.setting.volcano)


def capability(case: Case, queue: str, name: str) -> float:
    """What the queue may have of a resource by its spec and those above it. Volcano's proportion
    knows no root.
    """
    setting = case.moment.setting
    rootless = setting.volcano and "proportion" in setting.plugins
    line = [each for each in case.line(queue) if not (rootless and each == "root")]
    specs = [case.census.queues.get(each, {"spec": {}})["spec"] for each in line]
    return min(censuses.amounts(spec.get("capability", {})).get(name, math.inf) for spec in specs)


def _guarantee(case: Case, queue: str, name: str) -> int:
    guarantee = case.census.queues[queue]["spec"].get("guarantee", {}).get("resource", {})
    return censuses.amounts(guarantee)[name]


def _others(case: Case, queue: str) -> list[str]:
    """The queues that are neither above nor below."""
    line, below = set(case.line(queue)), set(case.below(queue))
    return [queue for queue in case.census.queues if queue not in line | below]


def _kept(case: Case, found: re.Match[str]) -> Iterable[str]:
    if not found["kept"]:
        return
    names = re.split(", | and ", found["keepers"])
    if any(re.fullmatch(r"\d+ more", name) for name in names):
        return
    for name, said in figures(found["keep"]).items():
        kept = sum(_guarantee(case, each, name) for each in names if each in case.census.queues)
        if kept < said.least:
            yield f"{kept} {name} is kept for {names}"


def _at_most(case: Case, found: re.Match[str]) -> Iterable[str]:
    """Queue q may have at most A, and K pods need B."""
    queue = found["queue"]
    if queue not in list(case.line(case.spec["queue"])):
        yield f"{queue} isn't above the job"
    for name, said in figures(found["most"]).items():
        most = (may_have(case, queue, name), capability(case, queue, name))
        if not (found["kept"] or any(each in said for each in most)):
            yield f"it may have {may_have(case, queue, name)} {name}"
    if "raise" in case.text and not any(
        capability(case, queue, name) < math.inf for name in figures(found["most"])
    ):
        yield f"queue {queue} has no capability"
    if found["count"]:
        yield from _too_many(case, found, queue)


def _too_many(case: Case, found: re.Match[str], queue: str) -> Iterable[str]:
    """And K pods need B."""
    count, missing = int(found["count"]), case.spec["minMember"] - case.ready
    sized = sentence_case.sized(case.pods)
    of_sized = missing - (len(case.pods) - len(sized))
    if count not in (missing, len(sized), of_sized):
        yield f"{missing} are missing"
    if " more pod" in found[0] and not case.ready:
        yield "none are there"
    names = [name for _, name in sentence_case.AMOUNT.findall(found["most"])]
    numbers = re.findall(N, found["needs"])
    for name, number in zip(names, numbers, strict=True):
        pods = sized if count in (len(sized), of_sized) else case.pods
        least = sentence_case.least(pods, name, count)
        if least not in figure(number, name):
            yield f"they need {least} {name}"
        if least <= may_have(case, queue, name):
            yield f"which it may have of {name}"


def _asks(case: Case, found: re.Match[str]) -> Iterable[str]:
    """This job asks for A, or still for B of its A."""
    asked = censuses.amounts(case.spec.get("minResources", {}))
    parts = re.sub(rf"{N} of its ", "", found["asks"])
    if different := sentence_case.difference(figures(parts), asked):
        yield f"minResources: {different}"
    for number, name in re.findall(rf"({N}) of its {N} ([a-z][\w./-]*)", found["asks"]):
        said, lacks = figure(number, name), asked[name] - case.held[name]
        if said.least > lacks or said.most < case.least_lacking(name):
            yield f"it lacks {lacks} {name}"


def _promised(case: Case, queue: str | None) -> Amounts:
    """What groups of these queues are promised at most, and don't have."""
    total: Amounts = Counter()
    below = None if queue is None else case.below(queue)
    for group, document in case.census.groups.items():
        now = [each.get("phase", "") for each in case.moment.statuses.get(group, ())]
        if {document["status"]["phase"], *now} <= {"Pending", "Completed"}:
            continue
        if below is None or document["spec"]["queue"] in below:
            total.update(censuses.amounts(document["spec"].get("minResources", {})))
    return total


def _promised_of(case: Case, found: re.Match[str]) -> Iterable[str]:
    """Queue q uses or has reserved A of the B it may have."""
    queue = found["queue"]
    if queue not in list(case.line(case.spec["queue"])):
        yield f"{queue} isn't above the job"
        return
    asked = censuses.amounts(case.spec.get("minResources", {}))
    for amount, name, limit in re.findall(rf"({N}) ([a-z][\w./-]*) of the ({N})", found["parts"]):
        has, said = case.allocated(queue)[name], figure(amount, name)
        beyond = figures(found["beyond"] or "").get(name, Figure(0, 0))
        most = has + _promised(case, queue)[name]
        if not has - beyond.most <= said.most <= most + said.most - said.least - beyond.least:
            yield f"queue {queue} has {has} {name}, and is promised {most - has} at most"
        yield from _limit(case, found, queue, name, figure(limit, name))
        if said.most + asked[name] <= figure(limit, name).least:
            yield f"{asked[name]} {name} more would be within the limit"
        if found["small"] and capability(case, queue, name) < figure(limit, name).most:
            yield "a larger cluster would change nothing"


def _promises(case: Case, found: re.Match[str]) -> Iterable[str]:
    """Of the L that the cluster can reserve beside what runs, R is left."""
    asked = censuses.amounts(case.spec.get("minResources", {}))
    for name, said in figures(found["left"]).items():
        if asked[name] <= said.least:
            yield f"{asked[name]} {name} would be left"
    limits = figures(found["limits"])
    nodes = sorted(case.census.nodes)
    choices: Iterable[Sequence[str]] = (nodes,)
    if found["whose"] != "the cluster":
        usable = sorted({name for pod in case.pods for name in sentence_case.usable(case, pod)})
        choices = (
            some for size in range(len(usable)) for some in itertools.combinations(usable, size + 1)
        )
    if not any(_may_promise(case, some, limits) for some in choices):
        yield f"it can reserve something else than {found['limits']}"


def _may_promise(case: Case, nodes: Sequence[str], limits: Mapping[str, Figure]) -> bool:
    """Whether these nodes have so much to promise: a fifth more than they have."""
    for name, said in limits.items():
        limit = 0.0
        for node in nodes:
            has = censuses.amounts(case.census.nodes[node]["status"]["allocatable"])
            limit += has[name] * 0.2 + case.free(node)[name]
        if not said.least - 1 <= max(0.0, limit) <= said.most + 1:
            return False
    return True


def kind(name: str, pattern: str, check: Check = _true) -> Kind:
    """A kind of statement."""
    return Kind(name, re.compile(pattern), check)


HAS = (
    rf"(?:needs (?P<some>\d+) pods?; )?(?:with (?P<placed>\d+) of (?:them|its \d+ pods) )?"
    rf"(?:queue (?P<queue>\S+) has|(?P<all>all queues together) have) "
    rf"(?P<parts>{N} \S+ of the {N} (?P<limit>it deserves|(?:it|they) may have|there are to share)"
    rf"(?:(?:, | and ){N} \S+ of the {N})*){KEPT}"
    rf"(?:, which leaves (?P<leaves>.+))?"
)
KINDS = (
    kind("pods exist", r"(?P<has>\d+) of (?P<minimum>\d+) pods? exist \(minMember \d+\)", _exist),
    kind("pods missing", r"create (?P<more>\d+) more, or lower minMember", _missing),
    kind(
        "pods of sub-group exist", r"\d+ of \d+ pods? of the sub-group.* exist \(subGroupSize \d+\)"
    ),
    kind(
        "pods of role exist",
        r"(?P<has>\d+) of \d+ pods? of role (?P<role>\S+) exist"
        r" \(minTaskMember \S+: (?P<least>\d+)\)",
        _exist_of_role,
    ),
    kind(
        "sub-groups exist",
        r"\d+ of \d+ sub-groups? of policy \S+ have all their pods \(minSubGroups \d+\)",
    ),
    kind(
        "pods of a PodGroup exist",
        r"\d+ of \d+ pods? of PodGroup \S+ exist \(spec.schedulingPolicy.gang.minCount \d+\)"
        r"|PodGroup \S+ has fewer pods than its minCount"
        r"|\d+ of \d+ PodGroups of CompositePodGroup \S+ have all their pods "
        r"\(minGroupCount \d+\)",
    ),
    kind("create", r"create (\d+ more|the others)"),
    kind("set aside", r"queue \S+ is set aside(?:: | until ).+|create it, or correct spec.parent"),
    kind("gated", r"(?P<may>\d+) of (?P<minimum>\d+) pods?.* may be placed \(.*\)", _gated),
    kind("others gated", r"the others wait behind their scheduling gates"),
    kind("queue missing", r"queue (?P<queue>\S+) doesn't exist", _queue_is_missing),
    kind("queue closed", r"queue (?P<queue>\S+) isn't open", _queue_is_closed),
    kind(
        "advice",
        r"(create it|open it), or name another in (spec.queue|annotation \S+/queue-name)"
        r"|ask for less(, or (add nodes|add a larger node|raise (the|its) capability))?",
    ),
    kind(
        "never preempts",
        r"no pod is evicted for it, as its preemptionPolicy is Never",
        _not_evicted,
    ),
    kind("lacks", rf"needs (?P<needs>{LIST}) for (?P<count>\d+) (?P<more>more )?pods", _lacks),
    kind("needs pods", r"needs (?P<count>\d+) pods?", _needs),
    kind("queue has", HAS, _queue_has),
    kind("next pod", r"(?:this pod|the next one|a pod of role \S+) needs? (?P<needs>.+)", _next),
    kind("vague", r"queue \S+ (?:may not have enough pods of this gang at once|has had its share)"),
    kind(
        "smallest pods",
        rf"the smallest pods that this gang can start with need (?P<needs>{LIST})",
        _smallest,
    ),
    kind(
        "may have at most",
        rf"queue (?P<queue>\S+) may have at most (?P<most>{LIST}){KEPT}"
        r"(?:, and (?P<count>\d+) (?:more )?pods? needs? (?P<needs>.+))?",
        _at_most,
    ),
    kind(
        "asks",
        rf"this job (?:still )?asks for (?P<asks>{STILL}(?:(?:, | and ){STILL})*) \(minResources\)",
        _asks,
    ),
    kind(
        "uses or has reserved",
        r"(?P<small>the cluster is too small for )?queue (?P<queue>\S+?),?(?: which)? uses or has"
        rf" reserved (?P<parts>{N} \S+ of the {N} (?P<limit>it may have|there are to share)"
        rf"(?:(?:, | and ){N} \S+ of the {N})*){KEPT}"
        rf"(?:, besides (?P<beyond>{LIST}) that jobs have beyond their minResources)?",
        _promised_of,
    ),
    kind(
        "none to reserve",
        r"beside what runs (?:the cluster has|the nodes open to it have) no .+ left to reserve",
    ),
    kind(
        "left to reserve",
        rf"of the (?P<limits>{LIST}) that (?P<whose>the cluster|the nodes open to it) can reserve"
        rf" beside what runs, (?P<left>{LIST}) (?:is|are) left",
        _promises,
    ),
    kind(
        "waits",
        r"waits for room that pods being deleted still hold"
        r"|(?P<placed>\d+) of (?:the|its) (?P<of>\d+) pods?(?: it needs)? ha(?:s|ve) a place",
        _have_a_place,
    ),
)
