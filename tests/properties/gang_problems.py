"""Random gang problems, and an exact oracle that tries every order of pods on every node.

The oracle shares no code with the search: it knows the rules from kube-scheduler's documentation,
and works on plain dictionaries.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Node:
    """A node as the oracle sees it."""

    free: list[int]
    zone: int
    """-1 without the label."""
    disk: str


@dataclass
class Pods:
    """Equal pods as the oracle sees them."""

    count: int
    request: list[int]
    disk: str = ""
    apart_by: str = ""
    """Keeps away from pods of these kinds by host or zone."""
    apart_from: frozenset[int] = frozenset()
    near_by: str = ""
    near_to: frozenset[int] = frozenset()
    spread_by: str = ""
    skew: int = 1
    port: int = 0


@dataclass
class World:
    """One problem."""

    nodes: list[Node]
    pods: list[Pods]
    least: int
    """So many pods are needed in all."""
    roles: dict[int, int] = field(default_factory=dict)
    """By kind, the least number needed."""
    queue: list[int] | None = None
    """What the queue lets all pods ask for together."""
    pools: dict[int, list[int]] = field(default_factory=dict)
    """By zone, what the queue lets pods there ask for together."""

    def size(self) -> int:
        """Return the number of pods."""
        return sum(pod.count for pod in self.pods)


def domain(world: World, by: str, row: int) -> int:
    """Return the domain of a node, -1 without."""
    return row if by == "host" else world.nodes[row].zone


Placed = list[tuple[int, int]]
"""Kind and node of each pod."""


def takes(world: World, placed: Placed, kind: int, row: int) -> bool:
    """Whether the node takes one more pod of the kind, by the rules of kube-scheduler."""
    pods, node = world.pods[kind], world.nodes[row]
    return (
        pods.disk in ("", node.disk)
        and _queue_lets(world, placed, kind)
        and _pool_lets(world, placed, kind, row)
        and _has_room(world, placed, kind, row)
        and not any(_repels(world, kind, row, other, at) for other, at in placed)
        and (not pods.near_by or _is_near(world, placed, kind, row))
        and (not pods.spread_by or _is_spread(world, placed, kind, row))
    )


def _queue_lets(world: World, placed: Placed, kind: int) -> bool:
    asked = world.pods[kind].request
    return world.queue is None or all(
        not asked[resource]
        or sum(world.pods[each].request[resource] for each, _ in [*placed, (kind, 0)]) <= most
        for resource, most in enumerate(world.queue)
    )


def _pool_lets(world: World, placed: Placed, kind: int, row: int) -> bool:
    zone, asked = world.nodes[row].zone, world.pods[kind].request
    there = [other for other, at in placed if world.nodes[at].zone == zone]
    return zone not in world.pools or all(
        not asked[resource]
        or sum(world.pods[each].request[resource] for each in [*there, kind]) <= most
        for resource, most in enumerate(world.pools[zone])
    )


def _has_room(world: World, placed: Placed, kind: int, row: int) -> bool:
    pods, here = world.pods[kind], [other for other, at in placed if at == row]
    if pods.port and any(world.pods[other].port == pods.port for other in here):
        return False
    return all(
        not asked or asked + sum(world.pods[other].request[resource] for other in here) <= free
        for resource, (asked, free) in enumerate(
            zip(pods.request, world.nodes[row].free, strict=True)
        )
    )


def _repels(world: World, kind: int, row: int, other: int, at: int) -> bool:
    for mine, whom in ((world.pods[kind], other), (world.pods[other], kind)):
        if mine.apart_by and whom in mine.apart_from:
            here = domain(world, mine.apart_by, row)
            if here >= 0 and here == domain(world, mine.apart_by, at):
                return True
    return False


def _is_near(world: World, placed: Placed, kind: int, row: int) -> bool:
    pods = world.pods[kind]
    here = domain(world, pods.near_by, row)
    wanted = [domain(world, pods.near_by, at) for other, at in placed if other in pods.near_to]
    return here >= 0 and (here in wanted or (kind in pods.near_to and not wanted))


def _is_spread(world: World, placed: Placed, kind: int, row: int) -> bool:
    pods = world.pods[kind]
    every = {
        domain(world, pods.spread_by, at)
        for at, node in enumerate(world.nodes)
        if pods.disk in ("", node.disk)
    }
    here = domain(world, pods.spread_by, row)
    counts = Counter(domain(world, pods.spread_by, at) for other, at in placed if other == kind)
    return here >= 0 and counts[here] + 1 - min(counts[each] for each in every - {-1}) <= pods.skew


def fits(world: World) -> bool:
    """Whether the gang fits: every order and every node is tried."""
    start = tuple(tuple(0 for _ in world.nodes) for _ in world.pods)
    seen, left = {start}, [start]
    while left:
        state = left.pop()
        placed = [
            (kind, row)
            for kind, counts in enumerate(state)
            for row, count in enumerate(counts)
            for _ in range(count)
        ]
        if len(placed) >= world.least and all(
            sum(state[kind]) >= least for kind, least in world.roles.items()
        ):
            return True
        for kind, pods in enumerate(world.pods):
            if sum(state[kind]) == pods.count:
                continue
            for row in range(len(world.nodes)):
                if takes(world, placed, kind, row):
                    counts = list(state[kind])
                    counts[row] += 1
                    following = (*state[:kind], tuple(counts), *state[kind + 1 :])
                    if following not in seen:
                        seen.add(following)
                        left.append(following)
    return False


def is_valid(world: World, places: Iterable[tuple[int, int]]) -> bool:
    """Whether these pods can be placed one after the other, and are enough."""
    placed: list[tuple[int, int]] = []
    for kind, row in places:
        if not takes(world, placed, kind, row):
            return False
        placed.append((kind, row))
    counts = Counter(kind for kind, _ in placed)
    return (
        all(counts[kind] <= pods.count for kind, pods in enumerate(world.pods))
        and len(placed) >= world.least
        and all(counts[kind] >= least for kind, least in world.roles.items())
    )


def draw(chance: random.Random, *, pods: int, nodes: int, rich: bool) -> World:
    """Draw a world around a random placement of about all pods, 70 to 100 % full."""
    kinds = chance.randint(2, 4)
    tight = chance.uniform(0.7, 1.0)
    table = [
        Node(
            free=[0, 0, 0],
            zone=chance.choice((0, 1, 2)) if chance.random() < 0.9 else -1,
            disk=chance.choice(("", "ssd", "hdd")),
        )
        for _ in range(nodes)
    ]
    sizes = [
        [chance.choice((1, 2, 3, 4, 6)), chance.choice((1, 2, 4, 8)), chance.choice((0, 0, 1, 2))]
        for _ in range(kinds)
    ]
    drawn = [Pods(count=0, request=size) for size in sizes]
    for _ in range(pods):
        kind = chance.randrange(kinds)
        drawn[kind].count += 1
        node = chance.choice(table)
        node.free = [a + b for a, b in zip(node.free, drawn[kind].request, strict=True)]
    for node in table:
        node.free = [int(free / tight) if chance.random() < 0.6 else free for free in node.free]
    for kind, each in enumerate(drawn):
        if chance.random() < 0.3:
            each.disk = chance.choice(("ssd", "hdd"))
        if rich:
            _constrain(chance, drawn, kind)
    world = World(nodes=table, pods=[each for each in drawn if each.count], least=0)
    if len(world.pods) != kinds:
        return draw(chance, pods=pods, nodes=nodes, rich=rich)
    world.least = world.size()
    if chance.random() < 0.2:
        world.least -= chance.randint(0, 2)
        kind = chance.randrange(kinds)
        world.roles = {kind: chance.randint(1, world.pods[kind].count)}
        world.least = max(world.least, *world.roles.values())  # else roles have no minimum
    return world


def limit(chance: random.Random, world: World) -> World:
    """Let the queue have some of the pods, of which fewer are needed."""
    kinds = range(len(world.pods))
    world.least = chance.randint(1, world.size())
    world.roles = {
        kind: chance.randint(1, world.pods[kind].count) for kind in kinds if chance.random() < 0.3
    }
    world.least = max(world.least, sum(world.roles.values()))
    wanted = [sum(pods.count * pods.request[each] for pods in world.pods) for each in range(3)]
    part = chance.uniform(0.4, 1.0)
    world.queue = [int(amount * part * chance.choice((1, 1, 1.3))) for amount in wanted]
    return world


def limit_zones(chance: random.Random, world: World) -> World:
    """Let the queue use no more of some zones than they have, or less."""
    for zone in {node.zone for node in world.nodes} - {-1}:
        free = np.sum([node.free for node in world.nodes if node.zone == zone], axis=0).tolist()
        if chance.random() < 0.7:
            world.pools[zone] = [int(most * chance.uniform(0.6, 1.1)) for most in free]
    return world


def _constrain(chance: random.Random, drawn: list[Pods], kind: int) -> None:
    each, others = drawn[kind], range(len(drawn))
    what = chance.random()
    some = frozenset(other for other in others if chance.random() < 0.4)
    by = chance.choice(("host", "zone"))
    if what < 0.25:
        each.apart_by, each.apart_from = by, some or frozenset({kind})
    elif what < 0.4:
        each.near_by, each.near_to = by, some or frozenset({kind})
    elif what < 0.55:
        each.spread_by, each.skew = by, chance.choice((1, 1, 2))
    elif what < 0.65:
        each.port = chance.choice((80, 443))


def draw_that_fits(chance: random.Random, *, pods: int, nodes: int) -> World:
    """Draw a world that a hidden placement fills to 70 to 100 %, with whatever rules it keeps."""
    while True:
        kinds = chance.randint(2, 4)
        table = [
            Node(free=[0, 0, 0], zone=chance.randrange(3), disk=chance.choice(("", "ssd")))
            for _ in range(nodes)
        ]
        drawn = [
            Pods(
                count=0,
                request=[
                    chance.choice((1, 2, 3, 4, 6)),
                    chance.choice((1, 2, 4, 8)),
                    chance.choice((0, 0, 1, 2)),
                ],
            )
            for _ in range(kinds)
        ]
        placed: Placed = []
        for _ in range(pods):
            kind, row = chance.randrange(kinds), chance.randrange(nodes)
            placed.append((kind, row))
            drawn[kind].count += 1
            asked = drawn[kind].request
            table[row].free = [a + b for a, b in zip(table[row].free, asked, strict=True)]
        if not all(each.count for each in drawn):
            continue
        tight = chance.uniform(0.7, 1.0)
        for node in table:
            node.free = [int(free / tight) if chance.random() < 0.6 else free for free in node.free]
        world = World(nodes=table, pods=drawn, least=pods)
        for each in drawn:
            _add_rules_that_hold(chance, world, each, placed)
        return world


def _add_rules_that_hold(chance: random.Random, world: World, each: Pods, placed: Placed) -> None:
    """Constrain one kind in several ways; what the placement breaks is taken back."""
    others = range(len(world.pods))
    tries = (
        {"disk": "ssd"},
        {
            "apart_by": chance.choice(("host", "zone")),
            "apart_from": frozenset(other for other in others if chance.random() < 0.5),
        },
        {
            "near_by": chance.choice(("host", "zone")),
            "near_to": frozenset(other for other in others if chance.random() < 0.5),
        },
        {"spread_by": chance.choice(("host", "zone")), "skew": chance.choice((1, 2))},
        {"port": chance.choice((80, 443))},
    )
    for settings in tries:
        if chance.random() < 0.6:
            before = {name: getattr(each, name) for name in settings}
            for name, value in settings.items():
                setattr(each, name, value)
            if in_some_order(world, placed) is None:
                for name, value in before.items():
                    setattr(each, name, value)


def in_some_order(world: World, placed: Placed) -> Placed | None:
    """Return these places in an order in which each pod may go there, if a simple one is found."""
    left: Placed = list(placed)
    done: Placed = []
    while left:
        following = next((one for one in left if takes(world, done, *one)), None)
        if following is None:
            return None
        left.remove(following)
        done.append(following)
    return done
