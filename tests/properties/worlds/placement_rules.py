"""Where pods may go: rules about nodes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tests.properties.filters_by_hand import judging as by_hand
from tests.properties.filters_by_hand.judging import Step
from tests.properties.filters_by_hand.worlds import State
from tests.properties.worlds import census as censuses
from tests.properties.worlds import manifests
from tests.properties.worlds.census import Amounts
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Moment

LONELY = "has nobody near"
EXCLUDING = ("NoSchedule", "NoExecute")


def pods_wait_for_a_node(moment: Moment) -> Iterable[str]:
    """Who gets a node is there, waits, is ours, and gets one; the node is there."""
    placed = [*moment.binds, *moment.pipelined]
    for name, times in Counter(each.pod for each in placed).items():
        if times > 1:
            yield f"TWICE {name} is placed {times} times"
    for each in placed:
        pod = moment.census.pods[each.pod]
        if not censuses.waits(pod) or pod["spec"]["schedulerName"] != manifests.SCHEDULER:
            yield f"WAITS {each.pod} isn't waiting for a node"
        if each.node not in moment.census.nodes:
            yield f"NODE {each.pod} goes to {each.node}, which isn't there"


def nodes_admit_their_pods(moment: Moment) -> Iterable[str]:
    """Cordons, readiness, taints, selectors and node affinity."""
    for each in (*moment.binds, *moment.pipelined):
        pod, node = moment.census.pods[each.pod], moment.census.nodes[each.node]
        for problem in refusals(pod["spec"], node):
            yield f"STATIC {each.pod} goes to {each.node}, which {problem}"


def nodes_are_not_overfull(moment: Moment) -> Iterable[str]:
    """Neither now nor once everybody has gone who goes; resources, slots and host ports.

    In Volcano's way filters aren't asked again after evictions, so that two pods may be promised
    one port, and only one of them is bound then.
    """
    evicted = {evict.pod for evict in moment.evicts}
    for later in (False, True):
        given: defaultdict[str, list[Document]] = defaultdict(list)
        for each in (*moment.binds, *moment.pipelined) if later else moment.binds:
            given[each.node].append(moment.census.pods[each.pod])
        for name, pods in given.items():
            staying = [
                pod
                for pod in moment.census.residents[name]
                if not later or not (censuses.leaving(pod) or censuses.pod_key(pod) in evicted)
            ]
            found = [*_excess(moment.census.nodes[name], staying, pods)]
            if not (later and moment.setting.volcano):
                found += _clashes(staying, pods)
            when = "once pods are gone" if later else "now"
            yield from (f"FULL {name}, {when}: {problem}" for problem in found)


def filters_hold(moment: Moment) -> Iterable[str]:
    """Every filter, affinity between pods in both directions included, by one written by hand.

    Pods for which nothing is kept may lose their company to evictions. In Volcano's way, promises
    are left aside, as filters aren't asked again after evictions; but a pod may be company to
    others that is promised its place.
    """
    placed = {bind.pod: bind.node for bind in moment.binds}
    promised = {
        each.pod: each.node for each in moment.pipelined if not (each.loose and moment.evicts)
    }
    waiting = {} if moment.setting.volcano else promised
    if not (placed or waiting):
        return
    evicted = [evict.pod for evict in moment.evicts]
    census = moment.census
    found = census.placing
    told = by_hand.judge(found, placed, waiting=waiting, evicted=evicted)
    every = {each.pod: each.node for each in moment.pipelined}
    if every and not waiting:
        with_promised = by_hand.judge(found, placed, waiting=every, evicted=evicted)
        told = [text for text in told if LONELY not in text or text in with_promised]
    for text in told:
        yield f"FILTER {text}"


def filters_held_in_turn(moment: Moment) -> Iterable[str]:
    """Spreads, and who may be the first of its kind, by the order in which pods were placed; pods
    that wait for room may come in any other.

    A plan may evict after it has placed a pod that stays where it is: who goes, goes first. Pods
    for which nothing is kept may lose by it whom they wanted to be near. In Volcano's way as long
    as nothing waits for room, or did until backfill gave it up: others may rest on it.
    """
    census = moment.census
    placed = [*moment.binds, *moment.pipelined]
    nodes = {each.pod: each for each in placed if not (each.loose and moment.evicts)}
    if moment.setting.volcano and (moment.pipelined or moment.undone):
        return
    if not any(_depends_on_order(census.pods[key]) for key in nodes):
        return
    states = dict.fromkeys(nodes, State.STAYS)
    states |= {each.pod: State.COMES for each in moment.pipelined if each.pod in nodes}
    states |= {evict.pod: State.LEAVES for evict in moment.evicts}
    gone = {evict.pod: evict for evict in moment.evicts}
    steps = [
        Step(pod=key, node=(gone.get(key) or nodes[key]).node, state=states[key])
        for key in moment.order
        if key in states
    ]
    steps.sort(key=lambda step: step.state is not State.LEAVES)
    waited = {  # for their claims, on the same nodes, since an earlier cycle
        each.pod
        for each in (moment.pipelined if census.others else ())
        if census.pods[each.pod]["status"].get("nominatedNodeName") == each.node
    }
    broken = by_hand.in_order(census.placing, steps)
    if broken and not by_hand.in_order(census.placing, by_hand.as_they_may(census.placing, steps)):
        return
    if waited and broken:  # they have kept their nodes from the start, or got them back in turn
        steps.sort(key=lambda step: step.pod not in waited)
        kept = set(by_hand.in_order(census.placing, steps))
        broken = [text for text in broken if text in kept]
    yield from (f"ORDER {text}" for text in broken)


def _depends_on_order(pod: Document) -> bool:
    spec = pod["spec"]
    return bool(
        spec.get("topologySpreadConstraints") or spec.get("affinity", {}).get("podAffinity")
    )


def _excess(
    node: Document,
    staying: Sequence[Document],
    given: Sequence[Document],
) -> Iterator[str]:
    """What the pods that it is given take too much."""
    room = censuses.amounts(node["status"]["allocatable"])
    for pod in staying:
        room.subtract(censuses.needed(pod, node))
    wanted: Amounts = Counter()
    for pod in given:
        wanted.update(censuses.needed(pod, node))
    for resource, amount in wanted.items():
        if amount > max(0, room[resource]):
            names = ", ".join(map(censuses.pod_key, given))
            yield f"{amount} {resource} of {room[resource]} for {names}"


def _clashes(staying: Sequence[Document], given: Sequence[Document]) -> Iterator[str]:
    """Host ports that a pod which it is given shares with another."""
    used = Counter(port for pod in (*staying, *given) for port in censuses.ports(pod))
    mine = {port for pod in given for port in censuses.ports(pod)}
    for port in sorted(mine):
        if used[port] > 1:
            yield f"host port {port} is used by {used[port]} pods"


def could_use(node: Document, pod: Document) -> bool:
    """Whether the node would take the pod if it were empty."""
    fits = censuses.request(pod) <= censuses.amounts(node["status"]["allocatable"])
    return fits and not any(refusals(pod["spec"], node))


def refusals(spec: Document, node: Document) -> Iterator[str]:
    """Why the node doesn't take such a pod, whoever is there."""
    if node["spec"].get("unschedulable"):
        yield "is cordoned"
    if node["status"]["conditions"][0]["status"] != "True":
        yield "isn't ready"
    for taint in node["spec"]["taints"]:
        tolerated = any(_tolerates(each, taint) for each in spec.get("tolerations", ()))
        if taint["effect"] in EXCLUDING and not tolerated:
            yield f"has taint {taint['key']}"
    labels = node["metadata"]["labels"]
    for key, value in spec.get("nodeSelector", {}).items():
        if labels.get(key) != value:
            yield f"has no label {key}={value}"
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    if required := affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
        terms = required["nodeSelectorTerms"]
        if not any(_matches(term["matchExpressions"], labels) for term in terms):
            yield "isn't one of those that its affinity allows"


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration["key"] != taint["key"]:
        return False
    return toleration["operator"] == "Exists" or bool(toleration["value"] == taint["value"])


def _matches(expressions: Iterable[Document], labels: dict[str, str]) -> bool:
    """In and NotIn, the operators that worlds have; a label that is missing is NotIn."""
    return all(
        (labels.get(document["key"]) in document["values"]) == (document["operator"] == "In")
        for document in expressions
    )
