"""The judge: is each pod allowed where it is, with all others in place?

`judge` is for whoever has a cluster and decisions. Rules whose answer depends on who came first
(spread, and who may be the first of its kind) can only be judged `in_order`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.properties.filters_by_hand import amounts, pod_affinity, selecting, worlds
from tests.properties.filters_by_hand.worlds import Instant, State, World

Document = selecting.Document

LATER_LONELY = f"({Instant.THEN.name.lower()}): has nobody near"
"""Of a pod that has company now, all of which goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a cycle decided, in the order in which it did."""

    pod: str
    """`namespace/name`."""
    node: str
    state: State
    """STAYS: it is bound; COMES: it waits for room there; LEAVES: it is evicted."""


def judge(
    documents: Iterable[Document],
    placed: Mapping[str, str],
    *,
    waiting: Mapping[str, str] | None = None,
    evicted: Collection[str] = (),
) -> list[str]:
    """Every rule that is broken once all is as decided, whatever the order was, in words.

    documents: the cluster before; placed and waiting: nodes by `namespace/name` of pods that are
    bound, and of those that wait for room; evicted: pods that go.
    """
    steps = [Step(pod=key, node="", state=State.LEAVES) for key in evicted]
    steps += [Step(pod=key, node=node, state=State.STAYS) for key, node in placed.items()]
    waits = (waiting or {}).items()
    steps += [Step(pod=key, node=node, state=State.COMES) for key, node in waits]
    return at_the_end(documents, steps, ordered=False)


def at_the_end(
    documents: Iterable[Document], steps: Collection[Step], *, ordered: bool
) -> list[str]:
    """Every rule that a pod breaks once all is as decided. ordered: nobody is the first."""
    end = worlds.world(documents)
    for step in steps:
        end = taken(end, step)
    return [text for step in steps for text in complaints(end, step, ordered=ordered)]


def in_order(documents: Collection[Document], steps: Collection[Step]) -> list[str]:
    """Every rule that a pod breaks when its turn comes, on the cluster as it is by then. Others may
    keep it company that come later.
    """
    now = worlds.world(documents)
    found: list[str] = []
    for step in steps:
        found += complaints(now, step, ordered=True)
        now = taken(now, step)
    if any(LATER_LONELY in text for text in found):
        end = set(at_the_end(documents, steps, ordered=True))
        found = [text for text in found if LATER_LONELY not in text or text in end]
    return found


def as_they_may(documents: Iterable[Document], steps: Iterable[Step]) -> list[Step]:
    """The same steps, where pods that wait for room come as soon as they may, after others if need
    be: in which order they were decided binds nobody.
    """
    now, found, late = worlds.world(documents), list[Step](), list(steps)
    while late:
        left, late = late, []
        for step in left:
            if step.state is State.COMES and any(complaints(now, step, ordered=True)):
                late.append(step)
                continue
            found.append(step)
            now = taken(now, step)
        if len(late) == len(left):
            return [*found, *late]
    return found


def taken(world: World, step: Step) -> World:
    """The world after a step."""
    if step.state is State.LEAVES:
        return world.leaving(step.pod)
    return world.put(step.pod, step.node, step.state)


def complaints(world: World, step: Step, *, ordered: bool) -> Iterator[str]:
    """What a step breaks; who is bound must be able to start, and to stay."""
    instants = {State.STAYS: (Instant.NOW, Instant.THEN), State.COMES: (Instant.THEN,)}
    pod = world.pods[step.pod]
    said = set()
    for instant in instants.get(step.state, ()):
        for text in refusals(world, pod, step.node, instant, ordered=ordered):
            if text not in said:
                said.add(text)
                yield f"{step.pod} on {step.node} ({instant.name.lower()}): {text}"


def feasible(documents: Iterable[Document], key: str) -> list[str]:
    """The nodes that would take the pod, at once or when those who leave are gone."""
    world = worlds.world(documents)
    pod = world.pods[key]
    return [
        name
        for name in sorted(world.nodes)
        if not any(refusals(world, pod, name, Instant.THEN, ordered=True))
    ]


def startable(documents: Iterable[Document], key: str) -> list[str]:
    """The nodes that would take the pod at once."""
    world = worlds.world(documents)
    pod = world.pods[key]
    return [
        name
        for name in sorted(world.nodes)
        if not any(refusals(world, pod, name, Instant.NOW, ordered=True))
    ]


def refusals(
    world: World, pod: Document, name: str, instant: Instant, *, ordered: bool
) -> Iterator[str]:
    """Why the node doesn't take the pod, filter by filter."""
    node = world.nodes.get(name)
    if node is None:
        yield "doesn't exist"
        return
    yield from alone(pod, node)
    yield from crowded(world, pod, node, instant)
    yield from unclaimed(world, pod, node, instant)
    yield from pod_affinity.too_near(world, pod, node, instant)
    yield from pod_affinity.lonely(world, pod, node, instant, first=ordered)
    if ordered:
        yield from pod_affinity.uneven(world, pod, node)


def alone(pod: Document, node: Document) -> Iterator[str]:
    """What doesn't depend on other pods. Nodes that aren't ready take no pods here, tainted or
    not; kube-scheduler leaves that to the taint.
    """
    if not selecting.is_ready(node):
        yield "isn't ready"
    if selecting.cordoned(pod, node):
        yield "is cordoned"
    for taint in selecting.untolerated(pod, node):
        yield f"has the taint {taint['key']}={taint.get('value', '')}:{taint['effect']}"
    if not selecting.wants(pod, node):
        yield "isn't what its selector or node affinity asks for"


def crowded(world: World, pod: Document, node: Document, instant: Instant) -> Iterator[str]:
    """Room, slots and ports. What a pod doesn't ask for may be overcommitted."""
    others = list(world.on(node["metadata"]["name"], worlds.key_of(pod), instant))
    has, wanted = amounts.room(node), amounts.request(pod)
    used = amounts.total(amounts.request(each) for each in others)
    for name, amount in wanted.items():
        if world.claims is not None and world.claims.stands_for(name, node):
            continue
        if used.get(name, 0) + amount > has.get(name, 0):
            text = f"{float(has.get(name, 0)):g} {name}, {float(used.get(name, 0)):g} in use"
            yield f"has {text}, and {float(amount):g} asked for"
    if len(others) + 1 > has.get(amounts.SLOTS, 0):
        yield f"has {len(others)} pods of {has.get(amounts.SLOTS, 0)}"
    ports = {port for each in others for port in selecting.host_ports(each)}
    for own in sorted(selecting.host_ports(pod)):
        if any(selecting.clash(own, port) for port in ports):
            yield f"has port {own[2]}/{own[0]} taken"


def unclaimed(world: World, pod: Document, node: Document, instant: Instant) -> Iterator[str]:
    """Volumes and devices."""
    if world.claims is None:
        return
    seats = (seat for seat, _ in world.others(worlds.key_of(pod), instant.value))
    others = [(seat.pod, seat.node) for seat in seats]
    yield from world.claims.refusals(pod, node["metadata"]["name"], others, world.living(instant))
