"""What a sentence says of nodes: taken together, it must be true of one state of one gang.

A gang is told of the moment at which its next pod found no node, with some of it in place. So there
must be a way of placing as many as the sentence says, after which the rest of it is true.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.properties.filters_by_hand import judging as by_hand
from tests.properties.filters_by_hand.worlds import Instant, World
from tests.properties.worlds import census as censuses
from tests.properties.worlds import rest_rules, sentence_case
from tests.properties.worlds.census import Amounts
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.sentence_case import Case, figure, figures

RESOURCE = ("Insufficient ", "Too many pods")
NUMBER = r"[\d.]+(?:[KMGT]i)?"
POD = r"(?P<count>\d+) pods? of "
ROLE = r"(?: of role (?P<role>\S+))?"
PLACES = re.compile(rf"(no|{NUMBER}) (\S+) on (\S+?)(?:,|$| and)")
UNUSABLE = (
    r'persistentvolumeclaim ".+" (?:not found|was not created for the pod)'
    r"|pod has unbound immediate PersistentVolumeClaims"
    r"|waiting for ephemeral volume controller to create the persistentvolumeclaim .+"
    r"|waiting for the controller to create the resourceclaim of entry .+"
)
CLAIMS = {
    re.compile(UNUSABLE): sentence_case.UNUSABLE,
    re.compile(
        r"had too few (?:such|free) devices of class .+|cannot allocate all claims"
        r"|can't use the devices of an allocated resourceclaim"
        r"|can't use the resourceclaim that was made for the pod's extended resources"
    ): sentence_case.DEVICES,
}
EXCUSED = ("left alone for", "starts first")
"""What only the scheduler knows: pauses after volumes that weren't made, and who starts first."""

PATTERNS = {
    "request": (
        r"(?:needs|the next one needs|a pod of role \S+ needs) "
        rf"(?:{POD})?(?P<request>no resources|{NUMBER} (?!pods?$)[a-z].*)"
    ),
    "fit": r"(?P<fit>\d+) of (?P<of>\d+) fits?",
    "room": r"(?P<fit>\d+) of (?P<of>\d+) pods? have room",
    "holes": r"the largest holes? (?:is|are) (?P<holes>.+ on \S+)",
    "none free": (
        r"no node(?P<some> that it may use now)? has (?P<names>\S+(?:(?:, | or )\S+)*) left"
        r"(?P<next> for the next pod)?"
    ),
    "available": r"0/(?P<nodes>\d+) nodes? (?:is|are) available(?: beside what is reserved)?: "
    r"(?P<causes>.+)",
    "labels": r"no node has (?P<labels>\S+=\S+(?:(?:, | and )\S+=\S+)*)",
    "selector": r"no node matches its node selector or affinity",
    "tainted": r"only nodes .+ may match its node selector",
    "only": r"there are only nodes .+",
    "unusable": rf"(?:{UNUSABLE})(?:: create it in the namespace of the pod.*)?",
    "first": r'another pod of the job, for which resourceclaim ".+" counts, starts first',
    "may use no": r"a pod of (?P<request>.+) may use no node that has (?P<none>.+)",
    "larger": (
        r"a pod of (?P<request>.+) is larger than any node it may use, the most is (?P<most>.+)"
    ),
    "empty": (
        r"the nodes that it may use have room for at most (?P<room>\d+) of (?P<of>\d+) pods?"
        rf"{ROLE}(?: of (?P<request>.+))?, even when empty"
    ),
    "no choice": r"no choice of nodes has room for all at once",
    "limited": r"no choice of pods that the queue may have finds room at once",
    "cut": r"no place was found for all at once(?: in \d+ attempts to place a pod)?",
    "blocking": r"(?P<kinds>.+) don't fit at the same time, however they are placed",
    "fewer": r"with any one fewer they would",
    "of a kind": (
        rf"(?P<pods>\d+) pods?{ROLE} with (?P<request>.+) (?:doesn't|don't) fit on the "
        r"(?P<fitting>\d+) nodes? with room for one"
    ),
    "none of a kind": rf"no node takes a pod{ROLE} with (?P<request>.+)",
    "all nodes": r"all nodes that it may use have (?P<there>.+), and it needs (?P<needed>.+)"
    r" at least",
}
COMPILED = {name: re.compile(pattern) for name, pattern in PATTERNS.items()}


@dataclass(slots=True)
class Said:
    """The statements about nodes, by kind."""

    by_kind: dict[str, re.Match[str]] = field(default_factory=dict)


def read(said: Said, statement: str) -> str:
    """The kind of the statement, if it is about nodes; it is noted."""
    for name, pattern in COMPILED.items():
        if (matched := pattern.fullmatch(statement)) and not re.search(
            r" for \d+ (more )?pods", statement
        ):
            said.by_kind[name] = matched
            return name
    return ""


def problems(case: Case, said: Said) -> Iterator[str]:
    """What isn't true of the nodes."""
    kinds = said.by_kind
    if "available" in kinds:
        yield from _available(case, kinds)
    minima = {case.spec["minMember"], *case.spec.get("minTaskMember", {}).values()}
    for name, group in (("request", "count"), ("fit", "of")):
        if name in kinds and kinds[name][group] and int(kinds[name][group]) not in minima:
            yield f"{kinds[name][group]} pods are needed"
    pods = len(case.members) + case.census.gone(case.group)
    if "room" in kinds and int(kinds["room"]["of"]) != pods:
        yield f"there are {pods} pods"
    for name, check in LASTING.items():
        if name in kinds:
            found = list(check(case, kinds[name]))
            if found and case.census.others:
                found = list(check(dataclasses.replace(case, strict=True), kinds[name]))
            yield from found


def _available(case: Case, kinds: dict[str, re.Match[str]]) -> Iterator[str]:
    """There is a state in which what is said of nodes is true for the next pod."""
    found = kinds["available"]
    if int(found["nodes"]) != len(case.census.nodes):
        yield f"there are {len(case.census.nodes)} nodes"
        return
    if any(words in found["causes"] for words in EXCUSED):
        return
    fit = kinds.get("fit") or kinds.get("room")
    request = kinds.get("request")
    placed = None if fit is None else int(fit["fit"]) - case.ready
    if fit is None and request is not None and "no choice" not in kinds:
        placed = 0
    most = case.spec["minMember"] if placed is None else placed
    why = Why()
    known = said_causes(found["causes"])
    number = 0
    for world, left in case.states(case.world(), max(0, most)):
        number += 1
        done = len(case.pods) - len(left)
        if placed is not None and done != placed:
            continue
        for pod in case.unlike(left):
            if request and not sentence_case.is_request(request["request"], pod):
                why.note(0, f"no pod of {request['request']} waits")
                continue
            if problem := _differs(case, kinds, world, pod, known):
                why.note(*problem)
            else:
                return
    if number > sentence_case.STATES_MAX:
        return
    yield why.text or f"no {placed} pods fit"


class Why:
    """The problem of the state that is nearest to what is said."""

    def __init__(self) -> None:
        self.text = ""
        self._rank = -1

    def note(self, rank: int, text: str) -> None:
        """Of a state; the higher the rank, the nearer."""
        if rank > self._rank:
            self.text, self._rank = text, rank


def said_causes(text: str) -> Counter[str]:
    """The number of nodes by cause, as a sentence lists them; of claims that aren't there or get no
    devices, in short.
    """
    found: Counter[str] = Counter()
    for part in re.split(r", (?=\d+ (?!allocated))", text):
        number, _, what = part.partition(" ")
        what = what.removeprefix("node(s) ")
        for pattern, short in CLAIMS.items():
            if pattern.fullmatch(what):
                what = short
        found[what] += int(number)
    return found


def _differs(
    case: Case,
    kinds: dict[str, re.Match[str]],
    world: World,
    pod: Document,
    said: dict[str, int],
) -> tuple[int, str] | None:
    """The first thing that isn't so in this state, and how far it was so."""
    true = sentence_case.causes(world, pod)
    open_nodes = [name for name, causes in true.items() if not causes]
    if open_nodes:
        return 1, f"{', '.join(open_nodes)} would take it"
    others = {
        name: {c for c in causes if not c.startswith(RESOURCE)} for name, causes in true.items()
    }
    barred = {name for name, causes in others.items() if causes}
    for what, number in said.items():
        if what.startswith(RESOURCE):
            most = least = sum(
                what in causes for name, causes in true.items() if name not in barred
            )
        else:
            most = sum(what in causes for causes in others.values())
            least = sum(causes == {what} for causes in others.values())
        if not least <= number <= most:
            return 2, f"{least} to {most} {what}"
    total = sum(number for what, number in said.items() if not what.startswith(RESOURCE))
    if total != len(barred):
        return 3, f"{total} nodes are told of, {len(barred)} refuse whatever is free"
    for name in set(true) - barred:
        if not true[name] <= said.keys():
            return 4, f"{name}: {true[name]}"
    free = _left(case, world, pod)
    told = _some_free(kinds, free, barred) or _other_holes(kinds, free, pod, barred)
    return (5, told) if told else None


def _left(case: Case, world: World, pod: Document) -> dict[str, Amounts]:
    """What each node has free in this state, the pod aside."""
    free = {}
    for name, document in case.census.nodes.items():
        room = censuses.amounts(document["status"]["allocatable"])
        for other in world.on(name, censuses.pod_key(pod), Instant.NOW):
            room.subtract(censuses.request(dict(other)))
        free[name] = room
    return free


def _some_free(kinds: dict[str, re.Match[str]], free: dict[str, Amounts], barred: set[str]) -> str:
    """The first node that has something free of which none is said to have any."""
    if (found := kinds.get("none free")) is None:
        return ""
    if bool(found["some"]) != bool(barred):
        return f"{len(barred)} nodes can't be used now"
    if found["next"] and not int(kinds["fit"]["fit"] if "fit" in kinds else 0):
        return "no pod is placed"
    for resource in re.split(", | or ", found["names"]):
        for name in free.keys() - barred:
            if free[name][resource] > 0:
                return f"{name} has {free[name][resource]} {resource}"
    return ""


def _other_holes(
    kinds: dict[str, re.Match[str]], free: dict[str, Amounts], pod: Document, barred: set[str]
) -> str:
    """The first largest hole that is another, or none."""
    places = PLACES.findall(kinds["holes"]["holes"]) if "holes" in kinds else ()
    for number, resource, node in places:
        if node in barred:
            return f"{node} refuses whatever is free"
        if not free[node][resource] or free[node][resource] not in figure(number, resource):
            return f"{node} has {free[node][resource]} {resource}"
        best = max(free[name][resource] for name in free if name not in barred)
        if best > free[node][resource]:
            return f"the largest is {best} {resource}"
        if best >= censuses.request(pod)[resource]:
            return f"{best} {resource} is enough"
    return ""


def large_enough(case: Case, pod: Document) -> list[str]:
    """Those that would take it if they were empty."""
    return [
        name
        for name in sentence_case.usable(case, pod)
        if sentence_case.is_large(case.census.nodes[name], pod)
    ]


def _labels(case: Case, found: re.Match[str]) -> Iterator[str]:
    wanted = dict(each.split("=") for each in re.split(", | and ", found["labels"]))
    for key, value in wanted.items():
        if any(node["metadata"]["labels"].get(key) == value for node in case.census.nodes.values()):
            yield f"a node has {key}={value}"
    if not any(wanted.items() <= pod["spec"].get("nodeSelector", {}).items() for pod in case.pods):
        yield "no pod selects that"


def _selector(case: Case, _: re.Match[str]) -> Iterator[str]:
    for pod in case.kinds():
        if not any(
            "isn't what its selector" not in " ".join(by_hand.alone(pod, node))
            for node in case.census.nodes.values()
        ):
            return
    yield "a node is what its selector asks for"


def _tainted(case: Case, _: re.Match[str]) -> Iterator[str]:
    for pod in case.kinds():
        if not sentence_case.usable(case, pod):
            return
    yield "a node may be used"


def _may_use_no(case: Case, found: re.Match[str]) -> Iterator[str]:
    names = re.split(", | and ", found["none"])
    pods = [pod for pod in case.kinds() if sentence_case.is_request(found["request"], pod)]
    if not pods:
        yield f"no pod asks for {found['request']}"
    nodes = {
        name: censuses.amounts(each["status"]["allocatable"])
        for name, each in case.census.nodes.items()
    }
    useful = [
        [at for at in sentence_case.usable(case, pod) if any(nodes[at][name] for name in names)]
        for pod in pods
    ]
    if pods and all(useful):
        yield f"it may use {useful[0][0]}"


def _larger(case: Case, found: re.Match[str]) -> Iterator[str]:
    """One of the pods that ask for this is too large; its claims may leave it fewer nodes than
    others have.
    """
    pods = [pod for pod in case.kinds() if sentence_case.is_request(found["request"], pod)]
    if not pods:
        yield f"no pod asks for {found['request']}"
        return
    wrong = [list(_is_no_larger(case, pod, found["most"])) for pod in pods]
    if all(wrong):
        yield from wrong[0]


def _is_no_larger(case: Case, pod: Document, most: str) -> Iterator[str]:
    rooms = {name: case.census.offered(name) for name in sentence_case.usable(case, pod)}
    asked = censuses.request(pod)
    if any(all(amount <= room[each] for each, amount in asked.items()) for room in rooms.values()):
        yield "it fits on an empty node"
    for number, resource, node in PLACES.findall(most):
        if node not in rooms:
            yield f"{node} can't be used"
            continue
        if rooms[node][resource] not in figure(number, resource):
            yield f"{node} has {rooms[node][resource]} {resource}"
        if max(room[resource] for room in rooms.values()) > rooms[node][resource]:
            yield f"another has more {resource}"


def _empty(case: Case, found: re.Match[str]) -> Iterator[str]:
    """So many pods fit on empty nodes at most: no way of placing one more is found, and there is a
    way of placing so many, if they are alike and only room matters to them; claims left aside,
    which may be bound or made by the time that nodes are empty. Pods that ask for nothing are taken
    to find a place.
    """
    room = int(found["room"])
    if int(found["of"]) not in {
        case.spec["minMember"],
        *case.spec.get("minTaskMember", {}).values(),
    }:
        yield f"minMember is {case.spec['minMember']}"
    if found["request"] and not case.is_request(found["request"]):
        yield f"no pod asks for {found['request']}"
    plain = bool(found["request"]) and not any(
        pod["spec"].get("affinity")
        or pod["spec"].get("topologySpreadConstraints")
        or censuses.ports(pod)
        or len(censuses.request(pod)) == 1
        for pod in case.pods
    )
    best, _ = _on_empty_nodes(case, room)
    if best > room:
        yield f"{best} fit"
    best, cut = _on_empty_nodes(dataclasses.replace(case, pods=_without_claims(case)), room)
    if best < room and plain and not cut:
        yield f"{best} fit"


def _on_empty_nodes(case: Case, room: int) -> tuple[int, bool]:
    """How many pods are found to fit, at most one more than `room`; whether the search was cut."""
    best, tried = case.ready, 0
    for _, left in case.states(case.world(empty=True), room + 1 - case.ready):
        tried += 1
        best = max(best, case.ready + len(case.pods) - len(left))
        if best > room:
            break
    return best, tried > sentence_case.STATES_MAX


def _without_claims(case: Case) -> list[Document]:
    asking = ("volumes", "resourceClaims")
    return [
        {**pod, "spec": {name: each for name, each in pod["spec"].items() if name not in asking}}
        for pod in case.pods
    ]


def _no_choice(case: Case, _: re.Match[str]) -> Iterator[str]:
    pods = dict(rest_rules.waiting(case.moment)).get(case.group)
    if pods and rest_rules.starts(case.moment, pods):
        yield "they would start on what is free"


def _of_a_kind(case: Case, found: re.Match[str]) -> Iterator[str]:
    fitting = int(found.groupdict().get("fitting") or 0)
    yield from _fit(case, found["request"], found["role"], fitting)


def _fit(case: Case, request: str, role: str | None, fitting: int) -> Iterator[str]:
    """A pod of such a kind fits on so many nodes."""
    pods = [
        pod
        for pod in case.kinds()
        if sentence_case.is_request(request, pod) and (not role or sentence_case.role(pod) == role)
    ]
    if not pods:
        yield f"no pod asks for {request}"
        return
    world = case.world()
    counts = {
        sum(not causes for causes in sentence_case.causes(world, pod).values()) for pod in pods
    }
    if fitting not in counts:
        yield f"{counts} nodes take one"


def _all_nodes(case: Case, found: re.Match[str]) -> Iterator[str]:
    """Which nodes may be used is only known to lie between those that would surely take a pod and
    those that nothing forbids, where pods have claims.
    """
    for name, said in figures(found["there"]).items():
        most, least = (
            sum(case.census.offered(node)[name] for node in nodes)
            for nodes in map(_large_for_any, (case, dataclasses.replace(case, strict=True)))
        )
        if said.most < (least if case.census.others else most) or most < said.least:
            yield f"they have {least} to {most} {name}"
        missing = case.spec["minMember"] - case.ready
        sized = sentence_case.sized(case.pods)
        of_sized = max(0, missing - (len(case.pods) - len(sized)))
        needed = {
            sentence_case.least(case.pods, name, missing),
            sentence_case.least(sized, name, of_sized),  # others may have slots of other nodes
        }
        if not any(each in figures(found["needed"]).get(name, ()) for each in needed):
            yield f"it needs {max(needed)} {name}"


def _large_for_any(case: Case) -> set[str]:
    return {name for pod in case.pods for name in large_enough(case, pod)}


def _blocking(case: Case, found: re.Match[str]) -> Iterator[str]:
    yield from _no_choice(case, found)
    kinds = rf"\d+ pods?{ROLE} with (?P<request>.+?) \((?P<fitting>\d+|no) nodes? (?:ha|takes)"
    for each in re.finditer(kinds, found["kinds"]):
        yield from _fit(
            case, each["request"], each["role"], int(each["fitting"].replace("no", "0"))
        )


def _unusable(case: Case, _: re.Match[str]) -> Iterator[str]:
    world = case.world()
    refused = (sentence_case.causes(world, pod).values() for pod in case.kinds())
    if not any(sentence_case.UNUSABLE in causes for each in refused for causes in each):
        yield "each pod has all its claims"


LASTING = {
    "unusable": _unusable,
    "labels": _labels,
    "selector": _selector,
    "tainted": _tainted,
    "only": _tainted,
    "may use no": _may_use_no,
    "larger": _larger,
    "empty": _empty,
    "no choice": _no_choice,
    "blocking": _blocking,
    "of a kind": _of_a_kind,
    "none of a kind": _of_a_kind,
    "all nodes": _all_nodes,
}
